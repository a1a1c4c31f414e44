"""
Checks the whole books: each table is read once, in the order in which it is stored.

Looking up the bet of each call, the calls of each bet and the postings of both would take most of the time. Instead,
what one table says of another is summed up by hour, as hashes, and so is what the other table has. Where two sums are
equal, so is what they are of. An hour in which they differ is read again, row by row, as ``verify`` reads what is new;
only that makes findings. So what comes between two pages costs time, and is no finding.
"""

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from functools import partial
from typing import Any, NamedTuple

from game_operator.errors import shown
from game_operator.ledger.books.maintain import read_position
from game_operator.ledger.books.slices import Bounds, Slice, delta_of, live_slices, next_rows, slice_read
from game_operator.ledger.books.totals import DAY_MILLIS, day_text, newest_posting
from game_operator.ledger.books.verify import (
    FAR,
    HALF,
    BooksReport,
    Finding,
    Marks,
    Reader,
    Verification,
    amount,
    carried_unasked,
    read_marks,
    side,
    whole,
)
from game_operator.ledger.engine.script import Rows, Script, Work

_HOUR_MILLIS = 3_600_000
#: How many slices, postings and carried sums a page has.
_SLICES, _POSTINGS, _CARRIED = 1_000, 5_000, 5_000


def verified(read: Reader, prefix: str, *, full: bool, most: int = 1_000) -> Work[BooksReport]:
    """Check the tables with *prefix*: all of them, or what came after the checkpoint; keep *most* answers of a kind."""
    verification = Verification(prefix, most=most)
    marks = yield read(partial(read_marks, prefix))
    everything = full or marks.checkpoint_millis is None
    if everything:
        yield from WholeBooks(prefix, read, marks, verification).read()
    else:
        yield from verification.news(read, marks)
        yield from verification.order_of(read, (yield read(partial(read_position, prefix))).out_of_order)
    return verification.report(marks, everything=everything)


class HourlySums:
    """
    What calls, bets and postings say of each other, as sums of hashes by hour.

    They are hashes of texts: those of tuples could cancel each other out where two values changed places.
    """

    def __init__(self) -> None:
        self._of_bets: Counter[int] = Counter()
        self._by_calls: Counter[int] = Counter()
        self._by_postings: Counter[int] = Counter()

    def add_calls(self, rows: Rows) -> None:
        """Add rows of ``calls_in_full``."""
        of_bets, moved = self._of_bets, self._by_calls
        for source, operation, tx_id, account, bet_id, player_id, cents, at_millis, is_ordinary, expected in rows:
            hour = at_millis // _HOUR_MILLIS
            if is_ordinary:
                of_bets[hour] += hash(f"{operation}\0{source}\0{tx_id}\0{account}\0{bet_id}\0{player_id}\0{cents}")
            if expected:
                moved[hour] += hash(f"{operation}\0{source}\0{tx_id}\0{account}\0{at_millis}\0{expected}")

    def add_bets(self, rows: Rows, until: int) -> None:
        """Add rows of ``bets_in_full``; those of deposits before *until*."""
        of_bets = self._of_bets
        for source, bet_id, account, player_id, withdraw, wager, opened_at, deposit, won, settled_at in rows:
            of_bets[opened_at // _HOUR_MILLIS] -= hash(
                f"withdraw\0{source}\0{withdraw}\0{account}\0{bet_id}\0{player_id}\0{wager}"
            )
            if deposit is not None and settled_at is not None and settled_at < until:
                of_bets[settled_at // _HOUR_MILLIS] -= hash(
                    f"deposit\0{source}\0{deposit}\0{account}\0{bet_id}\0{player_id}\0{won}"
                )

    def add_postings(self, rows: Iterable[Sequence[Any]]) -> None:
        """Add rows of ``posting``."""
        posted = self._by_postings
        for _, at_millis, taken_from, given_to, cents, source, operation, tx_id in rows:
            account, moved = (taken_from, -cents) if given_to is None else (given_to, cents)
            posted[at_millis // _HOUR_MILLIS] += hash(
                f"{operation}\0{source}\0{tx_id}\0{account}\0{at_millis}\0{moved}"
            )

    def hours_of_bets(self) -> set[int]:
        """Return the hours in which calls and bets differ."""
        return {hour for hour, total in self._of_bets.items() if total}

    def hours_of_postings(self, folded_before: int) -> set[int]:
        """Return the hours in which calls and postings differ, unless all postings of the hour may be folded."""
        hours = {*self._by_calls, *self._by_postings}
        differing = {hour for hour in hours if self._by_calls[hour] != self._by_postings[hour]}
        last_folded = folded_before // _HOUR_MILLIS
        return {hour for hour in differing if hour >= last_folded or hour in self._by_postings}


