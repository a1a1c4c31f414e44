"""
Signers: what one has to do, one that holds a key of this process, and one that remembers signatures (spec §5).

A key comes from a PEM, a file or a key object, and is loaded and checked once. An error about a key does not hold it:
error trackers show the locals of every frame, so errors leave the functions that see a PEM ``without_frames``.
"""

import inspect
import re
from collections.abc import Callable
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Final, Protocol, TypeAlias, cast, runtime_checkable

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey

from game_operator.errors import SigningKeyError, shown, without_frames
from game_operator.protocol.signing import MIN_KEY_BITS, Signature, sign


@runtime_checkable
class Signer(Protocol):
    """
    Signs with the operator's RSA private key, wherever that is kept.

    It may also have a method ``public_key_pem() -> bytes``, which spares ``SessionTokenBuilder`` its ``public_key``.
    """

    def sign(self, message: bytes) -> bytes:
        """Return the raw RSA-SHA256 signature, PKCS#1 v1.5, of *message* (spec §5)."""


@runtime_checkable
class AsyncSigner(Protocol):
    """The same as ``Signer``, awaited."""

    async def sign(self, message: bytes) -> bytes:
        """Return the raw RSA-SHA256 signature, PKCS#1 v1.5, of *message* (spec §5)."""


KeySource: TypeAlias = Path | str | bytes | RSAPrivateKey | Signer | AsyncSigner
"""What stands for a private key in this package: a path, PEM text or bytes, a key object, or a signer (spec §5)."""
PublicKeySource: TypeAlias = Path | str | bytes | RSAPublicKey
"""What stands for a public key: a path, PEM text or bytes, or a key object."""

#: No key is longer. A path may lead to a file without end.
_LARGEST_FILE: Final = 65_536
_LONGEST_PATH_SHOWN: Final = 255
_BLOCK = re.compile(rb"-----BEGIN ([A-Z0-9 ]+)-----(.*?)-----END \1-----", re.DOTALL)
_PUBLIC = re.compile(rb"-----BEGIN (?:RSA )?PUBLIC KEY-----")
#: The headers of an encrypted PKCS#1 key, whose length shows where they end if the line ends are lost.
_HEADERS = re.compile(
    rb"\s*(Proc-Type: 4,ENCRYPTED)\s*(DEK-Info: (?:AES-[0-9]{3}-CBC,[0-9A-Fa-f]{32}|DES-EDE3-CBC,[0-9A-Fa-f]{16}))"
)
#: What a file or an .env reader leaves around a passphrase.
_LINE_ENDS: Final = ("\n", "\r", b"\n", b"\r")
_QUOTES: Final = ('"', "'", b'"', b"'")

_MAKE_ONE = "Pass an RSA private key of at least 2048 bits, or make a pair with `game-operator keygen`."
_WANT_PUBLIC = "Pass the public RSA key, in the file that `game-operator keygen` wrote."
_COPY_AGAIN = "Copy it again from where it was made, to the last line."
_CONVERT = "Convert it with `openssl pkcs8 -topk8 -in KEY -out NEW`."


class LocalSigner:
    """
    Signs with a key in this process; it cannot be pickled, and its ``repr`` shows the size of the key alone.

    Args:
        key: The operator's RSA private key (spec §5).

    Raises:
        SigningKeyError: The key has under 2048 bits.
    """

    __slots__ = ("_key",)

    def __init__(self, key: RSAPrivateKey) -> None:
        self._key = key
        _check_size(key, "The private key")

    def sign(self, message: bytes) -> bytes:
        """Return the raw signature of *message* (spec §5)."""
        return sign(self._key, message)

    def public_key_pem(self) -> bytes:
        """Return the public key to register with the provider, in PEM."""
        form = serialization.PublicFormat.SubjectPublicKeyInfo
        return self._key.public_key().public_bytes(serialization.Encoding.PEM, form)

    def __repr__(self) -> str:
        return f"LocalSigner(RSA, {self._key.key_size} bits)"

    def __reduce__(self) -> str:
        raise TypeError("a LocalSigner holds a private key and is not pickled; load the key in each process instead")


