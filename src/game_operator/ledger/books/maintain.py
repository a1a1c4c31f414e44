"""
What a ledger needs each night, in one run of bounded time: closes, checkpoints, reading again, statistics, retention.

Each piece is a page that is read or a small transaction, so calls go on, and a run that was stopped anywhere is
finished by the next. Two runs at once do no harm.
"""

import json
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from functools import partial
from math import ceil
from pathlib import Path
from typing import Any, NamedTuple

from game_operator.errors import LedgerUnavailableError
from game_operator.ledger.books import retention
from game_operator.ledger.books.retention import ChangedError, DayFile, DroppedDay, KeptDay
from game_operator.ledger.books.slices import (
    WINDOW,
    Slice,
    calls_digest,
    damaged_slices,
    days_by_reading,
    mark,
    next_window,
    note_days,
    note_read,
    seal,
    slices_of_day,
)
from game_operator.ledger.books.totals import DAY_MILLIS, LOCKED, TotalsClose, day_text
from game_operator.ledger.books.verify import Finding, Marks, Reader, Verification, read_marks
from game_operator.ledger.engine.dialects import SqlDialect
from game_operator.ledger.engine.tables import sql_texts
from game_operator.ledger.steps import Execute, Steps

#: All is read again within 30 days, with a margin for nights without a run.
_REREAD_MILLIS = 25 * DAY_MILLIS
_FAR = 2**62


class MaintainReport(NamedTuple):
    """
    What one run of ``maintain`` did.

    Attributes:
        finished: Whether everything was done that was due; if not, the next run goes on.
        findings: What is wrong in the books, of what was read.
        read: How many postings, calls, bets and accounts were read.
        sealed: How many postings were sealed.
        read_again: How many slices were read again that were sealed before.
        checkpoint_millis: What came before this was read; None if never.
        closed_before: The first day that is not closed for totals, or "".
        dropped: The days whose postings were dropped, each with its file in the archive.
        kept: The days that are old enough and stay, each with the reason.
    """

    finished: bool
    findings: tuple[Finding, ...]
    read: dict[str, int]
    sealed: int
    read_again: int
    checkpoint_millis: int | None
    closed_before: str
    dropped: tuple[DroppedDay, ...]
    kept: tuple[KeptDay, ...]

    @property
    def sound(self) -> bool:
        """Whether nothing is wrong."""
        return not self.findings


class Position(NamedTuple):
    """
    How far reading again has come.

    Attributes:
        page, account: Accounts of a page up to this one.
        out_of_order: Accounts in whose postings a time goes back: the days of these are sound by all else.
    """

    page: str = "own_accounts"
    account: str = ""
    out_of_order: tuple[str, ...] = ()


def read_position(prefix: str) -> Steps[Position]:
    """Return how far reading again has come."""
    rows = yield Execute(_sql(prefix)["position"], ())
    if not rows:
        return Position()
    position = Position(*json.loads(bytes(rows[0][0])))
    return position._replace(out_of_order=tuple(position.out_of_order))


#: Runs a script in a transaction of the ledger; what it returns is awaited by an AsyncSqlLedger.
Writer = Callable[[Callable[[], Steps[Any]]], Any]


