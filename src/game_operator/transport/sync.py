"""The connections of a sync client: they send a request once and say what came of it."""

import os
import ssl
import threading
import time
from typing import Any, Protocol, TypeAlias

from game_operator.errors import ConfigurationError
from game_operator.protocol.exchange import Send, TransportFailed
from game_operator.protocol.http import HttpResponse
from game_operator.transport.connection_reuse import LeftOverError, ReuseGuard, YourTransport, is_reusable, spoil
from game_operator.transport.http_library import (
    FORKED_WITH_YOUR_CLIENT,
    HTTPX,
    Handshake,
    Target,
    Trace,
    check_open,
    gather,
    library_of,
    open_http_client,
)
from game_operator.transport.own_connections import DirectClient, ProxiedClient
from game_operator.transport.settings import ReadLimits


class SyncHttpClient(Protocol):
    """What this package needs of an ``httpx.Client`` or ``httpx2.Client``."""

    @property
    def headers(self) -> Any: ...
    @property
    def is_closed(self) -> bool: ...
    def send(self, request: Any, *, stream: bool = ..., follow_redirects: Any = ...) -> Any: ...
    def close(self) -> None: ...


_AnyClient: TypeAlias = DirectClient | ProxiedClient | SyncHttpClient


class Wire:
    """
    The connections, made at the first call in each process: building them costs more than the first ten calls.

    *closed_told* is what a call says after ``close``.
    """

    def __init__(
        self,
        closed_told: str,
        base_url: str,
        http_client: SyncHttpClient | None,
        ssl_context: ssl.SSLContext | None,
        trust_env: bool,
        read_limits: ReadLimits,
    ) -> None:
        self._closed_told = closed_told
        self._base_url = base_url
        self._secure = base_url.startswith("https:")
        self._ssl_context = ssl_context
        self._trust_env = trust_env
        self._read_limits = read_limits
        self._yours = http_client
        self._your_transport = None if http_client is None else YourTransport(http_client, ReuseGuard)
        self._your_process: int | None = None
        self._library = HTTPX if http_client is None else library_of(http_client, "Client")
        self._target = Target(self._library, base_url, http_client)
        # By process: after a fork, the parent's connections and locks are in use there and are left alone here.
        self._ours: dict[int, DirectClient | ProxiedClient] = {}
        self._locks: dict[int, threading.Lock] = {}
        self._closed = False

    def send(self, step: Send, *, give_up_seconds: float) -> HttpResponse | TransportFailed:
        """Send *step*'s request once; *give_up_seconds* is on the monotonic clock."""
        http_client = self._http_client()
        if not self._secure or isinstance(http_client, DirectClient):
            return self._send(http_client, step, give_up_seconds, None)
        handshake = Handshake()
        try:
            return handshake.judged(self._send(http_client, step, give_up_seconds, handshake))
        finally:
            if handshake.unfinished is not None:
                self._retire(http_client)

    def close(self) -> None:
        """Close what was made here in this process."""
        with self._lock():
            self._closed = True
            ours = self._ours.pop(os.getpid(), None)
        if ours is not None:
            ours.close()

    def _send(
        self, http_client: _AnyClient, step: Send, give_up_seconds: float, trace: Trace | None
    ) -> HttpResponse | TransportFailed:
        try:
            while True:
                try:
                    return self._attempt(http_client, step, give_up_seconds, trace)
                except LeftOverError:
                    continue  # That connection is closed, and nothing was written.
        except Exception as error:  # A transport or a hook of the user's may raise anything, after sending too.
            return self._library.failure(error)

    def _attempt(
        self, http_client: _AnyClient, step: Send, give_up_seconds: float, trace: Trace | None
    ) -> HttpResponse | TransportFailed:
        make = self._target.core_request if isinstance(http_client, DirectClient) else self._target.request
        request = make(step, trace, give_up_seconds)
        if self._your_transport is not None:
            self._your_transport.prepare(request, is_grant=step.is_grant)
        response = http_client.send(request, stream=True, follow_redirects=False)
        if response.is_stream_consumed:  # A hook of the user's has read it, and given the connection back.
            return gather(response, [response.content], len(response.content), self._limit(step))
        sound = False
        try:
            result = self._read(response, self._limit(step), give_up_seconds)
            sound = is_reusable(response)
            return result
        finally:
            if not sound and (stream := spoil(response)) is not None:
                stream.close()
            response.close()

    def _limit(self, step: Send) -> int:
        return self._read_limits.of(step.operation_name)

    def _retire(self, http_client: _AnyClient) -> None:
        """Let others make a new one instead of *http_client*, which closes when the last call is done with it."""
        with self._lock():
            if self._ours.get(os.getpid()) is http_client:
                del self._ours[os.getpid()]

    def _read(self, response: Any, limit: int, give_up_seconds: float) -> HttpResponse | TransportFailed:
        chunks: list[bytes] = []
        size = 0
        for chunk in response.stream:
            chunks.append(chunk)
            size += len(chunk)
            if size > limit:
                break
            if time.monotonic() > give_up_seconds:
                return TransportFailed("The body did not arrive in time", sent=True, timed_out=True)
        return gather(response, chunks, size, limit)

    def _http_client(self) -> _AnyClient:
        if self._closed:
            raise ConfigurationError(self._closed_told)
        if self._yours is not None:
            self._check_process()
            check_open(self._yours)
            return self._yours
        return self._ours.get(os.getpid()) or self._open()

    def _check_process(self) -> None:
        if self._your_process is None:
            self._your_process = os.getpid()
        if self._your_process != os.getpid():
            raise ConfigurationError(FORKED_WITH_YOUR_CLIENT)

    def _open(self) -> DirectClient | ProxiedClient:
        pid = os.getpid()
        with self._lock():
            if self._closed:
                raise ConfigurationError(self._closed_told)
            if pid not in self._ours:
                self._ours[pid] = open_http_client(
                    DirectClient, ProxiedClient, self._base_url, self._ssl_context, trust_env=self._trust_env
                )
            return self._ours[pid]

    def _lock(self) -> threading.Lock:
        # A lock that some thread held when the process forked stays locked in the child for ever.
        return self._locks.setdefault(os.getpid(), threading.Lock())
