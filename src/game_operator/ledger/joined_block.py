"""
A call in a transaction of the operator, from its beginning to its commit.

The operator says how a transaction is opened and which statements belong to the call. Here both are put around
``apply``, so that no call is answered before a real commit.
"""

import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager, ExitStack, suppress
from functools import partial
from random import uniform
from typing import Any, Final, Literal, TypeAlias, TypeVar

from game_operator.errors import ConfigurationError, LedgerError, TransactionRequiredError, UnknownSourceError, shown
from game_operator.ledger.api import Outcome, Terms
from game_operator.ledger.async_sql import AsyncSqlLedger
from game_operator.ledger.base import LedgerBase
from game_operator.ledger.engine.commit_queue import observed_joined
from game_operator.ledger.joined_calls import asks_to_repeat
from game_operator.ledger.joined_connections import left_open
from game_operator.ledger.postgres.hazards import CommitWatch
from game_operator.ledger.rules.book import Item
from game_operator.ledger.sql import SqlLedger
from game_operator.ledger.staff.anomalies import store_anomaly, unknown_source
from game_operator.ledger.staff.queries import stored_at
from game_operator.ledger.staff.repairs import (
    Paid,
    Payment,
    Repair,
    or_raise,
    paid_at,
    pay_finding,
    repair_bet,
    settled_at,
)
from game_operator.ledger.steps import Connection, Steps, run, run_async
from game_operator.models.webhooks import BalanceCall, WebhookCall

T = TypeVar("T")

#: Opens the operator's transaction, yields its connection, and commits when it is left.
Transaction: TypeAlias = Callable[[], AbstractContextManager[Connection]]
#: The same for asyncio.
AsyncTransaction: TypeAlias = Callable[[], AbstractAsyncContextManager[Connection]]
#: Which calls are looked up after their commit: those until one is found, or that show a sign of nesting; all; none.
Confirm: TypeAlias = Literal["first", "always", "never"]

_CONFIRM_SECONDS: Final = 2.0
#: The longest pauses before the second and the third attempt of a call.
_PAUSES_SECONDS: Final = (0.05, 0.3)
_CALLABLES = (
    "engine.begin (not engine.connect) or sessionmaker(engine).begin (not the sessionmaker) of SQLAlchemy, "
    "pool.connection of psycopg, transaction.atomic(durable=True) of Django"
)


