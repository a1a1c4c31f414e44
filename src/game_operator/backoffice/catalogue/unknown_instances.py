"""
What a call for an unknown instance causes: one refresh for all who ask, now and then, and never a long wait.

An instance may be new, so its first call must not be refused for good on the word of an old list. The answer is final
once a list that was asked for later does not have it either.
"""

import asyncio
import logging
import math
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

_LOG = logging.getLogger("game_operator.backoffice")
#: Ids are remembered for as long as nobody asks for so many others. A forgotten one is looked for again.
_MOST_REMEMBERED: Final = 10_000
#: After a look that failed the next one may follow so soon.
_PAUSE_SECONDS: Final = 1.0
#: How long a list answers for an instance that it lacks. With a shorter time, a call that is repeated after seconds
#: would find its answer too old each time.
_LEAST_ANSWER_SECONDS: Final = 60.0


class _Look(threading.Event):
    """A look under way, set when it has ended; *began* is the clock's time."""

    def __init__(self, began: float) -> None:
        super().__init__()
        self.began = began


class UnknownInstances:
    """
    Looks for unknown instances.

    Args:
        refresh: Asks the service; returns whether its answer was applied. What it raises is a failed look.
        clock: The time in seconds; it never goes back.
        min_refresh_seconds: How far apart looks are; after a failed one a second at most.
        wait_seconds: For how long of a look threads wait for it; one that comes later waits no more, so that a batch
            of many unknown instances waits once. An event loop never waits.
    """

    def __init__(
        self,
        refresh: Callable[[], bool],
        clock: Callable[[], float],
        *,
        min_refresh_seconds: float,
        wait_seconds: float,
    ) -> None:
        self._refresh, self._clock = refresh, clock
        self._min_refresh_seconds, self._wait_seconds = min_refresh_seconds, wait_seconds
        self._answer_seconds = max(min_refresh_seconds, _LEAST_ANSWER_SECONDS)
        self._asked: OrderedDict[str, float] = OrderedDict()
        self._not_before = -math.inf
        self.start_afresh()

    def start_afresh(self) -> None:
        """Begin anew with locks and threads, as a child must after a fork: those of the parent are not its own."""
        self._lock = threading.Lock()
        self._under_way: _Look | None = None
        self._looked_at = -math.inf

    def looked(self, began: float) -> None:
        """Take note that a list that was asked for at *began* was applied."""
        with self._lock:
            self._looked_at = began

    def is_settled(self, instance_id: str) -> bool:
        """Look for *instance_id*; return whether the answer is final: a list that was asked for since is applied."""
        if self._is_settled(instance_id):
            return True
        look = self._begin()
        if look is not None and _may_wait():
            look.wait(max(0.0, look.began + self._wait_seconds - self._clock()))
        return self._is_settled(instance_id)

    def _is_settled(self, instance_id: str) -> bool:
        with self._lock:
            now = self._clock()
            asked = self._asked.setdefault(instance_id, now)
            if len(self._asked) > _MOST_REMEMBERED:
                self._asked.popitem(last=False)
            if self._looked_at < asked:
                return False
            if now - self._looked_at < self._answer_seconds:
                return True
            self._asked[instance_id] = now  # The list is old by now: it may be a new instance.
            return False

    def _begin(self) -> _Look | None:
        """Return the look under way, which begins now if none is; None if it must not."""
        with self._lock:
            began = self._clock()
            if self._under_way is None and began >= self._not_before:
                look = _Look(began)
                thread = threading.Thread(target=self._look, args=(look,), name="game-operator-catalogue", daemon=True)
                try:
                    thread.start()
                except RuntimeError:  # No thread can be started, as while the interpreter ends.
                    return None
                self._under_way = look
            return self._under_way

    def _look(self, look: _Look) -> None:
        is_answered = False
        try:
            is_answered = self._refresh()
        except Exception as failed:
            text = "the games could not be fetched, which a call for an unknown instance asked for: %s"
            _LOG.warning(text, failed, extra={"event": "catalogue.fetch_failed"})
        finally:
            with self._lock:
                pause = self._min_refresh_seconds if is_answered else min(_PAUSE_SECONDS, self._min_refresh_seconds)
                self._not_before = look.began + pause
                if self._under_way is look:
                    self._under_way = None
            look.set()


def _may_wait() -> bool:
    """Return whether this thread runs no event loop: all that a loop serves would wait."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return True
    return False
