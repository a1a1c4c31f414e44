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
from benchmarks.ledger_stage import running_postgres, sqlite_file
from benchmarks.peers.by_hand import ByHand
from benchmarks.races import Comparison, Race
from benchmarks.stage import OPERATOR_ID, Stage
from game_operator.backoffice import Reconciler
from game_operator.ledger import SqlLedger
from game_operator.wallet import Wallet
from game_operator.webhooks import WithdrawCall
from tests.support.filled_books import NUMBERS, PREFIX, connected

__all__ = ["races"]

_THREADS = 8
_PEER = f"a plain script, {_THREADS} threads"


def races(stage: Stage) -> Iterator[Race]:
    """Yield the races of both kinds of database."""
    settled, lost = (100, 20) if stage.quick else (1_000_000, 1_000)
    with running_postgres() as server, sqlite_file() as file:
        for kind, url in (("PostgreSQL", server.create_database()), ("SQLite", file)):
            _fill(kind, url, settled, lost)
            ours = f"{kind}, {lost:,} of {settled:,} bets, {_THREADS} threads"
            turns = {ours: partial(_reconcile, stage, url, lost), _PEER: partial(_by_hand, stage, url)}
            yield Race(turns, [Comparison(ours, _PEER)], amount=1, rounds=5, is_rate=True)


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
                f"FROM ({NUMBERS[kind].format(rows=settled)}) AS numbers"
            )
            connection.commit()
            if kind == "PostgreSQL":
                connection.autocommit = True
                connection.execute("VACUUM ANALYZE")
        named = {name: bet[name] for name in ("player_id", "instance_id", "game")}
        calls = [WithdrawCall(**named, bet_id=f"lost-{n}", amount_cents=bet["wager"]) for n in range(lost)]
        with ThreadPoolExecutor(32) as pool:
            list(pool.map(ledger.apply, calls))


def _reconcile(stage: Stage, url: str, lost: int, _seconds: float) -> float:
    """Look all OPEN bets up in a dry run, by a new client, which remembers no signature."""
    options: dict[str, Any] = {"min_age": timedelta(0), "rate_per_second": 10_000.0, "sample": 0.0}
    with SqlLedger(url) as ledger, ThreadPoolExecutor(_THREADS) as pool:
        reconciler = Reconciler(stage.client(), Wallet(ledger), **options)
        began = time.perf_counter()
        report = reconciler.run(executor=pool)
        seconds = time.perf_counter() - began
    assert report.open.bets == lost
    return lost / seconds


def _by_hand(stage: Stage, url: str, _seconds: float) -> float:
    """Look up, compare, and keep a list: no journal, no second look, nothing to resume."""
    service = ByHand(stage.base_url, OPERATOR_ID, stage.private_key)
    began = time.perf_counter()
    with connected(url) as connection:
        rows = connection.execute(f"SELECT bet_id, player_id, wager_cents FROM {PREFIX}bets WHERE state = 'OPEN'")
        bets = [tuple(row) for row in rows.fetchall()]

    def is_same(bet: tuple[str, str, int]) -> bool:
        answer = service.fetch_bet(bet[0])
        return (answer["player_id"], answer["wager"]) == bet[1:]

    with ThreadPoolExecutor(_THREADS) as pool:
        found = list(pool.map(is_same, bets))
    seconds = time.perf_counter() - began
    service.close()
    assert all(found)
    return len(bets) / seconds