class JoinedBlock:
    """
    Runs calls of a SqlLedger, for any number of threads, or of an AsyncSqlLedger, in the operator's transactions.

    What it does is written as steps: ``run`` performs those of a SqlLedger, and ``run_async`` of an AsyncSqlLedger.
    """

    def __init__(
        self,
        ledger: SqlLedger | AsyncSqlLedger,
        transaction: Transaction | AsyncTransaction,
        terms: Terms,
        confirm: Confirm,
        *,
        awaits: bool,
    ) -> None:
        wanted = AsyncSqlLedger if awaits else SqlLedger
        if not isinstance(ledger, wanted):
            raise TypeError(f"ledger must be an open {wanted.__name__}, not {type(ledger).__name__}.")
        if not callable(transaction):
            raise TypeError(
                f"transaction must be a callable that returns a context manager, not {type(transaction).__name__}. "
                f"Pass {_CALLABLES}."
            )
        if confirm not in ("first", "always", "never"):
            raise ConfigurationError(f'confirm must be "first", "always" or "never", not {shown(confirm)}.')
        self._ledger: LedgerBase = ledger
        self._transaction, self._terms, self._confirm = transaction, terms, confirm
        self._awaits = awaits
        #: Whether one of the calls was found committed.
        self._is_found = False

    def apply(self, call: WebhookCall) -> Steps[Outcome]:
        """Return the outcome of *call*, committed; raise what made the block fail, after a rollback."""
        return self._observed(call, self._applied(call))

    def _applied(self, call: WebhookCall) -> Steps[Outcome]:
        ledger, source = self._ledger, self._terms.source
        yield from ledger._owned(call, self._terms)
        join = partial(ledger._joiner.apply_held, Item(call, self._terms))
        try:
            done: tuple[Outcome, bool] = yield from self._repeated(join)
        except UnknownSourceError:
            # The refused call may be owed. The operator's transaction has ended, and its locks with it.
            anomaly = unknown_source(call, self._terms)
            if anomaly is not None:
                with suppress(LedgerError):
                    yield partial(ledger._write, lambda: store_anomaly(anomaly, source, ledger._fit))
            raise
        outcome, may_be_open = done
        if not isinstance(call, BalanceCall) and self._is_looked_up(may_be_open):
            at_millis = yield from self._find(lambda: stored_at(ledger._prefix, call, outcome, source))
            # A repeat or a refusal says nothing of the transaction.
            if outcome.applied and outcome.at_millis != at_millis:  # Another process has applied the call.
                raise _not_committed()
            self._is_found = self._is_found or outcome.applied
        return outcome

    def repair(self, repair: Repair) -> Steps[Outcome]:
        """Settle a bet without a call of the provider, in a transaction of the operator with ``after``."""
        return self._observed(repair.call, self._repaired(repair))

    def _repaired(self, repair: Repair) -> Steps[Outcome]:
        ledger, script = self._ledger, partial(repair_bet, repair, self._terms)
        join = partial(ledger._joiner.run, script, held=True)
        done: tuple[Outcome | Exception, bool] = yield from self._repeated(join)
        outcome = or_raise(done[0])
        yield from self._check_moved(outcome, partial(settled_at, ledger._prefix, repair, self._terms.source))
        return outcome

    def pay(self, payment: Payment) -> Steps[Paid]:
        """Pay what is owed for a finding, in a transaction of the operator; ``after`` runs if an account gets money."""
        ledger, source = self._ledger, self._terms.source
        script = partial(pay_finding, payment, self._terms)
        done: tuple[Paid | Exception, bool] = yield from self._repeated(partial(ledger._joiner.run, script, held=True))
        paid = or_raise(done[0])
        yield from self._check_moved(paid.outcome, partial(paid_at, ledger._prefix, payment.finding_id, source))
        return paid

    def _check_moved(self, outcome: Outcome, query: Callable[[], Steps[int | None]]) -> Steps[None]:
        """Raise LedgerError unless what a repair or a payment has stored is committed, and is this one's."""
        if self._confirm != "never" and (yield from self._find(query)) != outcome.at_millis:
            raise _not_committed()

    def _observed(self, call: WebhookCall, work: Steps[Outcome]) -> Steps[Outcome]:
        """Do *work*, which commits *call*, in the span of a commit if there is telemetry."""
        telemetry = self._ledger.telemetry
        return work if telemetry is None else observed_joined(work, call, self._terms, telemetry, self._ledger._system)

    def _is_looked_up(self, may_be_open: bool) -> bool:
        """Return whether to look up what a call has stored before it is answered; a refusal, too."""
        return self._confirm == "always" or (self._confirm == "first" and (may_be_open or not self._is_found))

    def _repeated(self, work: Callable[[Connection], Steps[T]]) -> Steps[tuple[T, bool]]:
        """
        Do *work* in a transaction of the operator, and repeat it in another one if PostgreSQL asks for that.

        Return what came of it, and whether that transaction may be nested in another, or open still.
        """
        # Entered by ``with`` and ``async with``: a manager may look at the exception that is being handled.
        inside: Any = self._inside_async if self._awaits else self._inside
        for pause in (*_PAUSES_SECONDS, None):
            done: list[tuple[T, Callable[[], bool]]] = []
            try:
                manager: Any = self._transaction()
                yield partial(inside, manager, work, done)
                if done:
                    result, is_open = done[0]
                    return result, is_open()
                raise LedgerError(
                    "The context manager of transaction= swallowed the exception of a failed call (its __exit__ "
                    "returned True). The call was not answered, because it may have been rolled back: let exceptions "
                    "through."
                )
            except TransactionRequiredError as failed:
                raise TransactionRequiredError(
                    f"transaction= opened no transaction, so nothing would be committed. Pass {_CALLABLES}."
                ) from failed
            except LedgerError:
                raise
            except Exception as failed:  # Any driver's: it is known by its SQLSTATE.
                if pause is None or not asks_to_repeat(failed):
                    raise
            # Those that waited for one row were all rolled back when its holder committed, and would meet again.
            yield self._ledger._nap(uniform(0.0, pause))  # noqa: S311 - spreads the attempts, hides nothing
        raise AssertionError("the last attempt returns or raises")

    def _inside(
        self, manager: Any, work: Callable[[Connection], Steps[T]], done: list[tuple[T, Callable[[], bool]]]
    ) -> None:
        with CommitWatch() as watch, ExitStack() as block:
            connection = block.enter_context(manager)
            connection = _of_django(manager) if connection is None else connection
            result = run(work(connection))
            done.append((result, left_open(connection)))
            watch.observe(connection)

    async def _inside_async(
        self, manager: Any, work: Callable[[Connection], Steps[T]], done: list[tuple[T, Callable[[], bool]]]
    ) -> None:
        with CommitWatch() as watch:
            async with manager as connection:
                result = await run_async(work(connection))
                done.append((result, left_open(connection)))
                watch.observe(connection)

    def _find(self, query: Callable[[], Steps[int | None]]) -> Steps[int]:
        """Return the time of what a call has stored; look again until it is committed, or time is up."""
        until, nap = time.monotonic() + _CONFIRM_SECONDS, 0.005
        while True:
            at_millis: int | None = yield partial(self._ledger._read, query)
            if at_millis is not None:
                return at_millis
            yield self._ledger._nap(nap)
            if time.monotonic() > until:
                raise _not_committed()
            nap = min(2 * nap, 0.1)


def _of_django(manager: Any) -> Any:
    """Return the connection of Django's atomic(), which yields None."""
    if (type(manager).__module__, type(manager).__qualname__) != ("django.db.transaction", "Atomic"):
        return None
    if not manager.durable:
        raise LedgerError("transaction= is atomic() without durable=True: inside another one it would not commit.")
    from django.db import transaction

    return transaction.get_connection(manager.using)


def _not_committed() -> LedgerError:
    return LedgerError(
        f"{_CONFIRM_SECONDS:g} s after transaction= was left, the call is not committed in the ledger's database, and "
        "SUCCESS was not answered. Either transaction= never commits, or it only releases a savepoint of an outer "
        f"transaction, or it opens another database. Pass {_CALLABLES}, and call the receiver outside of atomic() and "
        "other transactions. Under Django's ATOMIC_REQUESTS decorate the view with transaction.non_atomic_requests. "
        "Under a framework's TestCase, which never commits, pass "
        'confirm="never".'
    )
