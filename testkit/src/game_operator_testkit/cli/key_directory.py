"""The key pairs of a sandbox on disk, kept over a restart and over a rotation."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

from game_operator.cli.files import PUBLIC_MODE, SECRET_MODE, write_privately
from game_operator.cli.keys import public_path, public_pem_of, write_pair
from game_operator.errors import ConfigurationError, without_frames
from game_operator.signers.keys import load_public_key
from game_operator_testkit.provider.keys import loaded, private_pem


class KeyDirectory:
    """
    The files with the operator's key pair and the service's; it keeps the service's keys over a rotation.

    Attributes:
        where: Where they are, for people.
        private: The operator's private key; ``public`` verifies the operator's calls.
        service_private: What webhooks are signed with; ``service_public`` verifies them.
    """

    def __init__(self, place: Path, where: str) -> None:
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
        Write *following* as the service's pair, and the private key of now as the old one.

        Raises:
            ConfigurationError: That is not possible; then all is as it was.
        """
        try:
            _replace(
                (self._old, self.service_private.read_bytes(), SECRET_MODE),
                (self.service_public, public_pem_of(following.public_key()), PUBLIC_MODE),
                (self.service_private, private_pem(following), SECRET_MODE),
            )
        except OSError as failed:
            problem = failed.strerror or failed
            raise ConfigurationError(
                f"The new key cannot be kept in {self._old.parent}: {problem}. Nothing was switched."
            ) from None


def _replace(*files: tuple[Path, bytes, int]) -> None:
    """Write *files*, each a path with content and mode, beside those that are there, and replace these at the end."""
    with TemporaryDirectory(prefix=".rotation-", dir=files[0][0].parent) as beside:
        for path, content, mode in files:
            write_privately(Path(beside) / path.name, content, mode)
        for path, *_ in files:
            (Path(beside) / path.name).replace(path)


@contextmanager
def key_directory(given: Path | None, *, service_alone: bool = False) -> Iterator[KeyDirectory]:
    """
    Yield the keys in *given*, each pair made if it is missing; for None, those in a new directory that goes at the end.

    With *service_alone* the operator's pair is neither made nor looked at.

    Raises:
        ConfigurationError: The directory cannot be used, or has one half of a pair.
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
            place = given.absolute()
            where = str(place)
        keys = KeyDirectory(place, where)
        for private in [keys.service_private] if service_alone else [keys.private, keys.service_private]:
            _complete(private)
        _check_halves(keys.service_private, keys.service_public)
        yield keys


def _complete(private: Path) -> None:
    """Make the pair of *private* if both halves are missing; one half alone is an error."""
    there, missing = private, public_path(private)
    if not there.exists():
        there, missing = missing, there
    if not there.exists():
        write_pair(private, bits=2048)
    elif not missing.exists():
        raise ConfigurationError(f"{missing} is missing beside {there}: put it back, or remove {there.name}.")


@without_frames
def _check_halves(private: Path, public: Path) -> None:
    """Hold that a wallet which knows *public* accepts what *private* signs."""
    if load_public_key(loaded(private).public_key_pem()) != load_public_key(public):
        raise ConfigurationError(f"{private} and {public} are not the halves of one pair. Put the right one back.")
