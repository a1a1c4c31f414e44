"""Connections to PostgreSQL by psycopg 3, sync and async: they perform scripts, retry, and connect again."""

import asyncio
import contextlib
import os
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack
from functools import lru_cache
from random import uniform
from typing import Any, TypeVar

from game_operator.errors import ConfigurationError, LedgerUnavailableError, SchemaError
from game_operator.ledger.api import Outcome
from game_operator.ledger.engine.address import address_of, unreadable
from game_operator.ledger.engine.rows import CLOCK
from game_operator.ledger.engine.schema import VERSION, check_version, ddl, found_version, no_check, tables_needed
from game_operator.ledger.engine.script import (
    SAVE,
    Execute,
    Step,
    Together,
    answered,
    awaited_answer,
    broken_by,
    drive,
    drive_async,
    is_lent,
)
from game_operator.ledger.postgres.express import Express
from game_operator.ledger.postgres.sequences import Identities
from game_operator.ledger.rules.book import Item

try:
    import psycopg
    from psycopg.conninfo import conninfo_to_dict
    from psycopg.pq import TransactionStatus
    from psycopg.rows import tuple_row

    from game_operator.ledger.postgres.sessions import SEARCH_PATH, Prepared, Session, greeted
except ImportError as missing:
    raise ConfigurationError(
        "The ledger's own connection to PostgreSQL needs psycopg 3, also where your application uses asyncpg or "
        'psycopg2. Install the extra "postgres": pip install "game-operator[postgres]"'
    ) from missing


T = TypeVar("T")

#: Begin again: the server asks for it, and nothing was kept.
_AGAIN = (
    psycopg.errors.SerializationFailure,
    psycopg.errors.DeadlockDetected,
    psycopg.errors.LockNotAvailable,
)
#: The express lane has done nothing: another machine was there first, or a balance would leave its bounds.
_NOT_EXPRESS = (*_AGAIN, psycopg.errors.UniqueViolation, psycopg.errors.NumericValueOutOfRange)
#: The savepoint cannot be given up: what it stood in has failed, or is over.
_BROKEN = (
    psycopg.errors.InFailedSqlTransaction,
    psycopg.errors.InvalidSavepointSpecification,
    psycopg.errors.NoActiveSqlTransaction,
)
#: The server is gone, going or coming: connect again.
_GONE = (
    psycopg.OperationalError,
    psycopg.InterfaceError,
    # After a failover the server we are connected to is a standby: the next connection may find the new primary.
    psycopg.errors.ReadOnlySqlTransaction,
    psycopg.errors.IdleInTransactionSessionTimeout,
)


@lru_cache(512)
def for_psycopg(sql: str) -> str:
    """Return *sql* with psycopg's placeholders."""
    return sql.replace("%", "%%").replace("?", "%s")


def _address(url: str) -> str:
    """Return *url* as libpq reads it; raise ConfigurationError if it cannot."""
    address = address_of(url)
    try:
        conninfo_to_dict(address)
    except psycopg.ProgrammingError:
        raise unreadable() from None
    return address


