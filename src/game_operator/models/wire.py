"""
What all wire models share: frozen values, exact numbers, and one function that reads a body.

pydantic's JSON mode is fast, but reads every number with a decimal point or an exponent through a double. That is
exact up to 15 significant digits and not beyond. ``decode`` therefore looks at the bytes first and takes the fast way
only where it is provably exact; else it goes through ``json`` with the digits kept.
"""

import json
import re
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeVar

from pydantic import BaseModel, GetPydanticSchema, Strict, ValidationError, ValidationInfo
from pydantic_core import PydanticCustomError, core_schema, from_json

from game_operator.errors import shown
from game_operator.models.wire_format import WireFormatError, once

if TYPE_CHECKING:
    from pydantic import TypeAdapter

T = TypeVar("T")

#: Ten trillion currency units: far above any bet, and far below where doubles lose whole numbers.
MAX_CENTS = 10**15
#: The last millisecond of the year 9999, where ``datetime`` ends.
MAX_UNIX_MILLIS = 253_402_300_799_999

_LARGEST_EXPONENT = 64


class WireModel(BaseModel, frozen=True, extra="allow", defer_build=True, protected_namespaces=()):
    """
    A frozen value of the wire. Unknown fields are kept in ``model_extra``.

    Each subclass says ``frozen=True`` again: only so do type checkers without pydantic's plugin see it.

    Attributes:
        nested: The field that holds another model or several, if there is one.
    """

    nested: ClassVar[str] = ""


class _ExactFloat(float):
    """A JSON number that keeps its digits, so that unknown fields stay floats and amounts stay exact."""

    text: str

    def __new__(cls, text: str) -> "_ExactFloat":
        number = super().__new__(cls, text)
        number.text = text
        return number


def whole_number(least: int, most: int) -> GetPydanticSchema:
    """
    Return the mark of an ``int`` field that is a ``number`` on the wire: 100 and 100.0 are 100.

    "100", 100.5, true and null are refused, as is what lies outside *least* to *most*.
    """
    integer = core_schema.int_schema(strict=True, ge=least, le=most)
    # In Python mode, a float schema would lose the digits of an _ExactFloat.
    number = core_schema.json_or_python_schema(
        json_schema=core_schema.float_schema(strict=True), python_schema=core_schema.is_instance_schema(float)
    )
    integral = core_schema.no_info_after_validator_function(_whole, number)
    schema = core_schema.custom_error_schema(
        core_schema.union_schema([integer, core_schema.chain_schema([integral, integer])], mode="left_to_right"),
        custom_error_type="whole_number",
        custom_error_message=f"must be a whole number from {least} to {most}",
    )
    return GetPydanticSchema(lambda _source, _handler: schema)


def _whole(value: float) -> int:
    exact = _decimal(value)
    if exact is None or not _is_ordinary(exact) or exact != exact.to_integral_value():
        raise ValueError
    return int(exact)


_NO_AMOUNT = "must be a number of ordinary size"
_PLAIN_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:E-[0-9]+)?", re.ASCII)
#: Given to pydantic as context by ``decode``: this is the service's body, and not what a model has written.
_WIRE = object()


@lru_cache(maxsize=4096)
def _amount_of_double(value: float) -> Decimal:
    """Return the amount that a double of a body stands for. A catalogue repeats a handful thousands of times."""
    return _plain(_decimal(value))


def _amount_from_text(text: str, info: ValidationInfo) -> Decimal:
    # model_dump_json writes what no double carries as text, and model_validate_json reads it back; the wire may not.
    if info.context is _WIRE or not _PLAIN_NUMBER.fullmatch(text):
        raise PydanticCustomError("amount", _NO_AMOUNT)
    return _plain(Decimal(text))


def _amount_from_python(value: object) -> Decimal:
    if isinstance(value, _ExactFloat):
        return _plain(_decimal(value))
    if isinstance(value, Decimal):
        return _plain(value)
    if type(value) is int:
        return _plain(Decimal(value))
    if type(value) is float:
        raise PydanticCustomError("amount", "must be a Decimal or an int, because a float is not exact")
    raise PydanticCustomError("amount", _NO_AMOUNT)


def _amount_to_json(amount: Decimal) -> float | str:
    # A JSON number where a double carries it exactly; the digits as text where it would not.
    nearest = float(amount)
    return nearest if Decimal(repr(nearest)) == amount else str(amount)


def _decimal(number: float) -> Decimal | None:
    # What repr writes is what stood in the body, as long as that had no more than 15 digits.
    text = number.text if isinstance(number, _ExactFloat) else repr(number)
    try:
        return Decimal(text)
    except InvalidOperation:  # An exponent of 19 digits and more.
        return None


def _is_ordinary(number: Decimal) -> bool:
    # A zero may be written with any sign and exponent, of which a double knows nothing: it is 0.
    return number.is_finite() and (not number or abs(number.adjusted()) <= _LARGEST_EXPONENT)


def _plain(amount: Decimal | None) -> Decimal:
    # 0.10 is 0.1, 1E5 is 100000 and -0.00 is 0, whichever way the number was read.
    if amount is None or not _is_ordinary(amount):
        raise PydanticCustomError("amount", _NO_AMOUNT)
    if not amount:
        return Decimal(0)
    text = format(amount, "f")
    return Decimal(text.rstrip("0").rstrip(".") if "." in text else text)


