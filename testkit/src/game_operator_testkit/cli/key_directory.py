"""The key pairs of a sandbox on disk, kept over a restart and over a rotation."""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

from game_operator.cli.keys import public_path, public_pem_of, write_new, write_pair
from game_operator.cli.options import is_encrypted
from game_operator.cli.output import PUBLIC_MODE, SECRET_MODE, write_privately
from game_operator.errors import ConfigurationError, without_frames
from game_operator.signers.environment import environment_passphrase
from game_operator.signers.keys import load_public_key, load_signer, public_key_of
from game_operator_testkit.provider.keys import private_pem


class KeyDirectory:
    """
    The files with the operator's key pair and the service's; it keeps the service's keys over a rotation.

    Attributes:
        where: Where they are, for people.
        private: The operator's private key; ``public`` verifies the operator's calls.
        service_private: What webhooks are signed with; ``service_public`` verifies them.
    """

    def __init__(self, place: Path, where: str) -> None:
        self.place: Path = place
        self.where: str = where
        self.private: Path = place / "operator.pem"
        self.service_private: Path = place / "service.pem"
        self.public: Path = public_path(self.private)
        self.service_public: Path = public_path(self.service_private)
        self._old = place / "service.old.pem"

    @property
    def service_old(self) -> Path | None:
        """What webhooks were signed with before a rotation, or None if there was none."""
        return self._old if self._old.exists() else None

    @without_frames
    def keep(self, following: RSAPrivateKey) -> None:
        """
        Write *following* as the service's pair, and the pair of now as the old one.

        Raises:
            ConfigurationError: That is not possible; then all is as it was.
        """
        try:
            contents = {
                self._old: self.service_private.read_bytes(),
                public_path(self._old): self.service_public.read_bytes(),
                self.service_public: public_pem_of(following.public_key()),
                # Last: until here the service signs with the key that it had.
                self.service_private: private_pem(following),
            }
            _write(contents)
        except OSError as failed:
            problem = failed.strerror or failed
            raise ConfigurationError(
                f"The new key cannot be kept in {self.place}: {problem}. Nothing was switched."
            ) from None


def _mode(path: Path) -> int:
    return PUBLIC_MODE if path.name.endswith(".pub.pem") else SECRET_MODE


def _write(contents: dict[Path, bytes]) -> None:
    """Write files in this order, all or none."""
    # Ctrl-C undoes it too: half a rotation would leave halves that do not match.
    with ExitStack() as undo:
        for path, content in contents.items():
            before = path.read_bytes() if os.path.lexists(path) else None
            undo.callback(_put_back, path, before)
            write_privately(path, content, _mode(path))
        undo.pop_all()


def _put_back(path: Path, content: bytes | None) -> None:
    if content is None:
        path.unlink(missing_ok=True)
    else:
        write_privately(path, content, _mode(path))


@contextmanager
def key_directory(given: Path | None, *, service_alone: bool = False) -> Iterator[KeyDirectory]:
    """
    Yield the keys in *given*, made if they are not there; for None, those in a new directory that goes at the end.

    With *service_alone* the operator's pair is neither made nor looked at.

    Raises:
        ConfigurationError: The directory cannot be used, or a file in it does not fit; then nothing is written.
    """
    with ExitStack() as stack:
        if given is None:
            place = Path(stack.enter_context(TemporaryDirectory(prefix="game-operator-sandbox-")))
            where = f"{place} until the sandbox stops; with --directory they are kept"
        else:
            try:
                given.mkdir(mode=0o700, parents=True, exist_ok=True)
            except OSError as failed:
                raise ConfigurationError(f"{given} cannot be used as a directory: {failed.strerror}.") from None
            place, where = given.absolute(), str(given.absolute())
        keys = KeyDirectory(place, where)
        pairs = [keys.service_private] if service_alone else [keys.private, keys.service_private]
        for private in (*pairs, place / "service.old.pem"):
            _check(private, public_path(private))
        for private in pairs:
            if not private.exists():
                write_pair(private, bits=2048)
            elif not public_path(private).exists():
                key = public_key_of(load_signer(private, environment_passphrase()))
                assert key is not None, "a key from a file has a public half"
                write_new(public_path(private), public_pem_of(key), PUBLIC_MODE)
        yield keys


@without_frames
def _check(private: Path, public: Path) -> None:
    """Raise ConfigurationError if the two are not the halves of one pair, or the private one alone is missing."""
    if not os.path.lexists(public):
        return
    if not os.path.lexists(private):
        raise ConfigurationError(f"{private} is missing beside {public}: put it back, or remove both.")
    passphrase = environment_passphrase() if is_encrypted(private) else None
    if is_encrypted(private) and not passphrase and private.name == "operator.pem":
        # The sandbox needs the public half alone, and the client will ask for the passphrase.
        return
    if public_key_of(load_signer(private, passphrase)) != load_public_key(public):
        raise ConfigurationError(
            f"{private} and {public} are not the halves of one pair. Put the right {private.name} back, or remove "
            f"{public.name}: it is then written again from {private.name}."
        )
