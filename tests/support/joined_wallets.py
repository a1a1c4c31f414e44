"""Wallets over every kind of transaction that an operator opens, and over the ledger's own: real drivers, one face."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import (
    AbstractContextManager,
    asynccontextmanager,
    closing,
    contextmanager,
)
from functools import partial
from typing import Any, NamedTuple

import psycopg
from anyio.from_thread import BlockingPortal, start_blocking_portal

from game_operator.ledger import AsyncSqlLedger, SqlLedger
from game_operator.ledger.engine.address import path_of
from game_operator.models.webhooks import Reply, WebhookCall
from game_operator.wallet import AsyncJoinedWallet, AsyncWallet, JoinedWallet, Wallet
from tests.support.callers import django_alias, sqlalchemy_url

__all__ = ["OWN", "WALLETS", "After", "Opened", "Statements", "WalletKind", "asked", "of_sqlite3"]


class Statements(NamedTuple):
    """What the operator's code does with a connection of one kind; each returns its rows, or an awaitable of them."""

    execute: Callable[[Any, str], Any]
    nested: Callable[[Any, str], Any]  # the statement in a savepoint, made as its library makes them
    commit: Callable[[Any], Any]
    rollback: Callable[[Any], Any]


#: ``after`` and ``may_bet``, written once for threads and asyncio: it yields what is to be done, and is sent what came
#: of it.
After = Callable[[Statements, Any, Any, Any], Generator[Any, Any, Any]]

_AT_ONCE = 16


class Opened(NamedTuple):
    """One kind of transaction over a database, called from a thread, whatever the kind."""

    ledger: Any
    transaction: Any  # what JoinedWallet takes; None for the ledger's own
    statements: Statements
    portal: BlockingPortal | None
    leave: Callable[[], None] = lambda: None  # what a thread does at its end

    def wallet(
        self,
        after: After | None = None,
        transaction: Callable[[], Any] | None = None,
        *,
        may_bet: After | None = None,
        **settings: Any,
    ) -> Any:
        """Return a wallet with these statements."""
        opens, code = transaction or self.transaction, _run if self.portal is None else _run_async
        for name, each in (("after", after), ("may_bet", may_bet)):
            settings[name] = each and partial(code, self.statements, each)
        own, joined = (Wallet, JoinedWallet) if self.portal is None else (AsyncWallet, AsyncJoinedWallet)
        wallet: Any = own(self.ledger, **settings) if opens is None else joined(self.ledger, opens, **settings)
        return wallet

    def at_once(self, wallet: Any, calls: Sequence[WebhookCall]) -> list[Reply | Exception]:
        """Return the wallet's replies to *calls*, sixteen at a time, or what it raised."""
        if self.portal is not None:
            return self.portal.call(_gathered, wallet, calls)

        def one(call: WebhookCall) -> Reply | Exception:
            try:
                return self.call(wallet, call)
            except Exception as raised:
                return raised
            finally:
                self.leave()

        with ThreadPoolExecutor(_AT_ONCE) as threads:
            return list(threads.map(one, calls))

    def ask(self, wallet: Any, method: str, *arguments: Any) -> Any:
        """Return what *method* of the wallet answers."""
        call = getattr(wallet, method)
        return call(*arguments) if self.portal is None else self.portal.call(call, *arguments)

    def call(self, wallet: Any, call: WebhookCall) -> Reply:
        """Return the wallet's reply to *call*."""
        reply: Reply = self.ask(wallet, call.operation.replace("-", "_"), call)
        return reply


class WalletKind(NamedTuple):
    """A kind of transaction, and the database it is for."""

    name: str
    database: str
    open: Callable[..., AbstractContextManager[Opened]]

    def __str__(self) -> str:
        return self.name


def asked(name: str) -> list[WalletKind]:
    """Return the kinds with *name* in their names."""
    return [kind for kind in (*WALLETS, *OWN) if name in kind.name]


async def _gathered(wallet: Any, calls: Sequence[WebhookCall]) -> list[Reply | Exception]:
    few = asyncio.Semaphore(_AT_ONCE)

    async def one(call: WebhookCall) -> Reply | Exception:
        async with few:
            try:
                reply: Reply = await getattr(wallet, call.operation.replace("-", "_"))(call)
            except Exception as raised:
                return raised
            return reply

    return list(await asyncio.gather(*map(one, calls)))


def _run(statements: Statements, code: After, call: Any, known: Any, connection: Any) -> Any:
    script = code(statements, call, known, connection)
    answer = None
    while True:
        try:
            answer = script.send(answer)
        except StopIteration as done:
            return done.value


async def _run_async(statements: Statements, code: After, call: Any, known: Any, connection: Any) -> Any:
    script = code(statements, call, known, connection)
    step = script.send
    answer: Any = None
    while True:
        try:
            pending = step(answer)
        except StopIteration as done:
            return done.value
        try:
            step, answer = script.send, await pending
        except Exception as raised:
            step, answer = script.throw, raised


