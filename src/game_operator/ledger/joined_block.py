"""
A call in a transaction of the operator's, from its beginning to its commit.

The operator says how a transaction is opened and which statements of theirs belong to the call. Here both are put
around ``apply``, so that no answer is given before a commit, nor after one that was none.
"""

import asyncio
import inspect
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, AsyncExitStack, ExitStack, suppress
from functools import partial
from random import uniform
from typing import Any, ClassVar, Final, Literal, TypeAlias, TypeVar

from game_operator.errors import ConfigurationError, LedgerError, TransactionRequiredError, UnknownSourceError, shown
from game_operator.ledger.api import Outcome, Terms, Within
from game_operator.ledger.async_sql import AsyncSqlLedger
from game_operator.ledger.engine.address import is_postgres
from game_operator.ledger.engine.script import Step, Work, at_once, awaited
from game_operator.ledger.joined.savepoint import asks_to_repeat
from game_operator.ledger.postgres.hazards import CommitWatch
from game_operator.ledger.rules.book import Item
from game_operator.ledger.sql import SqlLedger
from game_operator.ledger.staff.anomalies import keep_anomaly, store_anomaly, unknown_source
from game_operator.models.webhooks import BalanceCall, WebhookCall

T = TypeVar("T")

#: Opens the operator's transaction, yields its connection, and commits when it is left.
Transaction: TypeAlias = Callable[[], AbstractContextManager[Any]]
#: The same for asyncio.
AsyncTransaction: TypeAlias = Callable[[], AbstractAsyncContextManager[Any]]
#: Whether calls are looked up after their commit: until one was found, each of them, or none.
Confirm: TypeAlias = Literal["first", "always", "never"]

_MOST_ATTEMPTS: Final = 3
_CONFIRM_SECONDS: Final = 2.0
_CALLABLES = (
    "engine.begin (not engine.connect) or sessionmaker(engine).begin (not the sessionmaker) of SQLAlchemy, "
    "pool.connection of psycopg, transaction.atomic(durable=True) of Django"
)


