"""JSON for people: one value to a line, coloured by kind, and each of them digit for digit as it was sent."""

import json
import re
from collections.abc import Iterator
from typing import Final

from markupsafe import Markup, escape

from game_operator.text import visible

_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')
_STEP: Final = "  "
_KINDS: Final = {"true": "json-word", "false": "json-word", "null": "json-word"}


def pretty_json(body: bytes, *, longest: int) -> Markup | None:
    """
    Return *body* laid out, as HTML of at most *longest* characters; None if that is too little, or it is not JSON.

    Only the space between values changes. Numbers, strings and their escapes stay as they are, and a name that stands
    twice stays twice.
    """
    if len(body) > longest:
        return None
    try:
        text = body.decode()
        # Numbers of any length, which int() would refuse.
        json.loads(text, parse_int=str, parse_float=str, parse_constant=_refused)
    except (ValueError, RecursionError):
        return None
    pieces: list[str] = []
    length = 0
    for piece in _laid_out(_TOKEN.findall(text)):
        length += len(piece)
        if length > longest:
            return None
        pieces.append(piece)
    return Markup("".join(pieces))  # noqa: S704 - each piece is escaped


def _laid_out(tokens: list[str]) -> Iterator[str]:
    depth = 0
    for part, following in zip(tokens, [*tokens[1:], ""], strict=True):
        if part in "{[":
            depth += 1
            yield part if following in ("}", "]") else f"{part}\n{_STEP * depth}"
            continue
        if part in "}]":
            depth -= 1
            yield part
        elif part == ",":
            yield f",\n{_STEP * depth}"
        elif part == ":":
            yield ": "
        else:
            yield _coloured(part, is_name=following == ":")
        if following in ("}", "]") and following:
            yield f"\n{_STEP * (depth - 1)}"


def _coloured(part: str, *, is_name: bool) -> str:
    kind = "json-name" if is_name else "json-text" if part.startswith('"') else _KINDS.get(part, "json-number")
    return f'<span class="{kind}">{escape(visible(part.encode()))}</span>'


def _refused(name: str) -> object:
    raise ValueError(f"{name} is not JSON")
