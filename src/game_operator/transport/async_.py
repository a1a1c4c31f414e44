"""The connections of an async client: they send a request once and say what came of it."""

import os
import weakref
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias

import anyio
from anyio.lowlevel import checkpoint_if_cancelled, current_token

from game_operator.errors import ConfigurationError
from game_operator.protocol.exchange import Send, TransportFailed
from game_operator.protocol.http import HttpReply
from game_operator.transport.http_library import AsyncProgress, BaseWire, Progress, failure, gather, reason_of
from game_operator.transport.own_connections import own_async_client


class AsyncHttpClient(Protocol):
    """What this package needs of an ``httpx.AsyncClient`` or ``httpx2.AsyncClient``."""

    @property
    def headers(self) -> Any: ...
    @property
    def is_closed(self) -> bool: ...
    async def send(self, request: Any, *, stream: bool = ..., follow_redirects: Any = ...) -> Any: ...
    async def aclose(self) -> None: ...


#: What httpcore and TLS may have in hand, 64 KiB each, and give out before they wait for more.
_IN_HAND_BYTES: Final = 131_072

#: A process and an event loop in it.
_Home: TypeAlias = tuple[int, object]


class AsyncWire(BaseWire):
    """The connections, made at the first call on each event loop of each process."""

    _client_kind, _own = "AsyncClient", staticmethod(own_async_client)

    def __init__(self, *settings: Any) -> None:
        super().__init__(*settings)
        self._your_connections = None if self._yours is None else _Connections(self._yours)
        self._your_loop: object = None
        self._ours: dict[_Home, _Connections] = {}

    async def send(self, step: Send) -> HttpReply | TransportFailed:
        """Send *step*'s request once, within its timeout."""
        try:
            connections = self._connections() or await self._open()
        except OSError as failed:
            return TransportFailed(reason_of(failed), sent=False)
        progress = AsyncProgress()
        try:
            return await self._send(connections.http_client, step, progress)
        finally:
            if progress.unfinished is not None:
                with anyio.CancelScope(shield=True):
                    await progress.unfinished.aclose()

    async def aclose(self) -> None:
        """Close what was made here for this event loop."""
        self._closed = True
        connections = self._ours.pop(_home(), None)
        if connections is not None and connections.closing is not None:
            await connections.closing.aclose()

    def forget(self, home: _Home, http_client: AsyncHttpClient) -> None:
        """Use *http_client* no more, if it still is the one of *home*."""
        if home in self._ours and self._ours[home].http_client is http_client:
            del self._ours[home]

    async def _send(self, http_client: AsyncHttpClient, step: Send, progress: Progress) -> HttpReply | TransportFailed:
        body = _Body(self._read_limits.of(step.operation_name))
        with anyio.move_on_after(step.timeout_seconds) as scope:
            try:
                return await self._attempt(http_client, step, progress, body, scope)
            except Exception as error:  # A transport or a hook of the user's may raise anything, after sending too.
                return failure(error, progress)
        if body.size > body.limit:
            return body.gathered(progress)
        return TransportFailed("The attempt did not end in time", progress.may_have_sent(), timed_out=True)

    async def _attempt(
        self, http_client: AsyncHttpClient, step: Send, progress: Progress, body: "_Body", scope: anyio.CancelScope
    ) -> HttpReply:
        request = self._request(step, progress)
        body.response = response = await http_client.send(request, stream=True, follow_redirects=False)
        # A hook of the user's may have read it, and given the connection back.
        if getattr(response, "is_stream_consumed", False):
            return gather(response, response.content, body.limit, progress)
        try:
            async for chunk in response.stream:
                if body.take(chunk, scope):
                    await checkpoint_if_cancelled()
        finally:
            await response.aclose()
        return body.gathered(progress)

    def _connections(self) -> "_Connections | None":
        if self._closed:
            raise self._is_closed()
        home = _home()
        if self._yours is not None:
            self._check_yours()
            self._your_loop = self._your_loop or home[1]
            if self._your_loop is not home[1]:
                raise ConfigurationError(
                    "Your http_client was first used on another event loop, and its connections live there.",
                    setting="http_client",
                    remedy="Build it and this client inside the loop that uses them, or leave http_client out: then "
                    "each loop gets its own.",
                )
            return self._your_connections
        return self._ours.get(home)

    async def _open(self) -> "_Connections":
        home = _home()
        http_client: AsyncHttpClient = self._new_http_client()
        closing = _closing(http_client, weakref.ref(self), home)
        connections = self._ours[home] = _Connections(http_client, closing)
        await anext(closing)
        return connections


class _Body:
    """The body of a response while it is read, up to *limit* bytes."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.response: Any = None
        self._chunks: list[bytes] = []
        self.size = 0
        self._spare = _IN_HAND_BYTES

    def take(self, chunk: bytes, scope: anyio.CancelScope) -> bool:
        """Take the next *chunk*, cancel *scope* at the limit, and return whether a cancelled body goes on for ever."""
        self._chunks.append(chunk)
        self.size += len(chunk)
        if self.size > self.limit:
            # Leaving the loop would leave httpx's generators to the garbage collector.
            scope.cancel()
        if scope.cancel_called:
            # Some transports are not cancelled as long as the next piece is there whenever they wait for it.
            self._spare -= len(chunk)
        return self._spare < 0

    def gathered(self, progress: Progress) -> HttpReply:
        """Return the response as far as it was read."""
        return gather(self.response, b"".join(self._chunks), self.limit, progress)


@dataclass(slots=True)
class _Connections:
    """An HTTP client, and the generator that closes it if it is ours."""

    http_client: AsyncHttpClient
    closing: AsyncGenerator[None] | None = None


def _home() -> _Home:
    return os.getpid(), current_token().native_token


async def _closing(http_client: AsyncHttpClient, wire: weakref.ref[AsyncWire], home: _Home) -> AsyncGenerator[None]:
    """
    Wait to be closed, and close *http_client*.

    An event loop closes the generators that were begun on it: when it ends, and when they are dropped. So the
    connections of a client that is never closed are closed too, while their loop still runs.
    """
    try:
        yield
    finally:
        if (owner := wire()) is not None:
            owner.forget(home, http_client)
        await http_client.aclose()
