"""
Seals what was posted, so that it need not be read again each night, and so that what is deleted or changed later shows.

A slice is the postings of one UTC day within a window of ids, with their count, sum and digest. All slices of a window
are sealed at once, with the sum of each account so far: its checkpoint. Ids of postings are not committed in their
order, so a window ends below every id whose transaction is still open.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import date
from hashlib import sha256
from itertools import groupby
from typing import Any, NamedTuple, TypeAlias

from game_operator.ledger.books.totals import DAY_MILLIS, day_text
from game_operator.ledger.engine.dialects import SqlDialect
from game_operator.ledger.engine.script import Execute, Kind, Rows, Script
from game_operator.ledger.engine.tables import JSON_ROWS, POSTING_ACCOUNT, sql_texts

_BILLION = 1_000_000_000
#: How many postings are sealed in one transaction: SQLite's one write lock is held for some 20 ms.
WINDOW = 5_000
#: The first and the last id of postings, and the times that they are not before, and before.
Bounds: TypeAlias = tuple[int, int, int, int]


class Slice(NamedTuple):
    """
    Sealed postings of one day.

    Attributes:
        day: The day, counted since 1970 in UTC.
        last_id, first_id: The window's ids.
        postings: How many it has.
        billions, cents: What they brought to players: cents + 1,000,000,000 billions.
        digest: SHA-256 of the postings.
    """

    day: int
    last_id: int
    first_id: int
    postings: int
    billions: int
    cents: int
    digest: bytes

    @property
    def bounds(self) -> Bounds:
        """The ids and times of its postings."""
        return self.first_id, self.last_id, self.day * DAY_MILLIS, (self.day + 1) * DAY_MILLIS


class AccountSum(NamedTuple):
    """The sum of an account's postings, and the id and the time of the last one."""

    account: str
    cents: int
    last_id: int
    at_millis: int


class Window(NamedTuple):
    """
    Postings to seal.

    Attributes:
        first_id, last_id: The ids of the first and the last one.
        slices: Their slices by day.
        checkpoints: What they add to the accounts' checkpoints.
        late: Accounts with a posting that is not later than the one before it.
    """

    first_id: int
    last_id: int
    slices: tuple[Slice, ...]
    checkpoints: tuple[AccountSum, ...]
    late: frozenset[str]

    @property
    def newest_day(self) -> int:
        """The latest day of its postings."""
        return max(each.day for each in self.slices)


def next_rows(prefix: str, after: int, until: int, most: int) -> Script[list[Any]]:
    """Return the next postings of ids above *after* and not above *until*, in the order of their ids."""
    return (yield Execute(_sql(prefix)["next"], (after, until, most)))  # type: ignore[no-any-return]  # A list of rows.


def next_window(prefix: str, after: int, until: int, most: int) -> Script[Window | None]:
    """Return the next postings to seal, of ids above *after* and not above *until*; None if there are none."""
    rows = yield from next_rows(prefix, after, until, most)
    if not rows:
        return None
    first, last = rows[0][0], rows[-1][0]
    by_day = sorted(rows, key=_day_of)  # It is stable, so each day's are by id.
    slices = tuple(sealed(day, last, first, list(each)) for day, each in groupby(by_day, _day_of))
    late = {account for (account,) in (yield Execute(_sql(prefix)["late"], (first, last)))}
    return Window(first, last, slices, tuple(_checkpoints(rows)), frozenset(late.union(_late(rows))))


def sealed(day: int, last_id: int, first_id: int, rows: Sequence[Sequence[Any]]) -> Slice:
    """Return the slice of *rows* of ``posting``, in the order of their ids."""
    billions, cents = divmod(sum(map(delta_of, rows)), _BILLION)
    digest = sha256(json.dumps([list(row) for row in rows]).encode()).digest()
    return Slice(day, last_id, first_id, len(rows), billions, cents, digest)


def _day_of(row: Sequence[Any]) -> int:
    return int(row[1]) // DAY_MILLIS


def delta_of(row: Sequence[Any]) -> int:
    """Return what a posting brought to its account."""
    return int(row[4]) if row[2] is None else -int(row[4])


def _checkpoints(rows: Iterable[Sequence[Any]]) -> list[AccountSum]:
    sums: dict[str, AccountSum] = {}
    for row in rows:
        account = row[2] or row[3]
        cents = sums[account].cents if account in sums else 0
        sums[account] = AccountSum(account, cents + delta_of(row), row[0], row[1])
    return sorted(sums.values())


def _late(rows: Iterable[Sequence[Any]]) -> Iterator[str]:
    latest: dict[str, int] = {}
    for row in rows:
        account = row[2] or row[3]
        if latest.get(account, row[1] - 1) >= row[1]:
            yield account
        latest[account] = row[1]


def seal(dialect: SqlDialect, after: int, window: Window, damaged: Collection[int]) -> Script[bool]:
    """
    Store the slices of *window*, which follows the position *after*; return False if another process has.

    Those of *damaged* days are marked in the same transaction: no run that was killed leaves damage that seems sound.
    """
    sql = _sql(dialect.prefix)
    yield Execute(sql["first_position"], ())
    if not (yield Execute(sql["advance"], (window.last_id, after))):
        return False
    now_millis = yield from dialect.now_millis()
    marked = yield from _marked(sql, damaged)
    rows = [(*each, marked.get(each.day, 0), now_millis, now_millis) for each in window.slices]
    yield Execute(sql["insert_slice"], rows, many=True)
    yield from add_sums(dialect.kind, dialect.prefix, "checkpoints", window.checkpoints)
    return True