@without_frames
def load_signer(source: KeySource, passphrase: str | bytes | None = None) -> Signer | AsyncSigner:
    r"""
    Return the signer for *source*; a key is loaded, checked and kept.

    Args:
        source: A path, PEM text or bytes, an ``RSAPrivateKey`` or a signer. In a PEM, text around the key, Windows
            line ends, and line ends that are lost, indented or written as the two characters ``\n`` are understood.
        passphrase: For an encrypted PEM. A passphrase for a key that is not encrypted is refused: it says that the key
            is believed to be safe at rest, and the key is not.

    Raises:
        SigningKeyError: The key is unreadable, still encrypted, public, not RSA, or under 2048 bits.
        TypeError: *source* is of another kind.
    """
    given: object = source
    if passphrase is not None and not isinstance(passphrase, str | bytes):
        raise TypeError(f"passphrase must be a str or bytes, not {type(passphrase).__name__}")
    if isinstance(given, Path | str | bytes):
        name, pem = _read(given, "private_key")
        key = _decrypted(name, _private_block(name, pem), passphrase or None)
        if not isinstance(key, RSAPrivateKey):
            raise _unfit(name, f"holds a key of another kind ({_kind_of(key)}), but spec §5 asks for RSA", _MAKE_ONE)
        _check_size(key, name)
        return LocalSigner(key)
    if passphrase:
        raise SigningKeyError(
            "A passphrase was given with a key that is loaded already.",
            setting="passphrase",
            remedy="Leave the passphrase out.",
        )
    if isinstance(given, RSAPrivateKey):
        return LocalSigner(given)
    if hasattr(given, "public_bytes") or hasattr(given, "private_bytes"):
        # A key object of another kind has a sign method too, which would sign what no service accepts.
        raise _unfit("private_key", f"is a key object of another kind ({_kind_of(given)})", _MAKE_ONE)
    if isinstance(given, Signer) and not isinstance(given, type):
        return given
    raise TypeError(
        "private_key must be a Path, a PEM as str or bytes, an RSAPrivateKey or an object with a sign method, "
        + (f"not the class {given.__name__}" if isinstance(given, type) else f"not {type(given).__name__}")
    )


@without_frames
def load_public_key(source: PublicKeySource) -> RSAPublicKey:
    """
    Return the RSA public key in *source*.

    Raises:
        SigningKeyError: It cannot be read, is private, is not RSA, or is under 2048 bits.
        TypeError: *source* is neither a path, nor a PEM, nor an ``RSAPublicKey``.
    """
    if isinstance(source, RSAPublicKey):
        name, key = "The public key", source
    elif isinstance(source, Path | str | bytes):
        name, pem = _read(source, "public_key")
        key = _public_key_in(name, pem)
    else:
        raise TypeError(f"public_key must be a Path, a PEM or an RSAPublicKey, not {type(source).__name__}")
    _check_size(key, name)
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
        f"{MIN_KEY_BITS // 8}. Its key is too short, or not RSA.",
        setting="private_key",
        remedy=_MAKE_ONE,
    )


def is_async(signer: Signer | AsyncSigner) -> bool:
    """Return whether *signer* has to be awaited."""
    return inspect.iscoroutinefunction(signer.sign)


async def signed_async(signer: Signer | AsyncSigner, message: bytes) -> bytes:
    """
    Return the raw signature of *message*, made without blocking the event loop.

    A key of this process signs at once: it takes under a millisecond, OpenSSL lets go of the interpreter meanwhile, and
    a thread would cost more. Another signer that is not awaited, such as a key management service, signs in a worker
    thread, which is left behind when the call is cancelled.
    """
    if is_async(signer):
        return await cast("AsyncSigner", signer).sign(message)
    blocking = cast("Signer", signer)
    if isinstance(blocking, LocalSigner):
        return blocking.sign(message)
    from anyio import to_thread  # Here, because a process of webhooks needs keys and no anyio.

    return await to_thread.run_sync(blocking.sign, message, abandon_on_cancel=True)


def public_key_of(signer: Signer | AsyncSigner) -> RSAPublicKey | None:
    """Return the public key of *signer*, or None if it does not give one, or only when it is awaited."""
    give = getattr(signer, "public_key_pem", None)
    return None if give is None or inspect.iscoroutinefunction(give) else load_public_key(give())


def _unfit(name: str, problem: str, remedy: str, argument: str = "private_key") -> SigningKeyError:
    return SigningKeyError(f"{name} {problem}.", setting=argument, remedy=remedy)


