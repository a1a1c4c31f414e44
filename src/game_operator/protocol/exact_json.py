"""
JSON, exactly: one encoder for all that this package sends, and one reader for what strangers sent.

The encoder writes what ``JSON.stringify`` would write: no spaces, members in the given order, text unescaped in UTF-8.
A service that parses a body and writes it again before it verifies the signature then arrives at the same bytes
(docs/decisions/0002). Decimals are written digit for digit.

The reader leaves no room for two readings, in bounded time: numbers are exact, no member stands twice, nothing is
deeper than 64 levels, and NaN is not JSON. The time taken grows no faster than the body.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from json.encoder import encode_basestring
from typing import Any, Final, TypeAlias

from game_operator.errors import MalformedCallError, shown
from game_operator.money import json_number

Json: TypeAlias = str | int | Decimal | Sequence["Json"] | Mapping[str, "Json"] | None


def encode_json(value: Json) -> bytes:
    """
    Return *value* as canonical JSON in UTF-8.

    Raises:
        UnicodeEncodeError: A string holds a lone surrogate, which UTF-8 cannot carry.
        ValueError: A Decimal is not finite.
        TypeError: Something is not a str, bool, int, Decimal, None, list, tuple or dict; floats are refused.
    """
    return _written(value).encode()


def _written(value: Json) -> str:
    match value:
        case str():
            return encode_basestring(value)
        case bool() | None:
            return {True: "true", False: "false", None: "null"}[value]
        case int():
            return str(int(value))
        case Decimal():
            return json_number(value)
        case Mapping():
            return "{" + ",".join(f"{encode_basestring(key)}:{_written(item)}" for key, item in value.items()) + "}"
        case list() | tuple():
            return "[" + ",".join(map(_written, value)) + "]"
        case _:
            raise TypeError(f"{type(value).__name__} has no exact JSON form")


#: How many levels of arrays and objects a body may have.
DEEPEST: Final = 64
#: How many digits a number may have in a row. Reading an integer takes time that grows with the square of its length,
#: and whether Python itself stops at some length is a setting of the process.
LONGEST_NUMBER: Final = 600

_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
_ANYTHING_BUT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_DIGITS_AS_ZEROS = bytes.maketrans(b"123456789", b"000000000")
_LONG_NUMBER = b"0" * (LONGEST_NUMBER + 1)
_NAN = Decimal("NaN")
#: What may stand between two values of a body that has been read.
_BETWEEN = re.compile(r"[ \t\n\r:,]*")


class Exponential(Decimal):
    """A JSON number written with an exponent: kept exactly, and never an amount of a call."""


def _number(text: str) -> Decimal:
    try:
        number = Exponential(text) if "e" in text or "E" in text else Decimal(text)
    except InvalidOperation:  # An exponent of 19 digits and more.
        number = _NAN
    if not number.is_finite():  # Where the application has set no trap, that is what comes of it.
        raise MalformedCallError(f"the number {shown(text)} is beyond all bounds")
    return number


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        # Parsers disagree on which of the two counts, and another one may have looked at this body before us.
        raise MalformedCallError(f"a member stands twice among {shown([name for name, _ in pairs])}")
    return members


def _constant(name: str) -> Any:
    raise MalformedCallError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_float=_number, parse_constant=_constant)
_SCAN: Callable[[str, int], tuple[Any, int]] = _DECODER.scan_once  # type: ignore[attr-defined]  # Not in the stubs.


def read_json(body: bytes) -> Any:
    """
    Return the JSON value in *body*; numbers with a point are Decimals, those with an exponent ``Exponential``.

    Raises:
        MalformedCallError: It is not one value of JSON, or breaks a limit.
    """
    if body.count(b"{") + body.count(b"[") > DEEPEST and _is_deep(body):
        raise MalformedCallError(f"the body is more than {DEEPEST} levels deep")
    # In an id, digits are only text.
    if len(body) > LONGEST_NUMBER and _has_long_row(body) and _has_long_row(_STRING.sub(b'""', body)):
        raise MalformedCallError(f"the body has a number of more than {LONGEST_NUMBER} digits in a row")
    try:
        text = body.decode()
        try:
            # The scanner alone is half as long on its way as ``decode``, which looks for space before and behind.
            value, end = _SCAN(text, 0)
        except StopIteration:
            return _DECODER.decode(text)
        return value if end == len(text) else _DECODER.decode(text)
    except UnicodeDecodeError as broken:
        raise MalformedCallError(f"the body is not UTF-8 from byte {broken.start} on") from None
    except ValueError as broken:
        start = body[:40].decode(errors="ignore")  # The last character may be cut in half.
        raise MalformedCallError(f"the body is not JSON: {broken}, it begins {shown(start)}") from None


def _is_deep(body: bytes) -> bool:
    # Before it is parsed: how deep a parser gets before it fails differs between versions of Python.
    depth = 0
    for bracket in _STRING.sub(b"", body).translate(None, _ANYTHING_BUT_BRACKETS):
        depth += 1 if bracket in b"[{" else -1
        if depth > DEEPEST:
            return True
    return False


def _has_long_row(body: bytes) -> bool:
    return _LONG_NUMBER in body.translate(_DIGITS_AS_ZEROS)


def items_with_bytes(body: bytes, items: list[Any], member: str) -> Iterator[tuple[Any, bytes]]:
    """
    Yield each of *items* with the very bytes it has in *body*.

    *body* is one that ``read_json`` has read: an array, whose *items* these are, or an object with that array as
    *member*.
    """
    text = body.decode()
    at = _next(text, 0)
    if text[at] == "{":
        name, at = _DECODER.raw_decode(text, _next(text, at + 1))
        while name != member:
            _, at = _DECODER.raw_decode(text, _next(text, at))
            name, at = _DECODER.raw_decode(text, _next(text, at))
        at = _next(text, at)
    at += 1
    for item in items:
        begin = _next(text, at)
        _, at = _DECODER.raw_decode(text, begin)
        yield item, text[begin:at].encode()


def _next(text: str, at: int) -> int:
    found = _BETWEEN.match(text, at)
    assert found is not None
    return found.end()
