"""Connections to PostgreSQL by psycopg 3, sync and async: they perform scripts, retry, and connect again."""

import asyncio
import contextlib
import os
import time
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from random import uniform
from typing import Any, ClassVar, TypeVar

from game_operator.errors import LedgerUnavailableError
from game_operator.ledger.api import Outcome
from game_operator.ledger.engine.address import CHECK_SERVER, address_of, limits_of, missing_psycopg, sentences
from game_operator.ledger.engine.tables import CLOCK
from game_operator.ledger.postgres.express import Express
from game_operator.ledger.postgres.hazards import Identities
from game_operator.ledger.rules.book import Item
from game_operator.ledger.steps import (
    SAVE,
    Answer,
    AskOperator,
    Execute,
    Step,
    Steps,
    Together,
    UnwritableError,
    run,
    run_async,
)

try:
    import psycopg
    from psycopg.conninfo import conninfo_to_dict
    from psycopg.pq import PipelineStatus, TransactionStatus
    from psycopg.rows import tuple_row

    from game_operator.ledger.postgres.sessions import (
        SEARCH_PATH,
        FormerPrimaryError,
        InOneQuery,
        Prepared,
        Session,
        greeted,
    )
    from game_operator.ledger.postgres.socket_reader import SocketReader
except ImportError as missing:
    raise missing_psycopg() from missing


T = TypeVar("T")

#: The server has undone a transaction, and asks to repeat all of it.
_REPEATED = (psycopg.errors.SerializationFailure, psycopg.errors.DeadlockDetected)
#: Begin again: nothing was kept.
_AGAIN = (*_REPEATED, psycopg.errors.LockNotAvailable)
#: An id was taken, or is below those of its partition: the sequence may be behind.
_OLD_ID = (psycopg.errors.UniqueViolation, psycopg.errors.CheckViolation)
#: The express lane has done nothing: another machine was there first, or a balance would leave its bounds.
_NOT_EXPRESS = (*_AGAIN, *_OLD_ID, psycopg.errors.NumericValueOutOfRange)
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
    UnwritableError,
    psycopg.errors.IdleInTransactionSessionTimeout,
)


def _unavailable(failed: psycopg.Error | UnwritableError, doubt: str) -> LedgerUnavailableError:
    """Return the error for a server that did not do its part in time."""
    remedy = "" if failed.sqlstate else CHECK_SERVER
    if isinstance(failed, psycopg.errors.LockNotAvailable):
        remedy = 'Another transaction holds a lock: docs/how-to/runbook.md, "Calls are stuck", says how to find it.'
    # What libpq says may hold the address, but never the password.
    return LedgerUnavailableError(f"The ledger's PostgreSQL cannot be used: {sentences(failed)}{doubt}", remedy=remedy)


@lru_cache(512)
def for_psycopg(sql: str) -> str:
    """Return *sql* with psycopg's placeholders."""
    return sql.replace("%", "%%").replace("?", "%s")


