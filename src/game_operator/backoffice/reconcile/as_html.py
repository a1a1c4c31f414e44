"""The report of a reconciliation as one file of HTML that needs nothing else."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from game_operator import text as words
from game_operator.backoffice.pages import page
from game_operator.backoffice.reconcile.advice import UNSEEN, advices
from game_operator.backoffice.reconcile.judge import Verdict

_TEMPLATE: Final = Path(__file__).parent / "templates" / "report.html"
_MOST: Final = 500
_HOUR: Final = 3_600_000


def html(report: Any) -> str:  # Any: a ReconcileReport, which makes its page here.
    """
    Return *report* as a page, to be written in UTF-8.

    Raises:
        ConfigurationError: Jinja2 is not installed.
    """
    return page(
        _TEMPLATE,
        *(at, counted, named),
        report=report,
        run=report.run,
        is_repairing=bool(report.run.options.get("repair")),
        parameters=list(_parameters(report.run.options)),
        advices=advices(),
        repaired=report.items(Verdict.SETTLED, Verdict.REFUNDED, most=_MOST),
        left=report.items(Verdict.SETTLE, Verdict.REFUND, most=_MOST),
        most=_MOST,
        unseen=UNSEEN,
    )


# Any: what a run was begun with, as JSON.
def _parameters(options: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield what a run was begun with, in words."""
    yield "Least age of a bet", _age(options["min_age_millis"])
    yield "Between two looks, at least", _age(options["second_look_millis"])
    yield "Sample of all other bets", f"{100 * options['sample']:g} %"
    yield "Calls a second, at most", f"{1_000_000 / options['interval_micros']:g}"
    if options.get("repair"):
        yield "Bets to settle, at most", str(options["max_bets"])
        yield "Currency units to credit, at most", words.money(options["max_total_cents"])


def at(millis: int | None) -> str:
    """Return a time in UTC; what a wrong clock wrote as Unix milliseconds."""
    if millis is None:
        return "–"
    try:
        return f"{words.day_and_time(millis)} UTC"
    except (OverflowError, ValueError):
        return f"{millis} ms"


def _age(millis: int) -> str:
    """Return a length of time in whole units: of two days or more in days, and so on."""
    for unit, noun in ((24 * _HOUR, "day"), (_HOUR, "hour"), (60_000, "minute")):
        if millis >= 2 * unit:
            return counted(round(millis / unit), noun)
    return counted(max(0, round(millis / 1_000)), "second")


def counted(number: int, noun: str) -> str:
    """Return a number of things."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def named(verdict: str) -> str:
    """Return a verdict in words."""
    return verdict.replace("_", " ") or "not judged yet"
