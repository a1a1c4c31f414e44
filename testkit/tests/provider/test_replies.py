"""The reply to a webhook, as the service reads it (spec §2.1, §7.1)."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies

from game_operator import Cents, MalformedCallError, Reply
from game_operator.models.webhooks import error, success
from game_operator.protocol.webhook_reply import encode_batch_reply, encode_reply
from game_operator_testkit.provider.replies import read_batch_reply, read_reply
from tests.support.wire import JSON_VALUES, examples
from tests.test_money import hostile_context

VECTORS = Path(__file__).parents[3] / "tests" / "vectors" / "webhooks"


@pytest.mark.parametrize("file", sorted(VECTORS.glob("*.reply")), ids=lambda file: file.stem)
def test_the_pinned_replies(file: Path) -> None:
    """They are read as what they were written from (spec §2.1)."""
    assert encode_reply(read_reply(file.read_bytes()), now_millis=0) == file.read_bytes()


@given(
    cents=strategies.integers(-(2**63) + 1, 2**63 - 1),
    code=strategies.none() | strategies.from_regex("[A-Z0-9_]{1,64}", fullmatch=True),
    timestamp=strategies.integers(0, 253402300799999),
)
@examples(150)
def test_any_reply_reads_back(cents: int, code: str | None, timestamp: int) -> None:
    """Exactly, whatever its size and the decimal context (spec §2.1)."""
    reply = Reply(code=code, balance_cents=Cents(cents), timestamp=timestamp)
    with hostile_context():
        assert read_reply(encode_reply(reply, now_millis=0)) == reply


@pytest.mark.parametrize(
    ("body", "reply"),
    [
        pytest.param(b'{"type":"ERROR","code":"X"}', Reply(code="X"), id="no balance, no time"),
        pytest.param(rb'{"type":"ERROR","code":"\ud83d\ude00"}', Reply(code="\U0001f600"), id="a pair of surrogates"),
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
        pytest.param(b"[]", "must be a JSON object", id="an array"),
        pytest.param(b"{}", "type must be SUCCESS or ERROR, but it is missing", id="no type"),
        pytest.param(b'{"type":"ERROR"}', "must have a code", id="no code"),
        pytest.param(b'{"type":"ERROR","code":""}', "must have 1 to 256 characters, not 0", id="an empty code"),
        pytest.param(
            b'{"type":"ERROR","code":"%b"}' % (b"X" * 257), "must have 1 to 256 characters, not 257", id="a long code"
        ),
        pytest.param(
            rb'{"type":"ERROR","code":"\ud800","balance":1}',
            "must be UTF-8, without a lone surrogate",
            id="a surrogate",
        ),
        pytest.param(b'{"type":"SUCCESS","timestamp":5}', "currency units, but it is missing", id="no balance"),
        pytest.param(b'{"type":"SUCCESS","balance":true,"timestamp":5}', "a balance must be", id="a bool"),
        pytest.param(b'{"type":"SUCCESS","balance":1}', "a timestamp must be", id="no time"),
        pytest.param(b'{"type":"SUCCESS","balance":1,"timestamp":-1}', "timestamp", id="before 1970"),
        pytest.param(
            b'{"type":"SUCCESS","balance":99.99999999999999,"timestamp":5}', "finer than a cent", id="float noise"
        ),
        pytest.param(b'{"type":"SUCCESS","balance":1e30,"timestamp":5}', "balance_cents must be from", id="too large"),
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
        pytest.param(b'{"type":"ERROR","code":"SYSTEM_ERROR"}', "must be a JSON array", id="one reply"),
        pytest.param(b'[{"type":"ERROR","code":"X"}]', "its own tx_id", id="without a tx_id"),
        pytest.param(b'[{"tx_id":7,"type":"ERROR","code":"X"}]', "its own tx_id", id="a tx_id that is a number"),
        pytest.param(
            b'[{"tx_id":"t","type":"ERROR","code":"X"},{"tx_id":"t","type":"ERROR","code":"X"}]',
            "its own tx_id",
            id="a tx_id twice",
        ),
        pytest.param(b'[{"tx_id":"t","type":"SUCCESS","timestamp":7}]', "a balance must be", id="no balance"),
    ],
)
def test_batch_replies_that_are_none(body: bytes, told: str) -> None:
    """One item that cannot be read makes all of it unreadable: nobody could tell whose it is."""
    with pytest.raises(MalformedCallError, match=told):
        read_batch_reply(body)
