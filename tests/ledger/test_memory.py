"""What a MemoryLedger does beside the contract: clocks, threads, callbacks, anomalies, and outcomes as replies."""

from decimal import Decimal

import pytest

from game_operator.errors import LedgerError
from game_operator.ledger import MemoryLedger
from game_operator.models.webhooks import BalanceCall, MovingCall
from tests.support.calls import ask_balance, deposit, withdraw
from tests.support.ledgers import store_of


@pytest.mark.parametrize(
    ("call", "new_balance_cents", "problem"),
    [
        pytest.param(withdraw("b2", amount_cents=1_000), 0, "", id="all that there was"),
        pytest.param(deposit("b1", amount_cents=0), 1_000, "", id="a loss closes a bet"),
        pytest.param(withdraw("b2", amount_cents=1_001), None, "was refused with INSUFFICIENT_BALANCE", id="refused"),
        pytest.param(withdraw("b2", player_id="p9"), None, "was refused with PLAYER_NOT_FOUND", id="nobody"),
        pytest.param(withdraw("b1"), None, "is a repeat", id="repeated"),
        pytest.param(ask_balance("p1"), None, "moved nothing", id="only asked"),
    ],
)
def test_a_new_balance_is_a_number_or_an_error(
    call: MovingCall | BalanceCall, new_balance_cents: int | None, problem: str
) -> None:
    """Whoever reads it after a call that moved nothing has forgotten a case (docs/decisions/0014)."""
    with MemoryLedger({"p1": 1_500}) as ledger:
        ledger.apply(withdraw("b1"))
        outcome = ledger.apply(call)
        assert outcome.balance_amount == outcome.reply().balance
        if new_balance_cents is not None:
            assert outcome.new_balance_cents == outcome.balance_cents == new_balance_cents
            return
        with pytest.raises(LedgerError, match=f"The call {problem}, so there is no new balance. Ask outcome.applied"):
            _ = outcome.new_balance_cents
        assert (outcome.balance_amount is None) == (call.player_id == "p9")


def test_an_adjustment_below_zero_of_a_negative_balance() -> None:
    """Only what takes money is refused below zero: paying in is not. An adjustment of nothing is recorded."""
    ledger = MemoryLedger({"p1": 0})
    store_of(ledger)._connection.execute("UPDATE game_operator_accounts SET balance_cents = -500")
    assert ledger.adjust("p1", Decimal("1.00"), reference="a") == -400
    with pytest.raises(LedgerError, match="below zero"):
        ledger.adjust("p1", Decimal("-0.01"), reference="b")
    assert ledger.adjust("p1", Decimal(0), reference="c") == -400
    with pytest.raises(LedgerError, match="belongs to"):
        ledger.adjust("p1", Decimal("0.01"), reference="c")
