"""
Dropping old details: kept bodies go, and old postings are folded: their sum is carried for each account.

What distinguishes a known call from a new one stays for ever, with the bet's final state and the digest of its
withdraw: a captured claim would otherwise be paid again. The work is done in many small transactions, so that calls go
on in between.
"""

from collections.abc import Callable, Collection
from datetime import timedelta
from typing import Any, NamedTuple, TypeAlias

from game_operator.errors import LedgerError, shown
from game_operator.ledger.books.slices import AccountSum, Slice, add_sums, live_slices, mark, sealed, slice_rows
from game_operator.ledger.books.totals import DAY_MILLIS, last_close, newest_posting
from game_operator.ledger.engine.script import Dialect, Execute, Kind, Script
from game_operator.ledger.engine.tables import POSTING_ACCOUNT, POSTING_DELTA, sql_texts
from game_operator.ledger.rules.book import Needs

#: Services repeat calls for months, and a provider's look-ups reach back as far (spec §4.2).
LEAST_AGE = timedelta(days=90)
#: Between two batches: longer than a process that waits for SQLite's one write lock sleeps before it looks again.
PAUSE_SECONDS = 0.02

_BATCH = 1_000
_FAR = 2**62
#: How many slices a batch looks at.
_MOST_SLICES = 100
_MOST_AHEAD = timedelta(days=1)
_MOST_BEHIND = timedelta(days=30)
_MILLISECOND = timedelta(milliseconds=1)


class PruneReport(NamedTuple):
    """
    What ``prune`` dropped.

    Attributes:
        before_millis: Everything older was looked at; details of open bets were kept.
        calls: How many calls lost their body.
        postings: How many postings were folded.
        anomalies: How many resolved anomalies lost their body.
    """

    before_millis: int
    calls: int
    postings: int
    anomalies: int


def age_millis(older_than: timedelta | int) -> int:
    """
    Return an age in milliseconds.

    Raises:
        TypeError: It is neither a timedelta nor an int of milliseconds.
        ValueError: It is under 90 days.
    """
    if isinstance(older_than, bool) or not isinstance(older_than, timedelta | int):
        raise TypeError(f"older_than must be a timedelta, or an int of milliseconds, not {type(older_than).__name__}")
    millis = older_than // _MILLISECOND if isinstance(older_than, timedelta) else older_than
    if millis < LEAST_AGE // _MILLISECOND:
        raise ValueError(
            f"older_than is {shown(str(older_than))}, and nothing is dropped before 90 days: calls may come again for "
            "that long. Pass timedelta(days=90) or more."
        )
    return millis


#: Does the batch at a position; returns how much it dropped and the next position, None at the end.
_Batch: TypeAlias = Callable[[Any], Script[tuple[int, Any]]]


