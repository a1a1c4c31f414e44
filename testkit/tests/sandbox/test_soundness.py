"""Answers that no correct wallet gives, as far as the answers alone show it (docs/decisions/0012, 0013, 0014)."""

import pytest

from game_operator.models.webhooks import DepositCall, MovingCall, Reply, WithdrawCall
from game_operator.money import Cents
from game_operator_testkit.provider.delivery import Answer
from game_operator_testkit.sandbox.dealing.accepted_mistakes import check_funds
from game_operator_testkit.sandbox.dealing.dealt import DealtBet, PendingCall
from testkit.tests.sandbox.dealing import bet


def step_of(call: MovingCall) -> PendingCall:
    """Return *call* as a step of a bet."""
    return PendingCall(DealtBet(planned=bet()), call, "1")


WITHDRAW = WithdrawCall(player_id="p1", bet_id="b1", amount_cents=500)
DEPOSIT = DepositCall(player_id="p1", bet_id="b1", amount_cents=500)


def answer_of(code: str | None, balance_cents: int | None) -> Answer:
    """Return an answer that was heard."""
    return Answer(Reply(code=code, balance_cents=None if balance_cents is None else Cents(balance_cents)), 200)


@pytest.mark.parametrize(
    ("call", "code", "balance_cents", "blamed"),
    [
        pytest.param(WITHDRAW, None, -1, True, id="below zero"),
        pytest.param(WITHDRAW, None, 0, False, id="nothing left"),
        pytest.param(WITHDRAW, "PLAYER_BLOCKED", -1, False, id="refused below zero"),
        pytest.param(DEPOSIT, None, -1, False, id="a credit below zero"),
    ],
)
def test_overdrawn(call: MovingCall, code: str | None, balance_cents: int, blamed: bool) -> None:
    """A withdraw, accepted, at one cent below zero; at zero it is fine."""
    step = step_of(call)
    check_funds(step, answer_of(code, balance_cents), alone=False)
    assert bool(step.dealt.problems) is blamed


@pytest.mark.parametrize(
    ("call", "code", "balance_cents", "blamed"),
    [
        pytest.param(WITHDRAW, "INSUFFICIENT_BALANCE", 500, True, id="just enough"),
        pytest.param(WITHDRAW, "INSUFFICIENT_BALANCE", 499, False, id="a cent too little"),
        pytest.param(WITHDRAW, "LIMIT_EXCEEDED", 500, False, id="refused for another reason"),
        pytest.param(DEPOSIT, "INSUFFICIENT_BALANCE", 500, False, id="no withdraw"),
    ],
)
def test_covered(call: MovingCall, code: str, balance_cents: int, blamed: bool) -> None:
    """A wager of 5.00, refused for want of money with 5.00 there; with 4.99 it is fine."""
    step = step_of(call)
    check_funds(step, answer_of(code, balance_cents), alone=False)
    assert not step.dealt.problems, "the balance may be another moment's"
    check_funds(step, answer_of(code, balance_cents), alone=True)
    assert bool(step.dealt.problems) is blamed
