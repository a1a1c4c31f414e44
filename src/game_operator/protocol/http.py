"""
HTTP requests and replies as plain values of no library; and signatures that the other side echoes, cut out of them.

A debugging service may echo our headers. A reader of such an echo in a log could replay the call.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

REMOVED: Final = b"[signature removed]"
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}

#: A piece of a signature this long is looked for: shorter ones are of no use.
_PIECE: Final = 16
_ALPHABET: Final = bytes.maketrans(b"+/", b"-_")
_STANDARD: Final = bytes.maketrans(b"-_", b"+/")
_BETWEEN: Final = b' \t\r\n=,"\\'


def without_echoes(data: bytes, secret: bytes) -> bytes:
    """
    Return *data* with *secret*, in URL-safe Base64, cut out in its usual spellings.

    If a piece of it stands there in another way (broken into lines, cut off), nothing of *data* is returned.
    """
    if not secret or len(data) < min(_PIECE, len(secret)):
        return data  # Most headers are too short for a piece of it.
    standard = secret.translate(_STANDARD)
    for spelling in (secret, standard, standard.replace(b"/", rb"\/")):
        data = data.replace(spelling, REMOVED)
    pieces = [secret[start : start + _PIECE] for start in range(0, max(1, len(secret) - _PIECE + 1), _PIECE)]
    # In the alphabet of a signature, without white space, which JSON escapes.
    plain = data.replace(rb"\n", b"").replace(rb"\r", b"").translate(_ALPHABET, _BETWEEN)
    return REMOVED if any(piece in plain for piece in pieces) else data


#: Header fields in order, as bytes; a name may repeat.
HeaderPairs = tuple[tuple[bytes, bytes], ...]


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
class HttpReply:
    """
    The reply to a request: what a server sends back, or as much of it as a client has read.

    Its ``repr`` leaves headers and body out, because a service may echo a signature in either.

    Attributes:
        status: The HTTP status.
        headers: The header fields by their names in lower case; the values of a repeated name are joined with ", ".
        body: The body's bytes.
        defect: Why *body* is not the whole body in plain bytes (it was encoded, or too long); "" if it is.
        reused: Whether it came over a connection that had carried another call before.
        attempts: How many requests a call had taken by then.
    """

    status: int
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    defect: str = ""
    reused: bool = field(default=False, repr=False, compare=False)
    attempts: int = field(default=1, repr=False, compare=False)


def joined_headers(pairs: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Return header fields, as they stood on the wire, as an ``HttpReply`` has them (RFC 9110 §5.3)."""
    headers: dict[str, str] = {}
    for raw_name, raw_value in pairs:
        name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers


def defect_of(headers: HeaderPairs, size: int, limit: int) -> str:
    """Return why a body of *size* bytes with these *headers* cannot be read, or ""."""
    if size > limit:
        return f"the body is longer than {limit} bytes"
    encodings = [value for name, value in headers if name.lower() == b"content-encoding"]
    encoding = b", ".join(encodings).decode("latin-1")
    if encoding.strip().lower() not in {"", "identity"}:
        return f"the body is {encoding[:40]!r} encoded, although identity was asked for"
    return ""


def redacted(reply: HttpReply, redact: Callable[[bytes], bytes]) -> HttpReply:
    """Return *reply* with its body and the value of each header as *redact* returns them."""
    # A wallet in this process may use characters that no header can carry.
    raw = {name: value.encode("latin-1", "backslashreplace") for name, value in reply.headers.items()}
    headers = {name: redact(value).decode("latin-1") for name, value in raw.items()}
    return replace(reply, headers=headers, body=redact(reply.body))


def without_secret(reply: HttpReply, secret: bytes) -> HttpReply:
    """Return *reply* with *secret* cut out wherever it stands unchanged. ``without_echoes`` finds more, slowly."""
    text = secret.decode("latin-1")
    if not secret or (secret not in reply.body and not any(text in value for value in reply.headers.values())):
        return reply
    return redacted(reply, lambda part: part.replace(secret, REMOVED))


def is_loopback(host: str) -> bool:
    """Return whether *host* names this machine and no other."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def service_name(base_url: str, operator_id: str) -> str:
    """
    Return what the service at *base_url* is called for an operator, wherever two services are compared.

    One address has one spelling here: its scheme and host in lower case, without a default port and a final dot.
    """
    parts = urlsplit(base_url)
    host = (parts.hostname or "").removesuffix(".")
    netloc = f"[{host}]" if ":" in host else host
    if parts.port not in (None, _DEFAULT_PORTS.get(parts.scheme)):
        netloc += f":{parts.port}"
    return f"{parts.scheme}://{netloc}{parts.path.rstrip('/')}|{operator_id}"