#: Of a ``Decimal`` field that is a ``number`` on the wire, in currency units or percent.
_AMOUNT_SCHEMA = core_schema.json_or_python_schema(
    json_schema=core_schema.custom_error_schema(
        core_schema.union_schema(
            [
                core_schema.no_info_after_validator_function(_amount_of_double, core_schema.float_schema(strict=True)),
                core_schema.with_info_after_validator_function(_amount_from_text, core_schema.str_schema(strict=True)),
            ],
            mode="left_to_right",
        ),
        custom_error_type="amount",
        custom_error_message=_NO_AMOUNT,
    ),
    python_schema=core_schema.no_info_plain_validator_function(_amount_from_python),
    serialization=core_schema.plain_serializer_function_ser_schema(_amount_to_json, when_used="json"),
)

Amount = Annotated[Decimal, GetPydanticSchema(lambda _source, _handler: _AMOUNT_SCHEMA)]
CentsField = Annotated[int, whole_number(0, MAX_CENTS)]
MillisField = Annotated[int, whole_number(0, MAX_UNIX_MILLIS)]
Text = Annotated[str, Strict()]
#: The mark of a text of which some values are known: what is not text is refused without a list of all that are.
KNOWN_TEXT = GetPydanticSchema(
    lambda source, handler: core_schema.custom_error_schema(
        handler(source), custom_error_type="text", custom_error_message="must be a string"
    )
)
Flag = Annotated[bool, Strict()]

# Which bodies only the exact way reads rightly: those with a number of 16 or more characters, or with an exponent of
# three digits or more. Up to there a double gives the digits back. All numbers we know are members of objects and stand
# behind a colon; a bare \d{16} would fire on every id of 24 hex digits. They are looked for in the body's shape: digits
# and points as "0", and little else but colons, quotation marks and what may begin an exponent. Leaving characters out
# brings numbers together, never apart, so none is missed. (With u, s and / kept, true, false and https://example.com
# look less like exponents.)
_SHAPE = bytes.maketrans(b"123456789.E", b"0000000000e")
_LEFT_OUT = bytes(set(range(256)) - set(b'0123456789.":eEus/'))
_LONG_NUMBER = b":" + b"0" * 16
_LONG_EXPONENT = re.compile(rb":0*+e000")
# Not JSON, but accepted by pydantic. Two patterns, because each has a literal start, which is fast.
_NOT_A_NUMBER = re.compile(rb"NaN[ \t\r\n]*[,\]}]")
_INFINITE = re.compile(rb"Infinity[ \t\r\n]*[,\]}]")


def decode(adapter: "TypeAdapter[T]", body: bytes) -> T:
    """
    Return *body* as the adapter's type, every known number exact.

    Raises:
        WireFormatError: The body is not JSON, or does not fit, or a member stands twice in it; the message names the
            field.
    """
    shape = _shape_of(body)
    try:
        if _needs_digits(shape) or _NOT_A_NUMBER.search(body) or _INFINITE.search(body):
            from_json(body, allow_inf_nan=False)  # json.loads alone would take lone surrogates, UTF-16 and a BOM.
            return adapter.validate_python(json.loads(body, parse_float=_ExactFloat, object_pairs_hook=once))
        value = adapter.validate_json(body, context=_WIRE)
        if _most_members(shape) > _members(value):
            json.loads(body, object_pairs_hook=once, parse_int=str, parse_float=str)
        return value
    except ValidationError as invalid:
        problem = _first_problem(invalid)
    except WireFormatError as twice:
        problem = str(twice)
    except (ValueError, RecursionError) as unreadable:
        problem = f"the body: Invalid JSON: {shown(str(unreadable))[1:-1]}"
    raise WireFormatError(problem)


def _shape_of(body: bytes) -> bytes:
    """Return where *body* has numbers and members: the input of the two functions below."""
    return body.translate(_SHAPE, _LEFT_OUT)


def _needs_digits(shape: bytes) -> bool:
    """Return whether a body of this *shape* has a number that a double may not carry exactly."""
    has_exponent = b":e" in shape.translate(None, b"0")
    return _LONG_NUMBER in shape or (has_exponent and _LONG_EXPONENT.search(shape) is not None)


def _most_members(shape: bytes) -> int:
    """
    Return how many members a body of this *shape* has, or more.

    Each has a colon behind the quotation mark of its name. A text may look so, too, an address among others; but behind
    the colon of a member no text begins with a slash.
    """
    return shape.count(b'":') - shape.count(b'"://')


def _members(value: object) -> int:
    """Return how many members *value* was read from, each name counted once in its object, or fewer."""
    count = 0
    level: list[Any] = [value] if isinstance(value, WireModel) else []
    while level:  # By levels, because most of it is then done in C: a catalogue has thousands of models.
        count += sum(map(len, map(attrgetter("model_fields_set"), level)))
        nested = level[0].nested
        below = list(map(attrgetter(nested), level)) if nested else []
        level = list(chain.from_iterable(below)) if below and not isinstance(below[0], WireModel) else below
    return count


def _first_problem(invalid: ValidationError) -> str:
    problem = invalid.errors(include_url=False)[0]
    parts = [part for part in problem["loc"] if part not in _UNION_TAGS]
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts).lstrip(".")
    story = f"{path or 'the body'}: {problem['msg'].replace('Input should be a valid string', 'must be a string')}"
    match problem:
        case {"type": "union_tag_invalid", "ctx": {"tag": tag, "expected_tags": expected}}:
            return f"{path}.status: must be one of {expected}, not {shown(tag)}".lstrip(".")
        case {"type": "json_invalid" | "missing" | "union_tag_not_found"}:
            return story
        case {"input": _ExactFloat(text=text)}:
            return f"{story}, not {shown(text)[1:-1]}"
        case {"input": None}:
            return f"{story}, not null"
    return f"{story}, not {shown(problem['input'])}"


#: pydantic puts the chosen case of a tagged union into the path; it is not a field.
_UNION_TAGS = frozenset({"OPEN", "CLOSED", "ROLLED_BACK", "NOT_FOUND", "OK", "BAD_REQUEST"})
