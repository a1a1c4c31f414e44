"""
Signers: what one has to do, one that holds a key of this process, and one that remembers signatures (spec §5).

A key comes from a PEM, a file or a key object, and is loaded and checked once. An error about a key does not hold it:
the functions below that see a PEM or a passphrase *return* their errors, and those that raise have let go of both. An
error tracker shows the locals of every frame that an error passes.
"""

import functools
import inspect
import re
from base64 import b64decode
from functools import lru_cache
from pathlib import Path
from typing import Final, Protocol, TypeAlias, runtime_checkable

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)

from game_operator.errors import SigningKeyError, shown
from game_operator.protocol.signing import MIN_KEY_BITS, Signature, sign


@runtime_checkable
class Signer(Protocol):
    """
    Signs with the operator's RSA private key, wherever that is kept.

    It may also have a method ``public_key_pem() -> bytes``, which spares ``SessionTokenBuilder`` its ``public_key``.
    """

    def sign(self, message: bytes) -> bytes:
        """Return the raw RSA-SHA256 signature, PKCS#1 v1.5, of *message* (spec §5)."""
        ...


@runtime_checkable
class AsyncSigner(Protocol):
    """The same as ``Signer``, awaited."""

    async def sign(self, message: bytes) -> bytes:
        """Return the raw RSA-SHA256 signature, PKCS#1 v1.5, of *message* (spec §5)."""
        ...


#: What stands for a private key in this package: a path, PEM text or bytes, a key object, or a signer.
KeySource: TypeAlias = Path | str | bytes | RSAPrivateKey | Signer | AsyncSigner
#: What stands for a public key: a path, PEM text or bytes, or a key object.
PublicKeySource: TypeAlias = Path | str | bytes | RSAPublicKey

_Problem: TypeAlias = SigningKeyError | TypeError

_LARGEST_FILE: Final = 65_536
_LONGEST_PATH_SHOWN: Final = 255
_BLOCK = re.compile(rb"-----BEGIN ([A-Z0-9 ]+)-----(.*?)-----END \1-----", re.DOTALL)
_PUBLIC = re.compile(rb"-----BEGIN (?:RSA )?PUBLIC KEY-----")
#: The object identifier of RSASSA-PSS, with its DER tag and length, as it stands near the start of a PKCS#8 key.
_PSS_OID: Final = b"\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x01\x0a"

_MAKE_ONE = "Pass the operator's RSA private key of at least 2048 bits, or make a pair with `game-operator keygen`."
_WANT_PUBLIC = "Pass the public RSA key, in the file that `game-operator keygen` wrote."
_COPY_AGAIN = "Copy it again from where it was made, to the last line."
_PSS = f"may make PSS signatures alone, and ours are PKCS#1 v1.5. {_MAKE_ONE}"


class LocalSigner:
    """
    Signs with a key in this process; it cannot be pickled, and its ``repr`` shows the size of the key alone.

    Copying it gives the same object back, since nothing about it can change.

    Raises:
        SigningKeyError: The key has under 2048 bits.
    """

    __slots__ = ("_key",)

    def __init__(self, key: RSAPrivateKey) -> None:
        self._key = key
        if problem := _too_short(key, "The private key"):
            raise problem

    def sign(self, message: bytes) -> bytes:
        """Return the raw signature of *message* (spec §5)."""
        return sign(self._key, message)

    def public_key_pem(self) -> bytes:
        """Return the public key to register with the provider, in PEM."""
        return self._key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)

    def __repr__(self) -> str:
        return f"LocalSigner(RSA, {self._key.key_size} bits)"

    def __copy__(self) -> "LocalSigner":
        return self

    def __deepcopy__(self, memo: object) -> "LocalSigner":
        return self

    def __reduce__(self) -> str:
        raise TypeError("a LocalSigner holds a private key and is not pickled; load the key in each process instead")


def load_signer(source: KeySource, passphrase: str | bytes | None = None) -> Signer | AsyncSigner:
    r"""
    Return the signer for *source*; a key is loaded, checked and kept.

    Args:
        source: A path, PEM text or bytes, an ``RSAPrivateKey`` or a signer. In a PEM, text around the key, Windows
            line ends and line breaks written as the two characters ``\n`` are all understood.
        passphrase: For an encrypted PEM. One given for a key that is not encrypted is refused: whoever set it
            believes the key to be safe at rest, and it is not.

    Raises:
        SigningKeyError: The key is unreadable, still encrypted, public, not RSA, or under 2048 bits.
        TypeError: *source* is none of the kinds above.
    """
    signer = _signer(source, passphrase)
    del source, passphrase
    if isinstance(signer, Exception):
        raise signer
    return signer


