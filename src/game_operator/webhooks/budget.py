"""
Running a handler's method within its time budget: here, in a thread, from an event loop, or awaited.

Each way returns what the method returned or, as a value, what it raised; ``OverBudget`` stands for a method that took
too long. Ctrl-C, ``sys.exit`` and a task's own cancellation pass through.
"""

import asyncio
import contextvars
import logging
import os
import time
import traceback
from collections.abc import Awaitable, Callable, Generator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from threading import Lock
from typing import Any, Final, Generic, TypeAlias, TypeVar

from game_operator.errors import one_line

_LOG = logging.getLogger("game_operator.webhooks")

T = TypeVar("T")

#: (seconds, method, arguments) to what came of it.
Runner: TypeAlias = Callable[..., object]
AsyncRunner: TypeAlias = Callable[..., Awaitable[object]]


@dataclass(frozen=True, slots=True)
class OverBudget:
    """The method took longer than its *seconds*; *how* says what became of it."""

    seconds: float
    how: str


class Begun(Generic[T]):
    """
    The rest of an awaitable whose first step has been made by hand, with ``next(awaitable.__await__())``.

    What ends in its first step needs no timer, and timers cost as much as reading a call.
    """

    __slots__ = ("_steps", "_waits_for")

    def __init__(self, steps: Generator[Any, Any, T], waits_for: Any) -> None:
        self._steps = steps
        self._waits_for = waits_for

    def __await__(self) -> Generator[Any, Any, T]:
        while True:
            try:
                yield self._waits_for
                break
            except BaseException as thrown:  # A cancellation, which belongs where the call waits.
                try:
                    self._waits_for = self._steps.throw(thrown)
                except StopIteration as end:
                    result: T = end.value
                    return result
        return (yield from self._steps)


class Budget:
    """Runs methods within so many seconds; at most *max_threads* of them at a time in threads."""

    def __init__(self, max_threads: int) -> None:
        self.max_threads: Final = max_threads
        self._pool: ThreadPoolExecutor | None = None
        self._pool_owner = 0
        self._making_pool = Lock()

    def here(self, seconds: float, method: Callable[..., object], *arguments: object) -> object:
        """Run in this thread, where nothing can be interrupted: too long is only found out afterwards."""
        started = time.perf_counter()
        try:
            result = method(*arguments)
        except (Exception, BaseExceptionGroup) as failed:  # Whatever it is, the caller gets a reply.
            if _holds(failed, KeyboardInterrupt, SystemExit):
                raise
            return failed
        late = time.perf_counter() - started > seconds
        return OverBudget(seconds, "it ended all the same") if late else result

    def in_thread(self, seconds: float, method: Callable[..., object], *arguments: object) -> object:
        """Run in one of the threads, and wait no longer than *seconds*."""
        future = self._submitted(method, arguments)
        try:
            return future.result(seconds)
        except TimeoutError:
            return self._abandoned(future, seconds, method)

    async def from_loop(self, seconds: float, method: Callable[..., object], *arguments: object) -> object:
        """Run in one of the threads, and await it no longer than *seconds*."""
        future = self._submitted(method, arguments)
        waiting = asyncio.wrap_future(future)
        try:
            done, _ = await asyncio.wait((waiting,), timeout=seconds)
        except asyncio.CancelledError:
            # Nobody waits any more: what has not begun never does, and what has begun is not interrupted.
            future.cancel()
            waiting.cancel()
            raise
        if done:
            return waiting.result()
        waiting.cancel()  # Else the thread would wake a loop that may be closed by then.
        return self._abandoned(future, seconds, method)

    async def awaited(self, seconds: float, method: Callable[..., Awaitable[object]], *arguments: object) -> object:
        """Await the method, and cancel it after *seconds*."""
        limit: asyncio.Timeout | None = None
        try:
            steps = method(*arguments).__await__()
            try:
                waits_for = next(steps)
            except StopIteration as end:
                return end.value
            async with asyncio.timeout(seconds) as limit:
                result = await Begun(steps, waits_for)
            # A handler may catch its cancellation and go on.
            return OverBudget(seconds, "it ended all the same") if limit.expired() else result
        except asyncio.CancelledError as cancelled:
            if _is_being_cancelled():
                raise
            return cancelled  # Something the handler awaited was cancelled, and not this call.
        except (Exception, BaseExceptionGroup) as failed:  # Whatever it is, the caller gets a reply.
            if _holds(failed, KeyboardInterrupt, SystemExit):
                raise
            if _is_being_cancelled() and _holds(failed, asyncio.CancelledError):
                raise asyncio.CancelledError from failed  # The task's own, put into a group on its way.
            is_late = isinstance(failed, TimeoutError) and limit is not None and limit.expired()
            return OverBudget(seconds, "it was cancelled") if is_late else failed

    def _submitted(self, method: Callable[..., object], arguments: tuple[object, ...]) -> "Future[object]":
        with self._making_pool:
            # Threads do not survive a fork: where a server forks its workers, each has its own pool.
            if self._pool is None or self._pool_owner != os.getpid():
                self._pool = ThreadPoolExecutor(self.max_threads, thread_name_prefix="game-operator-webhook")
                self._pool_owner = os.getpid()
            pool = self._pool
        try:
            return pool.submit(contextvars.copy_context().run, _caught, method, arguments)
        except RuntimeError as closing:  # The interpreter is on its way out and starts no thread.
            failed: Future[object] = Future()
            failed.set_result(closing)
            return failed

    def _abandoned(self, future: "Future[object]", seconds: float, method: Callable[..., object]) -> OverBudget:
        if future.cancel():
            return OverBudget(seconds, f"it never began: all {self.max_threads} threads were busy")
        name, since = getattr(method, "__name__", "call"), time.perf_counter()

        def ended(future: "Future[object]") -> None:
            result, later = future.result(), time.perf_counter() - since
            extra = {"event": "webhook.ended_late", "operation": name.replace("_", "-"), "elapsed_seconds": later}
            if isinstance(result, BaseException):
                what = f"a {name} that was answered SYSTEM_ERROR failed {later:.1f} s after that"
                log_failure(_LOG, what, result, extra)
            else:
                _LOG.error("a %s that was answered SYSTEM_ERROR ended %.1f s after that", name, later, extra=extra)

        future.add_done_callback(ended)
        return OverBudget(seconds, "it runs on in its thread")


