"""What may be passed as connection=, what is refused, and what callers have set on their connections."""

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import psycopg
import pytest
from psycopg.rows import dict_row
from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import create_async_engine

from game_operator.errors import SchemaError, TransactionRequiredError
from game_operator.ledger import AsyncSqlLedger, SqlLedger, Terms
from game_operator.ledger.engine.address import path_of
from tests.support.callers import sqlalchemy_url
from tests.support.calls import deposit, withdraw
from tests.support.ledgers import funded, funded_async


@pytest.fixture
def ledger(sqlite_url: str) -> Iterator[SqlLedger]:
    """A ledger with an account."""
    with funded(sqlite_url) as opened:
        yield opened


@pytest.mark.parametrize(
    "thing", [pytest.param(object(), id="object"), "wallet.db", 7, psycopg, sqlite3.Connection], ids=repr
)
def test_what_is_no_connection_is_refused_with_a_list(ledger: SqlLedger, thing: Any) -> None:
    """The message tells all that can be passed."""
    with pytest.raises(
        TypeError, match=r"(?s)not a connection.*sqlite3.*psycopg.*SQLAlchemy.*Session.*django"
    ) as failed:
        ledger.apply(withdraw(), connection=thing)
    assert "AsyncSession" in str(failed.value)


def test_a_connection_of_the_other_world_is_refused_with_what_to_do(ledger: SqlLedger, sqlite_url: str) -> None:
    """A blocking connection on the event loop, or one of asyncio without it: the other ledger is named."""
    engine = create_async_engine(sqlalchemy_url(sqlite_url, "aiosqlite"))
    with pytest.raises(TypeError, match="belongs to asyncio: give it to an AsyncSqlLedger"):
        ledger.apply(withdraw(), connection=engine.connect())
    with closing(sqlite3.connect(path_of(sqlite_url))) as connection:
        apply = AsyncSqlLedger(sqlite_url).apply(withdraw(), connection=connection)
        with pytest.raises(TypeError, match="would block the event loop: give it to a SqlLedger"):
            asyncio.run(apply)


def test_what_the_caller_has_set_on_sqlite3_does_not_matter(ledger: SqlLedger, sqlite_url: str) -> None:
    """Row factories, converters and the old implicit transactions of Python."""
    with closing(sqlite3.connect(path_of(sqlite_url), detect_types=sqlite3.PARSE_DECLTYPES)) as connection:
        connection.row_factory = sqlite3.Row
        connection.text_factory = bytes
        connection.execute("CREATE TABLE journal (entry TEXT)")
        connection.execute("INSERT INTO journal VALUES ('begins implicitly')")
        assert connection.in_transaction
        assert ledger.apply(withdraw(), connection=connection).balance_cents == 500
        assert connection.text_factory is bytes
        connection.commit()
        # Committed, and no longer in a transaction: a SAVEPOINT would begin one, and its RELEASE end it.
        with pytest.raises(TransactionRequiredError, match="BEGIN IMMEDIATE"):
            ledger.apply(deposit(), connection=connection)
    assert ledger.balance("p1") == 500


def test_what_the_caller_has_set_on_psycopg_does_not_matter(postgres_url: str) -> None:
    """Rows as dicts, raw cursors with other placeholders, a pipeline."""
    with funded(postgres_url) as ledger:
        with psycopg.connect(postgres_url, row_factory=dict_row, cursor_factory=psycopg.RawCursor) as connection:
            assert ledger.apply(withdraw(), connection=connection).balance_cents == 500
            with connection.pipeline():
                assert ledger.apply(deposit(), connection=connection).balance_cents == 1750
        assert ledger.balance("p1") == 1750


def test_an_engine_in_autocommit_is_refused(url: str) -> None:
    """SQLAlchemy says that it is in a transaction, and commits each statement all the same."""
    driver = "pysqlite" if url.startswith("sqlite") else "psycopg"
    engine = create_engine(sqlalchemy_url(url, driver), isolation_level="AUTOCOMMIT")
    with funded(url) as ledger:
        with engine.begin() as connection, pytest.raises(TransactionRequiredError, match=r"(?i)autocommit"):
            ledger.apply(withdraw(), connection=connection)
        assert ledger.balance("p1") == 1000
        assert ledger.bet("b1") is None
    engine.dispose()


def test_a_database_without_the_tables(tmp_path: Path, ledger: SqlLedger) -> None:
    """A connection to another database is told to migrate there; the caller's transaction goes on."""
    with closing(sqlite3.connect(tmp_path / "other.db", isolation_level=None)) as connection:
        connection.execute("BEGIN")
        connection.execute("CREATE TABLE journal (entry TEXT)")
        with pytest.raises(SchemaError, match=r"not in the database of connection=.*migrate=False"):
            ledger.apply(withdraw(), connection=connection)
        connection.execute("INSERT INTO journal VALUES ('goes on')")
        connection.execute("COMMIT")
        assert connection.execute("SELECT count(*) FROM journal").fetchone() == (1,)


def test_a_stale_snapshot_is_the_databases_own_error(ledger: SqlLedger, sqlite_url: str) -> None:
    """A transaction that has read before another wrote cannot write in SQLite: its own error, and nothing is left."""
    with closing(sqlite3.connect(path_of(sqlite_url), isolation_level=None)) as connection:
        connection.execute("BEGIN")
        connection.execute("SELECT count(*) FROM game_operator_bets").fetchall()
        ledger.apply(withdraw("other"))
        with pytest.raises(sqlite3.OperationalError, match="locked") as failed:
            ledger.apply(withdraw(), connection=connection)
        assert failed.value.sqlite_errorcode == sqlite3.SQLITE_BUSY_SNAPSHOT
        connection.execute("ROLLBACK")
    assert ledger.bet("b1") is None


async def test_a_cancelled_call_leaves_nothing_even_if_the_caller_commits(postgres_url: str) -> None:
    """Cancelled in the middle, the call is rolled back to its savepoint before the caller goes on."""
    async with funded_async(postgres_url) as ledger:
        terms = Terms(after=lambda *_: anyio.sleep_forever())
        async with await psycopg.AsyncConnection.connect(postgres_url) as connection:
            with anyio.move_on_after(0.3) as scope:
                await ledger.apply(withdraw(), connection=connection, terms=terms)
            assert scope.cancelled_caught
            await connection.commit()
        assert await ledger.balance("p1") == 1000
        assert await ledger.bet("b1") is None