class PostingsPage(NamedTuple):
    """
    Postings that were read.

    Attributes:
        bounds: Their ids and times.
        first_hour, last_hour: The hours of the earliest and the latest one.
        is_new: Whether some may be newer than the calls that were read.
    """

    bounds: Bounds
    first_hour: int
    last_hour: int
    is_new: bool


class WholeBooks:
    """One reading of everything, with a snapshot for each page; what is found is added to a Verification."""

    def __init__(self, prefix: str, read: Reader, marks: Marks, verification: Verification) -> None:
        self._prefix, self._read, self._marks, self._found = prefix, read, marks, verification
        self._folded_before = -FAR if marks.pruned_before_millis is None else marks.pruned_before_millis
        self._sums = HourlySums()
        self._pages: list[PostingsPage] = []
        self._moved: Counter[tuple[int, str]] = Counter()
        self._until = self._settled_before = -FAR

    def read(self) -> Work[None]:
        """Read everything."""
        newest = yield self._read(partial(newest_posting, self._prefix))
        # Calls before this are summed up; those that follow are few, and looked up.
        self._until = max(self._folded_before, -FAR if newest is None else newest + 1)
        # Nothing comes between two pages that is as old as this.
        self._settled_before = min(self._folded_before, -FAR if newest is None else newest - _HOUR_MILLIS)
        with closing(_Sums()) as folded:
            yield from self._slices(folded)
            yield from self._not_sealed(folded)
            start = -FAR
            while start < self._until:
                start = yield from self._time(start, folded)
            yield from self._found.times(self._read, self._until, FAR)
            yield from self._found.all_accounts(self._read, sealed=None)
            yield from self._again()
            yield from self._carried(folded)
        yield from self._found.unpaid(self._read, -FAR)
        yield from self._totals()

    def _slices(self, folded: "_Sums") -> Work[None]:
        after = (-FAR, 0)
        while True:
            slices = yield self._read(partial(live_slices, self._prefix, after, _SLICES))
            for each in slices:
                detail, rows, strangers = yield self._read(partial(self._sealed, each))
                self._found.sealed_otherwise(each, detail)
                self._postings(each.bounds, rows, strangers, folded)
            if len(slices) < _SLICES:
                return
            after = slices[-1][:2]

    def _sealed(self, known: Slice) -> Script[tuple[str, list[Any], Rows]]:
        detail, rows = yield from slice_read(self._prefix, known)
        (strangers,) = yield from self._asked(("strangers", (*known.bounds, self._found.most)))()
        return detail, rows, strangers

    def _not_sealed(self, folded: "_Sums") -> Work[None]:
        """Read the postings that are not sealed; those that come meanwhile are for the next time."""
        position = self._marks.position
        ((highest,),) = yield self._read(self._asked(("highest", ())))
        until = highest[0] or 0
        while position < until:
            bounds, rows, strangers = yield self._read(partial(self._next, position, until))
            if not rows:
                return
            self._postings(bounds, rows, strangers, folded)
            position = bounds[1]

    def _next(self, position: int, until: int) -> Script[tuple[Bounds, list[Any], Rows]]:
        rows = yield from next_rows(self._prefix, position, until, _POSTINGS)
        bounds = (rows[0][0], rows[-1][0], -FAR, FAR) if rows else (0, 0, 0, 0)
        (strangers,) = yield from self._asked(("strangers", (*bounds, self._found.most)))()
        return bounds, rows, strangers

    def _postings(self, bounds: Bounds, rows: list[Any], strangers: Rows, folded: "_Sums") -> None:
        self._found.postings += len(rows)
        self._found.strangers(strangers)
        if not rows:
            return
        times = [row[1] for row in rows]
        is_new = max(times) >= self._until
        self._pages.append(PostingsPage(bounds, min(times) // _HOUR_MILLIS, max(times) // _HOUR_MILLIS, is_new))
        self._sums.add_postings(rows if not is_new else (row for row in rows if row[1] < self._until))
        if min(times) < self._settled_before:
            folded.add((row[2] or row[3], -delta_of(row)) for row in rows if row[1] < self._settled_before)

    def _time(self, start: int, folded: "_Sums") -> Work[int]:
        """Read the next calls and bets; return where the ones after them begin."""
        is_settled = start < self._settled_before
        end = self._settled_before if is_settled else self._until
        until = yield from self._found.page_end(self._read, start, end)
        time, limited = (start, until), (start, until, self._found.most)
        # What no sum can say is looked up at once.
        questions = (
            ("calls_in_full", time),
            ("bets_in_full", time),
            ("bet_counts", time),
            ("calls", limited),
            ("bets", (*time, self._until, *time, self._until, self._found.most)),
            ("payments", limited),
            ("folded_by_account", (*time, -FAR if is_settled else self._folded_before)),
        )
        answers = yield self._read(self._asked(*questions, chosen="other_bets", which="is_other_call"))
        calls, bets, counts, *faults, not_posted = answers
        self._found.count(len(calls), counts)
        for question, rows in zip(("calls", "bets", "payments"), faults, strict=True):
            self._found.faults(question, rows)
        self._sums.add_calls(calls)
        self._sums.add_bets(bets, self._until)
        self._add_moved(calls)
        if is_settled:
            folded.add((row[3], row[9]) for row in calls if row[9])
        folded.add((account, whole(*halves)) for account, *halves in not_posted)
        return until

    def _add_moved(self, calls: Rows) -> None:
        for row in calls:
            if row[9]:
                self._moved[row[7] // DAY_MILLIS, "out of" if row[1] == "withdraw" else "into"] += row[9]

    def _again(self) -> Work[None]:
        """Read the hours again, row by row, in which something differs."""
        again = Verification(self._prefix, most=self._found.most)
        of_postings = self._sums.hours_of_postings(self._folded_before)
        for page in self._pages:
            if page.is_new or not of_postings.isdisjoint(range(page.first_hour, page.last_hour + 1)):
                yield from again.postings_within(self._read, page.bounds, 0)
        # Of calls that are old enough, nobody knows which postings were folded.
        with_postings = {hour for hour in of_postings if hour >= self._folded_before // _HOUR_MILLIS}
        for hour in sorted(with_postings | self._sums.hours_of_bets()):
            start = hour * _HOUR_MILLIS
            yield from again.times(self._read, start, min(start + _HOUR_MILLIS, self._until))
        self._found.also(again)

    def _carried(self, folded: "_Sums") -> Work[None]:
        """
        Compare what is carried with the calls whose postings are gone.

        As all other postings are as their calls would have them, what is carried of an account is the sum of its old
        calls without that of its old postings. If some postings of it are wrong, what was folded cannot be known.
        """
        (strangers,) = yield self._read(self._asked(("carried_strangers", (self._found.most,))))
        self._found.strangers(strangers)
        wrong = self._found.doubtful_accounts()
        after: str | None = ""
        while after is not None:
            (rows,) = yield self._read(self._asked(("carried", (after, _CARRIED))))
            for account, cents in rows:
                self._compare_carried(account, folded.taken(account) - cents, wrong)
            after = rows[-1][0] if len(rows) == _CARRIED else None
        for account, cents in folded.left():
            self._compare_carried(account, cents, wrong)
        if (yield self._read(partial(read_marks, self._prefix))).folds != self._marks.folds:
            self._found.forget("carried")
            detail = "Postings were folded meanwhile, so what is carried was not compared with calls. Verify again."
            self._found.notes.append(Finding("folded_meanwhile", detail))

    def _compare_carried(self, account: str, difference: int, wrong: set[str]) -> None:
        if self._marks.pruned_before_millis is None:
            self._found.add("carried", carried_unasked(account))
        elif difference and account not in wrong:
            detail = (
                f"What was folded for {shown(account)} is {amount(abs(difference))} {side(-difference)} the sum of "
                "the calls whose postings are gone."
            )
            self._found.add("carried", Finding("carried_differs", detail, account))

    def _totals(self) -> Work[None]:
        """Compare what closes have stored of days with what their calls moved, if postings and calls agree."""
        if any(finding.operation is not None for finding in self._found.findings):
            return
        stored, closes = yield self._read(self._asked(("stored_by_day", ()), ("last_close", ())))
        if not closes:
            return
        _, before_day, since_day = closes[0]
        sums = {(int(day), where): whole(*halves) for day, where, *halves in stored}
        for day, where in sorted({*sums, *self._moved}):
            if since_day <= day < before_day and self._moved[day, where] != sums.get((day, where), 0):
                difference = yield from self._day_difference(day, where)
                if not difference:
                    continue  # Late entries came meanwhile.
                detail = (
                    f"The totals of {day_text(day)}, which is closed, differ by {amount(abs(difference))} from what "
                    f"calls moved {where} players' accounts."
                )
                self._found.add("totals", Finding("totals_differ", detail))

    def _day_difference(self, day: int, where: str) -> Work[int]:
        """Return by how much the calls of a day differ from its totals, from one snapshot."""
        time = (day * DAY_MILLIS, (day + 1) * DAY_MILLIS)
        answers = yield self._read(self._asked(("moved_by_day", time), ("stored_by_day", ())))
        moved, stored = ({row[:2]: whole(*row[2:]) for row in map(tuple, rows)} for rows in answers)
        return moved.get((day, where), 0) - stored.get((day, where), 0)

    def _asked(self, *questions: tuple[str, Sequence[Any]], **texts: str) -> Callable[[], Script[list[Rows]]]:
        return self._found.asked(*questions, **texts)


class _Sums:
    """Sums by account, in a temporary file: there may be more accounts than memory should hold."""

    def __init__(self) -> None:
        self._file = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        self._file.execute("PRAGMA journal_mode = OFF")
        self._file.execute("CREATE TABLE sums (account TEXT PRIMARY KEY, high INTEGER, low INTEGER) WITHOUT ROWID")

    def add(self, amounts: Iterable[tuple[str, int]]) -> None:
        """Add amounts to their accounts."""
        sums: Counter[str] = Counter()
        for account, cents in amounts:
            sums[account] += cents
        self._file.executemany(
            "INSERT INTO sums VALUES (?, ?, ?) "
            "ON CONFLICT (account) DO UPDATE SET high = high + excluded.high, low = low + excluded.low",
            [(account, *divmod(cents, HALF)) for account, cents in sums.items()],
        )

    def taken(self, account: str) -> int:
        """Return the sum of an account, which is forgotten."""
        rows = self._file.execute("DELETE FROM sums WHERE account = ? RETURNING high, low", (account,)).fetchall()
        return whole(*rows[0]) if rows else 0

    def left(self) -> Iterable[tuple[str, int]]:
        """Yield the accounts that were not taken and have a sum."""
        for account, *halves in self._file.execute("SELECT account, high, low FROM sums ORDER BY account"):
            if total := whole(*halves):
                yield account, total

    def close(self) -> None:
        """Give up the file."""
        self._file.close()
