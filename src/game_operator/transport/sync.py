"""The connections of a sync client: they send a request once and say what came of it."""

import os
import threading
import time
from typing import Any, Protocol, TypeAlias

from game_operator.protocol.exchange import Send, TransportFailed
from game_operator.protocol.http import HttpReply
from game_operator.transport.connection_reuse import LeftOverError, ReuseGuard, is_reusable, spoil
from game_operator.transport.http_library import BaseWire, Handshake, Trace, failure, gather
from game_operator.transport.own_connections import DirectClient, proxied_client


class SyncHttpClient(Protocol):
    """What this package needs of an ``httpx.Client`` or ``httpx2.Client``."""

    @property
    def headers(self) -> Any: ...
    @property
    def is_closed(self) -> bool: ...
    def send(self, request: Any, *, stream: bool = ..., follow_redirects: Any = ...) -> Any: ...
    def close(self) -> None: ...


_AnyClient: TypeAlias = DirectClient | SyncHttpClient


class Wire(BaseWire):
    """
    The connections, made at the first call in each process: building them costs more than the first ten calls.

    By process, because after a fork the parent's connections and locks are in use there and are left alone here.
    """

    _client_kind, _guard_kind = "Client", ReuseGuard
    _direct, _proxied = DirectClient, staticmethod(proxied_client)

    def __init__(self, *settings: Any) -> None:
        super().__init__(*settings)
        self._ours: dict[int, _AnyClient] = {}
        self._locks: dict[int, threading.Lock] = {}

    def send(self, step: Send, *, give_up_seconds: float) -> HttpReply | TransportFailed:
        """Send *step*'s request once; *give_up_seconds* is on the monotonic clock."""
        http_client = self._http_client()
        handshake = Handshake() if self._secure and not isinstance(http_client, DirectClient) else None
        try:
            while True:
                try:
                    return self._attempt(http_client, step, give_up_seconds, handshake)
                except LeftOverError:
                    continue  # That connection is closed, and nothing was written.
        except Exception as error:  # A transport or a hook of the user's may raise anything, after sending too.
            failed = failure(error)
            return failed if handshake is None else handshake.judged(failed)
        finally:
            if handshake is not None and handshake.unfinished is not None:
                # Other calls make a new client instead of this one, which closes when the last call is done with it.
                with self._lock():
                    if self._ours.get(os.getpid()) is http_client:
                        del self._ours[os.getpid()]

    def close(self) -> None:
        """Close what was made here in this process."""
        with self._lock():
            self._closed = True
            ours = self._ours.pop(os.getpid(), None)
        if ours is not None:
            ours.close()

    def _attempt(
        self, http_client: _AnyClient, step: Send, give_up_seconds: float, trace: Trace | None
    ) -> HttpReply | TransportFailed:
        request = self._request(http_client, step, trace, give_up_seconds)
        limit = self._read_limits.of(step.operation_name)
        response: Any = http_client.send(request, stream=True, follow_redirects=False)
        # A hook of the user's may have read it, and given the connection back.
        if getattr(response, "is_stream_consumed", False):
            return gather(response, response.content, limit)
        sound, chunks, size = False, list[bytes](), 0
        try:
            for chunk in response.stream:
                chunks.append(chunk)
                size += len(chunk)
                if size > limit:
                    break
                if time.monotonic() > give_up_seconds:
                    return TransportFailed("The body did not arrive in time", sent=True, timed_out=True)
            sound = is_reusable(response)
            return gather(response, b"".join(chunks), limit)
        finally:
            if not sound and (stream := spoil(response)) is not None:
                stream.close()
            response.close()

    def _http_client(self) -> _AnyClient:
        if self._yours is not None and not self._closed:
            self._check_yours()
            yours: SyncHttpClient = self._yours
            return yours
        pid = os.getpid()
        if pid in self._ours:
            return self._ours[pid]
        with self._lock():
            if self._closed:
                raise self._is_closed()
            if pid not in self._ours:
                self._ours[pid] = self._new_http_client()
            return self._ours[pid]

    def _lock(self) -> threading.Lock:
        # A lock that some thread held when the process forked stays locked in the child for ever.
        return self._locks.setdefault(os.getpid(), threading.Lock())
