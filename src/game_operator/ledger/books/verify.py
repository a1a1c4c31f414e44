"""
Checks the books: whether balances, postings, calls and bets agree.

Each check concerns one account, one posting, one call or one bet, so pages are read from a snapshot each, and no
snapshot lasts long enough to hold the database back. What several pages sum up is of finished days, or is compared
only if nothing was folded meanwhile. What is wrong comes back as findings, and is not raised: that books cannot be
trusted is an answer.
"""

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from game_operator.codes import BetState
from game_operator.errors import shown
from game_operator.ledger.books.slices import Slice, Window, damaged_slices, live_slices, slice_differs
from game_operator.ledger.books.totals import DAY_MILLIS, day_text
from game_operator.ledger.engine.script import Execute, Rows, Script, Work
from game_operator.ledger.engine.tables import POSTING_ACCOUNT, POSTING_DELTA, sql_texts, toml_texts
from game_operator.money import amount_from_cents

#: The statements sum amounts in two halves: SQLite stops at a sum beyond 63 bits, which two large balances reach.
_HALF = 1_000_000_000
_FAR = 2**62
#: How many accounts, postings, bets and slices a page has.
_ACCOUNTS, _POSTINGS, _BETS, _SLICES = 500, 5_000, 5_000, 1_000
#: A call takes its time before it is stored. What is stored later than that is found when its day is read again.
_MARGIN_MILLIS = 10_000

#: Runs a script from one snapshot; what it returns is awaited by an AsyncSqlLedger.
Reader: TypeAlias = Callable[[Callable[[], Script[Any]]], Any]


class Finding(NamedTuple):
    """
    Something in the books that is wrong, or worth a look.

    Attributes:
        kind: What it is, such as ``balance_differs``; docs/ledger.md lists them.
        detail: The same for a person, with the amounts in currency units.
        account, source, bet_id, operation, tx_id: Where it is, as far as that applies.
    """

    kind: str
    detail: str
    account: str | None = None
    source: str | None = None
    bet_id: str | None = None
    operation: str | None = None
    tx_id: str | None = None


class BooksReport(NamedTuple):
    """
    What ``verify`` found.

    Attributes:
        findings: What is wrong; at most 1,000 of each question.
        notes: What is right and worth knowing: accounts below zero, and whether balances are elsewhere, not compared.
        accounts: How many accounts there are; each was compared with its postings.
        calls, postings: How many were read.
        bets: How many were read, by state.
        balances_cents: What all players of our own accounts hold.
        house_cents: What all postings together left with the house: minus what they brought to players.
        pruned_before_millis: Postings before this were folded, or None if none ever were.
        checkpoint_millis: What came before this was sound when it was sealed, and was not read; None if everything was.
    """

    findings: tuple[Finding, ...]
    notes: tuple[Finding, ...]
    accounts: int
    calls: int
    postings: int
    bets: dict[str, int]
    balances_cents: int
    house_cents: int
    pruned_before_millis: int | None
    checkpoint_millis: int | None = None

    @property
    def sound(self) -> bool:
        """Whether nothing is wrong."""
        return not self.findings


class Marks(NamedTuple):
    """
    How far the books are sealed and folded.

    Attributes:
        position: The highest id that is sealed; 0 if none is.
        checkpoint_millis: When that was; None if never.
        pruned_before_millis: As in a BooksReport.
        folds: How often postings were folded.
        balances_elsewhere: Whether a ledger was opened here whose balances are in the operator's own table.
    """

    position: int
    checkpoint_millis: int | None
    pruned_before_millis: int | None
    folds: int
    balances_elsewhere: bool


