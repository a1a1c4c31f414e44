"""A transaction inside another commits nothing when it is left: such a call is looked up before it is answered."""

import sqlite3
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import (
    AbstractContextManager,
    asynccontextmanager,
    closing,
    contextmanager,
    suppress,
)
from functools import partial
from typing import Any, NamedTuple

import psycopg
import pytest
from psycopg_pool import ConnectionPool
from sqlalchemy import Engine, create_engine, event
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine
from sqlalchemy.orm import sessionmaker

from game_operator.errors import LedgerError
from game_operator.ledger import AsyncSqlLedger, SqlLedger, joined_block
from game_operator.ledger.engine.address import path_of
from game_operator.wallet import AsyncJoinedWallet, JoinedWallet
from tests.support.callers import django_alias, sqlalchemy_url
from tests.support.calls import deposit, rollback, withdraw
from tests.support.ledgers import funded


class _Nested(NamedTuple):
    """What opens a wallet's transaction, which is a savepoint inside of *outer*."""

    transaction: Callable[[], Any]
    outer: Callable[[], Any]


class _UndoneError(Exception):
    """Something else of the request fails."""


@contextmanager
def _sqlite3(url: str) -> Iterator[_Nested]:
    with closing(sqlite3.connect(path_of(url), isolation_level=None)) as connection:

        @contextmanager
        def nested() -> Iterator[Any]:
            begin, commit = ("SAVEPOINT s", "RELEASE s") if connection.in_transaction else ("BEGIN IMMEDIATE", "COMMIT")
            connection.execute(begin)
            try:
                yield connection
            except BaseException:
                connection.execute("ROLLBACK" if commit == "COMMIT" else "ROLLBACK TO s")
                raise
            connection.execute(commit)

        yield _Nested(nested, nested)


def _over(connection: Any, opens: Callable[[], Any]) -> _Nested:
    """Return what *opens* one inside the other over *connection*."""

    @contextmanager
    def nested() -> Iterator[Any]:
        with opens():
            yield connection

    return _Nested(nested, nested)


@contextmanager
def _psycopg(url: str) -> Iterator[_Nested]:
    with psycopg.connect(url, autocommit=True) as connection:
        yield _over(connection, connection.transaction)


def _engine(url: str) -> Engine:
    if not url.startswith("sqlite"):
        return create_engine(sqlalchemy_url(url, "psycopg"))
    return _begins(create_engine(url))


def _begins(engine: Engine) -> Engine:
    """Let sqlite3 begin where SQLAlchemy does, by its own recipe: else a savepoint's release would commit."""
    event.listen(engine, "connect", lambda driver, _: setattr(driver, "isolation_level", None))
    event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN"))
    return engine


@contextmanager
def _alchemy(url: str) -> Iterator[_Nested]:
    engine = _engine(url)
    with engine.connect() as connection:
        yield _over(
            connection, lambda: (connection.begin_nested if connection.in_transaction() else connection.begin)()
        )
    engine.dispose()


@contextmanager
def _alchemy_joined(url: str) -> Iterator[_Nested]:
    """A session over a connection whose transaction is another's: its commit commits nothing."""
    engine = _engine(url)
    with engine.connect() as connection:
        yield _Nested(sessionmaker(connection).begin, connection.begin)
    engine.dispose()


@contextmanager
def _django(url: str, *, autocommit: bool = True) -> Iterator[_Nested]:
    """Without autocommit atomic() never commits: the caller who switched it off does."""
    from django.db import connections, transaction

    with django_alias(url) as alias:
        nested = _over(connections[alias], partial(transaction.atomic, using=alias))

        @contextmanager
        def outer() -> Iterator[None]:
            transaction.set_autocommit(False, using=alias)
            try:
                with connections[alias].cursor() as cursor:  # What sqlite3 begins before.
                    cursor.execute("UPDATE game_operator_meta SET value = value WHERE name = ''")
                yield
            finally:
                transaction.rollback(using=alias)
                transaction.set_autocommit(True, using=alias)

        yield nested if autocommit else nested._replace(outer=outer)


_Opens = Callable[[str], AbstractContextManager[_Nested]]
_OF_LIBRARIES: dict[str, _Opens] = {
    "sqlalchemy": _alchemy,
    "sqlalchemy session in another's transaction": _alchemy_joined,
    "django": _django,
    "django without autocommit": partial(_django, autocommit=False),
}
_KINDS: dict[str, tuple[str, _Opens]] = {"sqlite3": ("sqlite", _sqlite3), "psycopg": ("postgres", _psycopg)} | {
    f"{name}, {database}": (database, opens)
    for name, opens in _OF_LIBRARIES.items()
    for database in ("sqlite", "postgres")
}


