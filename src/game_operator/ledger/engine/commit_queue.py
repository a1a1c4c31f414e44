"""
Shared commits: calls that arrive while one commit is under way form the next batch.

A lone call goes straight through. In a batch each call succeeds or fails alone.

What telemetry sees of commits is here, too: a span for each, and the money and anomalies of its calls.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from threading import Lock, RLock
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from game_operator.errors import LedgerUnavailableError, UnknownSourceError
from game_operator.ledger.api import Outcome, Terms
from game_operator.ledger.engine.batch import Result
from game_operator.ledger.rules.book import UNKNOWN_SOURCE, Item, asks_operator, currency_named
from game_operator.ledger.steps import Answer, Steps, run, run_async
from game_operator.models.webhooks import BalanceCall, DepositCall, MovingCall, RollbackCall, WebhookCall, WithdrawCall

if TYPE_CHECKING:
    from game_operator.telemetry import Telemetry
    from game_operator.telemetry.instruments import Instruments
    from game_operator.telemetry.webhooks import CommitSpan

T = TypeVar("T")

_UNKNOWN = "unknown"
_MOST = 64
_Waiting: TypeAlias = "tuple[Item, asyncio.Future[Outcome]]"


class _Ticket:
    """A waiting call: woken when it is answered, or when it is its turn to lead a batch."""

    __slots__ = ("item", "leads", "result", "turn")

    def __init__(self, item: Item) -> None:
        self.item = item
        self.leads = False
        self.result: Result | None = None
        self.turn = Lock()
        self.turn.acquire()


class _Queue:
    """What the queues for threads and for tasks share: a batch, and each call by itself if it fails."""

    def __init__(self, run: Callable[[Sequence[Item]], Answer], *, most: int = _MOST) -> None:
        self._run = run
        self._most = most

    def _results(self, batch: list[Any], items: list[Item], behind: Callable[[], list[Any]]) -> Steps[Sequence[Result]]:
        """Return the result of each of *batch*, whose *items* they are; add those *behind* if no call can be made."""
        try:
            return (yield from self._outcomes(items))
        except LedgerUnavailableError as unavailable:
            # Those who have waited all the while would only wait as long again.
            batch += behind()
            return [unavailable] * len(batch)
        except Exception as raised:  # Each caller raises it.
            return [raised] * len(batch)

    def _outcomes(self, items: list[Item]) -> Steps[list[Result]]:
        try:
            return (yield partial(self._run, items))  # type: ignore[no-any-return]  # What the ledger returns.
        except LedgerUnavailableError:
            raise
        except Exception:  # One of them makes the others fail, so each is tried alone below.
            if len(items) == 1:
                raise
        results: list[Result] = []
        for item in items:
            try:
                results += yield partial(self._run, [item])
            except LedgerUnavailableError:  # For the others too.
                raise
            except Exception as raised:  # It is this call's own result.
                results.append(raised)
        return results


class CommitQueue(_Queue):
    """Lets one caller at a time commit, for itself and for those who wait."""

    def __init__(
        self, run: Callable[[Sequence[Item]], list[Result]], *, most: int = _MOST, longest_seconds: float = -1
    ) -> None:
        super().__init__(run, most=most)
        self._longest_seconds = longest_seconds
        self._lock = Lock()
        self._waiting: deque[_Ticket] = deque()
        self._led = False

    def submit(self, item: Item) -> Outcome:
        """Return the outcome of *item*, committed; raise what made it fail."""
        ticket = _Ticket(item)
        try:
            with self._lock:
                ticket.leads = not self._led
                self._led = True
                if not ticket.leads:
                    self._waiting.append(ticket)
            if not ticket.leads and not ticket.turn.acquire(timeout=self._longest_seconds):
                raise _waited_too_long()
            if ticket.result is None:
                self._lead(ticket)
        except BaseException:  # Ctrl-C, or the wait was too long: the others go on.
            with self._lock:
                if ticket in self._waiting:
                    self._waiting.remove(ticket)
            self._hand_on(ticket)
            raise
        result = ticket.result
        if isinstance(result, Outcome):
            return result
        assert result is not None
        raise result

    def _lead(self, ticket: _Ticket) -> None:
        batch = [ticket]
        try:
            with self._lock:
                while self._waiting and _share(ticket.item, self._waiting[0].item, self._most - len(batch)):
                    batch.append(self._waiting.popleft())
                behind = list(self._waiting)
            items = [each.item for each in batch]
            results = run(self._results(batch, items, lambda: self._withdrawn(behind)))
            for each, result in zip(batch, results, strict=True):
                each.result = result
        finally:  # Ctrl-C stops this thread alone: nobody must wait for ever.
            for each in batch[1:]:
                each.result = each.result or _stopped()
            self._hand_on(ticket)
            for each in batch[1:]:
                each.turn.release()

    def _withdrawn(self, behind: list[_Ticket]) -> list[_Ticket]:
        """Take those of *behind* that still wait out of the line."""
        with self._lock:
            gone = [each for each in behind if each in self._waiting]
            for each in gone:
                self._waiting.remove(each)
        return gone

    def _hand_on(self, ticket: _Ticket) -> None:
        """Let the next in line lead, if *ticket* did."""
        with self._lock:
            if not ticket.leads:
                return
            ticket.leads = False
            heir = self._waiting.popleft() if self._waiting else None
            self._led = heir is not None
            if heir is not None:
                heir.leads = True
                heir.turn.release()


class PatientLock:
    """
    A lock that its thread may take again.

    Raises:
        LedgerUnavailableError: On entering: for so many seconds another thread has not given it up.
    """

    __slots__ = ("_longest_seconds", "lock")

    def __init__(self, longest_seconds: float) -> None:
        self.lock: RLock = RLock()
        self._longest_seconds = longest_seconds

    def __enter__(self) -> None:
        if not self.lock.acquire(timeout=self._longest_seconds):
            raise _waited_too_long()

    def __exit__(self, *_exc: object) -> None:
        self.lock.release()


def _waited_too_long() -> LedgerUnavailableError:
    return LedgerUnavailableError(
        "The ledger's transaction under way does not end: perhaps its after or may_bet waits for another thread that "
        "uses the ledger. Repeat the call: it may be committed."
    )


def _stopped() -> LedgerUnavailableError:
    return LedgerUnavailableError(
        "The thread or task that committed this call with its own was stopped. Repeat the call: it may be committed."
    )


def _share(first: Item, other: Item, room: int) -> bool:
    """Return whether *other* may join the batch of *first*."""
    if room <= 0 or first.terms.source != other.terms.source:
        return False
    return not asks_operator(first.call, first.terms) and not asks_operator(other.call, other.terms)


class AsyncCommitQueue(_Queue):
    """
    The same for tasks of one event loop: what arrives during a commit is committed together.

    A lone call is committed in its caller's task. A worker commits as soon as a commit was shared, or others came
    during it: it begins after all callers that the last commit has woken, and takes them together.
    """

    def __init__(self, run: Callable[[Sequence[Item]], Awaitable[list[Result]]], *, most: int = _MOST) -> None:
        super().__init__(run, most=most)
        self._waiting: deque[_Waiting] = deque()
        self._under_way: tuple[Sequence[_Waiting], asyncio.Task[Any]] | None = None
        self._worker: asyncio.Task[None] | None = None
        self._has_leader = False
        self._is_crowded = False

    async def submit(self, item: Item) -> Outcome:
        """Return the outcome of *item*, committed; raise what made it fail. Cancelled before its turn it never runs."""
        is_idle = not self._has_leader and (self._worker is None or self._worker.done())
        if is_idle and not self._is_crowded and not self._waiting:
            return await self._lead(item)
        future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, future))
        if is_idle:
            self._begin()
        try:
            return await future
        except asyncio.CancelledError:
            self._give_up()
            raise

    def _give_up(self) -> None:
        """Cancel the commit under way if nobody waits for it any more."""
        if self._under_way is not None:
            batch, commit = self._under_way
            if _all_gone(batch):
                commit.cancel()

    async def _lead(self, item: Item) -> Outcome:
        """Commit *item* alone, in its caller's task; who comes meanwhile is left to a worker."""
        self._has_leader, self._worker = True, None
        try:
            (result,) = await self._run([item])
        except GeneratorExit:  # The loop was closed without an end of its tasks.
            self._waiting.clear()
            raise
        finally:
            self._has_leader = False
            if any(not future.done() for _, future in self._waiting):
                self._is_crowded = True
                self._begin()
        if isinstance(result, Outcome):
            return result
        raise result

    def _begin(self) -> None:
        worker = asyncio.create_task(self._work())
        # Cancelled with the loop, even before it begins, it leaves nobody waiting for ever.
        worker.add_done_callback(self._ended)
        self._worker = worker

    async def _work(self) -> None:
        while self._waiting:
            await self._commit_next()

    def _ended(self, worker: "asyncio.Task[None]") -> None:
        if worker is not self._worker:  # Another has taken over.
            return
        self._worker = None
        left, self._waiting = list(self._waiting), deque()
        _answer(left, [_stopped() for _ in left])

    async def _commit_next(self) -> None:
        batch: list[_Waiting] = []
        while self._waiting:
            item, future = self._waiting[0]
            if not future.done() and batch and not _share(batch[0][0], item, self._most - len(batch)):
                break
            self._waiting.popleft()
            if not future.done():
                batch.append((item, future))
        if not batch:
            return
        behind = len(self._waiting)
        work = self._results(
            batch, [item for item, _ in batch], lambda: [self._waiting.popleft() for _ in range(behind)]
        )
        commit = asyncio.create_task(run_async(work), context=batch[0][0].context)
        self._under_way = batch, commit
        try:
            results = await commit
        except asyncio.CancelledError:
            worker = asyncio.current_task()
            if _all_gone(batch) and worker is not None and not worker.cancelling():
                return  # Nobody waited any more, so the statement was cancelled.
            _answer(batch, [_stopped() for _ in batch])
            raise
        finally:
            self._under_way = None
        self._is_crowded = len(batch) > 1 or bool(self._waiting)
        _answer(batch, results)


