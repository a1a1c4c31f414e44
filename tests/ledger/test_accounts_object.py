"""Balances behind an object of the operator's own, in the ledger's transactions and in the caller's."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pytest

from game_operator.errors import AccountNotFoundError, LedgerError
from game_operator.ledger import Accounts, AsyncSqlLedger, SqlLedger
from game_operator.ledger.engine.address import path_of
from game_operator.money import Cents
from tests.support.calls import ask_balance, claim, deposit, rollback, withdraw
from tests.support.raw_sql import rows

pytestmark = [pytest.mark.drawn(6, database_url=("postgres",))]


class Purses:
    """Cash and bonus in two columns: bonus is spent first, winnings are cash."""

    def __init__(self, mark: str) -> None:
        self.mark = mark
        self.connections: list[Any] = []

    def lock(self, connection: Any, account: str) -> Cents | None:
        self.connections.append(connection)
        lock = " FOR UPDATE" if self.mark == "%s" else ""
        row = connection.execute(f"SELECT cash, bonus FROM purses WHERE id = {self.mark}{lock}", (account,)).fetchone()
        return None if row is None else Cents(row[0] + row[1])

    def move(self, connection: Any, account: str, delta_cents: int) -> Cents:
        cash, bonus = connection.execute(
            f"SELECT cash, bonus FROM purses WHERE id = {self.mark}", (account,)
        ).fetchone()
        from_bonus = min(bonus, max(-delta_cents, 0))
        cash, bonus = cash + delta_cents + from_bonus, bonus - from_bonus
        update = f"UPDATE purses SET cash = {self.mark}, bonus = {self.mark} WHERE id = {self.mark}"
        connection.execute(update, (cash, bonus, account))
        return Cents(cash + bonus)


class AsyncPurses(Purses):
    """The same, awaited, over psycopg."""

    async def lock(self, connection: Any, account: str) -> Cents | None:  # type: ignore[override]  # Another Protocol.
        cursor = await connection.execute("SELECT cash + bonus FROM purses WHERE id = %s FOR UPDATE", (account,))
        row = await cursor.fetchone()
        return None if row is None else Cents(row[0])

    async def move(self, connection: Any, account: str, delta_cents: int) -> Cents:  # type: ignore[override]
        update = "UPDATE purses SET cash = cash + %s WHERE id = %s RETURNING cash + bonus"
        row = await (await connection.execute(update, (delta_cents, account))).fetchone()
        return Cents(row[0])


@pytest.fixture
def url(database_url: str) -> str:
    """A database with the operator's purses."""
    rows(database_url, "CREATE TABLE purses (id varchar(40) PRIMARY KEY, cash bigint, bonus bigint)")
    rows(database_url, "INSERT INTO purses VALUES ('p1', 700, 300), ('p2', 1000, 0)")
    return database_url


@pytest.fixture
def purses(url: str) -> Purses:
    """The operator's object."""
    return Purses("?" if url.startswith("sqlite") else "%s")


@pytest.fixture
def ledger(url: str, purses: Purses) -> Iterator[SqlLedger]:
    """A ledger over the operator's object."""
    accounts: Accounts = purses
    with SqlLedger(url, accounts=accounts) as opened:
        yield opened


def test_calls_move_what_the_object_keeps(ledger: SqlLedger) -> None:
    """A whole life of bets, repeats and refusals over an object."""
    assert ledger.apply(withdraw()).balance_cents == 500
    assert ledger.apply(withdraw()).replayed
    assert ledger.apply(withdraw("b2", amount_cents=501)).code == "INSUFFICIENT_BALANCE"
    assert ledger.apply(deposit()).balance_cents == 1750
    assert ledger.apply(withdraw("b3", player_id="p2")).applied
    assert ledger.apply(rollback("b3", player_id="p2", tx_id=None)).balance_cents == 1000
    assert ledger.apply(claim("c", "p2", amount_cents=0)).applied
    assert ledger.apply(ask_balance("nobody")).code == "PLAYER_NOT_FOUND"
    assert (ledger.balance("p1"), ledger.balance("p2")) == (1750, 1000)
    with pytest.raises(AccountNotFoundError, match="lock answered None"):
        ledger.balance("nobody")


class _Failing(Purses):
    def __init__(self, mark: str, answer: Any) -> None:
        super().__init__(mark)
        self.answer = answer

    def move(self, connection: Any, account: str, delta_cents: int) -> Any:
        super().move(connection, account, delta_cents)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        pytest.param(None, "must answer the balance as an int", id="nothing"),
        pytest.param(5.0, "must answer the balance as an int", id="a float"),
        pytest.param(True, "must answer the balance as an int", id="a bool"),
        pytest.param(Decimal(500), "must answer the balance as an int", id="a Decimal"),
        pytest.param(501, "one and the same balance", id="another balance"),
        pytest.param(LedgerError("closed for today"), "closed for today", id="an exception"),
    ],
)
def test_a_move_that_goes_wrong_leaves_nothing(url: str, purses: Purses, answer: Any, problem: str) -> None:
    """Neither the purse nor the books have moved, and the repeat is applied."""
    with SqlLedger(url, accounts=_Failing(purses.mark, answer)) as failing, pytest.raises(LedgerError, match=problem):
        failing.apply(withdraw())
    with SqlLedger(url, accounts=purses) as ledger:
        assert ledger.bet("b1") is None
        assert ledger.apply(withdraw()).balance_cents == 500


@pytest.mark.parametrize("thing", [object(), Purses, "players", 0], ids=["an object", "a class", "a text", "a number"])
def test_what_is_no_accounts_is_refused(tmp_path: Path, thing: Any) -> None:
    """Before anything is opened."""
    for kind in (SqlLedger, AsyncSqlLedger):
        with pytest.raises(TypeError, match="a TableAccounts or an object with lock and move"):
            kind(f"sqlite:///{tmp_path / 'wallet.db'}", accounts=thing)


def test_in_the_callers_transaction_it_is_given_the_callers_connection(
    url: str, ledger: SqlLedger, purses: Purses
) -> None:
    """Locked and moved with the very connection that was passed; undone with it."""
    sqlite = url.startswith("sqlite")
    connection: Any = sqlite3.connect(path_of(url), isolation_level=None) if sqlite else psycopg.connect(url)
    with closing(connection):
        connection.execute("BEGIN IMMEDIATE" if sqlite else "SELECT 1")
        purses.connections.clear()
        assert ledger.apply(withdraw(), connection=connection).balance_cents == 500
        assert purses.connections == [connection]
        connection.rollback()
    assert ledger.balance("p1") == 1000


@pytest.mark.parametrize("database_url", ["postgres"], indirect=True)
async def test_an_object_may_be_awaited(url: str) -> None:
    """AsyncAccounts on PostgreSQL, alone and joined."""
    connecting = psycopg.AsyncConnection.connect(url)
    async with await connecting as connection, AsyncSqlLedger(url, accounts=AsyncPurses("%s")) as ledger:
        assert (await ledger.apply(withdraw())).balance_cents == 500
        assert (await ledger.apply(deposit(), connection=connection)).balance_cents == 1750
        await connection.rollback()
        assert await ledger.balance("p1") == 500


def test_what_cannot_be_awaited_is_refused_in_words(database_url: str) -> None:
    """In a SqlLedger nothing awaits: better an error than a coroutine taken for an answer."""
    blocking = SqlLedger(database_url, accounts=AsyncPurses("%s"))
    with blocking, pytest.raises(LedgerError, match=r"Accounts\.lock is to be awaited.*plain function"):
        blocking.apply(withdraw())
