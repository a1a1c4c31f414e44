"""The queues that share commits: nobody waits for ever, whatever happens to him who commits for the others."""

import asyncio
import ctypes
import gc
import signal
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from game_operator.errors import LedgerUnavailableError
from game_operator.ledger import Outcome
from game_operator.ledger.api import DEFAULT_TERMS
from game_operator.ledger.engine.batch import Result
from game_operator.ledger.engine.commit_queue import AsyncCommitQueue, CommitQueue
from game_operator.ledger.rules.book import Item
from tests.support.calls import ask_balance

_PATIENCE_SECONDS = 30.0
DONE = Outcome(code=None, balance_cents=None, at_millis=1)


def _wait_for_line(queue: CommitQueue, length: int) -> None:
    """Return when so many callers wait."""
    give_up = time.monotonic() + _PATIENCE_SECONDS
    while len(queue._waiting) < length:
        assert time.monotonic() < give_up
        time.sleep(0.001)


def _item(number: int) -> Item:
    return Item(ask_balance(f"p{number}"), DEFAULT_TERMS)


class _Commits:
    """Stands for the database: each commit ends when it is told to, in the way it is told."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.begun = threading.Semaphore(0)
        self.go_on = threading.Semaphore(0)
        self.fails: Callable[[Sequence[Item]], BaseException | None] = lambda items: None

    def __call__(self, items: Sequence[Item]) -> list[Result]:
        self.batches.append([item.call.player_id for item in items])
        self.begun.release()
        # In short waits: an exception set on this thread from outside arrives between them.
        give_up = time.monotonic() + _PATIENCE_SECONDS
        while not self.go_on.acquire(timeout=0.01):
            assert time.monotonic() < give_up, "nobody ended this commit"
        failure = self.fails(items)
        if failure is not None:
            raise failure
        return [DONE] * len(items)


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(100) as threads:
        yield threads


def _line_up(queue: CommitQueue, pool: ThreadPoolExecutor, numbers: range) -> list["Future[Outcome]"]:
    """Submit in order, and return when all wait."""
    futures = []
    for number in numbers:
        before = len(queue._waiting)
        futures.append(pool.submit(queue.submit, _item(number)))
        _wait_for_line(queue, before + 1)
    return futures


def test_who_waits_during_a_commit_is_committed_together(pool: ThreadPoolExecutor) -> None:
    """A lone call goes straight through; those who come meanwhile form the next batches, 64 at most, in order."""
    commits = _Commits()
    queue = CommitQueue(commits)
    first = pool.submit(queue.submit, _item(0))
    commits.begun.acquire()
    others = _line_up(queue, pool, range(1, 71))
    commits.go_on.release(10)
    assert {future.result(30) for future in (first, *others)} == {DONE}
    assert commits.batches == [["p0"], [f"p{n}" for n in range(1, 65)], [f"p{n}" for n in range(65, 71)]]


def test_one_that_fails_fails_alone(pool: ThreadPoolExecutor) -> None:
    """When a batch fails, each is tried by itself: the sound ones pass."""
    commits = _Commits()
    commits.fails = lambda items: ValueError("p2") if any(item.call.player_id == "p2" for item in items) else None
    queue = CommitQueue(commits)
    first = pool.submit(queue.submit, _item(0))
    commits.begun.acquire()
    others = _line_up(queue, pool, range(1, 4))
    commits.go_on.release(10)
    assert first.result(30) == others[0].result(30) == others[2].result(30) == DONE
    with pytest.raises(ValueError, match="p2"):
        others[1].result(30)


def test_a_database_that_is_down_is_waited_for_once(pool: ThreadPoolExecutor) -> None:
    """H02: who waited while the database was tried in vain is told so then: 90 do not wait one by one."""
    commits = _Commits()
    commits.fails = lambda items: LedgerUnavailableError("down")
    queue = CommitQueue(commits)
    first = pool.submit(queue.submit, _item(0))
    commits.begun.acquire()
    others = _line_up(queue, pool, range(1, 91))
    commits.go_on.release(2)
    for future in (first, *others):
        assert isinstance(future.exception(30), LedgerUnavailableError)
    # The first, then 64 of those who came meanwhile; the rest waited all the while.
    assert [len(batch) for batch in commits.batches] == [1, 64]
    commits.fails = lambda items: None
    commits.go_on.release()
    assert queue.submit(_item(99)) == DONE


class _StopError(BaseException):
    """As Ctrl-C in the thread that gets it."""


def _interrupt(thread: threading.Thread) -> None:
    assert thread.ident is not None
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(_StopError))


class _Caller(threading.Thread):
    """A thread whose end can be looked at, whatever it ended with."""

    def __init__(self, queue: CommitQueue, number: int) -> None:
        super().__init__(daemon=True)
        self._queue, self._number = queue, number
        self.end: object = None

    def run(self) -> None:
        try:
            self.end = self._queue.submit(_item(self._number))
        except BaseException as raised:
            self.end = raised


def test_the_thread_that_commits_for_others_is_stopped() -> None:
    """Ctrl-C stops the leader alone: those it committed for must repeat, those behind go on."""
    commits = _Commits()
    queue = CommitQueue(commits, most=2)
    callers = [_Caller(queue, number) for number in range(4)]
    callers[0].start()
    commits.begun.acquire()
    for number, caller in enumerate(callers[1:]):
        caller.start()
        _wait_for_line(queue, number + 1)
    commits.go_on.release()
    commits.begun.acquire()
    assert commits.batches[1] == ["p1", "p2"]
    _interrupt(callers[1])
    commits.begun.acquire()
    commits.go_on.release()
    for caller in callers:
        caller.join(30)
    assert [type(caller.end) for caller in callers] == [Outcome, _StopError, LedgerUnavailableError, Outcome]


class _StopsAsItWakes:
    """A lock whose waiter is interrupted as it wakes, because Python can interrupt no other thread in a lock."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def acquire(self, timeout: float | None = None) -> bool:
        if timeout is None:  # Whoever makes the lock takes it at once.
            return self._lock.acquire()
        self._lock.acquire(timeout=timeout)
        raise _StopError

    def release(self) -> None:
        self._lock.release()


