"""What is posted, and what is made of the answer: bytes, paths, and which answers are definite."""

import json
from collections.abc import Mapping

import pytest

from game_operator.models.webhooks import MovingCall
from game_operator.protocol.http import HttpReply
from game_operator.protocol.webhook import encode_call
from game_operator_testkit.provider.delivery import Post, answer_in
from game_operator_testkit.provider.faults import Fault
from tests.support.calls import claim, deposit, rollback, withdraw

CALLS: Mapping[str, MovingCall] = {
    "withdraw": withdraw(),
    "rollback": rollback(),
    "deposit": deposit(),
    "loss": deposit(amount_cents=0),
    "claim": claim(),
    "jackpot": claim(action="JACKPOT"),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_post_of_one_call(call: MovingCall) -> None:
    """It goes to the call's own path, and its bytes are the encoder's (spec §4.1)."""
    post = Post(call)
    assert post.path == f"/{call.operation}"
    assert post.signed == post.body == encode_call(call)


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_body_that_a_proxy_wrote_anew(call: MovingCall) -> None:
    """It says the same in other bytes, under the signature of the first ones."""
    post = Post(call, extra=Fault.RESERIALISED)
    sent = post.body
    assert post.signed == encode_call(call)
    assert sent != post.signed
    assert json.loads(sent) == json.loads(post.signed)


@pytest.mark.parametrize("extra", [None, *(fault for fault in Fault if fault is not Fault.RESERIALISED)], ids=str)
def test_no_other_fault_changes_a_byte(extra: Fault | None) -> None:
    """A duplicate is the same call, and a forger copies it."""
    post = Post(withdraw(), extra=extra)
    assert post.body == post.signed == encode_call(withdraw())


@pytest.mark.parametrize(
    ("status", "body", "told"),
    [
        pytest.param(200, b'{"type":"SUCCESS","balance":1.00,"timestamp":7}', "SUCCESS, balance 1.00", id="a success"),
        pytest.param(
            500, b'{"type":"SUCCESS","balance":1.00,"timestamp":7}', "SUCCESS, balance 1.00", id="under a 500"
        ),
        pytest.param(401, b'{"type":"ERROR","code":"INVALID_SIGNATURE"}', "INVALID_SIGNATURE", id="a refusal"),
        pytest.param(502, b"<html>Bad gateway</html>", "HTTP 502, and no reply", id="HTML"),
        pytest.param(200, b'[{"tx_id":"a","type":"ERROR","code":"X"}]', "and no reply", id="the answer to a batch"),
    ],
)
def test_what_is_heard(status: int, body: bytes, told: str) -> None:
    """The body counts, whatever the status; what is no reply of spec §2.1 is not heard, and says why."""
    answer = answer_in(Post(withdraw()), HttpReply(status, {}, body))
    assert told in str(answer)
    assert answer.status == status
    assert (answer.reply is None) is ("no reply" in told)
    assert len(str(answer)) < 400


def test_what_was_not_read_whole_is_not_heard() -> None:
    """Nothing in it counts, and the call is told why (spec §2.1)."""
    post, body = Post(withdraw()), b'{"type":"SUCCESS","balance":1.00,"timestamp":7}'
    assert answer_in(post, HttpReply(200, {}, body)).succeeded
    answer = answer_in(post, HttpReply(200, {}, body, "the body is too long"))
    assert (str(answer), answer.reply) == ("HTTP 200, and no reply: the body is too long", None)
    assert answer.status == 200
    assert not answer.settles(post.call)