def _private_block(name: str, pem: bytes) -> bytes:
    """Return the one private key in *pem*."""
    blocks = {match[0]: match[1] for match in _BLOCK.finditer(pem)}
    private = [block for block, label in blocks.items() if label.endswith(b"PRIVATE KEY")]
    if len(private) == 1:
        return _with_line_ends(name, private[0])
    if private:
        problem = f"holds {len(private)} private keys, and which one signs is not clear"
        raise _unfit(name, problem, "Keep one in the file.")
    if b"PRIVATE KEY-----" in pem:
        raise _unfit(name, "is damaged: its private key is cut off before the END line", _COPY_AGAIN)
    if any(b"PUBLIC KEY" in label for label in blocks.values()):
        raise _unfit(name, "holds a public key, but requests are signed with the private one", _MAKE_ONE)
    if any(b"CERTIFICATE" in label for label in blocks.values()):
        raise _unfit(name, "holds a certificate, but requests are signed with a private key", _MAKE_ONE)
    raise _unfit(name, "holds no private key", _MAKE_ONE)


def _with_line_ends(name: str, block: bytes) -> bytes:
    """Return *block* with the line ends that hosting panels, secret stores and .env files lose, escape or indent."""
    # Neither base64 nor a header has a backslash.
    text = re.sub(rb"\\+[rn]", b"\n", block)
    headers, parts = b"", _BLOCK.fullmatch(text)
    assert parts is not None  # An escape is no part of the first or the last line.
    label, body = parts.groups()
    if found := _HEADERS.match(body):
        headers, body = b"%b\n%b\n\n" % found.groups(), body[found.end() :]
    elif b"DEK-Info" in body or b"Proc-Type" in body:
        problem = "has a cipher that cannot be read here, or its lines Proc-Type and DEK-Info are damaged"
        raise _unfit(name, problem, f"{_COPY_AGAIN} {_CONVERT}")
    return b"-----BEGIN %b-----\n%b%b\n-----END %b-----\n" % (label, headers, b"\n".join(body.split()), label)


def _decrypted(name: str, block: bytes, passphrase: str | bytes | None) -> object:
    """Return the key in *block*, of any kind."""
    encrypted = b"ENCRYPTED" in block
    if block.startswith(b"-----BEGIN OPENSSH"):
        remedy = "Convert a copy of it with `ssh-keygen -p -m PKCS8 -f COPY`."
        raise _unfit(name, "is in the format of OpenSSH", remedy)
    if encrypted and passphrase is None:
        remedy = "Pass its passphrase (GAME_OPERATOR_PRIVATE_KEY_PASSPHRASE or …_PASSPHRASE_FILE) as well."
        raise _unfit(name, "is encrypted", remedy)
    if passphrase is not None and not encrypted:
        remedy = (
            "Leave the passphrase (GAME_OPERATOR_PRIVATE_KEY_PASSPHRASE) out, or encrypt the key with "
            "`openssl pkcs8 -topk8 -in KEY -out NEW`."
        )
        raise _unfit(name, "is not encrypted, but a passphrase was given", remedy)
    try:
        # The environment hands over bytes that are not UTF-8 as lone surrogates; these turn them back.
        secret = passphrase.encode("utf-8", "surrogateescape") if isinstance(passphrase, str) else passphrase
        return serialization.load_pem_private_key(block, secret)
    except UnsupportedAlgorithm:
        raise _unfit(name, "has a cipher that cannot be read here", _CONVERT) from None
    except (ValueError, TypeError):
        if encrypted:
            problem, remedy = "the passphrase is wrong, or the key is damaged", "Check the passphrase first."
            if passphrase is not None and passphrase[-1:] in _LINE_ENDS:
                problem, remedy = "the passphrase ends with a line break", "Remove the line break."
            elif passphrase is not None and passphrase[:1] == passphrase[-1:] and passphrase[:1] in _QUOTES:
                problem, remedy = "the passphrase is in quotes", "Remove the quotes, unless they are a part of it."
            raise _unfit(name, f"cannot be decrypted: {problem}", remedy) from None
        problem = "is damaged: it looks like a private key and cannot be read as one"
        raise _unfit(name, problem, _COPY_AGAIN) from None


