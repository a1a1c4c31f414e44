"""The exchanges of one scenario: all that can be remembered of them."""

from collections import deque
from dataclasses import dataclass, field

from game_operator.certify.report.verdicts import Exchange

__all__ = ["Record"]

#: So many are kept from its beginning and from its end.
_FIRST, _LAST = 40, 120


@dataclass(slots=True)
class Record:
    """Keeps the first exchanges and the last ones, each with its place among all of them."""

    seen: int = 0
    first: list[tuple[int, Exchange]] = field(default_factory=list)
    last: deque[tuple[int, Exchange]] = field(default_factory=lambda: deque(maxlen=_LAST))

    def keep(self, exchange: Exchange) -> int:
        """Keep *exchange* and return its place."""
        place, self.seen = self.seen, self.seen + 1
        (self.first if place < _FIRST else self.last).append((place, exchange))
        return place

    def kept(self) -> list[tuple[int, Exchange]]:
        """Return what is kept, in order."""
        return [*self.first, *self.last]
