"""Brings what a certification awaits, which runs in a thread, to the event loop of an async test."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from threading import Lock
from typing import Any

__all__ = ["TestLoop"]


class _AbandonedError(BaseException):
    """Ends a certification that nobody waits for any more; no ``except Exception`` of a wallet's may stop it."""


class TestLoop:
    """
    The event loop of a test, where connections of the wallet under test belong.

    Args:
        loop: The one that runs in the test's thread.
    """

    #: For pytest, which would take the name for a test's.
    __test__ = False

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._lock = Lock()
        self._under_way: set[Future[Any]] = set()
        self._is_abandoned = False

    def awaiting(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return *function* for other threads than the loop's: what is to be awaited is awaited on the loop."""

        def called(*arguments: Any) -> Any:
            answer = function(*arguments)
            return self._awaited(answer) if inspect.isawaitable(answer) else answer

        return called

    def abandon(self) -> None:
        """End what is under way, and let nothing more begin."""
        with self._lock:
            self._is_abandoned = True
            under_way = list(self._under_way)
        for future in under_way:
            future.cancel()

    def _awaited(self, answer: Awaitable[Any]) -> Any:
        coroutine = _result_of(answer)
        with self._lock:
            if self._is_abandoned:
                for each in (coroutine, answer):
                    if inspect.iscoroutine(each):
                        each.close()
                raise _AbandonedError
            future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
            self._under_way.add(future)
        try:
            return future.result()
        finally:
            with self._lock:
                self._under_way.discard(future)


async def _result_of(answer: Awaitable[Any]) -> Any:
    return await answer
