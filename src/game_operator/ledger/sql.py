"""The ledger in a database, for threads: SQLite or PostgreSQL, by its address."""

import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from decimal import Decimal
from functools import partial
from pathlib import Path
from threading import RLock
from typing import Any, ClassVar, TypeVar

from game_operator.errors import LedgerError, LedgerUnavailableError, SchemaError, UnknownSourceError, shown
from game_operator.ledger.accounts.balances import OwnBalances
from game_operator.ledger.accounts.choice import (
    AnyDialect,
    check_accounts,
    check_accounts_first,
    check_own,
    most_calls,
    opened_dialect,
)
from game_operator.ledger.api import DEFAULT_TERMS, AccountsSpec, BetRecord, Outcome, Terms, account_asked_for
from game_operator.ledger.engine.address import (
    address_in_django,
    check_psycopg,
    checked_url,
    is_postgres,
    kind_in_django,
    path_of,
    sqlite_file_in_django,
    unknown_database,
)
from game_operator.ledger.engine.commit_queue import CommitQueue, waited_too_long
from game_operator.ledger.engine.process_safety import Transactions, never_back, notify_of_forks
from game_operator.ledger.engine.schema import check_prefix, ddl, found_version
from game_operator.ledger.engine.script import (
    ConflictError,
    Dialect,
    Execute,
    Kind,
    Result,
    Rows,
    Step,
    Work,
    apply_items,
    at_once,
)
from game_operator.ledger.engine.sources import check_source_name, refusal
from game_operator.ledger.joined.connections import sqlstates
from game_operator.ledger.joined.savepoint import Joiner
from game_operator.ledger.rules.book import Item
from game_operator.ledger.sqlite.store import SqliteStore, statements_of
from game_operator.ledger.staff.adjustments import adjust, open_account
from game_operator.ledger.staff.admin import SqlAdmin
from game_operator.ledger.staff.anomalies import keep_anomaly, store_anomaly, unknown_source
from game_operator.ledger.staff.queries import Queries, balance_of
from game_operator.models.webhooks import WebhookCall
from game_operator.money import Cents

T = TypeVar("T")

_MOST_CONFLICTS = 10
_UNDEFINED_TABLE = "42P01"
_PAGE = 1_000


class LedgerBase(ABC):
    """What the ledgers for threads and for asyncio share."""

    _url: str
    #: Whether the calls of the store are awaited.
    _awaits: ClassVar[bool]
    _store: Any = None  # Any: a store for threads, or one for asyncio.
    _fitting: AnyDialect | None = None

    def _keep(
        self,
        accounts: AccountsSpec,
        migrate: bool,
        table_prefix: str,
        patience_seconds: float,
        pooler: bool | None,
        clock_millis: Callable[[], int],
    ) -> None:
        self._prefix = prefix = check_prefix(table_prefix)
        check_accounts(accounts)
        self._accounts, self._migrate, self._patience_seconds = accounts, migrate, patience_seconds
        self._clock_millis, self._pooler = never_back(clock_millis), pooler
        self._joiner = Joiner(prefix, accounts, self._clock_millis, awaits=self._awaits, pooler=pooler)
        self._queries = Queries(prefix)
        self._transactions = Transactions()
        self._make_queue()
        notify_of_forks(self)

    @abstractmethod
    def _make_queue(self) -> None:
        """Make the queue of calls that wait for a commit, with nothing in it."""

    def before_fork(self) -> None:  # noqa: B027 - a thread alone has something to bring to rest
        """Do nothing: our stores come to rest by themselves."""

    def after_fork(self, *, in_child: bool) -> None:
        """In the child, begin anew: the threads that held our locks do not exist there."""
        if in_child:
            self._make_queue()

    def _open_sqlite(self) -> Any:
        """Open the store of an SQLite file."""
        return SqliteStore(
            path_of(self._url),
            self._prefix,
            migrate=self._migrate,
            patience_seconds=self._patience_seconds,
            check=partial(check_accounts_first, "sqlite", self._prefix, self._accounts),
        )

    def _open(self) -> Work[None]:
        """Connect, make or migrate the tables, and look at the accounts."""
        kind: Kind = "postgres" if is_postgres(self._url) else "sqlite"
        if self._url.startswith("sqlite:///"):
            store = yield self._open_sqlite()
        elif kind == "postgres":
            from game_operator.ledger.postgres.store import AsyncPostgresStore, PostgresStore

            make = AsyncPostgresStore if self._awaits else PostgresStore
            store = make(self._url, self._prefix, patience_seconds=self._patience_seconds, pooler=self._pooler)
        else:
            raise unknown_database(self._url)
        try:
            if kind == "postgres":
                from game_operator.ledger.postgres.store import migration

                check = partial(check_accounts_first, kind, self._prefix, self._accounts)
                yield store.run(lambda: migration(self._prefix, self._migrate, check))
            script = partial(opened_dialect, kind, self._prefix, self._accounts, self._clock_millis)
            self._fitting = yield store.run(script)
        except BaseException:  # A cancelled task, too, leaves no connection behind.
            yield store.close()
            raise
        self._store = store

    @property
    def _fit(self) -> AnyDialect:
        """The dialect for the accounts we were given; the store is open."""
        assert self._fitting is not None
        return self._fitting

    @property
    def _dialect(self) -> Dialect:
        return self._fit

    def _applied(self, items: Sequence[Item]) -> Work[list[Result]]:
        """Apply *items* of one source: by the express statement what it takes, and the rest the long way."""
        done: Mapping[int, Outcome] = {}
        has_express = self._fit.kind == "postgres" and isinstance(self._fit.accounts, OwnBalances)
        if has_express and self._fit.sources.knows(items[0].terms.source):
            done = yield self._store.express(items)
        rest = [item for index, item in enumerate(items) if index not in done]
        others = iter((yield from self._written(lambda: apply_items(rest, self._fit))) if rest else ())
        return [done[index] if index in done else next(others) for index in range(len(items))]

    def _written(self, script: Callable[[], Generator[Step, Any, T]]) -> Work[T]:
        """Run *script* in a transaction; the connection is ours."""
        with self._transactions.entered():
            for _ in range(_MOST_CONFLICTS):
                try:
                    return (yield self._store.run(script))  # type: ignore[no-any-return]  # What the script returns.
                except ConflictError:
                    continue
        raise LedgerUnavailableError("Other machines kept storing the same call or bet. Repeat the call.")


