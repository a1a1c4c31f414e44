"""A ledger in memory: the same rules as the others, for tests and for trying things out. Nothing outlives it."""

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from decimal import Decimal
from threading import RLock
from typing import TypeVar

from game_operator.codes import BetState
from game_operator.errors import AccountNotFoundError, LedgerError, shown
from game_operator.ledger.api import (
    DEFAULT_TERMS,
    OPEN_FIRST,
    Account,
    BetRecord,
    CallRecord,
    Outcome,
    Terms,
    check_source_name,
)
from game_operator.ledger.engine.batch import Loaded, apply_items
from game_operator.ledger.engine.process_safety import Transaction, check_outside
from game_operator.ledger.engine.sources import refusal
from game_operator.ledger.rules.book import Anomaly, Book, Changes, Item, Needs, NewFinding, Posting
from game_operator.ledger.staff.adjustments import adjust, open_account
from game_operator.ledger.staff.anomalies import keep_anomaly
from game_operator.ledger.staff.bet_stops import BetStop, checked_stop
from game_operator.ledger.staff.findings import check_person
from game_operator.ledger.staff.spending import Spent, checked_since, spent_in_memory
from game_operator.ledger.steps import Answer, AskOperator, Step, Steps, run
from game_operator.models.webhooks import WebhookCall
from game_operator.money import Cents

T = TypeVar("T")


def _asked(step: Step) -> Answer:
    assert isinstance(step, AskOperator)  # A ledger in memory has no statements.
    return step.answered(None)


