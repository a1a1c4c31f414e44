"""
Live: every call as it happens, as server-sent events, and each of them byte for byte.

A stream looks into the live log again and again, and reads the new exchanges by their numbers. So nothing waits in a
queue: a slow reader gets more at once, without those that have left the log in the meantime.

The id of an event is a mark: a number, and the run that counted it. A page that is left open while the sandbox starts
again comes back with a mark of the earlier run, and begins anew.

The log has up to a thousand calls and 64 MiB. A list shows what was read of each when it was recorded, and parses no
body. A page of it has at most 50 rows, and fewer if their ids are long: it stays below 100 kB.
"""

import asyncio
import contextlib
import re
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final
from urllib.parse import urlencode

from markupsafe import Markup
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Message, Send

from game_operator.errors import GameOperatorError, TransportError
from game_operator_testkit.control_room.call_page import call_values
from game_operator_testkit.control_room.live_export import json_document, json_lines, without_signatures
from game_operator_testkit.control_room.live_filters import (
    API_CALLS,
    DISAGREES,
    LOST,
    MARK,
    OPERATIONS,
    SEARCHED_BYTES,
    UNREADABLE,
    LiveFilter,
    offered,
    read_filter,
)
from game_operator_testkit.control_room.outcomes import ExchangeRow, row, unreachable_wallet
from game_operator_testkit.control_room.page_context import LOOKED_THROUGH, Page, see_other
from game_operator_testkit.control_room.two_calls import compared
from game_operator_testkit.sandbox.dealing.balances import ReportedBalance
from game_operator_testkit.sandbox.service.exchange_log import Exchange

