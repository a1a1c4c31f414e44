"""How long answers took: in buckets that widen as in 1, 2, 5, 10, and as an SVG chart inside a page."""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from math import ceil, log
from pathlib import Path
from typing import TYPE_CHECKING, Final

from game_operator.text import templates

if TYPE_CHECKING:
    from jinja2 import Template

#: Within the first an answer is quick; after the second the service may have given up. Both are assumed.
MARKS_MS: Final = (100, 500)
#: Upper limits of the buckets; both marks are among them, so that no bucket lies across one.
_LIMITS_MS: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000)

#: The same of the chart: three to each power of ten. A slower answer is counted in the last bucket.
_CHART_LIMITS_MS: Final = tuple(step * 10.0**power for power in range(-2, 5) for step in (1, 2, 5))
_FEWEST_BUCKETS: Final = 6
#: Edges in units of the drawing, one of which is about a pixel.
_FRAME: Final = {"width": 440, "height": 230, "right": 416, "top": 64, "floor": 190}
_LETTER: Final = 6.7


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
    return ordered[max(1, ceil(percent * len(ordered) / 100)) - 1] if ordered else 0.0


def latency_chart(
    samples_ms: Iterable[float], marks: Sequence[tuple[float, str]], story: str, *, with_counts: bool = False
) -> str:
    """
    Return how often an answer took how long, as SVG; the page's style sheet gives the colours by class.

    Args:
        samples_ms: The durations.
        marks: Durations with what is written at their lines.
        story: The same in words; the chart shows nothing else if there is no duration.
        with_counts: Whether each bar shows its number.
    """
    samples = list(samples_ms)
    shown = [_bucket(value) for value in (*samples, *(value for value, _ in marks))] if samples else [0]
    first, last = min(shown), max(shown)
    missing = max(0, _FEWEST_BUCKETS - (last - first + 1))
    first = max(0, first - missing // 2)
    last = min(len(_CHART_LIMITS_MS) - 1, max(last + missing - missing // 2, first + _FEWEST_BUCKETS - 1))
    counts = [0] * (last - first + 1)
    for value in samples:
        counts[_bucket(value) - first] += 1
    left = 24 + _LETTER * len(f"{max(counts):,}")
    step = (_FRAME["right"] - left) / len(counts)

    def place(value: float) -> float:
        index = min(max(_bucket(value), first), last)
        upper = _CHART_LIMITS_MS[index]
        lower = _CHART_LIMITS_MS[index - 1] if index else upper / 10
        return left + (index - first + min(log(max(value, lower) / lower) / log(upper / lower), 1.0)) * step

    bars = [
        (number, count, _kind(_CHART_LIMITS_MS[first + number]), _edge(first + number), _edge(first + number + 1))
        for number, count in enumerate(counts)
        if count
    ]
    edges = [(number, _edge(first + number)) for number in range(0, len(counts) + 1, ceil(len(counts) / 7))]
    lines = [(place(value), words, len(words) * _LETTER) for value, words in marks]
    return _template().render(
        _FRAME, story=story, most=max(counts), left=left, step=step, bars=bars, edges=edges, marks=lines,
        with_counts=with_counts,
    )  # fmt: skip


def coordinate(number: float) -> str:
    """Return a coordinate as it is written in a drawing: one decimal, and none if that is 0."""
    return f"{number:.1f}".removesuffix(".0")


@cache
def _template() -> "Template":
    environment = templates(Path(__file__).parent)
    environment.filters["n"] = coordinate
    return environment.get_template("latency_chart.svg")


def _bucket(value: float) -> int:
    return min(bisect_left(_CHART_LIMITS_MS, value), len(_CHART_LIMITS_MS) - 1)


def _kind(upper_ms: float) -> str:
    return "quick" if upper_ms <= MARKS_MS[0] else "slow" if upper_ms <= MARKS_MS[1] else "late"


def _edge(index: int) -> str:
    """Return the lower limit of the bucket *index*, as short as can be."""
    limit = _CHART_LIMITS_MS[index - 1] if index else 0
    return "0" if not index else f"{limit:g} ms" if limit < 1_000 else f"{limit / 1_000:g} s"
