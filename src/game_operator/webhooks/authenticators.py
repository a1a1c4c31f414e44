"""
Who sent a call: authentication of webhooks, which spec §5 does not show (assumed, docs/decisions/0011).

None of these is a default: a receiver is built with one by name. Each looks at the raw bytes, before anything is
parsed, and raises WebhookSignatureError with a reason for the log.
"""

import hmac
import json
import re
import time
import warnings
from binascii import a2b_base64
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from itertools import product
from pathlib import Path
from threading import Lock
from typing import Any, ClassVar, Final, Protocol

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

from game_operator.errors import ConfigurationError, WebhookSignatureError, shown, without_frames
from game_operator.profile import Profile
from game_operator.protocol.http import HeaderPairs
from game_operator.protocol.signing import verifies
from game_operator.signers.keys import fingerprint, load_public_key

#: What may have become of a body that is not all there, for the log.
LOST: Final = "Either the network lost it, or a middleware read it before us"

_LONGEST_SIGNATURE = 2048
#: How many digits of a fingerprint name a key.
_KEY_DIGITS = 16
_HEX_DIGEST = re.compile("[0-9A-Fa-f]{64}")
_MOST_HOPS = 32
#: Without a zone, such as %eth0, which means nothing on another machine. A port behind six needs brackets.
_WRITTEN_ADDRESS = re.compile(
    r"(?:\[(?P<bracketed>[0-9A-Fa-f.]*:[0-9A-Fa-f:.]*)\]|(?P<four>[0-9.]+))(?::[0-9]{1,5})?"
    r"|(?P<six>[0-9A-Fa-f.]*:[0-9A-Fa-f:.]*)"
)
#: How often, at most, a failed signature is looked into: a stranger must not make us work.
_SECONDS_BETWEEN_DIAGNOSES = 1.0


@dataclass(frozen=True, slots=True)
class WebhookRequest:
    """
    A webhook as it came in.

    Attributes:
        method: The HTTP method.
        path: The path below the prefix, such as ``/withdraw``.
        headers: Header fields in order; names in lower case, a name may repeat.
        body: The body's raw bytes.
        peer: The address that opened the connection, or None.
        at_millis: When it came in, in Unix milliseconds, for an authenticator that looks at the time.
    """

    method: str
    path: str
    headers: HeaderPairs = field(repr=False)
    body: bytes = field(repr=False)
    peer: str | None = None
    at_millis: int = 0

    def only(self, name: bytes) -> str | None:
        """
        Return the one header called *name* (in lower case), or None; blanks around its value are not part of it.

        Raises:
            WebhookSignatureError: It is there more than once: two readers would take two different ones.
        """
        found = [value for key, value in self.headers if key == name]
        if len(found) > 1:
            raise WebhookSignatureError(f"the header {name.decode('latin-1')} is there {len(found)} times")
        # Spaces and tabs around a value are not part of it (RFC 9110 §5.5), and httptools leaves those behind it.
        return found[0].strip(b" \t").decode("latin-1") if found else None


class Authenticator(Protocol):
    """
    Says who may call. One method, which returns for a genuine call and raises for any other.

    An authenticator that also has the attribute ``covers_body = True`` promises to refuse a call whose body was changed
    or lost on the way. Without it an empty body, or one shorter than its Content-Length, is answered SYSTEM_ERROR and
    not INVALID_REQUEST, which is final: nobody knows what the call said.
    """

    def authenticate(self, request: WebhookRequest, profile: Profile) -> str | None:
        """
        Return if *request* is genuine: the name of the key that signed it, or None if keys have no names.

        Args:
            request: The webhook as it came in.
            profile: Says what is assumed, such as the header of the signature.

        Raises:
            WebhookSignatureError: It is not genuine; the message is a reason for the log.
        """


