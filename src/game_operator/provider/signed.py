"""A webhook as it is posted: path, body and headers, the signature among them."""

from dataclasses import dataclass, field

from game_operator.protocol.http import HeaderPairs
from game_operator.protocol.signing import Signature

__all__ = ["SignedWebhook", "sealed"]


@dataclass(frozen=True, slots=True)
class SignedWebhook:
    """
    A webhook, ready to be posted by whatever client there is (spec §4.1).

    Attributes:
        path: Where it goes, below the operator's own prefix, such as ``/withdraw``.
        body: The bytes of the body, which must arrive as they are.
        headers: Content type and signature.
    """

    path: str
    body: bytes
    headers: dict[str, str] = field(repr=False)

    @property
    def raw_headers(self) -> HeaderPairs:
        """The headers as they stand on the wire."""
        return tuple((name.encode("latin-1"), value.encode("latin-1")) for name, value in self.headers.items())


def sealed(path: str, body: bytes, header: str, signature: Signature) -> SignedWebhook:
    """Return *body* for *path*, with *signature* in the header that the profile names."""
    return SignedWebhook(path, body, {"Content-Type": "application/json", header: signature.decode()})
