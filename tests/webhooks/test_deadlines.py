"""Many time limits on one timer: each at its time, whatever the others do."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from functools import partial
from itertools import count
from selectors import DefaultSelector, SelectorKey
from typing import Any

import pytest

from game_operator.webhooks.budget import Budget, OverBudget


class _Selector(DefaultSelector):
    """Where a loop would wait, it puts the loop's clock forward."""

    waited = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[SelectorKey, int]]:
        ready: list[tuple[SelectorKey, int]] = super().select(timeout and 0)
        if timeout and not ready:
            self.waited += timeout
        return ready


class _Loop(asyncio.SelectorEventLoop):
    """A loop with a clock of its own, which stands still while it works: no other load on the machine is seen."""

    _begins = count(0, 1_000)

    def __init__(self) -> None:
        self._clock = _Selector()
        self._begin = next(self._begins)
        super().__init__(self._clock)

    def time(self) -> float:
        return self._begin + self._clock.waited


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    """Time budgets are asyncio's."""
    return "asyncio", {"loop_factory": _Loop}


async def _naps(seconds: float) -> float:
    await asyncio.sleep(0)  # A first step that does not end it.
    await asyncio.sleep(seconds)
    return seconds


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


async def _cleans_up_slowly() -> None:
    try:
        await asyncio.sleep(30)
    finally:
        await asyncio.sleep(30)


@pytest.mark.parametrize(
    ("handler", "after"),
    [
        pytest.param(partial(_naps, 30), 0.01, id="before the time limit"),
        pytest.param(_cleans_up_slowly, 0.1, id="behind it, while the handler cleans up"),
    ],
)
async def test_a_cancellation_from_elsewhere_is_no_time_limit(
    handler: Callable[[], Coroutine[Any, Any, Any]], after: float
) -> None:
    """A cancellation of the task meanwhile is obeyed."""
    task = asyncio.create_task(Budget(1).awaited(0.05, handler))
    await asyncio.sleep(after)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert task.cancelled()


@pytest.mark.parametrize("first", ["the cancellation", "the time limit"])
@pytest.mark.parametrize("cleans_up", [False, True])
async def test_a_cancellation_at_the_same_moment_counts(first: str, *, cleans_up: bool) -> None:
    """Both are due in the same turn of the loop, in either order; the handler may await something on its way out."""
    ended: list[bool] = []

    def cancel_soon() -> None:
        current = asyncio.current_task()
        assert current
        asyncio.get_running_loop().call_later(0.05, current.cancel)

    async def handler() -> None:
        await asyncio.sleep(0)  # From here on there is a time limit.
        if first == "the time limit":
            cancel_soon()
        try:
            await asyncio.sleep(30)
        finally:
            if cleans_up:
                await asyncio.sleep(0)
            ended.append(True)

    async def call() -> object:
        if first == "the cancellation":
            cancel_soon()
        return await Budget(1).awaited(0.05, handler)

    both = asyncio.create_task(call())
    with pytest.raises(asyncio.CancelledError):
        await both
    assert both.cancelled()
    assert ended == [True]


def test_loops_of_several_threads_share_a_budget() -> None:
    """One receiver in four servers: each call ends by its own loop's clock, and they are a thousand seconds apart."""
    budget = Budget(1)
    results: list[object] = []

    async def calls() -> None:
        results.extend(await asyncio.gather(*(budget.awaited(0.1, _naps, nap) for nap in (30, 0.01) * 20)))

    together = threading.Barrier(4)

    def serve() -> None:
        together.wait()
        with asyncio.Runner(loop_factory=_Loop) as runner:
            runner.run(calls())

    threads = [threading.Thread(target=serve) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(isinstance(each, OverBudget) for each in results) == [False] * 80 + [True] * 80
