"""
Live: every call as it happens, as server-sent events, and each of them byte for byte.

A stream looks into the live log again and again, and reads the new exchanges by their numbers. So nothing waits in a
queue: a slow reader gets more at once, without those that have left the log in the meantime.

The id of an event is a mark: a number, and the run that counted it. A page that is left open while the sandbox starts
again comes back with a mark of the earlier run, and begins anew.

The log has up to a thousand calls and 64 MiB. A list shows what was read of each when it was recorded, and parses no
body.
"""

import asyncio
import re
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import replace
from typing import ClassVar, Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from game_operator.errors import GameOperatorError, TransportError
from game_operator_testkit.control_room.call_page import call_values
from game_operator_testkit.control_room.live_export import json_document, json_lines, without_signatures
from game_operator_testkit.control_room.live_filters import (
    API_CALLS,
    DISAGREES,
    KEY_REFUSED,
    LOST,
    MARK,
    OPERATIONS,
    SEARCHED_BYTES,
    UNREADABLE,
    LiveFilter,
    answers,
    read_filter,
)
from game_operator_testkit.control_room.outcomes import ExchangeRow, row, unreachable_wallet
from game_operator_testkit.control_room.page_context import LOOKED_THROUGH, Page, see_other
from game_operator_testkit.control_room.two_calls import compared
from game_operator_testkit.sandbox.service.exchange_log import Exchange

#: How many rows a page of the list has at most, and how many one event; of more, the newest.
_ON_A_PAGE: Final = 50
_SHOWN: Final = 100
_NUMBER: Final = re.compile(r"[0-9]{1,15}", re.ASCII)
_HEARTBEAT_SECONDS: Final = 15.0
#: Between two looks at the log, so that a storm of calls becomes a few events a second and not one for each call.
_PAUSE_SECONDS: Final = 0.1
_EVENTS: Final = "text/event-stream"
#: What needs a look: its colour, and the sentence with how many there are, and an s if there are several.
_ALERTS: Final = {
    LOST: ("warn", "{0:,} call{1} got no answer"),
    DISAGREES: ("bad", "{0:,} answer{1} with a balance that disagrees"),
    KEY_REFUSED: ("bad", "{0:,} call{1} with a right signature, and the wallet answered INVALID_SIGNATURE"),
    "accepted": ("bad", "{0:,} call{1} accepted that must be refused"),
    UNREADABLE: ("bad", "{0:,} answer{1} that cannot be read as a reply"),
}


