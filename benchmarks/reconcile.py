"""
What a reconciliation costs: bets looked up a second, beside a plain script that does the same by hand.

Among a million settled bets a few are OPEN. The service answers at once, in a separate process, so that what binds is
here: signing, HTTP, and the journal.
"""

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from decimal import Decimal
from functools import partial
from typing import Any

from benchmarks.bodies import one_bet
from benchmarks.ledger_stage import PREFIX, connected, running_postgres, sqlite_file
from benchmarks.peers.by_hand import ByHand, signature_of
from benchmarks.rates import Comparison, RateRace
from benchmarks.stage import OPERATOR_ID, Stage
from game_operator.backoffice import Reconciler
from game_operator.backoffice.journal import Journal
from game_operator.backoffice.reconcile.population import first_cursor, page
from game_operator.ledger import SqlLedger
from game_operator.ledger.office import Office
from game_operator.wallet import Wallet
from game_operator.webhooks import WithdrawCall

__all__ = ["races"]

_THREADS = 8
_NUMBERS = {
    "PostgreSQL": "SELECT n FROM generate_series(CAST(1 AS bigint), {rows}) AS each(n)",
    "SQLite": "WITH RECURSIVE each(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM each WHERE n < {rows}) "
    "SELECT n FROM each",
}


def races(stage: Stage) -> Iterator[RateRace]:
    """Yield the races of both kinds of database."""
    settled, lost = (100, 20) if stage.quick else (1_000_000, 1_000)
    with running_postgres() as server, sqlite_file() as file:
        for kind, url in (("PostgreSQL", server.create_database()), ("SQLite", file)):
            _fill(kind, url, settled, lost)
            yield _race(stage, kind, url, settled, lost)
            yield _population_race(kind, url, settled, lost)


def _race(stage: Stage, kind: str, url: str, settled: int, lost: int) -> RateRace:
    ours, peer = f"{kind}, {lost:,} of {settled:,} bets, {_THREADS} threads", f"a plain script, {_THREADS} threads"
    alone, one, signing = "our client alone", "one thread", "signatures alone"
    runners = {
        ours: partial(_reconcile, stage, url, lost, _THREADS),
        one: partial(_reconcile, stage, url, lost, 0),
        alone: partial(_look_up, stage, url),
        signing: partial(_sign, stage, url),
        peer: partial(_by_hand, stage, url),
    }
    comparisons = tuple(Comparison(ours, other) for other in (peer, one, alone, signing))
    return RateRace(f"reconcile-{kind}", runners, comparisons, rounds=5)


def _population_race(kind: str, url: str, settled: int, lost: int) -> RateRace:
    """How often a second the bets to look up are found, by the index and by reading the table."""
    ours, peer = f"{kind}, {lost:,} of {settled:,} bets found", "a SELECT without the index"
    runners = {ours: partial(_plan, url), peer: partial(_scan, url)}
    return RateRace(f"reconcile-population-{kind}", runners, (Comparison(ours, peer),), rounds=5)


def _fill(kind: str, url: str, settled: int, lost: int) -> None:
    """Store settled bets all at once, and OPEN ones as the ledger does."""
    bet: dict[str, Any] = json.loads(one_bet())
    with SqlLedger(url) as ledger:
        ledger.open_account(bet["player_id"], Decimal(10**9))
        with connected(url) as connection:
            connection.execute(
                f"INSERT INTO {PREFIX}bets (bet_id, player_id, account, wager_cents, won_cents, state, "
                "opened_at_millis, settled_at_millis, action, withdraw_tx_id, deposit_tx_id, source) "
                "SELECT 'settled-' || CAST(n AS text), 'p', 'p', 100, 0, 'CLOSED', 1700000000000 + n, "
                "1700000001000 + n, 'BET', 'w' || CAST(n AS text), 'd' || CAST(n AS text), '' "
                f"FROM ({_NUMBERS[kind].format(rows=settled)}) AS numbers"
            )
            connection.commit()
            if kind == "PostgreSQL":
                connection.autocommit = True
                connection.execute("VACUUM ANALYZE")
        named = {name: bet[name] for name in ("player_id", "instance_id", "game")}
        calls = [WithdrawCall(**named, bet_id=f"lost-{n}", amount_cents=bet["wager"]) for n in range(lost)]
        with ThreadPoolExecutor(32) as pool:
            for _ in pool.map(ledger.apply, calls):
                pass


