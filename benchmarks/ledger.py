"""The ledger alone: fresh withdraws, committed to the disk, beside pgbench that writes the same rows."""

import asyncio
import random
import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial

import uvloop

from benchmarks.ledger_stage import check_books, players_of, running_postgres, sqlite_file
from benchmarks.peers.pgbench import Pgbench
from benchmarks.races import Comparison, Race, Turn
from benchmarks.stage import Stage
from game_operator.ledger import AsyncSqlLedger, SqlLedger
from game_operator.webhooks import WithdrawCall
from tests.support.filled_books import fill_players

__all__ = ["fresh_withdraw", "races"]

#: The goals beside pgbench, by the ledger, callers and whether they are one hot player. One caller must never wait too
#: long, in either kind; many callers are for asyncio, which most services use.
_GOALS = {
    ("PostgreSQL, threads", 1, False): 0.7,
    ("PostgreSQL, threads", 1, True): 0.7,
    ("PostgreSQL, asyncio", 1, False): 0.65,
    ("PostgreSQL, asyncio", 1, True): 0.65,
    ("PostgreSQL, asyncio", 32, False): 1.6,
    ("PostgreSQL, asyncio", 32, True): 3.0,
}
#: Withdraws a second that are made before a turn; whoever is quicker makes the rest meanwhile.
_MADE_BEFORE = 10_000


def races(stage: Stage) -> Iterator[Race]:
    """Yield a race for each number of callers, many players first; the books are checked at the end."""
    many = players_of(quick=stage.quick)
    with running_postgres() as server, sqlite_file() as file, ExitStack() as opened:
        urls = {"PostgreSQL": server.create_database(), "SQLite": file}
        turns, loop = {}, uvloop.new_event_loop()
        opened.callback(loop.close)
        for name, url in urls.items():
            fill_players(url, many)
            turns[f"{name}, threads"] = partial(_in_threads, opened.enter_context(SqlLedger(url)))
            tasks = AsyncSqlLedger(url)
            opened.callback(partial(_close, loop, tasks))
            turns[f"{name}, asyncio"] = partial(_in_tasks, loop, tasks)
        bench = Pgbench.found(server, urls["PostgreSQL"])
        for players in (many, 1):
            for callers in (1, 32):
                yield _race(turns | ({"pgbench": bench} if bench else {}), callers, players)
        for url in urls.values():
            check_books(url)


def _close(loop: asyncio.AbstractEventLoop, ledger: AsyncSqlLedger) -> None:
    loop.run_until_complete(ledger.close())


def _race(turns: "dict[str, partial[float] | Pgbench]", callers: int, players: int) -> Race:
    crowd = f"{callers} caller{'s'[: callers > 1]}, {'one hot player' if players == 1 else 'many players'}"
    what = {name: name if name == "pgbench" else f"{name}, {crowd}" for name in turns}
    runners: dict[str, Turn] = {what[name]: partial(turn, callers, players) for name, turn in turns.items()}
    ours = [name for name in turns if name != "pgbench" and "pgbench" in turns]
    goals = [Comparison(what[name], "pgbench", _GOALS.get((name, callers, players == 1))) for name in ours]
    return Race(runners, goals, amount=2.0, rounds=3, is_rate=True)


def _in_threads(ledger: SqlLedger, callers: int, players: int, seconds: float) -> float:
    """Return how many withdraws a second *callers* threads apply."""
    calls = _calls(players, seconds)
    began = time.perf_counter()

    def call(_: int) -> int:
        done = 0
        while time.perf_counter() < began + seconds or not done:
            ledger.apply(_next(calls, players))
            done += 1
        return done

    with ThreadPoolExecutor(callers) as threads:
        done = sum(threads.map(call, range(callers)))
    return done / (time.perf_counter() - began)


def _in_tasks(
    loop: asyncio.AbstractEventLoop, ledger: AsyncSqlLedger, callers: int, players: int, seconds: float
) -> float:
    """Return how many withdraws a second *callers* tasks apply."""
    calls = _calls(players, seconds)

    async def call(end: float) -> int:
        done = 0
        while time.perf_counter() < end or not done:
            await ledger.apply(_next(calls, players))
            done += 1
        return done

    async def crowd() -> float:
        began = time.perf_counter()
        done = await asyncio.gather(*(call(began + seconds) for _ in range(callers)))
        return sum(done) / (time.perf_counter() - began)

    return loop.run_until_complete(crowd())


def _calls(players: int, seconds: float) -> deque[WithdrawCall]:
    return deque(fresh_withdraw(players) for _ in range(int(_MADE_BEFORE * seconds)))


def _next(calls: deque[WithdrawCall], players: int) -> WithdrawCall:
    try:
        return calls.popleft()
    except IndexError:
        return fresh_withdraw(players)


def fresh_withdraw(players: int) -> WithdrawCall:
    """Return a withdraw of 1.00 by one of so many players, with ids that were never used before."""
    # Ids as a service writes them: no order in them.
    bet_id = f"{random.getrandbits(96):024x}"
    return WithdrawCall(
        player_id=f"p{random.randint(1, players)}",
        bet_id=bet_id,
        amount_cents=100,
        instance_id="instance-1",
        game="aviator",
        body=b'{"action_id":"%b"}' % bet_id.encode(),
    )
