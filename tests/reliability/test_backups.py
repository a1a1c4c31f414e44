"""Backups while calls go on: the commands of docs/how-to/backups.md, and the calls since in a restored ledger."""

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import takewhile
from pathlib import Path

import psycopg
import pytest

from game_operator.ledger import SqlLedger
from game_operator.models.webhooks import MovingCall, WebhookCall
from tests.support.books import Books, execute, problems, read_books
from tests.support.crowds import open_accounts
from tests.support.documents import ROOT, ShellBlock, shell_blocks
from tests.support.postgres import PostgresServer
from tests.support.postgres_binaries import find_binaries, give_to_server_user
from tests.support.times import wait_until
from tests.support.traffic import Answer, Log, Traffic, deliver, openings

pytestmark = pytest.mark.outside

PAGE = ROOT / "docs" / "how-to" / "backups.md"
BLOCKS = shell_blocks(PAGE)
PLAYERS = [f"p{number}" for number in range(5)]
#: How many calls are answered before a backup, and after it.
_CALLS = 40


@contextmanager
def playing(url: str, seed: int) -> Iterator[Log]:
    """Apply calls, one after the other, until the end of the block."""
    log, stop = list[Answer](), threading.Event()
    # Not as fast as it can: all are repeated later.
    calls = takewhile(lambda _: not stop.wait(0.005), Traffic(seed, PLAYERS, 2_000).arrivals())
    with SqlLedger(url) as ledger, ThreadPoolExecutor(1) as pool:
        played = pool.submit(deliver, ledger.apply, calls, log)
        try:
            yield log
        finally:
            stop.set()
            played.result()


def go_on(log: Log) -> Log:
    """Let some calls be answered; return all that are answered by then."""
    enough = len(log) + _CALLS
    wait_until(lambda: len(log) >= enough)
    return list(log)


def assert_restored(copy: str, original: str, before: Log, log: Log) -> None:
    """
    Assert that *copy* has what was answered *before* the backup, and nothing that the original lacks.

    Then those of the calls in *log* that the copy lacks are repeated, and it has what the original has.
    """
    with SqlLedger(copy) as ledger:
        assert ledger.verify().sound
        books, lost = read_books(copy), read_books(original)
        assert problems(books, answers=before) == []
        assert books.calls.items() <= lost.calls.items()
        repeated: list[Answer] = []
        deliver(ledger.apply, _since(books, lost, log), repeated)
        assert ledger.verify().sound
    books = read_books(copy)
    assert problems(books, answers=repeated) == []
    assert books.accounts == lost.accounts
    assert books.bets == lost.bets
    assert [posting[:5] for posting in books.postings] == [posting[:5] for posting in lost.postings]


def _since(copy: Books, original: Books, log: Log) -> Iterator[WebhookCall]:
    """Yield the calls of *log* that came after *copy* was taken from *original*."""
    taken_at = max(call.at_millis for call in copy.calls.values())
    lost = original.calls.keys() - copy.calls.keys()
    for answer in log:
        is_lost = isinstance(answer.call, MovingCall) and (answer.call.operation, answer.call.tx_id) in lost
        if is_lost or (answer.at_millis or 0) > taken_at:
            yield answer.call


def run(block: ShellBlock, folder: Path, **variables: str) -> None:
    """Run a block in *folder*; assert that it prints what the page says."""
    scripts = Path(sys.executable).parent
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PG")} | variables
    environ["PATH"] = os.pathsep.join([str(scripts), str(find_binaries()), environ["PATH"]])
    done = subprocess.run(
        ["bash", "-e"],
        input=block.commands,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        cwd=folder,
        env=environ,
    )
    assert done.returncode == 0, f"{block.commands}\n{done.stdout}\n{done.stderr}"
    block.assert_printed(done.stdout)


def test_every_command_is_run() -> None:
    """The page has the blocks that the tests below run, and no others."""
    counts = {heading: len(each) for heading, each in BLOCKS.items()}
    dump, recovery = "PostgreSQL: a dump", "PostgreSQL: to a point in time"
    assert counts == {"SQLite": 2, dump: 3, recovery: 4, "Calls since the backup": 0}
    assert PAGE.read_text().count("```sh\n") == sum(counts.values())


