"""Both sides' keys of a sandbox in a directory: looked at before anything is written, and kept over a rotation."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from game_operator.cli.keys import PUBLIC_MODE, SECRET_MODE, public_path, write_pair, write_public_of
from game_operator.cli.options import PASSPHRASE
from game_operator.errors import ConfigurationError
from game_operator.signers.keys import load_public_key, load_signer, public_key_of

__all__ = ["KeyDirectory", "key_directory"]

_OPERATOR: Final = "operator.pem"
_SERVICE: Final = "service.pem"
_OLD: Final = "service.old.pem"


@dataclass(frozen=True, slots=True)
class KeyDirectory:
    """
    The files with the operator's pair, and with the service's; it keeps the service's keys over a rotation.

    Attributes:
        where: Where they are, for people.
    """

    place: Path
    where: str

    @property
    def private(self) -> Path:
        """The operator's private key."""
        return self.place / _OPERATOR

    @property
    def public(self) -> Path:
        """What the service verifies the operator's calls with."""
        return public_path(self.private)

    @property
    def service_private(self) -> Path:
        """What webhooks are signed with."""
        return self.place / _SERVICE

    @property
    def service_public(self) -> Path:
        """What the wallet verifies webhooks with."""
        return public_path(self.service_private)

    @property
    def service_old(self) -> Path | None:
        """What webhooks were signed with before a rotation, or None if there was none."""
        old = self.place / _OLD
        return old if old.exists() else None

    def keep(self, following: RSAPrivateKey) -> None:
        """
        Write *following* as the service's pair, and the pair of now as the old one.

        Raises:
            ConfigurationError: That is not possible; then all is as it was.
        """
        problem = self._kept(following)
        if problem:
            raise ConfigurationError(f"The new key cannot be kept in {self.place}: {problem}. Nothing was switched.")

    def _kept(self, following: RSAPrivateKey) -> str:
        """Return why it cannot be kept, or "". An error's traceback would show the keys."""
        old = self.place / _OLD
        try:
            _replace(
                {
                    old: self.service_private.read_bytes(),
                    public_path(old): self.service_public.read_bytes(),
                    self.service_public: following.public_key().public_bytes(
                        Encoding.PEM, PublicFormat.SubjectPublicKeyInfo
                    ),
                    # Last: until here the service signs with the key that it had.
                    self.service_private: following.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
                }
            )
        except OSError as failed:
            return failed.strerror or str(failed)
        return ""


@contextmanager
def key_directory(given: Path | None) -> Iterator[KeyDirectory]:
    """
    Yield the keys in *given*, made if they are not there; in None, those in a new one that goes at the end.

    Raises:
        ConfigurationError: The directory cannot be used, or what lies there does not fit; then nothing is written.
    """
    if given is None:
        with TemporaryDirectory(prefix="game-operator-sandbox-") as made:
            yield _filled(Path(made), f"{made} until the sandbox stops; with --directory they are kept")
        return
    try:
        given.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as failed:
        raise ConfigurationError(f"{given} cannot be used as a directory: {failed.strerror}.") from None
    yield _filled(given.absolute(), str(given.absolute()))


def _filled(place: Path, where: str) -> KeyDirectory:
    pairs = [place / _OPERATOR, place / _SERVICE]
    for private in [*pairs, place / _OLD]:
        _check(private, public_path(private))
    for private in pairs:
        if not private.exists():
            write_pair(private, bits=2048)
        elif not public_path(private).exists():
            write_public_of(private, os.environ.get(PASSPHRASE))
    return KeyDirectory(place, where)


def _check(private: Path, public: Path) -> None:
    """Raise ConfigurationError if the two are not the halves of one pair, or the private one alone is missing."""
    if not os.path.lexists(public):
        return
    if not os.path.lexists(private):
        raise ConfigurationError(f"{private} is missing beside {public}: put it back, or remove both.")
    passphrase = None
    if _is_encrypted(private):
        passphrase = os.environ.get(PASSPHRASE)
        if not passphrase and private.name == _OPERATOR:
            # The sandbox needs the public half alone, and the client will ask for the passphrase.
            return
    key = public_key_of(load_signer(private, passphrase))
    del passphrase
    if key != load_public_key(public):
        raise ConfigurationError(
            f"{private} and {public} are not the halves of one pair. Put the right {private.name} back, or remove "
            f"{public.name}: it is then written anew from {private.name}."
        )


def _is_encrypted(private: Path) -> bool:
    try:
        return b"ENCRYPTED" in private.read_bytes()
    except OSError:  # Whoever loads it says so better.
        return False


def _replace(contents: dict[Path, bytes]) -> None:
    """Write each file beside its place, then move all there; if that fails, put back what was there before."""
    written: dict[Path, Path] = {}
    before: dict[Path, bytes | None] = {}
    try:
        for path, content in contents.items():
            written[path] = _written_beside(path, content)
        for path, beside in written.items():
            before[path] = path.read_bytes() if os.path.lexists(path) else None
            beside.replace(path)
    except BaseException:  # Ctrl-C too: half a rotation would leave halves that do not match.
        for path, was in before.items():
            _put_back(path, was)
        raise
    finally:
        for beside in written.values():
            beside.unlink(missing_ok=True)


def _put_back(path: Path, content: bytes | None) -> None:
    if content is None:
        path.unlink(missing_ok=True)
    else:
        _written_beside(path, content).replace(path)


def _written_beside(path: Path, content: bytes) -> Path:
    handle, name = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
    beside = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        # It is for its owner alone from the first byte on, and a public half is for all.
        beside.chmod(PUBLIC_MODE if path.name.endswith(".pub.pem") else SECRET_MODE)
    except BaseException:  # Whatever it was, no copy of a key stays behind.
        beside.unlink()
        raise
    return beside
