"""
Seals what was posted, so that it need not be read again each night, and so that what is deleted or changed later shows.

A slice is the postings of one UTC day within a window of ids, with their count, sum and digest. All slices of a window
are sealed at once, with the sum of each account so far: its checkpoint. Ids of postings are not committed in their
order, so a window ends below every id whose transaction is still open.
"""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from hashlib import blake2b, sha256
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple, TypeAlias

from game_operator.ledger.books.totals import DAY_MILLIS, day_text
from game_operator.ledger.engine.dialects import SqlDialect
from game_operator.ledger.engine.tables import JSON_ROWS, POSTING_ACCOUNT, sql_texts
from game_operator.ledger.steps import Execute, Kind, Steps

_BILLION = 1_000_000_000
#: How many postings are sealed in one transaction: SQLite's one write lock is held for some 20 ms.
WINDOW = 5_000
#: The order of rows of ``posting``: by id.
row_order: Callable[[Sequence[Any]], Any] = itemgetter(0)
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

    @property
    def whole_cents(self) -> int:
        """What its postings brought to players."""
        return self.billions * _BILLION + self.cents


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


def next_rows(prefix: str, after: int, until: int, most: int) -> Steps[list[Any]]:
    """Return the next postings of ids above *after* and not above *until*, in the order of their ids."""
    return (yield Execute(_sql(prefix)["next"], (after, until, most)))  # type: ignore[no-any-return]  # A list of rows.


def next_window(prefix: str, after: int, until: int, most: int) -> Steps[Window | None]:
    """Return the next postings to seal, of ids above *after* and not above *until*; None if there are none."""
    rows = yield from next_rows(prefix, after, until, most)
    if not rows:
        return None
    first, last = rows[0][0], rows[-1][0]
    by_day = sorted(rows, key=_day_of)  # It is stable, so each day's are by id.
    slices = tuple(sealed(day, last, first, list(each)) for day, each in groupby(by_day, _day_of))
    late = {account for (account,) in (yield Execute(_sql(prefix)["late"], (first, last)))}
    return Window(first, last, slices, tuple(account_sums(rows)), frozenset(late.union(_late(rows))))


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


class CallsSum:
    """
    Calls that have moved money: their number, what they brought to players, and a sum of digests that stands for them.

    The order in which they are added does not matter.
    """

    __slots__ = ("cents", "count", "marks")

    def __init__(self, count: int = 0, cents: int = 0, marks: int = 0) -> None:
        self.count: int = count
        self.cents: int = cents
        self.marks: int = marks

    def add(
        self, operation: str, source: str, tx_id: str, account: str, at_millis: int, cents: int, times: int = 1
    ) -> None:
        """Add a call so many *times*; -1 takes it away."""
        text = f"{operation}\0{source}\0{tx_id}\0{account}\0{at_millis}\0{cents}"
        self.count += times
        self.cents += cents * times
        self.marks += int.from_bytes(blake2b(text.encode(), digest_size=32).digest()) * times

    @property
    def digest(self) -> bytes:
        """The sum of digests, as it is stored."""
        return (self.marks % (1 << 256)).to_bytes(32)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CallsSum):
            return NotImplemented
        return (self.count, self.cents, self.digest) == (other.count, other.cents, other.digest)

    __hash__ = None  # type: ignore[assignment]  # It changes.


def calls_digest(rows: Iterable[Sequence[Any]]) -> bytes:
    """Return the digest of the calls that have made *rows* of ``posting``."""
    calls = CallsSum()
    for row in rows:
        calls.add(row[6], row[5], row[7], row[2] or row[3], row[1], delta_of(row))
    return calls.digest


def folded_days(prefix: str) -> Steps[dict[int, CallsSum]]:
    """Return the days, counted since 1970, of which postings are folded, and what was folded of each."""
    days: dict[int, CallsSum] = {}
    for day, count, billions, cents, digest in (yield Execute(_sql(prefix)["folded"], ())):
        known = days.setdefault(day, CallsSum())
        known.count += count
        known.cents += billions * _BILLION + cents
        known.marks += int.from_bytes(bytes(digest or b""))
    return days