def add_sums(kind: Kind, prefix: str, table: str, sums: Sequence[AccountSum]) -> Script[None]:
    """Add *sums* to those in a table of one row for each account."""
    sql = _sql(prefix)[f"{kind}_sums"].format(table=table)
    yield Execute(sql, (json.dumps(sums),)) if kind == "postgres" else Execute(sql, list(sums), many=True)


def mark(prefix: str, name: str, value: int) -> Script[None]:
    """Raise a row of meta to *value*, such as ``checkpoint_millis``; a higher one stays."""
    yield Execute(_sql(prefix)["mark"], [(name, value)], many=True)


def note_days(dialect: SqlDialect, damaged: Collection[int], sound: Collection[int]) -> Script[None]:
    """Mark days whose postings, calls or bets are *damaged*, so that they are read again; and those *sound* by now."""
    sql = _sql(dialect.prefix)
    now_millis = yield from dialect.now_millis()
    for day, mark in (yield from _marked(sql, damaged)).items():
        yield Execute(sql["day_without_slices"], [(day, _EMPTY, mark, now_millis, now_millis, day)], many=True)
        yield Execute(sql["set_marked"], [(mark, day)], many=True)
    yield Execute(sql["set_sound"], [(day,) for day in sorted(sound)], many=True)


def _marked(sql: dict[str, str], damaged: Collection[int]) -> Script[dict[int, int]]:
    """
    Return how each damaged day is marked: 1 while none of its postings is folded, and 2 if some may be.

    A marked day is not folded. So each call of a day that is marked 1 has its posting, however old the day becomes.
    """
    rows: Rows = yield Execute(sql["pruned_before"], ())
    return {day: 2 if rows and day * DAY_MILLIS < rows[0][0] else 1 for day in sorted(damaged)}


def note_read(dialect: SqlDialect, slices: Iterable[Slice]) -> Script[None]:
    """Note that *slices* were read again."""
    now_millis = yield from dialect.now_millis()
    yield Execute(
        _sql(dialect.prefix)["set_read"], [(now_millis, each.day, each.last_id) for each in slices], many=True
    )


def live_slices(prefix: str, after: tuple[int, int], most: int) -> Script[list[Slice]]:
    """Return the next slices whose postings are not folded."""
    return _slices((yield Execute(_sql(prefix)["live"], (*after, most))))


def damaged_slices(prefix: str) -> Script[list[Slice]]:
    """Return the slices of days in which something was found."""
    return _slices((yield Execute(_sql(prefix)["damaged"], ())))


def whole_days(prefix: str) -> Script[set[int]]:
    """Return the days in which something was found before anything of them was folded."""
    return {row[0] for row in (yield Execute(_sql(prefix)["whole_days"], ()))}


def slices_of_day(prefix: str, day: date) -> Script[list[Slice]]:
    """Return the slices of a day whose postings are not folded."""
    return _slices((yield Execute(_sql(prefix)["of_day"], ((day - date(1970, 1, 1)).days,))))


def unread_slices(prefix: str, most: int) -> Script[list[Slice]]:
    """Return the slices that nobody has read for longest."""
    return _slices((yield Execute(_sql(prefix)["unread"], (most,))))


def slice_read(prefix: str, known: Slice) -> Script[tuple[str, list[Any]]]:
    """Return how the postings of a slice differ from what was sealed, "" if they do not; and the postings."""
    slices = _slices((yield Execute(_sql(prefix)["same"], known[:2])))
    if not slices:  # They were folded since.
        return "", []
    (found,) = slices
    rows = yield from slice_rows(prefix, found)
    return _difference(found, sealed(found.day, found.last_id, found.first_id, rows)), rows


def _difference(found: Slice, now: Slice) -> str:
    if now == found:
        return ""
    sealed_as = f"Of {day_text(found.day)}, {found.postings} postings with ids from {found.first_id} to {found.last_id}"
    if now.postings > found.postings:  # Ids of what is new are above all that is sealed.
        reason = "the sequence of ids was set back, or somebody added some"
        return f"{sealed_as} were sealed, and there are {now.postings}: {reason}."
    if now.postings != found.postings:
        return f"{sealed_as} were sealed, and there are {now.postings}."
    return f"{sealed_as} were sealed, and some were changed since."


def slice_rows(prefix: str, known: Slice) -> Script[list[Any]]:
    """Return the postings of a slice, in the order of their ids."""
    return (yield Execute(_sql(prefix)["rows"], known.bounds))  # type: ignore[no-any-return]  # A list of rows.


def _slices(rows: Iterable[Sequence[Any]]) -> list[Slice]:
    return [Slice._make((*row[:6], bytes(row[6]))) for row in rows]


_EMPTY = sealed(0, 0, 0, ()).digest


def _sql(prefix: str) -> dict[str, str]:
    return sql_texts(
        __package__, "slices.sql", prefix=prefix, json_rows=JSON_ROWS, account=POSTING_ACCOUNT.format("p.")
    )