def load_public_key(source: PublicKeySource) -> RSAPublicKey:
    """
    Return the RSA public key in *source*.

    Raises:
        SigningKeyError: It cannot be read, is private, is not RSA, or is under 2048 bits.
        TypeError: *source* is neither a path, nor a PEM, nor an ``RSAPublicKey``.
    """
    key = _public_key(source)
    del source
    if isinstance(key, Exception):
        raise key
    return key


def checked_signature(raw: object) -> bytes:
    """
    Return *raw*, which some signer returned, if it can be an RSA signature of at least 2048 bits.

    Raises:
        SigningKeyError: It is shorter: the signer's key is too short, or not RSA.
        TypeError: It is not bytes.
    """
    kind, size = type(raw), len(raw) if isinstance(raw, bytes) else 0
    if isinstance(raw, bytes) and size >= MIN_KEY_BITS // 8:
        return raw
    if inspect.iscoroutine(raw):
        raw.close()
    del raw
    if not issubclass(kind, bytes):
        raise TypeError(f"the sign method of a signer must return bytes, not {kind.__name__}")
    raise SigningKeyError(
        f"The signer returned a signature of {size} bytes, but that of an RSA key with {MIN_KEY_BITS} bits has "
        f"{MIN_KEY_BITS // 8}. Its key is too short, or not RSA. {_MAKE_ONE}"
    )


def is_async(signer: Signer | AsyncSigner) -> bool:
    """Return whether *signer* has to be awaited."""
    method = signer.sign
    while isinstance(method, functools.partial):
        method = method.func
    called = getattr(method, "__call__", None)  # noqa: B004 - an object may be callable by an async __call__
    return inspect.iscoroutinefunction(method) or inspect.iscoroutinefunction(called)


def public_key_of(signer: Signer | AsyncSigner) -> RSAPublicKey | None:
    """Return the public key that *signer* tells of itself, or None if it does not, or not without being awaited."""
    tell = getattr(signer, "public_key_pem", None)
    return None if tell is None or inspect.iscoroutinefunction(tell) else load_public_key(tell())


def _signer(source: object, passphrase: object) -> Signer | AsyncSigner | _Problem:
    if passphrase is not None and not isinstance(passphrase, str | bytes):
        return TypeError(f"passphrase must be a str or bytes, not {type(passphrase).__name__}")
    if isinstance(source, Path | str | bytes):
        name, pem = _read(source, "private_key")
        key = (
            SigningKeyError(f"{name} {pem}", setting="private_key")
            if isinstance(pem, str)
            else _private_key(name, pem, passphrase or None)
        )
        return LocalSigner(key) if isinstance(key, RSAPrivateKey) else key
    if passphrase:
        return SigningKeyError(
            "A passphrase was given with a key that is loaded already.",
            setting="passphrase",
            remedy="Leave the passphrase out.",
        )
    if isinstance(source, RSAPrivateKey):
        return _too_short(source, "The private key") or LocalSigner(source)
    if hasattr(source, "public_bytes") or hasattr(source, "private_bytes"):
        # A key object of another kind has a sign method too, which would sign what no service accepts.
        kind = _kind_of(source)
        return SigningKeyError(
            f"private_key is a key object of another kind ({kind}).", setting="private_key", remedy=_MAKE_ONE
        )
    if isinstance(source, Signer) and not isinstance(source, type):
        return source
    return TypeError(
        "private_key must be a Path, a PEM as str or bytes, an RSAPrivateKey or an object with a sign method, "
        + (f"not the class {source.__name__}" if isinstance(source, type) else f"not {type(source).__name__}")
    )


def _private_key(name: str, pem: bytes, passphrase: str | bytes | None) -> RSAPrivateKey | SigningKeyError:
    block = _private_block(pem)
    key = _decrypted(block, passphrase) if isinstance(block, bytes) else block
    if isinstance(key, str):
        return SigningKeyError(f"{name} {key}", setting="private_key")
    if not isinstance(key, RSAPrivateKey):
        return SigningKeyError(
            f"{name} holds a key of another kind ({_kind_of(key)}), but spec §5 asks for RSA.",
            setting="private_key",
            remedy=_MAKE_ONE,
        )
    return _too_short(key, name) or key