class _Block(ABC):
    """What both kinds of block share, and whether one of their calls was found committed."""

    _ledger: Any  # Any: a SqlLedger or an AsyncSqlLedger, whose methods return an answer or an awaitable.
    _awaits: ClassVar[bool]

    def __init__(self, transaction: Callable[[], Any], after: Within | None, terms: Terms, confirm: Confirm) -> None:
        if not callable(transaction):
            raise TypeError(
                f"transaction must be a callable that returns a context manager, not {type(transaction).__name__}. "
                f"Pass {_CALLABLES}."
            )
        if after is not None and not callable(after):
            raise TypeError(f"after must be a function of call, outcome and connection, not {shown(after)}")
        if confirm not in ("first", "always", "never"):
            raise ConfigurationError(f'confirm must be "first", "always" or "never", not {shown(confirm)}.')
        self._transaction, self._after, self._terms, self._confirm = transaction, after, terms, confirm
        self._is_found = False

    @abstractmethod
    def _once(self, work: Callable[[Any], Work[T]]) -> Any:
        """Do *work* in one transaction of the operator's."""

    def _sleep(self, seconds: float) -> Any:
        return asyncio.sleep(seconds) if self._awaits else time.sleep(seconds)

    def _apply(self, call: WebhookCall) -> Work[Outcome]:
        source = self._terms.source
        try:
            outcome = yield from self._repeated(lambda connection: self._applied(call, connection))
        except UnknownSourceError:
            yield from self._keep_unknown(call)
            raise
        if not isinstance(call, BalanceCall) and self._is_looked_up():
            at_millis = yield from self._find(lambda: self._ledger._queries.stored_at(call, outcome, source))
            # A repeat or a refusal says nothing of the transaction.
            if outcome.applied and outcome.at_millis != at_millis:  # Another process has applied the call.
                raise _not_committed()
            self._is_found = self._is_found or outcome.applied
        return outcome

    def _keep(self, operation: str, kind: str, body: bytes) -> Work[None]:
        source = self._terms.source
        script = partial(keep_anomaly, operation, kind, body, source)
        yield from self._repeated(lambda connection: self._ledger._joiner.run(script, connection))
        if self._is_looked_up():
            yield from self._find(lambda: self._ledger._queries.anomaly_at(operation, kind, body, source))

    def _is_looked_up(self) -> bool:
        """Return whether what a call has stored is to be looked up before it is answered, a refusal too."""
        return self._confirm == "always" or (self._confirm == "first" and not self._is_found)

    def _repeated(self, work: Callable[[Any], Work[T]]) -> Work[T]:
        for left in reversed(range(_MOST_ATTEMPTS)):
            try:
                return (yield self._once(work))  # type: ignore[no-any-return]  # What the work returned.
            except TransactionRequiredError as failed:
                raise TransactionRequiredError(
                    f"transaction= opened no transaction, so nothing would be committed. Pass {_CALLABLES}."
                ) from failed
            except LedgerError:
                raise
            except Exception as failed:
                if not left or not asks_to_repeat(failed):
                    raise
            yield self._sleep(uniform(0.0, 0.02))  # noqa: S311 - those who disturbed each other go apart
        raise AssertionError("the last attempt returns or raises")

    def _applied(self, call: WebhookCall, connection: Any) -> Work[Outcome]:
        held = yield from self._ledger._joiner.hold(Item(call, self._terms), connection)
        if self._after is not None and not isinstance(call, BalanceCall):
            answer = self._after(call, held.outcome, connection)
            if inspect.isawaitable(answer) and not self._awaits:
                if inspect.iscoroutine(answer):
                    answer.close()
                raise LedgerError("after() is to be awaited, and nothing awaits here: use AsyncJoinedWallet.")
            yield answer
        yield from held.release()
        return held.outcome  # type: ignore[no-any-return]  # The ledger is Any.

    def _keep_unknown(self, call: WebhookCall) -> Work[None]:
        """Keep what was refused and may be owed; the operator's transaction has ended, and its locks with it."""
        terms, ledger = self._terms, self._ledger
        anomaly = unknown_source(call, terms)
        if anomaly is not None:
            with suppress(LedgerError):
                yield ledger._write(lambda: store_anomaly(anomaly, terms.source, ledger._dialect))

    def _find(self, query: Callable[[], Generator[Step, Any, int | None]]) -> Work[int]:
        """Return the time of what a call has stored; look again until it is committed, or time is up."""
        until, nap = time.monotonic() + _CONFIRM_SECONDS, 0.005
        while True:
            at_millis: int | None = yield self._ledger._read(query)
            if at_millis is not None:
                return at_millis
            yield self._sleep(nap)
            if time.monotonic() > until:
                raise _not_committed()
            nap = min(2 * nap, 0.1)


class JoinedBlock(_Block):
    """Runs calls of a SqlLedger in transactions of the operator's; for any number of threads."""

    _awaits = False

    def __init__(
        self, ledger: SqlLedger, transaction: Transaction, after: Within | None, terms: Terms, confirm: Confirm
    ) -> None:
        if not isinstance(ledger, SqlLedger):
            raise _wrong_ledger(ledger, SqlLedger, "AsyncJoinedWallet" if isinstance(ledger, AsyncSqlLedger) else "")
        if inspect.iscoroutinefunction(after):
            raise TypeError("after is async, and nothing awaits it here: use AsyncJoinedWallet, or a plain function")
        super().__init__(transaction, after, terms, confirm)
        self._ledger = ledger

    def apply(self, call: WebhookCall) -> Outcome:
        """Return the outcome of *call*, committed; raise what made the block fail, after a rollback."""
        return at_once(self._apply(call))

    def keep_anomaly(self, operation: str, kind: str, body: bytes) -> None:
        """Keep what the receiver refused, in a transaction as a call's."""
        at_once(self._keep(operation, kind, body))

    def _once(self, work: Callable[[Any], Work[T]]) -> T:
        done: list[T] = []
        with CommitWatch() as watch, ExitStack() as block:
            connection = _entered(self._transaction(), block)
            done.append(at_once(work(connection)))
            watch.observe(connection)
        return _only(done)


