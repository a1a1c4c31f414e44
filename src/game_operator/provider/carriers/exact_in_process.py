"""Carries parcels to a wallet in this process, without sockets: a function of path, headers and body."""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeAlias

from game_operator.protocol.http import HttpResponse
from game_operator.provider.carriers.carrier import Carried, Parcel
from game_operator.provider.requests import Manner

__all__ = ["Deliver", "InProcessCarrier"]

#: Takes path, headers and body, and returns the answer, or an awaitable of it. Any: it is one of the two.
Deliver: TypeAlias = Callable[[str, Mapping[str, str], bytes], Any]

_THREADS: Final = 16


class InProcessCarrier:
    """
    Carries parcels to *wallet*.

    Calls at once run in as many threads, or in one event loop if the wallet is async. A call that never ends is not
    ended here. A connection that is cut is played: the wallet is called, and its answer dropped.

    Args:
        wallet: Takes path, headers and body, and returns an ``HttpResponse``, or an awaitable of one.
        second: Another wallet on the same database.
    """

    on_wire = False

    def __init__(self, wallet: Deliver, second: Deliver | None = None) -> None:
        self._wallets = {"wallet": wallet, "elsewhere": wallet, "second": second or wallet}
        # Known from the first answer on, and the first request of a run is alone.
        self._is_async = False
        self._runner: asyncio.Runner | None = None
        self._threads: ThreadPoolExecutor | None = None

    def carry(self, parcels: Sequence[Parcel]) -> list[Carried]:
        """Carry *parcels*, all at once if there are several."""
        if len(parcels) == 1:
            return [self._one(parcels[0])]
        if self._is_async:
            answers: list[Carried] = self._awaited(_gathered([self._one_awaited(parcel) for parcel in parcels]))
            return answers
        self._threads = self._threads or ThreadPoolExecutor(_THREADS, thread_name_prefix="certify")
        return list(self._threads.map(self._one, parcels))

    def close(self) -> None:
        """End the threads and the event loop, if there are any."""
        if self._threads is not None:
            self._threads.shutdown()
        if self._runner is not None:
            self._runner.close()

    def _one(self, parcel: Parcel) -> Carried:
        began = time.perf_counter()
        try:
            answer = self._delivered(parcel)
            if inspect.isawaitable(answer):
                self._is_async = True
                answer = self._awaited(_result_of(answer))
        except (Exception, asyncio.CancelledError) as failed:  # What the wallet raises is its answer.
            return _raised(failed, time.perf_counter() - began)
        return _carried(parcel, answer, time.perf_counter() - began)

    async def _one_awaited(self, parcel: Parcel) -> Carried:
        began = time.perf_counter()
        try:
            answer = await self._delivered(parcel)
        except (Exception, asyncio.CancelledError) as failed:  # See above.
            return _raised(failed, time.perf_counter() - began)
        return _carried(parcel, answer, time.perf_counter() - began)

    def _delivered(self, parcel: Parcel) -> Any:
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in parcel.headers}
        return self._wallets[parcel.request.at](parcel.request.path, headers, parcel.request.body)

    def _awaited(self, coroutine: Any) -> Any:
        # One loop for all, for a wallet's connections belong to the loop that opened them.
        self._runner = self._runner or asyncio.Runner()
        return self._runner.run(coroutine)


def _carried(parcel: Parcel, answer: Any, seconds: float) -> Carried:
    problem = _problem_of(answer)
    if problem:
        return Carried(None, problem, seconds)
    if parcel.request.manner is Manner.CUT:
        return Carried(None, "the answer was dropped, on purpose", seconds)
    return Carried(answer, answer.defect, seconds)


def _problem_of(answer: Any) -> str:
    """Return why *answer* is none, or ""."""
    if not isinstance(answer, HttpResponse) or type(answer.status) is not int or not isinstance(answer.body, bytes):
        return f"the wallet returned {type(answer).__name__}, and no HttpResponse with an int and bytes"
    if not all(isinstance(text, bytes) for pair in answer.headers for text in pair):
        return "the wallet returned headers that are no pairs of bytes"
    return ""


def _raised(failed: BaseException, seconds: float) -> Carried:
    try:
        told = str(failed)
    except Exception:  # An error of the wallet's own class can fail at its own words.
        told = "…"
    return Carried(None, f"the wallet raised {type(failed).__name__}: {told}", seconds)


async def _gathered(coroutines: list[Coroutine[Any, Any, Carried]]) -> list[Carried]:
    return await asyncio.gather(*coroutines)


async def _result_of(answer: Awaitable[Any]) -> Any:
    return await answer
