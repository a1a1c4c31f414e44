"""
Totals by day, game, instance and currency; and the close of finished days, which keeps them when postings are folded.

Every posting is in exactly one place. A close stores the postings of the days before *before_day* whose ids are up to
its *position*; all others are summed up from the tables. So the sum of totals is the sum of postings, always.
"""

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias

from game_operator.errors import LedgerError, LedgerUnavailableError, shown
from game_operator.ledger.engine.dialects import SqlDialect
from game_operator.ledger.engine.tables import POSTING_ACCOUNT, POSTING_DELTA, sql_texts
from game_operator.ledger.rules.book import Needs
from game_operator.ledger.steps import Execute, Rows, Steps
from game_operator.money import amount_from_cents

DAY_MILLIS: Final = 86_400_000
#: What totals can be grouped by. Currencies are always apart.
DIMENSIONS: Final = ("day", "game", "instance", "currency")
#: The currency of what has none.
UNKNOWN: Final = "unknown"
#: The kinds of money in a row, in order.
KINDS: Final = (
    *("wagers", "wins", "refunds", "free_bets", "jackpots", "claims", "rain", "rain_refunds"),
    *("openings", "adjustments", "corrections", "unknown"),
)

_BILLION: Final = 1_000_000_000
_FAR: Final = 2**62
#: So many days are looked at even if all that was stored of one is gone.
_LATELY_DAYS: Final = 30
_MOST_BEHIND: Final = timedelta(days=30)
#: What left players' accounts is shown above zero.
_TAKEN: Final = frozenset({"wagers", "rain"})
_GROUP_NAMES: Final = ("source", "instance", "game", "currency", "kind")
_GROUP: Final = ", ".join(_GROUP_NAMES)
_STORED_COLUMNS: Final = f"day, {_GROUP}, late"
#: PostgreSQL's code for a lock that was not given in time.
#: A lock was not to be had in time.
LOCKED: Final = "55P03"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class TotalsRow(NamedTuple):
    """
    What moved in one group of postings, each kind with how many postings there are and their sum in cents.

    A field such as ``wagers`` is a number of postings, and ``wagers_cents`` is their sum in cents.

    Attributes:
        day: The UTC day, ``2026-11-23``; None if *by* has no day.
        game, instance: As the bet, else the call, reported them; "" where neither did; None if *by* has none.
        currency: As ``currency_of`` answered; ``unknown`` where it is missing.
        late: Whether these came after their day was closed.
        wagers, wins, refunds: Of bets. What was lost has no posting, and no win.
        free_bets, jackpots, claims: Deposits without a bet: FREE_BET_CLAIM, JACKPOT, and other actions.
        rain, rain_refunds: Wagers of bets that no deposit settles, and what was refunded of them.
        openings, adjustments: Money from outside games; adjustments are below zero for what was paid out.
        corrections: How many payments for findings of a reconciliation; their sum is below zero for what was taken.
        unknown: The number of postings whose call is missing; ``verify`` finds each.
    """

    day: str | None
    game: str | None
    instance: str | None
    currency: str
    late: bool
    wagers: int = 0
    wagers_cents: int = 0
    wins: int = 0
    wins_cents: int = 0
    refunds: int = 0
    refunds_cents: int = 0
    free_bets: int = 0
    free_bets_cents: int = 0
    jackpots: int = 0
    jackpots_cents: int = 0
    claims: int = 0
    claims_cents: int = 0
    rain: int = 0
    rain_cents: int = 0
    rain_refunds: int = 0
    rain_refunds_cents: int = 0
    openings: int = 0
    openings_cents: int = 0
    adjustments: int = 0
    adjustments_cents: int = 0
    corrections: int = 0
    corrections_cents: int = 0
    unknown: int = 0
    unknown_cents: int = 0

    @property
    def gross_gaming_revenue_cents(self) -> int:
        """Wagers − wins − refunds: what bets left with the house. Claims, jackpots and RAIN are not in it."""
        return self.wagers_cents - self.wins_cents - self.refunds_cents

    @property
    def postings(self) -> int:
        """How many postings the row stands for."""
        return sum(getattr(self, kind) for kind in KINDS)

    @property
    def players_cents(self) -> int:
        """What all of it together brought to the players' accounts: the sum of the postings."""
        return sum((-1 if kind in _TAKEN else 1) * int(getattr(self, f"{kind}_cents")) for kind in KINDS)


