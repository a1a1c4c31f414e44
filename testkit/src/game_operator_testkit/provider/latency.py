"""How long answers took: percentiles, and an SVG chart inside a page."""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from functools import cache
from math import ceil, log
from pathlib import Path
from typing import TYPE_CHECKING, Final

from game_operator.text import templates

if TYPE_CHECKING:
    from jinja2 import Template

#: Within the first an answer is quick; after the second the service may have given up. Both are assumed.
MARKS_MS: Final = (100, 500)
#: Upper limits of the bars: three to each power of ten. A slower answer is counted in the last one.
_LIMITS_MS: Final = tuple(step * 10.0**power for power in range(-2, 5) for step in (1, 2, 5))
_FEWEST_BUCKETS: Final = 6
#: Edges in units of the drawing, one of which is about a pixel.
_FRAME: Final = {"width": 440, "height": 230, "right": 416, "top": 64, "floor": 190}
_LETTER: Final = 6.7


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
    last = min(len(_LIMITS_MS) - 1, max(last + missing - missing // 2, first + _FEWEST_BUCKETS - 1))
    counts = [0] * (last - first + 1)
    for value in samples:
        counts[_bucket(value) - first] += 1
    left = 24 + _LETTER * len(f"{max(counts):,}")
    step = (_FRAME["right"] - left) / len(counts)

    def place(value: float) -> float:
        index = min(max(_bucket(value), first), last)
        upper = _LIMITS_MS[index]
        lower = _LIMITS_MS[index - 1] if index else upper / 10
        return left + (index - first + min(log(max(value, lower) / lower) / log(upper / lower), 1.0)) * step

    bars = [
        (number, count, _kind(_LIMITS_MS[first + number]), _edge(first + number), _edge(first + number + 1))
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
    return min(bisect_left(_LIMITS_MS, value), len(_LIMITS_MS) - 1)


def _kind(upper_ms: float) -> str:
    return "quick" if upper_ms <= MARKS_MS[0] else "slow" if upper_ms <= MARKS_MS[1] else "late"


def _edge(index: int) -> str:
    """Return the lower limit of the bucket *index*, as short as can be."""
    limit = _LIMITS_MS[index - 1] if index else 0
    return "0" if not index else f"{limit:g} ms" if limit < 1_000 else f"{limit / 1_000:g} s"
