"""From a PEM, a file, the environment or a key object to a signer that holds the key, loaded and checked once."""

import inspect
from pathlib import Path
from typing import TypeAlias, TypeVar

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)

from game_operator.errors import SigningKeyError
from game_operator.protocol.signing import MIN_KEY_BITS, sign
from game_operator.signers.api import AsyncSigner, Signer

__all__ = [
    "KeySource",
    "LocalSigner",
    "PublicKeySource",
    "checked_signature",
    "is_async",
    "load_public_key",
    "load_signer",
    "public_key_of",
]

#: What stands for a private key in this package: a path, PEM text or bytes, a key object, or a signer.
KeySource: TypeAlias = Path | str | bytes | RSAPrivateKey | Signer | AsyncSigner
#: What stands for a public key: a path, PEM text or bytes, or a key object.
PublicKeySource: TypeAlias = Path | str | bytes | RSAPublicKey

_Key = TypeVar("_Key", RSAPrivateKey, RSAPublicKey)

_MAKE_ONE = "Pass the operator's RSA private key of at least 2048 bits, or make a pair with `game-operator keygen`."


class LocalSigner:
    """Signs with a key in this process; it cannot be pickled, and its ``repr`` shows the size of the key alone."""

    __slots__ = ("_key",)

    def __init__(self, key: RSAPrivateKey) -> None:
        self._key = key

    def sign(self, message: bytes) -> bytes:
        """Return the raw signature of *message* (spec §5)."""
        return sign(self._key, message)

    def public_key_pem(self) -> bytes:
        """Return the public key to register with the provider, in PEM."""
        return self._key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)

    def __repr__(self) -> str:
        return f"LocalSigner(RSA, {self._key.key_size} bits)"

    def __reduce__(self) -> str:
        raise TypeError("a LocalSigner holds a private key and is not pickled; load the key in each process instead")


def load_signer(source: KeySource, passphrase: str | bytes | None = None) -> Signer | AsyncSigner:
    """
    Return the signer for *source*; a key is loaded, checked and kept.

    Raises:
        SigningKeyError: The key is unreadable, encrypted, public, not RSA, or under 2048 bits.
    """
    if isinstance(source, RSAPrivateKey):
        return LocalSigner(_long_enough(source, "The private key"))
    if isinstance(source, Path | str | bytes):
        name, pem = _read(source, "private_key")
        return LocalSigner(_private_key(name, pem, passphrase))
    if isinstance(source, Signer):
        return source
    raise TypeError(
        "private_key must be a Path, a PEM as str or bytes, an RSAPrivateKey or an object with a sign method, "
        f"not {type(source).__name__}"
    )


def load_public_key(source: PublicKeySource) -> RSAPublicKey:
    """
    Return the RSA public key in *source*.

    Raises:
        SigningKeyError: It cannot be read, is private, or is not RSA.
    """
    if isinstance(source, RSAPublicKey):
        return source
    if not isinstance(source, Path | str | bytes):
        raise TypeError(f"public_key must be a Path, a PEM or an RSAPublicKey, not {type(source).__name__}")
    name, pem = _read(source, "public_key")
    if b"PRIVATE KEY" in pem:
        raise SigningKeyError(f"{name} holds a private key where the public one is wanted. Pass the public key.")
    try:
        key = load_pem_public_key(pem)
    except (ValueError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, RSAPublicKey):
        raise SigningKeyError(f"{name} holds no RSA public key in PEM. Pass the file `game-operator keygen` wrote.")
    return _long_enough(key, name)


def is_async(signer: Signer | AsyncSigner) -> bool:
    """Return whether *signer* has to be awaited."""
    return inspect.iscoroutinefunction(signer.sign)


def checked_signature(raw: object) -> bytes:
    """
    Return *raw*, which some signer returned, if it can be an RSA signature of at least 2048 bits.

    Raises:
        SigningKeyError: It is shorter: the signer's key is too short, or not RSA.
        TypeError: It is not bytes.
    """
    if not isinstance(raw, bytes):
        raise TypeError(f"a signer's sign method must return bytes, not {type(raw).__name__}")
    if len(raw) < MIN_KEY_BITS // 8:
        size = len(raw)
        del raw
        raise SigningKeyError(
            f"The signer returned a signature of {size} bytes; RSA with {MIN_KEY_BITS} bits makes "
            f"{MIN_KEY_BITS // 8}. Its key is too short or not RSA. {_MAKE_ONE}"
        )
    return raw


def public_key_of(signer: Signer | AsyncSigner) -> RSAPublicKey | None:
    """Return the public key that *signer* tells of itself, or None if it does not."""
    tell = getattr(signer, "public_key_pem", None)
    return None if tell is None else load_public_key(tell())


def _read(source: Path | str | bytes, argument: str) -> tuple[str, bytes]:
    """Return what to call the key in a message, and its PEM. The PEM itself is never part of a message."""
    if isinstance(source, bytes):
        return f"The PEM passed as {argument}", source
    if isinstance(source, str):
        return f"The PEM passed as {argument}", _utf8(source, argument)
    try:
        return str(source), source.read_bytes()
    except OSError as failed:
        problem = failed.strerror or type(failed).__name__
    raise SigningKeyError(f"{source} cannot be read: {problem}. Check the path and the permissions of this process.")


def _utf8(text: str, argument: str) -> bytes:
    if "-----BEGIN" not in text:
        raise SigningKeyError(
            f"The text passed as {argument} is no PEM, which begins with '-----BEGIN'. "
            f"For a file, pass Path(...) instead of its name."
        )
    return text.encode("utf-8", "replace")


def _private_key(name: str, pem: bytes, passphrase: str | bytes | None) -> RSAPrivateKey:
    if b"PUBLIC KEY" in pem or b"CERTIFICATE" in pem:
        raise SigningKeyError(f"{name} holds a public key, but requests are signed with the private one. {_MAKE_ONE}")
    secret = passphrase.encode() if isinstance(passphrase, str) else passphrase
    encrypted = b"ENCRYPTED" in pem
    if encrypted and secret is None:
        raise SigningKeyError(f"{name} is encrypted. Pass its passphrase= as well.")
    try:
        key = load_pem_private_key(pem, secret if encrypted else None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        key = None
    if key is None:
        problem = "cannot be decrypted: wrong passphrase, or a damaged file" if encrypted else "is no readable key"
        raise SigningKeyError(f"{name} {problem}. {_MAKE_ONE}")
    if not isinstance(key, RSAPrivateKey):
        kind = type(key).__name__.removeprefix("_").removesuffix("PrivateKey")
        raise SigningKeyError(f"{name} holds a key of another kind ({kind}), but spec §5 asks for RSA. {_MAKE_ONE}")
    return _long_enough(key, name)


def _long_enough(key: _Key, name: str) -> _Key:
    if key.key_size < MIN_KEY_BITS:
        raise SigningKeyError(f"{name} has {key.key_size} bits; under {MIN_KEY_BITS} it can be broken. {_MAKE_ONE}")
    return key
