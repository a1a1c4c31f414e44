"""Totals as a table for people and for accounting programs: its columns and rows, as CSV and as one page of HTML."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from game_operator.backoffice.exports import csv_lines, page
from game_operator.ledger.books.totals import DAY_MILLIS, KINDS, TotalsReport, TotalsRow, day_text
from game_operator.text import duration, money

__all__ = ["totals_csv", "totals_html"]

_TEMPLATE: Final = Path(__file__).parent / "templates" / "totals.html"
_DIMENSIONS: Final = ("day", "game", "instance")
_HEADINGS: Final = {kind: kind.replace("_", " ").replace("rain", "RAIN") for kind in KINDS}
_REVENUE: Final = "gross_gaming_revenue_cents"


def totals_csv(report: TotalsReport) -> Iterator[str]:
    """
    Yield *report* as lines of CSV, the names of columns first; amounts are whole cents.

    It has all columns, whatever is in them, so that a program can rely on them. Text is safe in spreadsheets.
    """
    named = _dimensions(report)
    sums = [name for kind in KINDS for name in (kind, f"{kind}_cents")]
    names = (*named, "currency", "late", *sums, _REVENUE)
    yield from csv_lines([names])
    yield from csv_lines([_csv_cell(getattr(row, name)) for name in names] for row in report.rows)


def totals_html(report: TotalsReport) -> str:
    """
    Return *report* as one page that needs nothing else, to be written in UTF-8.

    Raises:
        ConfigurationError: jinja2 is not installed, which the extra ``cli`` brings.
    """
    since, until = report.since_millis, report.until_millis
    first = "the beginning" if since is None else _moment(since)
    return page(
        _TEMPLATE,
        report=report,
        headings=headings(report),
        lines=list(lines(report)),
        texts=len(report.by) + ("currency" not in report.by),
        time=f"from {first} {'until now' if until is None else f'to {_moment(until)}'}, UTC",
    )


def _moment(millis: int) -> str:
    if millis % DAY_MILLIS == 0:
        return f"{day_text(millis // DAY_MILLIS)}, 00:00"
    return f"{day_text(millis // DAY_MILLIS)} and {duration(millis % DAY_MILLIS)}"


def _csv_cell(value: object) -> object:
    return ("yes" if value else "no") if isinstance(value, bool) else value


def headings(report: TotalsReport) -> tuple[str, ...]:
    """Return the headings of the table for people: of the kinds, those that there are."""
    kinds = [_HEADINGS[kind].capitalize() if kind[:4] != "rain" else _HEADINGS[kind] for kind in _kinds(report)]
    return (*(name.capitalize() for name in _dimensions(report)), "Currency", *kinds, "Gross gaming revenue")


def lines(report: TotalsReport) -> Iterable[Sequence[str]]:
    """Yield the rows of the table for people, in currency units, and at the end the sum of each currency."""
    for row in report.rows:
        named = [getattr(row, name) or "–" for name in _dimensions(report)]
        yield _line(report, row, named, f"{row.currency}, late" if row.late else row.currency)
    if len(report.rows) > 1 and _dimensions(report):
        for row in report.by_currency():
            yield _line(report, row, ["all", *[""] * (len(_dimensions(report)) - 1)], row.currency)


def _line(report: TotalsReport, row: TotalsRow, named: list[str], currency: str) -> Sequence[str]:
    kinds = [_amount(getattr(row, kind), getattr(row, f"{kind}_cents")) for kind in _kinds(report)]
    return [*named, currency, *kinds, money(row.gross_gaming_revenue_cents)]


def _amount(count: int, cents: int) -> str:
    return f"{money(cents)} ({count:,})" if count else "–"


def _dimensions(report: TotalsReport) -> list[str]:
    return [name for name in _DIMENSIONS if name in report.by]


def _kinds(report: TotalsReport) -> list[str]:
    """Return the kinds of which there is any posting."""
    return [kind for kind in KINDS if any(getattr(row, kind) for row in report.rows)]
