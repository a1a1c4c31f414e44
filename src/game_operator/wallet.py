"""Ready wallets: they answer the four webhooks from a ledger, in its own transactions or in the operator's."""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Awaitable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar

from game_operator.errors import shown
from game_operator.ledger.api import AccountOf, After, CurrencyOf, Ledger, MayBet, Outcome, Terms
from game_operator.ledger.engine.commit_queue import note_moved
from game_operator.ledger.steps import run, run_async
from game_operator.models.webhooks import BalanceCall, DepositCall, Reply, RollbackCall, WebhookCall, WithdrawCall
from game_operator.profile import Profile

if TYPE_CHECKING:
    from game_operator.ledger.async_sql import AsyncSqlLedger
    from game_operator.ledger.joined_block import AsyncTransaction, Confirm, Transaction
    from game_operator.ledger.sql import SqlLedger
    from game_operator.ledger.staff.findings import Finding
    from game_operator.ledger.staff.repairs import Payment, Repair

__all__ = ["AsyncJoinedWallet", "AsyncWallet", "JoinedWallet", "Wallet"]

LedgerT = TypeVar("LedgerT")
SqlLedgerT = TypeVar("SqlLedgerT", bound="SqlLedger | AsyncSqlLedger")
TransactionT = TypeVar("TransactionT", bound="Transaction | AsyncTransaction")


class _AsyncLedger(Protocol):
    """What an AsyncWallet needs of its ledger."""

    def apply(self, call: WebhookCall, *, terms: Terms) -> Awaitable[Outcome]: ...


class _Handler(ABC):
    """The four webhooks, each answered by the outcome of its call."""

    @abstractmethod
    def _applied(self, call: WebhookCall) -> Outcome:
        """Return what became of *call*, committed."""

    def withdraw(self, call: WithdrawCall) -> Reply:
        """Debit the wager (spec §4.1)."""
        return self._applied(call).reply()

    def deposit(self, call: DepositCall) -> Reply:
        """Credit the winnings, or close the bet with a loss (spec §4.1)."""
        return self._applied(call).reply()

    def rollback(self, call: RollbackCall) -> Reply:
        """Refund the wager that was taken (spec §4.1)."""
        return self._applied(call).reply()

    def player_balance(self, call: BalanceCall) -> Reply:
        """Return the balance (spec §4.1)."""
        return self._applied(call).reply()


class _AsyncHandler(ABC):
    """The same, awaited."""

    @abstractmethod
    def _applied(self, call: WebhookCall) -> Awaitable[Outcome]:
        """Return what became of *call*, committed."""

    async def withdraw(self, call: WithdrawCall) -> Reply:
        """Debit the wager (spec §4.1)."""
        return (await self._applied(call)).reply()

    async def deposit(self, call: DepositCall) -> Reply:
        """Credit the winnings, or close the bet with a loss (spec §4.1)."""
        return (await self._applied(call)).reply()

    async def rollback(self, call: RollbackCall) -> Reply:
        """Refund the wager that was taken (spec §4.1)."""
        return (await self._applied(call)).reply()

    async def player_balance(self, call: BalanceCall) -> Reply:
        """Return the balance (spec §4.1)."""
        return (await self._applied(call)).reply()


class _OverLedger(Generic[LedgerT]):
    """A ledger, and the terms of the calls that it applies in its own transactions."""

    _awaited: ClassVar[bool]

    def __init__(
        self,
        ledger: LedgerT,
        *,
        profile: Profile | None = None,
        source: str = "",
        may_bet: MayBet | None = None,
        account_of: AccountOf | None = None,
        after: After | None = None,
        currency_of: CurrencyOf | None = None,
    ) -> None:
        apply: Any = getattr(ledger, "apply", None)
        if not callable(apply):
            example = "an AsyncSqlLedger" if self._awaited else "a SqlLedger"
            raise TypeError(f"ledger must be a ledger, such as {example}, not {shown(ledger)}")
        # Found out with the first call, it would be too late: the money would have moved, without a reply.
        if inspect.iscoroutinefunction(apply) is not self._awaited:
            kind, other = ("is not awaited", "Wallet") if self._awaited else ("is awaited", "AsyncWallet")
            raise TypeError(f"the ledger {type(ledger).__name__} {kind}: give it to {other}")
        check: Any = getattr(ledger, "check_source", None)
        if check is not None:  # Before the first call comes, where the ledger can tell.
            check(source)
        self.ledger = ledger
        self.terms: Terms = Terms(
            rules=profile or Profile(),
            source=source,
            may_bet=may_bet,
            account_of=account_of,
            after=after,
            currency_of=currency_of,
        )
        """By what rules calls are applied."""
        _check_own_code(self.terms, "AsyncWallet", awaits=self._awaited)