class Verification:
    """
    One reading of the books, or of a part of them, page by page.

    Attributes:
        days: The days of what was found, apart from accounts: they are to be read again.
        postings, calls, bets, accounts: How many were read.
        compared: How many accounts were compared with their postings, those in the operator's own table, too.
    """

    def __init__(self, prefix: str, *, most: int = 1_000) -> None:
        self._prefix, self._most = prefix, most
        self._sql = _sql(prefix)
        self._found: dict[str, dict[Finding, None]] = {}
        self._notes: list[Finding] = []
        self._moved: Counter[tuple[int, str]] = Counter()
        self._folded: _Sums | None = None
        self.days: set[int] = set()
        self.postings = self.calls = self.accounts = self.compared = 0
        self.balances_cents = self.house_cents = 0
        self.bets: Counter[str] = Counter()

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What was found so far; of a call that was posted twice or elsewhere, only that."""
        posted = self._found.get("postings", {})
        twice = {_identity(each) for each in posted if each.kind == "posted_twice"}
        known = {_identity(each) for each in posted}
        hidden = {each for each in posted if each.kind != "posted_twice" and _identity(each) in twice}
        hidden |= {each for each in self._found.get("unposted", ()) if _identity(each) in known}
        return tuple(each for name in _ORDER for each in self._found.get(name, ()) if each not in hidden)

    def everything(self, read: Reader, marks: Marks) -> Work[None]:
        """Read the whole books."""
        with closing(_Sums()) as sums:
            self._folded = sums
            yield from self._slices(read)
            yield from self.postings_after(read, marks.position)
            yield from self.times(read, -_FAR, _FAR, marks)
            yield from self.all_accounts(read, since_checkpoint=False)
            yield from self._carried(read, marks)
            self._folded = None
        yield from self._unpaid(read, -_FAR)
        yield from self._totals(read)

    def news(self, read: Reader, marks: Marks) -> Work[None]:
        """Read what came after the checkpoint, what was damaged before it, and all balances."""
        damaged = yield read(partial(damaged_slices, self._prefix))
        for each in damaged:
            yield from self.slice(read, each)
        yield from self.postings_after(read, marks.position)
        since = self.since(marks)
        for day in sorted({each.day for each in damaged}):
            yield from self.times(read, day * DAY_MILLIS, min((day + 1) * DAY_MILLIS, since), marks)
        yield from self.times(read, since, _FAR, marks)
        yield from self.touched(read, since)
        yield from self.all_accounts(read, since_checkpoint=True)

    def _slices(self, read: Reader) -> Work[None]:
        after = (-_FAR, 0)
        while True:
            slices = yield read(partial(live_slices, self._prefix, after, _SLICES))
            for each in slices:
                yield from self.slice(read, each)
            if len(slices) < _SLICES:
                return
            after = slices[-1][:2]

    def slice(self, read: Reader, sealed: Slice) -> Work[None]:
        """Read a sealed slice: its postings must be those that were sealed."""
        detail = yield read(partial(slice_differs, self._prefix, sealed))
        if detail:
            self._add("slices", Finding("slice_differs", detail), sealed.day * DAY_MILLIS)
        bounds = (sealed.first_id, sealed.last_id, sealed.day * DAY_MILLIS, (sealed.day + 1) * DAY_MILLIS)
        yield from self._window(read, bounds, sealed.postings)

    def postings_after(self, read: Reader, position: int) -> Work[None]:
        """Read the postings that are not sealed."""
        # Those that come meanwhile are for the next time, or this one might never end.
        ((highest,),) = yield read(self._asked(("highest", ())))
        until = highest[0] or 0
        while position < until:
            ((row,),) = yield read(self._asked(("window", (position, until, _POSTINGS))))
            first, last, count = row
            if not count:
                return
            yield from self._window(read, (first, last, -_FAR, _FAR), count)
            position = last

    def window(self, read: Reader, window: Window) -> Work[None]:
        """Read postings that are to be sealed."""
        postings = sum(each.postings for each in window.slices)
        yield from self._window(read, (window.first_id, window.last_id, -_FAR, _FAR), postings)

    def _window(self, read: Reader, bounds: tuple[int, int, int, int], count: int) -> Work[None]:
        limited = (*bounds, self._most)
        faults, strangers = yield read(self._asked(("postings", limited), ("strangers", limited)))
        self.postings += count
        for row in faults:
            self._add("postings", _finding("postings", row[:-1]), row[-1])
        self._strangers(strangers)

    def _strangers(self, rows: Rows) -> None:
        for kind, account, at_millis in rows:
            detail = f"Postings of {shown(account)}, of which there is no account."
            self._add("accounts", Finding(kind, detail, account), at_millis)

    def times(self, read: Reader, start: int, end: int, marks: Marks) -> Work[None]:
        """Read the calls and the bets from *start* up to but not at *end*, in Unix milliseconds."""
        while start < end:
            start = yield from self.time(read, start, end, marks)

    def since(self, marks: Marks) -> int:
        """Return since when calls and bets are news."""
        return -_FAR if marks.checkpoint_millis is None else marks.checkpoint_millis - _MARGIN_MILLIS

    def time(self, read: Reader, start: int, end: int | None, marks: Marks) -> Work[int]:
        """Read the next calls and bets, before *end* if it is given; return where the ones after them begin."""
        end = _FAR if end is None else end
        (((next_bet,),),) = yield read(self._asked(("slice_end", (start, _BETS))))
        until = end if next_bet is None else min(end, next_bet)
        time, limited = (start, until), (start, until, self._most)
        questions: list[tuple[str, Sequence[Any]]] = [
            ("call_count", time),
            ("bet_counts", time),
            ("unposted", limited),
            ("calls", limited),
            ("bets", (*time, *limited)),
            ("payments", limited),
        ]
        if self._folded is not None:
            before = -_FAR if marks.pruned_before_millis is None else marks.pruned_before_millis
            questions += (("moved_by_day", time), ("folded_by_account", (*time, before)))
        answers = yield read(self._asked(*questions, chosen="bets_of_time"))
        (((calls,),), bets, unposted, *faults) = answers[:6]
        self.calls += calls
        self.bets.update({state: int(count) for state, count in bets})
        for row in unposted:
            self._add("unposted", _finding("postings", row[:-1]), row[-1])
        for question, rows in zip(("calls", "bets", "payments"), faults, strict=True):
            self._faults(question, rows)
        if self._folded is not None:
            for day, side, *sums in answers[6]:
                self._moved[int(day), side] += _whole(*sums)
            self._folded.add(answers[7])
        return until

    def _faults(self, question: str, rows: Rows) -> None:
        for row in rows:
            self._add(question, _finding(question, row[:-1]), row[-1])

    def touched(self, read: Reader, since: int) -> Work[None]:
        """Read the bets that were opened before a time and named by calls after it, and what was paid after it."""
        chosen = (since, _FAR, since)
        (bets,) = yield read(self._asked(("bets", (*chosen, *chosen, self._most)), chosen="bets_touched"))
        self._faults("bets", bets)
        yield from self._unpaid(read, since)

    def _unpaid(self, read: Reader, since: int) -> Work[None]:
        ((*rows,),) = yield read(self._asked(("unpaid", (since, self._most))))
        self._faults("payments", rows)

    def all_accounts(self, read: Reader, *, since_checkpoint: bool) -> Work[None]:
        """Compare every account with what was posted to it."""
        for page in ("own_accounts", "clocks"):
            after: str | None = ""
            while after is not None:
                after = yield from self.some_accounts(read, page, after, since_checkpoint=since_checkpoint)

    def some_accounts(self, read: Reader, page: str, after: str, *, since_checkpoint: bool) -> Work[str | None]:
        """Compare the accounts of a page, those that follow *after*; return the last one, None if none follow."""
        texts = {"page": self._sql[page], "posted": self._sql["posted_since" if since_checkpoint else "posted_in_all"]}
        bounds = (after, _ACCOUNTS)
        questions = (("account_sums", bounds), ("account_times", (*bounds, self._most)))
        sums, times = yield read(self._asked(*questions, **texts))
        for row in sums:
            self._account(row)
        for row in times:
            self._add("times", _finding("times", row), row[3])
        return sums[-1][0] if len(sums) == _ACCOUNTS else None

    def _account(self, row: Sequence[Any]) -> None:
        account, owned, cents, moved_at, _, high, low, posted_at = row
        posted = _whole(high, low)
        self.accounts += owned
        self.compared += 1
        self.balances_cents += cents
        self.house_cents -= posted
        difference = cents - posted
        if owned and difference:
            detail = f"The balance of {shown(account)} is {_amount(abs(difference))} {_side(difference)} its postings."
            self._add("accounts", Finding("balance_differs", detail, account))
        if posted_at is not None and posted_at > moved_at:
            detail = f"The account {shown(account)} was moved at {posted_at}, and says {moved_at}."
            self._add("accounts", Finding("account_too_early", detail, account))
        if owned and cents < 0 and len(self._notes) < self._most:
            self._notes.append(
                Finding("negative_balance", f"The account {shown(account)} holds {_amount(cents)}.", account)
            )

    def _carried(self, read: Reader, marks: Marks) -> Work[None]:
        """
        Compare what is carried with the calls whose postings are gone.

        As all other postings are as their calls would have them, what is carried of an account is the sum of those
        calls. If other postings of it are wrong, what was folded of it cannot be known.
        """
        assert self._folded is not None
        ((strangers),) = yield read(self._asked(("carried_strangers", (self._most,))))
        self._strangers(strangers)
        wrong = {finding.account for finding in self.findings if finding.operation is not None}
        after: str | None = ""
        while after is not None:
            (rows,) = yield read(self._asked(("carried", (after, _POSTINGS))))
            for account, cents in rows:
                self._compare_carried(account, self._folded.taken(account) - cents, wrong, marks)
            after = rows[-1][0] if len(rows) == _POSTINGS else None
        for account, cents in self._folded.left():
            self._compare_carried(account, cents, wrong, marks)
        (rows,) = yield read(self._asked(("marks", ())))
        if _marks(rows).folds != marks.folds:
            self._found.pop("carried", None)
            detail = "Postings were folded meanwhile, so what is carried was not compared with calls. Verify again."
            self._notes.append(Finding("folded_meanwhile", detail))

    def _compare_carried(self, account: str, difference: int, wrong: set[str | None], marks: Marks) -> None:
        if marks.pruned_before_millis is None:
            self._add("carried", _finding("any_carried", ("carried_unasked", account)))
        elif difference and account not in wrong:
            detail = (
                f"What was folded for {shown(account)} is {_amount(abs(difference))} {_side(-difference)} the sum of "
                "the calls whose postings are gone."
            )
            self._add("carried", Finding("carried_differs", detail, account))

    def _totals(self, read: Reader) -> Work[None]:
        """Compare what closes have stored of days with what their calls moved, if postings and calls agree."""
        if any(finding.operation is not None for finding in self.findings):
            return
        stored, closes = yield read(self._asked(("stored_by_day", ()), ("last_close", ())))
        if not closes:
            return
        _, before_day, since_day = closes[0]
        sums = {(int(day), side): _whole(*halves) for day, side, *halves in stored}
        for day, side in sorted({*sums, *self._moved}):
            if since_day <= day < before_day and self._moved[day, side] != sums.get((day, side), 0):
                difference = yield from self._day_difference(read, day, side)
                if not difference:
                    continue  # Late entries came meanwhile.
                detail = (
                    f"The totals of {day_text(day)}, which is closed, differ by {_amount(abs(difference))} from what "
                    f"calls moved {side} players' accounts."
                )
                self._add("totals", Finding("totals_differ", detail))

    def _day_difference(self, read: Reader, day: int, side: str) -> Work[int]:
        """Return by how much the calls of a day differ from its totals, from one snapshot."""
        time = (day * DAY_MILLIS, (day + 1) * DAY_MILLIS)
        answers = yield read(self._asked(("moved_by_day", time), ("stored_by_day", ())))
        moved, stored = ({row[:2]: _whole(*row[2:]) for row in map(tuple, rows)} for rows in answers)
        return moved.get((day, side), 0) - stored.get((day, side), 0)

    def _add(self, question: str, finding: Finding, at_millis: int | None = None) -> None:
        found = self._found.setdefault(question, {})
        if len(found) < self._most:
            found[finding] = None
        if at_millis is not None:
            self.days.add(at_millis // DAY_MILLIS)

    def _asked(self, *questions: tuple[str, Sequence[Any]], **texts: str) -> Callable[[], Script[list[Rows]]]:
        """Return a script that asks *questions* from one snapshot."""
        chosen = {name: self._sql.get(text, text) for name, text in texts.items()}

        def script() -> Script[list[Rows]]:
            answers = []
            for name, parameters in questions:
                sql = self._sql[name]
                for placeholder, text in chosen.items():
                    sql = sql.replace(f"{{{placeholder}}}", text)
                answers.append((yield Execute(sql, parameters)))
            return answers

        return script

    def report(self, marks: Marks, *, everything: bool) -> BooksReport:
        """Return what was found."""
        notes = list(self._notes)
        if marks.balances_elsewhere:
            detail = "The balances are in the operator's own table, and are not compared with the postings."
            notes.insert(0, Finding("balances_elsewhere", detail))
        return BooksReport(
            self.findings,
            tuple(notes),
            self.accounts,
            self.calls,
            self.postings,
            {state.value: self.bets[state.value] for state in BetState if self.bets[state.value]},
            balances_cents=self.balances_cents,
            house_cents=self.house_cents,
            pruned_before_millis=marks.pruned_before_millis,
            checkpoint_millis=None if everything else marks.checkpoint_millis,
        )


def verified(read: Reader, prefix: str, *, full: bool, most: int = 1_000) -> Work[BooksReport]:
    """Check the tables with *prefix*: all of them, or what came after the checkpoint; keep *most* answers of a kind."""
    verification = Verification(prefix, most=most)
    marks = yield read(partial(read_marks, prefix))
    everything = full or marks.checkpoint_millis is None
    yield from (verification.everything if everything else verification.news)(read, marks)
    return verification.report(marks, everything=everything)


def read_marks(prefix: str) -> Script[Marks]:
    """Return how far the books are sealed and folded."""
    return _marks((yield Execute(_sql(prefix)["marks"], ())))


def _marks(rows: Rows) -> Marks:
    values = {name: int(value) for name, value in rows}
    return Marks(
        values.get("checkpoint_position", 0),
        values.get("checkpoint_millis"),
        values.get("pruned_before"),
        values.get("folds", 0),
        bool(values.get("balances_elsewhere")),
    )


#: The order in which findings are reported, by the question that found them.
_ORDER = ("accounts", "slices", "postings", "unposted", "bets", "calls", "payments", "times", "carried", "totals")


class _Sums:
    """Sums by account, in a temporary file: there may be more accounts than memory should hold."""

    def __init__(self) -> None:
        self._file = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        self._file.execute("PRAGMA journal_mode = OFF")
        self._file.execute("CREATE TABLE sums (account TEXT PRIMARY KEY, high INTEGER, low INTEGER) WITHOUT ROWID")

    def add(self, rows: Iterable[Sequence[Any]]) -> None:
        """Add rows of an account and a sum in two halves."""
        self._file.executemany(
            "INSERT INTO sums VALUES (?, ?, ?) "
            "ON CONFLICT (account) DO UPDATE SET high = high + excluded.high, low = low + excluded.low",
            [(account, int(high), int(low)) for account, high, low in rows],
        )

    def taken(self, account: str) -> int:
        """Return the sum of an account, which is forgotten."""
        rows = self._file.execute("DELETE FROM sums WHERE account = ? RETURNING high, low", (account,)).fetchall()
        return _whole(*rows[0]) if rows else 0

    def left(self) -> Iterable[tuple[str, int]]:
        """Yield the accounts that were not taken, with their sums."""
        for account, *halves in self._file.execute("SELECT account, high, low FROM sums ORDER BY account"):
            yield account, _whole(*halves)

    def close(self) -> None:
        """Give up the file."""
        self._file.close()


def _identity(finding: Finding) -> tuple[str | None, ...]:
    return finding.source, finding.operation, finding.tx_id


def _whole(high: Any, low: Any) -> int:
    # PostgreSQL sums to a numeric, which arrives as a Decimal; sums of no rows are NULL.
    return int(high or 0) * _HALF + int(low or 0)


def _amount(cents: int) -> str:
    return str(amount_from_cents(cents))


def _side(difference: int) -> str:
    return "above" if difference > 0 else "below"


def _finding(question: str, row: Sequence[Any]) -> Finding:
    """Return the finding in an answer to *question*, as verify.toml describes it."""
    texts = toml_texts(__package__, "verify.toml")[question]
    found: dict[str, Any] = dict(zip(texts["columns"], row, strict=True))
    words = {name: shown(found.get(name)) for name in ("account", "bet_id", "other")}
    words |= {name: _amount(int(value)) for name, value in found.items() if name.endswith("_cents")}
    words["call"] = f"{found.get('operation')} {shown(found.get('tx_id'))}"
    detail = texts[found["kind"]].format(**found | words)
    return Finding(found["kind"], detail, *(found.get(name) for name in Finding._fields[2:]))


def _sql(prefix: str) -> dict[str, str]:
    return sql_texts(
        __package__,
        "verify.sql",
        prefix=prefix,
        account_of_p=POSTING_ACCOUNT.format("p."),
        account_of_q=POSTING_ACCOUNT.format("q."),
        delta=POSTING_DELTA.format(""),
        delta_of_p=POSTING_DELTA.format("p."),
    )
