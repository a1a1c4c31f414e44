"""The ledger in a database, for one event loop of asyncio: SQLite or PostgreSQL, by its address."""

import asyncio
import contextlib
import contextvars
import time
from collections.abc import AsyncIterator, Callable, Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from game_operator.errors import LedgerError, LedgerUnavailableError, UnknownSourceError
from game_operator.ledger.accounts.choice import (
    AnyDialect,
    check_accounts,
    check_accounts_first,
    check_own,
    has_own_accounts,
    most_calls,
    opened_dialect,
)
from game_operator.ledger.api import DEFAULT_TERMS, AccountsSpec, BetRecord, Outcome, Terms, account_asked_for
from game_operator.ledger.engine.address import check_psycopg, checked_url, is_postgres, path_of, unknown_database
from game_operator.ledger.engine.commit_queue import AsyncCommitQueue, merged
from game_operator.ledger.engine.process_safety import Transactions, never_back, notify_of_forks
from game_operator.ledger.engine.schema import check_prefix
from game_operator.ledger.engine.script import ConflictError, Dialect, Kind, Result, Step, apply_items
from game_operator.ledger.engine.sources import check_source_name, refusal
from game_operator.ledger.joined.savepoint import Joiner
from game_operator.ledger.rules.book import Item
from game_operator.ledger.sqlite.store import BusyError, SqliteStore
from game_operator.ledger.staff.adjustments import adjust, open_account
from game_operator.ledger.staff.admin import AsyncSqlAdmin
from game_operator.ledger.staff.anomalies import store_anomaly, unknown_source
from game_operator.ledger.staff.queries import Queries, balance_of
from game_operator.models.webhooks import WebhookCall
from game_operator.money import Cents

if TYPE_CHECKING:
    from game_operator.ledger.postgres.store import AsyncPostgresStore


T = TypeVar("T")

_MOST_CONFLICTS = 10
_PAGE = 1_000
_INHERITED: list[object] = []


class _Store(Protocol):
    async def run(self, script: Callable[[], Generator[Step, Any, T]]) -> T: ...

    async def read(self, script: Callable[[], Generator[Step, Any, T]]) -> T: ...

    async def express(self, items: Sequence[Item]) -> Mapping[int, Outcome]: ...

    async def close(self) -> None: ...


class _SqliteOnLoop:
    """
    An SQLite store of an event loop.

    A small commit is a fraction of a millisecond, less than handing it to a thread and back; so it is done on the loop.
    A large one, and waiting for another process to finish writing, is left to a thread of our own, for those of the
    loop may all be taken by handlers that wait for us.
    """

    def __init__(self, store: SqliteStore) -> None:
        self._store = store
        self._thread = ThreadPoolExecutor(1, "game-operator-sqlite")

    async def run(self, script: Callable[[], Generator[Step, Any, T]]) -> T:
        try:
            return await self._store.run_async(script, self._in_thread)
        except BusyError:
            return await self._in_thread(lambda: self._store.run(script))

    async def read(self, script: Callable[[], Generator[Step, Any, T]]) -> T:
        return self._store.read(script)

    async def express(self, items: Sequence[Item]) -> Mapping[int, Outcome]:
        return self._store.express(items)

    async def close(self) -> None:
        self._store.close()
        self._thread.shutdown(wait=False)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        """
        Run *work* in our thread, to its end even if we are cancelled.

        Until then the connection is the thread's, and whoever holds our lock must not give it up.
        """
        done = asyncio.get_running_loop().run_in_executor(self._thread, contextvars.copy_context().run, work)
        try:
            return await asyncio.shield(done)
        except asyncio.CancelledError:
            while not done.done():
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.wait([done])
            if not done.cancelled():
                done.exception()  # Looked at: nobody else will.
            raise


