"""A signed, typed ``fetch_bet``, the same bet again, and 64 of them in flight, beside httpx by hand."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from functools import partial

from benchmarks.peers.by_hand import ByHand, ByHandAsync, signature_of
from benchmarks.races import Comparison, Race, Turn, cpu
from benchmarks.stage import OPERATOR_ID, Stage
from game_operator import AsyncOperatorClient

__all__ = ["races", "races_in_flight"]

_AGAIN = "bet-again"
_PEER = "httpx.Client, signed by hand, .json()"
_PEER_ASYNC = "httpx.AsyncClient, signed before, .json()"


def races(stage: Stage) -> Iterator[Race]:
    """Yield the race of one client in one thread."""
    by_hand = ByHand(stage.base_url, OPERATOR_ID, stage.private_key)
    with stage.client() as client:
        turns = {
            _PEER: cpu(lambda: by_hand.fetch_bet(stage.fresh_id("bet"))),
            "fetch_bet": cpu(lambda: client.fetch_bet(stage.fresh_id("bet"))),
            "fetch_bet, same bet again": cpu(lambda: client.fetch_bet(_AGAIN)),
        }
        goals = Comparison("fetch_bet", _PEER, 1.0), Comparison("fetch_bet, same bet again", _PEER, 0.5)
        yield Race(turns, goals, amount=25, rounds=60)
    by_hand.close()


def races_in_flight(stage: Stage) -> Iterator[Race]:
    """Yield the races of 64 calls at once, and of one; nobody signs afresh."""
    signature = signature_of(stage.private_key, f"{OPERATOR_ID}:{_AGAIN}".encode())
    for width, goal in ((64, 0.30), (1, None)):
        with asyncio.Runner() as runner:
            by_hand = ByHandAsync(stage.base_url, OPERATOR_ID)
            client = AsyncOperatorClient(stage.base_url, OPERATOR_ID, stage.private_key)
            ours = f"fetch_bet, {width} in flight"
            turns = {
                _PEER_ASYNC: _in_flight(runner, width, partial(by_hand.fetch_bet, _AGAIN, signature)),
                ours: _in_flight(runner, width, partial(client.fetch_bet, _AGAIN)),
            }
            yield Race(turns, [Comparison(ours, _PEER_ASYNC, goal)], amount=3 * width + 10, rounds=15)
            runner.run(by_hand.aclose())
            runner.run(client.aclose())


def _in_flight(runner: asyncio.Runner, width: int, call: Callable[[], Awaitable[object]]) -> Turn:
    """Return a turn that makes calls, never fewer than *width* at once until the end."""

    async def crowd(calls: int) -> None:
        left = iter(range(calls))

        async def worker() -> None:
            for _ in left:
                await call()

        await asyncio.gather(*(worker() for _ in range(width)))

    def turn(calls: float) -> float:
        return cpu(lambda: runner.run(crowd(int(calls))))(1) / calls

    return turn
