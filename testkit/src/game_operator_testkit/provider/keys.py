"""The keys that webhooks are signed with, and the headers that they put on a request (assumed, docs/decisions/0011)."""

from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable
from functools import cache, cached_property, lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Final, Protocol, TypeAlias

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey, generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from game_operator.errors import without_frames
from game_operator.protocol.http import HeaderPairs
from game_operator.protocol.signing import MIN_KEY_BITS, Signature
from game_operator.signers.keys import LocalSigner, load_public_key, load_signer
from game_operator_testkit.provider.requests import KeyName, Request

#: The service's private key: a path, PEM text or bytes, a key object, or a signer that holds one.
SigningKey: TypeAlias = Path | str | bytes | RSAPrivateKey | LocalSigner

#: Each balance is asked for many times, and the signature of the same bytes is the same.
_REMEMBERED: Final = 1_024
_JSON: Final = (b"Content-Type", b"application/json")


def new_key() -> RSAPrivateKey:
    """Return a new key of the length that is asked for."""
    return generate_private_key(65537, MIN_KEY_BITS)


def fingerprint(key: RSAPublicKey) -> str:
    """Return the SHA-256 of the key's DER as openssl prints it: ``AB:CD:…``."""
    return sha256(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).digest().hex(":").upper()


def private_pem(key: RSAPrivateKey) -> bytes:
    """Return *key* as PKCS#8 PEM."""
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


@without_frames
def loaded(key: SigningKey, name: str = "the service's key", passphrase: str | None = None) -> LocalSigner:
    """
    Return the signer that holds *key*, which *passphrase* opens; *name* is what a TypeError calls it.

    Raises:
        SigningKeyError: It cannot be used.
        TypeError: It is of another type.
    """
    signer = key if isinstance(key, LocalSigner) else load_signer(key, passphrase)
    if not isinstance(signer, LocalSigner):
        raise TypeError(f"{name} must be a Path, a PEM as str or bytes, or an RSAPrivateKey")
    return signer


class KeyKeeper(Protocol):
    """Keeps the service's keys over a restart."""

    @property
    def where(self) -> str:
        """Where they are, for people."""

    def keep(self, following: RSAPrivateKey) -> None:
        """Keep *following* as the key, and the present one as the old one; raise ConfigurationError if it cannot."""


class ServiceKeys:
    """
    Signs requests by the key that each asks for.

    Args:
        current: The service's private key.
        old: The key before a rotation; None makes one when it is first needed.
        retired: A key that the wallet accepts no longer.

    Raises:
        SigningKeyError: A key cannot be used.
        TypeError: A key is of another type.
    """

    @without_frames
    def __init__(
        self,
        current: SigningKey,
        old: SigningKey | None = None,
        *,
        retired: SigningKey | None = None,
    ) -> None:
        #: The key after a rotation, or None if there is none yet.
        self.following: RSAPrivateKey | None = None
        self.current: LocalSigner = loaded(current)
        #: The key before a rotation, if there was one.
        self.previous: LocalSigner | None = None if old is None else loaded(old)
        self._retired = None if retired is None else loaded(retired)
        self._sign = lru_cache(_REMEMBERED)(self._signed)

    @staticmethod
    @without_frames
    def maker(current: SigningKey | None, old: SigningKey | None) -> "Callable[[], ServiceKeys]":
        """Return what makes keys: of *current*, or of a new one once it is needed; both are looked at now."""
        previous = None if old is None else loaded(old)
        given = None if current is None else ServiceKeys(current, previous)
        return lambda: given or ServiceKeys(new_key(), previous)

    def prepared(self) -> RSAPrivateKey:
        """Return the key after the next rotation, made at the first call. It signs nothing before."""
        self.following = self.following or new_key()
        return self.following

    def rotated(self) -> "ServiceKeys":
        """Return keys whose current one is the prepared one of these, and whose old one is their current one."""
        return ServiceKeys(self.prepared(), self.current)

    @cached_property
    def fingerprint(self) -> str:
        """The SHA-256 of the current public key's DER as openssl prints it, to compare it by."""
        return fingerprint(load_public_key(self.current.public_key_pem()))

    @cached_property
    def old(self) -> LocalSigner:
        """The key before a rotation, made if there was none: a wallet must not accept it any more."""
        return self.previous or LocalSigner(new_key())

    def signature(self, request: Request) -> Signature:
        """Return the value of the signature header for *request*."""
        seal = request.seal
        raw = self._sign(seal.key or "service", request.body if seal.over is None else seal.over)
        if seal.form == "url-safe":
            return Signature.of(raw)
        encoded = (urlsafe_b64encode if seal.form.startswith("url-safe") else b64encode)(raw)
        return Signature(encoded if seal.form.endswith("padded") else encoded.rstrip(b"="))

    def headers(self, request: Request, header: str) -> HeaderPairs:
        """Return the headers of *request*, its signature among them under the name *header*."""
        given = tuple((name.encode("latin-1"), value.encode("latin-1")) for name, value in request.headers)
        named = any(name.lower() == b"content-type" for name, _ in given)
        given = given if named else (_JSON, *given)
        seal = request.seal
        if seal.literal is not None:
            written = seal.literal.encode("latin-1")
        elif seal.key is None:
            return given
        else:
            written = self.signature(request)
        header = seal.header or header
        return given + (((header.upper() if seal.upper else header).encode(), written),) * seal.times

    def _signed(self, key: KeyName, message: bytes) -> bytes:
        match key:
            case "service":
                return self.current.sign(message)
            case "old":
                return self.old.sign(message)
            case "retired":
                assert self._retired is not None
                return self._retired.sign(message)
            case "stranger":
                return stranger().sign(message)


class ThrowAwayKeys:
    """The operator's key and the service's, made when first used and never kept: for any number of sandboxes."""

    @cached_property
    def operator(self) -> RSAPrivateKey:
        """What the operator signs its calls with (spec §5)."""
        return new_key()

    @cached_property
    def service(self) -> ServiceKeys:
        """What webhooks are signed with, and the keys that they must not be signed with."""
        return ServiceKeys(new_key())


@cache
def stranger() -> LocalSigner:
    """Return a key that no wallet knows; one for this process, because making it takes longer than most scenarios."""
    return LocalSigner(new_key())
