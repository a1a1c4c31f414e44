"""
A ledger's rows in SQLite: WAL, synchronous=FULL, one writer at a time, and the first statement a write.

``BEGIN IMMEDIATE`` takes the one write lock of the file, of all threads and processes, so whatever is read after it
stands still until COMMIT, the clock included.
"""

import asyncio
import contextlib
import os
import sqlite3
import tempfile
import time
from collections.abc import Awaitable, Callable, Generator, Iterable, Iterator, Mapping, Sequence, Set
from pathlib import Path
from random import uniform
from threading import Event, RLock
from typing import Any, Protocol, TypeAlias, TypeVar

from game_operator.errors import ConfigurationError, LedgerUnavailableError, SchemaError, shown
from game_operator.ledger.accounts.own import OwnSqliteAccounts
from game_operator.ledger.api import Account, CallRecord, Outcome
from game_operator.ledger.engine.address import IN_MEMORY
from game_operator.ledger.engine.process_safety import notify_of_forks
from game_operator.ledger.engine.rows import (
    BET_COLUMNS,
    CALL_COLUMNS,
    CALL_ROW,
    IN_LIST,
    anomaly_rows,
    bet_of,
    bet_rows,
    call_rows,
    changed_bet_rows,
    one_or_many,
)
from game_operator.ledger.engine.schema import (
    OLDEST_WRITER,
    VERSION,
    check_version,
    check_writer,
    ddl,
    has_newest_table,
    no_check,
    tables_needed,
)
from game_operator.ledger.engine.script import (
    RELEASE,
    SAVE,
    ConflictError,
    Execute,
    Loaded,
    Step,
    Together,
    answered,
    broken_by,
    drive,
    is_lent,
)
from game_operator.ledger.engine.sources import Sources
from game_operator.ledger.rules.book import Changes, Item, Needs

T = TypeVar("T")

_OLDEST = (3, 38)
#: What is wrong with a statement, and not with the file.
_OF_STATEMENTS = {sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_MISMATCH, sqlite3.SQLITE_MISUSE}
_OF_STATEMENTS |= {sqlite3.SQLITE_RANGE, sqlite3.SQLITE_TOOBIG}
_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
_LONGEST_NAP = 0.004
#: Who has held the write lock for so long, all in all, leaves a gap that those who look for one will find.
_LONG_HELD = 0.25
#: From here on a commit takes longer than to hand it to a thread and back: rows written.
_MANY_ROWS = 16


#: Behind a long reader the WAL grows. Once it can be begun anew, it is cut to this.
_MOST_WAL_BYTES = 64 * 1024 * 1024

#: Connections of a parent that was in the middle of a transaction when we were forked.
_NEVER_CLOSED: list[sqlite3.Connection] = []


class BusyError(Exception):
    """Somebody else is writing, and we were told not to wait."""


class SqliteAccounts(Protocol):
    """How accounts are read and moved in SQLite: our own, or the operator's."""

    @property
    def unknown(self) -> str:
        """What to do about an account that does not exist."""

    @property
    def key_parts(self) -> int:
        """How many parts the key of an account has."""

    def load(self, keys: Set[str]) -> Generator[Step, Any, list[Account]]:
        """Return those of the accounts that exist; the write lock is ours."""

    def store(self, changes: Changes, was: Mapping[str, Account]) -> Generator[Step, Any, None]:
        """Open and move accounts; ConflictError if one is not as it was."""

    def balance(self, key: str) -> Generator[Step, Any, int | None]:
        """Return a balance in cents, or None if there is no such account."""


