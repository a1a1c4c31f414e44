"""
The one JSON encoder of this package.

It writes what ``JSON.stringify`` would write: no spaces, members in the given order, text unescaped in UTF-8. So a
service that parses a body and writes it again before it verifies the signature arrives at the same bytes
(docs/decisions/0002). Decimals are written digit for digit.
"""

import json
from collections.abc import Mapping, Sequence
from decimal import Decimal
from json.encoder import encode_basestring
from typing import TypeAlias

from game_operator.money import json_number

__all__ = ["Json", "encode_json", "read_object"]

Json: TypeAlias = "str | int | Decimal | Sequence[Json] | Mapping[str, Json] | None"

_LARGEST_ERROR_BODY = 65_536


def encode_json(value: Json) -> bytes:
    """
    Return *value* as canonical JSON in UTF-8.

    Raises:
        UnicodeEncodeError: A string holds a lone surrogate, which UTF-8 cannot carry.
        ValueError: A Decimal is not finite.
        TypeError: Something is none of str, bool, int, Decimal, None, list, tuple, dict; floats are refused.
    """
    return _text(value).encode()


def _text(value: Json) -> str:
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
            return "{" + ",".join(f"{encode_basestring(key)}:{_text(item)}" for key, item in value.items()) + "}"
        case list() | tuple():
            return "[" + ",".join(map(_text, value)) + "]"
        case _:
            raise TypeError(f"{type(value).__name__} has no exact JSON form")


def read_object(body: bytes) -> dict[str, object]:
    """
    Return the JSON object in *body*, or an empty one if there is none or a member stands twice in it.

    For error bodies: numbers are not exact here.
    """
    from game_operator.models._base import once  # Here, because pydantic comes with it, and a webhook needs none.

    try:
        value = json.loads(body[:_LARGEST_ERROR_BODY].decode(), object_pairs_hook=once)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
