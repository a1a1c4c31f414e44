"""Plays a dealer's plan by a courier: one post at a time, or many at once."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from game_operator.errors import TransportError
from game_operator_testkit.provider.delivery import Answer, Post
from game_operator_testkit.provider.faults import Fault
from game_operator_testkit.sandbox.dealing.dealer import Dealer
from game_operator_testkit.sandbox.dealing.dealt import Order

#: Carries a post, and returns its answer; raises TransportError if the wallet cannot be reached.
Courier: TypeAlias = Callable[[Post], Awaitable[Answer]]


async def play(dealer: Dealer, courier: Courier, *, concurrency: int = 1) -> None:
    """
    Play *dealer*'s plan to its end, with so many orders under way at once as *concurrency* says.

    With a *concurrency* of 1 everything happens in the order of the plan.

    Raises:
        TransportError: The wallet cannot be reached; what was under way is given up.
    """
    changed = asyncio.Condition()
    under_way = 0

    async def work() -> None:
        nonlocal under_way
        while True:
            async with changed:
                while (order := dealer.next()) is None:
                    if not under_way:
                        changed.notify_all()
                        return
                    await changed.wait()
                under_way += 1
            answers = await _carried(order, courier, at_once=concurrency > 1)
            async with changed:
                under_way -= 1
                dealer.answered(order, answers)
                changed.notify_all()

    try:
        async with asyncio.TaskGroup() as workers:
            for _ in range(concurrency):
                workers.create_task(work())
    except* TransportError as unreachable:
        # Each worker met the same wallet.
        raise unreachable.exceptions[0] from None


async def _carried(order: Order, courier: Courier, *, at_once: bool) -> list[Answer]:
    """Carry the posts of *order* in order, duplicates beside their posts if *at_once*, and return the answers."""
    groups: list[tuple[Post, ...]] = []
    for post in order.posts:
        if at_once and groups and post.extra is Fault.DUPLICATE:
            groups[-1] += (post,)
        else:
            groups.append((post,))
    answers: list[Answer] = []
    for group in groups:
        answers += await asyncio.gather(*map(courier, group))
    return answers