class TotalsReport(NamedTuple):
    """
    Totals of a time, all from one moment.

    Attributes:
        rows: By day, game, instance and currency; late entries after the others of their group.
        by: What they are grouped by.
        since_millis, until_millis, source: What was asked for.
        closed_before: The UTC day before which all days are closed; None if none ever was.
    """

    rows: tuple[TotalsRow, ...]
    by: tuple[str, ...]
    since_millis: int | None
    until_millis: int | None
    source: str | None
    closed_before: str | None

    def by_currency(self) -> tuple[TotalsRow, ...]:
        """Return one row for each currency, late entries included."""
        sums: dict[str, list[int]] = {}
        for row in self.rows:
            kept = sums.setdefault(row.currency, [0] * len(row[5:]))
            sums[row.currency] = [one + other for one, other in zip(kept, row[5:], strict=True)]
        return tuple(TotalsRow(None, None, None, currency, False, *sums[currency]) for currency in sorted(sums))


class TotalsClose(NamedTuple):
    """
    What a close has done.

    Attributes:
        closed_before: The UTC day before which all days are closed now.
        position: The id of the last posting that was looked at.
        postings: How many it stored; 0 if there was nothing to do.
        late: How many of them were late entries: of days that an earlier close had closed.
    """

    closed_before: str
    position: int
    postings: int
    late: int


class Close(NamedTuple):
    """A row of ``closes``."""

    number: int
    position: int
    before_day: int
    first_id: int
    at_millis: int


_NO_CLOSE: Final = Close(0, 0, 0, 0, 0)


class Draft(NamedTuple):
    """What a close would store, and the close that it follows."""

    last: Close
    close: Close
    rows: Rows

    @property
    def is_empty(self) -> bool:
        """Whether it stores nothing, and closes no further day."""
        return not self.rows and self.close.before_day == self.last.before_day

    @property
    def report(self) -> TotalsClose:
        """What the caller is to know of it."""
        postings, late = (sum(int(row[7]) for row in self.rows if row[6] in kept) for kept in ((0, 1), (1,)))
        return TotalsClose(day_text(self.close.before_day), self.close.position, postings, late)


def day_text(day: int) -> str:
    """Return the name of a UTC day that is counted since 1970; beyond the year 9999 its number is its name."""
    try:
        return (_EPOCH + timedelta(days=day)).date().isoformat()
    except OverflowError:
        return f"day {day}"


def checked_dimensions(by: Iterable[str]) -> tuple[str, ...]:
    """
    Return what to group by, in our order.

    Raises:
        TypeError: *by* is a text, or not of texts.
        ValueError: One is not known.
    """
    if isinstance(by, str):
        raise TypeError(f'by must be a sequence of texts such as ("day", "game"), not the text {shown(by)}')
    given = tuple(by)
    for name in given:
        if name not in DIMENSIONS:
            raise ValueError(f"by can have {', '.join(DIMENSIONS)}, not {shown(name)}")
    return tuple(name for name in DIMENSIONS if name in given)


def checked_bound(name: str, millis: int | None) -> int | None:
    """Return a bound in Unix milliseconds, or None; raise TypeError or ValueError if it is neither."""
    if millis is None:
        return None
    if type(millis) is not int:
        raise TypeError(f"{name} must be an int of Unix milliseconds, or None, not {shown(millis)}")
    if abs(millis) > _FAR:
        raise ValueError(f"{name} must be Unix milliseconds, and {shown(millis)} is beyond all time")
    return millis


def checked_filter(source: str | None) -> str | None:
    """Return the source to look at, or None for all; raise TypeError if it is neither."""
    if source is not None and not isinstance(source, str):
        raise TypeError(f"source must be a text, or None for all, not {shown(source)}")
    return source


