"""Lists of bets and anomalies: by pages along an index, beside the ledger's connection (docs/reference/tables.md)."""

import contextlib
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path

import psycopg
import pytest

from game_operator.ledger import SqlLedger
from tests.support.calls import deposit, withdraw
from tests.support.raw_sql import DEFAULT_PREFIX, path_in, run

pytestmark = [pytest.mark.outside, pytest.mark.drawn(4, database_url=("postgres",))]


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
