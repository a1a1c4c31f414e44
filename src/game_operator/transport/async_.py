"""The connections of an async client: they send a request once and say what came of it."""

from collections.abc import Mapping
from typing import Any, Protocol

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


class AsyncWire(BaseWire):
    """The connections, made at the first call, on whose event loop they live."""

    _client_kind, _own = "AsyncClient", AsyncOwnClient

    def __init__(self, *settings: Any) -> None:
        super().__init__(*settings)
        self._loop: object = None
        self._ours: Connections[AsyncHttpClient] | None = None

    async def send(self, step: Send) -> HttpReply | TransportFailed:
        """Send *step*'s request once, within its timeout."""
        give_up = anyio.current_time() + step.timeout_seconds
        if self._closed:
            raise self._is_closed()
        if self._yours is not None:
            self._check_yours()
        self._check_loop()
        if self._yours is not None:
            return await self._result(self._yours, step, give_up)
        try:
            connections = self._ours = self._ours or Connections(self._maker(), anyio.Semaphore(self._most_connections))
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
        """Close what was made here."""
        self._closed = True
        ours, self._ours = self._ours, None
        for each in () if ours is None else ours.close():
            await each.aclose()

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

    def _check_loop(self) -> None:
        loop = current_token().native_token
        self._loop = self._loop or loop
        if self._loop is not loop:
            raise ConfigurationError(
                f"This {self._owner} was first used on another event loop, and its connections live there.",
                remedy="Make one, and your http_client if you have one, inside each loop that uses them.",
            )


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