class AsyncSqlLedger(AsyncSqlAdmin):
    """
    SqlLedger for asyncio: the same names and arguments, awaited.

    The database is opened by ``async with``, or by the first call. ``may_bet`` and ``within`` may be async, on SQLite
    they may not.

    Raises:
        ConfigurationError: The prefix cannot be used, or the database is PostgreSQL and psycopg is not installed.
    """

    def __init__(
        self,
        url: str,
        *,
        accounts: AccountsSpec = None,
        migrate: bool = True,
        table_prefix: str = "game_operator_",
        patience_seconds: float = 5.0,
        pooler: bool | None = None,
        clock_millis: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        prefix = check_prefix(table_prefix)
        self._url, self._prefix, self._migrate = checked_url(url), prefix, migrate
        self._patience_seconds, self._clock_millis = patience_seconds, never_back(clock_millis)
        check_accounts(accounts)
        if is_postgres(url):
            check_psycopg()
        self._accounts = accounts
        self._joiner = Joiner(prefix, accounts, self._clock_millis, pooler=pooler)
        self._pooler = pooler
        self._store: _Store | None = None
        self._closed = False
        self._fitting: AnyDialect | None = None
        self._expected: set[str] = set()
        self._queries = Queries(prefix)
        self._transactions = Transactions()
        self._make_queue()
        notify_of_forks(self)

    def _make_queue(self) -> None:
        self._mutex = asyncio.Lock()
        self._queue = AsyncCommitQueue(self._apply_all, most=most_calls(self._accounts))

    def before_fork(self) -> None:
        """Do nothing: our stores come to rest by themselves."""

    def after_fork(self, *, in_child: bool) -> None:
        """In the child, begin anew: the parent's connection and its event loop are the parent's."""
        if in_child:
            if self._store is not None:
                _INHERITED.append(self._store)  # Never closed by us, nor by a collection of garbage.
            self._store = None
            self._make_queue()

    async def __aenter__(self) -> "AsyncSqlLedger":
        self._closed = False
        async with self._mutex:
            await self._opened()
        try:
            for source in self._expected:
                self._check_known(source)
        except BaseException:  # Who never enters cannot leave: nothing else would close it.
            await self.close()
            raise
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connection; what still waits raises LedgerUnavailableError. ``async with`` opens it again."""
        self._transactions.check()
        self._closed = True
        async with self._mutex:
            store, self._store = self._store, None
            if store is not None:
                await store.close()

    async def apply(self, call: WebhookCall, *, terms: Terms = DEFAULT_TERMS, connection: Any = None) -> Outcome:
        """
        Apply *call* in one transaction and return what became of it, committed.

        With *connection* it is the transaction that you have opened on it, as ``SqlLedger.apply`` describes; taken are
        psycopg's AsyncConnection and SQLAlchemy's AsyncConnection and AsyncSession. The ledger need not be open, but
        must have been once on that database, to make its tables.

        Raises:
            LedgerUnavailableError: The database is down, locked or full. The call may have been committed: repeat it.
            TransactionRequiredError: *connection* has no open transaction.
            SchemaError: The tables are not in the database of *connection*.
            TypeError: *connection* is none that we know.
            UnknownSourceError: The ledger knows other sources, and not that of *terms*.
            LedgerError: It is called from within a transaction of this ledger, without its *connection*; or another
                transaction registers the first source at this moment, and a repeat will find it.
        """
        if connection is not None:
            try:
                return await self._joiner.apply_async(Item(call, terms), connection)
            except UnknownSourceError:
                await self._keep_unknown(call, terms)
                raise
        self._transactions.check()
        # What within runs belongs to its caller: it sees the caller's context variables.
        context = contextvars.copy_context() if terms.within is not None else None
        return await self._queue.submit(Item(call, terms, context))

    async def _keep_unknown(self, call: WebhookCall, terms: Terms) -> None:
        """Keep a joined deposit or rollback of an unknown source, as ``SqlLedger`` does."""
        anomaly = unknown_source(call, terms)
        if anomaly is None or not is_postgres(self._url) or self._mutex.locked():
            return
        with contextlib.suppress(LedgerError):
            await self._write(lambda dialect: store_anomaly(anomaly, terms.source, dialect))

    async def open_account(self, player_id: str, opening: Decimal = Decimal(0)) -> Cents:
        """Open an account, as ``SqlLedger.open_account`` does."""
        check_own(self._accounts, "open_account")
        return await self._write(lambda dialect: open_account(player_id, opening, dialect))

    async def adjust(self, player_id: str, amount: Decimal, *, reference: str) -> Cents:
        """Move money from outside games, as ``SqlLedger.adjust`` does."""
        check_own(self._accounts, "adjust")
        return await self._write(lambda dialect: adjust(player_id, amount, reference, dialect))

    async def balance(self, player_id: str | tuple[str, ...]) -> Cents:
        """Return the balance in cents, as ``SqlLedger.balance`` does."""
        account = account_asked_for(player_id, self._accounts)
        return await self._read(lambda: balance_of(account, self._fit.accounts))

    async def sources(self) -> list[str]:
        """Return the sources whose calls are taken, the oldest first."""
        return await self._read(lambda: self._fit.sources.load())

    async def add_source(self, name: str) -> None:
        """Take calls of a further source, as ``SqlLedger.add_source`` does."""
        check_source_name(name)
        await self._write(lambda dialect: self._fit.sources.add(name, dialect))
        self._fit.sources.known.add(name)

    def check_source(self, source: str) -> None:
        """
        Raise UnknownSourceError if calls of *source* would be refused; an AsyncWallet asks when it is made.

        A ledger that is not open yet asks when it is opened. One that is open goes by what it knew then: ``sources``
        reads again what was added since.
        """
        if self._fitting is not None:
            self._check_known(source)
        self._expected.add(source)

    def _check_known(self, source: str) -> None:
        known = self._fit.sources.known
        if known and source not in known:
            raise refusal(source, known)

    async def bet(self, bet_id: str, *, source: str = "") -> BetRecord | None:
        """Return what is known of a bet, or None."""
        return await self._read(lambda: self._queries.bet(bet_id, source))

    async def bets(
        self, *, since_millis: int | None = None, until_millis: int | None = None, source: str = ""
    ) -> AsyncIterator[BetRecord]:
        """Yield the bets opened from *since_millis* up to but not at *until_millis*, oldest first."""
        after: BetRecord | None = None
        async with self._listing() as read:
            while True:
                page = await read(
                    lambda: self._queries.bets(since_millis, until_millis, source, after, _PAGE)  # noqa: B023 - run at once
                )
                for bet in page:
                    yield bet
                if len(page) < _PAGE:
                    return
                after = page[-1]

    async def _apply_all(self, items: Sequence[Item]) -> list[Result]:
        done: Mapping[int, Outcome] = {}
        if self._accounts is None:
            async with self._mutex:
                store = await self._opened()
                is_known = self._fit.sources.knows(items[0].terms.source)
                done = await store.express(items) if is_known and has_own_accounts(self._fit) else {}
        rest = [item for index, item in enumerate(items) if index not in done]
        others = await self._write(lambda dialect: apply_items(rest, dialect)) if rest else []
        return merged(len(items), done, others)

    async def _write(self, script: Callable[[Dialect], Generator[Step, Any, T]]) -> T:
        self._transactions.check()
        async with self._mutex:
            store = await self._opened()
            for _ in range(_MOST_CONFLICTS):
                try:
                    with self._transactions.entered():
                        return await store.run(lambda: script(self._fit))
                except ConflictError:
                    continue
        raise LedgerUnavailableError("Other machines kept storing the same call or bet. Repeat the call.")

    async def _read(self, script: Callable[[], Generator[Step, Any, T]]) -> T:
        self._transactions.check()
        async with self._mutex:
            store = await self._opened()
            with self._transactions.entered():
                return await store.read(script)

    @property
    def _fit(self) -> AnyDialect:
        """The dialect for the accounts we were given; the store is open."""
        assert self._fitting is not None
        return self._fitting

    async def _opened(self) -> _Store:
        if self._closed:
            raise LedgerUnavailableError("The ledger is closed. Repeat the call with one that is open.")
        if self._store is None:
            store = await self._open()
            try:
                self._fitting = await self._fitted(store)
            except BaseException:  # A cancelled task, too, leaves no connection behind.
                await store.close()
                raise
            self._store = store
        return self._store

    async def _fitted(self, store: _Store) -> AnyDialect:
        kind: Kind = "sqlite" if isinstance(store, _SqliteOnLoop) else "postgres"
        return await store.run(lambda: opened_dialect(kind, self._prefix, self._accounts, self._clock_millis))

    async def _open(self) -> _Store:
        if self._url.startswith("sqlite:///"):
            store = await asyncio.to_thread(
                SqliteStore,
                path_of(self._url),
                self._prefix,
                migrate=self._migrate,
                patience_seconds=self._patience_seconds,
                check=partial(check_accounts_first, "sqlite", self._prefix, self._accounts),
            )
            return _SqliteOnLoop(store)
        if is_postgres(self._url):
            return await self._open_postgres()
        raise unknown_database(self._url)

    async def _open_postgres(self) -> "AsyncPostgresStore":
        from game_operator.ledger.postgres.store import AsyncPostgresStore, migration

        store = AsyncPostgresStore(
            self._url, self._prefix, patience_seconds=self._patience_seconds, pooler=self._pooler
        )
        check = partial(check_accounts_first, "postgres", self._prefix, self._accounts)
        try:
            await store.run(lambda: migration(self._prefix, self._migrate, check))
        except BaseException:  # A cancelled task, too, leaves no connection behind.
            await store.close()
            raise
        return store