def totals_asked(
    prefix: str, since_millis: int | None, until_millis: int | None, by: Sequence[str], source: str | None
) -> Callable[[], Steps[TotalsReport]]:
    """Return the script of a report; raise TypeError or ValueError for what cannot be asked."""
    dimensions, name = checked_dimensions(by), checked_filter(source)
    bounds = checked_bound("since_millis", since_millis), checked_bound("until_millis", until_millis)
    return partial(totals_report, prefix, *bounds, dimensions, name)


def totals_report(
    prefix: str, since_millis: int | None, until_millis: int | None, by: tuple[str, ...], source: str | None
) -> Steps[TotalsReport]:
    """Sum up what is stored and what is not, from one snapshot; LedgerError if a bound cuts a closed day."""
    last = yield from last_close(prefix)
    _check_bounds(last, since_millis, until_millis)
    columns = (*(name for name in by if name != "currency"), "currency", "late", "kind")
    bounds = (-_FAR if since_millis is None else since_millis, _FAR if until_millis is None else until_millis)
    rows: list[Sequence[Any]] = []
    if last.number:
        days = (bounds[0] // DAY_MILLIS, -(-bounds[1] // DAY_MILLIS))
        rows += yield Execute(_grouped(prefix, "stored", ", ".join(columns)), (*days, source, source))
    rows += yield from _live(prefix, ", ".join(columns), last, _FAR, bounds, source)
    closed_before = day_text(last.before_day) if last.number else None
    return TotalsReport(_rows_of(rows, columns), by, since_millis, until_millis, source, closed_before)


def closed_days(prefix: str, since_day: int) -> Steps[list[int]]:
    """Return the days since one that have stored totals, and all closed ones of the last month."""
    before_day = (yield from last_close(prefix)).before_day
    stored = [int(row[0]) for row in (yield Execute(_sql(prefix)["stored_days"], (since_day,)))]
    return [*{*stored, *range(max(since_day, before_day - _LATELY_DAYS), before_day)}]


#: Numbers of postings and their sums in cents by group: source, instance, game, currency and kind.
Groups: TypeAlias = dict[tuple[str, ...], tuple[int, int]]


def groups_of(rows: Iterable[Sequence[Any]]) -> Groups:
    """Return *rows* of sums as groups; what has none is left out."""
    groups: Groups = {}
    for *group, count, billions, cents in rows:
        known = groups.get(tuple(group), (0, 0))
        groups[tuple(group)] = known[0] + int(count), known[1] + int(billions) * _BILLION + int(cents)
    return {group: sums for group, sums in groups.items() if any(sums)}


def stored_groups(prefix: str, day: int) -> Steps[Groups | None]:
    """Return what totals say of a day, stored and not yet stored; None if nothing of it is stored, and it is open."""
    last = yield from last_close(prefix)
    rows = list((yield Execute(_grouped(prefix, "stored", _GROUP), (day, day + 1, None, None))))
    is_closed = day < last.before_day
    if not (rows or is_closed):
        return None
    # What is not stored of a closed day has a higher id than what is.
    last = last._replace(first_id=last.position + 1 if is_closed else 0)
    rows += yield from _live(prefix, _GROUP, last, _FAR, (day * DAY_MILLIS, (day + 1) * DAY_MILLIS), None)
    return groups_of(rows)


def differing_totals(prefix: str, day: int, moved: Callable[[], Steps[list[Rows]]]) -> Steps[list[str]]:
    """Return how the groups of a day that is closed differ from what its calls have *moved*."""
    stored = yield from stored_groups(prefix, day)
    if stored is None:
        return []
    (calls,) = yield from moved()
    rows = [each[1:-1] for each in calls]
    if any(each[-1] for each in calls):  # Which of them a close took for a RAIN is not known.
        rows, stored = (
            _without_rain(rows),
            groups_of(_without_rain((*group, n, 0, c) for group, (n, c) in stored.items())),
        )
    found, none = groups_of(rows), (0, 0)
    return [
        f"{', '.join(f'{name} {shown(value)}' for name, value in zip(_GROUP_NAMES, group, strict=True))}: "
        f"{stored.get(group, none)[0]} postings of {amount_from_cents(stored.get(group, none)[1])} are stored, and its "
        f"calls have made {found.get(group, none)[0]} of {amount_from_cents(found.get(group, none)[1])}."
        for group in sorted({*stored, *found})
        if stored.get(group, none) != found.get(group, none)
    ]


def _without_rain(rows: Iterable[Sequence[Any]]) -> list[Sequence[Any]]:
    same = {"rain": "wagers", "rain_refunds": "refunds"}
    return [(*row[:4], same.get(row[4], row[4]), *row[5:]) for row in rows]


def call_columns(prefix: str) -> str:
    """Return the columns of a call c and its bet b by which totals are grouped."""
    return _sql(prefix)["call_columns"]


def last_close(prefix: str) -> Steps[Close]:
    """Return the latest close; one of number 0 if there was none."""
    rows = yield Execute(_sql(prefix)["last_close"], ())
    return Close(*map(int, rows[0])) if rows else _NO_CLOSE


def newest_posting(prefix: str) -> Steps[int | None]:
    """Return the time of the newest posting that no correction of the time concerns."""
    rows = yield Execute(_sql(prefix)["newest"], ())
    return int(rows[0][0]) if rows else None


def close_begun(prefix: str, before_day: int | None, now_millis: int | None, dialect: SqlDialect) -> Steps[Close]:
    """
    Return the close to make, its number left open: before which day, and up to which posting.

    Every transaction that has taken a lower id is over. On PostgreSQL that takes a lock, on which new calls wait.

    Args:
        prefix: Of the tables.
        before_day: Close the days before this one; None for all that are over by the clock.
        now_millis: The time it is, instead of the clock's.
        dialect: The ledger's.

    Raises:
        LedgerError: There was no posting for so long that the clock may be ahead.
        LedgerUnavailableError: A transaction that has moved money stays open.
    """
    is_given = now_millis is not None
    if now_millis is None:
        now_millis = (yield from dialect.load(Needs(""))).clock_millis
    if before_day is None:
        newest = yield from newest_posting(prefix)
        _check_clock(newest, now_millis, is_given=is_given)
        before_day = now_millis // DAY_MILLIS
    if getattr(dialect, "kind", "") == "postgres":
        yield from _lock(prefix)
    highest = yield Execute(_sql(prefix)["highest"], ())
    return Close(0, highest[0][0] or 0, before_day, 0, now_millis)


def _lock(prefix: str) -> Steps[None]:
    try:
        yield Execute(_sql(prefix)["brief"], ())
        yield Execute(_sql(prefix)["lock"], ())
    except Exception as failed:
        if getattr(failed, "sqlstate", None) != LOCKED:
            raise
        raise _StillOpenError(
            "A transaction that has moved money is still open, so no days can be closed: its posting would be missing. "
            "Nothing was stored. End that transaction, which pg_stat_activity shows, and close again."
        ) from failed


class _StillOpenError(LedgerUnavailableError):
    """A transaction that has taken the id of a posting did not end in time."""


def close_drafted(prefix: str, wanted: Close) -> Steps[Draft]:
    """Sum up what a close is to store, from one snapshot that is younger than *wanted*."""
    last = yield from last_close(prefix)
    position = max(last.position, wanted.position)
    before_day = max(last.before_day, wanted.before_day)
    before_millis = before_day * DAY_MILLIS
    rows = yield from _live(prefix, _STORED_COLUMNS, last, position, (-_FAR, before_millis), None)
    first_open = yield Execute(_sql(prefix)["first_open"], (last.first_id, position, before_millis))
    first_id = position + 1 if first_open[0][0] is None else int(first_open[0][0])
    return Draft(last, Close(last.number + 1, position, before_day, first_id, wanted.at_millis), rows)


def close_stored(prefix: str, draft: Draft) -> Steps[bool]:
    """Store *draft*; return False, and store nothing, if it follows another close by now."""
    last = yield from last_close(prefix)
    if last != draft.last:
        return False
    close = draft.close
    if not (yield Execute(_sql(prefix)["insert_close"], close)):  # Another process was first.
        return False
    lines = [(close.number, line, *map(_plain, row)) for line, row in enumerate(draft.rows, 1)]
    if lines:
        yield Execute(_sql(prefix)["insert_total"], lines, many=True)
    return True


def _plain(value: Any) -> Any:
    # PostgreSQL sums to a numeric, which arrives as a Decimal.
    return value if isinstance(value, str) else int(value)


def _live(
    prefix: str, columns: str, last: Close, last_id: int, bounds: tuple[int, int], source: str | None
) -> Steps[list[Sequence[Any]]]:
    """Return the sums of postings up to *last_id* within *bounds* that no close has stored, by *columns*."""
    before_millis = last.before_day * DAY_MILLIS
    stored = (last.position, before_millis)
    parameters = (*stored, last.first_id, last_id, *stored, *bounds, source, source)
    return list((yield Execute(_grouped(prefix, "live", columns), parameters)))


def _rows_of(rows: Iterable[Sequence[Any]], columns: Sequence[str]) -> tuple[TotalsRow, ...]:
    """Return *rows* of sums, each of one kind, as rows of all kinds."""
    groups: dict[tuple[Any, ...], dict[str, int]] = {}
    for row in rows:
        group, kind = tuple(row[: len(columns) - 1]), row[len(columns) - 1]
        count, billions, cents = map(int, row[len(columns) :])
        sums = groups.setdefault(group, {})
        total = (billions * _BILLION + cents) * (-1 if kind in _TAKEN else 1)
        sums[kind] = sums.get(kind, 0) + count
        sums[f"{kind}_cents"] = sums.get(f"{kind}_cents", 0) + total
    made = [_row_of(dict(zip(columns, group, strict=False)), sums) for group, sums in sorted(groups.items())]
    return tuple(made)


def _row_of(group: dict[str, Any], sums: dict[str, int]) -> TotalsRow:
    day = group.get("day")
    return TotalsRow(
        None if day is None else day_text(int(day)),
        group.get("game"),
        group.get("instance"),
        group["currency"],
        bool(group["late"]),
        **sums,
    )


def _check_bounds(last: Close, *bounds: int | None) -> None:
    for bound in bounds:
        if bound is not None and bound % DAY_MILLIS and bound < last.before_day * DAY_MILLIS:
            day = day_text(bound // DAY_MILLIS)
            raise LedgerError(
                f"The bound {bound} lies within {day}, which is closed: of a closed day only the whole is kept. Days "
                f"before {day_text(last.before_day)} are. Pass the midnight at its beginning or end, in UTC."
            )


def _check_clock(newest_millis: int | None, now_millis: int, *, is_given: bool) -> None:
    """Raise LedgerError if the clock may be ahead: days that are not over would be closed."""
    behind = timedelta(milliseconds=now_millis - (now_millis if newest_millis is None else newest_millis))
    if behind > _MOST_BEHIND and not is_given:
        raise LedgerError(
            f"The newest posting is {behind.days} days old by the clock here: there was no call for so long, or the "
            "clock is ahead, and days that are not over would be closed. Nothing was closed. Check the clock. If it is "
            "right, pass the time as now_millis to close_totals() in a program."
        )


def _grouped(prefix: str, name: str, columns: str) -> str:
    return _sql(prefix)[name].format(columns=columns)


def _sql(prefix: str) -> dict[str, str]:
    return sql_texts(
        __package__,
        "totals.sql",
        prefix=prefix,
        account_of_posting=POSTING_ACCOUNT.format(f"{prefix}postings."),
        delta=POSTING_DELTA.format("p."),
        # A bet that no deposit settles. It may be rolled back, and then only its action says what it was.
        is_spent="(b.state = 'SPENT' OR b.action = 'RAIN')",
        # Whether a deposit of an action of the operator's own is a claim, only its bet can tell.
        is_claim="COALESCE(c.operation = 'deposit' AND (b.deposit_tx_id IS NULL OR b.deposit_tx_id <> c.tx_id), FALSE)",
    )
