"""The connections of an async client: they send a request once and say what came of it."""

import os
import weakref
from collections.abc import AsyncGenerator, Mapping
from typing import Any, Protocol, TypeAlias

import anyio
from anyio.lowlevel import current_token

from game_operator.errors import ConfigurationError
from game_operator.protocol.exchange import Send, TransportFailed
from game_operator.protocol.http import HttpReply
from game_operator.transport.own_connections import AsyncOwnClient, Connections
from game_operator.transport.wire import ALL_IN_USE, BaseWire, Progress, failure, gather, reason_of


class AsyncHttpClient(Protocol):
    """What this package needs of an ``httpx.AsyncClient`` or ``httpx2.AsyncClient``."""

    @property
    def headers(self) -> Any: ...
    @property
    def is_closed(self) -> bool: ...
    async def send(self, request: Any, *, stream: bool = ..., follow_redirects: Any = ...) -> Any: ...
    async def aclose(self) -> None: ...


#: A process and an event loop in it.
_Home: TypeAlias = tuple[int, object]


class AsyncWire(BaseWire):
    """The connections, made at the first call on each event loop of each process."""

    _client_kind, _own = "AsyncClient", AsyncOwnClient

    def __init__(self, *settings: Any) -> None:
        super().__init__(*settings)
        self._your_loop: object = None
        #: For each home its connections, and the generator that closes them.
        self._ours: dict[_Home, tuple[Connections[AsyncHttpClient], AsyncGenerator[None]]] = {}

    async def send(self, step: Send) -> HttpReply | TransportFailed:
        """Send *step*'s request once, within its timeout."""
        give_up = anyio.current_time() + step.timeout_seconds
        if self._closed:
            raise self._is_closed()
        if self._yours is not None:
            self._check_yours()
            self._check_your_loop()
            return await self._result(self._yours, step, give_up)
        try:
            connections = await self._connections()
        except OSError as failed:
            return TransportFailed(reason_of(failed), sent=False)
        step.departure.may_have_left = False
        try:
            connections.places.acquire_nowait()
        except anyio.WouldBlock:
            with anyio.move_on_after(step.timeout_seconds) as waiting:
                await connections.places.acquire()
            if waiting.cancelled_caught:
                return ALL_IN_USE
        if connections.is_closed:  # While this call was waiting.
            connections.places.release()
            raise self._is_closed()
        http_client, result = connections.take(fresh=step.fresh), None
        try:
            result = await self._result(http_client, step, give_up)
            return result
        finally:
            is_kept = not step.fresh and isinstance(result, HttpReply)
            for each in connections.give_back(http_client, is_kept=is_kept):
                with anyio.CancelScope(shield=True):
                    await each.aclose()

    async def aclose(self) -> None:
        """Close what was made here for this event loop."""
        self._closed = True
        if (ours := self._ours.pop(_home(), None)) is not None:
            await ours[1].aclose()

    def forget(self, home: _Home, connections: Connections[AsyncHttpClient]) -> None:
        """Use *connections* no more, if they still are those of *home*."""
        if home in self._ours and self._ours[home][0] is connections:
            del self._ours[home]

    async def _result(self, http_client: AsyncHttpClient, step: Send, give_up: float) -> HttpReply | TransportFailed:
        received = _Received(Progress(step.departure), self._limit_of(step.operation_name))
        with anyio.CancelScope(deadline=give_up) as scope:
            try:
                await self._receive(received, http_client, step, scope)
            except Exception as error:  # A transport or a hook of the user's may raise anything, after sending too.
                return self._named(failure(error, received.progress))
            finally:
                if received.progress.unfinished is not None:
                    with anyio.CancelScope(shield=True):
                        await received.progress.unfinished.aclose()
        if scope.cancelled_caught and not received.is_too_long:
            sent = received.progress.is_sent or not received.progress.has_connected
            late = TransportFailed("The attempt did not end in time", sent, timed_out=True)
            return self._named(late)
        return gather(received.response, b"".join(received.chunks), received.limit, received.progress)

    async def _receive(
        self, received: "_Received", http_client: AsyncHttpClient, step: Send, scope: anyio.CancelScope
    ) -> None:
        async def trace(event: str, info: Mapping[str, Any]) -> None:  # As httpcore asks.
            received.progress(event, info)

        request = self._request(step, trace)
        received.response = response = await http_client.send(request, stream=True, follow_redirects=False)
        # A hook of the user's may have read it, and given the connection back.
        if getattr(response, "is_stream_consumed", False):
            received.chunks.append(response.content)
            return
        try:
            async for chunk in response.stream:
                received.chunks.append(chunk)
                received.size += len(chunk)
                if received.is_too_long:
                    # Leaving the loop would leave httpx's generators to the garbage collector.
                    scope.cancel()
        finally:
            await response.aclose()

    def _check_your_loop(self) -> None:
        loop = current_token().native_token
        self._your_loop = self._your_loop or loop
        if self._your_loop is not loop:
            raise ConfigurationError(
                "Your http_client was first used on another event loop, and its connections live there.",
                setting="http_client",
                remedy="Build it and this client inside the loop that uses them, or leave http_client out: then "
                "each loop gets its own.",
            )

    async def _connections(self) -> Connections[AsyncHttpClient]:
        home = _home()
        if home not in self._ours:
            connections = Connections(self._maker(), anyio.Semaphore(self._most_connections))
            closing = _closing(connections, weakref.ref(self), home)
            self._ours[home] = connections, closing
            await anext(closing)
        return self._ours[home][0]


class _Received:
    """What has been received of a response so far; of its body up to *limit* bytes and a little more."""

    def __init__(self, progress: Progress, limit: int) -> None:
        self.progress, self.limit = progress, limit
        self.response: Any = None
        self.chunks: list[bytes] = []
        self.size = 0

    @property
    def is_too_long(self) -> bool:
        return self.size > self.limit


def _home() -> _Home:
    return os.getpid(), current_token().native_token


async def _closing(
    connections: Connections[AsyncHttpClient], wire: weakref.ref[AsyncWire], home: _Home
) -> AsyncGenerator[None]:
    """
    Wait to be closed, and close *connections*.

    An event loop closes the generators that were begun on it: when it ends, and when they are dropped. So the
    connections of a client that is never closed are closed too, while their loop still runs.
    """
    try:
        yield
    finally:
        if (owner := wire()) is not None:
            owner.forget(home, connections)
        for each in connections.close():
            await each.aclose()