def _all_gone(batch: Sequence[_Waiting]) -> bool:
    """Return whether all callers of *batch* have given up."""
    return all(future.cancelled() for _, future in batch)


def _answer(batch: Sequence[_Waiting], results: Sequence[Result]) -> None:
    for (_, future), result in zip(batch, results, strict=True):
        if future.done():  # Its caller has given up; the call stands, and its repeat finds it.
            continue
        if isinstance(result, Outcome):
            future.set_result(result)
        elif isinstance(result, StopIteration):  # No future takes one.
            future.set_exception(RuntimeError("the operator's callable raised StopIteration"))
        else:
            future.set_exception(result)


def observed_batch(
    run: Callable[[Sequence[Item]], list[Result] | Awaitable[list[Result]]],
    items: Sequence[Item],
    telemetry: "Telemetry",
    system: str,
) -> Steps[list[Result]]:
    """Let *run* commit a batch of calls, in the span of a commit; what it returns is awaited under asyncio."""
    span = _begun(telemetry, items, system)
    try:
        results: list[Result] = yield partial(run, items)
    except BaseException as failed:
        span.end(failed)
        raise
    return _ended(telemetry, span, items, results)


def observed_joined(
    work: Steps[Outcome], call: WebhookCall, terms: Terms, telemetry: "Telemetry", system: str
) -> Steps[Outcome]:
    """Do *work*, which applies a call in the operator's transaction and commits it, in the span of a commit."""
    item = Item(call, terms, waiting=telemetry.waiting_call())
    span = _begun(telemetry, [item], system)
    try:
        outcome = yield from work
    except BaseException as failed:
        if isinstance(failed, UnknownSourceError):
            _note_unknown_source(telemetry.instruments, call)
        span.end(failed)
        raise
    _ended(telemetry, span, [item], [outcome])
    return outcome


