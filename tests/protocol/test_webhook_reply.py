"""The reply to a webhook, written and read, byte for byte (spec §2.1, §7.1)."""

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies

from game_operator import Cents, MalformedCallError, Profile, Reply
from game_operator.models.webhooks import error, success
from game_operator.protocol.webhook_reply import (
    encode_batch_reply,
    encode_reply,
    fold_code,
    read_batch_reply,
    read_reply,
)
from game_operator.webhooks import WebhookErrorCode
from tests.support.wire import JSON_VALUES, TEXT, examples
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
    """type, balance, timestamp and code are exactly these bytes, and read back as the same (spec §2.1)."""
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


def test_success_has_three_fields_and_error_its_code() -> None:
    """SUCCESS has balance and timestamp; ERROR a code, and the balance where it is known (spec §2.1, §7.1)."""
    assert json.loads(encode_reply(success(balance_cents=1), now_millis=7)) == {
        "type": "SUCCESS",
        "balance": 0.01,
        "timestamp": 7,
    }
    assert json.loads(encode_reply(error("X"), now_millis=7)) == {"type": "ERROR", "code": "X", "timestamp": 7}
    assert json.loads(encode_reply(error("X", balance_cents=1), now_millis=7))["balance"] == 0.01


def test_a_reply_s_own_time_stands() -> None:
    """The time at which the balance was read is not replaced by that of the answer (docs/decisions/0012)."""
    for reply in (success(balance_cents=1, timestamp=5), error("X", timestamp=5)):
        assert json.loads(encode_reply(reply, now_millis=7))["timestamp"] == 5
    assert json.loads(encode_reply(success(balance_cents=1, timestamp=0), now_millis=7))["timestamp"] == 0


@given(
    cents=strategies.integers(-(2**63) + 1, 2**63 - 1),
    code=strategies.none() | strategies.from_regex("[A-Z0-9_]{1,64}", fullmatch=True),
    timestamp=strategies.integers(0, 253402300799999),
)
@examples(150)
def test_any_reply_is_exact_and_reads_back(cents: int, code: str | None, timestamp: int) -> None:
    """Balances have two decimals and no exponent, whatever their size and the decimal context (spec §2.1)."""
    reply = Reply(code=code, balance_cents=Cents(cents), timestamp=timestamp)
    with hostile_context():
        body = encode_reply(reply, now_millis=0)
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


@pytest.mark.parametrize(
    ("body", "reply"),
    [
        pytest.param(b'{"type":"ERROR","code":"X"}', Reply(code="X"), id="no balance, no time"),
        pytest.param(b'{"type":"ERROR","code":"%b"}' % (b"X" * 256), Reply(code="X" * 256), id="the longest code"),
        pytest.param(rb'{"type":"ERROR","code":"\ud83d\ude00"}', Reply(code="\U0001f600"), id="a pair of surrogates"),
        pytest.param(b'{"type":"ERROR","code":"x y","balance":null,"timestamp":null}', Reply(code="x y"), id="nulls"),
        pytest.param(
            b'{"type":"ERROR","code":"INSUFFICIENT_BALANCE"}', Reply(code="INSUFFICIENT_BALANCE"), id="no funds told"
        ),
        pytest.param(
            b'{"type":"SUCCESS","balance":100,"timestamp":5,"code":"X","extra":[1.5]}',
            Reply(balance_cents=Cents(10_000), timestamp=5),
            id="a whole balance, and members that are not of the specification",
        ),
        pytest.param(
            b'{"type":"SUCCESS","balance":1.2345E2,"timestamp":5}',
            Reply(balance_cents=Cents(12_345), timestamp=5),
            id="an exponent, as some writers of floats have it",
        ),
        pytest.param(
            b'{"type":"SUCCESS","balance":12.500,"timestamp":5.0}',
            Reply(balance_cents=Cents(1250), timestamp=5),
            id="zeros behind",
        ),
        pytest.param(
            b'{"type":"SUCCESS","balance":-0.05,"timestamp":0}', Reply(balance_cents=Cents(-5), timestamp=0), id="debt"
        ),
    ],
)
def test_replies_of_others(body: bytes, reply: Reply) -> None:
    """Whatever spec §2.1 allows is read, from whichever program (spec §2.1)."""
    assert read_reply(body) == reply


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        pytest.param(b"", "is not JSON", id="nothing"),
        pytest.param(b"[]", "must be a JSON object", id="an array"),
        pytest.param(b"null", "must be a JSON object", id="null"),
        pytest.param(b"{}", "type must be SUCCESS or ERROR, but it is missing", id="no type"),
        pytest.param(b'{"type":"success"}', "type must be SUCCESS or ERROR", id="another type"),
        pytest.param(b'{"type":["SUCCESS"]}', "type must be SUCCESS or ERROR", id="a type that is no text"),
        pytest.param(b'{"type":"ERROR"}', "must have a code", id="no code"),
        pytest.param(b'{"type":"ERROR","code":5}', "must have a code", id="a code that is no text"),
        pytest.param(b'{"type":"ERROR","code":""}', "must have 1 to 256 characters, not 0", id="an empty code"),
        pytest.param(
            b'{"type":"ERROR","code":"%b"}' % (b"X" * 257), "must have 1 to 256 characters, not 257", id="a long code"
        ),
        pytest.param(
            rb'{"type":"ERROR","code":"\ud800","balance":1}',
            "must be UTF-8, without a lone surrogate",
            id="a surrogate",
        ),
        pytest.param(b'{"type":"ERROR","code":"X","balance":"1"}', "a balance must be a number", id="a text balance"),
        pytest.param(b'{"type":"ERROR","code":"X","timestamp":"1"}', "a timestamp must be", id="a text time"),
        pytest.param(b'{"type":"SUCCESS","timestamp":5}', "currency units, but it is missing", id="no balance"),
        pytest.param(b'{"type":"SUCCESS","balance":null,"timestamp":5}', "a balance must be", id="a null balance"),
        pytest.param(b'{"type":"SUCCESS","balance":true,"timestamp":5}', "a balance must be", id="a bool"),
        pytest.param(b'{"type":"SUCCESS","balance":1}', "a timestamp must be", id="no time"),
        pytest.param(b'{"type":"SUCCESS","balance":1,"timestamp":null}', "a timestamp must be", id="a null time"),
        pytest.param(b'{"type":"SUCCESS","balance":1,"timestamp":5.5}', "a timestamp must be", id="half a millisecond"),
        pytest.param(b'{"type":"SUCCESS","balance":1,"timestamp":1e3}', "a timestamp must be", id="an exponent"),
        pytest.param(b'{"type":"SUCCESS","balance":1,"timestamp":true}', "a timestamp must be", id="a bool time"),
        pytest.param(b'{"type":"SUCCESS","balance":1,"timestamp":-1}', "timestamp", id="before 1970"),
        pytest.param(
            b'{"type":"SUCCESS","balance":99.99999999999999,"timestamp":5}', "finer than a cent", id="float noise"
        ),
        pytest.param(b'{"type":"SUCCESS","balance":1e30,"timestamp":5}', "balance_cents must be from", id="too large"),
        pytest.param(b'{"type":"SUCCESS","balance":1e99,"timestamp":5}', "cannot be read", id="far too large"),
        pytest.param(b'{"type":"SUCCESS","balance":NaN,"timestamp":5}', "NaN is not JSON", id="NaN"),
        pytest.param(b'{"type":"ERROR","type":"SUCCESS","code":"X"}', "stands twice", id="two types"),
    ],
)
def test_what_is_no_reply(body: bytes, problem: str) -> None:
    """What spec §2.1 requires has to be there, of its type, and exact (spec §2.1)."""
    with pytest.raises(MalformedCallError, match=problem):
        read_reply(body)


