"""``AsyncOperatorClient`` with 1 and with 64 calls in flight, over each library it can use; nobody signs afresh."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack

import httpx2

from benchmarks.measure import Contender, Race, Turn, timed
from benchmarks.peers.by_hand import signature_of
from benchmarks.peers.by_hand_async import ByHandAsync
from benchmarks.stage import OPERATOR_ID, Stage
from game_operator import AsyncOperatorClient

__all__ = ["races"]

_BET_ID = "bet-again"

Call = Callable[[], Awaitable[object]]


def races(stage: Stage) -> Iterator[Race]:
    yield from _race(stage, 64, calls=192)
    yield from _race(stage, 1, calls=40)


def _race(stage: Stage, width: int, *, calls: int) -> Iterator[Race]:
    with asyncio.Runner() as runner:
        closing = AsyncExitStack()
        bare, over = runner.run(_calls(stage, closing))

        def turn(call: Call) -> Turn:
            return timed(lambda calls: runner.run(_in_flight(call, calls, width)))

        yield Race(
            f"in-flight-{width}",
            Contender("httpx.AsyncClient, signature made beforehand, .json()", turn(bare)),
            (
                Contender(f"fetch_bet, {width} in flight, default", turn(over["default"])),
                Contender(f"fetch_bet, {width} in flight, over httpx2", turn(over["httpx2"])),
            ),
            calls=calls,
            rounds=12,
        )
        runner.run(closing.aclose())


async def _calls(stage: Stage, closing: AsyncExitStack) -> tuple[Call, dict[str, Call]]:
    """Return the peer's call, and ours by what carries it, all over connections of their own."""
    by_hand = ByHandAsync(stage.base_url, OPERATOR_ID)
    closing.push_async_callback(by_hand.aclose)
    signature = signature_of(stage.private_key, f"{OPERATOR_ID}:{_BET_ID}".encode())
    limits = httpx2.Limits(max_connections=100, max_keepalive_connections=100)
    httpx2_client = await closing.enter_async_context(httpx2.AsyncClient(limits=limits))
    clients = {
        "default": AsyncOperatorClient(stage.base_url, OPERATOR_ID, stage.private_key),
        "httpx2": AsyncOperatorClient(stage.base_url, OPERATOR_ID, stage.private_key, http_client=httpx2_client),
    }
    for client in clients.values():
        await closing.enter_async_context(client)
    return lambda: by_hand.fetch_bet(_BET_ID, signature), {name: _fetching(client) for name, client in clients.items()}


def _fetching(client: AsyncOperatorClient) -> Call:
    return lambda: client.fetch_bet(_BET_ID)


async def _in_flight(call: Call, calls: int, width: int) -> None:
    """Make *calls* calls, never fewer than *width* at once until the end."""
    left = iter(range(calls))

    async def worker() -> None:
        for _ in left:
            await call()

    await asyncio.gather(*(worker() for _ in range(width)))
