"""The one JSON encoder writes what JSON.stringify writes (spec §5; docs/decisions/0002)."""

import json
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given, strategies

from game_operator.codes import GrantErrorCode
from game_operator.protocol.exact_json import encode_json
from tests.support.wire import TEXT, examples

PAIRS = json.loads((Path(__file__).parents[1] / "vectors" / "json-stringify.json").read_text())

EXACT_VALUES = strategies.recursive(
    strategies.none() | strategies.booleans() | strategies.integers() | TEXT,
    lambda inner: strategies.lists(inner, max_size=4) | strategies.dictionaries(TEXT, inner, max_size=4),
    max_leaves=10,
)


class _Loud(str):
    __slots__ = ()

    def __str__(self) -> str:
        return "something else"


class _Shape(str, Enum):  # noqa: UP042  # a StrEnum is another case, below
    ROUND = "round/1"


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair["text"][:30])
def test_it_is_what_json_stringify_writes(pair: dict[str, Any]) -> None:
    """Byte for byte, so that a service that parses and writes again verifies the same signature (spec §5)."""
    assert encode_json(pair["value"]) == pair["text"].encode()


@given(EXACT_VALUES)
@examples(150)
def test_it_is_compact_json_of_the_same_value(value: Any) -> None:
    """What is written reads back as it was, without a space or an escape too many (spec §5)."""
    written = encode_json(value)
    assert json.loads(written) == value
    assert written == json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


@given(strategies.decimals(allow_nan=False, allow_infinity=False, places=4))
@examples(60)
def test_decimals_are_written_digit_for_digit(amount: Decimal) -> None:
    """A Decimal passes through no float on its way (spec §2.7)."""
    written = encode_json({"amount": amount})
    assert json.loads(written, parse_float=Decimal) == {"amount": amount}
    assert b"e" not in written.removeprefix(b'{"amount":').lower()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        pytest.param(Decimal("12.50"), b"12.50", id="a trailing zero"),
        pytest.param(Decimal("1E+3"), b"1000", id="an exponent"),
        pytest.param(MappingProxyType({"a": 1}), b'{"a":1}', id="any mapping"),
        pytest.param({"b": 1, "a": 2}, b'{"b":1,"a":2}', id="the given order"),
        pytest.param(GrantErrorCode.INVALID_COUNT, b'"INVALID_COUNT"', id="a StrEnum"),
        pytest.param(_Shape.ROUND, b'"round/1"', id="an Enum of str"),
        pytest.param(_Loud("quiet"), b'"quiet"', id="a str with another __str__"),
    ],
)
def test_values_python_adds(value: Any, text: bytes) -> None:
    """Each Python value has one form (spec §5)."""
    assert encode_json(value) == text


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(0.1, id="a float"),
        pytest.param(b"bytes", id="bytes"),
        pytest.param(datetime(2026, 1, 1, tzinfo=UTC), id="a time"),
        pytest.param({1: "a"}, id="an int for a key"),
    ],
)
def test_what_has_no_exact_form_is_refused(value: Any) -> None:
    """A float may not reach a signed body, and nothing is turned into text behind one's back (spec §5)."""
    with pytest.raises(TypeError):
        encode_json(value)


@pytest.mark.parametrize("value", [Decimal("NaN"), Decimal("-Infinity"), {"a": Decimal("sNaN")}, [Decimal("1E+999")]])
def test_what_is_no_json_number_is_refused(value: Any) -> None:
    """JSON has no NaN, no infinities, and we have no number that fills the memory (spec §2.7)."""
    with pytest.raises(ValueError, match="is not an amount of money"):
        encode_json(value)


@pytest.mark.parametrize("value", ["\ud800", "a\udfffb", {"\ud83c": 1}, ["🎲"[:1], "\udc00"]])
def test_lone_surrogates_are_refused(value: Any) -> None:
    """UTF-8 cannot carry half a letter, and a replacement would be another id (spec §5)."""
    with pytest.raises(UnicodeEncodeError):
        encode_json(value)