def _private_block(pem: bytes) -> bytes | str:
    """Return the one private key in *pem*, or what is wrong."""
    blocks = {match[0]: match[1] for match in _BLOCK.finditer(pem)}
    private = [block for block, label in blocks.items() if label.endswith(b"PRIVATE KEY")]
    if len(private) == 1:
        # Tools that keep a value on one line write its line breaks so; base64 itself has no backslash.
        return re.sub(rb"(\\r)?\\n", b"\n", private[0])
    if private:
        return f"holds {len(private)} private keys, and which one signs is not clear. Keep one in the file."
    if b"PRIVATE KEY-----" in pem:
        return f"is damaged: its private key is cut off before the END line. {_COPY_AGAIN}"
    if any(b"PUBLIC KEY" in label for label in blocks.values()):
        return f"holds a public key, but requests are signed with the private one. {_MAKE_ONE}"
    if any(b"CERTIFICATE" in label for label in blocks.values()):
        return f"holds a certificate, but requests are signed with a private key. {_MAKE_ONE}"
    return f"holds no private key. {_MAKE_ONE}"


def _decrypted(block: bytes, passphrase: str | bytes | None) -> object:
    """Return the key in *block*, or as a str what is wrong."""
    encrypted = b"ENCRYPTED" in block
    if block.startswith(b"-----BEGIN OPENSSH"):
        return "is in the format of OpenSSH. Convert a copy of it with `ssh-keygen -p -m PKCS8 -f COPY`."
    if encrypted and passphrase is None:
        return "is encrypted. Pass its passphrase (GAME_OPERATOR_PRIVATE_KEY_PASSPHRASE) as well."
    if passphrase is not None and not encrypted:
        return (
            "is not encrypted, but a passphrase was given. Leave the passphrase (GAME_OPERATOR_PRIVATE_KEY_PASSPHRASE) "
            "out, or encrypt the key with `openssl pkcs8 -topk8 -in KEY -out NEW`."
        )
    try:
        # The environment hands over bytes that are no UTF-8 as lone surrogates; these turn them back.
        secret = passphrase.encode("utf-8", "surrogateescape") if isinstance(passphrase, str) else passphrase
        return _PSS if _is_for_pss(block) else load_pem_private_key(block, secret)
    except UnsupportedAlgorithm:
        return "has a cipher that cannot be read here. Convert it with `openssl pkcs8 -topk8 -in KEY -out NEW`."
    except (ValueError, TypeError):
        if encrypted:
            return "cannot be decrypted: the passphrase is wrong, or the key is damaged. Check the passphrase first."
        return f"is damaged: it looks like a private key and cannot be read as one. {_COPY_AGAIN}"


def _is_for_pss(block: bytes) -> bool:
    """Return whether an open PKCS#8 *block* says that its key makes PSS signatures alone, which loading it forgets."""
    parts = _BLOCK.match(block)
    return parts is not None and parts[1] == b"PRIVATE KEY" and _PSS_OID in b64decode(parts[2])[:32]


def _public_key(source: object) -> RSAPublicKey | _Problem:
    if isinstance(source, RSAPublicKey):
        return _too_short(source, "The public key") or source
    if not isinstance(source, Path | str | bytes):
        return TypeError(f"public_key must be a Path, a PEM or an RSAPublicKey, not {type(source).__name__}")
    name, pem = _read(source, "public_key")
    if isinstance(pem, str):
        return SigningKeyError(f"{name} {pem}", setting="public_key")
    found = _public_key_in(pem)
    if isinstance(found, str):
        return SigningKeyError(f"{name} holds {found}.", setting="public_key", remedy=_WANT_PUBLIC)
    return _too_short(found, name) or found


def _public_key_in(pem: bytes) -> RSAPublicKey | str:
    """Return the one public key in *pem*, or what it holds instead."""
    if b"PRIVATE KEY" in pem:
        return "a private key where the public one is wanted"
    number = len(_PUBLIC.findall(pem))
    if number > 1:  # Loading takes the first one alone, and every call that another one signed would be refused.
        return f"{number} public keys, and which one counts is not clear. Pass each in its own PEM"
    if not number and b"-----BEGIN CERTIFICATE-----" in pem:
        return "a certificate. Take its key out with `openssl x509 -in FILE -pubkey -noout`"
    try:
        key = load_pem_public_key(pem)
    except (ValueError, UnsupportedAlgorithm):
        return "no readable public key"
    return key if isinstance(key, RSAPublicKey) else f"a key of another kind ({_kind_of(key)}), not RSA"