def _public_key_in(name: str, pem: bytes) -> RSAPublicKey:
    """Return the one public key in *pem*."""
    number, key, remedy = len(_PUBLIC.findall(pem)), None, _WANT_PUBLIC
    if b"PRIVATE KEY" in pem:
        found = "a private key where the public one is wanted"
    elif number > 1:  # Loading takes the first one alone, and every call that another one signed would be refused.
        found = f"{number} public keys, and which one counts is not clear"
        remedy = "Pass each in its own PEM."
    elif not number and b"-----BEGIN CERTIFICATE-----" in pem:
        found, remedy = "a certificate", "Take its key out with `openssl x509 -in FILE -pubkey -noout`."
    else:
        try:
            key = serialization.load_pem_public_key(pem)
        except (ValueError, UnsupportedAlgorithm):
            found = "no readable public key"
        else:
            if isinstance(key, RSAPublicKey):
                return key
            found = f"a key of another kind ({_kind_of(key)}), not RSA"
    raise _unfit(name, f"holds {found}", remedy, "public_key")


def _read(source: Path | str | bytes, argument: str) -> tuple[str, bytes]:
    """Return what to call the key in a message, and its PEM."""
    if isinstance(source, Path):
        name, pem = _read_file(source, argument)
    else:
        name = f"The PEM passed as {argument}"
        pem = source if isinstance(source, bytes) else source.encode("utf-8", "replace")
    if b"-----BEGIN " in pem:
        return name, pem
    if not pem.strip():
        raise _unfit(name, "is empty", "Check that the file or variable was filled in.", argument)
    remedy = "Check the path." if isinstance(source, Path) else "For a file, pass Path(...) instead of its name."
    raise _unfit(name, "is not PEM, which begins with '-----BEGIN'", remedy, argument)


def _read_file(path: Path, argument: str) -> tuple[str, bytes]:
    name = str(path)
    if "-----" in name or "\n" in name or len(name) > _LONGEST_PATH_SHOWN:
        problem = "looks like the key itself, and not like the name of a file"
        raise _unfit("A path given for a key", problem, "Pass the key itself as str or bytes.", argument)
    name = shown(name)
    try:
        with path.open("rb") as file:
            pem = file.read(_LARGEST_FILE)
    except (OSError, ValueError) as failed:
        reason = getattr(failed, "strerror", None) or type(failed).__name__
        remedy = "Check the path and the permissions of this process."
        raise _unfit(name, f"cannot be read: {reason}", remedy, argument) from None
    return name, pem


def _check_size(key: RSAPrivateKey | RSAPublicKey, name: str) -> None:
    if key.key_size < MIN_KEY_BITS:
        raise SigningKeyError(
            f"{name} has {key.key_size} bits; under {MIN_KEY_BITS} it can be broken.", remedy=_MAKE_ONE
        )


def _kind_of(key: object) -> str:
    name = type(key).__name__.removeprefix("_")
    return name.removesuffix("PrivateKey") or name


_REMEMBERED = 1024


class RememberedSignatures:
    """
    Signatures by message: a thousand recent ones; threads and event loops may share it.

    Attributes:
        signer: Signs what is not remembered.
    """

    def __init__(self, signer: Signer | AsyncSigner) -> None:
        self.signer: Signer | AsyncSigner = signer
        # Each message has a slot, empty until it is signed: lru_cache cannot await, but it keeps slots well.
        self._recent: Callable[[bytes], list[Signature]] = lru_cache(_REMEMBERED)(lambda _message: [])

    def sign(self, message: bytes) -> Signature:
        """
        Return the X-Signature header for *message*; the signer is not async.

        Raises:
            SigningKeyError: The signer's key is too short, or not RSA. What the signer raises passes through.
        """
        slot = self._recent(message)
        if not slot:
            slot.append(Signature.of(checked_signature(cast("Signer", self.signer).sign(message))))
        return slot[0]

    async def sign_async(self, message: bytes) -> Signature:
        """Return what ``sign`` returns, with any signer, and without blocking the event loop."""
        slot = self._recent(message)
        if not slot:
            slot.append(Signature.of(checked_signature(await signed_async(self.signer, message))))
        return slot[0]


def fingerprint(key: RSAPublicKey) -> str:
    """Return the SHA-256 of the public key (SubjectPublicKeyInfo, DER) in hex, to compare over another channel."""
    return sha256(
        key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    ).hexdigest()
