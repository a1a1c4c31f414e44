"""The reply to a webhook, byte for byte (spec §2.1, §7.1)."""

import json
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given, strategies

from game_operator import Cents, Profile, Reply
from game_operator.models.webhooks import error, success
from game_operator.protocol.webhook_reply import (
    encode_batch_reply,
    encode_reply,
    fold_code,
)
from game_operator.webhooks import WebhookErrorCode
from tests.support.webhooks import read_reply
from tests.support.wire import TEXT, examples
from tests.test_money import hostile_context

NOW_MILLIS = 1_800_000_000_000
VECTORS = Path(__file__).parents[1] / "vectors" / "webhooks"

REPLIES = {
    "success": success(balance_cents=10_050),
    "success-nothing": success(balance_cents=0),
    "success-large": success(balance_cents=123_456_789_012),
    "success-debt": success(balance_cents=-5),
    "error": error("SYSTEM_ERROR"),
    "error-with-balance": error("INSUFFICIENT_BALANCE", balance_cents=100),
}

CORE = Profile(codes="core")
EXTENDED = Profile()


@pytest.mark.parametrize("name", REPLIES)
def test_the_pinned_replies(name: str) -> None:
    """SUCCESS has balance and timestamp; ERROR a code, and the balance where it is known (spec §2.1, §7.1)."""
    body = (VECTORS / f"{name}.reply").read_bytes()
    assert encode_reply(REPLIES[name], now_millis=NOW_MILLIS) == body
    read = read_reply(body)
    assert (read.code, read.balance_cents, read.timestamp) == (
        REPLIES[name].code,
        REPLIES[name].balance_cents,
        NOW_MILLIS,
    )


def test_every_pinned_reply_is_tried() -> None:
    """No vector lies about untested."""
    assert {path.stem for path in VECTORS.glob("*.reply")} == set(REPLIES)


@given(
    cents=strategies.integers(-(2**63) + 1, 2**63 - 1),
    code=strategies.none() | strategies.from_regex("[A-Z0-9_]{1,64}", fullmatch=True),
    timestamp=strategies.integers(0, 253402300799999),
)
@examples(150)
def test_any_reply_is_exact(cents: int, code: str | None, timestamp: int) -> None:
    """Balances have two decimals and no exponent, in any decimal context; a time of its own stands (spec §2.1)."""
    reply = Reply(code=code, balance_cents=Cents(cents), timestamp=timestamp)
    with hostile_context():
        body = encode_reply(reply, now_millis=7)
        assert read_reply(body) == reply
    value = json.loads(body, parse_float=Decimal)
    assert value["balance"] * 100 == cents
    assert value["balance"].as_tuple().exponent == -2
    assert type(value["timestamp"]) is int
    assert b"e" not in body.split(b'"balance":')[1].split(b",")[0].lower()


@given(TEXT | strategies.just('"\\\ud800\n'))
@examples(80)
def test_any_code_is_written_as_json(code: str) -> None:
    """A Reply made by hand can hold any code: what goes out is JSON with that one member (spec §7.1)."""
    value = json.loads(encode_reply(Reply(code=code), now_millis=7))
    assert value == {"type": "ERROR", "code": code.encode(errors="replace").decode(), "timestamp": 7}


FOLDED = {
    "INSUFFICIENT_BALANCE": "INSUFFICIENT_BALANCE",
    "PLAYER_NOT_FOUND": "PLAYER_NOT_FOUND",
    "BET_NOT_FOUND": "BET_NOT_FOUND",
    "BET_ALREADY_CLOSED": "BET_ALREADY_CLOSED",
    "BET_ROLLED_BACK": "BET_ALREADY_CLOSED",
    "DUPLICATE_TRANSACTION": "INVALID_REQUEST",
    "PLAYER_BLOCKED": "INVALID_REQUEST",
    "LIMIT_EXCEEDED": "INVALID_REQUEST",
    "INVALID_REQUEST": "INVALID_REQUEST",
    "INVALID_SIGNATURE": "SYSTEM_ERROR",
    "SYSTEM_ERROR": "SYSTEM_ERROR",
}


@pytest.mark.parametrize("code", WebhookErrorCode, ids=str)
def test_folding(code: WebhookErrorCode) -> None:
    """With ``core`` a service hears of five codes and SYSTEM_ERROR; else of all (docs/decisions/0013)."""
    assert set(FOLDED) == set(WebhookErrorCode)
    for spelt in (code, str(code)):
        assert fold_code(spelt, CORE) == FOLDED[code]
        assert type(fold_code(spelt, CORE)) is str
        assert fold_code(spelt, EXTENDED) == code


@pytest.mark.parametrize("code", ["MY_OWN_CODE", "", "système"])
def test_folding_of_own_codes(code: str) -> None:
    """An operator's own code refuses withdraws for good, and so does what it becomes (docs/decisions/0013)."""
    assert fold_code(code, CORE) == "INVALID_REQUEST"
    assert fold_code(code, EXTENDED) == code


def test_batch_replies() -> None:
    """In order, each a reply of its own under its tx_id, null where that is unknown (docs/decisions/0010)."""
    items = [("t1", success(balance_cents=100)), (None, error("INVALID_REQUEST")), ('"é', success(balance_cents=-1))]
    body = encode_batch_reply(items, now_millis=7)
    assert (
        body
        == (
            '[{"tx_id":"t1","type":"SUCCESS","balance":1.00,"timestamp":7},'
            '{"tx_id":null,"type":"ERROR","code":"INVALID_REQUEST","timestamp":7},'
            '{"tx_id":"\\"é","type":"SUCCESS","balance":-0.01,"timestamp":7}]'
        ).encode()
    )
    assert encode_batch_reply([], now_millis=7) == b"[]"
