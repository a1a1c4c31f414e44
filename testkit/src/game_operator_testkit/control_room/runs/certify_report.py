"""A certification's report as the page shows it: what to fix first, with the exchange that shows it; and its files."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from game_operator.text import body, clean
from game_operator_testkit.certifier.report.again import call_of, curl_of, why_no_line
from game_operator_testkit.certifier.report.as_html import html, security_policy
from game_operator_testkit.certifier.report.as_json import document
from game_operator_testkit.certifier.report.as_junit import junit
from game_operator_testkit.certifier.report.report import Cause, Report
from game_operator_testkit.certifier.report.summary import Summary
from game_operator_testkit.certifier.report.verdicts import Verdict

#: Causes that are shown with their exchange; of more than these, most are usually one.
MOST_CAUSES: Final = 5
#: Of a body, and of a line for the shell, on the page. The files have more.
_SHOWN_BYTES: Final = 1_500
_LONGEST_LINE: Final = 3_000
_BALANCE: Final = "/player-balance"


@dataclass(frozen=True, slots=True)
class ShownExchange:
    """A call and its answer: *line* sends the call again; where there is none, *why* says so."""

    title: str
    request: str
    answer: str
    line: str
    why: str


@dataclass(frozen=True, slots=True)
class ShownCause:
    """A cause, what it means, and the exchange that shows it, if one does."""

    cause: Cause
    means: str
    exchange: ShownExchange | None


class ReportFile(NamedTuple):
    """A form of the report: what makes its text, and how it is sent."""

    make: Callable[[Report], str]
    media_type: str
    headers: Mapping[str, str]


def causes_shown(report: Report) -> list[ShownCause]:
    """Return the causes that make the wallet fail, the most urgent first; only the first ones have an exchange."""
    summary = Summary(report)
    return [
        ShownCause(
            cause, summary.meaning(cause), _exchange_of(cause.verdict, report.url) if place < MOST_CAUSES else None
        )
        for place, cause in enumerate(summary.causes)
    ]


def _exchange_of(verdict: Verdict, url: str) -> ShownExchange | None:
    exchange = verdict.decisive
    if exchange is None:  # The last call before the balance that was found wrong.
        exchange = next((each for each in reversed(verdict.exchanges) if each.path != _BALANCE), None)
    if exchange is None:
        return None
    line, why = curl_of(exchange, url) or call_of(exchange, url) or "", why_no_line(exchange, url)
    if len(line) > _LONGEST_LINE:
        line, why = "", "The line that sends it again is too long for this page. The full report has it."
    answer = exchange.problem
    if exchange.status:
        answer = f"HTTP {exchange.status}\n\n{body(exchange.answer_body, longest=_SHOWN_BYTES)}".rstrip()
    request = f"{exchange.method} {clean(exchange.path)}\n\n{body(exchange.request_body, longest=_SHOWN_BYTES)}"
    return ShownExchange(clean(exchange.title), request, clean(answer), clean(line), why)


def _json(report: Report) -> str:
    return json.dumps(document(report), indent=2) + "\n"


#: The files of a report, by the names in their addresses. A page among ours would have our origin: as a sandbox it has
#: none, runs its own script alone, and loads nothing.
FILES: Final[Mapping[str, ReportFile]] = {
    "report.html": ReportFile(
        html,
        "text/html",
        {"content-security-policy": f"{security_policy()}; frame-ancestors 'none'; sandbox allow-scripts"},
    ),
    "report.json": ReportFile(_json, "application/json", {}),
    "report.xml": ReportFile(junit, "application/xml", {}),
}
