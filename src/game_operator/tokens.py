"""
Session tokens: the JWT with which a player's browser opens a game (spec §1, §5).

The specification does not show its contents. What is built here is assumed (docs/decisions/0005): RS256 with the
operator's own key, iss = operator id, sub = player id, aud = instance id, iat, exp, jti, and ``data`` when given.
"""

import re
import time
import uuid
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Final, TypeVar, cast
from urllib.parse import urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

from game_operator.errors import ConfigurationError, SessionTokenError, without_frames
from game_operator.protocol import session_token
from game_operator.protocol.exact_json import Json
from game_operator.protocol.http import is_loopback
from game_operator.protocol.session_token import ALGORITHM, LONGEST_LIFETIME_SECONDS, LONGEST_TOKEN, SessionClaims
from game_operator.signers import keys
from game_operator.signers.environment import FromEnvironment, checked_operator_id

__all__ = ["SessionClaims", "SessionTokenBuilder", "launch_url"]

_T = TypeVar("_T")

_SHORTEST: Final = timedelta(seconds=1)
_TOKEN = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+")
#: It knows no other algorithm, so a token cannot ask for one.
_VERIFIER: Final = jwt.PyJWS(algorithms=[ALGORITHM])


class SessionTokenBuilder(FromEnvironment):
    """
    Builds and reads session tokens, whose contents, launch address and session endpoint are assumed
    (docs/decisions/0005), because spec §4.2 and §5 do not show them: ask the provider.

    Threads may share one.

    Args:
        operator_id: The issuer.
        private_key: What ``OperatorClient`` takes: a path, a PEM, an ``RSAPrivateKey``, a signer.
        lifetime: How long a token is valid; at most 3 hours, whole seconds.
        public_key: For ``decode``, when the signer does not give its own.
        passphrase: For an encrypted PEM.
        key_id: Put into the header as ``kid``; left out when None.
        clock: Returns Unix seconds, for tests; else ``time.time``.

    Raises:
        ConfigurationError: The lifetime cannot be granted, or the operator id is not valid.
        SigningKeyError: The key cannot be used.
    """

    def __init__(
        self,
        operator_id: str,
        private_key: keys.KeySource,
        *,
        lifetime: timedelta = timedelta(minutes=15),
        public_key: keys.PublicKeySource | None = None,
        passphrase: str | bytes | None = None,
        key_id: str | None = None,
        clock: Callable[[], float] | None = None,
    ) -> None:
        try:
            self._signer = keys.load_signer(private_key, passphrase)
            self._public_key = None if public_key is None else keys.load_public_key(public_key)
            self._operator_id = checked_operator_id(operator_id)
        finally:
            # Error trackers show the locals of every frame that an error passes, and a key may be in the wrong place.
            del private_key, passphrase, public_key, operator_id
        if not isinstance(lifetime, timedelta):
            raise TypeError(f"lifetime must be a timedelta, not {type(lifetime).__name__}")
        if not _SHORTEST <= lifetime <= timedelta(seconds=LONGEST_LIFETIME_SECONDS) or lifetime.microseconds:
            problem = f"A session token lives from 1 second to 3 hours, in whole seconds, not {lifetime}."
            raise ConfigurationError(problem, setting="lifetime")
        self._lifetime = lifetime
        self._key_id = None if key_id is None else _text(key_id, "key_id")
        self._clock = clock or (lambda: time.time())

    _needs_address = False

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
            player_id: One id per player and currency (assumed).
            instance_id: The game instance.
            balance: In currency units; written digit for digit.
            name: The player's display name.
            timestamp: Unix milliseconds of the balance.
            claims: More claims; not iss, sub, aud, iat, nbf, exp, jti or data.

        Raises:
            ConfigurationError: *claims* names a reserved claim, an id is empty, or the signer is async: use
                ``build_async``.
            SessionTokenError: A value has no exact JSON form, or the token would be longer than 16,384 characters.
            SigningKeyError: The signer's key is too short, or not RSA. What the signer raises passes through.
            TypeError: An argument is of the wrong type; a float is, anywhere, because it is not exact.
        """
        if keys.is_async(self._signer):
            raise ConfigurationError("The signer's sign method is async.", remedy="Await build_async instead.")
        signed = self._signing_input(player_id, instance_id, balance, name, timestamp, {} if claims is None else claims)
        return session_token.assembled(signed, keys.checked_signature(cast("keys.Signer", self._signer).sign(signed)))

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
        signed = self._signing_input(player_id, instance_id, balance, name, timestamp, {} if claims is None else claims)
        # Message and signature are the token: they never stand in one frame by name.
        return session_token.assembled(signed, keys.checked_signature(await keys.signed_async(self._signer, signed)))

    def decode(self, token: str, *, instance_id: str, leeway: timedelta = timedelta(0)) -> SessionClaims:
        """
        Return what *token* says, once it is proved to be ours, for *instance_id*, and in time.

        A signer in a key management service is asked for its public key once, which blocks for one request.

        Args:
            token: What ``build`` returned.
            instance_id: The game instance it must be for.
            leeway: By how much the clock of the machine that built it may differ from ours, in iat, nbf and exp.

        Raises:
            SessionTokenError: Another algorithm than RS256, a wrong signature, issuer or audience, expired, not yet
                valid, a lifetime above 3 hours, or unreadable.
            ConfigurationError: There is no public key to verify with.
            TypeError: *token* or *instance_id* is not a str.
        """
        try:
            if self._public_key is None:
                self._public_key = keys.public_key_of(self._signer)
            if self._public_key is None:
                raise ConfigurationError(
                    "The signer does not give its public key.",
                    setting="public_key",
                    remedy="Pass public_key= to verify tokens.",
                )
            payload = _verified(token, self._public_key)
        finally:
            del token
        return session_token.read_claims(
            payload,
            operator_id=self._operator_id,
            instance_id=_text(instance_id, "instance_id"),
            now_seconds=self._clock(),
            leeway_seconds=leeway.total_seconds(),
        )

    def _signing_input(
        self,
        player_id: str,
        instance_id: str,
        balance: Decimal | None,
        name: str | None,
        timestamp: int | None,
        extra: Mapping[str, Json],
    ) -> bytes:
        if not isinstance(extra, Mapping):
            raise TypeError(f"claims must be a mapping, not {type(extra).__name__}")
        if reserved := sorted(session_token.RESERVED_CLAIMS & extra.keys()):
            problem = f"claims= may not name {', '.join(reserved)}: the builder sets them itself."
            raise ConfigurationError(problem, setting="claims", remedy="Leave them out.")
        issued_at = datetime.fromtimestamp(int(self._clock()), UTC)
        claims = SessionClaims(
            operator_id=self._operator_id,
            player_id=_text(player_id, "player_id"),
            instance_id=_text(instance_id, "instance_id"),
            issued_at=issued_at,
            expires_at=issued_at + self._lifetime,
            token_id=str(uuid.uuid4()),
            balance=_given(balance, "balance", Decimal),
            name=_given(name, "name", str),
            timestamp=_given(timestamp, "timestamp", int),
        )
        try:
            return session_token.signing_input(session_token.payload_of(claims, extra), self._key_id)
        except TypeError as inexact:
            raise TypeError(f"claims= does not fit into JSON: {inexact}. Give a Decimal for a float.") from None
        except (ValueError, RecursionError) as unwritable:
            problem = str(unwritable)
        raise SessionTokenError(
            f"A session token cannot carry these claims: {problem}.",
            remedy="Give it text, whole numbers, finite Decimals, lists and dicts.",
        )

    def __repr__(self) -> str:
        if "_lifetime" not in self.__dict__:
            return object.__repr__(self)  # An error tracker shows a builder whose construction failed.
        return f"SessionTokenBuilder(operator_id={self._operator_id!r}, lifetime={self._lifetime})"

    def __reduce__(self) -> str:
        raise TypeError("a SessionTokenBuilder holds a private key and is not pickled; build one in each process")


@without_frames
def launch_url(template: str, token: str) -> str:
    """
    Return *template* with its one ``{token}`` replaced; the token's contents, the launch address and the session
    endpoint are assumed (docs/decisions/0005), because spec §4.2 and §5 do not show them: ask the provider.

    The template comes from you. A token has no character that an address would have to escape.

    Raises:
        ConfigurationError: The template has not exactly one ``{token}`` behind the host, is invalid, or would send the
            token over plain http to another machine.
        SessionTokenError: *token* is not a session token.
        TypeError: One of them is not a str.
    """
    # No message shows either: a template that was filled in before carries a token too.
    if not isinstance(template, str):
        raise TypeError(f"template must be a str, not {type(template).__name__}")
    try:
        parts = urlsplit(template)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        parts, host = urlsplit(""), ""
    held = template.count("{token}")
    if held != 1:
        problem, remedy = f"holds {{token}} {held} times", "Put it in exactly once."
    elif not host or not template.isprintable() or any(mark in template for mark in ' \\"<>'):
        problem, remedy = "is not a valid address", "Pass one like https://play.example/?t={token}."
    elif "@" in parts.netloc or "{token}" in parts.netloc:
        problem = "has a password or the {token} in the place of the host"
        remedy = "Put the token behind it."
    elif parts.scheme != "https" and not (parts.scheme == "http" and is_loopback(host)):
        problem = "is not https, so the token would travel in the open"
        remedy = "Pass an https address."
    else:
        problem = remedy = ""
    if problem:
        raise ConfigurationError(f"The launch template {problem}.", remedy=remedy)
    if not isinstance(token, str):
        raise TypeError(f"token must be a str, not {type(token).__name__}")
    if len(token) > LONGEST_TOKEN or not _TOKEN.fullmatch(token):
        raise SessionTokenError("This is not a session token.", remedy="Pass what SessionTokenBuilder.build returned.")
    return template.replace("{token}", token)


@without_frames
def _verified(token: object, key: RSAPublicKey) -> bytes:
    """Return the payload of *token*."""
    if not isinstance(token, str):
        raise TypeError(f"token must be a str, not {type(token).__name__}")
    if len(token) > LONGEST_TOKEN:
        raise SessionTokenError(f"The session token is refused: it has {len(token)} characters, more than any of ours.")
    if "=" in token:  # PyJWT would read some, and a token would have two texts.
        raise SessionTokenError(
            'The session token is refused: it holds "=", but a JWT is base64 without padding (RFC 7515).',
            remedy="Pass the token whole, as it was built.",
        )
    try:
        payload: bytes = _VERIFIER.decode(token, key, algorithms=[ALGORITHM])
        return payload
    except jwt.InvalidAlgorithmError:
        problem, remedy = "it is not signed with RS256", "Do not trust it."
    except jwt.InvalidSignatureError:
        problem = "its signature is not this operator's"
        remedy = "Do not trust it; if it is yours, check which key reads it."
    except (jwt.PyJWTError, ValueError, TypeError, RecursionError):
        problem, remedy = "it cannot be read as a JWT", "Pass the token whole, as it was built."
    raise SessionTokenError(f"The session token is refused: {problem}.", remedy=remedy)


def _text(value: object, name: str) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a str, not {type(value).__name__}")
    if not value:
        raise ConfigurationError(
            f"The {name.replace('_', ' ')} is empty.",
            setting=name,
            remedy="A session token names its operator, player and game instance.",
        )
    return value


def _given(value: _T | None, name: str, kind: type[_T]) -> _T | None:
    """Return *value* if it is None or of *kind*; a float balance would not be exact, and an int might mean cents."""
    if isinstance(value, bool) or not isinstance(value, kind | None):
        raise TypeError(f"{name} must be of type {kind.__name__}, not {type(value).__name__}")
    return value
