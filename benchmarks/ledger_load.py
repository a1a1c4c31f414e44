"""Fresh withdraws through the two ledgers of a database, by threads and by tasks."""

import asyncio
import random
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable

import uvloop

from game_operator.ledger import AsyncSqlLedger, SqlLedger
from game_operator.webhooks import WithdrawCall

__all__ = ["LedgerLoad", "fresh_withdraw", "rate_in_tasks", "rate_in_threads"]

#: Withdraws a second that are made before a turn; whoever is quicker makes the rest meanwhile.
_MADE_BEFORE = 10_000


class LedgerLoad:
    """Calls a SqlLedger and an AsyncSqlLedger, each with one connection to the database."""

    def __init__(self, url: str) -> None:
        self._threads = SqlLedger(url)
        self._loop = uvloop.new_event_loop()
        self._tasks = AsyncSqlLedger(url)

    def close(self) -> None:
        """Close both."""
        self._threads.close()
        self._loop.run_until_complete(self._tasks.close())
        self._loop.close()

    def threads(self, callers: int, players: int, seconds: float) -> float:
        """Return withdraws a second of *callers* threads."""
        return rate_in_threads(self._threads.apply, callers, players, seconds)

    def tasks(self, callers: int, players: int, seconds: float) -> float:
        """Return withdraws a second of *callers* tasks on uvloop."""
        return self._loop.run_until_complete(rate_in_tasks(self._tasks.apply, callers, players, seconds))


def rate_in_threads(apply: Callable[[WithdrawCall], object], callers: int, players: int, seconds: float) -> float:
    """Return how many withdraws a second *callers* threads apply."""
    calls = _Calls(players, seconds)
    done = [0] * callers
    start = threading.Barrier(callers + 1)

    def call(index: int) -> None:
        start.wait()
        until = time.perf_counter() + seconds
        while time.perf_counter() < until:
            apply(calls.next())
            done[index] += 1

    threads = [threading.Thread(target=call, args=(index,)) for index in range(callers)]
    for thread in threads:
        thread.start()
    start.wait()
    began = time.perf_counter()
    for thread in threads:
        thread.join()
    return sum(done) / (time.perf_counter() - began)


async def rate_in_tasks(
    apply: Callable[[WithdrawCall], Awaitable[object]], callers: int, players: int, seconds: float
) -> float:
    """Return how many withdraws a second *callers* tasks apply."""
    calls = _Calls(players, seconds)
    began = time.perf_counter()
    until = began + seconds

    async def call() -> int:
        done = 0
        while time.perf_counter() < until or not done:
            await apply(calls.next())
            done += 1
        return done

    done = await asyncio.gather(*(call() for _ in range(callers)))
    return sum(done) / (time.perf_counter() - began)


class _Calls:
    """A supply of withdraws, for threads too."""

    def __init__(self, players: int, seconds: float) -> None:
        self._players = players
        self._made = deque(fresh_withdraw(players) for _ in range(int(_MADE_BEFORE * seconds)))

    def next(self) -> WithdrawCall:
        try:
            return self._made.popleft()
        except IndexError:
            return fresh_withdraw(self._players)


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
