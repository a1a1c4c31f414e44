"""Look up many bets at once with the async client. A limiter protects the service from too many calls."""

import anyio

from game_operator import AsyncOperatorClient
from game_operator_testkit import Sandbox


async def look_up(client: AsyncOperatorClient, bet_ids: list[str], *, at_once: int) -> dict[str, str]:
    limiter = anyio.CapacityLimiter(at_once)
    statuses: dict[str, str] = {}

    async def one(bet_id: str) -> None:
        async with limiter:
            statuses[bet_id] = (await client.fetch_bet(bet_id)).status

    async with anyio.create_task_group() as tasks:
        for bet_id in bet_ids:
            tasks.start_soon(one, bet_id)
    return statuses


async def main() -> None:
    with Sandbox() as sandbox:
        missing = [f"bet-{number}" for number in range(95)]
        async with sandbox.async_client() as client:
            statuses = await look_up(client, [*sandbox.bet_ids.values(), *missing], at_once=16)
    for status in ("OPEN", "CLOSED", "ROLLED_BACK", "NOT_FOUND"):
        print(status, sum(found == status for found in statuses.values()))


anyio.run(main)

# Prints:
# OPEN 1
# CLOSED 2
# ROLLED_BACK 1
# NOT_FOUND 96
