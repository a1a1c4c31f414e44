"""
The parts of a session token: claims and times in, bytes to sign and token text out.

The specification mentions a JWT and shows neither its claims nor its signing (spec §1, §5): all of this is assumed
(docs/decisions/0005).
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Final

from game_operator.protocol.canonical import Json, encode_json

__all__ = ["ALGORITHM", "RESERVED_CLAIMS", "SessionClaims", "assembled", "payload_of", "signing_input"]

ALGORITHM: Final = "RS256"
#: Claims that the builder sets itself.
RESERVED_CLAIMS: Final = frozenset({"iss", "sub", "aud", "iat", "nbf", "exp", "jti", "data"})


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionClaims:
    """
    What a session token says.

    Attributes:
        operator_id: Who issued it (``iss``).
        player_id: Whom it is for (``sub``).
        instance_id: The game instance it opens (``aud``).
        issued_at: When it was made, in UTC (``iat``).
        expires_at: When it ends, in UTC (``exp``).
        token_id: Its unique id (``jti``).
        balance: The player's balance in currency units, exact, or None.
        name: The player's display name, or None.
        timestamp: Unix milliseconds of the balance, or None.
        extra: Claims of your own.
    """

    operator_id: str
    player_id: str
    instance_id: str
    issued_at: datetime
    expires_at: datetime
    token_id: str
    balance: Decimal | None = None
    name: str | None = None
    timestamp: int | None = None
    extra: Mapping[str, object] = field(default_factory=dict)


def payload_of(claims: SessionClaims, extra: Mapping[str, Json]) -> bytes:
    """Return the payload for *claims* and the caller's *extra* ones, ``data`` only if there is any."""
    given = {"balance": claims.balance, "name": claims.name, "timestamp": claims.timestamp}
    data = {name: value for name, value in given.items() if value is not None}
    payload: dict[str, Json] = {
        "iss": claims.operator_id,
        "sub": claims.player_id,
        "aud": claims.instance_id,
        "iat": int(claims.issued_at.timestamp()),
        "exp": int(claims.expires_at.timestamp()),
        "jti": claims.token_id,
    }
    return encode_json(payload | ({"data": data} if data else {}) | dict(extra))


def signing_input(payload: bytes, key_id: str | None) -> bytes:
    """Return the bytes that a signer signs; ``kid`` stands in the header only if there is a *key_id*."""
    header: dict[str, Json] = {"typ": "JWT", "alg": ALGORITHM}
    if key_id is not None:
        header["kid"] = key_id
    return _segment(encode_json(header)) + b"." + _segment(payload)


def assembled(signed: bytes, raw_signature: bytes) -> str:
    """Return the token for the *signed* bytes."""
    return (signed + b"." + _segment(raw_signature)).decode()


def payload_in(token: str) -> bytes:
    """Return the payload of a *token* whose signature has been verified."""
    segment = token.split(".")[1].encode()
    return urlsafe_b64decode(segment + b"=" * (-len(segment) % 4))


def _segment(raw: bytes) -> bytes:
    return urlsafe_b64encode(raw).rstrip(b"=")
