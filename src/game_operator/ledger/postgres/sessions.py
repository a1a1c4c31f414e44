"""
What a connection of ours to PostgreSQL is: straight to the server or through a pooler, how it is set, and how it warns.

Behind a pooler such as PgBouncer each transaction may run on another server connection, which other applications use
too. So nothing is set there beyond a transaction, and no statement is prepared by name.
"""

import re
import threading
from collections.abc import Generator
from hashlib import sha256
from secrets import token_hex
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import errors, generators
from psycopg._preparing import Prepare, PrepareManager
from psycopg.pq import ExecStatus, Format, TransactionStatus

from game_operator.ledger.engine.tables import sql_texts
from game_operator.ledger.postgres.express import Statement
from game_operator.ledger.postgres.hazards import CommitWarnings, Identities
from game_operator.ledger.steps import RELEASE, Execute, Rows, Steps

if TYPE_CHECKING:
    from psycopg._queries import PostgresQuery
    from psycopg.abc import PQGen
    from psycopg.pq.abc import PGconn, PGresult

    Connection = psycopg.Connection[Any] | psycopg.AsyncConnection[Any]

SEARCH_PATH = "SELECT quote_literal(current_setting('search_path'))"
_PROBE = "SELECT pg_backend_pid(), quote_literal(current_setting('search_path'))"
#: Fails on a standby, and where a service hides the WAL.
_TIMELINE = (
    "SELECT CAST(system_identifier AS text), CASE WHEN NOT pg_is_in_recovery() "
    "THEN left(pg_walfile_name(pg_current_wal_lsn()), 8) END FROM pg_control_system()"
)
_PARAMETER = re.compile(r"\$(\d+)")
_BEGIN_READ_COMMITTED = "BEGIN ISOLATION LEVEL READ COMMITTED"

#: The highest timeline that this process has seen of each database cluster, by its system identifier.
_timelines: dict[str, int] = {}
_timelines_lock = threading.Lock()


class Session:
    """
    One connection as it was found on connecting.

    Attributes:
        pooled: Whether a pooler is between us and the server.
        begin: The statements that begin a transaction.
        warnings: What the server's notices say about a commit.
    """

    def __init__(self, patience_seconds: float, search_path: str, *, pooled: bool) -> None:
        self.pooled: bool = pooled
        self.warnings: CommitWarnings = CommitWarnings()
        self._search_path = search_path
        self.begin: tuple[str, ...] = ("BEGIN",)
        if pooled:
            self.begin = (_BEGIN_READ_COMMITTED, _settings(patience_seconds, local=True))

    def taken_back(self, search_path: str | None = None) -> tuple[str, ...]:
        """Return what follows the operator's code: it gives up the savepoint and resets the quoted search path."""
        local = "true" if self.pooled else "false"
        return RELEASE, f"SELECT set_config('search_path', {search_path or self._search_path}, {local})"


def greeted(
    connection: "Connection", patience_seconds: float, identities: Identities, *, pooler: bool | None
) -> Steps[Session]:
    """
    Look at a new *connection*, which commits each statement, and set it.

    Args:
        connection: It is asked only for what it knows without a statement.
        patience_seconds: How long a statement waits for a lock; it may run for twice as long.
        identities: Those that are compared with their sequences.
        pooler: Whether a pooler is between; None finds out.

    Raises:
        psycopg.OperationalError: The server is a former primary: another one has taken over since.
    """
    rows: Rows = yield Execute(_PROBE, ())
    pid, search_path = rows[0]
    pooled = connection.info.backend_pid != pid if pooler is None else pooler
    session = Session(patience_seconds, search_path, pooled=pooled)
    connection.add_notice_handler(session.warnings.notice)
    if not pooled:
        yield Execute(_settings(patience_seconds, local=False), ())
    yield from _swallowed(_check_timeline(), connection)
    yield from _swallowed(identities.advanced(), connection)
    if pooled:
        connection.prepare_threshold = None
    else:
        # What psycopg prepares by itself has a name of ours, too.
        connection._prepared = NamedByText()
        connection.prepare_threshold = 0
    return session


def _settings(patience_seconds: float, *, local: bool) -> str:
    """Return the one statement that sets a connection, or with *local* a transaction."""
    millis = max(1, int(patience_seconds * 1000))
    limits = {"lock": str(millis), "statement": str(2 * millis), "idle": str(6 * millis)}
    texts = sql_texts(__package__, "sessions.sql", until="true" if local else "false", **limits)
    return texts["transaction" if local else "session"]


def _swallowed(script: Steps[None], connection: "Connection") -> Steps[None]:
    """Run *script*, and go on where the server cannot answer it: on a standby, in a service, without tables."""
    try:
        yield from script
    except FormerPrimaryError:
        raise
    except psycopg.Error:
        if connection.closed:
            raise


class FormerPrimaryError(psycopg.OperationalError):
    """The server was the primary once."""


