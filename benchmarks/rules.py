"""
The operator's rules: a withdraw with a may_bet that reads one row and an after that writes one, on PostgreSQL.

The peer is the same wallet with the after alone.
"""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any

import uvloop
from psycopg_pool import ConnectionPool

from benchmarks.ledger_load import rate_in_tasks, rate_in_threads
from benchmarks.ledger_stage import check_books, connected, fill_players, players_of, running_postgres
from benchmarks.rates import Comparison, RateRace, RateTurn
from benchmarks.stage import Stage
from game_operator.ledger import AsyncSqlLedger, SqlLedger
from game_operator.wallet import AsyncWallet, JoinedWallet, Wallet

__all__ = ["races"]

_POOL = 10


def races(stage: Stage) -> Iterator[RateRace]:
    """Yield a race for each number of callers; the books are checked at the end."""
    players = players_of(quick=stage.quick)
    with running_postgres() as server, ExitStack() as opened:
        url = server.create_database()
        fill_players(url, players)
        with connected(url) as connection:
            connection.execute("CREATE TABLE limits (player_id text PRIMARY KEY, cents bigint NOT NULL)")
            connection.execute(
                "INSERT INTO limits SELECT 'p' || n, 1000000 FROM generate_series(1, %s) AS n", (players,)
            )
            connection.execute("CREATE TABLE missions (player_id text NOT NULL, bet_id text PRIMARY KEY)")
            connection.commit()
        ledger, loop = opened.enter_context(SqlLedger(url)), uvloop.new_event_loop()
        tasks = AsyncSqlLedger(url)
        pool = opened.enter_context(ConnectionPool(url, min_size=_POOL, max_size=_POOL, open=True))
        for callers in (1, 32):
            yield _race(ledger, pool, callers, players)
            yield _race_in_tasks(tasks, loop, callers, players)
        loop.run_until_complete(tasks.close())
        loop.close()
        check_books(url)


def _race(ledger: SqlLedger, pool: "ConnectionPool[Any]", callers: int, players: int) -> RateRace:
    what = f"{callers} caller{'s' * (callers > 1)}"
    turns: dict[str, RateTurn] = {}
    for name, may_bet in (("may_bet and after", _may_bet), ("after alone", None)):
        joined = JoinedWallet(ledger, pool.connection, _after, may_bet=may_bet)
        for wallet in (Wallet(ledger, after=_after, may_bet=may_bet), joined):
            turn = partial(rate_in_threads, wallet.withdraw, callers, players)
            turns[f"{type(wallet).__name__}, {name}, {what}"] = turn
    wallets = ("Wallet", "JoinedWallet")
    pairs = [(f"{wallet}, may_bet and after, {what}", f"{wallet}, after alone, {what}") for wallet in wallets]
    return RateRace(f"rules-{callers}", turns, tuple(Comparison(*pair) for pair in pairs))


def _race_in_tasks(ledger: AsyncSqlLedger, loop: asyncio.AbstractEventLoop, callers: int, players: int) -> RateRace:
    what = f"{callers} caller{'s' * (callers > 1)}"
    turns: dict[str, RateTurn] = {}
    for name, may_bet in (("may_bet and after", _may_bet_awaited), ("after alone", None)):
        wallet = AsyncWallet(ledger, after=_after_awaited, may_bet=may_bet)
        turns[f"AsyncWallet, {name}, {what}"] = partial(_rate, loop, wallet, callers, players)
    ours, peer = turns
    return RateRace(f"rules-tasks-{callers}", turns, (Comparison(ours, peer),))


def _rate(loop: asyncio.AbstractEventLoop, wallet: AsyncWallet, callers: int, players: int, seconds: float) -> float:
    return loop.run_until_complete(rate_in_tasks(wallet.withdraw, callers, players, seconds))


def _may_bet(call: Any, _account: Any, connection: Any) -> str | None:
    row = connection.execute("SELECT cents FROM limits WHERE player_id = %s", (call.player_id,)).fetchone()
    return "LIMIT_EXCEEDED" if call.amount_cents > row[0] else None


def _after(call: Any, _outcome: Any, connection: Any) -> None:
    connection.execute("INSERT INTO missions VALUES (%s, %s)", (call.player_id, call.bet_id))


async def _may_bet_awaited(call: Any, _account: Any, connection: Any) -> str | None:
    found = await connection.execute("SELECT cents FROM limits WHERE player_id = %s", (call.player_id,))
    row = await found.fetchone()
    return "LIMIT_EXCEEDED" if call.amount_cents > row[0] else None


async def _after_awaited(call: Any, _outcome: Any, connection: Any) -> None:
    await connection.execute("INSERT INTO missions VALUES (%s, %s)", (call.player_id, call.bet_id))
