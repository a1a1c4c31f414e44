"""
Checks the whole books: each table is read once, in the order in which it is stored, and nothing stored is trusted.

Looking up the bet of each call, the calls of each bet and the postings of both would take most of the time. Instead,
what one table says of another is summed up by hour, as hashes, and so is what the other table has. Where two sums are
equal, so is what they are of. An hour in which they differ is read again, row by row, as ``verify`` reads what is new;
only that makes findings. So what comes between two pages costs time, and is no finding.

Of a day that is folded, the calls must be those whose postings were folded: by their number, sum and digest together,
and by their sum for each account.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from game_operator.errors import shown
from game_operator.ledger.books.maintain import read_position
from game_operator.ledger.books.slices import (
    Bounds,
    CallsSum,
    Slice,
    delta_of,
    folded_days,
    live_slices,
    next_rows,
    slice_read,
)
from game_operator.ledger.books.totals import (
    DAY_MILLIS,
    closed_days,
    day_text,
    newest_posting,
)
from game_operator.ledger.books.verify import (
    FAR,
    BooksReport,
    Finding,
    Marks,
    Reader,
    Verification,
    amount,
    carried_unasked,
    read_marks,
    side,
)
from game_operator.ledger.steps import Rows, Steps

_HOUR_MILLIS = 3_600_000
_HOURS = DAY_MILLIS // _HOUR_MILLIS
#: How many slices, postings and carried sums a page has.
_SLICES, _POSTINGS, _CARRIED = 1_000, 5_000, 5_000
#: How many postings are counted from one snapshot.
_COUNTED = 500_000


def verified(read: Reader, prefix: str, *, full: bool, most: int = 1_000) -> Steps[BooksReport]:
    """Check the tables with *prefix*: all of them, or what came after the checkpoint; keep *most* answers of a kind."""
    marks = yield read(partial(read_marks, prefix))
    if full or marks.checkpoint_millis is None:
        whole_books = WholeBooks(prefix, read, marks, most=most)
        yield from whole_books.read()
        return whole_books.report(marks, everything=True)
    verification = Verification(prefix, most=most)
    yield from verification.news(read, marks)
    yield from verification.order_of(read, (yield read(partial(read_position, prefix))).out_of_order)
    return verification.report(marks, everything=False)


class HourlySums:
    """
    What calls, bets and postings say of each other, as sums of hashes by hour, and for days that are folded by day.

    They are hashes of texts: those of tuples could cancel each other out where two values changed places.
    """

    def __init__(self, folded: Iterable[int] = ()) -> None:
        self._of_bets: Counter[int] = Counter()
        self._by_calls: Counter[int] = Counter()
        self._by_postings: Counter[int] = Counter()
        self.folded: dict[int, CallsSum] = {day: CallsSum() for day in folded}

    def add_calls(self, rows: Rows) -> None:
        """Add rows of ``calls_in_full``."""
        of_bets, moved, folded = self._of_bets, self._by_calls, self.folded
        for source, operation, tx_id, account, bet_id, player_id, cents, at_millis, is_ordinary, expected in rows:
            hour = at_millis // _HOUR_MILLIS
            if is_ordinary:
                of_bets[hour] += hash(f"{operation}\0{source}\0{tx_id}\0{account}\0{bet_id}\0{player_id}\0{cents}")
            if expected and hour // _HOURS in folded:
                folded[hour // _HOURS].add(operation, source, tx_id, account, at_millis, expected)
            elif expected:
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
        """Add rows of ``posting``; what is still there of a folded day was not folded."""
        posted, folded = self._by_postings, self.folded
        for _, at_millis, taken_from, given_to, cents, source, operation, tx_id in rows:
            account, moved = (taken_from, -cents) if given_to is None else (given_to, cents)
            hour = at_millis // _HOUR_MILLIS
            if hour // _HOURS in folded:
                folded[hour // _HOURS].add(operation, source, tx_id, account, at_millis, moved, times=-1)
            else:
                posted[hour] += hash(f"{operation}\0{source}\0{tx_id}\0{account}\0{at_millis}\0{moved}")

    def hours_of_bets(self) -> set[int]:
        """Return the hours in which calls and bets differ."""
        return {hour for hour, total in self._of_bets.items() if total}

    def hours_of_postings(self) -> set[int]:
        """Return the hours in which calls and postings differ."""
        hours = {*self._by_calls, *self._by_postings}
        return {hour for hour in hours if self._by_calls[hour] != self._by_postings[hour]}


class WholeBooks(Verification):
    """One reading of everything, with a snapshot for each page."""

    def __init__(self, prefix: str, read: Reader, marks: Marks, *, most: int = 1_000) -> None:
        super().__init__(prefix, most=most)
        self._read, self._marks = read, marks
        self._folded: dict[int, CallsSum] = {}
        self._sums = HourlySums()
        #: Of each page of postings the bounds, the hours, and whether some are newer than the calls that were read, or
        #: of a day that is folded.
        self._pages: list[tuple[Bounds, set[int], bool]] = []
        self._sources: set[str] = set()
        #: The days of calls: of a day that was closed, all that is stored may be gone.
        self._days: set[int] = set()
        #: What the calls of folded days, whose postings are gone, have brought to each account.
        self._moved: Counter[str] = Counter()
        self._until = -FAR

    def read(self) -> Steps[None]:
        """Read everything."""
        self._folded = yield self._read(partial(folded_days, self._prefix))
        self._sums = HourlySums(self._folded)
        newest = yield self._read(partial(newest_posting, self._prefix))
        # Calls before this are summed up; those that follow are few, and looked up.
        ends = [-FAR if newest is None else newest + 1, *((day + 1) * DAY_MILLIS for day in self._folded)]
        self._until = max(ends)
        yield from self._slices()
        yield from self._count_sealed()
        yield from self._not_sealed()
        start = -FAR
        while start < self._until:
            start = yield from self._time(start)
        yield from self.times(self._read, self._until, FAR)
        yield from self.all_accounts(self._read, sealed=None)
        yield from self._again()
        yield from self._carried()
        yield from self.unpaid(self._read, -FAR)
        yield from self.sources(self._read, self._sources)
        closed = yield self._read(partial(closed_days, self._prefix, -FAR))
        yield from self.totals(self._read, self._days.union(closed))

    def _slices(self) -> Steps[None]:
        after = (-FAR, 0)
        while True:
            slices = yield self._read(partial(live_slices, self._prefix, after, _SLICES))
            for each in slices:
                if each.last_id > self._marks.position:
                    continue  # It was sealed meanwhile, and is read with what is not.
                detail, rows, strangers = yield self._read(partial(self._sealed, each))
                self.sealed_otherwise(each, detail)
                self._postings(each.bounds, rows, strangers)
            if len(slices) < _SLICES:
                return
            after = slices[-1][:2]

    def _count_sealed(self) -> Steps[None]:
        """Look whether all postings up to the checkpoint are in slices, unless some were folded meanwhile."""
        count = 0
        for start in range(0, self._marks.position, _COUNTED):
            ((row,),) = yield self._read(self.asked(("count", (start, min(start + _COUNTED, self._marks.position)))))
            count += row[0]
        if count != self.postings and (yield self._read(partial(read_marks, self._prefix))).folds == self._marks.folds:
            detail = f"Of {count} postings with ids up to {self._marks.position}, {self.postings} are in slices."
            self.add("slices", Finding("slice_differs", detail))

    def _sealed(self, known: Slice) -> Steps[tuple[str, list[Any], Rows]]:
        detail, rows = yield from slice_read(self._prefix, known)
        (strangers,) = yield from self.asked(("strangers", (*known.bounds, self.most)))()
        return detail, rows, strangers

    def _not_sealed(self) -> Steps[None]:
        """Read the postings that are not sealed; those that come meanwhile are for the next time."""
        position = self._marks.position
        ((highest,),) = yield self._read(self.asked(("highest", ())))
        until = highest[0] or 0
        while position < until:
            bounds, rows, strangers = yield self._read(partial(self._next, position, until))
            if not rows:
                return
            self._postings(bounds, rows, strangers)
            position = bounds[1]

    def _next(self, position: int, until: int) -> Steps[tuple[Bounds, list[Any], Rows]]:
        rows = yield from next_rows(self._prefix, position, until, _POSTINGS)
        bounds = (rows[0][0], rows[-1][0], -FAR, FAR) if rows else (0, 0, 0, 0)
        (strangers,) = yield from self.asked(("strangers", (*bounds, self.most)))()
        return bounds, rows, strangers

    def _postings(self, bounds: Bounds, rows: list[Any], strangers: Rows) -> None:
        self.postings += len(rows)
        self.strangers(strangers)
        if not rows:
            return
        hours = {row[1] // _HOUR_MILLIS for row in rows}
        is_old = not self._folded.keys().isdisjoint(hour // _HOURS for hour in hours)
        self._pages.append((bounds, hours, is_old or any(row[1] >= self._until for row in rows)))
        self._sums.add_postings(row for row in rows if row[1] < self._until)
        if is_old:
            old = (row for row in rows if row[1] // DAY_MILLIS in self._folded)
            for row in old:
                self._moved[row[2] or row[3]] -= delta_of(row)

    def _time(self, start: int) -> Steps[int]:
        """Read the next calls and bets; return where the ones after them begin."""
        until = yield from self.page_end(self._read, start, self._until)
        time, limited = (start, until), (start, until, self.most)
        # What no sum can say is looked up at once.
        questions = (
            ("calls_in_full", time),
            ("bets_in_full", time),
            ("bet_counts", time),
            ("calls", limited),
            ("bets", (*time, self._until, *time, self._until, self.most)),
            ("payments", limited),
        )
        answers = yield self._read(self.asked(*questions, chosen="other_bets", which="is_other_call"))
        calls, bets, counts, *faults = answers
        self.count(len(calls), counts)
        for question, rows in zip(("calls", "bets", "payments"), faults, strict=True):
            self.faults(question, rows)
        self._sums.add_calls(calls)
        self._sums.add_bets(bets, self._until)
        self._sources.update({row[0] for row in calls if row[1] not in ("open", "adjust")})
        self._days.update(row[7] // DAY_MILLIS for row in calls)
        if self._folded and start < (max(self._folded) + 1) * DAY_MILLIS:
            for row in calls:
                if row[9] and row[7] // DAY_MILLIS in self._folded:
                    self._moved[row[3]] += row[9]
        return until

    def _again(self) -> Steps[None]:
        """Read the hours again, row by row, in which something differs."""
        read_before = self.postings, self.calls, Counter(self.bets)
        of_postings = self._sums.hours_of_postings()
        for bounds, hours, is_odd in self._pages:
            if is_odd or not of_postings.isdisjoint(hours):
                yield from self.postings_within(self._read, bounds, 0)
        for hour in sorted(of_postings | self._sums.hours_of_bets()):
            start = hour * _HOUR_MILLIS
            yield from self.times(self._read, start, min(start + _HOUR_MILLIS, self._until))
        self.postings, self.calls, self.bets = read_before

    def _carried(self) -> Steps[None]:
        """
        Compare the calls whose postings are gone with what was folded: by day, and by account with what is carried.

        If some postings of an account are wrong, what was folded of it cannot be known.
        """
        (strangers,) = yield self._read(self.asked(("carried_strangers", (self.most,))))
        self.strangers(strangers)
        wrong = self.doubtful_accounts()
        after: str | None = ""
        while after is not None:
            (rows,) = yield self._read(self.asked(("carried", (after, _CARRIED))))
            for account, cents in rows:
                self._compare_carried(account, self._moved.pop(account, 0) - cents, wrong)
            after = rows[-1][0] if len(rows) == _CARRIED else None
        for account, cents in sorted(self._moved.items()):
            if cents:
                self._compare_carried(account, cents, wrong)
        for day in sorted(self._folded):
            self._compare_folded(day, self._folded[day], self._sums.folded[day])
        if (yield self._read(partial(read_marks, self._prefix))).folds != self._marks.folds:
            self.forget("carried")
            detail = "Postings were folded meanwhile, so what is carried was not compared with calls. Verify again."
            self.notes.append(Finding("folded_meanwhile", detail))

    def _compare_carried(self, account: str, difference: int, wrong: set[str]) -> None:
        if not self._folded:
            self.add("carried", carried_unasked(account))
        elif difference and account not in wrong:
            detail = (
                f"What was folded for {shown(account)} is {amount(abs(difference))} {side(-difference)} the sum of "
                "the calls whose postings are gone."
            )
            self.add("carried", Finding("carried_differs", detail, account))

    def _compare_folded(self, day: int, folded: CallsSum, calls: CallsSum) -> None:
        if folded != calls:
            detail = (
                f"Of {day_text(day)}, {folded.count} postings that sum to {amount(folded.cents)} were folded. Calls "
                f"without a posting are {calls.count} that sum to {amount(calls.cents)}, or are others."
            )
            self.add("carried", Finding("folded_differs", detail))
