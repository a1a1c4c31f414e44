"""
Dropping old details: kept bodies and replies go, and old postings are folded into one for each account.

What distinguishes a known call from a new one stays for ever, with the bet's final state and the digest of its
withdraw: a captured claim would otherwise be paid again. The work is done in many small transactions, so that calls go
on in between.
"""

from collections.abc import Callable
from datetime import timedelta
from typing import Any, NamedTuple, TypeAlias

from game_operator.errors import LedgerError, shown
from game_operator.ledger.books.totals import DAY_MILLIS, last_close, newest_posting
from game_operator.ledger.engine.script import Dialect, Execute, Script
from game_operator.ledger.engine.tables import POSTING_ACCOUNT, POSTING_DELTA, check_writer, sql_texts
from game_operator.ledger.rules.book import Needs

#: Services repeat calls for months, and a provider's look-ups reach back as far (spec §4.2).
LEAST_AGE = timedelta(days=90)
#: Between two batches: longer than a process that waits for SQLite's one write lock sleeps before it looks again.
PAUSE_SECONDS = 0.02

_BATCH = 1_000
_MOST_AHEAD = timedelta(days=1)
_MOST_BEHIND = timedelta(days=30)
_MILLISECOND = timedelta(milliseconds=1)


class PruneReport(NamedTuple):
    """
    What ``prune`` dropped.

    Attributes:
        before_millis: Everything older was looked at; details of open bets were kept.
        calls: Calls that lost their body and their stored balance.
        postings: Postings that were folded.
        anomalies: Resolved anomalies that lost their body.
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
    One run of ``prune``: ``begin``, a close of days, ``batches``, and then every batch, each in its own transaction.

    It may be stopped after any batch and begun again later: each batch leaves the books sound.

    Attributes:
        report: What was dropped so far.
    """

    def __init__(self, prefix: str, *, identity: str) -> None:
        """*identity* is the columns of the primary key of calls, in the key's order."""
        with_table = ", ".join(f"c.{column}" for column in identity.split(", "))
        self._prefix = prefix
        self._sql = sql_texts(
            __package__,
            "prune.sql",
            prefix=prefix,
            identity=identity,
            c_identity=with_table,
            account=POSTING_ACCOUNT.format(""),
            delta=POSTING_DELTA.format(""),
        )
        self._last_posting = 0
        self._before = 0
        self.report = PruneReport(0, 0, 0, 0)

    def begin(self, age: int, now_millis: int | None, dialect: Dialect) -> Script[int | None]:
        """Return the day, counted since 1970, before which days must be closed first; None if nothing is old enough."""
        yield from check_writer(self._prefix)
        is_given = now_millis is not None
        if now_millis is None:
            now_millis = (yield from dialect.load(Needs(""))).clock_millis
        newest = yield from newest_posting(self._prefix)
        if newest is not None:
            _check_clock(newest, now_millis, is_given=is_given)
        self._before = now_millis - age
        self.report = self.report._replace(before_millis=self._before)
        return -(-self._before // DAY_MILLIS) if self._before > 0 else None

    def batches(self) -> Script[list[tuple[str, _Batch, Any]]]:
        """
        Note how far this run goes, before anything is dropped, so that what is missing can be explained.

        Return the kinds of batches: the name in the report, what does a batch, and the first position.
        """
        yield from check_writer(self._prefix)
        yield Execute(self._sql["note"], [("pruned_before", self._before)], many=True)
        (first,) = (yield Execute(self._sql["first"], ()))[0]
        # What no close has stored is kept: folded, it would be missing in the totals.
        self._last_posting = (yield from last_close(self._prefix)).position
        return [
            ("postings", self._fold, (first or 1) - 1),
            ("calls", self._drop_replies, ("", "", "")),
            ("anomalies", self._drop_bodies, 0),
        ]

    def batch(self, batch: _Batch, position: Any) -> Script[tuple[int, Any]]:
        """
        Do the batch at *position*; return how much it dropped and the next position.

        It does nothing once a newer program has shut out those of our version. One that was not committed may be run
        again.
        """
        yield from check_writer(self._prefix)
        return (yield from batch(position))

    def _fold(self, after: int) -> Script[tuple[int, int | None]]:
        """Fold what is old among the next postings."""
        until = min(after + _BATCH, self._last_posting)
        is_old = yield Execute(self._sql["any_old"], (after, until, self._before))
        folded: list[Any] = []
        if is_old:
            # Another run of prune waits here, and then finds nothing left of what was folded meanwhile.
            yield Execute(self._sql["unlock"], [(4,)], many=True)
            folded = yield Execute(self._sql["take_old"], (after, until, self._before))
            yield from self._carry(folded)
            # SQLite gives the highest ids again if those who had them are gone.
            yield Execute(self._sql["lower_position"], ())
            yield Execute(self._sql["unlock"], [(0,)], many=True)
        return len(folded), until if until < self._last_posting else None

    def _carry(self, folded: list[Any]) -> Script[None]:
        """Add the postings that were *folded* to what is carried of each account."""
        sums: dict[str, tuple[int, int, int]] = {}
        for number, account, cents, at_millis in folded:
            last, total, latest = sums.get(account, (0, 0, 0))
            # The last one's time, even if those before are later: the account's time was brought back in between.
            last, latest = max((last, latest), (number, at_millis))
            sums[account] = (last, total + cents, latest)
        rows = [(account, cents, last, at_millis) for account, (last, cents, at_millis) in sorted(sums.items())]
        yield Execute(self._sql["carry"], rows, many=True)

    def _drop_replies(self, after: tuple[str, ...]) -> Script[tuple[int, tuple[str, ...] | None]]:
        """Drop bodies and balances of the next calls."""
        rows = yield Execute(self._sql["calls"], (*after, _BATCH))
        if not rows:
            return 0, None
        last = tuple(rows[-1][:3])
        old = sum(1 for row in rows if row[3] < self._before and row[4] and row[5] != "OPEN")
        if old:
            yield Execute(self._sql["drop_replies"], [(*after, *last, self._before)], many=True)
        return old, last if len(rows) == _BATCH else None

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
