"""
A ledger's rows in SQLite: WAL, synchronous=FULL, one writer at a time, and the first statement a write.

``BEGIN IMMEDIATE`` takes the one write lock of the file, of all threads and processes, so all that is read after it
stands still until COMMIT, the clock included.

SQLite shares memory between the processes that have a file open, and locks parts of the file. Over a network neither
works between two machines: both write, and calls are lost. So a ledger on a network file system is refused. Linux's
table of mounts says what kind a file system is; elsewhere nothing does.
"""

import asyncio
import contextlib
import os
import re
import sqlite3
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from random import uniform
from threading import RLock
from typing import Any, Literal, NamedTuple, TypeVar

from game_operator.errors import ConfigurationError, LedgerUnavailableError, SchemaError, shown
from game_operator.ledger.engine.address import IN_MEMORY
from game_operator.ledger.engine.process_safety import Forkable, notify_of_forks
from game_operator.ledger.engine.tables import VERSION, Check, found_version, migration
from game_operator.ledger.steps import (
    RELEASE,
    SAVE,
    Answer,
    AskOperator,
    Execute,
    Step,
    Steps,
    Together,
    run,
    run_async,
)

T = TypeVar("T")

_OLDEST = (3, 38)
#: What is wrong with a statement, and not with the file.
_OF_STATEMENTS = {sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_MISMATCH, sqlite3.SQLITE_MISUSE}
_OF_STATEMENTS |= {sqlite3.SQLITE_RANGE, sqlite3.SQLITE_TOOBIG}
_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
_LONGEST_NAP = 0.004
#: A process that has held the write lock for so many seconds in all leaves a gap for the others.
_LONG_HELD = 0.25

#: Behind a long reader the WAL grows. Once it can be begun anew, it is cut to this.
_MOST_WAL_BYTES = 64 * 1024 * 1024

#: Connections of a parent that was in the middle of a transaction when we were forked.
_NEVER_CLOSED: list[sqlite3.Connection] = []

#: A network file system, one of another machine's or of a program's, one that ends with the machine or its container,
#: or a disk.
Nature = Literal["network", "shared", "volatile", "disk"]

_MOUNTS = Path("/proc/self/mountinfo")
_NETWORK = frozenset(
    (
        *("afs", "beegfs", "ceph", "cifs", "coda", "davfs", "glusterfs", "gpfs", "lustre", "ncpfs", "nfs", "nfs4"),
        *("smb2", "smb3", "smbfs", "fuse.ceph", "fuse.ceph-fuse", "fuse.curlftpfs", "fuse.davfs", "fuse.davfs2"),
        *("fuse.gcsfuse", "fuse.glusterfs", "fuse.goofys", "fuse.juicefs", "fuse.rclone", "fuse.s3fs"),
        *("fuse.smbnetfs", "fuse.sshfs"),
    )
)
#: Folders of a host in a virtual machine or a sandbox; and ``fuse.…``, behind which any program may stand.
_SHARED = frozenset(("9p", "drvfs", "fakeowner", "prl_fs", "vboxsf", "virtiofs", "vmhgfs"))
_VOLATILE = frozenset(("aufs", "overlay", "ramfs", "tmpfs"))
_ESCAPED = re.compile(r"\\([0-7]{3})")


class BusyError(Exception):
    """Somebody else is writing, and the caller does not wait."""

    def __init__(self, failed: sqlite3.Error) -> None:
        super().__init__(failed)
        self.failed: sqlite3.Error = failed


def _make_private_file(path: str) -> None:
    """
    Make the file *path*, which its owner alone may read and write, unless it is there.

    SQLite gives its log and its index the mode of the file. Where this fails, SQLite makes the file or says why not.
    """
    real = os.path.realpath(path)  # SQLite too makes the file that a link leads to.
    if os.path.exists(real):  # noqa: PTH110 - beside realpath
        return
    with contextlib.suppress(OSError):
        # Made beside and linked: to close a file that another thread has opened with SQLite would drop its locks.
        handle, beside = tempfile.mkstemp(prefix=".game-operator-", dir=os.path.dirname(real))  # noqa: PTH120
        try:
            os.close(handle)
            os.link(beside, real)  # Fails if the file is there by now.
        finally:
            os.unlink(beside)  # noqa: PTH108


def _is_busy(failed: sqlite3.Error) -> bool:
    return getattr(failed, "sqlite_errorcode", 0) & 0xFF in _BUSY


