"""Lists of bets and anomalies: by pages along an index, beside the ledger's connection (docs/reference/tables.md)."""

import asyncio
import contextlib
import os
import sqlite3
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path

import psycopg
import pytest

from game_operator.errors import LedgerError, LedgerUnavailableError
from game_operator.ledger import AsyncSqlLedger, SqlLedger, Terms
from tests.support.calls import deposit, withdraw
from tests.support.postgres import PostgresServer
from tests.support.raw_sql import DEFAULT_PREFIX, path_in, run

pytestmark = [pytest.mark.outside, pytest.mark.drawn(4, database_url=("postgres",))]

_MEGABYTE = 1024 * 1024


def filled(url: str, bets: int) -> None:
    """Make a ledger with so many bets, three in each millisecond, and as many anomalies."""
    SqlLedger(url).close()
    series = "WITH RECURSIVE numbers (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM numbers WHERE i < CAST(? AS bigint)) "
    names = "bet_id, player_id, account, wager_cents, state, opened_at_millis, action, source"
    row = "SELECT 'b' || i, 'p1', 'p1', 1, 'OPEN', 1000 + i / 3, 'BET', '' FROM numbers"
    run(url, f"{series}INSERT INTO {{p}}bets ({names}) {row}", bets)


def connections(url: str) -> int:
    """Return how many connections this process has to the SQLite file of *url*."""
    # Each has the log open once; the file itself stays open for as long as another connection has a lock on it.
    links = [os.path.realpath(link) for link in Path("/proc/self/fd").iterdir()]
    return links.count(os.path.realpath(f"{path_in(url)}-wal"))


def test_a_list_has_a_connection_for_as_long_as_it_is_read(sqlite_url: str) -> None:
    """One beside the ledger's, given up at the end and when the reader goes."""
    filled(sqlite_url, 2_500)
    with SqlLedger(sqlite_url) as ledger:
        before = connections(sqlite_url)
        bets = ledger.bets()
        assert next(bets).bet_id == "b1"
        assert connections(sqlite_url) == before + 1
        assert len(list(bets)) == 2_499
        assert connections(sqlite_url) == before
        gone = ledger.bets()
        next(gone)
        del gone
        assert connections(sqlite_url) == before


def test_pages_follow_one_another(database_url: str) -> None:
    """Every bet once and in order, those of the same millisecond too; what comes meanwhile is seen."""
    filled(database_url, 2_500)
    with SqlLedger(database_url) as ledger:
        ledger.open_account("p1", Decimal(100))
        found = []
        for bet in ledger.bets():
            found.append(bet.bet_id)
            if len(found) == 1:
                ledger.apply(withdraw("late"))
    assert len(found) == len(set(found)) == 2_501
    assert found[-1] == "late"


def test_a_memory_database_is_read_over_its_one_connection() -> None:
    """Nobody else could see it."""
    with SqlLedger("sqlite:///:memory:") as ledger:
        ledger.open_account("p1", Decimal(100))
        ledger.apply(withdraw("b1"))
        ledger.apply(deposit("early"))
        assert [bet.bet_id for bet in ledger.bets()] == ["b1"]
        assert [record.bet_id for record in ledger.anomalies()] == ["early"]


def test_a_ledger_that_is_closed_lists_nothing(database_url: str) -> None:
    """As it answers nothing else."""
    ledger = SqlLedger(database_url)
    ledger.close()
    for listed in (ledger.bets, ledger.anomalies):
        with pytest.raises(LedgerUnavailableError, match="is closed"):
            next(iter(listed()))


def test_within_a_transaction_nothing_is_listed(sqlite_url: str) -> None:
    """It would not see what the transaction has written."""
    with SqlLedger(sqlite_url) as ledger:
        ledger.open_account("p1", Decimal(100))
        with pytest.raises(LedgerError, match="run in a transaction of this ledger"):
            ledger.apply(withdraw("b1"), terms=Terms(after=lambda *_: list(ledger.bets())))


@contextlib.contextmanager
def locked(url: str, table: str) -> Iterator[None]:
    """Let nobody read *table* meanwhile."""
    with psycopg.connect(url) as postgres:
        postgres.execute(f"LOCK TABLE {DEFAULT_PREFIX}{table} IN ACCESS EXCLUSIVE MODE".encode())
        yield