def note_moved(instruments: "Instruments", call: WebhookCall, terms: Terms, outcome: Outcome) -> None:
    """Let the money be counted that *call* moved, once that is committed."""
    if outcome.delta_cents and not isinstance(call, BalanceCall):
        # Asked now: the operator's function may look at what is current here.
        currency = currency_named(call, terms) or _UNKNOWN
        instruments.later(_count_moved, instruments, call, outcome.delta_cents, currency)


def _count_moved(instruments: "Instruments", call: MovingCall, cents: int, currency: str) -> None:
    if isinstance(call, WithdrawCall):
        instruments.wagered.add(-cents, currency, call.action)
    elif isinstance(call, DepositCall):
        instruments.won.add(cents, currency, call.action)
    else:
        instruments.refunded.add(cents, currency)


def _begun(telemetry: "Telemetry", items: Sequence[Item], system: str) -> "CommitSpan":
    return telemetry.commit([item.waiting for item in items if item.waiting is not None], system)


def _ended(telemetry: "Telemetry", span: "CommitSpan", items: Sequence[Item], results: list[T]) -> list[T]:
    instruments, problem, problems = telemetry.instruments, None, 0
    for item, result in zip(items, results, strict=True):
        if isinstance(result, Outcome):
            _note(instruments, item, result)
        elif isinstance(result, Exception):
            problem, problems = problem or result, problems + 1
            if isinstance(result, UnknownSourceError):
                _note_unknown_source(instruments, item.call)
    span.end(problem if problems == len(results) else None)
    return results


def _note_unknown_source(instruments: "Instruments", call: WebhookCall) -> None:
    if isinstance(call, DepositCall | RollbackCall):  # These are kept, because they may be owed.
        instruments.anomalies.add(1, UNKNOWN_SOURCE)


def _note(instruments: "Instruments", item: Item, outcome: Outcome) -> None:
    note_moved(instruments, item.call, item.terms, outcome)
    if outcome.anomaly:
        instruments.anomalies.add(1, outcome.anomaly)
    if outcome.replayed and item.waiting and item.waiting.webhook:
        item.waiting.webhook.repeats += (item.call,)
