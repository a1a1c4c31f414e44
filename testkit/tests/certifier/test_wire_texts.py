"""What the text of an exception is, and what is a sentence for people; and floats beside fractions of a cent."""

import json

import pytest

from game_operator.protocol.http import HttpReply
from game_operator_testkit.certifier.engine.wire import exception_in, why_no_reply
from game_operator_testkit.certifier.report.verdicts import KnownCause
from game_operator_testkit.provider.delivery import Carried, reply_in
from game_operator_testkit.provider.requests import Request


def heard(body: bytes, *, status: int = 200, request: bytes = b"{}") -> Carried:
    answer = HttpReply(status, {}, body)
    return Carried(Request("a call", "/withdraw", request), (), answer, reply_in(answer)[1], 0.001, 1)


def refused(message: str) -> bytes:
    return json.dumps({"type": "ERROR", "code": "SYSTEM_ERROR", "message": message}).encode()


@pytest.mark.parametrize(
    "message",
    [
        "TypeError: Cannot read properties of undefined (reading 'cents')",
        "Expected ',' or '}' after property value in JSON at position 40",
        "SqliteError: UNIQUE constraint failed: bets.bet_id",
        'duplicate key value violates unique constraint "bets_pkey"',
        "Traceback (most recent call last):",
        "KeyError: 'amount' at /srv/wallet/app.py:41",
        "at handle (file:///srv/wallet/wallet.mjs:120:14)",
        "java.lang.NullPointerException",
        "runtime error: invalid memory address or nil pointer dereference",
        "connect ECONNREFUSED 127.0.0.1:5432",
        "Cannot convert 5.5 to a BigInt",
    ],
)
def test_the_text_of_an_exception_is_found(message: str) -> None:
    """Whatever the language or the database is; and what is shown of it begins where it does."""
    assert exception_in(heard(refused(message))).startswith(message[:10])


@pytest.mark.parametrize(
    "message",
    [
        "Insufficient funds",
        "Error: the amount must be a whole number of cents",
        "unexpected amount",
        "the bet is closed; no refund at this point",
        "see https://wallet.example/docs/errors.html#limit",
    ],
)
def test_a_sentence_for_people_is_none(message: str) -> None:
    """A wallet may say more than the code."""
    assert exception_in(heard(refused(message))) == ""


def test_what_the_call_said_itself_is_none() -> None:
    """A wallet that repeats an id in its answer says nothing of its own."""
    assert exception_in(heard(refused("no bet SQLITE_BUSY"), request=b'{"action_id":"SQLITE_BUSY"}')) == ""


@pytest.mark.parametrize(
    ("balance", "cause"),
    [
        pytest.param("0.30000000000000004", KnownCause.FLOAT, id="a sum of floats"),
        pytest.param("994.9999999999999", KnownCause.FLOAT, id="below its cent"),
        pytest.param("5.555", KnownCause.FRACTIONS, id="half a cent"),
    ],
)
def test_a_balance_finer_than_a_cent(balance: str, cause: KnownCause) -> None:
    """A float lies beside its cent; what is kept of a fraction does not."""
    body = b'{"type":"SUCCESS","balance":%b,"timestamp":1}' % balance.encode()
    assert why_no_reply(heard(body))[0] is cause


@pytest.mark.parametrize(
    ("body", "cause"),
    [
        pytest.param(b'{"type":"SUCCESS","tx_id":"caf\xc3\xa9"', KnownCause.CUT_SHORT, id="without its end"),
        pytest.param(b'{"type":"SUCCESS",}', KnownCause.NO_REPLY, id="with an end, and no JSON"),
        pytest.param(b"<html>", KnownCause.NO_REPLY, id="another thing"),
    ],
)
def test_an_answer_that_ends_early(body: bytes, cause: KnownCause) -> None:
    """As where Content-Length counts characters."""
    assert why_no_reply(heard(body))[0] is cause