class _Sources:
    """The sources whose calls are taken; the first is registered with its first call, unless that is undone."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.pending: list[str] = []

    def knows(self, source: str) -> bool:
        return source in self.names

    def settle(self, source: str) -> Steps[LedgerError | None]:
        yield from ()
        if self.names:
            return refusal(source, self.names)
        self.pending = [source]
        return None


class _Tables:
    """The rows of all sources, loaded and stored as a database would."""

    def __init__(self, clock_millis: Callable[[], int]) -> None:
        self.books: dict[str, Book] = {}
        self.accounts: dict[str, Account] = {}
        self.postings: list[Posting] = []
        self.anomalies: dict[tuple[str, str, str, bytes], Anomaly] = {}
        self.findings: dict[tuple[str, str, str, str], NewFinding] = {}
        self.pending: list[tuple[str, Changes]] = []
        self.sources = _Sources()
        self.bet_stop: BetStop | None = None
        self.now_millis = clock_millis

    def load(self, needs: Needs) -> Steps[Loaded]:
        yield from ()
        book = self.books.setdefault(needs.source, Book(needs.source))
        return Loaded(
            [self.accounts[key] for key in needs.accounts if key in self.accounts],
            [book.bets[bet_id] for bet_id in needs.bets if bet_id in book.bets],
            [book.calls[identity] for identity in needs.calls if identity in book.calls],
            self.now_millis(),
            self.bet_stop and self.bet_stop.code,
        )

    def store(self, source: str, changes: Changes, *, was: Mapping[str, Account]) -> Steps[None]:  # noqa: ARG002 - the Protocol's
        yield from ()
        self.pending.append((source, changes))

    def balance_now(self, account: str) -> Steps[int | None]:  # noqa: ARG002 - the Protocol's
        yield from ()
        return None

    def restate(self, source: str, record: CallRecord, balance_cents: int) -> Steps[None]:  # noqa: ARG002 - as above
        yield from ()

    def commit(self) -> None:
        """Make what was stored visible."""
        self.sources.names += self.sources.pending
        for source, changes in self.pending:
            book = self.books.setdefault(source, Book(source))
            self.accounts |= changes.new_accounts | changes.accounts
            book.bets |= changes.new_bets | changes.changed_bets
            book.calls |= {(call.operation, call.tx_id): call for call in changes.calls}
            self.postings += changes.postings
            for anomaly in changes.anomalies:
                self.anomalies.setdefault((source, anomaly.kind, anomaly.operation, anomaly.body), anomaly)
            for found in changes.findings:
                self.findings.setdefault((source, found.subject, found.kind, found.tx_id), found)


class MemoryLedger(AbstractContextManager["MemoryLedger"]):
    """
    A Ledger that keeps everything in this process; safe to share between threads.

    Args:
        opening_cents: Balances by player id, for accounts that are open from the start.
        clock_millis: The clock, in Unix milliseconds.
    """

    def __init__(
        self,
        opening_cents: Mapping[str, int] | None = None,
        *,
        clock_millis: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._lock = RLock()
        self._tables = _Tables(clock_millis)
        for player_id, cents in (opening_cents or {}).items():
            self.open_account(player_id, Decimal(cents).scaleb(-2))

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Do nothing: there is nothing to close."""

    def open_account(self, player_id: str, opening: Decimal = Decimal(0)) -> Cents:
        """Open an account with *opening* currency units, as ``SqlLedger.open_account`` does."""
        return self._perform(open_account(player_id, opening, self._tables))

    def adjust(self, player_id: str, amount: Decimal, *, reference: str) -> Cents:
        """Move *amount* currency units from outside games, as ``SqlLedger.adjust`` does; return the balance."""
        return self._perform(adjust(player_id, amount, reference, self._tables)).balance_cents

    def balance(self, player_id: str) -> Cents:
        """Return the balance in cents; raise AccountNotFoundError if there is no such account."""
        check_outside(self)
        with self._lock:
            account = self._tables.accounts.get(player_id)
        if account is None:
            raise AccountNotFoundError(f"There is no account {shown(player_id)}.", remedy=OPEN_FIRST)
        return Cents(account.balance_cents)

    def spent(self, account: str, *, since_millis: int, connection: None = None) -> Spent:  # noqa: ARG002 - may_bet's
        """Return what an account has spent, as ``SqlLedger.spent`` does; ``may_bet`` may ask it, too."""
        since = checked_since(since_millis)
        with self._lock:
            books = self._tables.books.values()
            bets = [bet for book in books for bet in book.bets.values()]
            calls = [call for book in books for call in book.calls.values()]
        return spent_in_memory(bets, calls, account, since)

    def bet(self, bet_id: str, *, source: str = "") -> BetRecord | None:
        """Return what is known of a bet, or None."""
        check_outside(self)
        with self._lock:
            book = self._tables.books.get(source)
            return book.bets.get(bet_id) if book else None

    def bets(
        self,
        *,
        since_millis: int | None = None,
        until_millis: int | None = None,
        source: str = "",
        state: BetState | None = None,
        player_id: str | None = None,
    ) -> list[BetRecord]:
        """Return the bets opened from *since_millis* up to but not at *until_millis*, as ``SqlLedger.bets`` does."""
        check_outside(self)
        with self._lock:
            book = self._tables.books.get(source)
            found = [
                bet
                for bet in (book.bets.values() if book else ())
                if (since_millis is None or bet.opened_at_millis >= since_millis)
                and (until_millis is None or bet.opened_at_millis < until_millis)
                and state in (None, bet.state)
                and player_id in (None, bet.player_id)
            ]
        return sorted(found, key=lambda bet: (bet.opened_at_millis, bet.bet_id))

    def apply(self, call: WebhookCall, *, terms: Terms = DEFAULT_TERMS) -> Outcome:
        """
        Apply *call* by *terms* and return what became of it.

        ``may_bet`` and ``after`` are called with None for a connection, before the call can be seen; what they raise
        undoes it.
        """
        result: Outcome | Exception = self._perform(apply_items([Item(call, terms)], self._tables))[0]
        if isinstance(result, Exception):
            raise result
        return result

    def sources(self) -> list[str]:
        """Return the sources whose calls are taken, the oldest first."""
        with self._lock:
            return list(self._tables.sources.names)

    def add_source(self, name: str) -> None:
        """Take calls of a further source, as ``SqlLedger.add_source`` does."""
        check_source_name(name)
        check_outside(self)
        with self._lock:
            if name not in self._tables.sources.names:
                self._tables.sources.names.append(name)

    def check_source(self, source: str) -> None:
        """Raise UnknownSourceError if calls of *source* would be refused."""
        names = self.sources()
        if names and source not in names:
            raise refusal(source, names)

    def stop_bets(self, *, actor: str, reason: str, code: str = "LIMIT_EXCEEDED") -> BetStop:
        """Refuse withdraws that would debit, as ``SqlLedger.stop_bets`` does."""
        check_outside(self)
        with self._lock:
            self._tables.bet_stop = stop = checked_stop(actor, reason, code, self._tables.now_millis())
        return stop

    def start_bets(self, *, actor: str, reason: str) -> BetStop | None:
        """Take bets again; *actor* and *reason* are looked at, as ``SqlLedger.start_bets`` does, and not kept."""
        check_person(actor, reason)
        check_outside(self)
        with self._lock:
            stop, self._tables.bet_stop = self._tables.bet_stop, None
        return stop

    def keep_anomaly(self, operation: str, kind: str, body: bytes, *, source: str = "") -> None:
        """Keep a genuine request that was refused before it was a call, as ``SqlLedger.keep_anomaly`` does."""
        self._perform(keep_anomaly(operation, kind, body, source, self._tables))

    @property
    def postings(self) -> tuple[Posting, ...]:
        """All movements, oldest first."""
        with self._lock:
            return tuple(self._tables.postings)

    @property
    def anomalies(self) -> tuple[Anomaly, ...]:
        """What a person should look at, oldest first."""
        with self._lock:
            return tuple(self._tables.anomalies.values())

    @property
    def findings(self) -> tuple[NewFinding, ...]:
        """What is owed by calls that came after their bets were settled without them, oldest first."""
        with self._lock:
            return tuple(self._tables.findings.values())

    def _perform(self, script: Steps[T]) -> T:
        # The call under way has loaded its rows: what is moved meanwhile would be overwritten, or lost with it.
        check_outside(self)
        with self._lock, Transaction(self):
            try:
                result = run(script, _asked)
                self._tables.commit()
            finally:
                self._tables.pending.clear()
                self._tables.sources.pending.clear()
            return result
