"""
Totals as one page of HTML that loads nothing and runs nothing.

What a provider or operator named is data in it: the template escapes it, and a content security policy admits no script
and no style but the one that it names by its hash.
"""

from base64 import b64encode
from functools import cache
from hashlib import sha256
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from game_operator import text as words
from game_operator.backoffice.totals.table import headings, lines
from game_operator.errors import ConfigurationError
from game_operator.ledger.books.totals import DAY_MILLIS, TotalsReport, TotalsRow, day_text

if TYPE_CHECKING:
    from jinja2 import Environment

_FOLDER: Final = Path(__file__).parent
#: The drawing, in units of about a pixel.
_WIDTH, _HEIGHT, _MARGIN, _TOP = 720, 240, 34, 16
_MOST_BARS: Final = 62
_MOST_LABELS: Final = 8
_LABEL: Final = 18
_LETTER: Final = 6.4


class _Bar(NamedTuple):
    x: float
    y: float
    width: float
    height: float
    label: str
    amount: str
    is_loss: bool
    is_labelled: bool


class _Chart(NamedTuple):
    """Gross gaming revenue of one currency, by the first thing that the report is grouped by."""

    currency: str
    story: str
    left: float
    marks: list[tuple[float, str]]
    bars: list[_Bar]
    left_out: int


def totals_html(report: TotalsReport) -> str:
    """
    Return *report* as a page, to be written in UTF-8: a chart for each currency, and the table.

    Raises:
        ConfigurationError: jinja2 is not installed, which the extra ``cli`` brings.
    """
    style = (_FOLDER / "totals.css").read_text(encoding="utf-8")
    digest = b64encode(sha256(style.encode()).digest()).decode()
    page = _environment().get_template("totals.html").render(
        report=report,
        headings=headings(report),
        lines=list(lines(report)),
        texts=len(report.by) + ("currency" not in report.by),
        charts=_charts(report),
        frame=(_WIDTH, _HEIGHT),
        time=_time(report),
        style=style,
        policy=f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'",
    )  # fmt: skip
    return words.clean(page)


@cache
def _environment() -> "Environment":
    try:
        return words.templates(_FOLDER)
    except ImportError:
        raise ConfigurationError(
            'A report as HTML needs the package jinja2. Install the extra: pip install "game-operator[cli]"'
        ) from None


def _time(report: TotalsReport) -> str:
    since, until = report.since_millis, report.until_millis
    first = "the beginning" if since is None else _moment(since)
    return f"from {first} {'until now' if until is None else f'to {_moment(until)}'}, UTC"


def _moment(millis: int) -> str:
    if millis % DAY_MILLIS == 0:
        return f"{day_text(millis // DAY_MILLIS)}, 00:00"
    return f"{day_text(millis // DAY_MILLIS)} and {words.duration(millis % DAY_MILLIS)}"


def _charts(report: TotalsReport) -> list[_Chart]:
    dimension = next((name for name in report.by if name != "currency"), None)
    if dimension is None:
        return []
    sums: dict[str, dict[str, int]] = {}
    for row in report.rows:
        _add(sums.setdefault(row.currency, {}), dimension, row)
    return [_chart(currency, dimension, bars) for currency, bars in sums.items() if any(bars.values())]


def _add(sums: dict[str, int], dimension: str, row: TotalsRow) -> None:
    label = getattr(row, dimension) or "–"
    sums[label] = sums.get(label, 0) + row.gross_gaming_revenue_cents


def _chart(currency: str, dimension: str, sums: dict[str, int]) -> _Chart:
    # Of days the latest, of games and instances the largest: more cannot be told apart.
    by_size = sorted(sums, key=lambda label: (-abs(sums[label]), label))
    shown = sorted(sums)[-_MOST_BARS:] if dimension == "day" else by_size[:_MOST_BARS]
    most, least = max(0, *(sums[label] for label in shown)), min(0, *(sums[label] for label in shown))
    # Whole numbers as long as they are money: a drawing may round.
    scale = (_HEIGHT - 2 * _TOP - _LABEL) / ((most - least) or 1)
    marks = [(_TOP + (most - value) * scale, words.money(value)) for value in dict.fromkeys((most, 0, least))]
    left = min(12 + _LETTER * max(len(text) for _, text in marks), _WIDTH / 2)
    zero, step = _TOP + most * scale, (_WIDTH - left - _MARGIN) / len(shown)
    every = ceil(len(shown) / _MOST_LABELS)
    bars = [
        _Bar(
            left + place * step + step * 0.1,
            zero - max(sums[label], 0) * scale,
            step * 0.8,
            abs(sums[label]) * scale,
            label,
            words.money(sums[label]),
            sums[label] < 0,
            place % every == 0,
        )
        for place, label in enumerate(shown)
    ]
    total = words.money(sum(sums.values()))
    story = f"Gross gaming revenue in {currency} by {dimension}: {total} in all, from {shown[0]} to {shown[-1]}."
    return _Chart(currency, story, left, marks, bars, len(sums) - len(shown))
