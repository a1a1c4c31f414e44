"""Which calls Live shows: the filters and the search that the address names, so that a view can be shared."""

import re
from collections.abc import Container, Iterator
from dataclasses import dataclass, fields
from typing import Final
from urllib.parse import urlencode

from starlette.datastructures import QueryParams

from game_operator.text import iso_time
from game_operator_testkit.control_room.outcomes import ExchangeRow
from game_operator_testkit.sandbox.service.exchange_log import Exchange

#: How much of a body a search looks through: a search of a thousand long ones must not hold up the pages.
SEARCHED_BYTES: Final = 4 * 1024
MARK: Final = re.compile(r"([0-9a-f]{16})-([0-9]{1,15})", re.ASCII)

#: What ``call`` names beside the operations of webhooks.
API_CALLS: Final = "operator-api"
OPERATIONS: Final = ("withdraw", "deposit", "rollback", "player-balance")
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
        search: A text in the time, the path, an id, the note, or the beginning of a body; the case of letters does not
            matter. ``T14:03`` is the minute in UTC.
        after: A mark of this run: what it had recorded by then is hidden.
    """

    player: str = ""
    bet: str = ""
    call: str = ""
    answer: str = ""
    fault: str = ""
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
            and (not self.search or _holds(exchange, self.search.lower()))
        )

    def _is_one_of(self, asked: str, *ids: str) -> bool:
        return not asked or asked in ids or asked.strip() in ids


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


def read_filter(query: QueryParams, *, run: str) -> LiveFilter:
    """
    Return what *query* asks for.

    Of a name that repeats, the last value that is not empty counts: a value that was clicked comes after what the form
    holds. A mark of another run than *run* is passed over, because its numbers belong to other calls.
    """
    asked: dict[str, str] = {}
    for each in fields(LiveFilter):
        text = next((value for value in reversed(query.getlist(each.name)) if value.strip()), "")
        asked[each.name] = text if each.name in {"player", "bet"} else text.strip()
    mark = MARK.fullmatch(asked["after"])
    return LiveFilter(**asked | {"after": asked["after"] if mark and mark[1] == run else ""})


def _holds(exchange: Exchange, searched: str) -> bool:
    ids = (exchange.player_id, exchange.bet_id, exchange.round_id, exchange.tx_id)
    time = iso_time(exchange.at_millis)
    texts = (time, exchange.path, exchange.fault, exchange.note, exchange.signature, exchange.code or "", *ids)
    if any(searched in text.lower() for text in texts):
        return True
    data = searched.encode(errors="replace")
    return any(data in body[:SEARCHED_BYTES].lower() for body in (exchange.request_body, exchange.response_body))
