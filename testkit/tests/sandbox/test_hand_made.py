"""Webhooks that a person made: what the log keeps of them, and what becomes of the balances."""

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey

from game_operator.protocol.http import HttpReply
from game_operator.protocol.webhook import encode_call
from game_operator_testkit.provider.delivery import Carried
from game_operator_testkit.provider.keys import ServiceKeys
from game_operator_testkit.provider.requests import AS_THE_SERVICE, BetCalls, Request, Seal
from game_operator_testkit.sandbox import Sandbox
from game_operator_testkit.sandbox.service.exchange_log import Exchange
from game_operator_testkit.sandbox.service.hand_made import saw_by_hand, signature_of

WITHDRAW = b'{"player_id":"ann","amount":400,"action":"BET","action_id":"bet-1","tx_id":"t-1"}'
DEPOSIT = BetCalls(player_id="ann", bet_id="bet-1", wager_cents=1, round_id="r").deposit(2)
DEPOSITS = b"[" + encode_call(DEPOSIT) + b"]"
BALANCE = b'{"player_id":"ann"}'
ERROR = b'{"type":"ERROR","code":"%s","balance":10.00,"timestamp":1}'


def success(balance: bytes) -> bytes:
    return b'{"type":"SUCCESS","balance":%s,"timestamp":1}' % balance


@pytest.fixture
def sandbox(public_key: RSAPublicKey) -> Sandbox:
    """A sandbox that knows the balances of two players: 10.00 each."""
    sandbox = Sandbox(operator_public_key=public_key)
    for player_id in ("ann", "bob"):
        sandbox.service.balances.reported(player_id, 1_000)
    return sandbox


def sent(sandbox: Sandbox, path: str, body: bytes, answer: bytes | None) -> Exchange:
    response = None if answer is None else HttpReply(200, {}, answer)
    carried = Carried(Request("", path, body), (), response, "" if answer else "no answer within 10 s", 0.01, 1)
    return saw_by_hand(sandbox.service, carried, signature="valid", note="written by hand")


def expected(sandbox: Sandbox) -> dict[str, int | None]:
    return {each.player_id: each.expected_cents for each in sandbox.service.balances.players()}


@pytest.mark.parametrize(
    ("path", "body", "answer", "left"),
    [
        pytest.param("/withdraw", WITHDRAW, success(b"6.00"), {"ann": 600, "bob": 1_000}, id="the new balance counts"),
        pytest.param("/withdraw", WITHDRAW, None, {"ann": None, "bob": 1_000}, id="without an answer it is unknown"),
        pytest.param("/withdraw", WITHDRAW, ERROR % b"SYSTEM_ERROR", {"ann": 1_000, "bob": 1_000}, id="it failed"),
        pytest.param("/withdraw", WITHDRAW, b"<html>", {"ann": None, "bob": 1_000}, id="an answer without meaning"),
        pytest.param("/withdraw", WITHDRAW, ERROR % b"LIMIT_EXCEEDED", {"ann": 1_000, "bob": 1_000}, id="refused"),
        pytest.param("/player-balance", BALANCE, success(b"10.00"), {"ann": 1_000, "bob": 1_000}, id="only asked"),
        pytest.param("/withdraw", b"{}", success(b"6.00"), {"ann": None, "bob": None}, id="whose money, nobody knows"),
        pytest.param("/else", WITHDRAW, success(b"6.00"), {"ann": None, "bob": None}, id="another path"),
        pytest.param("/withdraw", b"{}", ERROR % b"INVALID_REQUEST", {"ann": 1_000, "bob": 1_000}, id="not understood"),
        pytest.param("/deposit-batch", DEPOSITS, b"[]", {"ann": None, "bob": 1_000}, id="a batch"),
    ],
)
def test_balances_after_a_call_by_hand(
    sandbox: Sandbox, path: str, body: bytes, answer: bytes | None, left: dict[str, int | None]
) -> None:
    """What may have moved money makes the balance of its player unknown; nothing is called wrong for it."""
    sent(sandbox, path, body, answer)
    assert expected(sandbox) == left
    assert not sandbox.service.balances.disagrees()


def test_a_balance_that_was_only_asked_for_is_judged(sandbox: Sandbox) -> None:
    """Nothing moved, so another balance is wrong, and the log's number leads to it."""
    exchange = sent(sandbox, "/player-balance", BALANCE, success(b"9.00"))
    wrong = sandbox.service.balances.wrong()
    assert list(wrong) == [exchange.number]
    assert (wrong[exchange.number].reported_cents, wrong[exchange.number].expected_cents) == (900, 1_000)
    sandbox.service.balances.accept("ann")
    assert sandbox.service.balances.wrong() == {}


def test_a_repeat_by_hand_moves_nothing(sandbox: Sandbox) -> None:
    """The wallet may answer it as the first time, and any other balance is wrong."""
    sent(sandbox, "/withdraw", WITHDRAW, success(b"6.00"))
    sent(sandbox, "/withdraw", WITHDRAW, success(b"6.00"))
    assert not sandbox.service.balances.disagrees()
    sent(sandbox, "/withdraw", WITHDRAW, success(b"2.00"))
    assert sandbox.service.balances.disagrees()


def test_the_log_says_what_it_was(sandbox: Sandbox) -> None:
    """Player, bet and amount as far as the body can be read, and that a person made it."""
    exchange = sent(sandbox, "/withdraw", WITHDRAW, None)
    assert (exchange.player_id, exchange.bet_id, exchange.tx_id, exchange.amount_cents) == ("ann", "bet-1", "t-1", 400)
    assert (exchange.note, exchange.operation) == ("written by hand; no answer within 10 s", "withdraw")
    unread = sent(sandbox, "/withdraw", b'{"player_id":"ann"}', None)
    assert (unread.player_id, unread.amount_cents) == ("", None)


@pytest.mark.parametrize(
    ("seal", "verdict"),
    [
        (AS_THE_SERVICE, "valid"), (Seal(key="old"), "old key"), (Seal(key="stranger"), "forged"),
        (Seal(key=None), "not signed"), (Seal(literal="abc"), "typed, invalid"),
    ],
)  # fmt: skip
def test_the_verdict_on_a_signature(private_key: RSAPrivateKey, seal: Seal, verdict: str) -> None:
    """It says whose key signed."""
    request = Request("", "/withdraw", WITHDRAW, seal)
    assert signature_of(request, ServiceKeys(private_key)) == verdict


def test_a_right_signature_that_was_typed(private_key: RSAPrivateKey) -> None:
    """It is as right as any."""
    keys = ServiceKeys(private_key)
    right = keys.signature(Request("", "/withdraw", WITHDRAW)).decode()
    assert signature_of(Request("", "/withdraw", WITHDRAW, Seal(literal=right)), keys) == "valid"
    assert signature_of(Request("", "/withdraw", BALANCE, Seal(literal=right)), keys) == "typed, invalid"