class SqliteDialect:
    """How rows are loaded and stored in SQLite."""

    def __init__(self, prefix: str, clock_millis: Callable[[], int], *, accounts: SqliteAccounts | None = None) -> None:
        self._clock_millis = clock_millis
        self.accounts = accounts or OwnSqliteAccounts(prefix)
        self.key_parts = self.accounts.key_parts
        self.sources = Sources("sqlite", prefix)
        self._prefix = prefix
        # S608: the prefix was checked; all else is a parameter.
        bets = f"SELECT {BET_COLUMNS} FROM {prefix}bets WHERE source = ? AND bet_id "  # noqa: S608
        calls = f"SELECT {CALL_COLUMNS} FROM {prefix}calls WHERE source = ? AND operation = ? AND tx_id "  # noqa: S608
        self._bet, self._bets = bets + "= ?", bets + IN_LIST
        self._call, self._calls = calls + "= ?", calls + IN_LIST
        # Within the statement, for one of its own would cost as much as the whole look-up of a bet.
        may_write = f"NOT EXISTS ({OLDEST_WRITER.format(prefix=prefix)} AND value > {VERSION})"
        self._insert_calls = _insert(prefix, "calls", CALL_ROW, f"SELECT {{}} WHERE {may_write}")
        self._insert_bets = _insert(prefix, "bets", BET_COLUMNS)
        self._update_bets = (
            f"UPDATE {prefix}bets SET state = ?, won_cents = ?, settled_at_millis = ?, deposit_tx_id = ?, round_id = ? "  # noqa: S608
            "WHERE source = ? AND bet_id = ? AND (state IN ('OPEN', 'SPENT') "
            "OR (state = 'CLOSED' AND deposit_tx_id IS NULL AND ? = 'CLOSED'))"
        )
        self._insert_postings = (
            f"INSERT INTO {prefix}postings "  # noqa: S608
            "(from_account, to_account, amount_cents, source, operation, tx_id, at_millis) VALUES (?, ?, ?, ?, ?, ?, ?)"
        )
        self._upsert_anomalies = (
            f"INSERT INTO {prefix}anomalies (source, kind, code, operation, tx_id, bet_id, player_id, body, digest, "  # noqa: S608
            "first_at_millis, last_at_millis, seen) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 1) "
            "ON CONFLICT (source, kind, operation, digest) DO UPDATE SET seen = seen + 1, code = excluded.code, "
            "last_at_millis = excluded.last_at_millis"
        )

    def load(self, needs: Needs) -> Generator[Step, Any, Loaded]:
        """Read accounts, bets and calls; the write lock is ours."""
        accounts = yield from self.accounts.load(needs.accounts)
        bets = (yield one_or_many(self._bet, self._bets, (needs.source,), needs.bets)) if needs.bets else ()
        calls: list[CallRecord] = []
        for operation, tx_ids in _by_operation(needs.calls):
            rows = yield one_or_many(self._call, self._calls, (needs.source, operation), tx_ids)
            calls += [CallRecord(*row) for row in rows]
        return Loaded(accounts, list(map(bet_of, bets)), calls, self._clock_millis())

    def store(self, source: str, changes: Changes, *, was: Mapping[str, Account]) -> Generator[Step, Any, None]:
        """Write what changed; ConflictError if any of it is there already."""
        if not changes.calls:
            yield from check_writer(self._prefix)
        elif (yield Execute(self._insert_calls, rows := call_rows(changes, source), many=True)) != len(rows):
            yield from check_writer(self._prefix)
            raise ConflictError
        if changes.new_bets:
            yield from _write(self._insert_bets, bet_rows(changes.new_bets.values(), source))
        if changes.changed_bets:
            yield from _write(self._update_bets, changed_bet_rows(changes.changed_bets.values(), source))
        yield from self.accounts.store(changes, was)
        if changes.postings:
            yield from _write(self._insert_postings, changes.postings)
        if changes.anomalies:
            yield Execute(self._upsert_anomalies, anomaly_rows(changes.anomalies, source), many=True)


def _insert(prefix: str, table: str, columns: str, row: str = "VALUES ({})") -> str:
    values = row.format(", ".join("?" * len(columns.split(", "))))
    return f"INSERT INTO {prefix}{table} ({columns}) {values} ON CONFLICT DO NOTHING"


def _by_operation(calls: Iterable[tuple[str, str]]) -> Iterable[tuple[str, set[str]]]:
    groups: dict[str, set[str]] = {}
    for operation, tx_id in calls:
        groups.setdefault(operation, set()).add(tx_id)
    return groups.items()


def _write(sql: str, rows: list[Any]) -> Generator[Step, Any, None]:
    changed = yield Execute(sql, rows, many=True)
    if changed != len(rows):
        raise ConflictError


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


def _set_event() -> Event:
    event = Event()
    event.set()
    return event