class LivePage(Page):
    """The list with its filters, its stream of events, its files, and the page of one exchange."""

    PATH: ClassVar[str] = "/live"
    TITLE: ClassVar[str] = "Live"

    def routes(self) -> Sequence[Route]:  # noqa: D102 - as every page
        return [
            Route(self.PATH, self.show),
            Route(f"{self.PATH}/events", self.events),
            Route(f"{self.PATH}.json", self.document),
            Route(f"{self.PATH}/export", self.export),
            Route(f"{self.PATH}/clear", self.clear),
            Route(f"{self.PATH}/compare", self.compare),
            Route(f"{self.PATH}/{{number:int}}", self.one),
            *(Route(f"{self.PATH}/{{number:int}}/{part}", self.body) for part in ("request", "answer")),
            Route(f"{self.PATH}/{{number:int}}/again", self.again, methods=["POST"]),
        ]

    async def show(self, request: Request) -> Response:
        """Show the newest calls, or those before a number, as far as the filter admits them."""
        asked = self._asked(request)
        kept = self._sandbox.live.recent(LOOKED_THROUGH)
        wrong = self._sandbox.service.balances.mistakes()
        rows = [row(each) for each in kept if each.number > asked.after_number]
        found = [each for each in rows if asked.admits(each, wrong)]
        before = self._before(request)
        rest = [each for each in found if not before or each.exchange.number < before]
        seen = Counter(answer for each in rows for answer in answers(each, wrong))
        counted = ((answer, seen[answer], *alert) for answer, alert in _ALERTS.items() if seen[answer])
        faults = {fault for each in rows for fault in each.exchange.faults}
        return self._context.page(
            request,
            "live.html",
            asked=asked,
            earlier=replace(asked, after="").query,
            choices={"call": {*OPERATIONS, API_CALLS}, "answer": set(seen), "fault": faults},
            searched_kib=SEARCHED_BYTES // 1024,
            alerts=[(answer, tone, said.format(n, "" if n == 1 else "s")) for answer, n, tone, said in counted],
            rows=rest[:_ON_A_PAGE],
            wrong=wrong,
            key_refused=KEY_REFUSED,
            counted=_counted(len(found), len(rows)),
            before=before,
            older=rest[_ON_A_PAGE - 1].exchange.number if len(rest) > _ON_A_PAGE else 0,
            seen=self._mark(kept[0].number if kept else 0),
            shown=_SHOWN,
        )

    async def events(self, request: Request) -> Response:
        """Send calls as they happen, as far as the filter admits them."""
        if request.method == "HEAD":
            return Response(media_type=_EVENTS)
        # A page that was away names what it has seen last; one that is new was made with that mark.
        seen = request.headers.get("last-event-id") or request.query_params.get("seen", "")
        return StreamingResponse(self._events(seen, self._asked(request)), media_type=_EVENTS)

    async def export(self, request: Request) -> Response:
        """Send the calls that the filter admits as a file of JSON lines."""
        rows = self._written(request)
        attachment = {"content-disposition": 'attachment; filename="calls.jsonl"'}
        return StreamingResponse(json_lines(rows), headers=attachment, media_type="application/x-ndjson")

    async def document(self, request: Request) -> Response:
        """Send the calls that the filter admits as a JSON document, for a program."""
        return StreamingResponse(json_document(self._written(request)), media_type="application/json")

    def _written(self, request: Request) -> Iterator[ExchangeRow]:
        """Return the calls that the filter admits, the newest first, with signatures only if they are asked for."""
        found = self._admitted(self._asked(request), self._sandbox.live.recent(LOOKED_THROUGH))
        if request.query_params.get("with_signatures") == "1":
            return iter(found)
        header = self._sandbox.service.profile.signature_header
        return (row(without_signatures(each.exchange, header)) for each in found)

    async def clear(self, request: Request) -> Response:
        """Begin the list with what comes from now on; nothing is deleted."""
        asked = replace(self._asked(request), after=self._mark(self._sandbox.live.count))
        return see_other(f"{self.PATH}?{asked.query}")

    async def one(self, request: Request) -> Response:
        """Show a call."""
        return self._detail(request, self._asked_for(request))

    async def compare(self, request: Request) -> Response:
        """Show two calls side by side, the older one left."""
        numbers = sorted({int(text) for text in request.query_params.getlist("call") if _NUMBER.fullmatch(text)})
        found = [each for each in map(self._sandbox.live.exchange, numbers) if each is not None]
        if len(found) != 2:
            raise HTTPException(400, "Tick two calls of the list, which are still in the log, and press Compare.")
        return self._context.page(request, "two_calls.html", rows=[row(each) for each in found], parts=compared(*found))

    async def body(self, request: Request) -> Response:
        """Send the body of a call's request or answer as a file."""
        exchange, part = self._asked_for(request), request.url.path.rpartition("/")[2]
        body = exchange.request_body if part == "request" else exchange.response_body
        attachment = {"content-disposition": f'attachment; filename="call-{exchange.number}-{part}.txt"'}
        # No browser takes it for a page of ours, whatever is in it.
        return Response(body, headers=attachment, media_type="application/octet-stream")

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
            said = unreachable_wallet(self._sandbox, unreachable)
            return self._detail(request, exchange, status=502, problem=said)
        except GameOperatorError as failed:
            return self._detail(request, exchange, status=422, problem=str(failed))
        return see_other(f"{self.PATH}/{sent.number}")

    def _detail(self, request: Request, exchange: Exchange, *, status: int = 200, problem: str = "") -> Response:
        values = call_values(self._sandbox, exchange, host=request.headers["host"])
        return self._context.page(request, "exchange.html", status=status, problem=problem, **values)

    def _asked_for(self, request: Request) -> Exchange:
        exchange = self._sandbox.live.exchange(request.path_params["number"])
        if exchange is None:
            raise HTTPException(
                404, "There is no such call in the log, or no longer: it keeps the newest 1,000, of long ones fewer."
            )
        return exchange

    def _asked(self, request: Request) -> LiveFilter:
        return read_filter(request.query_params, run=self._sandbox.live.run)

    def _before(self, request: Request) -> int:
        text = request.query_params.get("before", "")
        return int(text) if _NUMBER.fullmatch(text) else 0

    async def _events(self, seen: str, asked: LiveFilter) -> AsyncIterator[bytes]:
        """Yield events, from the mark *seen* on; one that this run did not give begins anew."""
        log, found, after = self._sandbox.live, MARK.fullmatch(seen), 0
        if found is not None and found[1] == log.run and int(found[2]) <= log.count:
            after = int(found[2])
            yield b": connected\n\n"
        else:
            yield f"event: anew\nid: {self._mark(0)}\ndata: {log.run}\n\n".encode()
        sent_at = time.monotonic()
        while not self._context.is_stopped:
            event = b""
            new = log.since(max(after, asked.after_number))
            # Each call is looked at once: a search through a thousand of them, ten times a second, is not cheap.
            after = new[0].number if new else after
            if admitted := self._admitted(asked, new):
                event = self._event(admitted[:_SHOWN], asked)
            elif time.monotonic() - sent_at > _HEARTBEAT_SECONDS:
                event = b": still here\n\n"
            if event:
                yield event
                sent_at = time.monotonic()
            await asyncio.sleep(_PAUSE_SECONDS)

    def _admitted(self, asked: LiveFilter, exchanges: Sequence[Exchange]) -> list[ExchangeRow]:
        """Return those of *exchanges* that *asked* admits, in their order."""
        wrong = self._sandbox.service.balances.mistakes() if exchanges and asked.answer else {}
        return [each for each in map(row, exchanges) if asked.admits(each, wrong)]

    def _event(self, new: Sequence[ExchangeRow], asked: LiveFilter) -> bytes:
        """Return an event that carries *new* rows, and how many calls the list has now."""
        kept = self._sandbox.live.since(asked.after_number)
        html = self._context.fragment(
            "rows.html",
            rows=new,
            on_live=True,
            fresh=True,
            wrong=self._sandbox.service.balances.mistakes(),
            counted=_counted(len(self._admitted(asked, kept)), len(kept)),
        )
        lines = "".join(f"data: {line}\n" for line in html.splitlines() if line.strip())
        return f"id: {self._mark(new[0].exchange.number)}\n{lines}\n".encode()

    def _mark(self, number: int) -> str:
        """Return the mark of a reader that has seen the exchanges up to *number*."""
        return f"{self._sandbox.live.run}-{number}"


def _counted(found: int, total: int) -> str:
    """Return how many calls of all are in the list, in words."""
    calls = f"{total:,} call{'' if total == 1 else 's'}"
    return calls if found == total else f"{found:,} of {calls}"
