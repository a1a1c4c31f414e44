"""
Session tokens: the JWT with which a player's browser opens a game (spec §1, §5).

The specification does not show its contents. What is built here is assumed (docs/decisions/0005): RS256 with the
operator's own key, iss = operator id, sub = player id, aud = instance id, iat, exp, jti, and ``data`` when given.
"""

import json
import time
import uuid
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Final, cast
from urllib.parse import urlsplit

import jwt
from anyio import to_thread

from game_operator.errors import ConfigurationError, SessionTokenError, shown
from game_operator.protocol.canonical import Json
from game_operator.protocol.http import is_loopback
from game_operator.protocol.session_token import (
    ALGORITHM,
    RESERVED_CLAIMS,
    SessionClaims,
    assembled,
    payload_in,
    payload_of,
    signing_input,
)
from game_operator.signers.api import AsyncSigner, Signer
from game_operator.signers.keys import (
    KeySource,
    LocalSigner,
    PublicKeySource,
    is_async,
    load_public_key,
    load_signer,
    public_key_of,
)

__all__ = ["SessionClaims", "SessionTokenBuilder", "launch_url"]

_LONGEST_LIFETIME: Final = timedelta(hours=3)
_DEFAULT_LIFETIME: Final = timedelta(minutes=15)
_LONGEST_TOKEN: Final = 16_384


