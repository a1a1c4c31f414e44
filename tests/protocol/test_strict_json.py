"""JSON that strangers send, read one way alone, in bounded time; JSON as we write it (docs/decisions/0002, 0010)."""

import decimal
import gc
import json
import time
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given, strategies

from game_operator import MalformedCallError
from game_operator.codes import GrantErrorCode
from game_operator.protocol.exact_json import (
    DEEPEST,
    LONGEST_NUMBER,
    Exponential,
    encode_json,
    items_with_bytes,
    read_json,
)
from tests.support.wire import JSON_VALUES, NUMBER_TEXT, TEXT, examples
from tests.test_money import hostile_context

KIB64 = 65_536
MIB = 1_048_576


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        pytest.param(b"", "is not JSON", id="nothing"),
        pytest.param(b" \n", "is not JSON", id="blanks"),
        pytest.param(b"player_id=p1&amount=5", "is not JSON", id="a form"),
        pytest.param(b"\x1f\x8b\x08\0", "is not UTF-8 from byte 1", id="gzip"),
        pytest.param(b'\xef\xbb\xbf{"a":1}', "is not JSON", id="a BOM"),
        pytest.param('{"a":1}'.encode("utf-16"), "is not UTF-8 from byte 0", id="UTF-16"),
        pytest.param('{"a":"é"}'.encode("latin-1"), "is not UTF-8 from byte 6", id="Latin-1"),
        pytest.param(b'{"a":NaN}', "NaN is not JSON", id="NaN"),
        pytest.param(b'{"a":Infinity}', "Infinity is not JSON", id="Infinity"),
        pytest.param(b'{"a":1,"b":2,"a":3}', "stands twice", id="a member twice, differing"),
        pytest.param(b'{"x":[{"y":{"a":1,"a":2}}]}', "stands twice", id="a member twice further down"),
        pytest.param(b'{"a":1,"\\u0061":2}', "stands twice", id="a member twice, once escaped"),
        pytest.param(b'{"a":1e9999999999999999999}', "beyond all bounds", id="an exponent of 19 digits"),
    ],
)
def test_what_is_refused(body: bytes, problem: str) -> None:
    """What two readers could take for two things is not read at all."""
    with pytest.raises(MalformedCallError, match=problem) as refused:
        read_json(body)
    assert str(refused.value).isprintable()
    assert len(str(refused.value)) < 400


@pytest.mark.parametrize(
    ("body", "value"),
    [
        pytest.param(b'{"a":{"a":1},"A":2}', {"a": {"a": 1}, "A": 2}, id="the same name on two levels, or in capitals"),
        pytest.param('{"é":1,"e\u0301":2}'.encode(), {"é": 1, "e\u0301": 2}, id="composed and decomposed"),
        pytest.param(b'"\\ud83c\\udfb2"', "🎲", id="a pair of surrogates"),
        pytest.param(b'"\\ud83c"', "\ud83c", id="a lone surrogate is text, which no id can be"),
        pytest.param(b"null", None, id="null"),
        pytest.param(b"-0", 0, id="minus nothing"),
    ],
)
def test_what_is_read(body: bytes, value: object) -> None:
    """Beside each refusal stands what is JSON after all."""
    assert read_json(body) == value


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        pytest.param("500", int, id="whole"),
        pytest.param("500.0", Decimal, id="with a point"),
        pytest.param("1234567890.12", Decimal, id="more digits than a float keeps"),
        pytest.param("5e2", Exponential, id="an exponent"),
        pytest.param("5.0e+2", Exponential, id="a point and an exponent"),
        pytest.param("1e400", Exponential, id="beyond a float"),
    ],
)
def test_numbers_are_exact_and_tell_how_they_were_written(text: str, kind: type) -> None:
    """No number passes through a float; one with an exponent is known by its class (docs/decisions/0010)."""
    value = read_json(text.encode())
    assert type(value) is kind
    assert value == Decimal(text)


@given(NUMBER_TEXT)
@examples(150)
def test_any_number_is_exact(text: str) -> None:
    """Digit for digit, whatever the thread's decimal context."""
    with hostile_context():
        value = read_json(text.encode())
    assert Decimal(value) == Decimal(text)


def test_an_application_without_traps() -> None:
    """Where a failed conversion is set to give NaN, it is refused all the same."""
    with decimal.localcontext(decimal.Context(traps=[])), pytest.raises(MalformedCallError, match="beyond all bounds"):
        read_json(b"1e9999999999999999999")


@given(JSON_VALUES)
@examples(150)
def test_it_agrees_with_the_standard_library(value: Any) -> None:
    """What is read is what json.loads reads, numbers aside, which are exact here."""
    for text in (json.dumps(value), json.dumps(value, ensure_ascii=False, indent=1)):
        assert json.loads(json.dumps(read_json(text.encode()), default=float)) == json.loads(text)


@given(strategies.binary(max_size=60))
@examples(200)
def test_any_bytes_are_read_or_refused(body: bytes) -> None:
    """Nothing but MalformedCallError comes out."""
    try:
        read_json(body)
    except MalformedCallError:
        return
    json.loads(body)


_LEVELS = [
    pytest.param(b"[", b"]", id="arrays"),
    pytest.param(b'{"a":', b"}", id="objects"),
    pytest.param(b'[{"]":', b"}]", id="both"),
]


