"""Key pairs on disk: made, written once, and compared by fingerprint."""

import os
from pathlib import Path
from typing import NamedTuple

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey, generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from game_operator.cli.files import PUBLIC_MODE, SECRET_MODE
from game_operator.errors import ConfigurationError, without_frames


class KeyFiles(NamedTuple):
    """A key pair that was written; the public key is registered with the provider."""

    private: Path
    public: Path
    public_key: RSAPublicKey
    public_pem: str


@without_frames
def write_pair(private: Path, *, bits: int) -> KeyFiles:
    """
    Make a key pair of *bits* and write it to *private* and beside it.

    Raises:
        ConfigurationError: A file is there already or cannot be written; then nothing is left behind.
    """
    public = public_path(private)
    _check_new(private, public)
    key = generate_private_key(65537, bits)
    write_new(private, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()), SECRET_MODE)
    public_pem = public_pem_of(key.public_key())
    try:
        write_new(public, public_pem, PUBLIC_MODE)
    except BaseException:  # Ctrl-C too: half a pair is of no use, and in the way of the next one.
        private.unlink()
        raise
    return KeyFiles(private, public, key.public_key(), public_pem.decode())


def public_path(private: Path) -> Path:
    """Return where the public half of the key in *private* lies: operator.pub.pem beside operator.pem."""
    return private.with_name(f"{private.name.removesuffix('.pem')}.pub.pem")


def public_pem_of(key: RSAPublicKey) -> bytes:
    """Return the public *key* as PEM."""
    return key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def _check_new(*paths: Path) -> None:
    """Raise ConfigurationError if there is anything at one of *paths*."""
    for path in paths:
        if os.path.lexists(path):
            raise ConfigurationError(
                f"{path} is there already, and a key is never overwritten. Choose another path, or move the old key "
                "away."
            )


def write_new(path: Path, content: bytes, mode: int) -> None:
    """
    Write *content* to a file that is not there yet, which has *mode* from its first byte on.

    Raises:
        ConfigurationError: The file is there already, or cannot be written; then nothing is left behind.
    """
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
        except BaseException:  # Ctrl-C too: half a file looks like a key, and is in the way of a whole one.
            path.unlink(missing_ok=True)
            raise
    except (OSError, ValueError) as failed:
        _check_new(path)
        problem = getattr(failed, "strerror", None) or str(failed)
        raise ConfigurationError(
            f"{path} cannot be written: {problem}. Choose a directory that is there and yours."
        ) from None
