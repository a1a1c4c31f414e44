"""Mistakes of the first hour: each error has the right class, names the value, and says what to do."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from game_operator import WithdrawCall
from game_operator.errors import ConfigurationError, LedgerError
from game_operator.ledger import AsyncSqlLedger, MemoryLedger, SqlLedger
from game_operator.wallet import JoinedWallet
from game_operator.webhooks import RsaSignature

#: Any: each case passes what the types forbid.
_SIGNATURE: Any = RsaSignature
_LEDGERS: list[Any] = [SqlLedger, AsyncSqlLedger]


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        pytest.param(5, "not int 5", id="a number"),
        pytest.param(None, "not NoneType", id="None"),
        pytest.param({"key": "-----BEGIN"}, "not dict", id="a mapping"),
        pytest.param(object(), "not object", id="an object"),
    ],
)
def test_a_key_of_the_wrong_type(keys: Any, told: str) -> None:
    """A TypeError that names the types and shows no key."""
    with pytest.raises(
        TypeError, match=rf"public_keys must be a Path, a PEM, an RSAPublicKey.*{told}.*Path\("
    ) as raised:
        _SIGNATURE(keys)
    assert "BEGIN" not in str(raised.value)


@pytest.mark.parametrize("ledger", _LEDGERS)
@pytest.mark.parametrize(
    ("url", "error", "told"),
    [
        pytest.param("", ConfigurationError, "address is '', which is empty.*variable is set", id="an empty variable"),
        pytest.param(" ", ConfigurationError, "address is ' ', which is empty", id="blank"),
        pytest.param(None, TypeError, "not NoneType. Pass sqlite:///wallet.db or postgresql://", id="None"),
        pytest.param(Path("wallet.db"), TypeError, "PosixPath. Pass 'sqlite:///wallet.db'", id="a path"),
    ],
)
def test_an_address_of_a_ledger(ledger: Any, url: Any, error: type[Exception], told: str) -> None:
    """It is refused where it is passed, before anything is opened; nothing that is not there is called a password."""
    with pytest.raises(error, match=told) as raised:
        ledger(url)
    assert "***" not in str(raised.value)


@pytest.mark.parametrize("pooler", ["false", "yes", "", 0], ids=repr)
@pytest.mark.parametrize("ledger", _LEDGERS)
def test_whether_a_pooler_is_there_is_no_text(ledger: Any, pooler: Any) -> None:
    """Out of an environment "false" would count as true."""
    with pytest.raises(TypeError, match=f"pooler must be True, False or None, not {type(pooler).__name__}"):
        ledger("sqlite:///:memory:", pooler=pooler)


@pytest.mark.parametrize("call", [{}, {"player_id": "p1"}, None, b"{}", "withdraw"], ids=repr)
@pytest.mark.parametrize("make", [MemoryLedger, lambda: SqlLedger("sqlite:///:memory:")], ids=["memory", "sqlite"])
def test_what_is_applied_is_a_call(make: Callable[[], Any], call: Any) -> None:
    """A body that was parsed is not a call yet; the calls beside it are applied."""
    with make() as ledger, pytest.raises(TypeError, match=f"WithdrawCall.*not {type(call).__name__}.*WebhookReceiver"):
        ledger.apply(call)


@pytest.mark.parametrize("call", [{}, None, b"{}"], ids=repr)
def test_what_joins_is_a_call(call: Any, tmp_path: Path) -> None:
    """In a transaction of the caller's, which goes on; on a ledger that knows no source yet, and on one that does."""
    casino = sqlite3.connect(tmp_path / "wallet.db", isolation_level=None)
    with closing(casino), SqlLedger(f"sqlite:///{tmp_path / 'wallet.db'}") as ledger:
        ledger.open_account("p1", Decimal(100))
        for bet_id in ("b1", "b2"):
            casino.execute("BEGIN IMMEDIATE")
            with pytest.raises(TypeError, match=f"WithdrawCall.*not {type(call).__name__}.*WebhookReceiver"):
                ledger.apply(call, connection=casino)
            bet = WithdrawCall(player_id="p1", bet_id=bet_id, amount_cents=100)
            assert ledger.apply(bet, connection=casino).applied
            casino.execute("COMMIT")


def test_a_joined_wallet_says_first_which_argument_is_wrong(tmp_path: Path) -> None:
    """A transaction= such as SQLAlchemy's engine.connect opens none where the driver commits each statement."""
    file = tmp_path / "wallet.db"
    with SqlLedger(f"sqlite:///{file}") as ledger:
        wallet = JoinedWallet(ledger, lambda: closing(sqlite3.connect(file, isolation_level=None)))
        with pytest.raises(LedgerError, match=r"^transaction= opened no transaction.* Pass engine\.begin \(not engine"):
            wallet.withdraw(WithdrawCall(player_id="p1", bet_id="b1", amount_cents=100))
