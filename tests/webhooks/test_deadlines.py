"""Many time limits on one timer: each at its time, whatever the others do."""

import asyncio
import threading
import time

import pytest

from game_operator.webhooks.budget import Budget, OverBudget
from game_operator.webhooks.deadlines import Deadlines


@pytest.fixture
def anyio_backend() -> str:
    """Time budgets are asyncio's."""
    return "asyncio"


async def _naps(seconds: float) -> float:
    await asyncio.sleep(0)  # A first step that does not end it.
    await asyncio.sleep(seconds)
    return seconds


@pytest.mark.anyio
async def test_each_at_its_time() -> None:
    """Longer before shorter, equal ones, and some that end in time."""
    budget = Budget(1)
    ended: list[float] = []

    async def within(seconds: float, nap: float) -> object:
        result = await budget.awaited(seconds, _naps, nap)
        ended.append(seconds)
        return result

    limits = [0.4, 0.1, 0.3, 0.2, 0.2]
    results = await asyncio.gather(*(within(limit, 30) for limit in limits), within(30, 0.15), within(0.5, 0.01))
    assert [isinstance(each, OverBudget) for each in results] == [True] * 5 + [False] * 2
    assert ended == [0.5, 0.1, 30, 0.2, 0.2, 0.3, 0.4]


@pytest.mark.anyio
async def test_what_has_ended_is_forgotten() -> None:
    """However many calls are within their time, the line is no longer than those under way."""
    deadlines = Deadlines(asyncio.get_running_loop())
    task = asyncio.current_task()
    assert task
    for _ in range(1_000):
        assert not deadlines.begin(task, 10).left()
    assert len(deadlines._waiting) == 1


@pytest.mark.anyio
async def test_a_cancellation_from_elsewhere_is_no_time_limit() -> None:
    """Whoever cancels the task meanwhile is obeyed, also when the time is over as well."""
    budget = Budget(1)
    task = asyncio.create_task(budget.awaited(0.05, _naps, 30))
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    async def twice() -> object:
        current = asyncio.current_task()
        assert current
        asyncio.get_running_loop().call_later(0.05, current.cancel)
        return await budget.awaited(0.05, _naps, 30)

    both = asyncio.create_task(twice())
    await asyncio.sleep(0.01)
    time.sleep(0.1)  # Both are due in the same turn of the loop.
    with pytest.raises(asyncio.CancelledError):
        await both


def test_loops_of_several_threads_share_a_budget() -> None:
    """One receiver in two servers: each call ends by its own loop's clock."""
    budget = Budget(1)
    results: list[object] = []

    async def calls() -> None:
        results.extend(await asyncio.gather(*(budget.awaited(0.1, _naps, nap) for nap in (30, 0.01) * 20)))

    threads = [threading.Thread(target=asyncio.run, args=(calls(),)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(isinstance(each, OverBudget) for each in results) == [False] * 80 + [True] * 80