class _Store:
    """
    One connection, for one thread or task at a time: its user holds a lock.

    All it does is written as steps, for threads and for asyncio: what its public methods return is awaited there.
    """

    #: Whether the calls of the connection are awaited.
    _awaits: ClassVar[bool]
    #: ``run`` or ``run_async``.
    _done: Callable[..., Answer]
    #: The latest connection's; None until we were first connected.
    _session: Session | None = None
    #: What the operator's code raised while the connection was well: not a reason to try again.
    _theirs: BaseException | None = None
    #: The latest question to the operator's code in this transaction.
    _asked_last: AskOperator | None = None
    #: Waits for the connection in its stead, under asyncio.
    _reader: "SocketReader | None" = None

    def __init__(self, url: str, prefix: str, *, patience_seconds: float, pooler: bool | None = None) -> None:
        self._express = Express(prefix, CLOCK)
        self._identities, self._pooler = Identities(prefix), pooler
        self._url = address_of(url)
        self._patience_seconds = patience_seconds
        self._pid = os.getpid()
        #: How many hosts of the address to pass over first: former primaries.
        self._passed_over = 0
        self._connection: Any = None  # Any: one of two kinds, as all that is made of it.
        self._cursor: Any = None
        #: Executes the express statement on the connection.
        self._executor: Prepared | InOneQuery | None = None
        #: The connection's pipeline while we are in one.
        self._pipeline: Any = None

    def run(self, script: Callable[[], Steps[T]]) -> Any:
        """Run *script* in one transaction; again, while the server asks for it or comes back in time."""
        return self._done(self._run(script))

    read = run

    def express(self, items: Sequence[Item]) -> Any:
        """Apply what the express statement can take of *items*; return outcomes by index, committed."""
        return self._done(self._express_done(items))

    def close(self) -> Any:
        """Close the connection."""
        return self._done(self._drop())

    def _enter_pipeline(self, connection: Any) -> Steps[None]:
        """
        Enter a pipeline of *connection*, which spares round trips; behind a pooler there is none.

        With pipelines, PgBouncer 1.18 now and then left the server's connection with its client after the COMMIT, so
        that others waited for it until that client's next call.
        """
        assert self._session is not None
        if not self._session.pooled:
            pipeline = connection.pipeline()
            yield pipeline.__aenter__ if self._awaits else pipeline.__enter__
            self._pipeline = pipeline

    def _left_pipeline(self, raised: BaseException | None = None) -> Any:
        """Leave the pipeline, if we are in one."""
        pipeline, self._pipeline = self._pipeline, None
        if pipeline is None:
            return None
        leave = pipeline.__aexit__ if self._awaits else pipeline.__exit__
        return leave(type(raised) if raised else None, raised, raised and raised.__traceback__)

    def _run(self, script: Callable[[], Steps[T]]) -> Steps[T]:
        until, nap = time.monotonic() + self._patience_seconds, 0.005
        doubt = " A call under way may have been committed: its repeat finds out." if self._session else ""
        sleep: Callable[[float], Any] = asyncio.sleep if self._awaits else time.sleep
        table: str | None = None
        while True:
            try:
                if table is not None:  # A new id in it was not new, so its sequence is behind.
                    yield from self._attempt(partial(self._identities.advanced, failed_table=table))
                return (yield from self._attempt(script))
            except (*_AGAIN, *_GONE, *_OLD_ID) as failed:
                theirs, self._theirs = self._theirs, None
                if failed is theirs:
                    raise
                if isinstance(failed, _OLD_ID):
                    table = self._identities.table_of(failed)
                    if table is None:
                        raise
                elif not isinstance(failed, _AGAIN):
                    yield from self._drop()
                    self._raise_if_warned()
                if time.monotonic() + nap > until:
                    raise _unavailable(failed, doubt) from failed
            yield partial(sleep, uniform(nap / 2, nap))  # noqa: S311 - spreads the attempts, hides nothing
            nap = min(nap * 2, 0.5)

    def _express_done(self, items: Sequence[Item]) -> Steps[dict[int, Outcome]]:
        statement = self._express.statement(items)
        if statement is None:
            return {}
        try:
            connection = self._live() or (yield from self._connected())
            assert self._executor is not None
            rows = yield partial((self._reader or connection).wait, self._executor.execution(statement))
        except asyncio.CancelledError:
            yield from self._drop()
            raise
        except _NOT_EXPRESS:
            return {}
        except _GONE:  # Whether it was committed, the long way finds out.
            yield from self._drop()
            self._raise_if_warned()
            return {}
        self._raise_if_warned()
        return self._express.outcomes(items, rows)

    def _attempt(self, script: Callable[[], Steps[T]]) -> Steps[T]:
        connection = self._live() or (yield from self._connected())
        assert self._session is not None
        self._asked_last = None
        try:
            try:
                yield from self._enter_pipeline(connection)
                for statement in self._session.begin:
                    yield partial(connection.execute, statement)
                result: T = yield partial(self._done, script(), self._perform)
                yield partial(connection.execute, "COMMIT")
            except BaseException as raised:  # What cancels the task, too, leaves the pipeline.
                yield partial(self._left_pipeline, raised)
                raise
            yield self._left_pipeline
        except asyncio.CancelledError:
            # In the middle of an exchange the connection's state is unknown; the server rolls back when it goes.
            yield from self._drop()
            raise
        except BaseException as raised:  # Ctrl-C, too, leaves no transaction open.
            yield from self._roll_back(connection)
            if isinstance(raised, _BROKEN) and self._asked_last is not None:
                raise self._asked_last.breach() from raised
            raise
        self._raise_if_warned()
        return result

    def _live(self) -> Any:
        """Return the connection, or None where it has to be opened first."""
        if self._connection is None or self._connection.closed:
            return None
        if _status(self._connection) != TransactionStatus.IDLE or _is_in_pipeline(self._connection):
            # Of a call that was interrupted before it could roll back: the next one would commit it.
            self._connection.pgconn.finish()
            if self._reader is not None:
                self._reader.close()
            self._connection = self._pipeline = self._reader = None
            return None
        return self._connection

    def _connected(self) -> Steps[Any]:
        """Connect, and return the connection."""
        parameters = limits_of(self._url, self._patience_seconds)
        # An id has one spelling in bytes, even if the database, the user or the environment prefers another encoding.
        parameters["client_encoding"] = "utf8"
        parameters |= _turned(conninfo_to_dict(self._url), self._passed_over)
        kind: Any = psycopg.AsyncConnection if self._awaits else psycopg.Connection
        connection = yield partial(kind.connect, self._url, autocommit=True, **parameters)
        try:
            greeting = greeted(connection, self._patience_seconds, self._identities, pooler=self._pooler)
            self._session = yield partial(self._done, greeting, lambda step: self._done(_unprepared(step, connection)))
        except BaseException as raised:  # A task that is cancelled here must not leave a session behind.
            self._passed_over += isinstance(raised, FormerPrimaryError)
            yield connection.close
            raise
        self._connection, self._cursor = connection, connection.cursor()
        pgconn, is_pooled = connection.pgconn, self._session.pooled
        self._executor = InOneQuery(pgconn, self._patience_seconds) if is_pooled else Prepared(pgconn)
        self._reader = SocketReader(connection) if self._awaits else None
        return connection

    def _perform(self, step: Step) -> Answer:
        return self._done(self._performed(step))

    def _performed(self, step: Step) -> Steps[Answer]:
        connection = self._connection
        match step:
            case Execute(sql, parameters, True):
                for row in parameters:
                    yield partial(connection.execute, for_psycopg(sql), row)
                return len(parameters)
            case Execute(sql, parameters):
                return (yield from _rows((yield partial(self._cursor.execute, for_psycopg(sql), parameters or None))))
            case Together(statements):
                cursors = []
                for each in statements:
                    execute = partial(connection.execute, for_psycopg(each.sql), each.parameters or None)
                    cursors.append((yield execute))
                rows = []
                for cursor in cursors:
                    rows.append((yield cursor.fetchall))  # noqa: PERF401
                return rows
        assert isinstance(step, AskOperator)
        return (yield from self._handed_over(step, connection))

    def _handed_over(self, step: AskOperator, connection: Any) -> Steps[Any]:
        assert self._session is not None
        yield partial(connection.execute, SAVE)
        # Behind a pooler each server connection may have its own.
        path = None
        if self._session.pooled:
            path = (yield from _rows((yield partial(connection.execute, SEARCH_PATH))))[0][0]
        # In a pipeline the operator's own statements would report neither how many rows they met, nor what failed.
        yield self._left_pipeline
        try:
            answer = yield from self._asked(step, connection)
        finally:
            connection.row_factory = tuple_row
            connection.cursor_factory = psycopg.AsyncCursor if self._awaits else psycopg.Cursor
        self._asked_last = step
        # The next statement of ours takes them along. If the savepoint is gone, the server executes nothing after that.
        yield from self._enter_pipeline(connection)
        for statement in self._session.taken_back(path):
            yield partial(connection.execute, statement)
        return answer

    def _asked(self, step: AskOperator, connection: Any) -> Steps[Any]:
        try:
            return (yield from step.answering(connection, awaits=self._awaits))
        except psycopg.Error as raised:
            # While our connection is well, it is a failure of something else: of another database, say. But a deadlock
            # is one of ours even where the operator's own savepoint has undone it.
            is_well = connection.info.transaction_status is TransactionStatus.INTRANS
            self._theirs = raised if is_well and not isinstance(raised, _REPEATED) else None
            raise

    def _raise_if_warned(self) -> None:
        """Raise LedgerUnavailableError if the server has put the latest commit in doubt."""
        if self._session is not None:
            self._session.warnings.check()

    def _roll_back(self, connection: Any) -> Steps[None]:
        if not connection.closed and (_is_in_pipeline(connection) or _status(connection) == TransactionStatus.ACTIVE):
            yield from self._drop()  # Interrupted in the middle of an exchange: a ROLLBACK could wait for ever.
            return
        try:
            if not connection.closed and _status(connection) != TransactionStatus.IDLE:
                yield partial(connection.execute, "ROLLBACK")
            if not connection.closed and self._session is not None:  # What was seen says nothing of the next commit.
                self._session.warnings.reason = None
        except psycopg.Error:
            yield from self._drop()

    def _drop(self) -> Steps[None]:
        connection, self._connection = self._connection, None
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()
        if connection is not None:
            with contextlib.suppress(psycopg.Error):
                yield connection.close


