"""Answers that no correct wallet gives, as far as the answers alone show it (docs/decisions/0012, 0013, 0014)."""

import pytest

from game_operator.models.webhooks import DepositCall, MovingCall, Reply, WithdrawCall
from game_operator.money import Cents
from game_operator_testkit.provider.delivery import Answer
from game_operator_testkit.sandbox.dealing.accepted_mistakes import check_funds
from game_operator_testkit.sandbox.dealing.dealt import DealtBet, PendingCall
from testkit.tests.sandbox.dealing import bet

WITHDRAW = WithdrawCall(player_id="p1", bet_id="b1", amount_cents=500)
DEPOSIT = DepositCall(player_id="p1", bet_id="b1", amount_cents=500)


@pytest.mark.parametrize(
    ("call", "code", "balance_cents", "blamed", "blamed_alone"),
    [
        pytest.param(WITHDRAW, None, -1, True, True, id="below zero"),
        pytest.param(WITHDRAW, None, 0, False, False, id="nothing left"),
        pytest.param(WITHDRAW, "PLAYER_BLOCKED", -1, False, False, id="refused below zero"),
        pytest.param(DEPOSIT, None, -1, False, False, id="a credit below zero"),
        pytest.param(WITHDRAW, "INSUFFICIENT_BALANCE", 500, False, True, id="just enough"),
        pytest.param(WITHDRAW, "INSUFFICIENT_BALANCE", 499, False, False, id="a cent too little"),
        pytest.param(WITHDRAW, "LIMIT_EXCEEDED", 500, False, False, id="refused for another reason"),
        pytest.param(DEPOSIT, "INSUFFICIENT_BALANCE", 500, False, False, id="no withdraw"),
    ],
)
def test_funds(call: MovingCall, code: str | None, balance_cents: int, blamed: bool, blamed_alone: bool) -> None:
    """Overdrawn, or refused with the wager there: but for a call alone, the balance may be another moment's."""
    for alone, expected in ((False, blamed), (True, blamed_alone)):
        step = PendingCall(DealtBet(planned=bet()), call, "1")
        check_funds(step, Answer(Reply(code=code, balance_cents=Cents(balance_cents)), 200), alone=alone)
        assert bool(step.dealt.problems) is expected