def account_sums(rows: Iterable[Sequence[Any]]) -> list[AccountSum]:
    """Return what *rows* of ``posting``, in the order of their ids, sum up to by account."""
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


def seal(dialect: SqlDialect, after: int, window: Window, damaged: Collection[int]) -> Steps[bool]:
    """
    Store the slices of *window*, which follows the position *after*; return False if another process has.

    Those of *damaged* days are marked in the same transaction: no run that was killed leaves damage that seems sound.
    """
    sql = _sql(dialect.prefix)
    yield Execute(sql["first_position"], ())
    if not (yield Execute(sql["advance"], (window.last_id, after))):
        return False
    now_millis = yield from dialect.now_millis()
    rows = [(*each, int(each.day in damaged), now_millis, now_millis) for each in window.slices]
    yield Execute(sql["insert_slice"], rows, many=True)
    yield from add_sums(dialect.kind, dialect.prefix, "checkpoints", window.checkpoints)
    return True


def add_sums(kind: Kind, prefix: str, table: str, sums: Sequence[AccountSum]) -> Steps[None]:
    """Add *sums* to those in a table of one row for each account."""
    sql = _sql(prefix)[f"{kind}_sums"].format(table=table)
    yield Execute(sql, (json.dumps(sums),)) if kind == "postgres" else Execute(sql, list(sums), many=True)


def mark(prefix: str, name: str, value: int) -> Steps[None]:
    """Raise a row of meta to *value*, such as ``checkpoint_millis``; a higher one stays."""
    yield Execute(_sql(prefix)["mark"], [(name, value)], many=True)


def note_days(dialect: SqlDialect, damaged: Collection[int], sound: Collection[int]) -> Steps[None]:
    """Mark days whose postings, calls or bets are *damaged*, so that they are read again; and those *sound* by now."""
    sql = _sql(dialect.prefix)
    now_millis = yield from dialect.now_millis()
    rows = [(day, _EMPTY, now_millis, now_millis, day) for day in sorted(damaged)]
    yield Execute(sql["day_without_slices"], rows, many=True)
    yield Execute(sql["set_damaged"], [(day,) for day in sorted(damaged)], many=True)
    yield Execute(sql["set_sound"], [(day,) for day in sorted(sound)], many=True)


def note_read(dialect: SqlDialect, day: int) -> Steps[None]:
    """Note that a *day* was read again."""
    now_millis = yield from dialect.now_millis()
    yield Execute(_sql(dialect.prefix)["set_read"], [(now_millis, day)], many=True)


def live_slices(prefix: str, after: tuple[int, int], most: int) -> Steps[list[Slice]]:
    """Return the next slices whose postings are not folded."""
    return _slices((yield Execute(_sql(prefix)["live"], (*after, most))))


def damaged_slices(prefix: str) -> Steps[list[Slice]]:
    """Return the slices of days in which something was found."""
    return _slices((yield Execute(_sql(prefix)["damaged"], ())))


def slices_of_day(prefix: str, day: int) -> Steps[list[Slice]]:
    """Return the slices of a day whose postings are not folded."""
    return _slices((yield Execute(_sql(prefix)["of_day"], (day,))))


def days_by_reading(prefix: str) -> Steps[list[int]]:
    """Return the days that have slices, folded ones, too; those first that nobody has read for longest."""
    return [row[0] for row in (yield Execute(_sql(prefix)["by_reading"], ()))]


def slice_read(prefix: str, known: Slice) -> Steps[tuple[str, list[Any]]]:
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


def slice_rows(prefix: str, known: Slice) -> Steps[list[Any]]:
    """Return the postings of a slice, in the order of their ids."""
    return (yield Execute(_sql(prefix)["rows"], known.bounds))  # type: ignore[no-any-return]  # A list of rows.


def _slices(rows: Iterable[Sequence[Any]]) -> list[Slice]:
    return [Slice._make((*row[:6], bytes(row[6]))) for row in rows]


_EMPTY = sealed(0, 0, 0, ()).digest


def _sql(prefix: str) -> dict[str, str]:
    return sql_texts(
        __package__, "slices.sql", prefix=prefix, json_rows=JSON_ROWS, account=POSTING_ACCOUNT.format("p.")
    )
