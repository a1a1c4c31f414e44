"""The queues that share commits: nobody waits for ever, whatever happens to him who commits for the others."""

import asyncio
import ctypes
import gc
import signal
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from game_operator.errors import LedgerUnavailableError
from game_operator.ledger import Outcome
from game_operator.ledger.api import DEFAULT_TERMS
from game_operator.ledger.engine.batch import Result
from game_operator.ledger.engine.commit_queue import AsyncCommitQueue, CommitQueue
from game_operator.ledger.rules.book import Item
from tests.support.calls import ask_balance
from tests.support.times import wait_until

_PATIENCE_SECONDS = 30.0
DONE = Outcome(code=None, balance_cents=None, at_millis=1)


def _item(number: int) -> Item:
    return Item(ask_balance(f"p{number}"), DEFAULT_TERMS)


class _StopError(BaseException):
    """As Ctrl-C in the thread that gets it."""


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


def _behind(queue: CommitQueue, number: int) -> _Caller:
    """Return a caller that waits, behind all others."""
    caller, length = _Caller(queue, number), len(queue._waiting)
    caller.start()
    wait_until(lambda: len(queue._waiting) > length)
    return caller


def _line_up(queue: CommitQueue, commits: _Commits, count: int) -> list[_Caller]:
    """Return callers of which the first commits, and the others wait in order."""
    first = _Caller(queue, 0)
    first.start()
    commits.begun.acquire()
    return [first, *(_behind(queue, number) for number in range(1, count))]


def _ends(callers: Sequence[_Caller]) -> list[object]:
    for caller in callers:
        caller.join(_PATIENCE_SECONDS)
    return [caller.end for caller in callers]


def _kinds(ends: Sequence[object]) -> list[type]:
    return [type(end) for end in ends]


def test_who_waits_during_a_commit_is_committed_together() -> None:
    """A lone call goes straight through; those who come meanwhile form the next batches, 64 at most, in order."""
    commits = _Commits()
    callers = _line_up(CommitQueue(commits), commits, 71)
    commits.go_on.release(10)
    assert _ends(callers) == [DONE] * 71
    assert commits.batches == [["p0"], [f"p{n}" for n in range(1, 65)], [f"p{n}" for n in range(65, 71)]]


def test_one_that_fails_fails_alone() -> None:
    """When a batch fails, each is tried by itself: the sound ones pass."""
    commits = _Commits()
    commits.fails = lambda items: ValueError("p2") if any(item.call.player_id == "p2" for item in items) else None
    callers = _line_up(CommitQueue(commits), commits, 4)
    commits.go_on.release(10)
    assert _kinds(_ends(callers)) == [Outcome, Outcome, ValueError, Outcome]


def test_a_database_that_is_down_is_waited_for_once() -> None:
    """H02: who waited while the database was tried in vain is told so then: 90 do not wait one by one."""
    commits = _Commits()
    commits.fails = lambda items: LedgerUnavailableError("down")
    queue = CommitQueue(commits)
    callers = _line_up(queue, commits, 91)
    commits.go_on.release(2)
    assert _kinds(_ends(callers)) == [LedgerUnavailableError] * 91
    # The first, then 64 of those who came meanwhile; the rest waited all the while.
    assert [len(batch) for batch in commits.batches] == [1, 64]
    commits.fails = lambda items: None
    commits.go_on.release()
    assert queue.submit(_item(99)) == DONE


def _interrupt(thread: threading.Thread) -> None:
    assert thread.ident is not None
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(_StopError))


def test_the_thread_that_commits_for_others_is_stopped() -> None:
    """Ctrl-C stops the leader alone: those it committed for must repeat, those behind go on."""
    commits = _Commits()
    callers = _line_up(CommitQueue(commits, most=2), commits, 4)
    commits.go_on.release()
    commits.begun.acquire()
    assert commits.batches[1] == ["p1", "p2"]
    _interrupt(callers[1])
    commits.begun.acquire()
    commits.go_on.release()
    assert _kinds(_ends(callers)) == [Outcome, _StopError, LedgerUnavailableError, Outcome]


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
    callers = _line_up(queue, commits, 1)
    with monkeypatch.context() as patch:
        patch.setattr("game_operator.ledger.engine.commit_queue.Lock", _StopsAsItWakes)
        callers.append(_behind(queue, 1))
    callers.append(_behind(queue, 2))
    commits.go_on.release(3)
    assert _kinds(_ends(callers)) == [Outcome, _StopError, Outcome]
    assert commits.batches == [["p0"], ["p2"]]