def _is_busy(failed: sqlite3.Error) -> bool:
    return getattr(failed, "sqlite_errorcode", 0) & 0xFF in _BUSY


class _Patience:
    """How long to go on trying while somebody else holds a lock."""

    def __init__(self, seconds: float) -> None:
        self._until = time.monotonic() + seconds
        self._nap = 0.0005

    def waited_after(self, failed: sqlite3.Error) -> bool:
        """Wait a little and return True; False if *failed* is no lock, or our patience is over."""
        if not _is_busy(failed) or time.monotonic() > self._until:
            return False
        time.sleep(uniform(self._nap / 2, self._nap))  # noqa: S311 - spreads the waiters, hides nothing
        self._nap = min(self._nap * 1.5, _LONGEST_NAP)
        return True


def _read(connection: sqlite3.Connection, step: Step) -> Any:
    match step:
        case Execute(sql, parameters):
            return connection.execute(sql, parameters).fetchall()
        case Together(statements):
            return [_read(connection, each) for each in statements]
    raise AssertionError(f"{type(step).__name__} is not for a check")


#: Runs a function in a thread, to its end.
Elsewhere: TypeAlias = Callable[[Callable[[], object]], Awaitable[object]]


class SqliteStore:
    """One connection to an SQLite file. Not for two threads at a time: whoever uses it holds a lock."""

    #: What the operator's code raised, which says nothing of our file.
    _theirs: sqlite3.Error | None = None
    #: When our last transaction ended, and how long those before it took that followed one another.
    _ended = _held = 0.0

    def __init__(
        self,
        path: str,
        prefix: str,
        *,
        migrate: bool,
        patience_seconds: float,
        clock_millis: Callable[[], int],
        check: Callable[[], Generator[Step, Any, object]] = no_check,
    ) -> None:
        self.dialect = SqliteDialect(prefix, clock_millis)
        self._check = check
        self._path = path
        self._prefix = prefix
        self._patience_seconds = patience_seconds
        self._busy = RLock()
        self._rests = False
        self._committed = _set_event()
        self._closed = False
        self._file: tuple[int, int] | None = None
        self._connection: sqlite3.Connection | None = self._connected(migrate, create=True)
        notify_of_forks(self)

    def _connected(self, migrate: bool, *, create: bool) -> sqlite3.Connection:
        if sqlite3.sqlite_version_info < _OLDEST:
            raise ConfigurationError(
                f"This Python brings SQLite {sqlite3.sqlite_version}; the ledger needs 3.38 or newer. Upgrade Python."
            )
        patience = _Patience(self._patience_seconds)
        while True:
            try:
                connection = self._opened(migrate, create)
                self._file = self._file_now()
                return connection
            except sqlite3.Error as failed:
                # SQLite does not wait by itself when two processes turn on WAL at a time.
                if not patience.waited_after(failed):
                    self._raise_translated(failed)
                    raise

    def _opened(self, migrate: bool, create: bool) -> sqlite3.Connection:
        in_memory = self._path == IN_MEMORY
        if create and not in_memory:
            _make_private_file(self._path)
        # Where a file was and is no more, an empty one must not take its place.
        name = self._path if create or in_memory else f"{Path(self._path).absolute().as_uri()}?mode=rw"
        connection = sqlite3.connect(
            name, timeout=0, isolation_level=None, check_same_thread=False, uri=name != self._path
        )
        try:
            self._set_up(connection, migrate, is_first=create)
        except BaseException:
            connection.close()
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

    def _set_up(self, connection: sqlite3.Connection, migrate: bool, *, is_first: bool) -> None:
        connection.execute(f"PRAGMA busy_timeout = {int(self._patience_seconds * 1000)}")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA cache_size = -65536")
        connection.execute("PRAGMA wal_autocheckpoint = 4000")
        connection.execute(f"PRAGMA journal_size_limit = {_MOST_WAL_BYTES}")
        connection.execute("BEGIN IMMEDIATE")
        try:
            self._migrate(connection, migrate, is_first=is_first)
        except BaseException:
            connection.execute("ROLLBACK")
            raise
        connection.execute("COMMIT")
        connection.execute("PRAGMA busy_timeout = 0")

    def _migrate(self, connection: sqlite3.Connection, migrate: bool, *, is_first: bool) -> None:
        stored = self._stored_version(connection)
        if not is_first and stored is not None and (stored > VERSION or self._has_newest_table(connection)):
            # This process has been running since before a migration or the way back: whether it may, each write asks.
            return
        version = check_version(stored, self._prefix)
        if version == VERSION:
            return
        if not migrate:
            raise tables_needed("sqlite", self._prefix, version)
        drive(self._check(), lambda step: _read(connection, step))
        for statement in statements_of(ddl("sqlite", self._prefix, after=version)):
            connection.execute(statement)

    def _has_newest_table(self, connection: sqlite3.Connection) -> bool:
        return drive(has_newest_table("sqlite", self._prefix), lambda step: _read(connection, step))

    def _stored_version(self, connection: sqlite3.Connection) -> int | None:
        name = f"{self._prefix}meta"
        found = connection.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", (name,)).fetchone()
        if not found:
            return None
        row = connection.execute(f"SELECT value FROM {name} WHERE name = 'version'").fetchone()  # noqa: S608 - a checked prefix
        return None if row is None else int(row[0])

    def run(self, script: Callable[[], Generator[Step, Any, T]], *, wait: bool = True) -> T:
        """
        Run *script* in one transaction.

        Raises:
            BusyError: Somebody else is writing, and *wait* is False.
            LedgerUnavailableError: The file is locked for longer than our patience, full, or cannot be written.
        """
        if courtesy := self._courtesy():
            time.sleep(courtesy)
        with self._busy, self._transaction(wait) as connection:
            result = drive(script(), self._perform)
            connection.execute("COMMIT")
            return result

    async def run_async(self, script: Callable[[], Generator[Step, Any, T]], elsewhere: Elsewhere) -> T:
        """
        Run *script* in one transaction, on an event loop.

        What is short is done at once. What takes long because the disk does is awaited *elsewhere*, in a thread: to
        commit much. Nobody else may use this store meanwhile, and it must be awaited to its end.

        Raises:
            BusyError: Somebody else is writing.
            LedgerUnavailableError: The file is full, or cannot be written.
        """
        if courtesy := self._courtesy():
            await asyncio.sleep(courtesy)
        with self._busy, self._transaction(wait=False) as connection:
            before = connection.total_changes
            result = drive(script(), self._perform)
            if connection.total_changes - before < _MANY_ROWS:
                connection.execute("COMMIT")
                return result
            self._committed.clear()
            try:
                await elsewhere(lambda: self._commit(connection))
            finally:
                self._committed.set()
            return result

    def _commit(self, connection: sqlite3.Connection) -> None:
        try:
            connection.execute("COMMIT")
        finally:
            self._committed.set()  # Here, for the loop may be waiting for it, to fork.

    @contextlib.contextmanager
    def _transaction(self, wait: bool) -> Iterator[sqlite3.Connection]:
        """Begin a transaction, which whoever asks commits; roll back what fails."""
        connection = self._mine()
        self._begin(connection, wait)
        began = time.monotonic()
        try:
            yield connection
        except sqlite3.Error as failed:
            self._roll_back(connection)
            self._raise_translated(failed)
            raise
        except BaseException:
            self._roll_back(connection)
            raise
        finally:
            self._ended = time.monotonic()
            self._held += self._ended - began

    def _courtesy(self) -> float:
        """Return how long to leave the file to others, who would starve behind one commit after another."""
        if time.monotonic() - self._ended > _LONGEST_NAP:
            self._held = 0.0
        if self._held < _LONG_HELD:
            return 0.0
        self._held = 0.0
        return 1.5 * _LONGEST_NAP

    def read(self, script: Callable[[], Generator[Step, Any, T]]) -> T:
        """Run a *script* that only reads, from one snapshot."""
        patience = _Patience(self._patience_seconds)
        while True:
            try:
                return self._read_once(script)
            except sqlite3.Error as failed:
                # A reader waits for nobody, but for one who mends the file after a process died.
                if not patience.waited_after(failed):
                    self._raise_translated(failed)
                    raise

    def _read_once(self, script: Callable[[], Generator[Step, Any, T]]) -> T:
        with self._busy:
            connection = self._mine()
            connection.execute("BEGIN")
            try:
                return drive(script(), self._perform)
            finally:
                self._roll_back(connection)

    def express(self, _items: Sequence[Item]) -> Mapping[int, Outcome]:
        """Return nothing: here the long way has no round trips to save."""
        return {}

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
        """Let no transaction be under way, nor a COMMIT in the thread of a loop that forks: the lock is the loop's."""
        seconds = 2 * self._patience_seconds + 1
        self._rests = self._busy.acquire(timeout=seconds)
        self._committed.wait(seconds)

    def after_fork(self, *, in_child: bool) -> None:
        """In the child, close the inherited connection first: SQLite believes that it still has its locks."""
        if not in_child:
            if self._rests:
                self._busy.release()
            return
        connection, self._connection = self._connection, None
        rests = self._rests and self._committed.is_set()
        if connection is not None and rests and not connection.in_transaction:
            connection.close()
        elif connection is not None:
            _NEVER_CLOSED.append(connection)  # Closing it would undo what the parent is doing.
        self._busy = RLock()
        self._committed = _set_event()

    def _discard(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _mine(self) -> sqlite3.Connection:
        """Return our connection, opened again after a fork, and after the file was replaced."""
        if self._closed:
            raise LedgerUnavailableError("The ledger is closed. Open another, or close it later.")
        if self._connection is not None and self._file_now() != self._file:
            # What is written to a file that was moved away is lost.
            self._discard()
        if self._connection is None:
            self._connection = self._connected(migrate=False, create=False)
        return self._connection

    def _begin(self, connection: sqlite3.Connection, wait: bool) -> None:
        patience = _Patience(self._patience_seconds)
        while True:
            try:
                connection.execute("BEGIN IMMEDIATE")
                return
            except sqlite3.OperationalError as failed:
                if not wait and _is_busy(failed):
                    raise BusyError from failed
                if not patience.waited_after(failed):
                    self._raise_translated(failed)
                    raise

    def _perform(self, step: Step) -> Any:
        connection = self._connection
        assert connection is not None
        match step:
            case Execute(sql, parameters, many):
                if many:
                    return connection.executemany(sql, parameters).rowcount
                return connection.execute(sql, parameters).fetchall()
            case Together(statements):
                return [self._perform(statement) for statement in statements]
        return self._lent(step, connection) if is_lent(step) else answered(step, connection)

    def _lent(self, step: Step, connection: sqlite3.Connection) -> Any:
        connection.execute(SAVE)
        try:
            answer = answered(step, connection)
        except sqlite3.Error as raised:
            self._theirs = raised
            raise
        finally:
            # Later statements of ours rest on them.
            connection.row_factory, connection.text_factory = None, str
        try:
            connection.execute(RELEASE)
        except sqlite3.OperationalError as failed:
            raise broken_by(step) from failed
        return answer

    def _roll_back(self, connection: sqlite3.Connection) -> None:
        if connection.in_transaction:
            with contextlib.suppress(sqlite3.Error):  # A full disk has rolled back by itself.
                connection.execute("ROLLBACK")
        if connection.in_transaction:  # It cannot be used for another.
            self._discard()

    def _raise_translated(self, failed: sqlite3.Error) -> None:
        """Raise what only we can explain; an error of a statement is the operator's, in within or Accounts."""
        theirs, self._theirs = self._theirs, None
        if failed is theirs:
            return
        code = getattr(failed, "sqlite_errorcode", None)
        if code is None or code & 0xFF in _OF_STATEMENTS:
            return
        if code & 0xFF in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
            raise SchemaError(f"{shown(self._path)} is no SQLite database, or is damaged: {failed}.") from failed
        raise LedgerUnavailableError(
            f"The ledger in {shown(self._path)} cannot be used: {failed}. Nothing of this call was kept; "
            "check the disk, its permissions, and what else holds the file."
        ) from failed


def statements_of(text: str) -> Iterable[str]:
    """Split a script into its statements; a trigger's body holds semicolons of its own."""
    buffer = ""
    for line in text.splitlines(keepends=True):
        buffer += line
        if sqlite3.complete_statement(buffer):
            yield buffer
            buffer = ""