def _sqlite3(connection: sqlite3.Connection, sql: str) -> Sequence[Any]:
    return connection.execute(sql).fetchall()


def _sqlite3_nested(connection: sqlite3.Connection, sql: str) -> Sequence[Any]:
    connection.execute("SAVEPOINT mine")
    try:
        return connection.execute(sql).fetchall()
    except sqlite3.Error:
        connection.execute("ROLLBACK TO mine")
        raise
    finally:
        connection.execute("RELEASE mine")


_OF_SQLITE3 = Statements(_sqlite3, _sqlite3_nested, lambda mine: mine.commit(), lambda mine: mine.rollback())


@contextmanager
def of_sqlite3(url: str, *setting: str) -> Iterator[sqlite3.Connection]:
    """Open a transaction of sqlite3, and commit it."""
    with closing(sqlite3.connect(path_of(url), isolation_level=None)) as connection, connection:
        for each in setting:
            connection.execute(each)
        connection.execute("BEGIN IMMEDIATE")
        yield connection


@contextmanager
def _open_sqlite3(url: str, **options: Any) -> Iterator[Opened]:
    with SqlLedger(url, **options) as ledger:
        yield Opened(ledger, partial(of_sqlite3, url), _OF_SQLITE3, None)


def _psycopg(connection: Any, sql: str) -> Sequence[Any]:
    cursor = connection.execute(sql.encode())
    return cursor.fetchall() if cursor.description else []


def _psycopg_nested(connection: Any, sql: str) -> Sequence[Any]:
    with connection.transaction():
        return _psycopg(connection, sql)


_OF_PSYCOPG = Statements(_psycopg, _psycopg_nested, lambda mine: mine.commit(), lambda mine: mine.rollback())


@contextmanager
def _open_psycopg(url: str, **options: Any) -> Iterator[Opened]:
    @contextmanager
    def transaction() -> Iterator[Any]:
        with closing(psycopg.connect(url)) as connection, connection:  # A commit that fails would leave it open.
            yield connection

    with SqlLedger(url, **options) as ledger:
        yield Opened(ledger, transaction, _OF_PSYCOPG, None)


@contextmanager
def _open_psycopg_transaction(url: str, **options: Any) -> Iterator[Opened]:
    @contextmanager
    def transaction() -> Iterator[Any]:
        with psycopg.connect(url, autocommit=True) as connection, connection.transaction():
            yield connection

    with SqlLedger(url, **options) as ledger:
        yield Opened(ledger, transaction, _OF_PSYCOPG, None)


async def _async_psycopg(connection: Any, sql: str) -> Sequence[Any]:
    cursor = await connection.execute(sql.encode())
    return await cursor.fetchall() if cursor.description else []


async def _async_psycopg_nested(connection: Any, sql: str) -> Sequence[Any]:
    async with connection.transaction():
        return await _async_psycopg(connection, sql)


_OF_ASYNC_PSYCOPG = Statements(
    _async_psycopg, _async_psycopg_nested, lambda mine: mine.commit(), lambda mine: mine.rollback()
)


@contextmanager
def _open_async_psycopg(url: str, **options: Any) -> Iterator[Opened]:
    @asynccontextmanager
    async def transaction() -> AsyncIterator[Any]:
        connection = await psycopg.AsyncConnection.connect(url)
        try:
            async with connection:
                yield connection
        finally:
            await connection.close()

    with _async_ledger(url, options) as (portal, ledger):
        yield Opened(ledger, transaction, _OF_ASYNC_PSYCOPG, portal)


def _alchemy(connection: Any, sql: str) -> Sequence[Any]:
    from sqlalchemy import text

    result = connection.execute(text(sql))
    return result.fetchall() if result.returns_rows else []


def _alchemy_nested(connection: Any, sql: str) -> Sequence[Any]:
    with connection.begin_nested():
        return _alchemy(connection, sql)


_OF_ALCHEMY = Statements(_alchemy, _alchemy_nested, lambda mine: mine.commit(), lambda mine: mine.rollback())


@contextmanager
def _open_alchemy(url: str, driver: str, *, orm: bool, **options: Any) -> Iterator[Opened]:
    from sqlalchemy import create_engine
    from sqlalchemy.orm import sessionmaker

    engine = create_engine(sqlalchemy_url(url, driver))
    with SqlLedger(url, **options) as ledger:
        yield Opened(ledger, sessionmaker(engine).begin if orm else engine.begin, _OF_ALCHEMY, None)
    engine.dispose()


async def _async_alchemy(connection: Any, sql: str) -> Sequence[Any]:
    from sqlalchemy import text

    result = await connection.execute(text(sql))
    return result.fetchall() if result.returns_rows else []


async def _async_alchemy_nested(connection: Any, sql: str) -> Sequence[Any]:
    async with connection.begin_nested():
        return await _async_alchemy(connection, sql)


