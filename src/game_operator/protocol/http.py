"""HTTP requests and responses as plain values of no library."""

from dataclasses import dataclass, field, replace
from ipaddress import ip_address

from game_operator.protocol.echoes import REMOVED, without_echoes

__all__ = ["HeaderPairs", "HttpRequest", "HttpResponse", "is_loopback"]

#: Header fields in order, as bytes; a name may repeat.
HeaderPairs = tuple[tuple[bytes, bytes], ...]


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """
    A request: *path* is raw, as it stands on the request line, with its query if it has one.

    Its ``repr`` leaves the headers out, for they carry the signature.
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
    Its ``repr`` leaves headers and body out, for a service may echo a signature in either.
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
