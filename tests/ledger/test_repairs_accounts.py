"""Repairs, late calls and payments of balances that are the operator's own."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from decimal import Decimal
from typing import Any

import psycopg
import pytest

from game_operator.errors import FindingError, LedgerError, RepairRefusedError
from game_operator.ledger import SqlLedger, TableAccounts, Terms
from game_operator.ledger.engine.address import path_of
from game_operator.money import Cents
from game_operator.wallet import Wallet
from tests.support.calls import deposit, withdraw
from tests.support.repairs import findings, lost, pay, payment, repair, won

pytestmark = pytest.mark.outside

Run = Callable[..., list[tuple[Any, ...]]]


@pytest.fixture
def run(url: str) -> Run:
    """Run a statement of the operator's, committed at once."""

    def execute(sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
        connect: Any = sqlite3.connect if url.startswith("sqlite") else psycopg.connect
        with closing(connect(path_of(url) if url.startswith("sqlite") else url)) as connection:
            cursor = connection.execute(sql if url.startswith("sqlite") else sql.replace("?", "%s"), parameters)
            rows = cursor.fetchall() if cursor.description else []
            connection.commit()
            return list(rows)

    return execute


def _table(unit: str = "cents") -> TableAccounts:
    return TableAccounts(table="players", key="id", balance="balance", unit=unit)  # type: ignore[arg-type]  # A Unit.


@pytest.mark.parametrize(
    ("kind", "unit", "before", "after"),
    [
        pytest.param("bigint", "cents", "1999", "2800", id="cents"),
        pytest.param("numeric(14, 2)", "units", "19.99", "28.00", id="units"),
        pytest.param("numeric", "units", "19.9999", "28.0099", id="units finer than a cent"),
        pytest.param("bigint", "thousandths", "19999", "28009", id="thousandths finer than a cent"),
    ],
)
@pytest.mark.drawn(4)
def test_own_tables_in_every_unit(url: str, run: Run, kind: str, unit: str, before: str, after: str) -> None:
    """A repair and a payment move the very column, to the last digit; each once."""
    run(f"CREATE TABLE players (id varchar(40) PRIMARY KEY, balance {kind} NOT NULL)")
    run("INSERT INTO players VALUES ('p1', ?)", before if url.startswith("sqlite") else Decimal(before))
    with SqlLedger(url, accounts=_table(unit)) as ledger:
        for bet_id in ("b1", "b2"):
            ledger.apply(withdraw(bet_id, amount_cents=499))
        assert repair(ledger, won(300)).balance_cents == 1999 - 998 + 300
        assert repair(ledger, lost("b2")).balance_cents == 1999 - 499 + 300
        with pytest.raises(RepairRefusedError):
            repair(ledger, won(300))
        assert ledger.apply(deposit(amount_cents=1_300)).code == "BET_ALREADY_CLOSED"
        (found,) = findings(ledger)
        assert (found.account, found.owed_cents) == ("p1", 1_000)
        assert pay(ledger, found.id)[1].balance_cents == 2_800
        with pytest.raises(FindingError):
            pay(ledger, found.id)
        assert Decimal(str(run("SELECT balance FROM players")[0][0])) == Decimal(after)
        assert ledger.verify().findings == ()


def test_a_row_that_is_gone_or_below_zero(url: str, run: Run) -> None:
    """Without its row a bet is not repaired; below zero it is, and what would take it lower is not taken back."""
    run("CREATE TABLE players (id varchar(40) PRIMARY KEY, balance bigint)")
    run("INSERT INTO players VALUES ('p1', 1000)")
    with SqlLedger(url, accounts=_table()) as ledger:
        ledger.apply(withdraw())
        run("DELETE FROM players")
        with pytest.raises(RepairRefusedError, match="account 'p1' cannot be credited"):
            repair(ledger, won(300))
        run("INSERT INTO players VALUES ('p1', -900)")
        assert repair(ledger, won(300)).balance_cents == -600
        ledger.apply(deposit(amount_cents=301))
        ledger.apply(deposit(amount_cents=299, tx_id="less"))
        more, less = findings(ledger)
        with pytest.raises(FindingError, match=r"holds -6\.00, and the finding 2 takes 0\.01 back"):
            pay(ledger, less.id)
        assert pay(ledger, more.id)[1].balance_cents == -599
    assert run("SELECT balance FROM players") == [(-599,)]


def test_keys_of_several_columns(url: str, run: Run) -> None:
    """A repair and a payment go to the account that the bet was debited from, and nobody asks account_of."""
    run(
        "CREATE TABLE wallets (player varchar(40), currency varchar(3), balance bigint, PRIMARY KEY (player, currency))"
    )
    run("INSERT INTO wallets VALUES ('p1', 'EUR', 1000), ('p1', 'JPY', 2000)")
    accounts = TableAccounts(table="wallets", key=("player", "currency"), balance="balance", unit="cents")
    with SqlLedger(url, accounts=accounts) as ledger:
        ledger.apply(withdraw("yen"), terms=Terms(account_of=lambda call: (call.player_id, "JPY")))
        assert repair(ledger, won(300, "yen")).balance_cents == 1_800
        ledger.apply(deposit("yen", amount_cents=400))
        (found,) = findings(ledger)
        assert found.account == '["p1","JPY"]'
        assert pay(ledger, found.id)[1].balance_cents == 1_900
        assert ledger.verify().findings == ()
    assert run("SELECT currency, balance FROM wallets ORDER BY 1") == [("EUR", 1000), ("JPY", 1900)]


class Purse:
    """One column behind an object; it may refuse to move."""

    def __init__(self, mark: str) -> None:
        self.mark, self.moves, self.is_shut = mark, list[int](), False

    def lock(self, connection: Any, account: str) -> Cents | None:
        lock = " FOR UPDATE" if self.mark == "%s" else ""
        row = connection.execute(f"SELECT balance FROM players WHERE id = {self.mark}{lock}", (account,)).fetchone()
        return None if row is None else Cents(row[0])

    def move(self, connection: Any, account: str, delta_cents: int) -> Cents:
        if self.is_shut:
            raise ValueError("shut")
        self.moves.append(delta_cents)
        update = f"UPDATE players SET balance = balance + {self.mark} WHERE id = {self.mark}"
        connection.execute(update, (delta_cents, account))
        moved = self.lock(connection, account)
        assert moved is not None
        return moved


def test_balances_behind_an_object(url: str, run: Run) -> None:
    """It is locked and moved as for a call; what it raises undoes the repair and the payment."""
    run("CREATE TABLE players (id varchar(40) PRIMARY KEY, balance bigint)")
    run("INSERT INTO players VALUES ('p1', 1000)")
    purse = Purse("?" if url.startswith("sqlite") else "%s")
    with SqlLedger(url, accounts=purse) as ledger:
        ledger.apply(withdraw())
        purse.is_shut = True
        with pytest.raises((ValueError, LedgerError)):
            repair(ledger, won(300))
        purse.is_shut = False
        assert repair(ledger, won(300)).balance_cents == 800
        ledger.apply(deposit(amount_cents=400))
        (found,) = findings(ledger)
        purse.is_shut = True
        with pytest.raises((ValueError, LedgerError)):
            pay(ledger, found.id)
        assert findings(ledger)[0].resolved_at_millis is None
        purse.is_shut = False
        assert Wallet(ledger).pay(payment(found.id))[1].balance_cents == 900
        assert ledger.verify().findings == ()
    assert purse.moves == [-500, 300, 100]
    assert run("SELECT balance FROM players") == [(900,)]
