"""Lists of bets and anomalies: by pages along an index, beside the ledger's connection (docs/reference/tables.md)."""

import os
import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import pytest

from game_operator.codes import BetState
from game_operator.ledger import MemoryLedger, SqlLedger
from game_operator.ledger.staff.anomalies import AnomalyRecord
from tests.support.calls import deposit, rollback, withdraw
from tests.support.ledgers import funded
from tests.support.raw_sql import DEFAULT_PREFIX, path_in, run

pytestmark = [pytest.mark.outside, pytest.mark.drawn(6, url=("postgres",))]


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


def test_pages_follow_one_another(url: str) -> None:
    """Every bet once and in order, those of the same millisecond too; what comes meanwhile is seen."""
    filled(url, 2_500)
    with funded(url, 100) as ledger:
        found = []
        for bet in ledger.bets():
            found.append(bet.bet_id)
            if len(found) == 1:
                ledger.apply(withdraw("late"))
    assert len(found) == len(set(found)) == 2_501
    assert found[-1] == "late"


@pytest.mark.parametrize("table", ["bets", "anomalies"])
def test_calls_do_not_wait_for_a_page(postgres_url: str, table: str) -> None:
    """While a page takes its time, the ledger answers."""
    with funded(postgres_url, 100) as ledger:
        ledger.apply(withdraw("b1"))
        ledger.apply(deposit("early"))
        listed = ledger.bets if table == "bets" else ledger.anomalies
        with ThreadPoolExecutor(1) as threads:
            with psycopg.connect(postgres_url) as other:
                other.execute(f"LOCK TABLE {DEFAULT_PREFIX}{table} IN ACCESS EXCLUSIVE MODE".encode())
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


# --- look-ups by index find what reading whole tables would -----------------------------------------------------------


def played(ledger: SqlLedger | MemoryLedger) -> None:
    """Leave bets in all states, of two players and two sources."""
    for player in ("p1", "p2"):
        for call in (
            withdraw(f"open-{player}", player),
            withdraw(f"closed-{player}", player),
            deposit(f"closed-{player}", player),
            withdraw(f"back-{player}", player),
            rollback(f"back-{player}", player, tx_id=f"withdraw:bet:back-{player}"),
            withdraw(f"spent-{player}", player, action="RAIN"),
            withdraw(f"declined-{player}", player, 99_999),
            rollback(f"tombstone-{player}", player, tx_id=f"withdraw:bet:tombstone-{player}"),
        ):
            ledger.apply(call)


@pytest.mark.parametrize("kind", ["sql", "memory"])
def test_bets_by_state_player_and_time(url: str, kind: str) -> None:
    """Each combination finds what a look at all bets finds, in the same order."""
    with funded(url, 100, "p2") if kind == "sql" else MemoryLedger({"p1": 10_000, "p2": 10_000}) as ledger:
        played(ledger)
        every = list(ledger.bets())
        assert len(every) == 12
        assert {bet.state for bet in every} == set(BetState)
        middle = every[6].opened_at_millis
        for state in (None, *BetState):
            for player in (None, "p1", "nobody"):
                for since, until in ((None, None), (middle, None), (None, middle), (middle, middle)):
                    wanted = [
                        bet
                        for bet in every
                        if state in (None, bet.state)
                        and player in (None, bet.player_id)
                        and (since or 0) <= bet.opened_at_millis < (until or 2**62)
                    ]
                    found = ledger.bets(state=state, player_id=player, since_millis=since, until_millis=until)
                    assert list(found) == wanted
        assert list(ledger.bets(source="t", state=BetState.OPEN)) == []


_ROWS = (
    "INSERT INTO {p}anomalies (source, kind, code, operation, tx_id, bet_id, player_id, body, digest, first_at_millis, "
    "last_at_millis, seen, resolved_at_millis) VALUES "
)
_VALUES = "(?, ?, NULL, 'deposit', ?, ?, ?, ?, ?, CAST(? AS bigint), CAST(? AS bigint), ?, CAST(? AS bigint))"


def test_anomalies_by_all_filters(url: str) -> None:
    """Each combination finds what a look at all anomalies finds, once and in the order in which they came."""
    draw = random.Random(1)
    values: list[object] = []
    for number in range(150):
        first = draw.randrange(50)
        last = first + draw.choice([0, 0, draw.randrange(50)])
        names = (f"b{draw.randrange(30)}", f"b{draw.randrange(30)}\U0010ffff", f"p{draw.randrange(3)}")
        tx_id, bet_id, player = draw.choice([names, names, (None, None, None), (names[0], None, names[2])])
        body = b'{"player":"p1","bet":"b1"}' if draw.random() < 0.5 else b"{}"
        kind, resolved = draw.choice("xyz"), draw.choice([None, 7])
        values += draw.choice("st"), kind, tx_id, bet_id, player, body, b"%d" % number, first, last, 2, resolved
    with SqlLedger(url) as ledger:
        run(url, f"{_ROWS}{', '.join([_VALUES] * 150)}", *values)
        every = list(ledger.anomalies(resolved=None))
        assert [(each.first_at_millis, each.id) for each in every] == sorted(
            (each.first_at_millis, each.id) for each in every
        )
        assert len(every) == 150
        for _ in range(60):
            wanted: dict[str, Any] = {
                "source": draw.choice([None, "s"]),
                "resolved": draw.choice([None, True, False]),
                "since_millis": draw.choice([0, 0, 30]),
                "until_millis": draw.choice([None, 40]),
                "kind": draw.choice([None, "x", ("x", "y", "x"), ()]),
                "player_id": draw.choice([None, "p1"]),
                "id_prefix": draw.choice([None, "b1", "b1\U0010ffff", "b"]),
            }
            found = list(ledger.anomalies(**wanted))
            assert found == [each for each in every if _is_wanted(each, **wanted)], wanted


def _is_wanted(each: AnomalyRecord, **wanted: Any) -> bool:
    is_nameless = each.player_id is None
    in_body, id_prefix = b"p1" in each.body, wanted["id_prefix"]
    ids = [name for name in (each.bet_id, each.tx_id) if name is not None]
    return (
        wanted["source"] in (None, each.source)
        and wanted["resolved"] in (None, each.resolved_at_millis is not None)
        and each.last_at_millis >= wanted["since_millis"]
        and each.first_at_millis < (wanted["until_millis"] or 1_000)
        and (wanted["kind"] is None or each.kind in wanted["kind"])
        and (wanted["player_id"] is None or (in_body if is_nameless else each.player_id == wanted["player_id"]))
        and (
            not id_prefix
            or (in_body and "\U0010ffff" not in id_prefix if is_nameless else any(n.startswith(id_prefix) for n in ids))
        )
    )
