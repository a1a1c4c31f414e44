"""
Reading much at once: from one snapshot, on a connection of its own, so that calls go on meanwhile.

A reader of SQLite's WAL never stops the writer; the file only grows until the reader is done. In PostgreSQL the
snapshot is a REPEATABLE READ transaction that may not write.
"""

import contextlib
import sqlite3
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any, TypeVar

from game_operator.errors import LedgerUnavailableError
from game_operator.ledger.address import address_of, without_password
from game_operator.ledger.script import Execute, Step, drive
from game_operator.ledger.sqlite import path_of

__all__ = ["has_own_snapshot", "survey"]

T = TypeVar("T")
_PATIENCE_SECONDS = 5.0


def has_own_snapshot(url: str) -> bool:
    """Return whether the database at *url* can be read on a connection of its own; one in memory cannot."""
    return not (url.startswith("sqlite:///") and path_of(url) == ":memory:")


def survey(url: str, script: Callable[[], Generator[Step, Any, T]]) -> T:
    """
    Run *script*, which only executes statements that read.

    Raises:
        LedgerUnavailableError: The database cannot be reached or read.
    """
    if url.startswith("sqlite:///"):
        return _survey_sqlite(path_of(url), script)
    return _survey_postgres(url, script)


def _survey_sqlite(path: str, script: Callable[[], Generator[Step, Any, T]]) -> T:
    def perform(step: Step) -> Any:
        assert isinstance(step, Execute)
        return connection.execute(step.sql, step.parameters).fetchall()

    try:
        with contextlib.closing(_sqlite(path)) as connection:
            connection.execute("PRAGMA query_only = ON")
            connection.execute("PRAGMA cache_size = -131072")
            connection.execute("PRAGMA threads = 2")
            connection.execute("BEGIN")
            return drive(script(), perform)
    except sqlite3.Error as failed:
        raise LedgerUnavailableError(f"The ledger's tables cannot be read: {failed}.") from failed


def _sqlite(path: str) -> sqlite3.Connection:
    # Where a file was and is no more, an empty one must not take its place: its books would be sound.
    name = f"{Path(path).absolute().as_uri()}?mode=rw"
    return sqlite3.connect(name, timeout=_PATIENCE_SECONDS, isolation_level=None, uri=True)


def _survey_postgres(url: str, script: Callable[[], Generator[Step, Any, T]]) -> T:
    import psycopg

    from game_operator.ledger.postgres_store import for_psycopg

    def perform(step: Step) -> Any:
        assert isinstance(step, Execute)
        return connection.execute(for_psycopg(step.sql), step.parameters).fetchall()

    try:
        with _postgres(url) as connection:
            return drive(script(), perform)
    except psycopg.Error as failed:
        reason = without_password(" ".join(str(failed).split()), url)[:300]
        raise LedgerUnavailableError(f"The ledger's tables cannot be read: {reason}.") from failed


@contextlib.contextmanager
def _postgres(url: str) -> Iterator[Any]:
    import psycopg

    with psycopg.connect(address_of(url), autocommit=True, connect_timeout=round(_PATIENCE_SECONDS)) as connection:
        # Whole tables are read, so what the database or the user is set to for short statements does not hold.
        connection.execute("SET statement_timeout = 0; SET work_mem = '64MB'; SET timezone = 'UTC'", prepare=False)
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        yield connection
        connection.execute("ROLLBACK")
