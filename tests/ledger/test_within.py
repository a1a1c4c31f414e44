"""What the operator's own statements raise in the transaction of a call comes out unchanged, and undoes the call."""

import sqlite3
import time
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pytest

from game_operator.ledger import SqlLedger
from game_operator.ledger.api import Outcome, Terms
from game_operator.models.webhooks import MovingCall
from game_operator.webhooks import WithdrawCall

Within = Callable[[MovingCall, Outcome, Any], object]


def _twice(_call: MovingCall, _outcome: Outcome, connection: Any) -> None:
    for _ in range(2):
        connection.execute("INSERT INTO own VALUES ('same')")


def _nowhere(_call: MovingCall, _outcome: Outcome, connection: Any) -> None:
    connection.execute("INSERT INTO nowhere VALUES (1)")


def _undone(url: str, within: Within, error: type[Exception]) -> None:
    with SqlLedger(url) as ledger:
        ledger.open_account("p1", Decimal("10.00"))
        call = WithdrawCall(player_id="p1", bet_id="b1", amount_cents=500)
        began = time.monotonic()
        with pytest.raises(error):
            ledger.apply(call, terms=Terms(within=within))
        # Not tried again and again until our patience of five seconds ends.
        assert time.monotonic() - began < 4
        assert (ledger.balance("p1"), ledger.bet("b1")) == (1000, None)
        assert ledger.apply(call).applied


@pytest.mark.parametrize(
    ("within", "error"),
    [
        pytest.param(_twice, sqlite3.IntegrityError, id="a row that is there already"),
        pytest.param(_nowhere, sqlite3.OperationalError, id="a table that is not there"),
    ],
)
def test_errors_of_own_statements_on_sqlite(tmp_path: Path, within: Within, error: type[Exception]) -> None:
    """They are not taken for a file that cannot be used."""
    with sqlite3.connect(tmp_path / "wallet.db") as connection:
        connection.execute("CREATE TABLE own (id TEXT PRIMARY KEY)")
    connection.close()
    _undone(f"sqlite:///{tmp_path / 'wallet.db'}", within, error)


@pytest.mark.parametrize(
    ("within", "error"),
    [
        pytest.param(_twice, psycopg.errors.UniqueViolation, id="a row that is there already"),
        pytest.param(_nowhere, psycopg.errors.UndefinedTable, id="a table that is not there"),
    ],
)
def test_errors_of_own_statements_on_postgresql(postgres_url: str, within: Within, error: type[Exception]) -> None:
    """They are not taken for a race with another machine."""
    with psycopg.connect(postgres_url) as connection:
        connection.execute("CREATE TABLE own (id text PRIMARY KEY)")
    _undone(postgres_url, within, error)