#: How many rows a page of the list has at most, and how many bytes they take there.
_ON_A_PAGE: Final = 50
_MOST_ROW_BYTES: Final = 57_000
_MOST_EVENT_BYTES: Final = 256_000
#: How many rows one event carries at most; of more, the newest.
_SHOWN: Final = 100
_NUMBER: Final = re.compile(r"[0-9]{1,15}", re.ASCII)
_HEARTBEAT_SECONDS: Final = 15.0
#: Between two looks at the log, so that a storm of calls becomes a few events a second and not one for each call.
_PAUSE_SECONDS: Final = 0.1
#: What needs a look, with how many there are, an s if there are several, and what was lost.
_ALERTS: Final = {
    LOST: "{0} call{1} got no answer: {2}",
    DISAGREES: "{0} answer{1} with a balance that disagrees",
    "INVALID_SIGNATURE": "{0} call{1} with a right signature, and the wallet answered INVALID_SIGNATURE",
    "accepted": "{0} call{1} accepted that must be refused",
    UNREADABLE: "{0} answer{1} that cannot be read as a reply",
}
#: A reader that takes nothing for so long is disconnected; the page asks again when it is back.
_MOST_SEND_SECONDS: Final = 30.0


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
            Route(f"{self.PATH}/all", self.show_all),
            Route(f"{self.PATH}/compare", self.compare),
            Route(f"{self.PATH}/{{number}}", self.one),
            *(Route(f"{self.PATH}/{{number}}/{part}", self.body) for part in ("request", "answer")),
            Route(f"{self.PATH}/{{number}}/again", self.again, methods=["POST"]),
        ]

    async def show(self, request: Request) -> Response:
        """Show the newest calls, or those before a number, as far as the filter admits them."""
        asked, problems = self._asked(request)
        kept = [row(each) for each in self._sandbox.live.recent(LOOKED_THROUGH)]
        new = [each for each in kept if each.exchange.number > asked.after_number]
        wrong = self._sandbox.service.balances.wrong()
        found = [each for each in new if asked.admits(each, wrong)]
        before = self._before(request)
        start = next((i for i, each in enumerate(found) if not before or each.exchange.number < before), len(found))
        rest = found[start:]
        rows = self._rows(rest[:_ON_A_PAGE], asked, wrong)
        return self._context.page(
            request,
            "live.html",
            status=422 if problems else 200,
            asked=asked,
            problems=problems,
            offered=offered(new, asked, wrong),
            operations=_operations(asked),
            api_calls=API_CALLS,
            searched_kib=SEARCHED_BYTES // 1024,
            alerts=_alerts(new, wrong, asked),
            rows=Markup("").join(rows),
            counted=_counted(len(found), len(new)),
            before=before,
            newer=_newer(found[:start]),
            older=rest[len(rows) - 1].exchange.number if len(rows) < len(rest) else 0,
            seen=self._mark(kept[0].exchange.number if kept else 0),
            shown=_SHOWN,
        )

    async def events(self, request: Request) -> Response:
        """Send calls as they happen, as far as the filter admits them."""
        if request.method == "HEAD":
            return Response(media_type=_EventStream.media_type)
        # A page that was away names what it has seen last; one that is new was made with that mark.
        seen = request.headers.get("last-event-id") or request.query_params.get("seen", "")
        return _EventStream(self._events(seen, self._asked(request)[0]))

    async def export(self, request: Request) -> Response:
        """Send the calls that the filter admits as a file of JSON lines."""
        rows = self._written(request)
        attachment = {"content-disposition": 'attachment; filename="calls.jsonl"'}
        return StreamingResponse(json_lines(rows), headers=attachment, media_type="application/x-ndjson")

    async def document(self, request: Request) -> Response:
        """Send the calls that the filter admits as a JSON document, for a program."""
        return StreamingResponse(json_document(self._written(request)), media_type="application/json")

    def _written(self, request: Request) -> Iterator[ExchangeRow]:
        """
        Return the calls that the filter admits, the newest first, with signatures only if they are asked for.

        Raises:
            HTTPException: 400 if the filter has a mistake: nothing is taken for what was not asked for.
        """
        asked, problems = self._asked(request)
        if problems:
            raise HTTPException(400, " ".join(problems.values()))
        wrong = self._sandbox.service.balances.wrong()
        found = [each for each in map(row, self._sandbox.live.recent(LOOKED_THROUGH)) if asked.admits(each, wrong)]
        if request.query_params.get("with_signatures") == "1":
            return iter(found)
        header = self._sandbox.service.profile.signature_header
        return (row(without_signatures(each.exchange, header)) for each in found)

    async def clear(self, request: Request) -> Response:
        """Begin the list with what comes from now on; nothing is deleted."""
        return self._list_after(request, self._mark(self._sandbox.live.count))

    async def show_all(self, request: Request) -> Response:
        """Show again what was cleared from the list."""
        return self._list_after(request, "")

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
            said = unreachable_wallet(exchange.url, unreachable)
            return self._detail(request, exchange, status=502, problem=said)
        except GameOperatorError as failed:
            return self._detail(request, exchange, status=422, problem=str(failed))
        return see_other(f"{self.PATH}/{sent.number}")

    def _detail(self, request: Request, exchange: Exchange, *, status: int = 200, problem: str = "") -> Response:
        asked = self._asked(request)[0]
        wrong = self._sandbox.service.balances.wrong()
        newer, older = self._neighbours(exchange.number, asked, wrong)
        return self._context.page(
            request,
            "exchange.html",
            status=status,
            asked=asked,
            newer=newer,
            older=older,
            problem=problem,
            **call_values(self._sandbox, exchange, wrong, host=request.headers["host"]),
        )

    def _neighbours(self, number: int, asked: LiveFilter, wrong: Mapping[int, ReportedBalance]) -> tuple[int, int]:
        """Return the numbers of the next newer and the next older call that *asked* admits; 0 if there is none."""
        newer = 0
        for each in self._sandbox.live.recent(LOOKED_THROUGH):
            if each.number == number or not asked.admits(row(each), wrong):
                continue
            if each.number < number:
                return newer, each.number
            newer = each.number
        return newer, 0

    def _asked_for(self, request: Request) -> Exchange:
        text: str = request.path_params["number"]
        exchange = self._sandbox.live.exchange(int(text)) if _NUMBER.fullmatch(text) else None
        if exchange is None:
            raise HTTPException(
                404, "There is no such call in the log, or no longer: it keeps the newest 1,000, of long ones fewer."
            )
        return exchange

    def _asked(self, request: Request) -> tuple[LiveFilter, dict[str, str]]:
        return read_filter(request.query_params, run=self._sandbox.live.run)

    def _before(self, request: Request) -> int:
        text = request.query_params.get("before", "")
        return int(text) if _NUMBER.fullmatch(text) else 0

    def _list_after(self, request: Request, mark: str) -> Response:
        kept = dict(self._asked(request)[0].named()) | {"after": mark}
        query = urlencode({name: text for name, text in kept.items() if text})
        return see_other(f"{self.PATH}?{query}" if query else self.PATH)

    def _rows(
        self,
        shown: Sequence[ExchangeRow],
        asked: LiveFilter,
        wrong: Mapping[int, ReportedBalance],
        *,
        room: int = _MOST_ROW_BYTES,
        **more: Any,  # Any: values of the template.
    ) -> list[Markup]:
        """Return the rows that are *shown* as HTML: the first, and as many more as there is *room* for in bytes."""
        values = {
            "filtering": True,
            "disagreeing": wrong,
            "link_query": asked.linked,
            "fresh": False,
            "counted": "",
        } | more
        made: list[Markup] = []
        for each in shown:
            html = self._context.fragment("_rows.html", rows=[each], order=self._place(each.exchange), **values)
            room -= len(html.encode())
            if made and room < 0:
                break
            made.append(Markup(html))  # noqa: S704 - the template escapes
            values["counted"] = ""
        return made

    def _place(self, exchange: Exchange) -> dict[int, tuple[int, int]]:
        """Return which delivery of its call *exchange* is, and of how many, by its number; empty for the only one."""
        numbers = self._sandbox.live.deliveries(exchange)
        if len(numbers) < 2 or exchange.number not in numbers:
            return {}
        return {exchange.number: (numbers.index(exchange.number) + 1, len(numbers))}

    async def _events(self, seen: str, asked: LiveFilter) -> AsyncIterator[bytes]:
        """Yield events, from the mark *seen* on; one that this run did not give begins anew."""
        log, found, after = self._sandbox.live, MARK.fullmatch(seen), 0
        if found is not None and found[1] == log.run and int(found[2]) <= log.count:
            after = int(found[2])
            yield b": connected\n\n"
        else:
            yield f"event: anew\nid: {self._mark(0)}\ndata: {log.run}\n\n".encode()
        shown = [each for each in self._admitted(asked, log.since(asked.after_number)) if each.exchange.number <= after]
        matched = deque(each.exchange.number for each in shown[::-1])
        sent_at = time.monotonic()
        while not self._context.is_stopped:
            event = b""
            new = log.since(max(after, asked.after_number))
            # Each call is looked at once: a search through a thousand of them, ten times a second, is not cheap.
            after = new[0].number if new else after
            if admitted := self._admitted(asked, new):
                matched.extend(each.exchange.number for each in admitted[::-1])
                while matched and matched[0] < log.oldest:
                    matched.popleft()
                event = self._event(admitted[:_SHOWN], asked, len(matched))
            elif time.monotonic() - sent_at > _HEARTBEAT_SECONDS:
                event = b": still here\n\n"
            if event:
                yield event
                sent_at = time.monotonic()
            await asyncio.sleep(_PAUSE_SECONDS)

    def _admitted(self, asked: LiveFilter, exchanges: Sequence[Exchange]) -> list[ExchangeRow]:
        """Return those of *exchanges* that *asked* admits, in their order."""
        wrong = self._sandbox.service.balances.wrong() if exchanges and asked.answer else {}
        return [each for each in map(row, exchanges) if asked.admits(each, wrong)]

    def _event(self, new: Sequence[ExchangeRow], asked: LiveFilter, matched: int) -> bytes:
        """Return an event that carries *new* rows, and how many calls the list has now."""
        log, number = self._sandbox.live, new[0].exchange.number
        counted = _counted(matched, log.count - max(log.oldest - 1, asked.after_number))
        wrong = self._sandbox.service.balances.wrong()
        made = self._rows(new, asked, wrong, room=_MOST_EVENT_BYTES, fresh=True, counted=counted)
        lines = "".join(f"data: {line}\n" for line in "".join(made).splitlines() if line.strip())
        return f"id: {self._mark(number)}\n{lines}\n".encode(errors="backslashreplace")

    def _mark(self, number: int) -> str:
        """Return the mark of a reader that has seen the exchanges up to *number*."""
        return f"{self._sandbox.live.run}-{number}"


