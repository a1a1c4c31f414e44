"""A dealer and a courier brought together: how many posts are under way at once, and how it ends."""

import asyncio
import gc
from collections.abc import Callable

import pytest

from game_operator.errors import RequestNotSentError
from game_operator.models.webhooks import Reply
from game_operator.webhooks import success
from game_operator_testkit.provider.delivery import Answer, Post
from game_operator_testkit.provider.faults import NO_FAULTS, Fault, FaultPlan, FaultSwitches
from game_operator_testkit.sandbox.dealing.carrying import play
from game_operator_testkit.sandbox.dealing.dealer import Dealer
from testkit.tests.sandbox.dealing import bet, faults, round_of

pytestmark = pytest.mark.slow

DONE: Reply = success(balance_cents=100)


class Counting:
    """A courier that notes what is under way, and answers SUCCESS in its own time."""

    def __init__(self, before: Callable[[Post], None] = lambda _post: None) -> None:
        self.under_way: list[Post] = []
        self.most = 0
        self.together: list[set[str]] = []
        self.order: list[Post] = []
        self._before = before

    async def post(self, post: Post) -> Answer:
        self._before(post)
        self.order.append(post)
        self.under_way.append(post)
        self.most = max(self.most, len(self.under_way))
        await asyncio.sleep(0.005)
        self.together.append({str(each.extra) for each in self.under_way})
        self.under_way.remove(post)
        return Answer(DONE, 200)


def dealer(count: int = 12, plan: FaultPlan = NO_FAULTS) -> Dealer:
    return Dealer([round_of(bet(number), number=number) for number in range(count)], faults=FaultSwitches(plan))


@pytest.mark.parametrize("concurrency", [1, 2, 5])
def test_so_many_are_under_way_at_once(concurrency: int) -> None:
    """Never more, and as many as there is work for."""
    courier = Counting()
    playing = dealer()
    asyncio.run(play(playing, courier.post, concurrency=concurrency))
    assert courier.most == concurrency
    assert len(courier.order) == 24
    assert playing.next() is None


@pytest.mark.parametrize(("concurrency", "at_once"), [(1, False), (2, True)])
def test_a_duplicate_arrives_beside_its_call_where_that_is_possible(concurrency: int, at_once: bool) -> None:
    """Alone, posts come one after the other, so that a run can be repeated."""
    courier = Counting()
    asyncio.run(play(dealer(1, faults(Fault.DUPLICATE)), courier.post, concurrency=concurrency))
    assert [str(post.extra) for post in courier.order] == ["None", "duplicate"] * 2
    assert ({"None", "duplicate"} in courier.together) is at_once


@pytest.mark.parametrize("concurrency", [1, 8])
def test_a_wallet_that_nobody_can_reach_ends_it(concurrency: int) -> None:
    """The error is the courier's own, however many met it, and nothing is left under way."""
    started: list[Post] = []

    def before(post: Post) -> None:
        started.append(post)
        if len(started) > 3:
            raise RequestNotSentError("nobody there")

    courier = Counting(before)
    with pytest.raises(RequestNotSentError, match="nobody there"):
        asyncio.run(play(dealer(), courier.post, concurrency=concurrency))
    gc.collect()
    assert len(started) <= 3 + concurrency