class Prune:
    """
    One run of ``prune``: ``begin``, a close of days and a sealing of postings if ``is_needed``, then every batch.

    Each is a transaction. It may be stopped after any batch and begun again later: each batch leaves the books sound.

    Args:
        kind: The kind of database.
        prefix: Of the tables.
        kept_days: Days whose postings stay, counted since 1970.

    Attributes:
        before_day: Days before this one, counted since 1970, hold all that is folded.
        is_needed: Whether there are postings to fold.
        report: What was dropped so far.
    """

    def __init__(self, kind: Kind, prefix: str, kept_days: Collection[int] = ()) -> None:
        self._kind, self._prefix, self._kept_days = kind, prefix, kept_days
        self._sql = sql_texts(
            __package__,
            "prune.sql",
            prefix=prefix,
            account=POSTING_ACCOUNT.format(""),
            delta=POSTING_DELTA.format(""),
        )
        self._before = 0
        self.before_day: int = 0
        self.is_needed: bool = False
        self.report: PruneReport = PruneReport(0, 0, 0, 0)

    def begin(self, age: int, now_millis: int | None, dialect: Dialect) -> Script[bool]:
        """Return whether anything can be old enough, by the clock."""
        is_given = now_millis is not None
        if now_millis is None:
            now_millis = (yield from dialect.load(Needs(""))).clock_millis
        newest = yield from newest_posting(self._prefix)
        if newest is not None:
            _check_clock(newest, now_millis, is_given=is_given)
        self._before = now_millis - age
        self.before_day = -(-self._before // DAY_MILLIS)
        self.report = self.report._replace(before_millis=self._before)
        self.is_needed = bool((yield Execute(self._sql["any_old"], (self.before_day - 1, self._before))))
        return self._before > 0

    def batches(self) -> Script[list[tuple[str, _Batch, Any]]]:
        """
        Note how far this run goes, before anything is dropped, so that what is missing can be explained.

        Return the kinds of batches: the name in the report, what does a batch, and the first position. A batch that was
        not committed may be done again.
        """
        batches: list[tuple[str, _Batch, Any]] = []
        if self.is_needed:
            yield from mark(self._prefix, "pruned_before", self._before)
            batches = [("postings", self._fold, (-_FAR, 0))]
        return [*batches, ("calls", self._drop_calls_bodies, 0), ("anomalies", self._drop_bodies, 0)]

    def _fold(self, after: tuple[int, int]) -> Script[tuple[int, Any]]:
        """Fold what is old of the next slice that has any; days in which something is damaged stay as they are."""
        position = after
        for _ in range(_MOST_SLICES):
            slices = yield from live_slices(self._prefix, position, 1)
            if not slices or slices[0].day >= self.before_day:
                return 0, None
            is_kept = slices[0].day in self._kept_days
            position = (slices[0].day, _FAR) if is_kept else slices[0][:2]
            # Of bets that stay OPEN, old slices stay: each run only looks at them.
            if is_kept or not slices[0].postings or not (yield Execute(self._sql["has_old"], self._bounds(slices[0]))):
                continue
            # Another run of prune waits here, and then finds nothing left of what was folded meanwhile.
            yield Execute(self._sql["unlock"], [(1,)], many=True)
            folded = yield from self._taken(slices[0])
            yield Execute(self._sql["unlock"], [(0,)], many=True)
            return len(folded), position
        return 0, position

    def _bounds(self, known: Slice) -> tuple[int, int, int, int]:
        """Return what the postings of a slice that are old are between: ids and times."""
        start = known.day * DAY_MILLIS
        return known.first_id, known.last_id, start, min(start + DAY_MILLIS, self._before)

    def _taken(self, known: Slice) -> Script[list[Any]]:
        """Delete and carry what is old of a slice, and seal what is left of it; return what was deleted."""
        found = yield Execute(self._sql["slice"], known[:2])
        # What no close has stored is kept, too: folded, it would be missing in the totals.
        if not found or found[0][0] or known.last_id > (yield from last_close(self._prefix)).position:
            return []
        folded = yield Execute(self._sql["take_old"], self._bounds(known))
        if folded:
            yield from self._carry(folded)
            rows = yield from slice_rows(self._prefix, known)
            if rows:
                left = sealed(known.day, rows[-1][0], rows[0][0], rows)
                yield Execute(self._sql["leave"], [(*left, *known[:2])], many=True)
            else:
                yield Execute(self._sql["forget"], [known[:2]], many=True)
            yield Execute(self._sql["count_fold"], ())
            if self._kind == "sqlite":
                yield from self._lower_positions()
        return list(folded)

    def _lower_positions(self) -> Script[None]:
        """Let no position be above the highest id: SQLite gives ids again if those who had the highest are gone."""
        ((highest, position),) = yield Execute(self._sql["highest"], ())
        if highest < position:
            for name in ("lower_position", "lower_mark", "lower_checkpoints", "lower_carried"):
                yield Execute(self._sql[name], [(highest,) * self._sql[name].count("?")], many=True)

    def _carry(self, folded: list[Any]) -> Script[None]:
        """Add the postings that were *folded* to what is carried of each account."""
        sums: dict[str, tuple[int, int, int]] = {}
        for number, account, cents, at_millis in folded:
            last, total, latest = sums.get(account, (0, 0, 0))
            # The last one's time, even if those before are later: the account's time was brought back in between.
            last, latest = max((last, latest), (number, at_millis))
            sums[account] = (last, total + cents, latest)
        rows = [AccountSum(account, cents, last, at) for account, (last, cents, at) in sorted(sums.items())]
        yield from add_sums(self._kind, self._prefix, "carried", rows)

    def _drop_calls_bodies(self, since: int) -> Script[tuple[int, int | None]]:
        """Drop the bodies of the next calls."""
        rows = yield Execute(self._sql["bodies_end"], (since, self._before, _BATCH))
        until = max(since + 1, rows[0][0]) if rows else self._before
        dropped = yield Execute(self._sql["drop_bodies"], (since, until))
        return len(dropped), until if rows else None

    def _drop_bodies(self, after: int) -> Script[tuple[int, int | None]]:
        """Drop the bodies of the next anomalies that are resolved."""
        rows = yield Execute(self._sql["anomalies"], (after, self._before, _BATCH))
        if rows:
            yield Execute(self._sql["drop_body"], [(b"", row[0]) for row in rows], many=True)
        return len(rows), rows[-1][0] if len(rows) == _BATCH else None


def _check_clock(newest_millis: int, now_millis: int, *, is_given: bool) -> None:
    """Raise LedgerError if the newest posting and the clock cannot both be right: what is new would pass for old."""
    ahead = timedelta(milliseconds=newest_millis - now_millis)
    if ahead > _MOST_AHEAD:
        raise LedgerError(
            f"The newest posting is {ahead.days} days later than the time it is here, so a clock is wrong. Nothing was "
            "pruned. Set the clock right; bring accounts that a wrong clock has left in the future back with "
            "`game-operator ledger correct-time`, and prune again."
        )
    if -ahead > _MOST_BEHIND and not is_given:
        raise LedgerError(
            f"The newest posting is {(-ahead).days} days old by the clock here: there was no call for so long, or "
            "the clock is ahead, and today's postings would pass for old ones. Nothing was pruned. Check the clock. If "
            "it is right, pass the time as now_millis, or use `game-operator ledger prune --now`."
        )
