"""Time limits of many tasks on one timer: a timer of its own for each costs a call as much as reading it."""

import asyncio
from bisect import insort
from collections import deque

__all__ = ["Deadline", "Deadlines"]


class Deadline:
    """When a task is cancelled, unless ``left`` comes first."""

    __slots__ = ("_cancelling", "_task", "at", "expired", "is_over")

    def __init__(self, task: "asyncio.Task[object]", at: float) -> None:
        self._task = task
        self._cancelling = task.cancelling()
        self.at = at
        self.expired = False
        self.is_over = False

    def expire(self) -> None:
        """Cancel the task."""
        self.expired = True
        self._task.cancel()

    def left(self) -> bool:
        """End it; return whether our cancellation, if there was one, is the only one that the task has met."""
        self.is_over = True
        return self.expired and self._task.uncancel() <= self._cancelling


class Deadlines:
    """Those of one event loop, the next first."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._waiting: deque[Deadline] = deque()
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, task: "asyncio.Task[object]", seconds: float) -> Deadline:
        """Begin a deadline that cancels *task* in so many seconds."""
        waiting = self._waiting
        while waiting and waiting[0].is_over:
            waiting.popleft()
        deadline = Deadline(task, self.loop.time() + seconds)
        if waiting and deadline.at < waiting[-1].at:  # Rare: almost all have the same seconds.
            insort(waiting, deadline, key=lambda each: each.at)
        else:
            waiting.append(deadline)
        if self._timer is None or deadline.at < self._timer.when():
            self._set_timer()
        return deadline

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self.loop.call_at(self._waiting[0].at, self._expire)

    def _expire(self) -> None:
        self._timer = None
        waiting, now = self._waiting, self.loop.time()
        while waiting and (waiting[0].is_over or waiting[0].at <= now):
            deadline = waiting.popleft()
            if not deadline.is_over:
                deadline.expire()
        if waiting:
            self._set_timer()