def _check_own_code(terms: Terms, other: str, *, awaits: bool) -> None:
    """Raise TypeError for a may_bet or after that cannot be called, or that only a wallet like *other* can await."""
    for name, code, answer in (("may_bet", terms.may_bet, "account"), ("after", terms.after, "outcome")):
        if code is not None and not callable(code):
            raise TypeError(f"{name} must be a function of call, {answer} and connection, not {shown(code)}")
        if inspect.iscoroutinefunction(code) and not awaits:
            raise TypeError(f"{name} is async, and nothing awaits it here: use {other}, or a plain function")


class Wallet(_OverLedger[Ledger], _Handler):
    """
    A WebhookHandler over a Ledger.

    Args:
        ledger: The ledger.
        profile: What is assumed about repeats, late and early calls (docs/decisions/0014).
        source: A name for service and environment; calls and bets of different sources never meet. The ledger takes
            the first it meets, and a further one after ``add_source``.
        may_bet: ``may_bet(call, account, connection)`` is asked about a withdraw that is about to debit, while the
            account is locked: it answers a code that refuses it for good (PLAYER_BLOCKED, LIMIT_EXCEEDED, your own) or
            None. It reads your tables over *connection*, the transaction of the call (None with a MemoryLedger), and
            sees all calls before this one. What it writes is kept with its answer. What it raises undoes the call,
            which is answered SYSTEM_ERROR.
        account_of: Maps a withdraw, claim or player-balance to the key of an account; the player's id by default. A bet
            keeps its account: its deposit and refund go there.
        after: ``after(call, outcome, connection)`` runs your own statements in the same transaction, before the
            commit, for every withdraw, deposit and rollback, refused and repeated ones too. What it raises undoes the
            call. If it moves the balance of the account, the new balance is answered. A deadlock or a race may run it,
            and may_bet, again, and the commit may still fail: send no HTTP request and no mail from it.
        currency_of: ``currency_of(call)`` names the currency of a withdraw, deposit or rollback, such as ``"EUR"``, or
            None; totals are told apart by it. A bet keeps the currency of its withdraw. It is asked while the account
            is locked, so it must answer from memory. What it raises, and what is not a text of 1 to 16 characters, is
            logged and counts as None: it never refuses money.

    Raises:
        TypeError: The ledger is awaited: an AsyncWallet is for it.
        ValueError: No source can be called *source*: it is too long, or holds what nobody sees.
        UnknownSourceError: The ledger knows other sources, and not this one.
    """

    _awaited = False

    def _applied(self, call: WebhookCall) -> Outcome:
        return self.ledger.apply(call, terms=self.terms)

    def keep_anomaly(self, operation: str, kind: str, body: bytes) -> None:
        """Keep a refused call as ``KeepsAnomalies.keep_anomaly`` describes; *kind* is the anomaly."""
        keep: Any = getattr(self.ledger, "keep_anomaly", None)
        if keep is not None:
            keep(operation, kind, body, source=self.terms.source)

    def repair(self, repair: "Repair") -> Outcome:
        """
        Settle a bet without a call of the provider, and return what became of it; for the back office.

        ``after`` runs in the same transaction.

        Args:
            repair: The bet, and how the provider settled it.

        Raises:
            TypeError: The ledger is not a SqlLedger.
            RepairRefusedError: The bet is not OPEN, or must not be settled.
        """
        from game_operator.ledger.office import Office
        from game_operator.ledger.sql import SqlLedger
        from game_operator.ledger.staff.repairs import or_raise, repair_bet

        if not isinstance(self.ledger, SqlLedger):
            raise TypeError(f"bets are repaired in a SqlLedger, not in a {type(self.ledger).__name__}")
        outcome = or_raise(Office(self.ledger).write(partial(repair_bet, repair, self.terms)))
        if self.ledger.telemetry is not None:
            note_moved(self.ledger.telemetry.instruments, repair.call, self.terms, outcome)
        return outcome

    def pay(self, payment: "Payment") -> "tuple[Finding, Outcome]":
        """
        Post what is owed for a finding, once, and resolve it; for the back office.

        Where the account gets money, ``after`` runs in the same transaction, with applied=True and a deposit that
        stands for the payment: its amount is what is paid, and its tx_id names the finding. Where money is taken back,
        ``after`` does **not** run, because no call of the provider stands for that. What is owed is worked out at this
        moment, from what the account should have got for the bet and what it got so far.

        Args:
            payment: The finding, and who pays it and why.

        Returns:
            The finding, resolved, with ``paid_cents``; and the outcome with the new balance.

        Raises:
            TypeError: The ledger is not a SqlLedger.
            FindingError: There is no such finding, it is resolved, nothing is owed, or it cannot be paid.
        """
        from game_operator.ledger.office import Office
        from game_operator.ledger.sql import SqlLedger
        from game_operator.ledger.staff.repairs import or_raise, pay_finding

        if not isinstance(self.ledger, SqlLedger):
            raise TypeError(f"findings are paid in a SqlLedger, not in a {type(self.ledger).__name__}")
        return or_raise(Office(self.ledger).write(partial(pay_finding, payment, self.terms)))