def test_the_main_thread_is_interrupted_while_it_waits() -> None:
    """Ctrl-C wakes the main thread in the line: it leaves, and is not waited for when its turn would come."""
    commits = _Commits()
    queue = CommitQueue(commits, most=1)
    callers = _line_up(queue, commits, 1)
    main = threading.get_ident()

    def interrupt() -> None:
        wait_until(lambda: queue._waiting)
        callers.append(_behind(queue, 2))
        signal.pthread_kill(main, signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        queue.submit(_item(1))
    commits.go_on.release(3)
    assert _ends(callers) == [DONE, DONE]
    assert commits.batches == [["p0"], ["p2"]]


def test_a_commit_that_does_not_end() -> None:
    """Whoever waits behind it is told in the end, and leaves the line to the others."""
    commits = _Commits()
    queue = CommitQueue(commits, most=1, longest_seconds=0.2)
    (first,) = _line_up(queue, commits, 1)
    second, third = (_Caller(queue, number) for number in (1, 2))
    second.start()
    assert _kinds(_ends([second])) == [LedgerUnavailableError]
    commits.go_on.release()
    assert _ends([first]) == [DONE]
    third.start()
    commits.go_on.release()
    assert _ends([third]) == [DONE]
    assert commits.batches == [["p0"], ["p2"]]


# --- tasks ------------------------------------------------------------------------------------------------------------


class _Awaited:
    """Stands for the database: the commits that begin with *hangs* do not end by themselves."""

    def __init__(self, hangs: str = "") -> None:
        self._hangs = hangs
        self.begun = asyncio.Event()
        self.cancelled: list[list[str]] = []

    async def __call__(self, items: Sequence[Item]) -> list[Result]:
        self.begun.set()
        players = [item.call.player_id for item in items]
        if players[0] == self._hangs:
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                self.cancelled.append(players)
                raise
        return [DONE] * len(items)


def _crowded(run: Callable[[Sequence[Item]], Awaitable[list[Result]]], most: int = 64) -> AsyncCommitQueue:
    """Return a queue whose next call waits for others."""
    queue = AsyncCommitQueue(run, most=most)
    queue._is_crowded = True
    return queue


def _submitted(queue: AsyncCommitQueue, *numbers: int) -> list["asyncio.Task[Outcome]"]:
    return [asyncio.create_task(queue.submit(_item(number))) for number in numbers]


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
        callers = _submitted(queue, *range(crowd))
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
    commits = _Awaited(hangs="p0")
    queue = AsyncCommitQueue(commits)
    (first,) = _submitted(queue, 0)
    await commits.begun.wait()
    behind = _submitted(queue, 1, 2)
    await asyncio.sleep(0)
    first.cancel()
    assert await asyncio.wait_for(asyncio.gather(*behind), 30) == [DONE, DONE]
    assert first.cancelled()


def test_the_loop_of_a_lone_call_is_closed() -> None:
    """Without an end of its tasks: the queue goes on in the next loop."""
    queue = AsyncCommitQueue(_Awaited(hangs="p0"))
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
    ends = await asyncio.gather(*_submitted(queue, 0, 1, 2), return_exceptions=True)
    assert _kinds(ends) == [Outcome, RuntimeError, Outcome]
    assert await queue.submit(_item(0)) == DONE


async def test_the_worker_is_cancelled() -> None:
    """A worker that is cancelled leaves nobody waiting, neither in its batch nor behind, and another begins."""
    commits = _Awaited(hangs="p0")
    queue = _crowded(commits, most=2)
    callers = _submitted(queue, *range(5))
    await commits.begun.wait()
    assert queue._worker is not None
    queue._worker.cancel()
    ends = await asyncio.wait_for(asyncio.gather(*callers, return_exceptions=True), 30)
    assert _kinds(ends) == [LedgerUnavailableError] * 5
    assert await queue.submit(_item(9)) == DONE


async def test_a_database_that_is_down_is_waited_for_once_by_tasks() -> None:
    """H02: as for threads."""
    runs: list[int] = []

    async def run(items: Sequence[Item]) -> list[Result]:
        runs.append(len(items))
        await asyncio.sleep(0)
        raise LedgerUnavailableError("down")

    queue = _crowded(run)
    ends = await asyncio.gather(*_submitted(queue, *range(300)), return_exceptions=True)
    assert set(_kinds(ends)) == {LedgerUnavailableError}
    assert runs == [64]


async def test_the_worker_is_cancelled_before_it_begins() -> None:
    """Whoever waits is told, and another begins."""
    queue = _crowded(_Awaited())
    (caller,) = _submitted(queue, 0)
    await asyncio.sleep(0)
    assert queue._worker is not None
    queue._worker.cancel()
    with pytest.raises(LedgerUnavailableError):
        await asyncio.wait_for(caller, 30)
    assert await asyncio.wait_for(queue.submit(_item(1)), 30) == DONE


async def test_nobody_waits_any_more() -> None:
    """A commit that all its callers have given up is cancelled; as long as one waits, it is not."""
    commits = _Awaited(hangs="p0")
    first, second, behind = _submitted(_crowded(commits, most=2), 0, 1, 9)
    await commits.begun.wait()
    first.cancel()
    await asyncio.sleep(0.05)
    assert (commits.cancelled, behind.done()) == ([], False)
    second.cancel()
    assert await asyncio.wait_for(behind, 30) == DONE
    assert commits.cancelled == [["p0", "p1"]]
