"""
Checks the books: whether balances, postings, calls and bets agree.

Each check concerns one account, one posting, one call or one bet, so pages are read from a snapshot each, and no
snapshot lasts long enough to hold the database back. What several pages sum up is of finished days, or is compared
only if nothing was folded meanwhile. What is wrong comes back as findings, and is not raised: that books cannot be
trusted is an answer.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from game_operator.codes import BetState
from game_operator.errors import shown
from game_operator.ledger.books.slices import Bounds, Slice, Window, damaged_slices, slice_read
from game_operator.ledger.books.totals import DAY_MILLIS, call_columns, closed_days, day_text, differing_totals
from game_operator.ledger.engine.tables import POSTING_ACCOUNT, POSTING_DELTA, sql_texts, toml_texts
from game_operator.ledger.steps import Execute, Rows, Steps
from game_operator.money import amount_from_cents

#: The statements sum amounts in two halves: SQLite stops at a sum beyond 63 bits, which two large balances reach.
HALF = 1_000_000_000
FAR = 2**62
#: How many accounts, postings and bets a page has.
_ACCOUNTS, _POSTINGS, _BETS = 500, 5_000, 5_000
#: What accounts are compared with: all that was ever posted to them.
_IN_ALL = {"posted": "posted_in_all", "which": "is_any", "news": ""}
#: A call takes its time before it is stored. What is stored later than that is found when its day is read again.
_MARGIN_MILLIS = 10_000

#: Runs a script from one snapshot; what it returns is awaited by an AsyncSqlLedger.
Reader: TypeAlias = Callable[[Callable[[], Steps[Any]]], Any]


class Finding(NamedTuple):
    """
    Something in the books that is wrong, or worth a look.

    Attributes:
        kind: What it is, such as ``balance_differs``; docs/reference/tables.md lists them.
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
        dropped_before_millis: Postings before this were folded, or None if none ever were.
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
    dropped_before_millis: int | None
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
        verified_millis: When ``maintain`` has verified the books last, to the end.
        dropped_before_millis: As in a BooksReport.
        folds: How often postings were folded.
        balances_elsewhere: Whether a ledger was opened here whose balances are in the operator's own table.
    """

    position: int
    checkpoint_millis: int | None
    verified_millis: int | None
    dropped_before_millis: int | None
    folds: int
    balances_elsewhere: bool


class Verification:
    """
    One reading of the books, or of a part of them, page by page.

    Attributes:
        days: The days of what was found, apart from accounts: they are to be read again.
        postings, calls, bets, accounts: How many were read.
        compared: How many accounts were compared with their postings, those in the operator's own table, too.
        notes: What is right and worth knowing.
        most: How many findings of each question are kept.
    """

    def __init__(self, prefix: str, *, most: int = 1_000) -> None:
        self._prefix = prefix
        self.most: int = most
        self.notes: list[Finding] = []
        self._sql = _sql(prefix)
        self._found: dict[str, dict[Finding, None]] = {}
        self._others: set[str] = set()
        self.days: set[int] = set()
        self.postings: int = 0
        self.calls: int = 0
        self.accounts: int = 0
        self.compared: int = 0
        self.balances_cents: int = 0
        self.house_cents: int = 0
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

    def news(self, read: Reader, marks: Marks) -> Steps[None]:
        """Read what came after the checkpoint, what was damaged before it, and all balances."""
        damaged = yield read(partial(damaged_slices, self._prefix))
        for each in damaged:
            yield from self.slice(read, each)
        yield from self.postings_after(read, marks.position)
        since = self.since(marks)
        yield from self.damaged_days(read, damaged, since)
        yield from self.times(read, since, FAR)
        yield from self.touched(read, since)
        yield from self.all_accounts(read, sealed=marks.position)
        yield from self.sources(read)
        yield from self.closed_lately(read, marks.checkpoint_millis)

    def damaged_days(self, read: Reader, damaged: Iterable[Slice], until: int) -> Steps[None]:
        """Read the calls and bets again, before a time, of the days in which something was found."""
        for day in sorted({each.day for each in damaged}):
            yield from self.times(read, day * DAY_MILLIS, min((day + 1) * DAY_MILLIS, until))

    def slice(self, read: Reader, sealed: Slice) -> Steps[list[Any]]:
        """Read a sealed slice and return its postings, which must be those that were sealed."""
        detail, rows = yield read(partial(slice_read, self._prefix, sealed))
        self.sealed_otherwise(sealed, detail)
        yield from self.postings_within(read, sealed.bounds, sealed.postings)
        return rows  # type: ignore[no-any-return]  # A list of rows.

    def sealed_otherwise(self, sealed: Slice, detail: str) -> None:
        """Add that a slice differs from what was sealed, if *detail* says how."""
        if detail:
            self.add("slices", Finding("slice_differs", detail), sealed.day * DAY_MILLIS)

    def postings_after(self, read: Reader, position: int) -> Steps[None]:
        """Read the postings that are not sealed."""
        # Those that come meanwhile are for the next time, or this one might never end.
        ((highest,),) = yield read(self.asked(("highest", ())))
        until = highest[0] or 0
        while position < until:
            ((row,),) = yield read(self.asked(("window", (position, until, _POSTINGS))))
            first, last, count = row
            if not count:
                return
            yield from self.postings_within(read, (first, last, -FAR, FAR), count)
            position = last

    def window(self, read: Reader, window: Window) -> Steps[None]:
        """Read postings that are to be sealed."""
        postings = sum(each.postings for each in window.slices)
        yield from self.postings_within(read, (window.first_id, window.last_id, -FAR, FAR), postings)
        yield from self.order_of(read, sorted(window.late))

    def postings_within(self, read: Reader, bounds: Bounds, count: int) -> Steps[None]:
        """Read the *count* postings within ids and times."""
        limited = (*bounds, self.most)
        faults, strangers = yield read(self.asked(("postings", limited), ("strangers", limited)))
        self.postings += count
        for row in faults:
            self.add("postings", _finding("postings", row[:-1]), row[-1])
            self._others.add(row[5])
        self.strangers(strangers)

    def strangers(self, rows: Rows) -> None:
        """Add accounts that have postings and are unknown, as ``strangers`` asks for them."""
        for kind, account, at_millis in rows:
            detail = f"Postings of {shown(account)}, of which there is no account."
            self.add("accounts", Finding(kind, detail, account), at_millis)

    def times(self, read: Reader, start: int, end: int) -> Steps[None]:
        """Read the calls and the bets from *start* up to but not at *end*, in Unix milliseconds."""
        while start < end:
            start = yield from self.time(read, start, end)

    def since(self, marks: Marks) -> int:
        """Return since when calls and bets are news."""
        return -FAR if marks.checkpoint_millis is None else marks.checkpoint_millis - _MARGIN_MILLIS

    def time(self, read: Reader, start: int, end: int | None) -> Steps[int]:
        """Read the next calls and bets, before *end* if it is given; return where the ones after them begin."""
        end = FAR if end is None else end
        until = yield from self.page_end(read, start, end)
        time, limited = (start, until), (start, until, self.most)
        questions: tuple[tuple[str, Sequence[Any]], ...] = (
            ("call_count", time),
            ("bet_counts", time),
            ("unposted", limited),
            ("calls", limited),
            ("bets", (*time, *limited)),
            ("payments", limited),
        )
        answers = yield read(self.asked(*questions, chosen="bets_of_time", which="is_any"))
        (((calls,),), bets, unposted, *faults) = answers
        self.count(calls, bets)
        for row in unposted:
            self.add("unposted", _finding("postings", row[:-1]), row[-1])
        for question, rows in zip(("calls", "bets", "payments"), faults, strict=True):
            self.faults(question, rows)
        return until

    def page_end(self, read: Reader, start: int, end: int) -> Steps[int]:
        """Return where a page of bets ends that begins at *start*, not after *end*."""
        (((next_bet,),),) = yield read(self.asked(("slice_end", (start, _BETS))))
        return end if next_bet is None else min(end, next_bet)

    def count(self, calls: int, bets: Rows) -> None:
        """Count calls, and bets by state, that were read."""
        self.calls += calls
        self.bets.update({state: int(count) for state, count in bets})

    def faults(self, question: str, rows: Rows) -> None:
        """Add what is wrong by the answers to a *question*."""
        for row in rows:
            self.add(question, _finding(question, row[:-1]), row[-1])

    def touched(self, read: Reader, since: int) -> Steps[None]:
        """Read the bets that were opened before a time and named by calls after it, and what was paid after it."""
        chosen = (since, FAR, since)
        (bets,) = yield read(self.asked(("bets", (*chosen, *chosen, self.most)), chosen="bets_touched"))
        self.faults("bets", bets)
        yield from self.unpaid(read, since)

    def unpaid(self, read: Reader, since: int) -> Steps[None]:
        """Read the findings that were paid after a time: each has a payment."""
        ((*rows,),) = yield read(self.asked(("unpaid", (since, self.most))))
        self.faults("payments", rows)

    def all_accounts(self, read: Reader, *, sealed: int | None) -> Steps[None]:
        """Compare every account with what was posted to it: its checkpoint and what came after that, or everything."""
        for page in ("own_accounts", "clocks"):
            after: str | None = ""
            while after is not None:
                after = yield from self.some_accounts(read, page, after, sealed=sealed)

    def some_accounts(self, read: Reader, page: str, after: str, *, sealed: int | None) -> Steps[str | None]:
        """
        Compare the accounts of a page, those that follow *after*; return the last one, None if none follow.

        Nothing with an id up to *sealed* came after the checkpoint; None reads everything.
        """
        texts, most = _IN_ALL | {"page": page, "after": ">"}, _ACCOUNTS
        if sealed is not None:
            texts |= {"posted": "posted_since", "which": "is_moved", "news": "not_sealed", "position": str(sealed)}
            most = 40 * _ACCOUNTS  # For each page all news are read.
        bounds = (after, most)
        (sums,) = yield read(self.asked(("account_sums", bounds), **texts))
        for row in sums:
            self._account(row)
        if any(row[7] for row in sums):
            yield from self._order(read, bounds, texts)
        return sums[-1][0] if len(sums) == most else None

    def _order(self, read: Reader, bounds: tuple[str, int], texts: dict[str, str]) -> Steps[None]:
        (times,) = yield read(self.asked(("account_times", (*bounds, self.most)), **texts))
        for row in times:
            self.add("times", _finding("times", row), row[3])

    def order_of(self, read: Reader, accounts: Iterable[str]) -> Steps[None]:
        """Look whether the times of all postings of *accounts* rise."""
        for account in accounts:
            for page in ("own_accounts", "clocks"):
                yield from self._order(read, (account, 1), _IN_ALL | {"page": page, "after": "="})

    @property
    def out_of_order(self) -> tuple[str, ...]:
        """The accounts in whose postings a time goes back."""
        return tuple(sorted({each.account for each in self._found.get("times", ()) if each.account is not None}))

    def _account(self, row: Sequence[Any]) -> None:
        account, owned, cents, moved_at, high, low, posted_at, _, *sealed, checkpoint = row
        posted = whole(high, low)
        self.accounts += owned
        self.compared += 1
        self.balances_cents += cents
        self.house_cents -= posted
        difference = cents - posted
        if owned and difference:
            detail = f"The balance of {shown(account)} is {amount(abs(difference))} {side(difference)} its postings."
            self.add("accounts", Finding("balance_differs", detail, account))
        if checkpoint is not None and checkpoint != whole(*sealed):
            held = amount(whole(*sealed))
            detail = f"The checkpoint of {shown(account)} is {amount(checkpoint)}, and its sealed postings are {held}."
            self.add("accounts", Finding("checkpoint_differs", detail, account))
        if posted_at is not None and posted_at > moved_at:
            detail = f"The account {shown(account)} was moved at {posted_at}, and says {moved_at}."
            self.add("accounts", Finding("account_too_early", detail, account))
        if owned and cents < 0 and len(self.notes) < self.most:
            self.notes.append(
                Finding("negative_balance", f"The account {shown(account)} holds {amount(cents)}.", account)
            )

    def add(self, question: str, finding: Finding, at_millis: int | None = None) -> None:
        """Add a *finding* by the question that found it, and of which time it is."""
        found = self._found.setdefault(question, {})
        if len(found) < self.most:
            found[finding] = None
        if at_millis is not None:
            self.days.add(at_millis // DAY_MILLIS)

    def asked(self, *questions: tuple[str, Sequence[Any]], **texts: str) -> Callable[[], Steps[list[Rows]]]:
        """Return a script that asks *questions* from one snapshot."""
        chosen = {name: self._sql.get(text, text) for name, text in texts.items()}

        def script() -> Steps[list[Rows]]:
            answers = []
            for name, parameters in questions:
                sql = self._sql[name]
                for placeholder, text in chosen.items():
                    sql = sql.replace(f"{{{placeholder}}}", text)
                answers.append((yield Execute(sql, parameters)))
            return answers

        return script

    def sources(self, read: Reader, seen: Iterable[str] = ()) -> Steps[None]:
        """Look for sources of bets, and of calls that were *seen*, that are not registered."""
        registered, of_bets = yield read(self.asked(("sources", ()), ("bet_sources", ())))
        for name in sorted({*seen, *(row[0] for row in of_bets)} - {row[0] for row in registered}):
            detail = f"There are calls or bets of the source {shown(name)}, which is not registered."
            self.add("sources", Finding("unknown_source", detail, source=name))

    def totals(self, read: Reader, days: Iterable[int]) -> Steps[None]:
        """Compare what closes have stored of *days* with what their calls have moved, if calls and postings agree."""
        for day in sorted(set(days) - self.days):
            moved = self.asked(("moved", (day * DAY_MILLIS, (day + 1) * DAY_MILLIS)))
            for detail in (yield read(partial(differing_totals, self._prefix, day, moved))):
                self.add("totals", Finding("totals_differ", f"The totals of {day_text(day)} differ, {detail}"))

    def closed_lately(self, read: Reader, since_millis: int | None) -> Steps[None]:
        """Compare the totals of the days that were closed after a time, or of all days."""
        since_day = -FAR if since_millis is None else (since_millis - _MARGIN_MILLIS) // DAY_MILLIS
        yield from self.totals(read, (yield read(partial(closed_days, self._prefix, since_day))))

    def forget(self, question: str) -> None:
        """Forget what a question found."""
        self._found.pop(question, None)

    def doubtful_accounts(self) -> set[str]:
        """Return the accounts of calls and postings that are wrong."""
        return self._others | {each.account for each in self.findings if each.operation and each.account is not None}

    def report(self, marks: Marks, *, everything: bool) -> BooksReport:
        """Return what was found."""
        notes = list(self.notes)
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
            dropped_before_millis=marks.dropped_before_millis,
            checkpoint_millis=None if everything else marks.checkpoint_millis,
        )


def read_marks(prefix: str) -> Steps[Marks]:
    """Return how far the books are sealed and folded."""
    return _marks((yield Execute(_sql(prefix)["marks"], ())))


def _marks(rows: Rows) -> Marks:
    values = {name: int(value) for name, value in rows}
    return Marks(
        values.get("checkpoint_position", 0),
        values.get("checkpoint_millis"),
        values.get("verified_millis"),
        values.get("dropped_before"),
        values.get("folds", 0),
        bool(values.get("balances_elsewhere")),
    )


#: The order in which findings are reported, by the question that found them.
_ORDER = (
    *("accounts", "slices", "postings", "unposted", "bets", "calls", "payments", "times", "sources", "carried"),
    "totals",
)


def _identity(finding: Finding) -> tuple[str | None, ...]:
    return finding.source, finding.operation, finding.tx_id


def whole(high: Any, low: Any) -> int:
    """Return a sum that a statement gives in two halves."""
    # PostgreSQL sums to a numeric, which arrives as a Decimal; sums of no rows are NULL.
    return int(high or 0) * HALF + int(low or 0)


def carried_unasked(account: str) -> Finding:
    """Return the finding that something of an account is folded, and nobody has asked for it."""
    return _finding("any_carried", ("carried_unasked", account))


def amount(cents: int) -> str:
    """Return cents as a text in currency units."""
    return str(amount_from_cents(cents))


def side(difference: int) -> str:
    """Return where a balance is that differs by so much from what it should be."""
    return "above" if difference > 0 else "below"


def _finding(question: str, row: Sequence[Any]) -> Finding:
    """Return the finding in an answer to *question*, as verify.toml describes it."""
    texts = toml_texts(__package__, "verify.toml")[question]
    found: dict[str, Any] = dict(zip(texts["columns"], row, strict=True))
    words = {name: shown(found.get(name)) for name in ("account", "bet_id", "other")}
    words |= {name: amount(int(value)) for name, value in found.items() if name.endswith("_cents")}
    words["call"] = f"{found.get('operation')} {shown(found.get('tx_id'))}"
    detail = texts[found["kind"]].format(**found | words)
    return Finding(found["kind"], detail, *(found.get(name) for name in Finding._fields[2:]))


def _sql(prefix: str) -> dict[str, str]:
    return sql_texts(
        __package__,
        "verify.sql",
        prefix=prefix,
        call_columns=call_columns(prefix),
        account_of_p=POSTING_ACCOUNT.format("p."),
        account_of_q=POSTING_ACCOUNT.format("q."),
        delta=POSTING_DELTA.format(""),
        delta_of_p=POSTING_DELTA.format("p."),
    )