def _reconciler(stage: Stage, ledger: SqlLedger) -> Reconciler:
    # A new client for each turn: none of its signatures is remembered.
    options: dict[str, Any] = {"min_age": timedelta(0), "rate_per_second": 10_000.0, "sample": 0.0}
    return Reconciler(stage.client(), Wallet(ledger), **options)


def _reconcile(stage: Stage, url: str, lost: int, threads: int, _seconds: float) -> float:
    with SqlLedger(url) as ledger:
        reconciler = _reconciler(stage, ledger)
        began = time.perf_counter()
        if threads:
            with ThreadPoolExecutor(threads) as pool:
                report = reconciler.run(executor=pool)
        else:
            report = reconciler.run()
        seconds = time.perf_counter() - began
    assert report.open.bets == lost
    return lost / seconds


def _plan(url: str, seconds: float) -> float:
    with SqlLedger(url) as ledger:
        journal = Journal(ledger)
        options = {"min_age_millis": 0, "sample": 0.0}
        begun = journal.begin("benchmark", source="", service="", parameters=options, interval_micros=0)
        runs, began = 0, time.perf_counter()
        while time.perf_counter() < began + seconds:
            run, found = begun._replace(cursor=first_cursor()), 0
            while run.cursor:
                bets = Office(ledger).read(partial(page, run))
                run, found = run._replace(cursor=bets.cursor), found + len(bets.items)
            assert found
            runs += 1
        rate = runs / (time.perf_counter() - began)
        journal.set_state(begun.id, "stopped")
        return rate


def _scan(url: str, seconds: float) -> float:
    runs, began = 0, time.perf_counter()
    with connected(url) as connection:
        while time.perf_counter() < began + seconds:
            # The minus keeps every index out.
            connection.execute(
                f"SELECT bet_id FROM {PREFIX}bets WHERE substr(state, 1, 4) = 'OPEN' AND -opened_at_millis < 0"
            ).fetchall()
            runs += 1
    return runs / (time.perf_counter() - began)


def _open_bets(url: str) -> list[tuple[str, str, int]]:
    with connected(url) as connection:
        rows = connection.execute(
            f"SELECT bet_id, player_id, wager_cents FROM {PREFIX}bets WHERE state = 'OPEN' ORDER BY opened_at_millis"
        )
        return [tuple(row) for row in rows.fetchall()]


def _look_up(stage: Stage, url: str, _seconds: float) -> float:
    bets = _open_bets(url)
    with stage.client() as client, ThreadPoolExecutor(_THREADS) as pool:
        began = time.perf_counter()
        for _ in pool.map(client.fetch_bet, [bet_id for bet_id, _, _ in bets]):
            pass
        return len(bets) / (time.perf_counter() - began)


def _sign(stage: Stage, url: str, _seconds: float) -> float:
    messages = [f"{OPERATOR_ID}:{bet_id}".encode() for bet_id, _, _ in _open_bets(url)]
    with ThreadPoolExecutor(_THREADS) as pool:
        began = time.perf_counter()
        for _ in pool.map(partial(signature_of, stage.private_key), messages):
            pass
        return len(messages) / (time.perf_counter() - began)


def _by_hand(stage: Stage, url: str, _seconds: float) -> float:
    """Look up, compare, and write a file: no journal, no second look, nothing to resume."""
    service = ByHand(stage.base_url, OPERATOR_ID, stage.private_key)
    began = time.perf_counter()
    bets = _open_bets(url)

    def compare(bet: tuple[str, str, int]) -> str:
        bet_id, player_id, wager_cents = bet
        answer = service.fetch_bet(bet_id)
        is_same = (answer["player_id"], answer["wager"]) == (player_id, wager_cents)
        return f"{bet_id},{answer['status']},{answer.get('won')},{is_same}"

    with ThreadPoolExecutor(_THREADS) as pool:
        lines = list(pool.map(compare, bets))
    seconds = time.perf_counter() - began
    service.close()
    assert all(line.endswith("True") for line in lines)
    return len(bets) / seconds
