"""How many answers took how long, in buckets that widen as in 1, 2, 5, 10."""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

__all__ = ["MARKS_MS", "Bucket", "above", "histogram", "percentile"]

#: Within the first an answer is quick; after the second the service may have given up. Both are assumed.
MARKS_MS: Final = (100, 500)
#: Upper limits of the buckets; both marks are among them, so that no bucket lies across one.
_LIMITS_MS: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000)


@dataclass(frozen=True, slots=True)
class Bucket:
    """*count* answers took more than *from_ms* and at most *to_ms*; the last bucket has no end, and None there."""

    from_ms: int
    to_ms: int | None
    count: int


def histogram(samples_ms: Iterable[float]) -> tuple[Bucket, ...]:
    """Return all buckets, empty ones too: a reader need not know their limits."""
    counts = [0] * (len(_LIMITS_MS) + 1)
    for sample in samples_ms:
        counts[bisect_left(_LIMITS_MS, sample)] += 1
    edges = (0, *_LIMITS_MS, None)
    return tuple(Bucket(edges[place] or 0, edges[place + 1], count) for place, count in enumerate(counts))


def above(samples_ms: Iterable[float], mark_ms: int) -> int:
    """Return how many took longer than *mark_ms*."""
    return sum(sample > mark_ms for sample in samples_ms)


def percentile(ordered: Sequence[float], percent: float) -> float:
    """Return the smallest value of *ordered* that *percent* per cent do not exceed (nearest rank); 0.0 if empty."""
    return ordered[max(0, -(-int(percent * len(ordered)) // 100) - 1)] if ordered else 0.0