def _nested(opening: bytes, closing: bytes, levels: int) -> bytes:
    return opening * (levels // len(closing)) + b"0" + closing * (levels // len(closing))


@pytest.mark.parametrize(("opening", "closing"), _LEVELS)
def test_64_levels_are_read(opening: bytes, closing: bytes) -> None:
    """As deep as that, however often; brackets in text are no levels."""
    deepest = _nested(opening, closing, DEEPEST)
    assert DEEPEST == 64
    read_json(deepest)
    read_json(b"[" + b",".join([_nested(opening, closing, DEEPEST - 2)] * 50) + b"]")
    read_json(b"[[]," + b"[" * 63 + b"]" * 64)
    read_json(b'["' + b"[{" * 500 + b'","\\"' + b"[{" * 500 + b'"]')


@pytest.mark.parametrize(
    "body", [b"[" * 65 + b"]" * 65, b'{"a":' * 65 + b"1" + b"}" * 65, b"[" + b"[]," * 50 + b"[" * 64 + b"]" * 65]
)
def test_65_levels_are_refused(body: bytes) -> None:
    """One more than there may be."""
    with pytest.raises(MalformedCallError, match="more than 64 levels deep"):
        read_json(body)


def test_the_longest_numbers() -> None:
    """600 digits in a row are a number, 601 are a way to keep a processor busy; in text they are text."""
    assert LONGEST_NUMBER == 600
    assert read_json(b"9" * 600) == int("9" * 600)
    assert read_json(b"[0.%b]" % (b"9" * 600))[0] < 1
    assert read_json(b'{"%b":"%b"}' % (b"9" * 700, b"8" * 70_000)) == {"9" * 700: "8" * 70_000}
    for body in (b"9" * 601, b"-" + b"9" * 601, b"0." + b"9" * 601, b"1e" + b"0" * 601, b'["a\\"",%b]' % (b"1" * 601)):
        with pytest.raises(MalformedCallError, match="more than 600 digits in a row"):
            read_json(body)


HOSTILE: dict[str, Callable[[int], bytes]] = {
    "open arrays": lambda size: b"[" * size,
    "open objects": lambda size: b'{"a":' * (size // 5),
    "arrays": lambda size: b"[" * (size // 2) + b"]" * (size // 2),
    "digits": lambda size: b"1" * size,
    "a fraction": lambda size: b"0." + b"1" * (size - 2),
    "an exponent": lambda size: b"1e" + b"1" * (size - 2),
    "rows of digits": lambda size: b"[" + b",".join([b"1" * 600] * (size // 601)) + b"]",
    "fractions": lambda size: b"[" + b",".join([b"0." + b"1" * 600] * (size // 603)) + b"]",
    "exponents": lambda size: b"[" + b",".join([b"1e9"] * (size // 4)) + b"]",
    "white space": lambda size: b" " * size,
    "open text": lambda size: b'"' * (size | 1),
    "open text of quotes": lambda size: b'"' + b'\\"' * (size // 2),
    "backslashes": lambda size: b'"' + b"\\" * (size - 1),
    "quotes": lambda size: b"[" + b'""' * (size // 2),
    "escapes": lambda size: b'"' + b"\\ud800" * (size // 6) + b'"',
    "small arrays": lambda size: b"[" + b"[]," * (size // 3) + b"0]",
    "deep arrays": lambda size: b"[" + b",".join([b"[" * 63 + b"]" * 63] * (size // 127)) + b"]",
    "members": lambda size: b"{" + b",".join(b'"%d":0' % number for number in range(size // 11)) + b"}",
    "the same member": lambda size: b"{" + b'"a":0,' * (size // 6) + b'"a":0}',
}


@pytest.mark.parametrize("name", HOSTILE)
def test_time_and_memory_are_bounded(name: str) -> None:
    """Sixteen times the bytes take about sixteen times as long, not two hundred times (docs/decisions/0010)."""
    small, large = HOSTILE[name](KIB64), HOSTILE[name](MIB)
    assert _seconds(small) < 0.5
    assert _seconds(large) < 5
    tracemalloc.start()
    _seconds(small)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 64 * KIB64 + MIB


def _seconds(body: bytes) -> float:
    gc.disable()  # A collection goes over all that pytest holds, which takes up to a second by itself.
    try:
        started = time.process_time()
        with suppress(MalformedCallError):
            read_json(body)
        return time.process_time() - started
    finally:
        gc.enable()


@pytest.mark.parametrize(
    ("body", "items"),
    [
        pytest.param(b' [ {"a" : 1 } ,\n5.00, "x,]" ] ', [b'{"a" : 1 }', b"5.00", b'"x,]"'], id="with blanks"),
        pytest.param(b'{"bets":[1,[2]]}', [b"1", b"[2]"], id="an object"),
        pytest.param(
            b'{ "x" : {"bets":[9]} , "y":"\\"bets\\":[8]", "b\\u0065ts" : [ 1 ], "z":[7] }', [b"1"], id="among others"
        ),
        pytest.param('["é","\\ud83c"]'.encode(), ['"é"'.encode(), b'"\\ud83c"'], id="any text"),
    ],
)
def test_items_with_their_bytes(body: bytes, items: list[bytes]) -> None:
    """Each item of a batch has the very bytes that it had in it (docs/decisions/0010)."""
    value = read_json(body)
    found = list(items_with_bytes(body, value["bets"] if isinstance(value, dict) else value, "bets"))
    assert [alone for _, alone in found] == items
    assert [read_json(alone) for _, alone in found] == [item for item, _ in found]


@given(strategies.lists(JSON_VALUES, max_size=5), strategies.sampled_from([None, 1]), strategies.booleans())
@examples(100)
def test_any_items_with_their_bytes(values: list[Any], indent: int | None, is_object: bool) -> None:
    """However the batch is written, the items read the same alone."""
    body = json.dumps({"a": values, "bets": values, "c": 1} if is_object else values, indent=indent).encode()
    value = read_json(body)
    found = list(items_with_bytes(body, value["bets"] if is_object else value, "bets"))
    assert (
        [read_json(alone) for _, alone in found]
        == [item for item, _ in found]
        == read_json(json.dumps(values).encode())
    )


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