#: Pipelines of a parent that was in the middle of a transaction when we were forked; collected, they would be left.
_LEFT_TO_PARENTS: list[object] = []


class PostgresStore(_Store):
    """One connection for threads. It is opened again after a fork, and the parent's is left alone."""

    _awaits = False
    _done = staticmethod(run)
    _closed = False

    def rest(self) -> None:
        """Close the connection until it is needed again."""
        if self._pid == os.getpid():
            run(self._drop())

    def close(self) -> None:
        """Close the connection."""
        self._closed = True
        self.rest()

    def _live(self) -> Any:
        if self._closed:
            raise LedgerUnavailableError("The ledger is closed. Open another, or close it later.")
        if self._pid != os.getpid():
            # A connection shared by two processes after fork would mix their answers. The parent's stays its own, and
            # so does a pipeline that another of its threads was in: to leave it would wait for the server's answer.
            _LEFT_TO_PARENTS.append(self._pipeline)
            self._pid, self._connection, self._pipeline = os.getpid(), None, None
        return super()._live()


class AsyncPostgresStore(_Store):
    """One connection of one event loop."""

    _awaits = True
    _done = staticmethod(run_async)


def _status(connection: Any) -> int:
    return int(connection.pgconn.transaction_status)


def _is_in_pipeline(connection: Any) -> bool:
    return bool(connection.pgconn.pipeline_status != PipelineStatus.OFF)


def _turned(given: Mapping[str, Any], places: int) -> dict[str, str]:
    """Return what an address with several hosts says of them, with the first *places* of them last."""
    lists = {name: str(given.get(name, "")).split(",") for name in ("host", "hostaddr", "port")}
    return {
        name: ",".join(each[places % len(each) :] + each[: places % len(each)])
        for name, each in lists.items()
        if len(each) > 1
    }


def _unprepared(step: Step, connection: Any) -> Steps[list[Any]]:
    """Execute one statement by itself, committed."""
    assert isinstance(step, Execute)
    cursor = yield partial(connection.execute, for_psycopg(step.sql), step.parameters or None, prepare=False)
    return (yield from _rows(cursor))


def _rows(cursor: Any) -> Steps[list[Any]]:
    try:
        return (yield cursor.fetchall)  # type: ignore[no-any-return]  # A list of rows.
    except psycopg.ProgrammingError as failed:
        if type(failed) is not psycopg.ProgrammingError:  # The server's own refusals have classes of their own.
            raise
        return []  # A statement without rows; in a pipeline it is not known before.
