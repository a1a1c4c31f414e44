"""The PostgreSQL server that tests and benchmarks start: tests of kills are worth what its kill is worth."""

import time
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from tests.support.postgres import PostgresServer

pytestmark = pytest.mark.outside

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.parametrize("setting", ["fsync", "synchronous_commit", "full_page_writes"])
def test_only_a_durable_server_waits_for_the_disk(
    postgres: PostgresServer, durable: PostgresServer, setting: str
) -> None:
    """Kill tests and benchmarks commit as production does; other tests do not pay for it."""
    assert (_show(postgres.url, setting), _show(durable.url, setting)) == ("off", "on")


def test_a_killed_server_keeps_what_was_committed(durable: PostgresServer) -> None:
    """After a kill every process is gone; the next start recovers commits, and nothing that was still open."""
    before = durable.log().count("automatic recovery in progress")
    url = durable.create_database()
    _run(url, "CREATE TABLE kept AS SELECT 1 AS n")
    with psycopg.connect(url) as open_connection:
        open_connection.execute("INSERT INTO kept VALUES (2)")
        processes = _processes(durable, open_connection)
        assert all(map(_is_alive, processes))
        durable.kill()
        # They run no more; on a busy machine the kernel may still be burying them.
        _wait_until(lambda: not any(map(_is_alive, processes)))
        assert not durable.is_running
        with pytest.raises(psycopg.OperationalError):
            psycopg.connect(url)
        with pytest.raises(psycopg.OperationalError):
            open_connection.execute("SELECT 1")
    durable.start()
    assert _run(url, "SELECT array_agg(n) FROM kept") == [1]
    assert durable.log().count("automatic recovery in progress") == before + 1


def _run(url: str, statement: str) -> object:
    """Run one statement and return its first value, if it has any."""
    with psycopg.connect(url, autocommit=True) as connection:
        # Its text is a test's own.
        cursor = connection.execute(statement.encode())
        row = cursor.fetchone() if cursor.description else None
        return row and row[0]


def _show(url: str, setting: str) -> object:
    return _run(url, f"SELECT current_setting('{setting}')")


def _processes(server: PostgresServer, connection: psycopg.Connection) -> list[int]:
    rows = connection.execute("SELECT pid FROM pg_stat_activity").fetchall()
    return [server.pid, *(pid for (pid,) in rows)]


def _is_alive(pid: int) -> bool:
    """Whether the process runs; one that waits to be buried does not."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return status.rpartition(")")[2].split()[0] not in "ZX"


def _wait_until(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < until, "waited 30 seconds in vain"
        time.sleep(0.02)
