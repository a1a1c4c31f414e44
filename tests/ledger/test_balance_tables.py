"""A table of the operator's balances is moved by one ledger, unless several say that they share it."""

from dataclasses import replace
from typing import Any

import anyio
import psycopg
import pytest

from game_operator.errors import AccountNotFoundError, LedgerError, SchemaError
from game_operator.ledger import AsyncSqlLedger, SqlLedger, TableAccounts
from tests.support.calls import withdraw
from tests.support.raw_sql import is_sqlite, rows, run

pytestmark = [pytest.mark.outside, pytest.mark.drawn(3, database_url=("postgres",))]

TABLE = TableAccounts(table="players", key="id", balance="balance")
OWNED = r"are moved by the ledger with the table prefix game_operator_ already.*Pass that table_prefix"


@pytest.fixture
def url(database_url: str) -> str:
    """A database with a player who has 100.00."""
    run(database_url, "CREATE TABLE players (id varchar(40) PRIMARY KEY, balance bigint)")
    run(database_url, "INSERT INTO players VALUES ('p1', 10000)")
    return database_url


def tables_of(url: str, prefix: str) -> list[Any]:
    """Return the tables that begin with *prefix*."""
    listed = "sqlite_master WHERE type = 'table' AND name" if is_sqlite(url) else "pg_tables WHERE tablename"
    return list(rows(url, f"SELECT 1 FROM {listed} LIKE '{prefix}%'"))


@pytest.mark.parametrize(
    "accounts",
    [
        pytest.param(TABLE, id="the table of another ledger"),
        pytest.param(replace(TABLE, unit="units"), id="a unit that does not fit"),
        pytest.param(replace(TABLE, balance="purse"), id="no such column"),
    ],
)
def test_a_start_that_is_refused_makes_no_tables(url: str, accounts: TableAccounts) -> None:
    """Empty tables would look like sound books, and migrated ones would keep the version before from starting."""
    SqlLedger(url, accounts=TABLE).close()
    with pytest.raises(SchemaError):
        SqlLedger(url, accounts=accounts, table_prefix="other_")
    assert tables_of(url, "other_") == []

    async def open_other() -> None:
        async with AsyncSqlLedger(url, accounts=accounts, table_prefix="other_"):
            pass

    with pytest.raises(SchemaError):
        anyio.run(open_other)
    assert tables_of(url, "other_") == []


def test_a_second_prefix_moves_nothing(url: str) -> None:
    """Before, 100.00 became 85.00 when the call of one prefix came through another."""
    with SqlLedger(url, accounts=TABLE) as ledger:
        assert ledger.apply(withdraw("b1", amount_cents=750)).balance_cents == 9_250
    with pytest.raises(SchemaError, match=OWNED):
        SqlLedger(url, accounts=TABLE, table_prefix="other_")
    with SqlLedger(url, accounts=TABLE) as ledger:  # The first prefix goes on, as often as it opens.
        assert ledger.apply(withdraw("b1", amount_cents=750)).replayed
    assert rows(url, "SELECT balance FROM players") == [(9_250,)]


def test_shared_balances(url: str) -> None:
    """Two services that share their players' money say so; one of another name without saying so is refused still."""
    shared = replace(TABLE, shared=True)
    with SqlLedger(url, accounts=TABLE), SqlLedger(url, accounts=shared, table_prefix="other_") as other:
        assert other.apply(withdraw("b1")).balance_cents == 9_500
    with pytest.raises(SchemaError, match=OWNED):
        SqlLedger(url, accounts=TABLE, table_prefix="third_")


def test_two_that_join_at_once(postgres_url: str) -> None:
    """Neither waits for the other; the second repeats until the first is known."""
    run(postgres_url, "CREATE TABLE players (id varchar(40) PRIMARY KEY, balance bigint)")
    run(postgres_url, "INSERT INTO players VALUES ('p1', 10000), ('p2', 10000)")
    ledgers = [SqlLedger(postgres_url, table_prefix=prefix) for prefix in ("one_", "two_")]
    one, two = ledgers
    for ledger in ledgers:
        ledger._joiner._accounts = TABLE
    with psycopg.connect(postgres_url) as first, psycopg.connect(postgres_url) as second:
        one.apply(withdraw("b1"), connection=first)
        second.execute("SET lock_timeout = '2s'")
        with pytest.raises(LedgerError, match=r"about to move the balances in public.players.*repeat the call"):
            two.apply(withdraw("b1", "p2"), connection=second)
        first.commit()
        with pytest.raises(SchemaError, match="prefix one_ already"):
            two.apply(withdraw("b1", "p2"), connection=second)
    for ledger in ledgers:
        ledger.close()
    assert rows(postgres_url, "SELECT id, balance FROM players ORDER BY id") == [("p1", 9_500), ("p2", 10_000)]


@pytest.mark.parametrize(
    ("then", "table", "refused"),
    [
        pytest.param([], "public.players", True, id="with its schema"),
        pytest.param(
            ["ALTER TABLE players RENAME TO before", "CREATE TABLE players (LIKE before INCLUDING ALL)"],
            "players",
            True,
            id="replaced by one of the same name, as a restored dump has it",
        ),
        pytest.param(
            ["CREATE SCHEMA shop", "CREATE TABLE shop.players (LIKE players INCLUDING ALL)"],
            "shop.players",
            False,
            id="of the same name in another schema",
        ),
    ],
)
def test_one_table_in_postgres(postgres_url: str, then: list[str], table: str, refused: bool) -> None:
    """It is known by its name, with its schema."""
    run(postgres_url, "CREATE TABLE players (id varchar(40) PRIMARY KEY, balance bigint)")
    SqlLedger(postgres_url, accounts=TABLE).close()
    for statement in then:
        run(postgres_url, statement)
    accounts = replace(TABLE, table=table)
    if refused:
        with pytest.raises(SchemaError, match=OWNED):
            SqlLedger(postgres_url, accounts=accounts, table_prefix="other_")
        return
    opened = SqlLedger(postgres_url, accounts=accounts, table_prefix="other_")
    with opened as other, pytest.raises(AccountNotFoundError):
        other.balance("nobody")
