"""
Live: every call as it happens, as server-sent events, and each of them byte for byte.

A stream looks into the live log again and again, and reads the new exchanges by their numbers. So nothing waits in a
queue: a slow reader gets more at once, without those that have left the log in the meantime.

The id of an event is a mark: a number, and the run that counted it. A page that is left open while the sandbox starts
again comes back with a mark of the earlier run, and begins anew.
"""

import asyncio
import contextlib
import re
import time
from collections.abc import AsyncIterator, Sequence
from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Message, Send

from game_operator.control_room.outcomes import hint, raw_message, row, unreachable_wallet
from game_operator.control_room.page_context import Page, see_other
from game_operator.errors import GameOperatorError, TransportError
from game_operator.provider.text import curl_line
from game_operator.sandbox.service.exchange_log import Exchange

#: How many exchanges the list has, and one event carries, at most; of more, the newest.
_SHOWN: Final = 100
_NUMBER: Final = re.compile(r"[0-9]{1,15}")
_HEARTBEAT_SECONDS: Final = 15.0
#: Between two looks at the log, so that a storm of calls becomes a few events a second and not one for each call.
_PAUSE_SECONDS: Final = 0.1
#: A reader that takes nothing for so long is disconnected; the page asks again when it is back.
_MOST_SEND_SECONDS: Final = 30.0
_MARK: Final = re.compile(r"([0-9a-f]{16})-([0-9]{1,15})")


class LivePage(Page):
    """The list, its stream of events, and the page of one exchange."""

    PATH = "/live"
    TITLE = "Live"

    def routes(self) -> Sequence[Route]:  # noqa: D102 - as every page
        return [
            Route(self.PATH, self.show),
            Route(f"{self.PATH}/events", self.events),
            Route(f"{self.PATH}/{{number}}", self.one),
            Route(f"{self.PATH}/{{number}}/again", self.again, methods=["POST"]),
        ]

    async def show(self, request: Request) -> Response:
        """Show the newest calls."""
        exchanges = self._sandbox.live.recent(_SHOWN)
        seen = self._mark(exchanges[0].number if exchanges else 0)
        return self._context.page(request, "live.html", rows=[row(each) for each in exchanges], seen=seen, shown=_SHOWN)

    async def events(self, request: Request) -> Response:
        """Send calls as they happen."""
        if request.method == "HEAD":
            return Response(media_type=_EventStream.media_type)
        # A page that was away names what it has seen last; one that is new was made with that mark.
        seen = request.headers.get("last-event-id") or request.query_params.get("seen", "")
        return _EventStream(self._events(seen))

    async def one(self, request: Request) -> Response:
        """Show a call."""
        return self._detail(request, self._asked_for(request))

    async def again(self, request: Request) -> Response:
        """Deliver a webhook again."""
        await self._context.form(request)
        exchange = self._asked_for(request)
        if exchange.direction != "webhook":
            raise HTTPException(
                400, "Only what the sandbox has sent can be sent again. Use the curl line for other calls."
            )
        try:
            sent = await self._context.call_wallet(self._sandbox.redeliver, exchange.number)
        except TransportError as unreachable:
            said = unreachable_wallet(exchange.url, unreachable)
            return self._detail(request, exchange, status=502, problem=said)
        except GameOperatorError as failed:
            return self._detail(request, exchange, status=422, problem=str(failed))
        return see_other(f"{self.PATH}/{sent.number}")

    def _detail(self, request: Request, exchange: Exchange, *, status: int = 200, problem: str = "") -> Response:
        first = f"{exchange.method} {exchange.path} HTTP/1.1"
        answer = raw_message(f"HTTP/1.1 {exchange.status}", exchange.response_headers, exchange.response_body)
        url = exchange.url or f"http://{request.headers['host']}{exchange.path}"
        return self._context.page(
            request,
            "exchange.html",
            status=status,
            row=row(exchange),
            hint=hint(exchange),
            raw_request=raw_message(first, exchange.request_headers, exchange.request_body),
            raw_response=answer,
            curl=curl_line(exchange.method, exchange.request_headers, exchange.request_body, url),
            problem=problem,
        )

    def _asked_for(self, request: Request) -> Exchange:
        text: str = request.path_params["number"]
        exchange = self._sandbox.live.exchange(int(text)) if _NUMBER.fullmatch(text) else None
        if exchange is None:
            raise HTTPException(
                404, "There is no such call in the log, or no longer: it keeps the newest 1,000, of long ones fewer."
            )
        return exchange

    async def _events(self, seen: str) -> AsyncIterator[bytes]:
        """Yield events, from the mark *seen* on; one that this run did not give begins anew."""
        log, found, after = self._sandbox.live, _MARK.fullmatch(seen), 0
        if found is not None and found[1] == log.run and int(found[2]) <= log.count:
            after = int(found[2])
            yield b": connected\n\n"
        else:
            yield f"event: anew\nid: {self._mark(0)}\ndata: {log.run}\n\n".encode()
        sent_at = time.monotonic()
        while not self._context.is_stopped:
            new = [exchange for exchange in log.recent(_SHOWN) if exchange.number > after]
            if new:
                after = new[0].number
                html = self._context.fragment("_rows.html", rows=[row(each) for each in new], fresh=True)
                lines = "".join(f"data: {line}\n" for line in html.splitlines() if line.strip())
                yield f"id: {self._mark(after)}\n{lines}\n".encode(errors="backslashreplace")
                sent_at = time.monotonic()
            elif time.monotonic() - sent_at > _HEARTBEAT_SECONDS:
                yield b": still here\n\n"
                sent_at = time.monotonic()
            await asyncio.sleep(_PAUSE_SECONDS)

    def _mark(self, number: int) -> str:
        """Return the mark of a reader that has seen the exchanges up to *number*."""
        return f"{self._sandbox.live.run}-{number}"


class _EventStream(StreamingResponse):
    """Events, until the reader goes or the server stops."""

    media_type = "text/event-stream"

    async def stream_response(self, send: Send) -> None:
        """Send events for as long as there is a reader that takes them."""

        async def send_in_time(message: Message) -> None:
            async with asyncio.timeout(_MOST_SEND_SECONDS):
                await send(message)

        with contextlib.suppress(TimeoutError):
            await super().stream_response(send_in_time)