def _operations(asked: LiveFilter) -> list[str]:
    """Return the operations that the form offers: the usual ones, and the one that is asked for."""
    unusual = asked.call and asked.call not in {*OPERATIONS, API_CALLS}
    return [*OPERATIONS, *([asked.call] if unusual else [])]


def _counted(found: int, total: int) -> str:
    """Return how many calls of all are in the list, in words."""
    calls = f"{total:,} call{'' if total == 1 else 's'}"
    return calls if found == total else f"{found:,} of {calls}"


def _newer(rows: Sequence[ExchangeRow]) -> int | None:
    """Return before which number the page of the *rows* that are newer is, 0 for the newest page; None without any."""
    if not rows:
        return None
    return rows[-_ON_A_PAGE - 1].exchange.number if len(rows) > _ON_A_PAGE else 0


def _alerts(
    rows: Sequence[ExchangeRow], wrong: Mapping[int, ReportedBalance], asked: LiveFilter
) -> list[Mapping[str, str]]:
    """Return what is wrong among *rows*: how many calls, in words, and the filter that shows them."""
    webhooks = [each for each in rows if each.exchange.direction == "webhook"]
    found = {
        LOST: [each for each in webhooks if each.loss],
        DISAGREES: [each for each in webhooks if each.exchange.number in wrong],
        "INVALID_SIGNATURE": [
            each for each in webhooks if each.answer == "INVALID_SIGNATURE" and each.exchange.signature == "valid"
        ],
        "accepted": [each for each in webhooks if each.answer == "accepted"],
        UNREADABLE: [each for each in webhooks if each.exchange.status is not None and each.exchange.code is None],
    }
    return [
        {
            "query": urlencode({"answer": answer} | ({"after": asked.after} if asked.after else {})),
            "text": _ALERTS[answer].format(f"{len(each):,}", "" if len(each) == 1 else "s", _losses(each)),
            "with_keys": "1" if answer == "INVALID_SIGNATURE" else "",
            "tone": "warn" if answer == LOST else "bad",
        }
        for answer, each in found.items()
        if each
    ]


def _losses(rows: Sequence[ExchangeRow]) -> str:
    counted = Counter(each.loss for each in rows if each.loss)
    return ", ".join(f"{count:,} {loss}" for loss, count in sorted(counted.items(), reverse=True))


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
