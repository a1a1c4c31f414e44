"""A database whose balances are the operator's own says so to whoever opens it without them."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from decimal import Decimal
from functools import partial
from typing import Any

import anyio
import psycopg
import pytest

from game_operator.errors import ConfigurationError, SchemaError
from game_operator.ledger import AsyncSqlLedger, SqlLedger, TableAccounts
from game_operator.ledger.engine.address import path_of
from game_operator.models.webhooks import WebhookCall
from game_operator.money import Cents
from tests.support.calls import ask_balance, claim, deposit, rollback, withdraw
from tests.support.raw_sql import is_sqlite
from tests.support.raw_sql import rows as execute

pytestmark = [pytest.mark.outside, pytest.mark.drawn(7, database_url=("postgres",))]

Run = Callable[..., list[tuple[Any, ...]]]

TABLE = TableAccounts(table="players", key="id", balance="balance")
REFUSED = r"keeps its balances in your own table, and it was opened without accounts=.*Nothing was moved"
MARKED = "SELECT value FROM game_operator_meta WHERE name = 'balances_elsewhere'"


class Object:
    """The operator's object, on psycopg or sqlite3."""

    def lock(self, connection: Any, account: str) -> Cents | None:
        row = connection.execute(f"SELECT balance FROM players WHERE id = '{account}'").fetchone()
        return None if row is None else Cents(row[0])

    def move(self, connection: Any, account: str, delta_cents: int) -> Cents:
        connection.execute(f"UPDATE players SET balance = balance + {delta_cents} WHERE id = '{account}'")
        cents = self.lock(connection, account)
        assert cents is not None
        return cents


@pytest.fixture
def run(database_url: str) -> Run:
    """Run a statement of the operator's, committed at once, in a database with their players."""
    execute(database_url, "CREATE TABLE players (id varchar(40) PRIMARY KEY, balance bigint)")
    execute(database_url, "INSERT INTO players VALUES ('p1', 1000)")
    return partial(execute, database_url)


def _connected(url: str) -> Any:
    return sqlite3.connect(path_of(url), isolation_level="IMMEDIATE") if is_sqlite(url) else psycopg.connect(url)


@pytest.fixture(params=["table", "object"])
def accounts(request: pytest.FixtureRequest) -> TableAccounts | Object:
    return TABLE if request.param == "table" else Object()


class Blocking:
    """An AsyncSqlLedger whose methods are run to their end, each with a ledger of its own."""

    def __init__(self, url: str, **options: Any) -> None:
        self._url, self._options = url, options

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def method(*args: Any, **named: Any) -> Any:
            async def awaited() -> Any:
                async with AsyncSqlLedger(self._url, **self._options) as ledger:
                    return await getattr(ledger, name)(*args, **named)

            return anyio.run(awaited)

        return method

    def __enter__(self) -> "Blocking":
        return self

    def __exit__(self, *_: object) -> None: ...


@pytest.fixture(params=[SqlLedger, Blocking])
def opened(request: pytest.FixtureRequest) -> Any:
    """Ledgers for threads and for asyncio."""
    return request.param


CALLS = [
    pytest.param(withdraw("b2"), id="a withdraw"),
    pytest.param(deposit("b1"), id="a deposit"),
    pytest.param(claim("c1"), id="a claim"),
    pytest.param(rollback("b1", tx_id=None), id="a rollback"),
    pytest.param(ask_balance(), id="a question for the balance"),
]


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.drawn(4, database_url=("postgres",))
def test_calls_are_refused_without_the_operators_accounts(
    database_url: str, run: Run, opened: Any, call: WebhookCall
) -> None:
    """Alone and joined; even where a phantom account was left by somebody, which must not be paid."""
    with opened(database_url, accounts=TABLE) as ledger:
        assert ledger.apply(withdraw("b1")).balance_cents == 500
    run("INSERT INTO game_operator_accounts VALUES ('p1', 100000, 1)")
    with opened(database_url) as ledger, pytest.raises(ConfigurationError, match=REFUSED):
        ledger.apply(call)
    with SqlLedger(database_url) as ledger, closing(_connected(database_url)) as connection:
        connection.execute("UPDATE players SET balance = balance")
        with pytest.raises(ConfigurationError, match=REFUSED):
            ledger.apply(call, connection=connection)
        connection.commit()
    assert run("SELECT balance FROM players") == [(500,)]
    assert run("SELECT balance_cents FROM game_operator_accounts") == [(100_000,)]
    with SqlLedger(database_url) as ledger:
        assert len(list(ledger.bets())) == 1
        assert list(ledger.anomalies()) == []


def test_balances_of_our_own_leave_no_mark(database_url: str, run: Run, opened: Any) -> None:
    """Nor does a table that cannot be used: whoever meant our own goes on as before."""
    with opened(database_url) as ledger:
        assert ledger.open_account("p1", Decimal(1)) == 100
    wrong = TableAccounts(table="players", key="nope", balance="balance")
    with pytest.raises(SchemaError), opened(database_url, accounts=wrong) as ledger:
        ledger.balance("p1")
    with opened(database_url) as ledger:
        assert ledger.apply(withdraw(amount_cents=40)).balance_cents == 60
    with SqlLedger(database_url) as ledger:
        assert ledger.verify().notes == ()
    assert run(MARKED) == []


def test_a_ledger_that_only_joins_leaves_the_mark_too(database_url: str, run: Run) -> None:
    """With the call that is committed first: what is rolled back takes the mark along, and the next leaves it anew."""
    with SqlLedger(database_url):  # The tables, by a program that knows no accounts.
        pass
    ledger = SqlLedger(database_url, accounts=TABLE)
    run("DELETE FROM game_operator_meta WHERE name = 'balances_elsewhere'")  # As if it had never been open by itself.
    with closing(_connected(database_url)) as connection:
        connection.execute("UPDATE players SET balance = balance")
        ledger.apply(withdraw("b1"), connection=connection)
        connection.rollback()
        assert run(MARKED) == []
        connection.execute("UPDATE players SET balance = balance")
        ledger.apply(withdraw("b1"), connection=connection)
        connection.commit()
        assert run(MARKED) == [(1,)]
        connection.execute("UPDATE players SET balance = balance")
        assert ledger.apply(deposit("b1", amount_cents=100), connection=connection).balance_cents == 600
        connection.commit()
    ledger.close()


def test_nobody_waits_for_a_mark_that_is_not_committed(postgres_url: str) -> None:
    """A caller who waited, with locks of their own, for another who wants those would be in a deadlock."""
    with psycopg.connect(postgres_url, autocommit=True) as setup:
        setup.execute("CREATE TABLE players (id varchar(40) PRIMARY KEY, balance bigint)")
        setup.execute("INSERT INTO players VALUES ('p1', 1000), ('p2', 1000)")
        with SqlLedger(postgres_url, accounts=TABLE) as ledger:
            setup.execute("DELETE FROM game_operator_meta WHERE name = 'balances_elsewhere'")
            with psycopg.connect(postgres_url) as one, psycopg.connect(postgres_url) as other:
                for connection, player in ((one, "p1"), (other, "p2")):
                    connection.execute("SET lock_timeout = '2s'")
                    ledger.apply(withdraw(f"b-{player}", player_id=player), connection=connection)
            assert setup.execute(MARKED).fetchall() == [(1,)]