class Maintenance:
    """
    One run: ``news`` first, then ``again``, and then ``dropped``.

    Attributes:
        verification: What was read, and found.
        finished: Whether all was done so far; False once the time was over.
    """

    def __init__(self, dialect: SqlDialect, read: Reader, write: Writer, seconds: float) -> None:
        self._dialect, self._prefix = dialect, dialect.prefix
        self._read, self._write = read, write
        self._sql = _sql(dialect.prefix)
        self._until = time.monotonic() + seconds
        self._position = Position()
        self.verification: Verification = Verification(dialect.prefix)
        self.finished: bool = True
        self._sealed_postings = self._read_again = 0
        self._dropped: list[DroppedDay] = []
        self._kept: list[KeptDay] = []

    def goes_on(self) -> bool:
        """Return whether there is time left; if not, the run is not finished."""
        self.finished = self.finished and time.monotonic() < self._until
        return self.finished

    def report(self, marks: Marks, close: TotalsClose) -> MaintainReport:
        """Return what was done."""
        done = self.verification
        return MaintainReport(
            finished=self.finished,
            findings=done.findings,
            read={
                "postings": done.postings,
                "calls": done.calls,
                "bets": done.bets.total(),
                "accounts": done.compared,
            },
            sealed=self._sealed_postings,
            read_again=self._read_again,
            checkpoint_millis=marks.checkpoint_millis,
            closed_before=close.closed_before,
            dropped=tuple(self._dropped),
            kept=tuple(self._kept),
        )

    def news(self, position: int, now_millis: int) -> Steps[None]:
        """Read and seal what came since the last run, up to a *position* that was safe at a time."""
        marks = yield self._read(partial(read_marks, self._prefix))
        self._position = yield self._read(partial(read_position, self._prefix))
        damaged = yield self._read(partial(damaged_slices, self._prefix))
        doubtful = yield from self._damaged_days(damaged)
        yield from self.verification.order_of(self._read, self._position.out_of_order)
        yield from self._sealed(marks.position, position)
        yield from self._times(marks, now_millis)
        if self.goes_on():
            # With the whole history behind a first checkpoint, what it is compared with is all postings.
            sealed = None if marks.checkpoint_millis is None else marks.position
            yield from self.verification.all_accounts(self._read, sealed=sealed)
        if self.goes_on():
            yield from self.verification.sources(self._read)
            yield from self.verification.closed_lately(self._read, marks.verified_millis)
        yield from self._note(doubtful)
        if self.goes_on():
            yield self._write(partial(mark, self._prefix, "verified_millis", now_millis))

    def _sealed(self, position: int, until: int) -> Steps[None]:
        """Read and seal the postings above a position, up to another one, unless another process is sealing."""
        while self.goes_on():
            window = yield self._read(partial(next_window, self._prefix, position, until, WINDOW))
            if window is None:
                break
            yield from self.verification.window(self._read, window)
            if not (yield self._write(partial(seal, self._dialect, position, window, self.verification.days))):
                break
            position = window.last_id
            self._sealed_postings += sum(each.postings for each in window.slices)

    def _damaged_days(self, slices: Sequence[Slice]) -> Steps[set[int]]:
        """Read the days again in which something was found before; return those."""
        for each in slices:
            yield from self.verification.slice(self._read, each)
        yield from self.verification.damaged_days(self._read, slices, _FAR)
        return {each.day for each in slices}

    def _times(self, marks: Marks, now_millis: int) -> Steps[None]:
        """Read the calls and bets since the checkpoint, and move it as they are read."""
        since = start = self.verification.since(marks)
        while self.goes_on():
            start = yield from self.verification.time(self._read, start, None)
            done = min(start, now_millis)
            yield self._write(partial(mark, self._prefix, "checkpoint_millis", done))
            if start >= now_millis:
                break
        if self.goes_on():
            yield from self.verification.touched(self._read, since)

    def _note(self, doubtful: set[int]) -> Steps[None]:
        found = self.verification.days
        sound = doubtful - found if self.finished else set()
        if found or sound:
            yield self._write(partial(note_days, self._dialect, found, sound))
        accounts = self.verification.out_of_order
        if accounts != self._position.out_of_order:
            yield from self._move(self._position._replace(out_of_order=accounts))

    def again(self, now_millis: int, last_millis: int | None) -> Steps[None]:
        """Read again a part of what is sealed, as large as the time since the last run demands."""
        if last_millis is None:  # The first run has just read everything.
            return
        share = min(1.0, max(0, now_millis - last_millis) / _REREAD_MILLIS)
        known: list[int] = yield self._read(partial(days_by_reading, self._prefix))
        for day in known[: ceil(len(known) * share)]:
            if not self.goes_on():
                break
            yield from self._day_again(day, max((each for each in known if each < day), default=None))
        page, account = yield from self._accounts_again(self._position, share)
        yield from self._move(self._position._replace(page=page, account=account))
        yield from self._note(set())

    def _day_again(self, day: int, before: int | None) -> Steps[None]:
        """Read a day again, its calls and bets with those since the last day *before* it that has postings."""
        for each in (yield self._read(partial(slices_of_day, self._prefix, day))):
            yield from self.verification.slice(self._read, each)
            self._read_again += 1
        start = -_FAR if before is None else (before + 1) * DAY_MILLIS
        yield from self.verification.times(self._read, start, (day + 1) * DAY_MILLIS)
        yield self._write(partial(note_read, self._dialect, day))

    def days_made(self) -> Steps[None]:
        """Make the partitions of the coming days; the next run makes those for which others keep the tables locked."""
        for day in (yield self._read(partial(retention.missing_days, self._prefix))):
            if not self.goes_on() or (yield from self._changed(partial(retention.make_day, self._prefix, day))) is None:
                break

    def _changed(self, script: Callable[[], Steps[Any]]) -> Steps[Any]:
        """Run a script that changes partitions; return None if others keep the tables locked, as a backup does."""
        try:
            return (yield self._write(script))
        except LedgerUnavailableError as failed:
            if getattr(failed.__cause__, "sqlstate", None) != LOCKED:
                raise
            return None

    def dropped(self, before_millis: int, archive: Path | None) -> Steps[None]:
        """Drop the postings of days that were over at a time, each after it was archived, and the bodies of before."""
        of_slices = yield self._read(partial(retention.old_days, self._prefix, before_millis // DAY_MILLIS))
        is_partitioned = self._dialect.kind == "postgres"
        partitioned = (yield self._read(partial(retention.partitioned_days, self._prefix))) if is_partitioned else ()
        old_partitions = {day for day in partitioned if day < before_millis // DAY_MILLIS}
        for day in sorted(old_partitions.union(of_slices)):
            if not self.goes_on():
                break
            reason = yield from self._day_dropped(day, archive, is_partition=day in old_partitions)
            if reason:
                self._kept.append(KeptDay(day_text(day), reason))
            # Day by day: SQLite's one write lock is not held for those of years.
            yield self._write(partial(retention.drop_bodies, self._prefix, (day + 1) * DAY_MILLIS))
        if self.goes_on():
            yield self._write(partial(retention.drop_bodies, self._prefix, before_millis))

    def _day_dropped(self, day: int, archive: Path | None, *, is_partition: bool) -> Steps[str]:
        """Read a day, archive it and drop it; return why it stays, "" if it does not or another run has dropped it."""
        reason: str = yield self._read(partial(retention.why_kept, self._prefix, day))
        if reason:
            return reason
        slices = yield self._read(partial(slices_of_day, self._prefix, day))
        with ExitStack() as stack:
            file = None
            if archive is not None and slices:
                made = DayFile(archive, self._prefix, day_text(day), slices)
                file = stack.enter_context(closing(made))
            digests = yield from self._day_read(slices, file)
            if digests is None:
                return ""
            yield from self.verification.times(self._read, day * DAY_MILLIS, (day + 1) * DAY_MILLIS)
            yield from self._note(set())
            if day in self.verification.days:
                return "findings"
            name, digest = ("", "") if file is None else (str(file.path), file.keep())
        outcome = yield from self._day_folded(day, list(zip(slices, digests, strict=True)), is_partition=is_partition)
        if not outcome:
            postings, cents = (sum(getattr(each, of) for each in slices) for of in ("postings", "whole_cents"))
            self._dropped.append(DroppedDay(day_text(day), postings, cents, name, digest))
        return "" if outcome == "missing" else outcome

    def _day_read(self, slices: Sequence[Slice], file: DayFile | None) -> Steps[list[bytes] | None]:
        """Read the slices of a day, and write their postings to *file*; return the digests of their calls."""
        digests = []
        for each in slices:
            rows = yield from self.verification.slice(self._read, each)
            if len(rows) != each.postings and each.day not in self.verification.days:
                return None  # Another run has dropped them meanwhile.
            if file is not None:
                file.add(rows)
            digests.append(calls_digest(rows))
        return digests

    def _day_folded(self, day: int, slices: Sequence[tuple[Slice, bytes]], *, is_partition: bool) -> Steps[str]:
        """Drop what was read of a day; return why it stays."""
        try:
            if is_partition:
                folded = yield from self._changed(partial(self._partition_folded, day, slices))
                return "busy" if folded is None else str(folded.reason)
            is_dropped = False
            for each, _ in slices:
                is_dropped |= yield self._write(partial(retention.fold_slice, self._dialect, each))
                time.sleep(retention.PAUSE_SECONDS)
        except ChangedError:
            return "damaged"
        return "" if is_dropped else "missing"

    def _partition_folded(self, day: int, slices: Sequence[tuple[Slice, bytes]]) -> Steps[retention.Folded]:
        folded = yield from retention.fold_day(self._prefix, day)
        if folded.reason:
            return folded
        if folded.postings != sum(each.postings for each, _ in slices):
            raise ChangedError  # Another run has sealed more meanwhile, which is not archived.
        yield from retention.note_folded(self._dialect, slices)
        return folded

    def _accounts_again(self, position: Position, share: float) -> Steps[tuple[str, str]]:
        """Compare some accounts with all that was ever posted to them."""
        known = self.verification.compared
        page, account = position.page, position.account
        while self.goes_on() and self.verification.compared - known <= known * share:
            last = yield from self.verification.some_accounts(self._read, page, account, sealed=None)
            if last is None and page == "clocks":
                return Position().page, ""
            page, account = ("clocks", "") if last is None else (page, last)
        return page, account

    def _move(self, position: Position) -> Steps[None]:
        self._position = position
        yield self._write(partial(self._keep_position, position))

    def _keep_position(self, position: Position) -> Steps[None]:
        now_millis = yield from self._dialect.now_millis()
        yield Execute(self._sql["keep_position"], [(json.dumps(position).encode(), now_millis)], many=True)


def last_run(prefix: str) -> Steps[int | None]:
    """Return when the last run that was finished began; None if there was none."""
    return (yield Execute(_sql(prefix)["last_run"], ()))[0][0]  # type: ignore[no-any-return]  # A time, or NULL.


def own_tables(prefix: str) -> Steps[list[str]]:
    """Return the ledger's tables in PostgreSQL whose statistics this user may renew."""
    return [row[0] for row in (yield Execute(_sql(prefix)["tables"], ()))]


def analyzed(table: str) -> Steps[None]:
    """Renew the statistics of a table in PostgreSQL."""
    yield Execute("SET LOCAL statement_timeout = 0", ())
    yield Execute(f"ANALYZE {table}", ())


def _sql(prefix: str) -> dict[str, str]:
    return sql_texts(__package__, "maintain.sql", prefix=prefix)
