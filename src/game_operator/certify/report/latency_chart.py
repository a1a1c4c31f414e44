"""
How long the wallet took, drawn as SVG into the page: a bar for each bucket, and both marks.

Colours come from the style sheet by class, so that they follow light and dark; what is late is also told by its place
beyond a mark, and by words.
"""

from collections.abc import Sequence
from html import escape
from typing import Final

from game_operator.certify.report.report import Latency
from game_operator.provider.histogram import MARKS_MS, Bucket, above, histogram
from game_operator.provider.text import duration

__all__ = ["latency_chart"]

#: In units of the drawing, one of which is about a pixel.
_WIDTH: Final = 460
_HEIGHT: Final = 236
_LEFT: Final = 12
_RIGHT: Final = 24
_TOP: Final = 48
_BOTTOM: Final = 42
_SECOND_MS: Final = 1_000
_MANY: Final = 10_000


def latency_chart(latency: Latency) -> str:
    """Return how many answers took how long; empty buckets at both ends are left out, but never a mark."""
    buckets = _worth_showing(histogram(latency.samples_ms))
    bars = "".join(_bar(place, bucket, buckets) for place, bucket in enumerate(buckets))
    edges = "".join(_edge(place, bucket, buckets) for place, bucket in enumerate(buckets))
    marks = "".join(_mark(row, mark, buckets) for row, mark in enumerate(MARKS_MS))
    base = f'<line class="axis" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{_floor()}" y2="{_floor()}"/>'
    across = _text((_LEFT + _WIDTH - _RIGHT) / 2, _HEIGHT - 6, "time to the answer", "label", "middle")
    return f"{_head(latency)}{bars}{base}{edges}{marks}{across}</svg>"


def _worth_showing(buckets: Sequence[Bucket]) -> Sequence[Bucket]:
    shown = [place for place, bucket in enumerate(buckets) if bucket.count or bucket.from_ms in MARKS_MS]
    return buckets[max(0, min(shown) - 1) : max(shown) + 1]


def _head(latency: Latency) -> str:
    late = ", ".join(f"{above(latency.samples_ms, mark):,} took longer than {mark} ms" for mark in MARKS_MS)
    story = f"{len(latency.samples_ms):,} answers; half within {duration(latency.percentile_ms(50))}; {late}."
    return f'<svg class="chart" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="Latency. {escape(story)}">'


def _bar(place: int, bucket: Bucket, buckets: Sequence[Bucket]) -> str:
    if not bucket.count:
        return ""
    most = max(each.count for each in buckets)
    # A single answer among thousands is still to be seen.
    height = max((_floor() - _TOP - 16) * bucket.count / most, 2.0)
    top, width = _floor() - height, _step(buckets)
    kind = "late" if bucket.from_ms >= MARKS_MS[1] else "slow" if bucket.from_ms >= MARKS_MS[0] else "quick"
    left = _LEFT + place * width
    return (
        f'<rect class="{kind}" x="{_n(left + 1)}" y="{_n(top)}" width="{_n(width - 2)}" height="{_n(height)}" rx="2"/>'
        f"{_text(left + width / 2, top - 4, _count(bucket.count), 'count', 'middle')}"
    )


def _edge(place: int, bucket: Bucket, buckets: Sequence[Bucket]) -> str:
    return _text(_LEFT + place * _step(buckets), _floor() + 16, _limit(bucket.from_ms), "label", "middle")


def _mark(row: int, mark: int, buckets: Sequence[Bucket]) -> str:
    x = _n(_LEFT + _step(buckets) * next(place for place, each in enumerate(buckets) if each.from_ms == mark))
    # To the left of their lines, one below the other: the second line is near the right edge if nothing was late.
    top = 14 + row * 18
    line = f'<line class="mark" x1="{x}" x2="{x}" y1="{top - 11}" y2="{_floor()}"/>'
    return line + _text(float(x) - 5, top, f"within {mark} ms", "said", "end")


def _step(buckets: Sequence[Bucket]) -> float:
    return (_WIDTH - _LEFT - _RIGHT) / len(buckets)


def _floor() -> int:
    return _HEIGHT - _BOTTOM


def _limit(limit_ms: int) -> str:
    return f"{limit_ms // _SECOND_MS} s" if limit_ms >= _SECOND_MS else str(limit_ms)


def _count(count: int) -> str:
    return f"{count:,}" if count < _MANY else f"{count // 1_000}k"


def _text(x: float, y: float, words: str, kind: str, anchor: str) -> str:
    return f'<text class="{kind}" x="{_n(x)}" y="{_n(y)}" text-anchor="{anchor}">{escape(words)}</text>'


def _n(number: float) -> str:
    return f"{number:.1f}".removesuffix(".0")
