"""Wallets over every kind of transaction that an operator opens, and over the ledger's own: real drivers, one face."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, closing, contextmanager, nullcontext
from functools import partial
from inspect import isawaitable
from typing import Any, NamedTuple, TypeAlias

import psycopg
from anyio.from_thread import BlockingPortal, start_blocking_portal

from game_operator.ledger import AsyncSqlLedger, SqlLedger
from game_operator.ledger.engine.address import path_of
from game_operator.models.webhooks import Reply, WebhookCall
from game_operator.wallet import AsyncJoinedWallet, AsyncWallet, JoinedWallet, Wallet
from tests.support.callers import (
    OF_ALCHEMY,
    OF_ASYNC_ALCHEMY,
    OF_ASYNC_PSYCOPG,
    OF_DJANGO,
    OF_PSYCOPG,
    OF_SQLITE3,
    Kind,
    Statements,
    django_alias,
    sqlalchemy_url,
)

__all__ = ["OWN", "WALLETS", "After", "Opened", "Statements", "WalletKind", "asked", "of_sqlite3"]

_AT_ONCE = 16


#: ``after`` and ``may_bet``, written once for threads and asyncio: it yields what is to be done, and is sent what came
#: of it.
After = Callable[[Statements, Any, Any, Any], Generator[Any, Any, Any]]


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


WalletKind: TypeAlias = Kind[Opened]


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
            step, answer = script.send, await pending if isawaitable(pending) else pending
        except Exception as raised:
            step, answer = script.throw, raised


@contextmanager
def of_sqlite3(url: str, *setting: str) -> Iterator[sqlite3.Connection]:
    """Open a transaction of sqlite3, and commit it."""
    with closing(sqlite3.connect(path_of(url), isolation_level=None)) as connection, connection:
        for each in setting:
            connection.execute(each)
        connection.execute("BEGIN IMMEDIATE")
        yield connection


@contextmanager
def _of_psycopg(url: str) -> Iterator[Any]:
    with closing(psycopg.connect(url)) as connection, connection:  # A commit that fails would leave it open.
        yield connection


@contextmanager
def _of_psycopg_transaction(url: str) -> Iterator[Any]:
    with psycopg.connect(url, autocommit=True) as connection, connection.transaction():
        yield connection


@asynccontextmanager
async def _of_async_psycopg(url: str) -> AsyncIterator[Any]:
    connection = await psycopg.AsyncConnection.connect(url)
    try:
        async with connection:
            yield connection
    finally:
        await connection.close()


@contextmanager
def _of_alchemy(url: str, *, driver: str, orm: bool = False) -> Iterator[Callable[[], Any]]:
    from sqlalchemy import create_engine
    from sqlalchemy.orm import sessionmaker

    engine = create_engine(sqlalchemy_url(url, driver))
    yield sessionmaker(engine).begin if orm else engine.begin
    engine.dispose()


@asynccontextmanager
async def _of_async_alchemy(url: str, *, driver: str, orm: bool = False) -> AsyncIterator[Callable[[], Any]]:
    from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine

    engine = create_async_engine(sqlalchemy_url(url, driver))
    yield async_sessionmaker(engine).begin if orm else engine.begin
    await engine.dispose()


async def _own_sqlite3(connection: sqlite3.Connection, sql: str) -> Sequence[Any]:
    await asyncio.sleep(0)
    return connection.execute(sql).fetchall()


@contextmanager
def _open(url: str, statements: Statements, transactions: Callable[[str], Any], **options: Any) -> Iterator[Opened]:
    with transactions(url) as transaction, SqlLedger(url, **options) as ledger:
        yield Opened(ledger, transaction, statements, None)


@contextmanager
def _open_async(
    url: str, statements: Statements, transactions: Callable[[str], Any], **options: Any
) -> Iterator[Opened]:
    with (
        start_blocking_portal("asyncio") as portal,
        portal.wrap_async_context_manager(AsyncSqlLedger(url, **options)) as ledger,
        portal.wrap_async_context_manager(transactions(url)) as transaction,
    ):
        yield Opened(ledger, transaction, statements, portal)


@contextmanager
def _open_django(url: str, **options: Any) -> Iterator[Opened]:
    from django.db import connections, transaction

    with django_alias(url) as alias:
        opens = partial(transaction.atomic, using=alias, durable=True)
        with _open(url, OF_DJANGO, lambda _: nullcontext(opens), **options) as opened:
            yield opened._replace(leave=lambda: connections[alias].close())


def _by(transaction: Callable[[str], Any]) -> Callable[[str], Any]:
    return lambda url: nullcontext(partial(transaction, url))


def _none(_url: str) -> Any:
    return nullcontext()


def _with(statements: Statements, transactions: Callable[..., Any], **driver: Any) -> Callable[..., Any]:
    opened = _open_async if statements in (OF_ASYNC_ALCHEMY, OF_ASYNC_PSYCOPG, _OF_OWN_ASYNC) else _open
    return partial(opened, statements=statements, transactions=partial(transactions, **driver))


_OF_OWN_ASYNC = OF_SQLITE3._replace(execute=_own_sqlite3)
_ALCHEMY, _ASYNC_ALCHEMY = partial(_with, OF_ALCHEMY, _of_alchemy), partial(_with, OF_ASYNC_ALCHEMY, _of_async_alchemy)
WALLETS = [
    WalletKind("sqlite3", "sqlite", _with(OF_SQLITE3, _by(of_sqlite3))),
    WalletKind("sqlalchemy connection, pysqlite", "sqlite", _ALCHEMY(driver="pysqlite")),
    WalletKind("sqlalchemy session, pysqlite", "sqlite", _ALCHEMY(driver="pysqlite", orm=True)),
    WalletKind("sqlalchemy async connection, aiosqlite", "sqlite", _ASYNC_ALCHEMY(driver="aiosqlite")),
    WalletKind("sqlalchemy async session, aiosqlite", "sqlite", _ASYNC_ALCHEMY(driver="aiosqlite", orm=True)),
    WalletKind("django, sqlite", "sqlite", _open_django),
    WalletKind("psycopg", "postgres", _with(OF_PSYCOPG, _by(_of_psycopg))),
    WalletKind("psycopg, transaction()", "postgres", _with(OF_PSYCOPG, _by(_of_psycopg_transaction))),
    WalletKind("psycopg async", "postgres", _with(OF_ASYNC_PSYCOPG, _by(_of_async_psycopg))),
    WalletKind("sqlalchemy connection, psycopg", "postgres", _ALCHEMY(driver="psycopg")),
    WalletKind("sqlalchemy session, psycopg", "postgres", _ALCHEMY(driver="psycopg", orm=True)),
    WalletKind("sqlalchemy async connection, asyncpg", "postgres", _ASYNC_ALCHEMY(driver="asyncpg")),
    WalletKind("sqlalchemy async session, asyncpg", "postgres", _ASYNC_ALCHEMY(driver="asyncpg", orm=True)),
    WalletKind("sqlalchemy async connection, psycopg", "postgres", _ASYNC_ALCHEMY(driver="psycopg")),
    WalletKind("django, postgres", "postgres", _open_django),
]
#: The same faces for transactions of the ledger's own: Wallet and AsyncWallet.
OWN = [
    WalletKind("own, sqlite", "sqlite", _with(OF_SQLITE3, _none)),
    WalletKind("own async, sqlite", "sqlite", _with(_OF_OWN_ASYNC, _none)),
    WalletKind("own, postgres", "postgres", _with(OF_PSYCOPG, _none)),
    WalletKind("own async, postgres", "postgres", _with(OF_ASYNC_PSYCOPG, _none)),
]