@given(strategies.fixed_dictionaries({}, optional=dict.fromkeys(("type", "balance", "timestamp", "code"), JSON_VALUES)))
@examples(150)
def test_any_json_is_read_or_refused(value: dict[str, Any]) -> None:
    """Nothing but MalformedCallError comes out, and what is read can be written (spec §2.1)."""
    for kind in ("SUCCESS", "ERROR", value.get("type")):
        try:
            reply = read_reply(json.dumps(value | {"type": kind}).encode())
        except MalformedCallError:
            continue
        assert read_reply(encode_reply(reply, now_millis=0)).balance_cents == reply.balance_cents


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


def test_folding_never_promises_more() -> None:
    """No code that asks for the call again becomes a final one, nor the other way round (docs/decisions/0013)."""
    again = {"INVALID_SIGNATURE", "SYSTEM_ERROR"}
    assert {code for code, folded in FOLDED.items() if folded in again} == again


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


def test_batch_replies_are_read_as_they_are_written() -> None:
    """By tx_id, each the reply that it would be alone (docs/decisions/0010)."""
    written = {"t1": success(balance_cents=100, timestamp=7), '"é': error("INVALID_REQUEST", timestamp=8)}
    body = encode_batch_reply([*written.items()], now_millis=9)
    assert read_batch_reply(body) == written
    assert read_batch_reply(b"[]") == {}
    assert read_batch_reply(b'[{"tx_id":"t","type":"ERROR","code":"X","more":1}]') == {"t": error("X")}


@pytest.mark.parametrize(
    ("body", "told"),
    [
        pytest.param(b"", "not JSON", id="nothing"),
        pytest.param(b'{"type":"ERROR","code":"SYSTEM_ERROR"}', "must be a JSON array", id="one reply"),
        pytest.param(b"null", "must be a JSON array", id="null"),
        pytest.param(b"[7]", "must be a JSON object", id="no object"),
        pytest.param(b'[{"type":"ERROR","code":"X"}]', "its own tx_id", id="without a tx_id"),
        pytest.param(b'[{"tx_id":null,"type":"ERROR","code":"X"}]', "its own tx_id", id="a tx_id of null"),
        pytest.param(b'[{"tx_id":7,"type":"ERROR","code":"X"}]', "its own tx_id", id="a tx_id that is a number"),
        pytest.param(
            b'[{"tx_id":"t","type":"ERROR","code":"X"},{"tx_id":"t","type":"ERROR","code":"X"}]',
            "its own tx_id",
            id="a tx_id twice",
        ),
        pytest.param(b'[{"tx_id":"t","type":"SUCCESS","timestamp":7}]', "a balance must be", id="no balance"),
        pytest.param(b'[{"tx_id":"t","type":"ERROR"}]', "must have a code", id="no code"),
    ],
)
def test_batch_replies_that_are_none(body: bytes, told: str) -> None:
    """One item that cannot be read makes all of it unreadable: nobody could tell whose it is."""
    with pytest.raises(MalformedCallError, match=told):
        read_batch_reply(body)