def _read(source: Path | str | bytes, argument: str) -> tuple[str, bytes | str]:
    """Return what to call the key in a message, and its PEM as bytes, or as a str what is wrong."""
    if isinstance(source, Path):
        return _read_file(source)
    pem = source if isinstance(source, bytes) else source.encode("utf-8", "replace")
    problem = _not_pem(pem)
    if problem.startswith("is no PEM"):
        problem += " For a file, pass Path(...) instead of its name."
    return f"The PEM passed as {argument}", problem or pem


def _read_file(path: Path) -> tuple[str, bytes | str]:
    name = str(path)
    if "-----" in name or "\n" in name or len(name) > _LONGEST_PATH_SHOWN:
        return (
            "A path given for a key",
            "looks like the key itself, and not like the name of a file.",
        )
    try:
        with path.open("rb") as file:
            pem = file.read(_LARGEST_FILE + 1)
    except (OSError, ValueError) as failed:
        problem = getattr(failed, "strerror", None) or type(failed).__name__
        return shown(name), f"cannot be read: {problem}. Check the path and the permissions of this process."
    if len(pem) > _LARGEST_FILE:
        return shown(name), f"is larger than {_LARGEST_FILE} bytes, which no key is. Check the path."
    return shown(name), _not_pem(pem) or pem


def _not_pem(data: bytes) -> str:
    """Return what is wrong with *data* if it is no PEM at all, or ""."""
    if b"-----BEGIN " in data:
        return ""
    if not data.strip():
        return "is empty. Check that the file or variable was filled in."
    if data.startswith(b"\x30"):
        return (
            "is in DER, not PEM. Convert it with `openssl pkey -inform DER -in KEY -out KEY.pem`, a public key with "
            "-pubin."
        )
    return "is no PEM, which begins with '-----BEGIN'."


def _too_short(key: RSAPrivateKey | RSAPublicKey, name: str) -> SigningKeyError | None:
    if key.key_size >= MIN_KEY_BITS:
        return None
    return SigningKeyError(f"{name} has {key.key_size} bits; under {MIN_KEY_BITS} it can be broken.", remedy=_MAKE_ONE)


def _kind_of(key: object) -> str:
    name = type(key).__name__.removeprefix("_")
    return name.removesuffix("PrivateKey") or name


_REMEMBERED = 1024


class RememberedSignatures:
    """A ``Signer`` with a memory; safe to share between threads."""

    def __init__(self, signer: Signer, forever: bytes) -> None:
        self._signer = signer
        self._forever = forever
        self._first: Signature | None = None
        self._recent = lru_cache(_REMEMBERED)(self._fresh)

    def sign(self, message: bytes) -> Signature:
        """
        Return the X-Signature header for *message*.

        Raises:
            SigningKeyError: The signer's key is too short, or not RSA; or whatever the signer raises.
        """
        if message != self._forever:
            return self._recent(message)
        if self._first is None:
            self._first = self._fresh(message)
        return self._first

    def _fresh(self, message: bytes) -> Signature:
        return Signature.of(checked_signature(self._signer.sign(message)))


class RememberedAsyncSignatures:
    """The same as ``RememberedSignatures`` for an ``AsyncSigner``; event loops in several threads may share one."""

    def __init__(self, signer: AsyncSigner, forever: bytes) -> None:
        self._signer = signer
        self._forever = forever
        self._first: list[Signature] = []
        # Each message has a slot, empty until it is signed: lru_cache cannot await, but it keeps slots well.
        self._recent = lru_cache(_REMEMBERED)(_empty_slot)

    async def sign(self, message: bytes) -> Signature:
        """
        Return the X-Signature header for *message*.

        Raises:
            SigningKeyError: The signer's key is too short, or not RSA; or whatever the signer raises.
        """
        slot = self._first if message == self._forever else self._recent(message)
        if not slot:
            slot.append(Signature.of(checked_signature(await self._signer.sign(message))))
        return slot[0]


def _empty_slot(message: bytes) -> list[Signature]:  # noqa: ARG001 - lru_cache keys on it
    return []