def _check_timeline() -> Steps[None]:
    """Remember the server's timeline; raise FormerPrimaryError if it is below one that this process has seen."""
    rows: Rows = yield Execute(_TIMELINE, ())
    system, name = rows[0]
    if name is None:
        return
    timeline = int(name, 16)
    with _timelines_lock:
        highest = _timelines[system] = max(timeline, _timelines.get(system, 0))
    if timeline < highest:
        raise FormerPrimaryError(
            f"the server is on timeline {timeline}, and this process has used timeline {highest} of the same database "
            "cluster. It is a former primary that runs again, and what it stores is lost: stop it. Restart this "
            "process if you have restored an older state on purpose"
        )


def statement_name(sql: bytes) -> bytes:
    """Return a name for a prepared statement that no other text and no other connection has."""
    return f"game_operator_{sha256(sql).hexdigest()[:16]}_{token_hex(8)}".encode()


class NamedByText(PrepareManager):
    """
    Psycopg's memory of what it has prepared, with names of ours.

    Psycopg counts from ``_pg3_0`` on each connection. Behind a pooler that we did not recognise, such a name can lead
    to the statement of another connection, which runs with our parameters.
    """

    def get(self, query: "PostgresQuery", prepare: bool | None = None) -> tuple[Prepare, bytes]:
        """Return whether to prepare *query*, and its name."""
        what, name = super().get(query, prepare)
        return what, statement_name(query.query) if what is Prepare.SHOULD else name


class Prepared:
    """What is prepared on one connection; the next connection needs another."""

    def __init__(self, pgconn: "PGconn") -> None:
        self._pgconn = pgconn
        self._names: dict[str, bytes] = {}

    def execution(self, statement: Statement) -> "PQGen[list[list[str]]]":
        """Return what the connection is to ``wait`` for: the rows of *statement*, executed alone and committed."""
        try:
            return (yield from self._executed(statement))
        except errors.InvalidSqlStatementName:
            # After a rollback psycopg drops all that is prepared. Nothing has been done so far.
            self._names.clear()
            return (yield from self._executed(statement))

    def _executed(self, statement: Statement) -> "PQGen[list[list[str]]]":
        sql, parameters = statement
        name = self._names.get(sql)
        if name is None:
            name = statement_name(sql.encode())
            self._pgconn.send_prepare(name, sql.encode())
            yield from self._result()
            self._names[sql] = name
        values = [None if text is None else text.encode() for text in parameters]
        # Binary, which for a text is its bytes as they are: otherwise libpq would cut it at a NUL, and not refuse it.
        self._pgconn.send_query_prepared(name, values, [Format.BINARY] * len(values))
        return _texts((yield from self._result()))

    def _result(self) -> "Generator[Any, Any, PGresult]":  # Any: what psycopg's own generator and wait() exchange
        return (yield from _results(self._pgconn))[-1]


class InOneQuery:
    """
    The express statement behind a pooler: a transaction with its settings in one query message, and one answer.

    The message has no parameters, so each text is written in hexadecimal: no quote in it can end it, in any encoding.
    """

    def __init__(self, pgconn: "PGconn", patience_seconds: float) -> None:
        self._pgconn = pgconn
        self._begin = f"{_BEGIN_READ_COMMITTED}; {_settings(patience_seconds, local=True)}; "

    def execution(self, statement: Statement) -> "PQGen[list[list[str]]]":
        """Return what the connection is to ``wait`` for: the rows of *statement*, executed alone and committed."""
        sql, parameters = statement
        literals = [
            "CAST(NULL AS text)" if text is None else f"convert_from(decode('{text.encode().hex()}', 'hex'), 'UTF8')"
            for text in parameters
        ]
        text = _PARAMETER.sub(lambda number: literals[int(number[1]) - 1], sql)
        try:
            return _texts((yield from self._results(f"{self._begin}{text}; COMMIT"))[-2])
        except errors.Error:  # The message ends there: else the server's connection would stay with us.
            if self._pgconn.transaction_status == TransactionStatus.INERROR:
                yield from self._results("ROLLBACK")
            raise

    def _results(self, message: str) -> "Generator[Any, Any, list[PGresult]]":  # Any: as in Prepared
        self._pgconn.send_query(message.encode())
        return (yield from _results(self._pgconn))


def _results(pgconn: "PGconn") -> "Generator[Any, Any, list[PGresult]]":  # Any: what psycopg and wait() exchange
    results: list[PGresult] = yield from generators.execute(pgconn)
    for result in results:
        if result.status not in (ExecStatus.TUPLES_OK, ExecStatus.COMMAND_OK):
            raise errors.error_from_result(result)
    return results


def _texts(result: "PGresult") -> list[list[str]]:
    # No column of the express statement is ever NULL.
    columns = range(result.nfields)
    return [[(result.get_value(row, column) or b"").decode() for column in columns] for row in range(result.ntuples)]