class AsyncJoinedBlock(_Block):
    """Runs calls of an AsyncSqlLedger in transactions of the operator's, on one event loop."""

    _awaits = True

    def __init__(
        self,
        ledger: AsyncSqlLedger,
        transaction: AsyncTransaction,
        after: Within | None,
        terms: Terms,
        confirm: Confirm,
    ) -> None:
        if not isinstance(ledger, AsyncSqlLedger):
            raise _wrong_ledger(ledger, AsyncSqlLedger, "JoinedWallet" if isinstance(ledger, SqlLedger) else "")
        if confirm != "never" and is_postgres(ledger._url):
            _check_psycopg()
        super().__init__(transaction, after, terms, confirm)
        self._ledger = ledger

    async def apply(self, call: WebhookCall) -> Outcome:
        """Return the outcome of *call*, committed; raise what made the block fail, after a rollback."""
        return await awaited(self._apply(call))

    async def keep_anomaly(self, operation: str, kind: str, body: bytes) -> None:
        """Keep what the receiver refused, in a transaction as a call's."""
        await awaited(self._keep(operation, kind, body))

    async def _once(self, work: Callable[[Any], Work[T]]) -> T:
        done: list[T] = []
        with CommitWatch() as watch:
            async with AsyncExitStack() as block:
                connection = await _entered_async(self._transaction(), block)
                done.append(await awaited(work(connection)))
                watch.observe(connection)
        return _only(done)


def _check_psycopg() -> None:
    """Raise ConfigurationError where the ledger's own connection to PostgreSQL has no driver."""
    try:
        import psycopg  # noqa: F401 - whether it is there
    except ImportError as missing:
        raise ConfigurationError(
            "AsyncJoinedWallet looks a call up over the ledger's own connection, which needs psycopg even if your "
            'transactions use another driver: pip install "game-operator[postgres]". With confirm="never" it looks '
            "nothing up."
        ) from missing


def _entered(manager: Any, block: ExitStack) -> Any:
    """Open the operator's transaction for as long as *block*; return its connection."""
    if not hasattr(manager, "__enter__"):
        raise _no_manager(manager, "__aenter__", "is for asyncio: use AsyncJoinedWallet")
    try:
        connection = block.enter_context(manager)
    except RuntimeError as failed:
        if "durable atomic block" in str(failed):
            raise _nested_in_django() from failed
        raise
    return _of_django(manager) if connection is None else connection


async def _entered_async(manager: Any, block: AsyncExitStack) -> Any:
    if not hasattr(manager, "__aenter__"):
        if inspect.iscoroutine(manager):
            manager.close()
        raise _no_manager(manager, "__enter__", "would block the event loop: use JoinedWallet")
    return await block.enter_async_context(manager)


def _no_manager(manager: object, other: str, advice: str) -> TypeError:
    kind = type(manager).__name__
    how = advice if hasattr(manager, other) else "is not a context manager that opens a transaction"
    return TypeError(f"transaction() returned a {kind}, which {how}. Pass {_CALLABLES}.")


def _nested_in_django() -> LedgerError:
    return LedgerError(
        "Django has a transaction open already, so this call could be undone after its answer. Under ATOMIC_REQUESTS "
        "decorate the view with django.db.transaction.non_atomic_requests; otherwise call the receiver outside of "
        "atomic()."
    )


def _of_django(manager: Any) -> Any:
    """Return the connection of Django's atomic(), which yields None."""
    if (type(manager).__module__, type(manager).__qualname__) != ("django.db.transaction", "Atomic"):
        return None
    if not manager.durable:
        raise LedgerError("transaction= is atomic() without durable=True: inside another one it would not commit.")
    from django.db import transaction

    return transaction.get_connection(manager.using)


def _only(done: list[T]) -> T:
    """Return the one result; raise LedgerError if an exception was swallowed."""
    if not done:
        raise LedgerError(
            "The context manager of transaction= swallowed the exception of a failed call (its __exit__ returned "
            "True). The call was not answered, because it may have been rolled back: let exceptions through."
        )
    return done[0]


def _not_committed() -> LedgerError:
    return LedgerError(
        f"{_CONFIRM_SECONDS:g} s after transaction= was left, the call is not committed in the ledger's database, and "
        "SUCCESS was not answered. Either transaction= never commits, or it only releases a savepoint of an outer "
        f"transaction, or it opens another database. Pass {_CALLABLES}. Under Django's ATOMIC_REQUESTS decorate the "
        "view with transaction.non_atomic_requests. Under a framework's TestCase, which never commits, pass "
        'confirm="never".'
    )


def _wrong_ledger(ledger: object, wanted: type, other: str) -> TypeError:
    advice = f": give it to {other}" if other else ", because a call joins a transaction of a database"
    return TypeError(f"ledger must be an open {wanted.__name__}, not {type(ledger).__name__}{advice}")