def _parameters(address: str, patience_seconds: float) -> dict[str, Any]:  # Any: libpq's parameters, texts and numbers.
    """
    Return how we talk: in UTF-8, and how long libpq waits for a network that has gone silent, unless *address* says.

    Without these a server that vanishes without a word (a cut cable, a firewall's restart) is waited for, for hours.
    """
    seconds = max(2, round(patience_seconds))
    wanted = {
        "connect_timeout": seconds,
        "tcp_user_timeout": 2000 * seconds,
        "keepalives_idle": seconds,
        "keepalives_interval": max(1, seconds // 3),
        "keepalives_count": 3,
    }
    given = conninfo_to_dict(address)
    chosen = {name: value for name, value in wanted.items() if name not in given}
    # Whatever the database, the user or the environment prefers: an id has one spelling in bytes.
    return chosen | {"client_encoding": "utf8"}


def _check_encoding(rows: list[Any]) -> None:
    if rows[0][0] != "UTF8":
        raise SchemaError(
            f"The database has the encoding {rows[0][0]}, and the ledger needs UTF8, for ids can hold any text. "
            "Create the database with ENCODING 'UTF8'."
        )


def migration(
    prefix: str, migrate: bool, check: Callable[[], Generator[Step, Any, object]] = no_check
) -> Generator[Step, Any, None]:
    """
    Make or migrate the tables, after *check*, which may refuse; one process at a time.

    Raises:
        SchemaError: They are newer than this program, missing and not to be made, or not for this user to make.
    """
    try:
        yield from _migration(prefix, migrate, check)
    except psycopg.errors.InsufficientPrivilege as denied:
        raise SchemaError(
            f"The ledger's user may not look after the tables {prefix}*: {denied.diag.message_primary}. Let somebody "
            "who may run the statements that migrate=False prints, and grant it SELECT, INSERT, UPDATE (prune: DELETE) "
            "and SELECT, UPDATE on the sequences."
        ) from denied


def _migration(
    prefix: str, migrate: bool, check: Callable[[], Generator[Step, Any, object]]
) -> Generator[Step, Any, None]:
    _check_encoding((yield Execute("SELECT current_setting('server_encoding')", ())))
    # Who waits for a lock makes all others wait behind: we give up soon, and come again.
    yield Execute("SET LOCAL lock_timeout = '1s'", ())
    yield Execute("SELECT pg_advisory_xact_lock(hashtext(?))", (f"{prefix}migration",))
    version = check_version((yield from found_version("postgres", prefix)), prefix)
    if version != VERSION:
        if not migrate:
            raise tables_needed("postgres", prefix, version)
        yield from check()
        yield from _migrated(ddl("postgres", prefix, after=version))
    yield from _check_grants(prefix)


def _migrated(text: str) -> Generator[Step, Any, None]:
    # One table is for ledgers of all prefixes, which may be opened for the first time at once.
    yield Execute("SELECT pg_advisory_xact_lock(hashtext('game_operator_balance_tables'))", ())
    # Whole tables are read, unlike by calls.
    yield Execute("SET LOCAL statement_timeout = 0", ())
    yield Execute("SET LOCAL enable_seqscan = on", ())
    for statement in _statements(text):
        yield Execute(statement, ())


def _check_grants(prefix: str) -> Generator[Step, Any, None]:
    """Raise SchemaError if who may write the ledger's calls may not write the tables that version 2 added."""
    names = [f"{prefix}sources", f"{prefix}corrections", "game_operator_balance_tables"]
    rows = yield Execute(
        "SELECT name, quote_ident(current_user) FROM unnest(CAST(? AS text[])) AS name "
        "WHERE NOT has_table_privilege(name, 'SELECT') OR (has_table_privilege(?, 'INSERT') "
        "AND NOT (has_table_privilege(name, 'INSERT') AND has_table_privilege(name, 'UPDATE')))",
        (names, f"{prefix}calls"),
    )
    if rows:
        missing = ", ".join(row[0] for row in rows)
        raise SchemaError(
            f"The ledger's user may not read and write tables that a migration added. Let their owner run: "
            f"GRANT SELECT, INSERT, UPDATE ON {missing} TO {rows[0][1]};"
        )


def _statements(text: str) -> Iterator[str]:
    """Split a script into its statements; a function's body between $$ holds semicolons of its own."""
    buffer = ""
    for line in text.splitlines(keepends=True):
        buffer += line
        if line.rstrip().endswith(";") and buffer.count("$$") % 2 == 0:
            yield buffer
            buffer = ""


def _unavailable(failed: BaseException, *, opened: bool) -> LedgerUnavailableError:
    # What libpq says may hold the address, but never the password.
    reason = " ".join(str(failed).split())[:300]
    doubt = " A call under way may have been committed: its repeat tells." if opened else ""
    return LedgerUnavailableError(f"The ledger's PostgreSQL cannot be used: {reason}.{doubt}")


def _theirs(
    raised: psycopg.Error, connection: "psycopg.Connection[Any] | psycopg.AsyncConnection[Any]"
) -> BaseException | None:
    """Return *raised* by the operator's code if it is no failure of our connection: some other database, say."""
    return raised if connection.info.transaction_status is TransactionStatus.INTRANS else None


#: Pipelines of a parent that was in the middle of a transaction when we were forked; collected, they would be left.
_LEFT_TO_PARENTS: list[ExitStack] = []


class _Patience:
    """How long to go on trying, and how long to wait in between."""

    def __init__(self, seconds: float, *, opened: bool) -> None:
        self._until = time.monotonic() + seconds
        self._nap = 0.005
        self._opened = opened

    def nap_after(self, failed: BaseException) -> float:
        """Return how many seconds to wait before the next attempt; raise LedgerUnavailableError when there is none."""
        if time.monotonic() + self._nap > self._until:
            raise _unavailable(failed, opened=self._opened) from failed
        nap = uniform(self._nap / 2, self._nap)  # noqa: S311 - spreads the attempts, hides nothing
        self._nap = min(self._nap * 2, 0.5)
        return nap


class _Lender:
    """What both stores know of their connection, and of lending it."""

    #: The latest connection's; None until we were first connected.
    _session: Session | None = None
    #: What the operator's code raised while the connection was well: not a reason to try again.
    _theirs: BaseException | None = None

    @property
    def _current(self) -> Session:
        """The session of the connection that is in use."""
        assert self._session is not None
        return self._session

    def _pipelined(self, connection: Any) -> Any:  # Any: a connection, and its context manager, sync or async
        """
        Return a pipeline of *connection*, which spares round trips; behind a pooler, nothing.

        With pipelines, PgBouncer 1.18 now and then left the server's connection with its client after the COMMIT, so
        that others waited for it until that client's next call.
        """
        return contextlib.nullcontext() if self._current.pooled else connection.pipeline()

    def _raise_if_in_doubt(self) -> None:
        """Raise LedgerUnavailableError if the server has put the latest commit in doubt."""
        if self._session is not None:
            self._session.doubt.check()

    def _raise_if_theirs(self, failed: BaseException) -> None:
        theirs, self._theirs = self._theirs, None
        if failed is theirs:
            raise failed


class PostgresStore(_Lender):
    """One connection. Not for two threads at a time: whoever uses it holds a lock."""

    def __init__(
        self,
        url: str,
        prefix: str,
        *,
        migrate: bool,
        patience_seconds: float,
        pooler: bool | None = None,
        check: Callable[[], Generator[Step, Any, object]] = no_check,
    ) -> None:
        self._express = Express(prefix, CLOCK)
        self._identities, self._pooler = Identities(prefix), pooler
        self._url = _address(url)
        self._patience_seconds = patience_seconds
        self._pid = os.getpid()
        self._closed = False
        self._connection: psycopg.Connection[Any] | None = None
        self._cursor: psycopg.Cursor[Any] | None = None
        self._prepared: Prepared | None = None
        self._pipeline = ExitStack()
        try:
            self.run(lambda: migration(prefix, migrate, check))
        except BaseException:
            self._drop()
            raise

    def run(self, script: Callable[[], Generator[Step, Any, T]]) -> T:
        """Run *script* in one transaction; again, while the server asks for it or comes back within our patience."""
        patience = _Patience(self._patience_seconds, opened=self._session is not None)
        while True:
            try:
                return self._attempt(script)
            except _AGAIN as failed:
                self._raise_if_theirs(failed)
                nap = patience.nap_after(failed)
            except _GONE as failed:
                self._raise_if_theirs(failed)
                self._drop()
                self._raise_if_in_doubt()
                nap = patience.nap_after(failed)
            except psycopg.errors.UniqueViolation as failed:
                self._raise_if_theirs(failed)
                table = self._identities.table_of(failed)
                if table is None:
                    raise
                self._advance(table)
                nap = patience.nap_after(failed)
            time.sleep(nap)

    read = run

    def express(self, items: Sequence[Item]) -> dict[int, Outcome]:
        """Apply what the express lane can take of *items*; outcomes by index, committed."""
        statement = self._express.statement(items)
        if statement is None:
            return {}
        try:
            connection = self._mine()
            if self._prepared is None:
                return {}
            rows = connection.wait(self._prepared.execution(statement))
        except _NOT_EXPRESS:
            return {}
        except _GONE:  # Whether it was committed, the long way finds out.
            self._drop()
            self._raise_if_in_doubt()
            return {}
        self._raise_if_in_doubt()
        return self._express.outcomes(rows)

    def rest(self) -> None:
        """Close the connection until it is needed again."""
        if self._pid == os.getpid():
            self._drop()

    def close(self) -> None:
        """Close the connection."""
        self._closed = True
        self.rest()

    def _attempt(self, script: Callable[[], Generator[Step, Any, T]]) -> T:
        connection = self._mine()
        try:
            with self._pipeline:
                self._pipeline.enter_context(self._pipelined(connection))
                for statement in self._current.begin:
                    connection.execute(statement)
                result = drive(script(), self._perform)
                connection.execute("COMMIT")
        except BaseException:
            self._roll_back(connection)
            raise
        self._raise_if_in_doubt()
        return result

    def _mine(self) -> "psycopg.Connection[Any]":
        if self._closed:
            raise LedgerUnavailableError("The ledger is closed. Open another, or close it later.")
        if self._pid != os.getpid():
            # A connection shared by two processes after fork would mix their answers. The parent's stays its own, and
            # so does a pipeline that another of its threads was in: to leave it would wait for the server's answer.
            _LEFT_TO_PARENTS.append(self._pipeline)
            self._pid, self._connection, self._pipeline = os.getpid(), None, ExitStack()
        if self._connection is None or self._connection.closed:
            connection = psycopg.connect(self._url, autocommit=True, **_parameters(self._url, self._patience_seconds))
            try:
                greeting = greeted(connection, self._patience_seconds, self._identities, pooler=self._pooler)
                self._session = drive(greeting, lambda step: _unprepared(step, connection))
            except BaseException:
                connection.close()
                raise
            self._connection, self._cursor = connection, connection.cursor()
            self._prepared = None if self._session.pooled else Prepared(connection.pgconn)
        return self._connection

    def _advance(self, table: str) -> None:
        """Advance the sequences, because a new id in *table* was taken already."""
        try:
            connection = self._mine()
            drive(self._identities.advanced(failed_table=table), lambda step: _unprepared(step, connection))
        except _GONE:
            self._drop()

    def _perform(self, step: Step) -> Any:
        connection = self._connection
        assert connection is not None
        match step:
            case Execute(sql, parameters, True):
                for row in parameters:
                    connection.execute(for_psycopg(sql), row)
                return len(parameters)
            case Execute(sql, parameters):
                assert self._cursor is not None
                return _rows(self._cursor.execute(for_psycopg(sql), parameters or None))
            case Together(statements):
                cursors = [connection.execute(for_psycopg(each.sql), each.parameters or None) for each in statements]
                return [_rows(cursor) for cursor in cursors]
        return self._lent(step, connection) if is_lent(step) else self._asked(step, connection)

    def _lent(self, step: Step, connection: "psycopg.Connection[Any]") -> Any:
        connection.execute(SAVE)
        # Behind a pooler each server connection may have its own.
        path = _rows(connection.execute(SEARCH_PATH))[0][0] if self._current.pooled else None
        # In a pipeline the operator's own statements would tell neither how many rows they met, nor what failed.
        self._pipeline.close()
        try:
            answer = self._asked(step, connection)
        finally:
            connection.row_factory, connection.cursor_factory = tuple_row, psycopg.Cursor
        try:
            connection.execute(self._current.taken_back(path), prepare=False)
        except _BROKEN as failed:
            raise broken_by(step) from failed
        self._pipeline.enter_context(self._pipelined(connection))
        return answer

    def _asked(self, step: Step, connection: "psycopg.Connection[Any]") -> Any:
        try:
            return answered(step, connection)
        except psycopg.Error as raised:
            self._theirs = _theirs(raised, connection)
            raise

    def _roll_back(self, connection: "psycopg.Connection[Any]") -> None:
        try:
            if not connection.closed and connection.info.transaction_status is not TransactionStatus.IDLE:
                connection.execute("ROLLBACK")
            if not connection.closed:  # What was seen before says nothing of the next commit.
                self._current.doubt.reason = None
        except psycopg.Error:
            self._drop()

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(psycopg.Error):
                connection.close()


class AsyncPostgresStore(_Lender):
    """One connection of one event loop. Not for two tasks at a time: whoever uses it holds a lock."""

    def __init__(self, url: str, prefix: str, *, patience_seconds: float, pooler: bool | None = None) -> None:
        self._express = Express(prefix, CLOCK)
        self._identities, self._pooler = Identities(prefix), pooler
        self._url = _address(url)
        self._patience_seconds = patience_seconds
        self._connection: psycopg.AsyncConnection[Any] | None = None
        self._cursor: psycopg.AsyncCursor[Any] | None = None
        self._prepared: Prepared | None = None
        self._pipeline = AsyncExitStack()

    async def run(self, script: Callable[[], Generator[Step, Any, T]]) -> T:
        """Run *script* in one transaction; again, while the server asks for it or comes back within our patience."""
        patience = _Patience(self._patience_seconds, opened=self._session is not None)
        while True:
            try:
                return await self._attempt(script)
            except _AGAIN as failed:
                self._raise_if_theirs(failed)
                nap = patience.nap_after(failed)
            except _GONE as failed:
                self._raise_if_theirs(failed)
                await self._drop()
                self._raise_if_in_doubt()
                nap = patience.nap_after(failed)
            except psycopg.errors.UniqueViolation as failed:
                self._raise_if_theirs(failed)
                table = self._identities.table_of(failed)
                if table is None:
                    raise
                await self._advance(table)
                nap = patience.nap_after(failed)
            await asyncio.sleep(nap)

    read = run

    async def express(self, items: Sequence[Item]) -> dict[int, Outcome]:
        """Apply what the express lane can take of *items*; outcomes by index, committed."""
        statement = self._express.statement(items)
        if statement is None:
            return {}
        try:
            connection = await self._connected()
            if self._prepared is None:
                return {}
            rows = await connection.wait(self._prepared.execution(statement))
        except asyncio.CancelledError:
            await self._drop()
            raise
        except _NOT_EXPRESS:
            return {}
        except _GONE:  # Whether it was committed, the long way finds out.
            await self._drop()
            self._raise_if_in_doubt()
            return {}
        self._raise_if_in_doubt()
        return self._express.outcomes(rows)

    async def close(self) -> None:
        """Close the connection."""
        await self._drop()

    async def _attempt(self, script: Callable[[], Generator[Step, Any, T]]) -> T:
        connection = await self._connected()
        try:
            async with self._pipeline:
                await self._pipeline.enter_async_context(self._pipelined(connection))
                for statement in self._current.begin:
                    await connection.execute(statement)
                result = await drive_async(script(), self._perform)
                await connection.execute("COMMIT")
        except asyncio.CancelledError:
            # In the middle of an exchange the connection's state is unknown; the server rolls back when it goes.
            await self._drop()
            raise
        except BaseException:
            await self._roll_back(connection)
            raise
        self._raise_if_in_doubt()
        return result

    async def _connected(self) -> "psycopg.AsyncConnection[Any]":
        if self._connection is None or self._connection.closed:
            parameters = _parameters(self._url, self._patience_seconds)
            connection = await psycopg.AsyncConnection.connect(self._url, autocommit=True, **parameters)
            try:
                greeting = greeted(connection, self._patience_seconds, self._identities, pooler=self._pooler)
                self._session = await drive_async(greeting, lambda step: _unprepared_async(step, connection))
            except BaseException:  # A task that is cancelled here must not leave a session behind.
                await connection.close()
                raise
            self._connection, self._cursor = connection, connection.cursor()
            self._prepared = None if self._session.pooled else Prepared(connection.pgconn)
        return self._connection

    async def _advance(self, table: str) -> None:
        """Advance the sequences, because a new id in *table* was taken already."""
        advance = self._identities.advanced(failed_table=table)
        try:
            connection = await self._connected()
            await drive_async(advance, lambda step: _unprepared_async(step, connection))
        except asyncio.CancelledError:
            await self._drop()
            raise
        except _GONE:
            await self._drop()

    async def _perform(self, step: Step) -> Any:
        connection = self._connection
        assert connection is not None
        match step:
            case Execute(sql, parameters, True):
                for row in parameters:
                    await connection.execute(for_psycopg(sql), row)
                return len(parameters)
            case Execute(sql, parameters):
                assert self._cursor is not None
                return await _rows_async(await self._cursor.execute(for_psycopg(sql), parameters or None))
            case Together(statements):
                cursors = [
                    await connection.execute(for_psycopg(each.sql), each.parameters or None) for each in statements
                ]
                return [await _rows_async(cursor) for cursor in cursors]
        return await (self._lent(step, connection) if is_lent(step) else self._asked(step, connection))

    async def _lent(self, step: Step, connection: "psycopg.AsyncConnection[Any]") -> Any:
        await connection.execute(SAVE)
        # Behind a pooler each server connection may have its own.
        path = (await _rows_async(await connection.execute(SEARCH_PATH)))[0][0] if self._current.pooled else None
        # In a pipeline the operator's own statements would tell neither how many rows they met, nor what failed.
        await self._pipeline.aclose()
        try:
            answer = await self._asked(step, connection)
        finally:
            connection.row_factory, connection.cursor_factory = tuple_row, psycopg.AsyncCursor
        try:
            await connection.execute(self._current.taken_back(path), prepare=False)
        except _BROKEN as failed:
            raise broken_by(step) from failed
        await self._pipeline.enter_async_context(self._pipelined(connection))
        return answer

    async def _asked(self, step: Step, connection: "psycopg.AsyncConnection[Any]") -> Any:
        try:
            return await awaited_answer(step, connection)
        except psycopg.Error as raised:
            self._theirs = _theirs(raised, connection)
            raise

    async def _roll_back(self, connection: "psycopg.AsyncConnection[Any]") -> None:
        try:
            if not connection.closed and connection.info.transaction_status is not TransactionStatus.IDLE:
                await connection.execute("ROLLBACK")
            if not connection.closed:  # What was seen before says nothing of the next commit.
                self._current.doubt.reason = None
        except psycopg.Error:
            await self._drop()

    async def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(psycopg.Error):
                await connection.close()


def _unprepared(step: Step, connection: "psycopg.Connection[Any]") -> list[Any]:
    """Execute one statement by itself, committed."""
    assert isinstance(step, Execute)
    return _rows(connection.execute(for_psycopg(step.sql), step.parameters or None, prepare=False))


async def _unprepared_async(step: Step, connection: "psycopg.AsyncConnection[Any]") -> list[Any]:
    """Execute one statement by itself, committed."""
    assert isinstance(step, Execute)
    return await _rows_async(await connection.execute(for_psycopg(step.sql), step.parameters or None, prepare=False))


async def _rows_async(cursor: "psycopg.AsyncCursor[Any]") -> list[Any]:
    try:
        return await cursor.fetchall()
    except psycopg.ProgrammingError as failed:
        if type(failed) is not psycopg.ProgrammingError:  # The server's own refusals have classes of their own.
            raise
        return []  # A statement without rows; in a pipeline nothing tells so before.


def _rows(cursor: "psycopg.Cursor[Any]") -> list[Any]:
    try:
        return cursor.fetchall()
    except psycopg.ProgrammingError as failed:
        if type(failed) is not psycopg.ProgrammingError:  # The server's own refusals have classes of their own.
            raise
        return []  # A statement without rows; in a pipeline nothing tells so before.
