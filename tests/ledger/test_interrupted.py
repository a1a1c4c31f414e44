"""What an interruption at the worst moment leaves: no open transaction, which the next call would commit."""

import gc
import sqlite3
from decimal import Decimal
from pathlib import Path
from unittest.mock import Mock

import pytest

from game_operator.ledger import SqlLedger, Terms
from game_operator.ledger.steps import Execute, Steps
from tests.support.calls import withdraw
from tests.support.ledgers import store_of


@pytest.mark.parametrize("error", [GeneratorExit, KeyboardInterrupt, SystemExit, StopIteration, RuntimeError])
def test_whatever_the_operators_code_raises_undoes_its_call(database_url: str, error: type[BaseException]) -> None:
    """And the next call commits nothing of it."""
    with SqlLedger(database_url) as ledger:
        ledger.open_account("p1", Decimal(10))
        with pytest.raises((error, RuntimeError)):
            ledger.apply(withdraw("b1", "p1", 100), terms=Terms(after=Mock(side_effect=error)))
        outcome = ledger.apply(withdraw("b2", "p1", 100), terms=Terms(after=lambda *_: None))
        assert (outcome.balance_cents, ledger.bet("b1")) == (900, None)
        assert ledger.verify(full=True).sound


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_steps_that_were_left_in_the_middle_commit_nothing(postgres_url: str) -> None:
    """As by an exception of a signal handler between two steps: the next call gives the connection up."""
    with SqlLedger(postgres_url) as ledger:
        ledger.open_account("p1", Decimal(10))
        store = store_of(ledger)

        def left() -> Steps[None]:
            yield Execute("UPDATE game_operator_accounts SET balance_cents = 5", ())
            raise KeyboardInterrupt

        store._roll_back = lambda _: iter(())
        with pytest.raises(KeyboardInterrupt):
            store.run(left)
        del store._roll_back
        gc.collect()
        assert ledger.balance("p1") == 1_000
        assert ledger.apply(withdraw("b2", "p1", 100)).balance_cents == 900


def test_a_begun_transaction_in_sqlite_is_undone_first(tmp_path: Path) -> None:
    """Ctrl-C may come right after BEGIN; neither this ledger nor another process waits for it for ever."""
    url = f"sqlite:///{tmp_path / 'wallet.db'}"
    with SqlLedger(url) as ledger:
        ledger.open_account("p1", Decimal(10))
        store_of(ledger)._connection.execute("BEGIN IMMEDIATE")
        assert ledger.balance("p1") == 1_000
        store_of(ledger)._connection.execute("BEGIN IMMEDIATE")
        assert ledger.apply(withdraw("b1", "p1", 100)).balance_cents == 900
    assert sqlite3.connect(tmp_path / "wallet.db").execute("SELECT count(*) FROM game_operator_bets").fetchone() == (1,)
