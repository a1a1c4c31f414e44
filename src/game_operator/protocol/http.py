"""
HTTP requests and responses as plain values of no library; and signatures that the other side echoes, cut out of them.

A debugging service may echo our headers: in the other alphabet of Base64, escaped for JSON, for an address or for HTML,
broken into lines, or cut off. A reader of such an echo in a log could replay the call.
"""

import re
from dataclasses import dataclass, field, replace
from enum import StrEnum
from ipaddress import ip_address
from typing import Final

REMOVED: Final = b"[signature removed]"

#: A piece of a signature this long is looked for: shorter ones are of no use.
_PIECE: Final = 16
_ALPHABET: Final = bytes.maketrans(b"+/", b"-_")
_BETWEEN: Final = b' \t\r\n=,"'
_ESCAPE: Final = re.compile(
    rb"(?<!\\)\\+(?:u00([0-9A-Fa-f]{2})|x([0-9A-Fa-f]{2})|[rnt])|%(?:25)*([0-9A-Fa-f]{2})|&#x0*([0-9A-Fa-f]{2});|&#0*([0-9]{2,3});"
)
_MARKS: Final = re.compile(rb"\[signature removed\](?:[\s=]*\[signature removed\])+")


def without_echoes(data: bytes, secret: bytes) -> bytes:
    """Return *data* with every piece of *secret*, in URL-safe Base64, cut out, in every form."""
    if not secret:
        return data
    data = data.replace(secret, REMOVED)
    pieces = [secret[start : start + _PIECE] for start in range(0, max(1, len(secret) - _PIECE + 1), _PIECE)]
    plain = data  # In the alphabet of a signature, without escapes and white space.
    if b"\\" in data or b"%" in data or b"&" in data:
        plain = _ESCAPE.sub(_unescaped, data).replace(b"\\", b"")
    plain = plain.translate(_ALPHABET, _BETWEEN)
    found = [piece for piece in pieces if piece in plain]
    if not found:
        return data
    for pattern in map(_any_form, found):
        data = pattern.sub(REMOVED, data)
    return _MARKS.sub(REMOVED, data)


def _unescaped(escape: re.Match[bytes]) -> bytes:
    if escape.lastindex is None:
        return b""
    code = int(escape[escape.lastindex], 10 if escape.lastindex == 5 else 16)
    return bytes([code]) if code < 128 else b"?"


def _any_form(piece: bytes) -> re.Pattern[bytes]:
    # A run of backslashes is entered at its beginning alone: from each of them, a long one would take hours.
    first, *rest = (_letter(bytes([code])) for code in piece)
    between = rb"(?:[\s=,\"]|\\+[rnt]|\\+u00(?:0[9aAdD]|20|3[dD])|%(?:25)*(?:0[9aAdD]|20|3[dD]))*"
    return re.compile(between.join([rb"(?:(?<!\\)|(?!\\))" + first, *rest]))


def _letter(letter: bytes) -> bytes:
    forms = {b"-": b"-+", b"_": b"_/"}.get(letter, letter)
    ways: list[bytes] = []
    for code in forms:
        ways += [rb"\\*" + re.escape(bytes([code])), rb"\\+(?:u00|x)%s" % _hex(code), rb"%%(?:25)*%s" % _hex(code)]
        ways += [rb"&#x0*%s;" % _hex(code), rb"&#0*%d;" % code]
    return b"(?:" + b"|".join(ways) + b")"


def _hex(code: int) -> bytes:
    return b"(?i:%02x)" % code


#: Header fields in order, as bytes; a name may repeat.
HeaderPairs = tuple[tuple[bytes, bytes], ...]


class Manner(StrEnum):
    """How a request travels to a wallet under test."""

    #: As any client would send it, with any method and headers.
    WHOLE = "whole"
    #: The connection is reset once the request is sent: nobody reads the answer.
    CUT = "cut"
    #: The connection is closed a little later: nobody reads the answer.
    HANG_UP = "hang up"
    #: In chunks, without a Content-Length.
    CHUNKED = "chunked"
    #: In four pieces, with pauses between them.
    SLOW = "slow"
    #: Half of the body, and then nothing; the answer is waited for.
    HALF = "half"


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """
    A request: *path* is raw, as it stands on the request line, with its query if it has one.

    Its ``repr`` leaves the headers out, because they carry the signature.
    """

    method: str
    path: str
    headers: HeaderPairs = field(repr=False)
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """
    A response as far as it was read.

    *defect* says why *body* is not the whole body in plain bytes (it was encoded, or too long), and is "" when it is.
    Its ``repr`` leaves headers and body out, because a service may echo a signature in either.
    """

    status: int
    headers: HeaderPairs = field(repr=False)
    body: bytes = field(repr=False)
    defect: str = ""

    def header(self, name: bytes) -> str | None:
        """Return the first header called *name* (in lower case), or None."""
        return next((value.decode("latin-1") for key, value in self.headers if key.lower() == name), None)

    def without(self, secret: bytes) -> "HttpResponse":
        """Return this response with *secret* cut out wherever the service echoes it."""
        if not secret or (secret not in self.body and not any(secret in value for _, value in self.headers)):
            return self
        headers = tuple((name, value.replace(secret, REMOVED)) for name, value in self.headers)
        return replace(self, headers=headers, body=self.body.replace(secret, REMOVED))

    def without_echoes(self, secret: bytes) -> "HttpResponse":
        """Return this response without *secret* in any form: escaped, split, cut off. *without* is faster."""
        headers = tuple((name, without_echoes(value, secret)) for name, value in self.headers)
        return replace(self, headers=headers, body=without_echoes(self.body, secret))


def is_loopback(host: str) -> bool:
    """Return whether *host* names this machine and no other."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