@pytest.fixture
def looked_up(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What was looked up over the ledger's own connection; nobody commits later here."""
    asked: list[Any] = []
    monkeypatch.setattr(joined_block, "_CONFIRM_SECONDS", 0.01)
    for each in (SqlLedger, AsyncSqlLedger):

        def read(self: Any, script: Any, of: Any = each._read) -> Any:
            asked.append(script)
            return of(self, script)

        monkeypatch.setattr(each, "_read", read)
    return asked


@pytest.mark.parametrize(("database", "opens"), _KINDS.values(), ids=_KINDS)
@pytest.mark.drawn(8)
def test_a_call_inside_another_transaction_is_no_success(
    database: str, opens: Any, url_of: Callable[[str], str], looked_up: list[Any]
) -> None:
    """Assumptions §E: also after a call was found committed, and a refusal too; the plain call costs no look-up."""
    url = url_of(database)
    with funded(url) as ledger, opens(url) as kind:
        wallet = JoinedWallet(ledger, kind.transaction)
        assert wallet.withdraw(withdraw(amount_cents=100)).balance_cents == 900
        looked_up.clear()
        assert wallet.withdraw(withdraw("plain", amount_cents=100)).balance_cents == 800
        assert looked_up == []
        asks: tuple[Callable[[], object], ...] = (
            partial(wallet.deposit, deposit()),
            partial(wallet.rollback, rollback("b9")),
        )
        for ask in asks:
            with suppress(_UndoneError), kind.outer():
                with pytest.raises(LedgerError, match="is not committed"):
                    ask()
                raise _UndoneError
            assert looked_up
        assert (ledger.balance("p1"), ledger.bet("b9"), list(ledger.anomalies())) == (800, None, [])
        assert wallet.deposit(deposit(amount_cents=1)).balance_cents == 801
        with suppress(_UndoneError), kind.outer():
            never = JoinedWallet(ledger, kind.transaction, confirm="never")
            assert never.withdraw(withdraw("b8", amount_cents=1)).balance_cents == 800
            raise _UndoneError


@pytest.mark.parametrize("driver", ["asyncpg", "psycopg", "aiosqlite"])
@pytest.mark.parametrize("orm", [False, True], ids=["connection", "session"])
@pytest.mark.drawn(2)
async def test_nested_transactions_of_asyncio(
    driver: str, orm: bool, url_of: Callable[[str], str], looked_up: list[Any]
) -> None:
    """The same, awaited."""
    database = "sqlite" if driver == "aiosqlite" else "postgres"
    url = url_of(database)
    with funded(url) as ledger:
        engine = create_async_engine(sqlalchemy_url(url, driver))
        if database == "sqlite":
            _begins(engine.sync_engine)
        async with AsyncSqlLedger(url) as own, async_sessionmaker(engine)() if orm else engine.connect() as mine:
            made: Any = mine

            @asynccontextmanager
            async def nested() -> AsyncIterator[Any]:
                async with made.begin_nested() if made.in_transaction() else made.begin():
                    yield made

            wallet = AsyncJoinedWallet(own, nested)
            assert (await wallet.withdraw(withdraw(amount_cents=100))).balance_cents == 900
            looked_up.clear()
            assert (await wallet.withdraw(withdraw("plain", amount_cents=100))).balance_cents == 800
            assert looked_up == []
            with suppress(_UndoneError):
                async with nested():
                    with pytest.raises(LedgerError, match="is not committed"):
                        await wallet.deposit(deposit())
                    raise _UndoneError
            assert ledger.balance("p1") == 800
            assert (await wallet.deposit(deposit(amount_cents=1))).balance_cents == 801
        await engine.dispose()


@pytest.mark.parametrize("kind", ["psycopg", "queue"])
def test_a_sign_is_no_refusal(kind: str, postgres_url: str, looked_up: list[Any]) -> None:
    """Assumptions §E: 32 threads over a pool of two: after the pool has it back, the connection is another thread's."""
    threads_of = (f"t{number}" for number in range(32))
    with funded(postgres_url, 10, *threads_of) as ledger, ConnectionPool(postgres_url, min_size=2, max_size=2) as pool:

        @contextmanager
        def transaction() -> Iterator[Any]:
            if kind == "psycopg":
                with pool.connection() as connection:
                    yield connection
            else:
                connection = pool.getconn()
                with connection.transaction():
                    yield connection
                pool.putconn(connection)
            time.sleep(0.001)

        wallet = JoinedWallet(ledger, transaction)
        assert wallet.withdraw(withdraw(amount_cents=1)).code is None
        looked_up.clear()
        calls = [withdraw(f"{thread} {number}", f"t{thread}", 1) for number in range(4) for thread in range(32)]
        with ThreadPoolExecutor(32) as threads:
            replies = list(threads.map(wallet.withdraw, calls))
        assert [reply.code for reply in replies] == [None] * len(calls)
        assert looked_up