class AsyncWallet(_OverLedger[_AsyncLedger], _AsyncHandler):
    """
    An AsyncWebhookHandler over an AsyncSqlLedger, made as a Wallet is; ``may_bet`` and ``after`` may be async.

    ``currency_of`` may not: it answers from memory.

    Raises:
        TypeError: The ledger is not awaited: a Wallet is for it.
        UnknownSourceError: The ledger is open and knows other sources, and not this one. If it is not open yet, each
            call raises this.
    """

    _awaited = True

    def _applied(self, call: WebhookCall) -> Awaitable[Outcome]:
        return self.ledger.apply(call, terms=self.terms)

    async def keep_anomaly(self, operation: str, kind: str, body: bytes) -> None:
        """Keep a refused call as ``KeepsAnomalies.keep_anomaly`` describes; *kind* is the anomaly."""
        keep: Any = getattr(self.ledger, "keep_anomaly", None)
        if keep is not None:
            await keep(operation, kind, body, source=self.terms.source)


class _OverTransactions(Generic[SqlLedgerT, TransactionT]):
    """A ledger, and the operator's transactions in which it applies calls."""

    _awaited: ClassVar[bool]

    def __init__(
        self,
        ledger: SqlLedgerT,
        transaction: TransactionT,
        after: After | None = None,
        *,
        profile: Profile | None = None,
        source: str = "",
        may_bet: MayBet | None = None,
        account_of: AccountOf | None = None,
        confirm: "Confirm" = "first",
        currency_of: CurrencyOf | None = None,
    ) -> None:
        from game_operator.ledger.joined_block import JoinedBlock

        self.ledger = ledger
        self.terms: Terms = Terms(
            rules=profile or Profile(), source=source, may_bet=may_bet, account_of=account_of, currency_of=currency_of
        )
        """By what rules calls are applied."""
        # Without after: a call that joins by hand has its own.
        terms = replace(self.terms, after=after)
        self._block = JoinedBlock(ledger, transaction, terms, confirm, awaits=self._awaited)
        _check_own_code(terms, "AsyncJoinedWallet", awaits=self._awaited)
        ledger.check_source(source)


