"""
The parts of a session token: claims and times in, bytes to sign and token text out; and a verified payload read back.

The specification mentions a JWT and shows neither its claims nor its signing (spec §1, §5): all of this is assumed
(docs/decisions/0005).
"""

from base64 import urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final, TypeVar

from game_operator.errors import MalformedCallError, SessionTokenError, shown
from game_operator.money import json_number
from game_operator.protocol.exact_json import Json, encode_json, read_json

ALGORITHM: Final = "RS256"
LONGEST_LIFETIME_SECONDS: Final = 3 * 60 * 60
LONGEST_TOKEN: Final = 16_384
#: Claims that the builder sets itself.
RESERVED_CLAIMS: Final = frozenset({"iss", "sub", "aud", "iat", "nbf", "exp", "jti", "data"})

_T = TypeVar("_T")


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
    extra: Mapping[str, object] = field(default_factory=dict, hash=False)


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
    """
    Return the token for the *signed* bytes.

    Raises:
        SessionTokenError: It would be longer than ``LONGEST_TOKEN``.
    """
    token = (signed + b"." + _segment(raw_signature)).decode()
    size = len(token)
    if size <= LONGEST_TOKEN:
        return token
    del token, raw_signature  # Error trackers show the locals of every frame that an error passes.
    raise SessionTokenError(
        f"The session token would have {size} characters, but it travels in an address: {LONGEST_TOKEN} is the most.",
        remedy="Put less into claims=.",
    )


def read_claims(
    payload: bytes, *, operator_id: str, instance_id: str, now_seconds: float, leeway_seconds: float = 0.0
) -> SessionClaims:
    """
    Return what *payload*, whose signature has been verified, says at *now_seconds* Unix time, give or take the leeway.

    Raises:
        SessionTokenError: It is of another operator or instance, not in time, made to live longer than 3 hours, or
            lacks a claim.
    """
    try:
        claims = read_json(payload)
    except MalformedCallError:
        claims = None
    if not isinstance(claims, dict):
        raise _refused("its payload is not a JSON object with exact numbers")
    issuer, audience = _required(claims, "iss", str), _required(claims, "aud", str)
    if issuer != operator_id:
        raise _refused(
            f"operator {shown(issuer)} issued it, not {shown(operator_id)}", "Decode it with its issuer's key."
        )
    if audience != instance_id:
        raise _refused(
            f"it opens instance {shown(audience)}, not {shown(instance_id)}", "Decode it for its own instance."
        )
    issued_at, expires_at = _checked_times(claims, now_seconds, leeway_seconds)
    data = _optional(claims, "data", dict) or {}
    return SessionClaims(
        operator_id=issuer,
        player_id=_required(claims, "sub", str),
        instance_id=audience,
        issued_at=issued_at,
        expires_at=expires_at,
        token_id=_required(claims, "jti", str),
        balance=_balance_in(data),
        name=_optional(data, "name", str),
        timestamp=_optional(data, "timestamp", int),
        extra={name: value for name, value in claims.items() if name not in RESERVED_CLAIMS},
    )


def _checked_times(claims: dict[str, Any], now_seconds: float, leeway_seconds: float) -> tuple[datetime, datetime]:
    """Return iat and exp."""
    issued_at, expires_at = _required(claims, "iat", int), _required(claims, "exp", int)
    begins_at = max(issued_at, _optional(claims, "nbf", int) or issued_at)
    if expires_at - issued_at > LONGEST_LIFETIME_SECONDS:
        raise _refused("it was made to live longer than 3 hours", "Build one with a shorter lifetime.")
    if begins_at > now_seconds + leeway_seconds:
        raise _refused("it is not valid yet", "Check the clocks of the machines that build and that read it.")
    if expires_at <= now_seconds - leeway_seconds:
        raise _refused("it has expired", "Build a new one and open the game again.")
    try:
        return datetime.fromtimestamp(issued_at, UTC), datetime.fromtimestamp(expires_at, UTC)
    except (ValueError, OverflowError, OSError):  # Only a leeway of thousands of years lets such times come here.
        raise _refused("its times are outside the years 1 to 9999") from None


def _balance_in(data: dict[str, Any]) -> Decimal | None:
    if "balance" not in data:
        return None
    value = data["balance"]
    try:
        if isinstance(value, Decimal | int) and not isinstance(value, bool):
            # Writing it again proves that it is an amount, and not a number that would fill the memory.
            json_number(Decimal(value))
            return Decimal(value)
    except ValueError:
        pass
    raise _refused("its balance is not an amount in currency units")


def _optional(claims: dict[str, Any], name: str, kind: type[_T]) -> _T | None:
    return _required(claims, name, kind) if name in claims else None


def _required(claims: dict[str, Any], name: str, kind: type[_T]) -> _T:
    if name not in claims:
        raise _refused(f"it has no claim {name}")
    value = claims[name]
    if isinstance(value, bool) or not isinstance(value, kind):
        raise _refused(f"its claim {name} is not of type {kind.__name__}")
    return value


def _refused(problem: str, remedy: str = "Build it with SessionTokenBuilder.") -> SessionTokenError:
    return SessionTokenError(f"The session token is refused: {problem}.", remedy=remedy)


def _segment(raw: bytes) -> bytes:
    return urlsafe_b64encode(raw).rstrip(b"=")