@contextmanager
def _open_async_alchemy(url: str, driver: str, *, orm: bool, **options: Any) -> Iterator[Opened]:
    from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine

    statements = Statements(
        _async_alchemy, _async_alchemy_nested, lambda mine: mine.commit(), lambda mine: mine.rollback()
    )
    with _async_ledger(url, options) as (portal, ledger):
        engine = create_async_engine(sqlalchemy_url(url, driver))
        yield Opened(ledger, async_sessionmaker(engine).begin if orm else engine.begin, statements, portal)
        portal.call(engine.dispose)


@contextmanager
def _async_ledger(url: str, options: dict[str, Any]) -> Iterator[tuple[BlockingPortal, AsyncSqlLedger]]:
    with start_blocking_portal("asyncio") as portal:
        ledger = AsyncSqlLedger(url, **options)
        portal.call(ledger.__aenter__)
        try:
            yield portal, ledger
        finally:
            portal.call(ledger.close)


def _django(connection: Any, sql: str) -> Sequence[Any]:
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return cursor.fetchall() if cursor.description else []


def _django_nested(connection: Any, sql: str) -> Sequence[Any]:
    from django.db import transaction

    with transaction.atomic(using=connection.alias):
        return _django(connection, sql)


_OF_DJANGO = Statements(_django, _django_nested, lambda mine: mine.commit(), lambda mine: mine.rollback())


@contextmanager
def _open_django(url: str, **options: Any) -> Iterator[Opened]:
    from django.db import connections, transaction

    with django_alias(url) as alias, SqlLedger(url, **options) as ledger:
        opens = partial(transaction.atomic, using=alias, durable=True)
        yield Opened(ledger, opens, _OF_DJANGO, None, lambda: connections[alias].close())


async def _own_sqlite3(connection: sqlite3.Connection, sql: str) -> Sequence[Any]:
    await asyncio.sleep(0)
    return _sqlite3(connection, sql)


async def _own_sqlite3_nested(connection: sqlite3.Connection, sql: str) -> Sequence[Any]:
    return _sqlite3_nested(connection, sql)


async def _own_commit(connection: sqlite3.Connection) -> None:
    connection.commit()


async def _own_rollback(connection: sqlite3.Connection) -> None:
    connection.rollback()


@contextmanager
def _open_own(url: str, statements: Statements, **options: Any) -> Iterator[Opened]:
    with SqlLedger(url, **options) as ledger:
        yield Opened(ledger, None, statements, None)


@contextmanager
def _open_own_async(url: str, statements: Statements, **options: Any) -> Iterator[Opened]:
    with _async_ledger(url, options) as (portal, ledger):
        yield Opened(ledger, None, statements, portal)


def _with(opened: Callable[..., Any], driver: str, *, orm: bool) -> Callable[..., AbstractContextManager[Opened]]:
    return lambda url, **options: opened(url, driver, orm=orm, **options)


WALLETS = [
    WalletKind("sqlite3", "sqlite", _open_sqlite3),
    WalletKind("sqlalchemy connection, pysqlite", "sqlite", _with(_open_alchemy, "pysqlite", orm=False)),
    WalletKind("sqlalchemy session, pysqlite", "sqlite", _with(_open_alchemy, "pysqlite", orm=True)),
    WalletKind("sqlalchemy async connection, aiosqlite", "sqlite", _with(_open_async_alchemy, "aiosqlite", orm=False)),
    WalletKind("sqlalchemy async session, aiosqlite", "sqlite", _with(_open_async_alchemy, "aiosqlite", orm=True)),
    WalletKind("django, sqlite", "sqlite", _open_django),
    WalletKind("psycopg", "postgres", _open_psycopg),
    WalletKind("psycopg, transaction()", "postgres", _open_psycopg_transaction),
    WalletKind("psycopg async", "postgres", _open_async_psycopg),
    WalletKind("sqlalchemy connection, psycopg", "postgres", _with(_open_alchemy, "psycopg", orm=False)),
    WalletKind("sqlalchemy session, psycopg", "postgres", _with(_open_alchemy, "psycopg", orm=True)),
    WalletKind("sqlalchemy async connection, asyncpg", "postgres", _with(_open_async_alchemy, "asyncpg", orm=False)),
    WalletKind("sqlalchemy async session, asyncpg", "postgres", _with(_open_async_alchemy, "asyncpg", orm=True)),
    WalletKind("sqlalchemy async connection, psycopg", "postgres", _with(_open_async_alchemy, "psycopg", orm=False)),
    WalletKind("django, postgres", "postgres", _open_django),
]
#: The same faces for transactions of the ledger's own: Wallet and AsyncWallet.
_OF_OWN_ASYNC = Statements(_own_sqlite3, _own_sqlite3_nested, _own_commit, _own_rollback)
OWN = [
    WalletKind("own, sqlite", "sqlite", partial(_open_own, statements=_OF_SQLITE3)),
    WalletKind("own async, sqlite", "sqlite", partial(_open_own_async, statements=_OF_OWN_ASYNC)),
    WalletKind("own, postgres", "postgres", partial(_open_own, statements=_OF_PSYCOPG)),
    WalletKind("own async, postgres", "postgres", partial(_open_own_async, statements=_OF_ASYNC_PSYCOPG)),
]