def test_one_who_waits_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """A caller that is stopped when the lead is handed to it leaves the line, and the one behind it is served."""
    commits = _Commits()
    queue = CommitQueue(commits, most=1)
    callers = [_Caller(queue, number) for number in range(3)]
    callers[0].start()
    commits.begun.acquire()
    with monkeypatch.context() as patch:
        patch.setattr("game_operator.ledger.engine.commit_queue.Lock", _StopsAsItWakes)
        callers[1].start()
        _wait_for_line(queue, 1)
    callers[2].start()
    _wait_for_line(queue, 2)
    commits.go_on.release(3)
    for caller in callers:
        caller.join(30)
    assert [type(caller.end) for caller in callers] == [Outcome, _StopError, Outcome]
    assert commits.batches == [["p0"], ["p2"]]


def test_the_main_thread_is_interrupted_while_it_waits() -> None:
    """Ctrl-C wakes the main thread in the line: it leaves, and is not waited for when its turn would come."""
    commits = _Commits()
    queue = CommitQueue(commits, most=1)
    first, last = _Caller(queue, 0), _Caller(queue, 2)
    first.start()
    commits.begun.acquire()

    main = threading.get_ident()

    def interrupt() -> None:
        _wait_for_line(queue, 1)
        last.start()
        _wait_for_line(queue, 2)
        signal.pthread_kill(main, signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        queue.submit(_item(1))
    commits.go_on.release(3)
    for caller in (first, last):
        caller.join(30)
        assert caller.end == DONE
    assert commits.batches == [["p0"], ["p2"]]


def _crowded(run: Callable[[Sequence[Item]], Awaitable[list[Result]]], most: int = 64) -> AsyncCommitQueue:
    """Return a queue whose next call waits for others."""
    queue = AsyncCommitQueue(run, most=most)
    queue._is_crowded = True
    return queue


async def test_a_lone_call_is_committed_in_its_callers_task() -> None:
    """Those who come meanwhile are committed together by a worker; a call that is alone again is not."""
    runs: list[tuple[int, bool]] = []
    callers: list[asyncio.Task[Outcome]] = []

    async def run(items: Sequence[Item]) -> list[Result]:
        runs.append((len(items), asyncio.current_task() in callers))
        await asyncio.sleep(0.01)
        return [DONE] * len(items)

    queue = AsyncCommitQueue(run)
    for crowd in (1, 1, 5, 5, 1, 1, 1):
        callers = [asyncio.create_task(queue.submit(_item(number))) for number in range(crowd)]
        assert await asyncio.gather(*callers) == [DONE] * crowd
    assert runs == [(1, True), (1, True), (1, True), (4, False), (5, False), (1, False), (1, True), (1, True)]


async def test_what_a_lone_call_raises() -> None:
    """What stands for its result, and what fails its commit; the next one is committed."""
    ends: list[Any] = [ValueError("refused"), StopIteration(), LedgerUnavailableError("down"), DONE]

    async def run(_items: Sequence[Item]) -> list[Result]:
        end = ends.pop(0)
        if isinstance(end, LedgerUnavailableError):
            raise end
        return [end]

    queue = AsyncCommitQueue(run)
    for kind in (ValueError, RuntimeError, LedgerUnavailableError):
        with pytest.raises(kind):
            await queue.submit(_item(0))
    assert await queue.submit(_item(0)) == DONE


async def test_a_lone_call_is_given_up() -> None:
    """Its commit is cancelled with it, and those who came meanwhile are committed."""
    begun = asyncio.Event()

    async def run(items: Sequence[Item]) -> list[Result]:
        begun.set()
        if items[0].call.player_id == "p0":
            await asyncio.sleep(3600)
        return [DONE] * len(items)

    queue = AsyncCommitQueue(run)
    first = asyncio.create_task(queue.submit(_item(0)))
    await begun.wait()
    behind = [asyncio.create_task(queue.submit(_item(number))) for number in (1, 2)]
    await asyncio.sleep(0)
    first.cancel()
    assert await asyncio.wait_for(asyncio.gather(*behind), 30) == [DONE, DONE]
    assert first.cancelled()


def test_the_loop_of_a_lone_call_is_closed() -> None:
    """Without an end of its tasks: the queue goes on in the next loop."""

    async def run(items: Sequence[Item]) -> list[Result]:
        if items[0].call.player_id == "p0":
            await asyncio.sleep(3600)
        return [DONE] * len(items)

    queue = AsyncCommitQueue(run)
    loop = asyncio.new_event_loop()
    tasks = [loop.create_task(queue.submit(_item(number))) for number in range(3)]
    loop.run_until_complete(asyncio.sleep(0.01))
    loop.close()
    for task in tasks:
        task._log_destroy_pending = False  # type: ignore[attr-defined]  # As a debugger would be told.
    del tasks, task
    gc.collect()
    assert asyncio.run(queue.submit(_item(3))) == DONE


async def test_what_a_callable_raises_reaches_its_caller() -> None:
    """StopIteration, which no future takes, must not stop the queue: its caller gets an error, the others go on."""

    async def run(items: Sequence[Item]) -> list[Result]:
        return [StopIteration() if item.call.player_id == "p1" else DONE for item in items]

    queue = AsyncCommitQueue(run)
    ends = await asyncio.gather(*(queue.submit(_item(number)) for number in range(3)), return_exceptions=True)
    assert [type(end) for end in ends] == [Outcome, RuntimeError, Outcome]
    assert await queue.submit(_item(0)) == DONE


async def test_the_worker_is_cancelled() -> None:
    """A worker that is cancelled leaves nobody waiting, neither in its batch nor behind, and another begins."""
    begun = asyncio.Event()
    hang = True

    async def run(items: Sequence[Item]) -> list[Result]:
        begun.set()
        if hang:
            await asyncio.sleep(3600)
        return [DONE] * len(items)

    queue = _crowded(run, most=2)
    callers = [asyncio.create_task(queue.submit(_item(number))) for number in range(5)]
    await begun.wait()
    assert queue._worker is not None
    queue._worker.cancel()
    ends = await asyncio.wait_for(asyncio.gather(*callers, return_exceptions=True), 30)
    assert {type(end) for end in ends} == {LedgerUnavailableError}
    hang = False
    assert await queue.submit(_item(9)) == DONE


async def test_a_database_that_is_down_is_waited_for_once_by_tasks() -> None:
    """H02: as for threads."""
    runs: list[int] = []

    async def run(items: Sequence[Item]) -> list[Result]:
        runs.append(len(items))
        await asyncio.sleep(0)
        raise LedgerUnavailableError("down")

    queue = _crowded(run)
    ends = await asyncio.gather(*(queue.submit(_item(number)) for number in range(300)), return_exceptions=True)
    assert {type(end) for end in ends} == {LedgerUnavailableError}
    assert runs == [64]


async def test_the_worker_is_cancelled_before_it_begins() -> None:
    """Whoever waits is told, and another begins."""

    async def run(items: Sequence[Item]) -> list[Result]:
        return [DONE] * len(items)

    queue = _crowded(run)
    caller = asyncio.create_task(queue.submit(_item(0)))
    await asyncio.sleep(0)
    assert queue._worker is not None
    queue._worker.cancel()
    with pytest.raises(LedgerUnavailableError):
        await asyncio.wait_for(caller, 30)
    assert await asyncio.wait_for(queue.submit(_item(1)), 30) == DONE


async def test_nobody_waits_any_more() -> None:
    """A commit that all its callers have given up is cancelled; as long as one waits, it is not."""
    begun, cancelled = asyncio.Event(), []

    async def run(items: Sequence[Item]) -> list[Result]:
        begun.set()
        if items[0].call.player_id != "p9":
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                cancelled.append([item.call.player_id for item in items])
                raise
        return [DONE] * len(items)

    queue = _crowded(run, most=2)
    first, second = (asyncio.create_task(queue.submit(_item(number))) for number in range(2))
    behind = asyncio.create_task(queue.submit(_item(9)))
    await begun.wait()
    first.cancel()
    await asyncio.sleep(0.05)
    assert (cancelled, behind.done()) == ([], False)
    second.cancel()
    assert await asyncio.wait_for(behind, 30) == DONE
    assert cancelled == [["p0", "p1"]]


def test_a_commit_that_does_not_end() -> None:
    """Whoever waits behind it is told in the end, and leaves the line to the others."""
    commits = _Commits()
    queue = CommitQueue(commits, most=1, longest_seconds=0.2)
    first, second, third = (_Caller(queue, number) for number in range(3))
    first.start()
    commits.begun.acquire()
    second.start()
    second.join(30)
    assert isinstance(second.end, LedgerUnavailableError)
    commits.go_on.release()
    first.join(30)
    third.start()
    commits.go_on.release()
    third.join(30)
    assert (first.end, third.end) == (DONE, DONE)
    assert commits.batches == [["p0"], ["p2"]]
