"""
What is due when: an agenda, and when a webhook is sent again that was not answered definitely.

The specification shows no retries (spec §6); the presets are the habits of services there are, from none at all to
endless (assumed, docs/decisions/0017).
"""

import heapq
from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Generic, TypeVar

from game_operator.errors import ConfigurationError, shown

_SECOND: Final = 1_000
_MINUTE: Final = 60 * _SECOND
_DAY: Final = 24 * 60 * _MINUTE


@dataclass(frozen=True, slots=True)
class RetryPreset:
    """
    The waits between one delivery of a call and the next.

    Attributes:
        name: What it is chosen by.
        title: What it does, for people.
        waits_millis: The first waits.
        then_millis: The wait after those, for ever; None gives up.
    """

    name: str
    title: str
    waits_millis: tuple[int, ...]
    then_millis: int | None

    def wait_millis(self, attempts: int) -> int | None:
        """Return how long to wait after *attempts* deliveries; None if there is no further one."""
        return self.waits_millis[attempts - 1] if attempts <= len(self.waits_millis) else self.then_millis


#: By name.
RETRY_PRESETS: Final = MappingProxyType(
    {
        preset.name: preset
        for preset in (
            RetryPreset("none", "never again", (), None),
            RetryPreset(
                "three", "3 times after 1, 2 and 4 s, then every 10 minutes", (_SECOND, 2 * _SECOND, 4 * _SECOND),
                10 * _MINUTE,
            ),
            RetryPreset("ten", "10 times, 1 s apart, then every 60 s", (_SECOND,) * 10, _MINUTE),
            RetryPreset(
                "exponential", "after 1, 2, 4 s and so on, up to every 24 h",
                tuple(_SECOND << doubled for doubled in range(17)), _DAY,
            ),
        )
    }
)  # fmt: skip
DEFAULT_RETRIES: Final = "three"


def retry_preset(name: str) -> RetryPreset:
    """Return the preset called *name*; raise ConfigurationError if there is none."""
    try:
        return RETRY_PRESETS[name]
    except KeyError:
        known = ", ".join(RETRY_PRESETS)
        raise ConfigurationError(f"There are no retries {shown(name)}. Pass one of {known}.") from None


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
