"""Which calls Live shows: the filters and the search that the address names, so that a view can be shared."""

import re
from collections.abc import Container, Iterator
from dataclasses import dataclass, fields
from typing import Final
from urllib.parse import urlencode

from starlette.datastructures import QueryParams

from game_operator_testkit.control_room.outcomes import ExchangeRow
from game_operator_testkit.sandbox.service.exchange_log import Exchange

#: How much of a body a search looks through: a search of a thousand long ones must not hold up the pages.
SEARCHED_BYTES: Final = 4 * 1024
#: Longer than any id and code.
_LONGEST: Final = 320
_TIME: Final = re.compile(r"([01]?[0-9]|2[0-3]):([0-5][0-9])(?::([0-5][0-9]))?", re.ASCII)
_DAY_MILLIS: Final = 86_400_000
MARK: Final = re.compile(r"([0-9a-f]{16})-([0-9]{1,15})", re.ASCII)

#: What ``call`` names beside the operations of webhooks.
API_CALLS: Final = "operator-api"
OPERATIONS: Final = ("withdraw", "deposit", "rollback", "player-balance", "deposit-batch")
#: What ``answer`` names beside codes and statuses.
LOST: Final = "no answer received"
UNREADABLE: Final = "unreadable"
DISAGREES: Final = "balance disagrees"
KEY_REFUSED: Final = "right signature refused"


@dataclass(frozen=True, slots=True)
class LiveFilter:
    """
    What the address asks for; "" asks for nothing.

    Attributes:
        player: The player.
        bet: The bet, grant, round or tx_id.
        call: The operation, or ``operator-api``.
        answer: A code, a status, or one of the words above.
        fault: A fault laid over the call.
        begin, until: Times of the day in UTC, ``14:03`` or ``14:03:59``, both included. A *begin* after *until* goes
            over midnight.
        search: A text in the path, an id, the note, or the beginning of a body; the case of letters does not matter.
        after: A mark of this run: what it had recorded by then is hidden.
    """

    player: str = ""
    bet: str = ""
    call: str = ""
    answer: str = ""
    fault: str = ""
    begin: str = ""
    until: str = ""
    search: str = ""
    after: str = ""

    @property
    def query(self) -> str:
        """The filter as it stands in an address."""
        return urlencode(dict(self.named()))

    def named(self) -> Iterator[tuple[str, str]]:
        """Yield what is asked for, by name."""
        for each in fields(self):
            if text := getattr(self, each.name):
                yield each.name, text

    @property
    def is_narrow(self) -> bool:
        """Whether it asks for more than what is new."""
        return any(name != "after" for name, _ in self.named())

    @property
    def after_number(self) -> int:
        """The number of the last exchange that is hidden."""
        return int(self.after.rpartition("-")[2] or 0)

    def admits(self, row: ExchangeRow, wrong: Container[int] = ()) -> bool:
        """Return whether *row* is asked for; *wrong* are the numbers of answers whose balance disagrees."""
        exchange = row.exchange
        return (
            exchange.number > self.after_number
            and self._is_one_of(self.player, exchange.player_id)
            and self._is_one_of(self.bet, exchange.bet_id, exchange.round_id, exchange.tx_id)
            and (not self.call or self.call == (API_CALLS if exchange.direction == "api" else exchange.operation))
            and (not self.answer or self.answer in answers(row, wrong))
            and (not self.fault or self.fault in exchange.faults)
            and self._is_in_time(exchange.at_millis % _DAY_MILLIS)
            and (not self.search or _holds(exchange, self.search.lower()))
        )

    def _is_one_of(self, asked: str, *ids: str) -> bool:
        return not asked or asked in ids or asked.strip() in ids

    def _is_in_time(self, day_millis: int) -> bool:
        begin = _millis(self.begin) if self.begin else 0
        # The whole minute or second that is named.
        end = _millis(self.until) + (1_000 if self.until.count(":") == 2 else 60_000) if self.until else _DAY_MILLIS
        return begin <= day_millis < end if begin < end else not end <= day_millis < begin


def answers(row: ExchangeRow, wrong: Container[int] = ()) -> frozenset[str]:
    """Return all that ``answer`` may name *row* by."""
    exchange = row.exchange
    found = {exchange.code or str(exchange.status or ""), row.answer}
    if row.loss:
        found.add(LOST)
    if exchange.direction == "webhook" and exchange.status is not None and exchange.code is None:
        found.add(UNREADABLE)
    if exchange.number in wrong:
        found.add(DISAGREES)
    if row.is_refused_key:
        found.add(KEY_REFUSED)
    return frozenset(found - {""})


def read_filter(query: QueryParams, *, run: str) -> tuple[LiveFilter, dict[str, str]]:
    """
    Return what *query* asks for, and a sentence for each part that cannot be used, by its name.

    Of a name that repeats, the last value that is not empty counts: a value that was clicked comes after what the form
    holds. A mark of another run than *run* is passed over, because its numbers belong to other calls.
    """
    asked: dict[str, str] = {}
    problems: dict[str, str] = {}
    for each in fields(LiveFilter):
        text = next((value for value in reversed(query.getlist(each.name)) if value.strip()), "")
        if each.name not in {"player", "bet"}:
            text = text.strip()
        if problem := _problem(each.name, text):
            problems[each.name] = problem
        elif each.name != "after" or _is_mark(text, run):
            asked[each.name] = text
    return LiveFilter(**asked), problems


def _problem(name: str, text: str) -> str:
    if len(text) > _LONGEST:
        return f"Write at most {_LONGEST} characters."
    if name in {"begin", "until"} and text and not _TIME.fullmatch(text):
        return "Write a time of the day in UTC, such as 14:03 or 14:03:59."
    return ""


def _is_mark(text: str, run: str) -> bool:
    found = MARK.fullmatch(text)
    return found is not None and found[1] == run


def _millis(time: str) -> int:
    hours, minutes, *seconds = map(int, time.split(":"))
    return ((hours * 60 + minutes) * 60 + sum(seconds)) * 1_000


def _holds(exchange: Exchange, searched: str) -> bool:
    ids = (exchange.player_id, exchange.bet_id, exchange.round_id, exchange.tx_id)
    texts = (exchange.path, exchange.fault, exchange.note, exchange.signature, exchange.code or "", *ids)
    if any(searched in text.lower() for text in texts):
        return True
    data = searched.encode(errors="replace")
    return any(data in body[:SEARCHED_BYTES].lower() for body in (exchange.request_body, exchange.response_body))