def _is_being_cancelled() -> bool:
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


def _holds(error: BaseException, *kinds: type[BaseException]) -> bool:
    return isinstance(error, BaseExceptionGroup) and error.subgroup(kinds) is not None


def _caught(method: Callable[..., object], arguments: tuple[object, ...]) -> object:
    try:
        return method(*arguments)
    except BaseException as failed:
        return failed


def log_failure(log: logging.Logger, what: str, failed: BaseException, extra: Mapping[str, object]) -> None:
    """
    Log that *what* came of *failed*, as an error with its traceback and the fields of *extra*.

    A message with line breaks in it, such as a database's that quotes an id, is escaped line by line: as it stands it
    could pass for lines of the log.
    """
    if all(map(_is_plain, _chain(failed))):
        log.error("%s", what, exc_info=failed, extra=extra)
        return
    try:
        parts = traceback.format_exception(failed)
    except Exception:  # Such as a text that no traceback can show.
        parts = [f"{type(failed).__name__}, of which no traceback can be made"]
    lines = [line for part in parts for line in part.splitlines()]
    log.error("%s\n%s", what, "\n".join(f"  | {one_line(line)}" for line in lines), extra=extra)


def _is_plain(error: BaseException) -> bool:
    try:
        notes = getattr(error, "__notes__", ())
        return all(text.isprintable() for text in (str(error), *notes))
    except Exception:  # The traceback module survives an error whose own text fails.
        return False


def _chain(error: BaseException) -> list[BaseException]:
    chain = [error]
    for link in chain:  # Which grows meanwhile.
        members = link.exceptions if isinstance(link, BaseExceptionGroup) else ()
        for each in (link.__cause__, link.__context__, *members):
            if each is not None and all(each is not known for known in chain):
                chain.append(each)
    return chain
