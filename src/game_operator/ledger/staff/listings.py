"""
Reading much: on a connection beside the ledger's, so that calls go on meanwhile.

A survey reads everything from one snapshot. A listing reads page by page, each from a snapshot of its page, because a
person may take time over a list. A reader of SQLite's WAL never stops the writer; the file only grows until the reader
is done. In PostgreSQL the snapshot is a REPEATABLE READ transaction that may not write.
"""

import contextlib
import sqlite3
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from threading import Lock
from typing import Any, Literal, TypeAlias, TypeVar

from game_operator.errors import LedgerUnavailableError
from game_operator.ledger.engine.address import address_of, path_of, without_password
from game_operator.ledger.engine.script import Execute, Step, drive

T = TypeVar("T")
R = TypeVar("R")
#: Makes the script that reads a page of at most so many records, those that follow one.
Page: TypeAlias = Callable[[R | None, int], Generator[Step, Any, list[R]]]
_Use: TypeAlias = Literal["survey", "listing"]

_PATIENCE_SECONDS = 5.0


def has_own_snapshot(url: str) -> bool:
    """Return whether the database at *url* can be read on a separate connection; one in memory cannot."""
    return not (url.startswith("sqlite:///") and path_of(url) == ":memory:")


def survey(url: str, script: Callable[[], Generator[Step, Any, T]]) -> T:
    """
    Run *script*, which only executes statements that read, from one snapshot.

    Raises:
        LedgerUnavailableError: The database cannot be reached or read.
    """
    with contextlib.closing(_Reader(url, "survey")) as reader:
        return reader.read(script)


class Listing:
    """
    Reads the pages of one list from the database at *url*, over a connection that ``close`` gives up.

    Threads may take turns, as those do that read for an event loop.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._mutex = Lock()
        self._reader: _Reader | None = None
        self._closed = False

    def read(self, script: Callable[[], Generator[Step, Any, T]]) -> T:
        """Run *script* as ``survey`` does, for one page."""
        try:
            with self._mutex:
                return self._read(script)
        finally:
            if self._closed:
                self.close()

    def close(self) -> None:
        """Close the connection; if a thread reads with it, a task that is cancelled does not wait: the thread does."""
        self._closed = True
        if self._mutex.acquire(blocking=False):
            reader, self._reader = self._reader, None
            self._mutex.release()
            if reader is not None:
                reader.close()

    def _read(self, script: Callable[[], Generator[Step, Any, T]]) -> T:
        reader, self._reader = self._reader, None
        if reader is not None:
            # Between two pages a server may restart. The next page does not depend on the connection.
            with contextlib.suppress(LedgerUnavailableError):
                return self._kept(reader, script)
        return self._kept(_Reader(self._url, "listing"), script)

    def _kept(self, reader: "_Reader", script: Callable[[], Generator[Step, Any, T]]) -> T:
        try:
            result = reader.read(script)
        except BaseException:
            reader.close()
            raise
        self._reader = reader
        return result


_BEGIN = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL timezone = 'UTC'"
#: For the transaction alone: behind a pooler the session belongs to others as well.
_BEGINS: dict[_Use, str] = {
    # Whole tables are read, so what the database or the user is set to for short statements does not hold.
    "survey": f"{_BEGIN}; SET LOCAL statement_timeout = 0; SET LOCAL work_mem = '64MB'",
    # A page follows an index, and sorts no more than what has the same time: also where no statistics say so.
    "listing": f"{_BEGIN}; SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off; "
    "SET LOCAL enable_sort = off; SET LOCAL jit = off",
}


class _Reader:
    """A connection that only reads; LedgerUnavailableError if that cannot be done."""

    def __init__(self, url: str, use: _Use) -> None:
        self._url = url
        self._error: type[Exception]
        self._spelled: Callable[[str], str]
        self._connection: Any  # sqlite3's or psycopg's.
        if url.startswith("sqlite:///"):
            self._error, self._begin, self._spelled = sqlite3.Error, "BEGIN", str
            with self._translated():
                self._connection = _sqlite_connection(path_of(url), use)
        else:
            import psycopg

            from game_operator.ledger.postgres.store import for_psycopg

            self._error, self._begin, self._spelled = psycopg.Error, _BEGINS[use], for_psycopg
            with self._translated():
                self._connection = psycopg.connect(
                    address_of(url),
                    autocommit=True,
                    # Despite what the database, the user or the environment prefers: an id has one spelling in bytes.
                    client_encoding="utf8",
                    prepare_threshold=None,  # Behind a pooler the next page may meet another server connection.
                    connect_timeout=round(_PATIENCE_SECONDS),
                )

    def read(self, script: Callable[[], Generator[Step, Any, T]]) -> T:
        with self._translated():
            self._connection.execute(self._begin)
            try:
                return drive(script(), self._perform)
            finally:
                self._connection.rollback()

    def close(self) -> None:
        self._connection.close()

    def _perform(self, step: Step) -> Any:
        assert isinstance(step, Execute)
        return self._connection.execute(self._spelled(step.sql), step.parameters).fetchall()

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except self._error as failed:
            reason = without_password(" ".join(str(failed).split()), self._url)[:300]
            raise LedgerUnavailableError(f"The ledger's tables cannot be read: {reason}.") from failed


def _sqlite_connection(path: str, use: _Use) -> sqlite3.Connection:
    # Where a file was and is no more, an empty one must not take its place: its books would be sound.
    name = f"{Path(path).absolute().as_uri()}?mode=rw"
    connection = sqlite3.connect(
        name, timeout=_PATIENCE_SECONDS, isolation_level=None, uri=True, check_same_thread=False
    )
    connection.execute("PRAGMA query_only = ON")
    if use == "survey":
        connection.execute("PRAGMA cache_size = -131072")
        connection.execute("PRAGMA threads = 2")
    return connection


def nothing() -> Generator[Step, Any, None]:
    """Do nothing, in a transaction that is opened for it."""
    yield from ()
