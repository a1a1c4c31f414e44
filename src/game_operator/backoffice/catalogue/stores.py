"""
Where a catalogue keeps its document: in memory, in a file, or in the ledger's database.

A change of the document is one step: nobody else, in any process, changes it between the reading and the writing.
"""

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, Protocol, TypeVar

from game_operator.errors import ConfigurationError, shown

if sys.platform != "win32":
    import fcntl

T = TypeVar("T")

_LOCK_SECONDS: Final = 10.0
_LOOK_AGAIN_SECONDS: Final = 0.01


class Store(Protocol):
    """Keeps one document."""

    #: What it is, for errors.
    place: str

    def read(self) -> bytes | None:
        """Return the document, or None if there is none."""

    def change(self, change: Callable[[bytes | None], tuple[bytes, T]]) -> T:
        """
        Replace the document by what *change* makes of it, and return what else that returns.

        What *change* raises leaves the document as it was.
        """


class MemoryStore:
    """Keeps the document as long as the process lives."""

    place = "The memory"

    def __init__(self) -> None:
        self._body: bytes | None = None

    def read(self) -> bytes | None:
        """Return the document."""
        return self._body

    def change(self, change: Callable[[bytes | None], tuple[bytes, T]]) -> T:
        """Replace the document; see ``Store``."""
        self._body, result = change(self._body)
        return result


class FileStore:
    """
    Keeps the document in a file that its owner alone may read and write.

    The file is replaced as a whole, so a reader sees the old document or the new one. Processes take turns by a lock on
    a file beside it.
    """

    def __init__(self, path: Path) -> None:
        self.place: str = f"The file {shown(str(path))}"
        # What a link leads to is replaced, and not the link.
        self._path = Path(os.path.realpath(path))
        if not self._path.parent.is_dir():
            problem = f"There is no folder {shown(str(self._path.parent))}. Make it first."
            raise ConfigurationError(problem, setting="store")

    def read(self) -> bytes | None:
        """Return what the file holds; None if there is no file."""
        with self._explained("read"):
            try:
                return self._path.read_bytes()
            except FileNotFoundError:
                return None

    def change(self, change: Callable[[bytes | None], tuple[bytes, T]]) -> T:
        """Replace the file; see ``Store``."""
        with self._locked():
            body, result = change(self.read())
            with self._explained("written"):
                self._replace(body)
            return result

    def _replace(self, body: bytes) -> None:
        handle, name = tempfile.mkstemp(prefix=".game-operator-", dir=self._path.parent)  # With mode 0600.
        beside = Path(name)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(body)
                file.flush()
                os.fsync(file.fileno())
            beside.replace(self._path)
        finally:
            beside.unlink(missing_ok=True)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        if sys.platform == "win32":  # Without such locks: there one process writes.
            yield
            return
        with self._explained("locked"):
            handle = os.open(f"{self._path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            self._wait_for(handle)
            yield
        finally:
            os.close(handle)  # Which ends the lock.

    def _wait_for(self, handle: int) -> None:
        until = time.monotonic() + _LOCK_SECONDS
        while True:
            with self._explained("locked"), suppress(BlockingIOError):
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            if time.monotonic() > until:
                problem = f"{self.place} has been locked by another process for {_LOCK_SECONDS:g} s."
                raise ConfigurationError(problem, setting="store", remedy="Is that process stopped? End it.")
            time.sleep(_LOOK_AGAIN_SECONDS)

    @contextmanager
    def _explained(self, done: str) -> Iterator[None]:
        try:
            yield
        except OSError as failed:
            problem = f"{self.place} could not be {done}: {failed.strerror or failed}."
            remedy = "Pass a file in a folder that this user may write to."
            raise ConfigurationError(problem, setting="store", remedy=remedy) from None


def store_at(place: object, *, name: str) -> Store:
    """
    Return the store at *place*: None is the memory, a path a file, and a ``SqlLedger`` its database.

    Args:
        place: Where the document is kept.
        name: What it is called in a database.

    Raises:
        TypeError: *place* is something else.
        ConfigurationError: There is no folder for the file.
    """
    if place is None:
        return MemoryStore()
    if isinstance(place, str) and "://" in place:
        problem = f"The store {shown(place)} is the address of a database. Pass a SqlLedger that is open on it."
        raise ConfigurationError(problem, setting="store")
    if isinstance(place, str | Path):
        return FileStore(Path(place))
    from game_operator.backoffice.journal.documents import DocumentStore  # Loads what databases need.
    from game_operator.ledger import SqlLedger

    if isinstance(place, SqlLedger):
        return DocumentStore(place, name)
    raise TypeError(f"store must be None, the path of a file, or a SqlLedger, not {type(place).__name__}")