# --- SQLite -----------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(shutil.which("sqlite3") is None, reason="the program sqlite3 is not installed")
def test_sqlites_own_program(tmp_path: Path) -> None:
    """The commands of the page: the copy is taken while calls go on, and restored when nobody has the file open."""
    copying, restoring = BLOCKS["SQLite"]
    url, damaged = f"sqlite:///{tmp_path / 'wallet.db'}", f"sqlite:///{tmp_path / 'damaged' / 'wallet.db'}"
    open_accounts(url, openings(PLAYERS))
    with playing(url, seed=2) as log:
        before = go_on(log)
        run(copying, tmp_path)
        go_on(log)
    assert (tmp_path / "copy.db").stat().st_mode & 0o777 == 0o600
    run(restoring, tmp_path)
    assert_restored(url, damaged, before, log)


# --- PostgreSQL -------------------------------------------------------------------------------------------------------


def _address(server: PostgresServer, database: str) -> str:
    return server.url.replace("///postgres?", f"///{database}?")


def _variables(server: PostgresServer) -> Mapping[str, str]:
    return {"PGHOST": str(server.folder), "PGPORT": "5432", "PGUSER": "postgres", "DAY": "2026-11-23"}


@contextmanager
def _casino(server: PostgresServer) -> Iterator[str]:
    execute(server.url, "CREATE DATABASE casino")
    try:
        yield _address(server, "casino")
    finally:
        for name in ("casino", "casino_restored"):
            server.drop_database(_address(server, name))


@pytest.mark.artefact
def test_a_dump(postgres: PostgresServer, tmp_path: Path) -> None:
    """Dumped while calls go on, and restored into another database, whose sequences go on behind their ids."""
    dump, restore, fence = BLOCKS["PostgreSQL: a dump"]
    with _casino(postgres) as original:
        restored = _address(postgres, "casino_restored")
        open_accounts(original, openings(PLAYERS))
        with playing(original, seed=3) as log:
            before = go_on(log)
            run(dump, tmp_path, **_variables(postgres))
            go_on(log)
        run(restore, tmp_path, **_variables(postgres))
        assert_restored(restored, original, before, log)
        run(fence, tmp_path, **_variables(postgres), PGDATABASE="casino")
        with pytest.raises(psycopg.OperationalError, match="not currently accepting connections"):
            execute(original, "SELECT 1")


@pytest.mark.torture
@pytest.mark.timeout(300)
def test_a_point_in_time(tmp_path: Path) -> None:
    """A base backup while calls go on, archived WAL, a recovery to a moment between two calls; then the repeats."""
    archive, backup, recover, check = BLOCKS["PostgreSQL: to a point in time"]
    with PostgresServer(durable=True, settings={"wal_level": "replica"}) as server, _casino(server) as url:
        backups = server.folder / "backups"
        data = server.folder / "data"
        for folder in (backups, backups / "wal"):
            folder.mkdir()
            give_to_server_user(folder)
        variables = {**_variables(server), "BACKUPS": str(backups), "PGDATA": str(data)}
        run(archive, tmp_path, **variables)
        server.stop()
        server.start()
        open_accounts(url, openings(PLAYERS))
        with playing(url, seed=4) as log:
            go_on(log)
            run(backup, tmp_path, **variables)
            go_on(log)
        before = list(log)
        ((target,),) = execute(url, "SELECT now()::text")
        since: Log = []
        with SqlLedger(url) as ledger:
            deliver(ledger.apply, Traffic(5, PLAYERS, 40, name="since").arrivals(), since)
            lost = read_books(url)
            _archive_all(server, backups / "wal")
            server.kill()
            run(recover, tmp_path, **variables, TARGET=target)
            give_to_server_user(data)  # Who would have run the commands.
            server.start()
            wait_until(lambda: execute(server.url, "SELECT pg_is_in_recovery()") == [(False,)])
            run(check, tmp_path, **variables)
            recovered = read_books(url)
            assert problems(recovered, answers=before) == []
            assert not any(bet_id.startswith("since") for bet_id in recovered.bets)
            # The process goes on, on the new timeline.
            deliver(ledger.apply, [answer.call for answer in since], [])
            assert ledger.verify().sound
        assert read_books(url).bets == lost.bets
        assert read_books(url).accounts == lost.accounts


def _archive_all(server: PostgresServer, folder: Path) -> None:
    ((name,),) = execute(server.url, "SELECT pg_walfile_name(pg_switch_wal())")
    wait_until((folder / name).exists)