def _executed(connection: sqlite3.Connection, sql: str, parameters: Sequence[Any], many: bool) -> Any:
    if many:
        return connection.executemany(sql, parameters).rowcount
    return connection.execute(sql, parameters).fetchall()


class SqliteStore(Forkable):
    """One connection to an SQLite file. Not for two threads at a time: its user holds a lock."""

    #: What the operator's code raised, which says nothing of our file.
    _theirs: sqlite3.Error | None = None
    #: When our last transaction ended, and how long those before it took that followed one another.
    _ended = _held = 0.0

    def __init__(self, path: str, prefix: str, *, migrate: bool, patience_seconds: float, check: Check) -> None:
        if sqlite3.sqlite_version_info < _OLDEST:
            raise ConfigurationError(
                f"This Python brings SQLite {sqlite3.sqlite_version}; the ledger needs 3.38 or newer. Upgrade Python."
            )
        self._check = check
        self._path = path
        self._prefix = prefix
        self._patience_seconds = patience_seconds
        self._busy = RLock()
        self._rests = False
        self._closed = False
        self._file: tuple[int, int] | None = None
        # SQLite does not wait by itself when two processes turn on WAL at a time.
        self._connection: sqlite3.Connection | None = self._tried(partial(self._opened, migrate, create=True))
        notify_of_forks(self)

    def _tried(self, work: Callable[[], T], *, waits: bool = True) -> T:
        """Return what *work* returns; while somebody else holds a lock, repeat it, or raise BusyError."""
        until, nap = time.monotonic() + self._patience_seconds, 0.0005
        while True:
            try:
                return work()
            except sqlite3.Error as failed:
                if not waits and _is_busy(failed):
                    raise BusyError(failed) from failed
                if not _is_busy(failed) or time.monotonic() > until:
                    self._raise_translated(failed)
                    raise
            time.sleep(uniform(nap / 2, nap))  # noqa: S311 - spreads the waiters, hides nothing
            nap = min(nap * 1.5, _LONGEST_NAP)

    def _opened(self, migrate: bool, *, create: bool, waits: bool = True) -> sqlite3.Connection:
        in_memory = self._path == IN_MEMORY
        if not in_memory:
            refuse_network(self._path)
        if create and not in_memory:
            _make_private_file(self._path)
        # Where a file was and is no more, an empty one must not take its place.
        name = self._path if create or in_memory else f"{Path(self._path).absolute().as_uri()}?mode=rw"
        connection = sqlite3.connect(
            name, timeout=0, isolation_level=None, check_same_thread=False, uri=name != self._path
        )
        try:
            connection.execute(f"PRAGMA busy_timeout = {int(self._patience_seconds * 1000) * waits}")
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA cache_size = -32768")
            connection.execute("PRAGMA wal_autocheckpoint = 4000")
            connection.execute(f"PRAGMA journal_size_limit = {_MOST_WAL_BYTES}")
            connection.execute("BEGIN IMMEDIATE")
            run(self._migrate(migrate, is_first=create), partial(self._perform, connection))
            connection.execute("COMMIT")
            connection.execute("PRAGMA busy_timeout = 0")
            self._file = self._file_now()
        except BaseException:  # Ctrl-C, too, leaves no connection open.
            connection.close()  # It rolls back, too.
            raise
        return connection

    def _file_now(self) -> tuple[int, int] | None:
        """Return which file our path names; None for a database in memory."""
        if self._path == IN_MEMORY:
            return None
        try:
            found = os.stat(self._path)  # noqa: PTH116 - half the time of Path.stat, before every transaction
        except OSError as failed:
            raise LedgerUnavailableError(
                f"The ledger's file {shown(self._path)} is not there any more: {failed.strerror}. Put it back; "
                "nothing of this call was kept."
            ) from failed
        return found.st_dev, found.st_ino

    def _migrate(self, migrate: bool, *, is_first: bool) -> Steps[None]:
        # This process has been running since before a migration: whether it may write, each write asks.
        if not is_first and ((yield from found_version("sqlite", self._prefix)) or 0) > VERSION:
            return
        yield from migration("sqlite", self._prefix, migrate, self._check)

    def run(self, script: Callable[[], Steps[T]]) -> T:
        """Run *script* in one transaction."""
        if courtesy := self._courtesy():
            time.sleep(courtesy)
        return run(self._run(script))

    def _run(self, script: Callable[[], Steps[T]], *, awaits: bool = False) -> Steps[T]:
        """Run *script* in one transaction; where it *awaits*, raise BusyError if somebody else is writing."""
        with self._busy:
            connection = self._mine(waits=not awaits)
            began = time.monotonic()
            try:
                self._roll_back(connection)  # What was interrupted before it could.
                self._tried(partial(connection.execute, "BEGIN IMMEDIATE"), waits=not awaits)
                began = time.monotonic()
                perform = partial(self._perform, connection, awaits=awaits)
                result: T = yield partial(run_async if awaits else run, script(), perform)
                connection.execute("COMMIT")
            except BaseException as failed:  # Ctrl-C, too, leaves no transaction open.
                self._roll_back(connection)
                if isinstance(failed, sqlite3.Error):
                    self._raise_translated(failed)
                raise
            finally:
                self._ended = time.monotonic()
                self._held += self._ended - began
            return result

    def _courtesy(self) -> float:
        """Return how long to leave the file to others, who would starve behind one commit after another."""
        if time.monotonic() - self._ended > _LONGEST_NAP:
            self._held = 0.0
        if self._held < _LONG_HELD:
            return 0.0
        self._held = 0.0
        return 1.5 * _LONGEST_NAP

    def read(self, script: Callable[[], Steps[T]]) -> T:
        """Run a *script* that only reads, from one snapshot."""

        def read_once() -> T:
            with self._busy:
                connection = self._mine()
                self._roll_back(connection)  # What was interrupted before it could.
                try:
                    connection.execute("BEGIN")
                    return run(script(), partial(self._perform, connection))
                finally:
                    self._roll_back(connection)

        # A reader waits for nobody, but for one who repairs the file after a process died.
        return self._tried(read_once)

    def tidy(self) -> None:
        """Renew statistics where they are old; if somebody else is writing, the next run does it."""
        with self._busy:
            connection = self._mine()
            try:
                connection.execute("PRAGMA analysis_limit = 1000")
                connection.execute("PRAGMA optimize(0x10002)")
            except sqlite3.Error as failed:
                if not _is_busy(failed):
                    self._raise_translated(failed)
                    raise

    def rest(self) -> None:
        """Close the connection until it is needed again."""
        with self._busy:
            self._discard()

    def close(self) -> None:
        """Close the connection."""
        with self._busy:
            self._closed = True
            self._discard()

    def before_fork(self) -> None:
        """Let no transaction be under way, unless it is of the thread that forks."""
        self._rests = self._busy.acquire(timeout=2 * self._patience_seconds + 1)

    def after_fork(self, *, in_child: bool) -> None:
        """In the child, close the inherited connection first: SQLite believes that it still has its locks."""
        if not in_child:
            if self._rests:
                self._busy.release()
            return
        connection, self._connection = self._connection, None
        if connection is not None and self._rests and not connection.in_transaction:
            connection.close()
        elif connection is not None:
            _NEVER_CLOSED.append(connection)  # Closing it would undo what the parent is doing.
        self._busy = RLock()

    def _discard(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _mine(self, *, waits: bool = True) -> sqlite3.Connection:
        """Return our connection, opened again after a fork, and after the file was replaced."""
        if self._closed:
            raise LedgerUnavailableError("The ledger is closed. Open another, or close it later.")
        if self._connection is not None and self._file_now() != self._file:
            # What is written to a file that was moved away is lost.
            self._discard()
        if self._connection is None:
            self._connection = self._tried(partial(self._opened, migrate=False, create=False, waits=waits), waits=waits)
        return self._connection

    def _perform(self, connection: sqlite3.Connection, step: Step, *, awaits: bool = False) -> Answer:
        match step:
            case Execute():
                return _executed(connection, *step)
            case Together(statements):
                return [_executed(connection, *each) for each in statements]
        assert isinstance(step, AskOperator)
        steps = self._handed_over(step, connection, awaits=awaits)
        return run_async(steps) if awaits else run(steps)

    def _handed_over(self, step: AskOperator, connection: sqlite3.Connection, *, awaits: bool) -> Steps[Answer]:
        connection.execute(SAVE)
        try:
            answer = yield from step.answering(connection, awaits=awaits)
        except sqlite3.Error as raised:
            self._theirs = raised
            raise
        finally:
            # Later statements of ours rest on them.
            connection.row_factory, connection.text_factory = None, str
        try:
            connection.execute(RELEASE)
        except sqlite3.Error as failed:
            raise step.breach() from failed
        return answer

    def _roll_back(self, connection: sqlite3.Connection) -> None:
        try:
            if connection.in_transaction:  # A full disk has rolled back by itself.
                connection.execute("ROLLBACK")
        except sqlite3.Error:  # It cannot be used for another: the operator's code may have closed it.
            self._discard()

    def _raise_translated(self, failed: sqlite3.Error) -> None:
        """Raise what only we can explain; an error of a statement is the operator's, in after or Accounts."""
        theirs, self._theirs = self._theirs, None
        if failed is theirs:
            return
        code = getattr(failed, "sqlite_errorcode", None)
        if code is None or code & 0xFF in _OF_STATEMENTS:
            return
        if code & 0xFF in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
            raise SchemaError(f"{shown(self._path)} is not an SQLite database, or is damaged: {failed}.") from failed
        raise LedgerUnavailableError(
            f"The ledger in {shown(self._path)} cannot be used: {failed}. Nothing of this call was kept; "
            "check the disk, its permissions, and what else holds the file."
        ) from failed


def _close(opening: "asyncio.Future[SqliteStore]") -> None:
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()


class AsyncSqliteStore:
    """
    An SQLite store of an event loop, which does all of it on the loop but for opening and waiting.

    A commit is a fraction of a millisecond, less than handing it to a thread and back.
    """

    def __init__(self, store: SqliteStore) -> None:
        self._store = store

    @classmethod
    async def opened(cls, make: Callable[[], SqliteStore]) -> "AsyncSqliteStore":
        """Open the file in a thread, for that may wait; a task that is cancelled meanwhile leaves nothing open."""
        opening = asyncio.ensure_future(asyncio.to_thread(make))
        try:
            return cls(await asyncio.shield(opening))
        except asyncio.CancelledError:
            opening.add_done_callback(_close)
            raise

    async def run(self, script: Callable[[], Steps[T]]) -> T:
        """Run *script* in one transaction."""
        store = self._store
        # Even 0 seconds let the loop run: calls that have come meanwhile share the next commit.
        await asyncio.sleep(store._courtesy())
        until, nap = time.monotonic() + store._patience_seconds, 0.0005
        while True:
            try:
                return await run_async(store._run(script, awaits=True))
            except BusyError as busy:
                if time.monotonic() > until:
                    store._raise_translated(busy.failed)
                    raise
            await asyncio.sleep(uniform(nap / 2, nap))  # noqa: S311 - spreads the waiters, hides nothing
            nap = min(nap * 1.5, _LONGEST_NAP)

    async def read(self, script: Callable[[], Steps[T]]) -> T:
        """Run a *script* that only reads, from one snapshot."""
        return self._store.read(script)

    async def close(self) -> None:
        """Close the connection."""
        self._store.close()


class FileSystem(NamedTuple):
    """
    A file system that is mounted.

    Attributes:
        kind: Its type, such as ``ext4``.
        mount_point: Where.
    """

    kind: str
    mount_point: str

    @property
    def nature(self) -> Nature:
        """What is to be expected of its kind."""
        if self.kind in _NETWORK:
            return "network"
        if self.kind in _SHARED or self.kind.partition(".")[0] == "fuse":
            return "shared"
        return "volatile" if self.kind in _VOLATILE else "disk"


def mount_table() -> str:
    """Return the mounts that this process sees, as ``/proc/self/mountinfo``; "" if nothing says."""
    try:
        return _MOUNTS.read_text("utf-8", errors="surrogateescape")
    except OSError:
        return ""


def file_system_of(path: str) -> FileSystem | None:
    """Return the file system of *path*, a file that is there or will be; None if it is unknown."""
    real = os.path.realpath(path)
    found: FileSystem | None = None
    for line in mount_table().splitlines():
        before, _, behind = line.partition(" - ")
        point = _ESCAPED.sub(lambda octal: chr(int(octal[1], 8)), before.split(" ")[4])
        # What was mounted later at the same place hides what was there.
        if f"{real}/".startswith(f"{point.rstrip('/')}/") and (not found or len(point) >= len(found.mount_point)):
            found = FileSystem(behind.split(" ")[0], point)
    return found


def refuse_network(path: str) -> None:
    """Raise ConfigurationError if *path* is on a network file system."""
    found = file_system_of(path)
    if found is not None and found.nature == "network":
        raise ConfigurationError(
            f"{shown(path)} is on a network file system ({found.kind}, mounted at {shown(found.mount_point)}). "
            "SQLite's locks do not work between machines there, so calls could be lost or applied twice.",
            remedy="Keep the file on a local disk, or use PostgreSQL, which several machines may share.",
        )
