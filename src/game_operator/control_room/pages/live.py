"""Live: every call as it happens, and each of them byte for byte."""

from collections.abc import Sequence
from typing import Final

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from game_operator.control_room.desk import Desk
from game_operator.control_room.exchanges import raw_request, raw_response, row
from game_operator.control_room.refusal import NotServedError
from game_operator.control_room.streams import EventStream, Streams, mark
from game_operator.control_room.verdict import unreachable_wallet
from game_operator.errors import GameOperatorError, TransportError
from game_operator.protocol.printable import curl_line
from game_operator.sandbox.service.exchange_log import Exchange

__all__ = ["PATH", "TITLE", "routes"]

PATH: Final = "/live"
TITLE: Final = "Live"

_SHOWN: Final = 100
_SEE_OTHER: Final = 303
_LONGEST_NUMBER: Final = 15


def routes(desk: Desk, streams: Streams) -> Sequence[Route]:
    """Return the list, its stream of events, and the page of one exchange."""
    live = _Live(desk, streams)
    return [
        Route("/live", live.newest),
        Route("/live/events", live.events),
        Route("/live/{number}", live.one),
        Route("/live/{number}/again", live.again, methods=["POST"]),
    ]


class _Live:
    def __init__(self, desk: Desk, streams: Streams) -> None:
        self._desk = desk
        self._streams = streams
        self._log = desk.sandbox.live

    async def newest(self, request: Request) -> Response:
        exchanges = self._log.recent(_SHOWN)
        seen = mark(self._log, exchanges[0].number if exchanges else 0)
        return self._desk.page(request, "live.html", rows=[row(each) for each in exchanges], seen=seen, shown=_SHOWN)

    async def events(self, request: Request) -> Response:
        if request.method == "HEAD":
            return Response(media_type=EventStream.media_type)
        # A page that was away names what it has seen last; one that is new was made with that mark.
        seen = request.headers.get("last-event-id") or request.query_params.get("seen", "")
        return EventStream(self._streams, seen, self._rows)

    async def one(self, request: Request) -> Response:
        return self._detail(request, self._asked_for(request))

    async def again(self, request: Request) -> Response:
        await self._desk.form(request)
        exchange = self._asked_for(request)
        if exchange.direction != "webhook":
            raise NotServedError(
                400, "Only what the sandbox has sent can be sent again. Use the curl line for other calls."
            )
        try:
            sent = await self._desk.done_by_wallet(self._desk.sandbox.redeliver, exchange.number)
        except TransportError as unreachable:
            problem = unreachable_wallet(exchange.url, unreachable)
            return self._detail(request, exchange, status=502, problem=problem)
        except GameOperatorError as failed:
            return self._detail(request, exchange, status=422, problem=str(failed))
        return RedirectResponse(f"/live/{sent.number}", _SEE_OTHER)

    def _detail(self, request: Request, exchange: Exchange, *, status: int = 200, problem: str = "") -> Response:
        url = exchange.url or f"http://{request.headers['host']}{exchange.path}"
        return self._desk.page(
            request,
            "exchange.html",
            status=status,
            row=row(exchange),
            raw_request=raw_request(exchange),
            raw_response=raw_response(exchange),
            curl=curl_line(exchange.method, exchange.request_headers, exchange.request_body, url),
            problem=problem,
        )

    def _asked_for(self, request: Request) -> Exchange:
        exchange = self._log.exchange(_number(request.path_params["number"]))
        if exchange is None:
            raise NotServedError(
                404, "There is no such call in the log, or no longer: it keeps the newest 1,000, of long ones fewer."
            )
        return exchange

    def _rows(self, exchanges: Sequence[Exchange]) -> str:
        return self._desk.fragment("_rows.html", rows=[row(each) for each in exchanges], fresh=True)


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _LONGEST_NUMBER else 0
