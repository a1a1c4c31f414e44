"""What is due when: taken in the order of time, or by name, out of turn."""

import heapq
from collections.abc import Callable
from typing import Generic, TypeVar

__all__ = ["Agenda"]

T = TypeVar("T")


class Agenda(Generic[T]):
    """
    Things that are due at some time, the earliest first, and of one time in the order in which they were added.

    Args:
        name_of: What a thing is called; no two that wait have the same name.
    """

    def __init__(self, name_of: Callable[[T], str]) -> None:
        self._name_of = name_of
        self._heap: list[tuple[int, int, T]] = []
        self._added = 0
        #: By name, the number and the thing; made when something is first asked for by name, which few ever do.
        self._named: dict[str, tuple[int, T]] | None = None
        #: The numbers of those that were taken out of turn, and are in the heap still.
        self._gone: set[int] = set()

    def add(self, at_millis: int, thing: T) -> None:
        """Let *thing* be due."""
        self._added += 1
        heapq.heappush(self._heap, (at_millis, self._added, thing))
        if self._named is not None:
            self._named[self._name_of(thing)] = self._added, thing

    def first(self) -> tuple[int, T] | None:
        """Return when the earliest thing is due, and what it is; None if nothing is."""
        while self._heap and self._heap[0][1] in self._gone:
            self._gone.discard(heapq.heappop(self._heap)[1])
        return (self._heap[0][0], self._heap[0][2]) if self._heap else None

    def pop(self) -> tuple[int, T]:
        """Take and return what ``first`` returned."""
        at_millis, _, thing = heapq.heappop(self._heap)
        if self._named is not None:
            del self._named[self._name_of(thing)]
        return at_millis, thing

    def take(self, name: str) -> T | None:
        """Take and return the thing called *name*, whenever it is due, or None if there is none."""
        if self._named is None:
            self._named = {self._name_of(thing): (number, thing) for _, number, thing in self._heap}
        number, thing = self._named.pop(name, (0, None))
        if thing is not None:
            self._gone.add(number)
        return thing
