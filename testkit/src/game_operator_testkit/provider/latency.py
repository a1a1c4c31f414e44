"""How long answers took, and how long is too long."""

from collections.abc import Iterable, Sequence
from math import ceil
from typing import Final

#: Within the first an answer is quick; after the second the service may have given up. Both are assumed.
MARKS_MS: Final = (100, 500)


def above(samples_ms: Iterable[float], mark_ms: int) -> int:
    """Return how many took longer than *mark_ms*."""
    return sum(sample > mark_ms for sample in samples_ms)


def percentile(ordered: Sequence[float], percent: float) -> float:
    """Return the smallest value of *ordered* that *percent* per cent do not exceed (nearest rank); 0.0 if empty."""
    return ordered[max(1, ceil(percent * len(ordered) / 100)) - 1] if ordered else 0.0
