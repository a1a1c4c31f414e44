"""``AsyncOperatorClient`` with 1 and with 64 calls in flight; nobody signs afresh."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator

from benchmarks.measure import Contender, Race, Turn, timed
from benchmarks.peers.by_hand import signature_of
from benchmarks.peers.by_hand_async import ByHandAsync
from benchmarks.stage import OPERATOR_ID, Stage
from game_operator import AsyncOperatorClient

__all__ = ["races"]

_BET_ID = "bet-again"

Call = Callable[[], Awaitable[object]]


def races(stage: Stage) -> Iterator[Race]:
    yield from _race(stage, 64, goal=0.30, calls=192)
    yield from _race(stage, 1, goal=None, calls=40)


def _race(stage: Stage, width: int, *, goal: float | None, calls: int) -> Iterator[Race]:
    with asyncio.Runner() as runner:
        by_hand = ByHandAsync(stage.base_url, OPERATOR_ID)
        client = AsyncOperatorClient(stage.base_url, OPERATOR_ID, stage.private_key)
        signature = signature_of(stage.private_key, f"{OPERATOR_ID}:{_BET_ID}".encode())

        def turn(call: Call) -> Turn:
            return timed(lambda calls: runner.run(_in_flight(call, calls, width)))

        yield Race(
            f"in-flight-{width}",
            Contender(
                "httpx.AsyncClient, signature made beforehand, .json()",
                turn(lambda: by_hand.fetch_bet(_BET_ID, signature)),
            ),
            (Contender(f"fetch_bet, {width} in flight", turn(lambda: client.fetch_bet(_BET_ID)), goal),),
            calls=calls,
            rounds=15,
        )
        runner.run(by_hand.aclose())
        runner.run(client.aclose())


async def _in_flight(call: Call, calls: int, width: int) -> None:
    """Make *calls* calls, never fewer than *width* at once until the end."""
    left = iter(range(calls))

    async def worker() -> None:
        for _ in left:
            await call()

    await asyncio.gather(*(worker() for _ in range(width)))
