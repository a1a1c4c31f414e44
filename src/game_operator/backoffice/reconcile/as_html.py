"""
The report of a reconciliation as one file of HTML that needs nothing else.

Ids, answers and reasons are data in it. The template escapes them, and a content security policy admits no script and
no style but the one that it names by its hash.
"""

from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from game_operator import text as words
from game_operator.backoffice.journal.records import Item, Run
from game_operator.backoffice.reconcile.advice import UNSEEN, advices
from game_operator.backoffice.reconcile.judge import Verdict
from game_operator.errors import ConfigurationError
from game_operator.ledger.staff.findings import Finding

if TYPE_CHECKING:
    from jinja2 import Environment

_TEMPLATES: Final = Path(__file__).with_name("templates")
_MOST: Final = 500
_SHOWN_BYTES: Final = 2_000
_HOUR: Final = 3_600_000
#: How long findings have been open: the upper ends, and their words.
_AGES: Final = (
    (_HOUR, "up to 1 hour"),
    (24 * _HOUR, "up to 1 day"),
    (7 * 24 * _HOUR, "up to 7 days"),
    (30 * 24 * _HOUR, "up to 30 days"),
    (1 << 63, "longer"),
)


class Age(NamedTuple):
    """How many findings are so old, and the money at stake."""

    words: str
    findings: int
    total_cents: int


class Reported(Protocol):
    """What a page is made of: a ReconcileReport."""

    @property
    def run(self) -> Run:
        """The run."""

    @property
    def findings(self) -> Sequence[Finding]:
        """Its open findings."""

    @property
    def now_millis(self) -> int:
        """When the report was made."""

    def items(self, *verdicts: Verdict, most: int) -> list[Item]:
        """Return bets of the run with these verdicts."""


def html(report: Reported) -> str:
    """
    Return *report* as a page, to be written in UTF-8.

    Raises:
        ConfigurationError: Jinja2 is not installed.
    """
    style = (_TEMPLATES / "report.css").read_text(encoding="utf-8")
    digest = b64encode(sha256(style.encode()).digest()).decode()
    page = (
        _environment()
        .get_template("report.html")
        .render(
            report=report,
            run=report.run,
            is_repairing=bool(report.run.options.get("repair")),
            parameters=list(_parameters(report.run.options)),
            advices=advices(),
            ages=list(_ages(report)),
            repaired=report.items(Verdict.SETTLED, Verdict.REFUNDED, most=_MOST),
            left=report.items(Verdict.SETTLE, Verdict.REFUND, most=_MOST),
            most=_MOST,
            unseen=UNSEEN,
            style=style,
            policy=f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'",
        )
    )
    return words.clean(page)


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


def _ages(report: Reported) -> Iterator[Age]:
    after = -(1 << 63)
    for until, text in _AGES:
        found = [each for each in report.findings if after < each.age_millis(report.now_millis) <= until]
        if found:
            yield Age(text, len(found), sum(each.at_stake_cents for each in found))
        after = until


@cache
def _environment() -> "Environment":
    try:
        made = words.templates(_TEMPLATES)
    except ImportError:
        raise ConfigurationError(
            'A report as HTML needs the package jinja2. Install the extra: pip install "game-operator[cli]"'
        ) from None
    made.filters |= {"at": _at, "age": _age, "counted": _counted, "name": _name, "evidence": _evidence}
    return made


def _at(millis: int | None) -> str:
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
            return _counted(round(millis / unit), noun)
    return _counted(max(0, round(millis / 1_000)), "second")


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _name(verdict: str) -> str:
    return verdict.replace("_", " ") or "not judged yet"


def _evidence(data: bytes | None) -> str:
    return words.body(data, longest=_SHOWN_BYTES) if data else ""