class RsaSignature:
    """
    RSA-SHA256 (PKCS#1 v1.5) over the raw body, with one of the service's keys (assumed, docs/decisions/0011).

    Args:
        public_keys: The service's public keys, as Path, PEM or RSAPublicKey; several during a rotation.

    Attributes:
        covers_body: True: a changed or missing body is refused.

    Raises:
        SigningKeyError: A key is unreadable, private, not RSA, or under 2048 bits.
        ConfigurationError: There is no key.
        TypeError: *public_keys* is something else.
    """

    __slots__ = ("_diagnosed_at", "_keys", "_lock")
    covers_body: ClassVar = True

    def __init__(
        self,
        public_keys: Iterable[Path | str | bytes | RSAPublicKey] | Path | str | bytes | RSAPublicKey,
    ) -> None:
        try:
            self._keys = {fingerprint(key)[:_KEY_DIGITS]: key for key in _loaded_keys(public_keys)}
        finally:
            # Error trackers show the locals of every frame, and a private key may have been passed in their place.
            del public_keys
        self._lock = Lock()
        self._diagnosed_at = -_SECONDS_BETWEEN_DIAGNOSES

    def __repr__(self) -> str:
        count = len(getattr(self, "_keys", ()))  # An error tracker shows one whose construction failed, too.
        return f"RsaSignature({count} key{'s'[: count != 1]})"

    def authenticate(self, request: WebhookRequest, profile: Profile) -> str:
        """
        Return which of the keys signed the body, as ``Authenticator.authenticate`` describes.

        Its name is the first 16 hexadecimal digits of the fingerprint that ``game-operator keygen`` prints.
        """
        signature, body = _signature_in(request, profile.signature_header), request.body
        for name, key in self._keys.items():
            if verifies(key, signature, body):
                return name
        raise WebhookSignatureError(self._reason(signature, body))

    def _reason(self, signature: bytes, body: bytes) -> str:
        if len(signature) not in {key.key_size // 8 for key in self._keys.values()}:
            return f"the signature has {len(signature)} bytes, which does not fit any of the keys"
        if not body:
            return f"the body is empty. {LOST}"
        with self._lock:
            now = time.monotonic()
            is_due = now - self._diagnosed_at >= _SECONDS_BETWEEN_DIAGNOSES
            self._diagnosed_at = now if is_due else self._diagnosed_at
        forms = other_forms(body) if is_due else ()
        if any(verifies(key, signature, form) for form in forms for key in self._keys.values()):
            return (
                "the signature fits this body written in another form: the body was re-serialised on the way. Let the "
                "raw bytes through (proxy, gateway, middleware)"
            )
        return "the signature was not made by any of the keys, or is for another body"


@without_frames
def _loaded_keys(public_keys: Any) -> tuple[RSAPublicKey, ...]:  # Anything the user passes.
    if isinstance(public_keys, Path | str | bytes | RSAPublicKey):
        public_keys = [public_keys]
    if isinstance(public_keys, Mapping) or not isinstance(public_keys, Iterable):
        # A number is shown; anything else may hold a key.
        given = f" {shown(public_keys)}" if isinstance(public_keys, int | float) else ""
        raise TypeError(
            "public_keys must be a Path, a PEM, an RSAPublicKey or a list of them, not "
            f"{type(public_keys).__name__}{given}. Pass RsaSignature(Path('service.pub.pem'))."
        )
    keys = tuple(map(load_public_key, public_keys))
    if not keys:
        raise ConfigurationError(
            "RsaSignature needs the service's public key.", setting="public_keys", remedy="Ask the provider for it."
        )
    return keys


def _signature_in(request: WebhookRequest, header: str) -> bytes:
    text = request.only(header.lower().encode())
    if text is None:
        raise WebhookSignatureError(f"there is no header {header}")
    if len(text) <= _LONGEST_SIGNATURE:
        try:
            # Both alphabets, padded or not: services write either. The strict mode refuses all else.
            standard = text.replace("-", "+").replace("_", "/") + "=" * (-len(text) % 4)
            return a2b_base64(standard, strict_mode=True)
        except ValueError:
            pass
    raise WebhookSignatureError(f"the header {header} is not Base64; it has {len(text)} characters")


class HmacSignature:
    """
    HMAC-SHA256 over the raw body with a shared secret, for a service that signs so; in Base64 or hex.

    Args:
        secrets: One or several secrets of at least 16 bytes; several during a rotation.

    Attributes:
        covers_body: True: a changed or missing body is refused.

    Raises:
        ConfigurationError: There is no secret, or one is shorter than 16 bytes.
    """

    __slots__ = ("_secrets",)
    covers_body: ClassVar = True

    def __init__(self, secrets: Sequence[bytes] | bytes) -> None:
        self._secrets: tuple[Any, ...] = (secrets,) if isinstance(secrets, bytes) else tuple(secrets)
        if not self._secrets or not all(isinstance(each, bytes) and len(each) >= 16 for each in self._secrets):
            raise ConfigurationError("HmacSignature needs a secret of at least 16 bytes, as bytes", setting="secrets")

    def __repr__(self) -> str:
        count = len(getattr(self, "_secrets", ()))  # As RsaSignature does.
        return f"HmacSignature({count} secret{'s'[: count != 1]})"

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError("HmacSignature holds a secret and does not pickle; build it where it is used")

    def authenticate(self, request: WebhookRequest, profile: Profile) -> None:
        """Return if one of the secrets made the header, as ``Authenticator.authenticate`` describes."""
        header = profile.signature_header
        text = request.only(header.lower().encode()) or ""
        given = bytes.fromhex(text) if _HEX_DIGEST.fullmatch(text) else _signature_in(request, header)
        # Each secret is compared, and each in constant time, so the delay of the answer reveals nothing.
        matches = [hmac.compare_digest(hmac.digest(secret, request.body, sha256), given) for secret in self._secrets]
        if not any(matches):
            told = "the HMAC was not made with any of the secrets"
            why = "or is for another body" if request.body else f"and the body is empty. {LOST}"
            raise WebhookSignatureError(f"{told}, {why}")


_Network = IPv4Network | IPv6Network
_Address = IPv4Address | IPv6Address


class IpAllowList:
    """
    Lets calls in from some networks alone; best as one part of ``AllOf``.

    Args:
        networks: Addresses and networks, such as ``192.0.2.7`` and ``198.51.100.0/24``.
        trusted_proxies: Networks of your own proxies. Only for a call that comes from one of them is
            X-Forwarded-For read, from the right, up to the first address that is not one of them. It may have a port,
            brackets (IPv6) and quotes.
        trust_chunked: Whether X-Forwarded-For is read on a request with ``Transfer-Encoding: chunked`` too. Such a
            request may end in trailers, which strangers write and some servers append to the headers: behind a proxy
            that lets trailers through, everybody could name an address. True is safe where the server, or your proxy,
            drops trailers; docs/how-to/deploy.md lists servers. ``game-operator serve`` drops them, and passes True.

    Raises:
        ConfigurationError: A network is invalid, or there is none.
        TypeError: *trust_chunked* is not a bool.
    """

    __slots__ = ("_networks", "_proxies", "_trust_chunked")

    def __init__(
        self, networks: Iterable[str], *, trusted_proxies: Iterable[str] = (), trust_chunked: bool = False
    ) -> None:
        self._networks = _parsed_networks(networks)
        self._proxies = _parsed_networks(trusted_proxies, "trusted_proxies")
        if not isinstance(trust_chunked, bool):
            raise TypeError(f"trust_chunked must be True or False, not {shown(trust_chunked)}")
        self._trust_chunked = trust_chunked
        if not self._networks:
            raise ConfigurationError(
                "IpAllowList needs at least one network; an empty list would refuse every call", setting="networks"
            )

    def __repr__(self) -> str:
        networks = getattr(self, "_networks", ())  # As RsaSignature does.
        return f"IpAllowList([{', '.join(map(str, networks))}])"

    def authenticate(self, request: WebhookRequest, profile: Profile) -> None:  # noqa: ARG002 - the Protocol's
        """Return if the caller's address is in one of the networks, as ``Authenticator.authenticate`` describes."""
        address, named = self._caller(request)
        if address is None or not _within(address, self._networks):
            told = shown(request.peer)
            if named is not None:
                told = f"{shown(named) if named else 'of nobody'}, which the proxy {told} names in X-Forwarded-For,"
            raise WebhookSignatureError(f"the address {told} is not on the allow-list")

    def _caller(self, request: WebhookRequest) -> tuple[_Address | None, str | None]:
        """Return the caller's address, and what X-Forwarded-For says it is; None for who connected without a proxy."""
        address = _parsed_address(request.peer)
        if address is None or not _within(address, self._proxies):
            return address, None
        fields = [value for name, value in request.headers if name == b"x-forwarded-for"]
        if fields and not self._trust_chunked and any(name == b"transfer-encoding" for name, _ in request.headers):
            raise WebhookSignatureError(
                f"the proxy {shown(request.peer)} sent a chunked request, whose X-Forwarded-For may be a trailer, and "
                "anybody can write one. If your server or your proxy drops trailers, pass "
                "IpAllowList(trust_chunked=True); docs/how-to/deploy.md lists servers. Otherwise let the proxy send a "
                "Content-Length"
            )
        for hop in reversed(b",".join(fields).decode("latin-1").rsplit(",", _MOST_HOPS) if fields else ()):
            address = _forwarded_address(hop.strip())
            if address is None or not _within(address, self._proxies):
                return address, hop.strip()
        return None, ""  # Nobody but our own proxies is named.


def _parsed_networks(networks: Iterable[str], setting: str = "networks") -> tuple[_Network, ...]:
    if isinstance(networks, str):
        raise ConfigurationError(f"give a list of networks, not the text {shown(networks)}", setting=setting)
    try:
        return tuple(ip_network(str(each)) for each in networks)  # A number would be read as an address: 5 as 0.0.0.5.
    except ValueError as wrong:
        raise ConfigurationError(
            f"{wrong}; write an address or a network such as 198.51.100.0/24", setting=setting
        ) from None


def _parsed_address(text: object) -> _Address | None:
    try:
        address = ip_address(text if isinstance(text, str) else "")  # A number would be an address too.
    except ValueError:
        return None
    # A server that listens on both families shows 192.0.2.7 as ::ffff:192.0.2.7.
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


def _forwarded_address(text: str) -> _Address | None:
    """Return an address as proxies write it: bare, in brackets or in quotes, and with a port behind it."""
    if len(text) > 1 and text[0] == text[-1] == '"':
        text = text[1:-1]
    written = _WRITTEN_ADDRESS.fullmatch(text)
    return written and _parsed_address(written["bracketed"] or written["four"] or written["six"])


def _within(address: _Address, networks: tuple[_Network, ...]) -> bool:
    return any(address in network for network in networks)


def covers_body(authenticator: Authenticator) -> bool:
    """Return whether *authenticator* promises to refuse a changed or missing body; one that does not say, does not."""
    return getattr(authenticator, "covers_body", False) is True


class AllOf:
    """
    Accepts a call that each of *authenticators* accepts.

    Raises:
        ConfigurationError: No authenticator is given, so everybody would be accepted.
        TypeError: One of them is something else.
    """

    __slots__ = ("_authenticators",)

    def __init__(self, *authenticators: Authenticator) -> None:
        if not authenticators:
            raise ConfigurationError("AllOf needs at least one authenticator: AllOf() would accept every call")
        for each in authenticators:
            if isinstance(each, type) or not callable(getattr(each, "authenticate", None)):
                raise TypeError(f"AllOf is made of authenticators, not of {shown(each)}")
        self._authenticators = authenticators

    def __repr__(self) -> str:
        return f"AllOf({', '.join(map(repr, self._authenticators))})"

    @property
    def covers_body(self) -> bool:
        """Whether one of them covers the body; see ``Authenticator``."""
        return any(map(covers_body, self._authenticators))

    def authenticate(self, request: WebhookRequest, profile: Profile) -> str | None:
        """
        Return if all accept, else raise what the first to refuse raises; see ``Authenticator.authenticate``.

        The key is that of the first part that names one.
        """
        keys = [authenticator.authenticate(request, profile) for authenticator in self._authenticators]
        return next(filter(None, keys), None)


class AcceptUnsigned:
    """Accepts every call, for work on your own machine. Warns once in a process."""

    __slots__ = ()
    _warned = False

    def __init__(self) -> None:
        if not AcceptUnsigned._warned:
            AcceptUnsigned._warned = True
            warnings.warn(
                "AcceptUnsigned lets anybody move your players' money. Use RsaSignature outside your own machine.",
                stacklevel=2,
            )

    def __repr__(self) -> str:
        return "AcceptUnsigned()"

    def authenticate(self, request: WebhookRequest, profile: Profile) -> None:
        """Return for every call; see ``Authenticator.authenticate``."""


#: A longer body, or one of more objects and arrays, is not looked into: a stranger must not make us work.
_LONGEST_REWRITTEN = 16_384
_MOST_NESTED = 64
_BOM = b"\xef\xbb\xbf"
#: What stands for a comma and for a colon, and the indent of each level.
_LAYOUTS: tuple[tuple[tuple[str, str], int | str | None], ...] = (
    ((",", ":"), None),
    ((", ", ": "), None),
    ((",", ": "), None),
    ((",", ": "), 2),
    ((",", ": "), 4),
    ((",", ": "), "\t"),
)


def other_forms(body: bytes) -> Iterator[bytes]:
    """Yield *body* as common JSON writers would have written it."""
    yield from (body.strip(), body + b"\n", body + b"\r\n", _BOM + body, body.removeprefix(_BOM))
    if len(body) > _LONGEST_REWRITTEN or body.count(b"{") + body.count(b"[") > _MOST_NESTED:
        return
    try:
        value = json.loads(body.removeprefix(_BOM))
    except (ValueError, RecursionError):
        return
    texts = [
        json.dumps(value, ensure_ascii=ascii_only, separators=separators, indent=indent)
        for ascii_only, (separators, indent) in product((False, True), _LAYOUTS)
    ]
    for text in dict.fromkeys(texts + [text.replace("/", r"\/") for text in texts]):  # PHP escapes slashes.
        form = text.encode("utf-8", "surrogatepass")
        yield form
        yield form + b"\n"
