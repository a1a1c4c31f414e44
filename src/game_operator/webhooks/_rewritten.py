"""
What a JSON body may have looked like before something on its way parsed it and wrote it again.

It works on the body's tokens and not on values, so that numbers keep their digits and members that stand twice stay.
"""

import json
import re
from collections.abc import Iterator, Sequence

__all__ = ["other_forms"]

#: A longer body is not looked into: a stranger must not make us work.
_LONGEST = 16_384
_DEEPEST = 8
#: A string that does not end is taken to where it breaks off, and nothing is tried twice: else a body of many quotes
#: and backslashes would be searched again from each of its quotes.
_TOKEN = re.compile(r'"(?:[^"\\]++|\\.)*+"?|[{}\[\]:,]|[^\s{}\[\]:,"]++', re.DOTALL)
_SPACINGS = ((",", ":"), (", ", ": "), (",", ": "))
_INDENTS = ("  ", "    ", "\t")


def other_forms(body: bytes) -> Iterator[bytes]:
    """Yield *body* as common JSON writers would have written it."""
    yield from (body.strip(), body + b"\n", body + b"\r\n", b"\xef\xbb\xbf" + body, body.removeprefix(b"\xef\xbb\xbf"))
    for tokens in _spellings(body):
        for text in _layouts(tokens):
            form = text.encode("utf-8", "surrogatepass")
            yield form
            yield form + b"\n"


def _spellings(body: bytes) -> Iterator[Sequence[str]]:
    """Yield the tokens of *body* with its strings as they are, raw, escaped to ASCII, and with escaped slashes."""
    if len(body) > _LONGEST:
        return
    try:
        tokens = _TOKEN.findall(body.decode())
        yield tokens
        texts = {token: json.loads(token, strict=False) for token in tokens if token[0] == '"'}
    except ValueError:  # No UTF-8, or no string that JSON knows.
        return
    known = [{token: token for token in texts}]
    for ascii_only, slash in ((False, "/"), (True, "/"), (False, r"\/"), (True, r"\/")):
        spelled = {
            token: json.dumps(text, ensure_ascii=ascii_only).replace("/", slash) for token, text in texts.items()
        }
        if spelled not in known:  # As a rule nothing is there to spell differently.
            known.append(spelled)
            yield [spelled.get(token, token) for token in tokens]


def _layouts(tokens: Sequence[str]) -> Iterator[str]:
    for comma, colon in _SPACINGS:
        spaced = {",": comma, ":": colon}
        yield "".join([spaced.get(token, token) for token in tokens])
    for indent in _INDENTS:
        yield "".join(_indented(tokens, indent))


def _indented(tokens: Sequence[str], indent: str) -> Iterator[str]:
    depth, before = 0, ""
    for part in tokens:
        if part in ("}", "]"):
            depth -= 1
            # An empty object or array stays on its line.
            yield "" if before in ("{", "[") else "\n" + indent * depth
        elif before in ("{", "[", ","):
            yield "\n" + indent * depth
        yield ": " if part == ":" else part
        depth += part in ("{", "[")
        if depth > _DEEPEST:
            return
        before = part
