"""The PostgreSQL server that tests and benchmarks start: tests of kills are worth what its kill is worth."""

import time
from pathlib import Path

import psycopg
import pytest

from tests.support.postgres import PostgresServer
from tests.support.raw_sql import rows, run

pytestmark = pytest.mark.outside


@pytest.mark.parametrize("setting", ["fsync", "synchronous_commit", "full_page_writes"])
def test_only_a_durable_server_waits_for_the_disk(
    postgres: PostgresServer, durable: PostgresServer, setting: str
) -> None:
    """Kill tests and benchmarks commit as production does; other tests do not pay for it."""
    shown = [rows(server.url, f"SELECT current_setting('{setting}')") for server in (postgres, durable)]
    assert shown == [[("off",)], [("on",)]]


def test_a_killed_server_keeps_what_was_committed(durable: PostgresServer) -> None:
    """After a kill every process is gone; the next start recovers commits, and nothing that was still open."""
    before = durable.log().count("automatic recovery in progress")
    url = durable.create_database()
    run(url, "CREATE TABLE kept AS SELECT 1 AS n")
    with psycopg.connect(url) as open_connection:
        open_connection.execute("INSERT INTO kept VALUES (2)")
        processes = [pid for (pid,) in open_connection.execute("SELECT pid FROM pg_stat_activity").fetchall()]
        processes.append(durable.pid)
        assert all(map(_is_alive, processes))
        durable.kill()
        # They run no more; on a busy machine the kernel may still be burying them.
        until = time.monotonic() + 30
        while any(map(_is_alive, processes)):
            assert time.monotonic() < until, "a process is left"
            time.sleep(0.02)
        assert not durable.is_running
        with pytest.raises(psycopg.OperationalError):
            psycopg.connect(url)
        with pytest.raises(psycopg.OperationalError):
            open_connection.execute("SELECT 1")
    durable.start()
    assert rows(url, "SELECT n FROM kept") == [(1,)]
    assert durable.log().count("automatic recovery in progress") == before + 1


def _is_alive(pid: int) -> bool:
    """Whether the process runs; one that waits to be buried does not."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return status.rpartition(")")[2].split()[0] not in "ZX"
