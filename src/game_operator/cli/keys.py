"""Key pairs on disk: made, written once, told apart by fingerprint."""

import os
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey, generate_private_key
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from game_operator.errors import ConfigurationError
from game_operator.signers.keys import load_signer, public_key_of

__all__ = ["PUBLIC_MODE", "SECRET_MODE", "KeyFiles", "fingerprint", "public_path", "write_new", "write_pair"]
__all__ += ["write_public_of"]

#: Its owner may read and write it, and nobody else anything.
SECRET_MODE = 0o600
PUBLIC_MODE = 0o644

_EXPONENT = 65537
_LONGEST_PASSPHRASE_BYTES = 1023


@dataclass(frozen=True, slots=True)
class KeyFiles:
    """A key pair that was written."""

    private: Path
    public: Path
    public_key: RSAPublicKey = field(repr=False)

    @property
    def public_pem(self) -> str:
        """The key to register with the provider."""
        return _public_pem(self.public_key).decode()


def write_pair(private: Path, *, bits: int, passphrase: str | None = None) -> KeyFiles:
    """
    Make a key pair of *bits* and write it to *private* and beside it.

    Raises:
        ConfigurationError: The passphrase is too long, or a file is there already or cannot be written; then nothing
            is left behind.
    """
    encryption = _encryption(passphrase)
    del passphrase
    public = public_path(private)
    for path in (private, public):
        if os.path.lexists(path):
            raise _in_the_way(path)
    key = generate_private_key(_EXPONENT, bits)
    write_new(private, _private_pem(key, encryption), SECRET_MODE)
    try:
        write_new(public, _public_pem(key.public_key()), PUBLIC_MODE)
    except BaseException:  # Ctrl-C too: half a pair is of no use, and in the way of the next one.
        private.unlink()
        raise
    return KeyFiles(private, public, key.public_key())


def write_public_of(private: Path, passphrase: str | None) -> None:
    """
    Write the public half of the key in *private* beside it.

    Raises:
        ConfigurationError: The private key cannot be used, or the file cannot be written.
    """
    key = public_key_of(load_signer(private, passphrase))
    assert key is not None, "a key from a file tells its public half"
    write_new(public_path(private), _public_pem(key), PUBLIC_MODE)


def write_new(path: Path, content: bytes, mode: int) -> None:
    """
    Write *content* to a file that is not there yet, which has *mode* from its first byte on.

    Raises:
        ConfigurationError: The file is there already, or cannot be written; then nothing is left behind.
    """
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    except FileExistsError:
        raise _in_the_way(path) from None
    except (OSError, ValueError) as failed:
        raise _unwritable(path, failed) from None
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
    except BaseException as failed:
        path.unlink(missing_ok=True)
        if isinstance(failed, OSError):
            raise _unwritable(path, failed) from None
        raise


def public_path(private: Path) -> Path:
    """Return where the public half of the key in *private* lies: operator.pub.pem beside operator.pem."""
    return private.with_name(f"{private.name.removesuffix('.pem')}.pub.pem")


def fingerprint(key: RSAPublicKey) -> str:
    """Return the SHA-256 of the public key (SubjectPublicKeyInfo, DER) in hex, to compare over another channel."""
    return sha256(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).hexdigest()


def _encryption(passphrase: str | None) -> KeySerializationEncryption:
    if passphrase is None:
        return NoEncryption()
    # As the loader has it: the environment hands over bytes that are no UTF-8 as lone surrogates.
    secret = passphrase.encode("utf-8", "surrogateescape")
    del passphrase
    if (size := len(secret)) <= _LONGEST_PASSPHRASE_BYTES:
        return BestAvailableEncryption(secret)
    del secret
    raise ConfigurationError(f"The passphrase has {size} bytes; {_LONGEST_PASSPHRASE_BYTES} is the most for a key.")


def _private_pem(key: RSAPrivateKey, encryption: KeySerializationEncryption) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption)


def _public_pem(key: RSAPublicKey) -> bytes:
    return key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def _in_the_way(path: Path) -> ConfigurationError:
    return ConfigurationError(
        f"{path} is there already, and a key is never overwritten. Choose another path, or move the old key away."
    )


def _unwritable(path: Path, failed: Exception) -> ConfigurationError:
    problem = getattr(failed, "strerror", None) or str(failed)
    return ConfigurationError(f"{path} cannot be written: {problem}. Choose a directory that is there and yours.")
