"""
Shared commits: calls that arrive while one commit is under way form the next batch.

A lone call goes straight through. In a batch each call succeeds or fails alone.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from threading import Lock

from game_operator.errors import LedgerUnavailableError
from game_operator.ledger.api import Outcome
from game_operator.ledger.book import Item
from game_operator.ledger.script import Result

__all__ = ["AsyncCommitQueue", "CommitQueue", "merged"]

_MOST = 64
Run = Callable[[Sequence[Item]], list[Result]]
AsyncRun = Callable[[Sequence[Item]], Awaitable[list[Result]]]


class _Ticket:
    """A waiting call: woken when it is answered, or when it is its turn to lead a batch."""

    __slots__ = ("item", "result", "turn")

    def __init__(self, item: Item) -> None:
        self.item = item
        self.result: Result | BaseException | None = None
        self.turn = Lock()
        self.turn.acquire()


class CommitQueue:
    """Lets one caller at a time commit, for itself and for those who wait."""

    def __init__(self, run: Run, *, most: int = _MOST) -> None:
        self._run = run
        self._most = most
        self._lock = Lock()
        self._waiting: deque[_Ticket] = deque()
        self._led = False

    def submit(self, item: Item) -> Outcome:
        """Return the outcome of *item*, committed; raise what made it fail."""
        ticket = _Ticket(item)
        with self._lock:
            must_wait = self._led
            if must_wait:
                self._waiting.append(ticket)
            self._led = True
        if must_wait:
            ticket.turn.acquire()
        if ticket.result is None:
            self._lead(ticket)
        result = ticket.result
        if isinstance(result, Outcome):
            return result
        assert result is not None
        raise result

    def _lead(self, ticket: _Ticket) -> None:
        with self._lock:
            batch = [ticket]
            while self._waiting and _share(ticket.item, self._waiting[0].item, self._most - len(batch)):
                batch.append(self._waiting.popleft())
        try:
            results: Sequence[Result | BaseException] = self._outcomes([each.item for each in batch])
        except BaseException as raised:  # KeyboardInterrupt too: nobody must wait for ever.
            results = [raised] * len(batch)
        for each, result in zip(batch, results, strict=True):
            each.result = result
        with self._lock:
            heir = self._waiting.popleft() if self._waiting else None
            self._led = heir is not None
        if heir is not None:
            heir.turn.release()
        for each in batch[1:]:
            each.turn.release()

    def _outcomes(self, items: list[Item]) -> list[Result]:
        try:
            return self._run(items)
        except LedgerUnavailableError:
            raise
        except Exception:
            if len(items) == 1:
                raise
        # One of them fails the others: each by itself, then.
        return [_alone(self._run, item) for item in items]


def merged(count: int, done: Mapping[int, Outcome], others: Sequence[Result]) -> list[Result]:
    """Return the results of *count* items in order: those done by index, the rest from *others* in order."""
    rest = iter(others)
    return [done[index] if index in done else next(rest) for index in range(count)]


def _alone(run: Run, item: Item) -> Result:
    try:
        return run([item])[0]
    except Exception as raised:  # It is this call's own result.
        return raised


def _share(first: Item, other: Item, room: int) -> bool:
    """Return whether *other* may join the batch of *first*; the operator's own statements commit by themselves."""
    if room <= 0 or first.terms.within is not None or other.terms.within is not None:
        return False
    return first.terms.source == other.terms.source


class AsyncCommitQueue:
    """The same for tasks of one event loop: what arrives during a commit is committed together."""

    def __init__(self, run: AsyncRun, *, most: int = _MOST) -> None:
        self._run = run
        self._most = most
        self._waiting: deque[tuple[Item, asyncio.Future[Outcome]]] = deque()
        self._worker: asyncio.Task[None] | None = None

    async def submit(self, item: Item) -> Outcome:
        """Return the outcome of *item*, committed; raise what made it fail. Cancelled before its turn it never runs."""
        future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, future))
        if self._worker is None:
            self._worker = asyncio.create_task(self._work())
        return await future

    async def _work(self) -> None:
        try:
            while self._waiting:
                await self._commit_next()
        finally:
            self._worker = None

    async def _commit_next(self) -> None:
        batch = self._taken()
        if not batch:
            return
        try:
            results: Sequence[Result | BaseException] = await self._outcomes([item for item, _ in batch])
        except BaseException as raised:
            results = [raised] * len(batch)
            if not isinstance(raised, Exception):  # Cancelled with the loop: tell those who wait, then go.
                _answer(batch, [LedgerUnavailableError("the ledger was stopped")] * len(batch))
                raise
        _answer(batch, results)

    def _taken(self) -> list[tuple[Item, "asyncio.Future[Outcome]"]]:
        batch: list[tuple[Item, asyncio.Future[Outcome]]] = []
        while self._waiting:
            item, future = self._waiting[0]
            if not future.done() and batch and not _share(batch[0][0], item, self._most - len(batch)):
                break
            self._waiting.popleft()
            if not future.done():
                batch.append((item, future))
        return batch

    async def _outcomes(self, items: list[Item]) -> list[Result]:
        try:
            return await self._run(items)
        except LedgerUnavailableError:
            raise
        except Exception:
            if len(items) == 1:
                raise
        return [await self._alone(item) for item in items]

    async def _alone(self, item: Item) -> Result:
        try:
            return (await self._run([item]))[0]
        except Exception as raised:  # It is this call's own result.
            return raised


def _answer(batch: list[tuple[Item, "asyncio.Future[Outcome]"]], results: Sequence[Result | BaseException]) -> None:
    for (_, future), result in zip(batch, results, strict=True):
        if future.done():  # Its caller has given up; the call stands, and its repeat finds it.
            continue
        if isinstance(result, Outcome):
            future.set_result(result)
        else:
            future.set_exception(result)
