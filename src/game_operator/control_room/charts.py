"""
Charts as SVG, drawn into the page: balances over time, and how long the wallet took to answer.

Colours come from the style sheet by class, so that they follow light and dark; what is red is also marked by its shape
and by words. Money is whole cents up to the label; only coordinates are fractions.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from math import ceil, log
from typing import Final

from game_operator.control_room.words import clock_time, day_and_time, latency, money
from game_operator.sandbox.dealing.balances import ToldBalance

__all__ = ["balance_chart", "latency_chart", "percentile"]

#: In units of the drawing, one of which is about a pixel.
_WIDTH: Final = 440
_HEIGHT: Final = 230
_TOP: Final = 30
_RIGHT: Final = 24
_BOTTOM: Final = 40
_LETTER: Final = 6.7
#: With more balances than these, only the wrong ones are marked, and of those not more than these.
_MOST_DOTS: Final = 80
_TICKS: Final = 5
#: Around a balance that never changes.
_FLAT_STEP_CENTS: Final = 100
#: Further right it would not fit beside long amounts.
_LEGEND_LEFT: Final = 80
_DAY_MILLIS: Final = 86_400_000


@dataclass(frozen=True, slots=True)
class _Scale:
    """Where values lie: *least* at *start* and *most* at *stop*; if both are equal, in the middle."""

    least: int
    most: int
    start: float
    stop: float

    def __call__(self, value: int) -> float:
        share = (value - self.least) / (self.most - self.least) if self.most > self.least else 0.5
        return self.start + share * (self.stop - self.start)


def balance_chart(points: Sequence[ToldBalance], *, player_id: str) -> str:
    """
    Return the balances told of a player beside what they should be, oldest first.

    Where they differ, the stretch is red and broken, the balance is marked with a cross, and the first and the last
    difference are written out.
    """
    wrong = [point for point in points if not point.agrees]
    head = _head(f"Balance of {player_id}", _story(points, wrong))
    if not points:
        return f"{head}{_note('No balance has been told yet.')}</svg>"
    ticks = _money_ticks(points)
    left = 12 + _LETTER * max(len(money(tick)) for tick in ticks)
    x = _Scale(points[0].at_millis, max(point.at_millis for point in points), left, _WIDTH - _RIGHT)
    y = _Scale(ticks[0], ticks[-1], _HEIGHT - _BOTTOM, _TOP)
    return "".join(
        (
            head,
            _money_axis(ticks, y, left),
            _time_axis(x),
            _expected_line(points, x, y),
            _told_line(points, x, y),
            _dots(points, x, y),
            _differences(wrong, x, y),
            _legend(min(left, _LEGEND_LEFT), has_wrong=bool(wrong)),
            "</svg>",
        )
    )


def _story(points: Sequence[ToldBalance], wrong: Sequence[ToldBalance]) -> str:
    if not points:
        return "No balance has been told yet."
    if len(points) == 1:
        told = f"1 balance told, {money(points[0].told_cents)}"
    else:
        told = f"{len(points)} balances told, from {money(points[0].told_cents)} to {money(points[-1].told_cents)}"
    if not wrong:
        return f"{told}. None disagrees with what it should be."
    first = wrong[0]
    they = (
        "1 disagrees with what it should be" if len(wrong) == 1 else f"{len(wrong)} disagree with what they should be"
    )
    return (
        f"{told}. {they}, first at {day_and_time(first.at_millis)} UTC: "
        f"{money(first.told_cents)} instead of {money(first.expected_cents or 0)}."
    )


def _money_ticks(points: Sequence[ToldBalance]) -> list[int]:
    """Return round amounts of cents that reach from the least to the most there is to show."""
    values = [point.told_cents for point in points]
    values += [point.expected_cents for point in points if point.expected_cents is not None]
    least, most = min(values), max(values)
    step = _round_step(most - least) if most > least else _FLAT_STEP_CENTS
    first = least // step * step - (step if least == most else 0)
    # Without room on top a line along the highest value would lie on the frame.
    last = -(-most // step) * step + (step if least == most or most % step == 0 else 0)
    return list(range(first, last + 1, step))


def _round_step(span: int) -> int:
    """Return 1, 2 or 5 times a power of ten, of which about five make up *span* cents."""
    power: int = 10 ** max(len(str(span)) - 2, 0)
    return next(step * power for step in (1, 2, 5, 10, 20, 50) if step * power * _TICKS >= span)


def _money_axis(ticks: Sequence[int], y: _Scale, left: float) -> str:
    lines = (
        _grid(left, y(tick)) + _text(left - 8, y(tick) + 4, money(tick), "chart-label", anchor="end") for tick in ticks
    )
    return "".join(lines)


def _time_axis(x: _Scale) -> str:
    if x.most == x.least:
        labels = _text(x(x.least), _HEIGHT - _BOTTOM + 18, clock_time(x.least), "chart-label", anchor="middle")
    else:
        written = day_and_time if x.most - x.least >= _DAY_MILLIS else clock_time
        labels = _text(x.start, _HEIGHT - _BOTTOM + 18, written(x.least), "chart-label") + _text(
            x.stop, _HEIGHT - _BOTTOM + 18, written(x.most), "chart-label", anchor="end"
        )
    return labels + _text((x.start + x.stop) / 2, _HEIGHT - 6, "time (UTC)", "chart-axis", anchor="middle")


def _expected_line(points: Sequence[ToldBalance], x: _Scale, y: _Scale) -> str:
    expected = [(x(point.at_millis), y(point.expected_cents)) for point in points if point.expected_cents is not None]
    return f'<path class="chart-expected" d="{_steps(expected)}"/>' if expected else ""


def _told_line(points: Sequence[ToldBalance], x: _Scale, y: _Scale) -> str:
    if len(points) == 1:
        return ""
    stretches: list[tuple[bool, list[tuple[float, float]]]] = []
    for one, other in pairwise(points):
        place = (x(other.at_millis), y(other.told_cents))
        if stretches and stretches[-1][0] == other.agrees:
            stretches[-1][1].append(place)
        else:
            stretches.append((other.agrees, [(x(one.at_millis), y(one.told_cents)), place]))
    return "".join(
        f'<path class="{"chart-told" if agrees else "chart-wrong"}" d="{_steps(places)}"/>'
        for agrees, places in stretches
    )


def _steps(places: Sequence[tuple[float, float]]) -> str:
    # A balance stays as it is until the next one is told.
    (x, y), *rest = places
    return f"M{_n(x)} {_n(y)}" + "".join(f"H{_n(x)}V{_n(y)}" for x, y in rest)


def _dots(points: Sequence[ToldBalance], x: _Scale, y: _Scale) -> str:
    marked = points if len(points) <= _MOST_DOTS else [point for point in points if not point.agrees]
    every = ceil(len(marked) / _MOST_DOTS)
    return "".join(_dot(point, x(point.at_millis), y(point.told_cents)) for point in marked[:: every or 1])


def _dot(point: ToldBalance, x: float, y: float) -> str:
    said = f"{clock_time(point.at_millis)} UTC: {money(point.told_cents)}"
    if point.agrees:
        return f'<circle class="chart-dot" cx="{_n(x)}" cy="{_n(y)}" r="3.2"><title>{said}</title></circle>'
    cross = f"M{_n(x - 4.5)} {_n(y - 4.5)}l9 9m0 -9l-9 9"
    said += f" instead of {money(point.expected_cents or 0)}"
    return f'<path class="chart-cross" d="{cross}"><title>{said}</title></path>'


def _differences(wrong: Sequence[ToldBalance], x: _Scale, y: _Scale) -> str:
    # Above the first cross and below the last one: so they stay apart where both are close.
    ends = [(wrong[0], -11), (wrong[-1], 20)][: len(wrong)] if wrong else []
    return "".join(_difference(point, point.expected_cents or 0, x, y, beside) for point, beside in ends)


def _difference(point: ToldBalance, expected_cents: int, x: _Scale, y: _Scale, beside: int) -> str:
    difference = point.told_cents - expected_cents
    words = f"{'+' if difference > 0 else '−'}{money(abs(difference))}"
    half = len(words) * _LETTER / 2
    across = min(max(x(point.at_millis), x.start + half), x.stop - half)
    height = min(max(y(point.told_cents) + beside, _TOP - 4), _HEIGHT - _BOTTOM - 4)
    gap = f"M{_n(x(point.at_millis))} {_n(y(point.told_cents))}V{_n(y(expected_cents))}m-7 0h14"
    return f'<path class="chart-gap" d="{gap}"/>{_text(across, height, words, "chart-difference", anchor="middle")}'


def _legend(left: float, *, has_wrong: bool) -> str:
    entries = [("chart-expected", "should be"), ("chart-told", "was told")]
    entries += [("chart-wrong", "disagrees")] if has_wrong else []
    return "".join(
        f'<line class="{kind}" x1="{_n(left + place * 112)}" x2="{_n(left + place * 112 + 24)}" y1="11" y2="11"/>'
        f"{_text(left + place * 112 + 31, 15, words, 'chart-label')}"
        for place, (kind, words) in enumerate(entries)
    )


#: Upper limits of the buckets, in milliseconds: three to each power of ten.
_LIMITS: Final = tuple(step * 10.0**power for power in range(-2, 5) for step in (1, 2, 5))
_FEWEST_BUCKETS: Final = 6
_PERCENTS: Final = (50, 95, 99)


def percentile(ordered: Sequence[float], percent: int) -> float:
    """Return the value that *percent* per cent of *ordered*, which is not empty, do not exceed (nearest rank)."""
    return ordered[max(0, ceil(len(ordered) * percent / 100) - 1)]


def latency_chart(latencies_ms: Iterable[float]) -> str:
    """
    Return how often the wallet took how long, in buckets that widen as in 1, 2, 5, 10, with three percentiles.

    What took more than 50 s is in the last bucket.
    """
    ordered = sorted(latencies_ms)
    if not ordered:
        return f"{_head('Latency of webhooks', 'Nothing was answered yet.')}{_note('Nothing was answered yet.')}</svg>"
    marks = [(percent, percentile(ordered, percent)) for percent in _PERCENTS]
    said = ", ".join(f"{percent} % within {latency(value)}" for percent, value in marks)
    buckets = _buckets(ordered)
    return "".join(
        (
            _head("Latency of webhooks", f"{len(ordered)} answers: {said}; the slowest took {latency(ordered[-1])}."),
            buckets.drawn(),
            buckets.marked(marks),
            "</svg>",
        )
    )


@dataclass(frozen=True, slots=True)
class _Buckets:
    """Bars side by side: the first one begins at *begin*, an index of the limits, or at 0 for -1."""

    begin: int
    counts: Sequence[int]

    @property
    def left(self) -> float:
        return 24 + _LETTER * len(f"{max(self.counts):,}")

    @property
    def width(self) -> float:
        return (_WIDTH - _RIGHT - self.left) / len(self.counts)

    def drawn(self) -> str:
        y = _Scale(0, max(self.counts), _HEIGHT - _BOTTOM, _TOP + 34)
        bars = (self._bar(number, count, y) for number, count in enumerate(self.counts))
        return self._levels(y) + "".join(bars) + self._edges() + self._titles((y.start + y.stop) / 2)

    def marked(self, marks: Iterable[tuple[int, float]]) -> str:
        return "".join(self._mark(row, percent, value) for row, (percent, value) in enumerate(marks))

    def _bar(self, number: int, count: int, y: _Scale) -> str:
        if not count:
            return ""
        index = self.begin + number
        # A single answer among thousands is still to be seen.
        height = max(y(0) - y(count), 2.0)
        said = f"{count:,} in {_edge(index)} to {_edge(index + 1)}"
        return (
            f'<rect class="chart-bar" x="{_n(self.left + number * self.width + 1)}" y="{_n(y(0) - height)}" '
            f'width="{_n(self.width - 2)}" height="{_n(height)}"><title>{said}</title></rect>'
        )

    def _levels(self, y: _Scale) -> str:
        return "".join(
            _grid(self.left, y(count)) + _text(self.left - 8, y(count) + 4, f"{count:,}", "chart-label", anchor="end")
            for count in (0, y.most)
        )

    def _edges(self) -> str:
        every = ceil(len(self.counts) / 7)
        return "".join(
            _text(self.left + number * self.width, _HEIGHT - _BOTTOM + 18, edge, "chart-label", anchor="middle")
            for number in range(0, len(self.counts) + 1, every)
            for edge in [_edge(self.begin + number)]
        )

    def _titles(self, middle: float) -> str:
        across = _text(
            (self.left + _WIDTH - _RIGHT) / 2, _HEIGHT - 6, "time to the answer", "chart-axis", anchor="middle"
        )
        up = _text(0, 0, "answers", "chart-axis", anchor="middle")
        return f'{across}<g transform="translate(12 {_n(middle)}) rotate(-90)">{up}</g>'

    def _mark(self, row: int, percent: int, value: float) -> str:
        x, top = self._place(value), 16 + row * 15
        words = f"p{percent} {latency(value)}"
        if x + 6 + len(words) * _LETTER > _WIDTH - _RIGHT:
            said = _text(x - 5, top, words, "chart-value", anchor="end")
        else:
            said = _text(x + 5, top, words, "chart-value")
        return f'<line class="chart-mark" x1="{_n(x)}" x2="{_n(x)}" y1="{top - 9}" y2="{_HEIGHT - _BOTTOM}"/>{said}'

    def _place(self, value: float) -> float:
        index = min(max(_index(value), self.begin), self.begin + len(self.counts) - 1)
        upper = _LIMITS[index]
        lower = _LIMITS[index - 1] if index else upper / 10
        share = log(max(value, lower) / lower) / log(upper / lower)
        return self.left + (index - self.begin + min(share, 1.0)) * self.width


def _buckets(ordered: Sequence[float]) -> _Buckets:
    first, last = _index(ordered[0]), _index(ordered[-1])
    missing = max(0, _FEWEST_BUCKETS - (last - first + 1))
    first = max(0, first - missing // 2)
    last = min(len(_LIMITS) - 1, max(last + missing - missing // 2, first + _FEWEST_BUCKETS - 1))
    counts = [0] * (last - first + 1)
    for value in ordered:
        counts[_index(value) - first] += 1
    return _Buckets(first, counts)


def _index(value: float) -> int:
    """Return the bucket of *value*: the first whose upper limit it does not exceed, or else the last."""
    return min(bisect_left(_LIMITS, value), len(_LIMITS) - 1)


def _edge(index: int) -> str:
    """Return the lower limit of the bucket *index*, as short as can be."""
    if index <= 0:
        return "0"
    limit = _LIMITS[index - 1]
    return f"{limit:g} ms" if limit < 1_000 else f"{limit / 1_000:g} s"


def _head(title: str, story: str) -> str:
    return (
        f'<svg class="chart" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img">'
        f"<title>{escape(title)}</title><desc>{escape(story)}</desc>"
    )


def _grid(left: float, y: float) -> str:
    return f'<line class="chart-grid" x1="{_n(left)}" x2="{_WIDTH - _RIGHT}" y1="{_n(y)}" y2="{_n(y)}"/>'


def _note(words: str) -> str:
    return _text(_WIDTH / 2, _HEIGHT / 2, words, "chart-label", anchor="middle")


def _text(x: float, y: float, words: str, kind: str, *, anchor: str = "start") -> str:
    return f'<text class="{kind}" x="{_n(x)}" y="{_n(y)}" text-anchor="{anchor}">{escape(words)}</text>'


def _n(number: float) -> str:
    return f"{number:.1f}".removesuffix(".0")