@pytest.mark.parametrize("table", ["bets", "anomalies"])
def test_calls_do_not_wait_for_a_page(postgres_url: str, table: str) -> None:
    """While a page takes its time, the ledger answers."""
    with SqlLedger(postgres_url) as ledger:
        ledger.open_account("p1", Decimal(100))
        ledger.apply(withdraw("b1"))
        ledger.apply(deposit("early"))
        listed = ledger.bets if table == "bets" else ledger.anomalies
        with ThreadPoolExecutor(1) as threads:
            with locked(postgres_url, table):
                page = threads.submit(lambda: list(listed()))
                assert ledger.balance("p1") == 9_500
                assert not page.done()
            assert len(page.result()) == 1


def test_a_server_may_restart_between_two_pages(postgres_url: str) -> None:
    """The next page is read over another connection; every bet is there once."""
    filled(postgres_url, 1_500)
    with SqlLedger(postgres_url) as ledger:
        bets = ledger.bets()
        found = [next(bets).bet_id]
        others = "pid <> pg_backend_pid() AND datname = current_database()"
        run(postgres_url, f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {others}")
        found += [bet.bet_id for bet in bets]
    assert len(found) == len(set(found)) == 1_500


class Counting(ThreadPoolExecutor):
    """Threads that count what they are given."""

    given = 0

    def submit(self, *args, **more):  # type: ignore[no-untyped-def]  # As the base class has it.
        self.given += 1
        return super().submit(*args, **more)


def test_the_event_loop_does_not_wait_for_a_page(database_url: str) -> None:
    """A thread reads each."""
    filled(database_url, 1_500)

    async def play() -> tuple[int, int]:
        threads = Counting(2)
        asyncio.get_running_loop().set_default_executor(threads)
        async with AsyncSqlLedger(database_url) as ledger:
            threads.given = 0
            return len([bet async for bet in ledger.bets()]), threads.given

    assert asyncio.run(play()) == (1_500, 2)


def test_a_cancelled_list_leaves_no_connection(postgres_url: str, postgres: PostgresServer) -> None:
    """Nor does the event loop wait for the page under way."""

    async def play() -> None:
        async with AsyncSqlLedger(postgres_url) as ledger:
            await ledger.open_account("p1", Decimal(100))
            with locked(postgres_url, "bets"):
                listing = ledger.bets()
                task = asyncio.ensure_future(anext(listing, None))
                done, _ = await asyncio.wait([task], timeout=0.05)
                assert not done
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                assert await ledger.balance("p1") == 10_000
        await asyncio.get_running_loop().shutdown_default_executor()

    asyncio.run(play())
    with psycopg.connect(postgres.url) as server:
        named = psycopg.conninfo.conninfo_to_dict(postgres_url)["dbname"]
        # A server process is gone a moment after its connection.
        for _ in range(200):
            left = server.execute("SELECT count(*) FROM pg_stat_activity WHERE datname = %s", [named]).fetchone()
            if left == (0,):
                break
            threading.Event().wait(0.01)
        assert left == (0,)


def test_the_log_does_not_stay_as_large_as_a_long_reader_made_it(sqlite_url: str) -> None:
    """Once nobody reads any more, SQLite's -wal file is cut to 64 MiB."""
    wal = Path(f"{path_in(sqlite_url)}-wal")
    with SqlLedger(sqlite_url) as ledger:
        ledger.open_account("p1", Decimal(100))
        with contextlib.closing(sqlite3.connect(path_in(sqlite_url), isolation_level=None)) as reader:
            run(sqlite_url, "CREATE TABLE bulk (bytes)")
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM bulk").fetchone()
            run(sqlite_url, "INSERT INTO bulk VALUES (zeroblob(?))", 80 * _MEGABYTE)
            assert wal.stat().st_size > 80 * _MEGABYTE
        for number in range(2):  # One writes the log back, the next begins it anew.
            ledger.apply(withdraw(f"b{number}"))
        assert wal.stat().st_size <= 64 * _MEGABYTE