class SqlLedger(LedgerBase, SqlAdmin):
    """
    A Ledger in SQLite (``sqlite:///wallet.db``) or PostgreSQL (``postgresql://…``, extra ``postgres``).

    It may be shared between threads, and the database between processes; PostgreSQL also between machines. Every call
    is one transaction, and calls that wait share a commit.

    Args:
        url: The database.
        accounts: Where balances live: None for a table of our own, a TableAccounts for a table of yours, or any object
            with the methods of Accounts.
        migrate: Make or migrate the tables on opening; False raises SchemaError with the statements to run instead.
        table_prefix: How the names of the tables begin.
        patience_seconds: How long a call waits for a database that is down or locked before LedgerUnavailableError.
        pooler: Whether a pooler such as PgBouncer is between us and PostgreSQL; None finds out at each connect.

    Raises:
        ConfigurationError: The address or the prefix cannot be used.
        TypeError: *url* is not a str, or *pooler* is not True, False or None.
        SchemaError: The tables are newer than this program, or missing with migrate=False; or the columns of a
            TableAccounts are not there, not unique or not exact.
        LedgerUnavailableError: The database cannot be reached.
    """

    _awaits = False

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
        self._url = checked_url(url)
        self._keep(accounts, migrate, table_prefix, patience_seconds, pooler, clock_millis)
        at_once(self._open())

    @classmethod
    def from_django(
        cls,
        alias: str = "default",
        *,
        accounts: AccountsSpec = None,
        migrate: bool = True,
        table_prefix: str = "game_operator_",
        patience_seconds: float = 5.0,
        pooler: bool | None = None,
        clock_millis: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> "SqlLedger":
        """
        Return a ledger in Django's database *alias*, PostgreSQL or SQLite, by its entry in ``DATABASES``.

        It may be made when modules are imported: it connects when it is first used, and follows Django to the test
        database. Each piece of work has a connection, which is closed after it, so that Django can drop that database.
        What it costs to connect is spared by calls that join: ``apply(call, connection=django.db.connection)``, which
        make the tables where they are missing. Everything else is as for ``SqlLedger``.

        Raises:
            ConfigurationError: Django's settings cannot be used, have no such database, or one of another kind.
        """
        return _DjangoLedger(alias, accounts, migrate, table_prefix, patience_seconds, pooler, clock_millis)

    def _make_queue(self) -> None:
        self._mutex = RLock()
        # PostgreSQL ends a transaction in which nothing happens after six times patience_seconds.
        self._longest_seconds = max(30.0, 8 * self._patience_seconds)
        most = most_calls(self._accounts)
        self._queue = CommitQueue(self._apply_all, most=most, longest_seconds=self._longest_seconds)

    def __enter__(self) -> "SqlLedger":
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._transactions.check()
        with self._mutex:
            self._store.close()

    def apply(self, call: WebhookCall, *, terms: Terms = DEFAULT_TERMS, connection: Any = None) -> Outcome:
        """
        Apply *call* in one transaction and return what became of it, committed.

        With *connection* it is the transaction that you have opened on it, and you who commit; the database's own
        errors pass through unchanged. **Commit whatever the outcome**: a refusal stores a decline or a tombstone, and
        if it is rolled back, a late withdraw debits. Taken are ``sqlite3``, psycopg, SQLAlchemy's Connection and
        Session, and ``django.db.connection``.

        Raises:
            LedgerUnavailableError: The database is down, locked or full. The call may have been committed: repeat it.
            TransactionRequiredError: *connection* has no open transaction.
            SchemaError: The tables are not in the database of *connection*.
            TypeError: The ledger does not take *connection*.
            UnknownSourceError: The ledger knows other sources, and not that of *terms*.
            LedgerError: It is called from within a transaction of this ledger, without its *connection*; or another
                transaction registers the first source at this moment, and a repeat will find it.
        """
        if connection is not None:
            try:
                return at_once(self._joiner.apply(Item(call, terms), connection))
            except UnknownSourceError:
                self._keep_unknown(call, terms)
                raise
        self._transactions.check()
        return self._queue.submit(Item(call, terms))

    def _keep_unknown(self, call: WebhookCall, terms: Terms) -> None:
        """Keep a joined deposit or rollback of an unknown source, unless we would wait for its caller."""
        anomaly = unknown_source(call, terms)
        # A thread that holds our connection may wait for a row that this caller has locked.
        if anomaly is None or not is_postgres(self._url) or not self._mutex.acquire(blocking=False):
            return
        try:
            with suppress(LedgerError):
                self._write(lambda: store_anomaly(anomaly, terms.source, self._fit))
        finally:
            self._mutex.release()

    def keep_anomaly(self, operation: str, kind: str, body: bytes, *, source: str = "", connection: Any = None) -> None:
        """
        Keep a genuine call that was refused before it was a call; the same body again is counted.

        With *connection* it is kept in the transaction that you have opened on it, as ``apply`` does.
        """
        if connection is not None:
            at_once(self._joiner.run(partial(keep_anomaly, operation, kind, body, source), connection))
        else:
            self._write(lambda: keep_anomaly(operation, kind, body, source, self._fit))

    def open_account(self, player_id: str, opening: Decimal = Decimal(0)) -> Cents:
        """
        Open an account with *opening* currency units; return its balance in cents.

        Raises:
            AccountExistsError: It is open already.
            TypeError: *opening* is not a Decimal.
            ValueError: *opening* is negative or finer than a cent, or no account can have that id.
            ConfigurationError: The accounts are not the ledger's own.
        """
        check_own(self._accounts, "open_account")
        return self._write(lambda: open_account(player_id, opening, self._fit))

    def adjust(self, player_id: str, amount: Decimal, *, reference: str) -> Cents:
        """
        Move *amount* currency units from outside games, once for each *reference*; return the balance in cents.

        Raises:
            AccountNotFoundError: There is no such account.
            AdjustmentRefusedError: It would go below zero, or the reference belongs to another adjustment.
            TypeError: *amount* is not a Decimal.
            ConfigurationError: The accounts are not the ledger's own.
        """
        check_own(self._accounts, "adjust")
        return self._write(lambda: adjust(player_id, amount, reference, self._fit)).balance_cents

    def balance(self, player_id: str | tuple[str, ...]) -> Cents:
        """
        Return the balance in cents; raise AccountNotFoundError if there is no such account.

        Where the key of accounts has several columns, it takes their values, or the account as a bet names it.
        """
        account = account_asked_for(player_id, self._accounts)
        return self._read(lambda: balance_of(account, self._fit.accounts))

    def sources(self) -> list[str]:
        """Return the sources whose calls are taken, the oldest first."""
        return self._read(lambda: self._fit.sources.load())

    def add_source(self, name: str) -> None:
        """
        Take calls of a further source; a known one stays as it is. Sources are never removed.

        The same bet under two sources is two bets: add a service or an environment, never a new name for an old one,
        whose open bets would be stranded.

        Raises:
            TypeError, ValueError: *name* is not a text, or longer than 256 characters, or holds U+0000.
        """
        check_source_name(name)
        self._write(lambda: self._fit.sources.add(name, self._fit))
        self._fit.sources.known.add(name)

    def check_source(self, source: str) -> None:
        """Raise UnknownSourceError if calls of *source* would be refused; a Wallet asks when it is made."""
        if self._fit.sources.knows(source):
            return
        with suppress(LedgerUnavailableError):  # Each call asks again.
            names = self.sources()
            if names and source not in names:
                raise refusal(source, names)

    def bet(self, bet_id: str, *, source: str = "") -> BetRecord | None:
        """Return what is known of a bet, or None."""
        return self._read(lambda: self._queries.bet(bet_id, source))

    def bets(
        self, *, since_millis: int | None = None, until_millis: int | None = None, source: str = ""
    ) -> Iterator[BetRecord]:
        """Yield the bets opened from *since_millis* up to but not at *until_millis*, oldest first."""
        after: BetRecord | None = None
        with self._listing() as read:
            while True:
                page = read(lambda: self._queries.bets(since_millis, until_millis, source, after, _PAGE))  # noqa: B023 - run at once
                yield from page
                if len(page) < _PAGE:
                    return
                after = page[-1]

    def _apply_all(self, items: Sequence[Item]) -> list[Result]:
        with self._alone():
            return at_once(self._applied(items))

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Use the connection alone; raise LedgerUnavailableError if its use elsewhere does not end."""
        mutex = self._mutex
        if not mutex.acquire(timeout=self._longest_seconds):
            raise waited_too_long()
        try:
            yield
        finally:
            mutex.release()

    def _write(self, script: Callable[[], Generator[Any, Any, T]]) -> T:
        self._transactions.check()
        with self._alone():
            return at_once(self._written(script))

    def _read(self, script: Callable[[], Generator[Any, Any, T]]) -> T:
        self._transactions.check()
        with self._alone(), self._transactions.entered():
            return self._store.read(script)  # type: ignore[no-any-return]  # What the script returns.


class _DjangoLedger(SqlLedger):
    """A SqlLedger in a database of Django's, with a connection for each piece of work."""

    def __init__(self, alias: str, *options: Any) -> None:
        self._alias = alias
        self._database: object = None
        self._is_closed = False
        self._keep(*options)
        self._joiner.make_tables = self._make_tables if self._migrate else None
        if kind_in_django(alias) == "postgres":
            check_psycopg()

    @property
    def _url(self) -> str:  # type: ignore[override]  # Django says where it is, and only when it is asked.
        return address_in_django(self._alias)

    def close(self) -> None:
        """Close the ledger: it answers nothing any more."""
        self._transactions.check()
        with self._mutex:
            self._is_closed = True
            self._forget()

    def _make_queue(self) -> None:
        super()._make_queue()
        self._depth = 0

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Use a connection alone, to the database that Django uses now; the outermost use closes it."""
        with super()._alone():
            self._depth += 1
            try:
                if self._depth == 1:
                    self._turn()
                yield
            except Exception as failed:
                if _UNDEFINED_TABLE in sqlstates(failed):  # Another database has come under this name.
                    self._forget()
                raise
            finally:
                self._depth -= 1
                if not self._depth and self._database is not None:
                    self._store.rest()

    def _survey(self, script: Callable[[], Generator[Step, Any, T]]) -> T:
        with self._alone():  # It makes the tables, should nobody have done so yet.
            pass
        return super()._survey(script)

    def check_source(self, source: str) -> None:
        """Leave the source to the first call, unless a connection was needed before: there may be no database yet."""
        if self._database is not None:
            super().check_source(source)

    def _turn(self) -> None:
        if self._is_closed:
            raise LedgerUnavailableError("The ledger is closed. Open another, or close it later.")
        if self._database is not None and self._database != self._database_now():
            self._forget()
        if self._database is None:
            at_once(self._open())
            self._database = self._database_now()

    def _database_now(self) -> object:
        """Return what identifies Django's database: the address, and of SQLite the file itself."""
        url = self._url
        try:
            file = os.stat(path_of(url)) if url.startswith("sqlite:") else None  # noqa: PTH116 - beside its other use
        except OSError:
            return url, None
        return url, file and (file.st_dev, file.st_ino)

    def _forget(self) -> None:
        if self._database is not None:
            self._database = None
            self._store.close()

    def _make_tables(self, kind: Kind) -> Generator[Step, Any, None]:
        """
        Make the tables that a call did not find.

        In PostgreSQL a connection of ours commits them. SQLite has one writer, which is the caller, so they are made in
        the caller's transaction: in a TestCase they are gone with it, and made again by the next.
        """
        if kind == "postgres":
            with self._mutex:
                self._forget()
            with self._alone():
                return
        rows: Rows = yield Execute("PRAGMA database_list", ())
        if not _is_file(next((row[2] for row in rows if row[1] == "main"), ""), sqlite_file_in_django(self._alias)):
            raise SchemaError(
                f"The tables {self._prefix}* are not in the database of connection=, and it is not Django's "
                f"{shown(self._alias)}. Pass django.db.connections[{self._alias!r}]."
            )
        version = yield from found_version("sqlite", self._prefix)
        for statement in statements_of(ddl("sqlite", self._prefix, after=version or 0)):
            yield Execute(statement, ())


def _is_file(open_file: str, expected: Path | None) -> bool:
    """Return whether SQLite has opened *expected*; it calls what is in memory by no name."""
    if expected is None or not open_file:
        return expected is None and not open_file
    return Path(open_file).resolve() == expected.resolve()
