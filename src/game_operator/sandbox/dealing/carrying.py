"""Brings a dealer and a courier together: one post at a time, or many at once."""

import asyncio
from collections.abc import Callable
from typing import TypeAlias

from game_operator.errors import ConfigurationError, TransportError, shown
from game_operator.provider.carriers.http import Courier
from game_operator.provider.delivery import Answer, Post
from game_operator.provider.faults import Fault
from game_operator.sandbox.dealing.dealer import Dealer
from game_operator.sandbox.dealing.steps import Order
from game_operator.sandbox.storm.trace import Trace, TracedOrder

__all__ = ["OnAnswer", "OnOrder", "play", "replay"]

#: Told of an order that is carried from now on.
OnOrder: TypeAlias = Callable[[Order], object]
#: Told of an order and its answers: for each post an answer for each of its calls.
OnAnswer: TypeAlias = Callable[[Order, list[tuple[Answer, ...]]], object]


async def play(
    dealer: Dealer,
    courier: Courier,
    *,
    concurrency: int = 1,
    on_order: OnOrder | None = None,
    on_answer: OnAnswer | None = None,
) -> None:
    """
    Play *dealer*'s plan to its end.

    Args:
        dealer: Says what is sent.
        courier: Sends it.
        concurrency: How many orders are under way at once. With 1 everything happens in the order of the plan.
        on_order: Called with each order before it is carried.
        on_answer: Called with each order and its answers.

    Raises:
        TransportError: Nobody can reach the wallet; what was under way is given up.
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
            if on_order is not None:
                on_order(order)
            answers = await _carried(order, courier, at_once=concurrency > 1)
            async with changed:
                under_way -= 1
                dealer.answered(order, answers)
                changed.notify_all()
            if on_answer is not None:
                on_answer(order, answers)

    try:
        async with asyncio.TaskGroup() as workers:
            for _ in range(concurrency):
                workers.create_task(work())
    except* TransportError as unreachable:
        # Each worker met the same wallet.
        raise unreachable.exceptions[0] from None


async def replay(
    dealer: Dealer,
    courier: Courier,
    trace: Trace,
    *,
    on_order: OnOrder | None = None,
    on_answer: OnAnswer | None = None,
) -> None:
    """
    Play *dealer*'s plan in the order of *trace*, one post at a time; what is left then, in the order of the plan.

    Raises:
        TransportError: Nobody can reach the wallet.
        ConfigurationError: The plan makes other calls than the trace has.
    """
    for line in trace.orders:
        # A wallet that was mended answers otherwise, and some calls of the trace have no reason any more.
        order = dealer.take(line.names, line.at_millis)
        if order is None:
            continue
        _check_bodies(order, line)
        if on_order is not None:
            on_order(order)
        answers = await _carried(order, courier, at_once=False)
        dealer.answered(order, answers)
        if on_answer is not None:
            on_answer(order, answers)
    await play(dealer, courier, on_order=on_order, on_answer=on_answer)


def _check_bodies(order: Order, line: TracedOrder) -> None:
    bodies = {post.sent_for(post.signed).decode() for post in order.posts}
    # Of a batch, some deposits may have no reason any more.
    if order.names == line.names and not bodies <= set(line.bodies):
        raise ConfigurationError(
            f"The trace was changed, or made by another version of this package: {shown(line.names[0])} has another "
            "body there. Make a new one."
        )


async def _carried(order: Order, courier: Courier, *, at_once: bool) -> list[tuple[Answer, ...]]:
    answers: list[tuple[Answer, ...]] = []
    for group in _groups(order.posts) if at_once else ((post,) for post in order.posts):
        answers += (
            [await courier.post(group[0])] if len(group) == 1 else await asyncio.gather(*map(courier.post, group))
        )
    return answers


def _groups(posts: tuple[Post, ...]) -> list[tuple[Post, ...]]:
    """Return *posts* in order, a duplicate together with the post it doubles."""
    groups: list[tuple[Post, ...]] = []
    for post in posts:
        if post.extra is Fault.DUPLICATE and groups:
            groups[-1] += (post,)
        else:
            groups.append((post,))
    return groups