class JoinedWallet(_OverTransactions["SqlLedger", "Transaction"], _Handler):
    """
    A WebhookHandler that handles each call in one of your transactions, together with your own statements.

    It opens your transaction, applies the call, runs *after*, commits, and only then answers. What raises rolls all
    back, and the receiver answers SYSTEM_ERROR. A transaction that a swallowed error has failed, or that *after* has
    ended, is a LedgerError and never a SUCCESS. A batch of deposits is one transaction for each deposit.

    Args:
        ledger: A SqlLedger on the database of your transactions.
        transaction: Returns a context manager that opens a transaction, yields what ``apply(connection=...)`` takes,
            and commits when it is left: ``engine.begin`` or ``sessionmaker(engine).begin`` of SQLAlchemy,
            ``pool.connection`` of psycopg, ``functools.partial(transaction.atomic, durable=True)`` of Django.
        after: ``after(call, outcome, connection)`` runs your own statements in that transaction, as for a Wallet;
            PostgreSQL's serialization failures and deadlocks repeat the whole block, three attempts in all.
        profile: As for a Wallet, like the next four.
        source: A name for service and environment.
        may_bet: May refuse a withdraw that is about to debit, by what it reads over your connection.
        account_of: Maps a call to the key of an account.
        currency_of: Names the currency of a call, for totals.
        confirm: ``"first"`` looks each call up over the ledger's own connection after its commit, for up to 2 seconds,
            until one was found, and later those whose transaction may be nested in another; ``"always"`` looks up every
            call, for a *transaction* that runs statements after its ``yield``; ``"never"`` none, for a framework's
            TestCase, which does not commit.

    Raises:
        TypeError: The ledger is not a SqlLedger, or *transaction* or *after* cannot be called.
        ConfigurationError: *confirm* is not one of the three.
        UnknownSourceError: As for a Wallet.
    """

    _awaited = False

    def _applied(self, call: WebhookCall) -> Outcome:
        return run(self._block.apply(call))

    def keep_anomaly(self, operation: str, kind: str, body: bytes) -> None:
        """Keep a refused call as ``KeepsAnomalies.keep_anomaly`` describes; *kind* is the anomaly."""
        self.ledger.keep_anomaly(operation, kind, body, source=self.terms.source)

    def repair(self, repair: "Repair") -> Outcome:
        """
        Settle a bet as ``Wallet.repair`` does, by *repair*, in one of your transactions with *after*.

        Raises:
            RepairRefusedError: The bet is not OPEN, or must not be settled.
        """
        return run(self._block.repair(repair))

    def pay(self, payment: "Payment") -> "tuple[Finding, Outcome]":
        """
        Post what is owed for a finding as ``Wallet.pay`` does, by *payment*, in one of your transactions.

        Raises:
            FindingError: There is no such finding, it is resolved, nothing is owed, or it cannot be paid.
            LedgerError: Your transaction did not commit.
        """
        return run(self._block.pay(payment))[:2]


class AsyncJoinedWallet(_OverTransactions["AsyncSqlLedger", "AsyncTransaction"], _AsyncHandler):
    """
    An AsyncWebhookHandler over an AsyncSqlLedger, made as a JoinedWallet is, for transactions of asyncio.

    *transaction* returns an async context manager; *after* and ``may_bet`` may be async, ``currency_of`` may not.

    Raises:
        TypeError: The ledger is not an AsyncSqlLedger, or *transaction* or *after* cannot be called.
        ConfigurationError: *confirm* is not one of the three.
    """

    _awaited = True

    def _applied(self, call: WebhookCall) -> Awaitable[Outcome]:
        return run_async(self._block.apply(call))

    async def keep_anomaly(self, operation: str, kind: str, body: bytes) -> None:
        """Keep a refused call as ``KeepsAnomalies.keep_anomaly`` describes; *kind* is the anomaly."""
        await self.ledger.keep_anomaly(operation, kind, body, source=self.terms.source)
