"""The connections of a sync client: they send a request once and say what came of it."""

import os
import threading
import time
from typing import Any, Protocol

from game_operator.protocol.exchange import Send, TransportFailed
from game_operator.protocol.http import HttpReply
from game_operator.transport.own_connections import Connections, OwnClient
from game_operator.transport.wire import ALL_IN_USE, BaseWire, Progress, failure, gather, reason_of


class SyncHttpClient(Protocol):
    """What this package needs of an ``httpx.Client`` or ``httpx2.Client``."""

    @property
    def headers(self) -> Any: ...
    @property
    def is_closed(self) -> bool: ...
    def send(self, request: Any, *, stream: bool = ..., follow_redirects: Any = ...) -> Any: ...
    def close(self) -> None: ...


class Wire(BaseWire):
    """
    The connections, made at the first call in each process: what they need costs more than the first ten calls.

    By process, because after a fork the parent's connections and locks are in use there and are left alone here.
    """

    _client_kind, _own = "Client", OwnClient

    def __init__(self, *settings: Any) -> None:
        super().__init__(*settings)
        self._ours: dict[int, Connections[SyncHttpClient]] = {}
        self._locks: dict[int, threading.Lock] = {}

    def send(self, step: Send, *, give_up_seconds: float) -> HttpReply | TransportFailed:
        """Send *step*'s request once; *give_up_seconds* is on the monotonic clock."""
        if self._yours is not None and not self._closed:
            self._check_yours()
            return self._result(self._yours, step, give_up_seconds)
        try:
            connections = self._connections()
        except OSError as failed:
            return TransportFailed(reason_of(failed), sent=False)
        step.departure.may_have_left = False
        if not connections.places.acquire(timeout=step.timeout_seconds):
            return ALL_IN_USE
        if connections.is_closed:  # While this call was waiting.
            connections.places.release()
            raise self._is_closed()
        http_client, result = connections.take(fresh=step.fresh), None
        try:
            result = self._result(http_client, step, give_up_seconds)
            return result
        finally:
            is_kept = not step.fresh and isinstance(result, HttpReply)
            for each in connections.give_back(http_client, is_kept=is_kept):
                each.close()

    def close(self) -> None:
        """Close what was made here in this process."""
        with self._lock():
            self._closed = True
            ours = self._ours.pop(os.getpid(), None)
        for each in () if ours is None else ours.close():
            each.close()

    def _result(self, http_client: SyncHttpClient, step: Send, give_up_seconds: float) -> HttpReply | TransportFailed:
        progress = Progress(step.departure)
        try:
            return self._attempt(http_client, step, give_up_seconds, progress)
        except Exception as error:  # A transport or a hook of the user's may raise anything, after sending too.
            return self._named(failure(error, progress))
        finally:
            if progress.unfinished is not None:
                progress.unfinished.close()

    def _attempt(
        self, http_client: SyncHttpClient, step: Send, give_up_seconds: float, progress: Progress
    ) -> HttpReply | TransportFailed:
        request = self._request(step, progress, give_up_seconds)
        limit = self._limit_of(step.operation_name)
        response: Any = http_client.send(request, stream=True, follow_redirects=False)
        # A hook of the user's may have read it, and given the connection back.
        if getattr(response, "is_stream_consumed", False):
            return gather(response, response.content, limit, progress)
        chunks, size = list[bytes](), 0
        try:
            for chunk in response.stream:
                chunks.append(chunk)
                size += len(chunk)
                if size > limit:
                    break
                if time.monotonic() > give_up_seconds:
                    return TransportFailed("The body did not arrive in time", sent=True, timed_out=True)
            return gather(response, b"".join(chunks), limit, progress)
        finally:
            response.close()

    def _connections(self) -> Connections[SyncHttpClient]:
        pid = os.getpid()
        if pid in self._ours:
            return self._ours[pid]
        with self._lock():
            if self._closed:
                raise self._is_closed()
            if pid not in self._ours:
                self._ours[pid] = Connections(self._maker(), threading.Semaphore(self._most_connections))
            return self._ours[pid]

    def _lock(self) -> threading.Lock:
        # A lock that some thread held when the process forked stays locked in the child for ever.
        return self._locks.setdefault(os.getpid(), threading.Lock())