class SessionTokenBuilder:
    """
    Builds and reads session tokens. Threads may share one.

    Args:
        operator_id: The issuer.
        private_key: What ``OperatorClient`` takes: a path, a PEM, an ``RSAPrivateKey``, a signer.
        lifetime: How long a token is valid; at most 3 hours, whole seconds.
        public_key: For ``decode``, when the signer cannot tell its own.
        passphrase: For an encrypted PEM.
        key_id: Put into the header as ``kid``; left out when None.
        clock: Returns Unix seconds; for tests.

    Raises:
        ConfigurationError: The lifetime cannot be granted; ``SigningKeyError`` if it is the key.
    """

    def __init__(
        self,
        operator_id: str,
        private_key: KeySource,
        *,
        lifetime: timedelta = _DEFAULT_LIFETIME,
        public_key: PublicKeySource | None = None,
        passphrase: str | bytes | None = None,
        key_id: str | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        if not timedelta(seconds=1) <= lifetime <= _LONGEST_LIFETIME:
            raise ConfigurationError(f"A session token lives from 1 second to 3 hours, not {lifetime}.")
        self._operator_id = _text(operator_id, "operator_id")
        self._lifetime = lifetime
        self._signer = load_signer(private_key, passphrase)
        self._public_key = None if public_key is None else load_public_key(public_key)
        self._key_id = key_id
        self._clock = clock

    def build(
        self,
        *,
        player_id: str,
        instance_id: str,
        balance: Decimal | None = None,
        name: str | None = None,
        timestamp: int | None = None,
        claims: Mapping[str, Json] | None = None,
    ) -> str:
        """
        Return a signed token for *player_id* on *instance_id*.

        Args:
            player_id: One id per player and currency.
            instance_id: The game instance.
            balance: In currency units; written digit for digit.
            name: The player's display name.
            timestamp: Unix milliseconds of the balance.
            claims: More claims; not iss, sub, aud, iat, nbf, exp, jti or data.

        Raises:
            ConfigurationError: *claims* names a reserved claim, or the signer is async: use ``build_async``.
            SessionTokenError: A value has no exact JSON form.
        """
        if is_async(self._signer):
            raise ConfigurationError("The signer's sign method is async. Await build_async instead.")
        signed = self._signing_input(player_id, instance_id, balance, name, timestamp, claims or {})
        return assembled(signed, cast("Signer", self._signer).sign(signed))

    async def build_async(
        self,
        *,
        player_id: str,
        instance_id: str,
        balance: Decimal | None = None,
        name: str | None = None,
        timestamp: int | None = None,
        claims: Mapping[str, Json] | None = None,
    ) -> str:
        """Return what ``build`` returns, with a signer that is awaited; any other signer works too."""
        signed = self._signing_input(player_id, instance_id, balance, name, timestamp, claims or {})
        if is_async(self._signer):
            return assembled(signed, await cast("AsyncSigner", self._signer).sign(signed))
        if isinstance(self._signer, LocalSigner):
            return assembled(signed, self._signer.sign(signed))
        return assembled(signed, await to_thread.run_sync(cast("Signer", self._signer).sign, signed))

    def decode(self, token: str, *, instance_id: str) -> SessionClaims:
        """
        Return what *token* says, once it is proved to be ours, for *instance_id*, and in time.

        Raises:
            SessionTokenError: Another algorithm than RS256, a wrong signature, issuer or audience, expired, not yet
                valid, a lifetime above 3 hours, or unreadable.
            ConfigurationError: There is no public key to verify with.
        """
        key = self._public_key or public_key_of(self._signer)
        if key is None:
            raise ConfigurationError("The signer does not tell its public key. Pass public_key= to verify tokens.")
        if len(token) > _LONGEST_TOKEN:
            raise SessionTokenError(f"The session token has {len(token)} characters; none of ours is so long.")
        self._public_key = key
        try:
            jwt.decode(
                token,
                key=key,
                algorithms=[ALGORITHM],
                audience=instance_id,
                issuer=self._operator_id,
                options={"require": ["iss", "sub", "aud", "iat", "exp", "jti"]},
            )
            return _claims(json.loads(payload_in(token), parse_float=Decimal))
        except (jwt.PyJWTError, ValueError, TypeError, OSError, OverflowError, RecursionError) as refused:
            problem = str(refused) if isinstance(refused, jwt.PyJWTError) else "its claims cannot be read"
        raise SessionTokenError(f"The session token is refused: {problem}. Build a new one and open the game again.")

    def _signing_input(
        self,
        player_id: str,
        instance_id: str,
        balance: Decimal | None,
        name: str | None,
        timestamp: int | None,
        extra: Mapping[str, Json],
    ) -> bytes:
        reserved = sorted(RESERVED_CLAIMS & extra.keys())
        if reserved:
            raise ConfigurationError(f"claims= may not name {', '.join(reserved)}: the builder sets them itself.")
        if balance is not None and not isinstance(balance, Decimal):
            raise TypeError(f"balance must be a Decimal in currency units, not {type(balance).__name__}")
        issued_at = datetime.fromtimestamp(int(self._clock()), UTC)
        claims = SessionClaims(
            operator_id=self._operator_id,
            player_id=_text(player_id, "player_id"),
            instance_id=_text(instance_id, "instance_id"),
            issued_at=issued_at,
            expires_at=issued_at + self._lifetime,
            token_id=str(uuid.uuid4()),
            balance=balance,
            name=name,
            timestamp=timestamp,
        )
        try:
            return signing_input(payload_of(claims, extra), self._key_id)
        except (ValueError, RecursionError) as unwritable:
            problem = str(unwritable)
        raise SessionTokenError(f"A session token cannot carry these claims: {problem}.")

    def __repr__(self) -> str:
        return f"SessionTokenBuilder(operator_id={self._operator_id!r}, lifetime={self._lifetime})"

    def __reduce__(self) -> str:
        raise TypeError("a SessionTokenBuilder holds a private key and is not pickled; build one in each process")


def launch_url(template: str, token: str) -> str:
    """
    Return the address that opens the game: *template* with its one ``{token}`` replaced.

    The endpoint that creates a game session is not shown in the specification, so the template comes from you.

    Raises:
        ConfigurationError: The template has not exactly one ``{token}``, or sends the token over plain http.
    """
    if template.count("{token}") != 1:
        raise ConfigurationError(f"The launch template {shown(template)} must hold {{token}} exactly once.")
    try:
        parts = urlsplit(template)
        host = parts.hostname or ""
    except ValueError:
        raise ConfigurationError(f"The launch template {shown(template)} is no address.") from None
    if parts.scheme != "https" and not (parts.scheme == "http" and is_loopback(host)):
        raise ConfigurationError(
            f"The launch template {shown(template)} is not https: the token would travel in the open."
        )
    return template.replace("{token}", token)


def _text(value: object, name: str) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a str, not {type(value).__name__}")
    if not value:
        raise ConfigurationError(f"{name} is empty. A session token names its operator, player and game instance.")
    return value


def _claims(payload: dict[str, Any]) -> SessionClaims:
    """Return the claims in *payload*, or raise what ``decode`` takes for a refusal."""
    issued_at, expires_at = (datetime.fromtimestamp(int(payload[name]), UTC) for name in ("iat", "exp"))
    if expires_at - issued_at > _LONGEST_LIFETIME:
        raise jwt.InvalidTokenError("it was made to live longer than 3 hours")
    data = _of_type(payload.get("data", {}), dict)
    balance = _of_type(data.get("balance"), Decimal, int, type(None))
    return SessionClaims(
        operator_id=_of_type(payload["iss"], str),
        player_id=_of_type(payload["sub"], str),
        instance_id=_of_type(payload["aud"], str),
        issued_at=issued_at,
        expires_at=expires_at,
        token_id=_of_type(payload["jti"], str),
        balance=None if balance is None else Decimal(balance),
        name=_of_type(data.get("name"), str, type(None)),
        timestamp=_of_type(data.get("timestamp"), int, type(None)),
        extra={name: value for name, value in payload.items() if name not in RESERVED_CLAIMS},
    )


def _of_type(value: Any, *kinds: type) -> Any:
    if isinstance(value, bool) or not isinstance(value, kinds):
        raise ValueError(f"{shown(value)} is not of the kind this claim has")
    return value
