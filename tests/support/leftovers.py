"""What a ledger may leave behind when it is closed: nothing. And what it may hold while it works: no more each time."""

import contextlib
import logging
import sqlite3
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg

_FDS = Path("/proc/self/fd")


def assert_idle(url: str, *, sessions: int = 0) -> None:
    """Assert that no transaction or lock is open in the database, and that no more than *sessions* of us remain."""
    if url.startswith("sqlite:///"):
        _assert_sqlite_idle(url.removeprefix("sqlite:///"))
    else:
        _assert_postgres_idle(url, sessions)


def _assert_sqlite_idle(path: str) -> None:
    # No patience at all: any lock that is left shows at once.
    with contextlib.closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("ROLLBACK")


def _assert_postgres_idle(url: str, sessions: int) -> None:
    until = time.monotonic() + 10
    with psycopg.connect(url, autocommit=True) as connection:
        while True:
            # A server takes a moment to notice that a client went away.
            others = connection.execute(
                "SELECT pid, state, query FROM pg_stat_activity WHERE datname = current_database() "
                "AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
            ).fetchall()
            locks = connection.execute(
                "SELECT pid, mode FROM pg_locks WHERE pid <> pg_backend_pid() "
                "AND locktype IN ('tuple', 'transactionid') "
                "AND pid IN (SELECT pid FROM pg_stat_activity WHERE datname = current_database())"
            ).fetchall()
            busy = [other for other in others if other[1] != "idle"]
            if len(others) <= sessions and not busy and not locks:
                return
            assert time.monotonic() < until, f"sessions left: {others}; locks left: {locks}"
            time.sleep(0.02)


def file_descriptors() -> int:
    """Return how many file descriptors this process holds; 0 where the system does not tell."""
    return len(list(_FDS.iterdir())) if _FDS.is_dir() else 0


def _threads() -> int:
    # A running loop keeps the threads it has used.
    return sum(not thread.name.startswith("asyncio_") for thread in threading.enumerate())


@contextlib.contextmanager
def nothing_grows() -> Iterator[None]:
    """Assert that the block leaves no thread and no file descriptor behind."""
    threads, descriptors = _threads(), file_descriptors()
    with _unlogged("psycopg"):
        yield
    until = time.monotonic() + 10
    while _threads() > threads or file_descriptors() > descriptors:
        assert time.monotonic() < until, (
            f"{threads} threads became {threading.enumerate()}, {descriptors} descriptors {file_descriptors()}"
        )
        time.sleep(0.02)


@contextlib.contextmanager
def _unlogged(name: str) -> Iterator[None]:
    """Log nothing of a logger: pytest keeps each record, which may hold an exception, whose frames hold a socket."""
    logger = logging.getLogger(name)
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(level)
