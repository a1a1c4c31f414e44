"""Answers that no correct wallet gives, as far as the answers alone show it (docs/decisions/0012, 0013, 0014)."""

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

from game_operator.models.webhooks import DepositCall, MovingCall, Reply, WithdrawCall
from game_operator.money import Cents
from game_operator.webhooks import RsaSignature, WebhookReceiver, asgi_app
from game_operator_testkit.provider.delivery import Answer
from game_operator_testkit.provider.keys import ServiceKeys
from game_operator_testkit.sandbox.dealing.accepted_mistakes import check_funds
from game_operator_testkit.sandbox.dealing.dealt import DealtBet, PendingCall
from game_operator_testkit.sandbox.storm.players import PlayersBooks
from game_operator_testkit.sandbox.storm.report import StormReport
from game_operator_testkit.sandbox.storm.storm import Storm
from testkit.tests.sandbox.dealing import bet
from testkit.tests.sandbox.storming import head_of
from testkit.tests.sandbox.wrong_wallets import ChecksNoFunds, ForgetsUnderLoad, RefusesWithMoney
from tests.support.servers import asgi_server


def stormed(wallet: type[ForgetsUnderLoad], key: RSAPrivateKey) -> StormReport:
    """Return what comes of a storm over HTTP on ten players, one of them poor; books have balances alone."""
    head = head_of(bets=160, players=10, faults="reply-lost=0.1,duplicate=0.1,forged=0.1")
    receiver = WebhookReceiver(authenticator=RsaSignature(key.public_key()))
    with asgi_server(asgi_app(receiver, wallet(head.opening, guarded=True))) as port:
        url = f"http://127.0.0.1:{port}"
        return Storm(url, ServiceKeys(key), PlayersBooks(url, key), head, concurrency=8).run()


@pytest.mark.outside
def test_a_bet_without_money(private_key: RSAPrivateKey) -> None:
    """A06: a withdraw that is accepted leaves nobody below zero."""
    report = stormed(ChecksNoFunds, private_key)
    assert not report.passed
    assert all("below zero" in one.wallet for one in report.differences)


@pytest.mark.outside
def test_a_bet_refused_with_money(private_key: RSAPrivateKey) -> None:
    """INSUFFICIENT_BALANCE comes with a balance that covers the wager."""
    report = stormed(RefusesWithMoney, private_key)
    assert not report.passed
    assert all(
        "refused with INSUFFICIENT_BALANCE, and the balance reported is" in one.wallet for one in report.differences
    )


@pytest.mark.outside
def test_a_right_wallet_refuses_the_poor(private_key: RSAPrivateKey) -> None:
    """Their twin refuses some as well, and is not blamed, whatever overlaps."""
    report = stormed(ForgetsUnderLoad, private_key)
    assert (report.passed, report.differences) == (True, ())
    assert report.refusals["INSUFFICIENT_BALANCE"] > 0


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
