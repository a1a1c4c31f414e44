"""
A report as one file of HTML that needs nothing else: for people, and for whoever they send it to.

Whatever a wallet answered is data in it. The template escapes it, a content security policy admits no script and no
style but the two that it names by their hashes, and the page asks nobody for anything.
"""

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from game_operator.certify.report.again import call_of, curl_of, why_no_line
from game_operator.certify.report.latency_chart import latency_chart
from game_operator.certify.report.page import (
    causes_that_fail,
    grounds,
    groups,
    headline,
    is_fine,
    meaning,
    shown_exchanges,
    stopped_of,
    undone_of,
    untried,
    urgency,
)
from game_operator.certify.report.report import Latency, Report
from game_operator.certify.report.verdicts import Exchange
from game_operator.errors import ConfigurationError
from game_operator.protocol.http import HeaderPairs
from game_operator.provider import text as words
from game_operator.provider.histogram import MARKS_MS, above

if TYPE_CHECKING:
    from jinja2 import Environment

__all__ = ["html"]

_TEMPLATES: Final = Path(__file__).with_name("templates")
#: Mistakes that are told at once; of more than these, most are usually one.
_MOST_CAUSES: Final = 5
#: Of a body, of the value of a header, and of a line for the shell.
_SHOWN_BYTES: Final = 2_000
_SHOWN_HEADER_BYTES: Final = 500
_LONGEST_LINE: Final = 6_000
_PERCENTS: Final = (50, 90, 95, 99, 100)


def html(report: Report) -> str:
    """
    Return *report* as a page, to be written in UTF-8.

    Raises:
        ConfigurationError: The extra ``certify`` is not installed.
    """
    template = _environment().get_template("report.html")
    style, script = _part("report.css"), _part("report.js")
    page = template.render(
        report=report,
        headline=headline(report),
        is_fine=is_fine(report),
        urgency=urgency(report),
        undone=untried(undone_of(report)),
        stopped=stopped_of(report),
        causes=[(cause, meaning(cause, report)) for cause in causes_that_fail(report)],
        most_causes=_MOST_CAUSES,
        groups=groups(report),
        untried=untried(report.skipped),
        grounds=grounds(report),
        latency=None if report.latency is None or not report.latency.samples_ms else _drawn(report.latency),
        style=style,
        script=script,
        first_mark=MARKS_MS[0],
        policy=_policy(style, script),
    )
    return words.clean(page)


@dataclass(frozen=True, slots=True)
class _Drawn:
    """The latency on the page: *percentiles* in per cent and ms, *late* by each mark that any was beyond."""

    measured: Latency
    chart: str
    percentiles: Sequence[tuple[int, float]]
    late: Sequence[tuple[int, int]]


def _drawn(latency: Latency) -> _Drawn:
    return _Drawn(
        latency,
        latency_chart(latency),
        [(percent, latency.percentile_ms(percent)) for percent in _PERCENTS],
        [(mark, count) for mark in MARKS_MS if (count := above(latency.samples_ms, mark))],
    )


def _policy(style: str, script: str) -> str:
    return (
        f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def _part(name: str) -> str:
    return (_TEMPLATES / name).read_text(encoding="utf-8")


@cache
def _environment() -> "Environment":
    try:
        from jinja2 import Environment, FileSystemLoader, StrictUndefined
    except ImportError:
        raise ConfigurationError(
            'A report as HTML needs the package jinja2. Install the extra: pip install "game-operator[certify]"'
        ) from None
    made = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "anchor": _anchor,
        "answer": _answer,
        "day_and_time": words.day_and_time,
        "duration": words.duration,
        "iso_time": words.iso_time,
        "money": words.money,
        "shown_exchanges": shown_exchanges,
    }
    made.globals["sent"] = _sent
    return made


def _anchor(text: str) -> str:
    """Return what a link can lead to; ids are ours, and a stranger's would not lead anywhere else."""
    return "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in text)


def _answer(exchange: Exchange) -> str:
    return _message(f"HTTP {exchange.status}", exchange.answer_headers, exchange.answer_body)


class _Sent(NamedTuple):
    """A request on the page: *line* sends it again; *raw* shows it where there is no line, or none that can be read."""

    line: str
    why_no_line: str
    raw: str


def _sent(exchange: Exchange, url: str) -> _Sent:
    why, line = why_no_line(exchange, url), curl_of(exchange, url) or call_of(exchange, url) or ""
    if len(line) > _LONGEST_LINE:
        why = f"The line has {len(line):,} characters, too many for this page. The report as JSON has it."
        line = ""
    raw = ""
    if not line.startswith(("curl ", "game-operator ")):
        raw = _message(f"{exchange.method} {exchange.path}", exchange.request_headers, exchange.request_body)
    return _Sent(line, why, raw)


def _message(first: str, pairs: HeaderPairs, data: bytes) -> str:
    head = words.headers(pairs, longest=_SHOWN_HEADER_BYTES)
    head = head if len(head) <= _SHOWN_BYTES else f"{head[:_SHOWN_BYTES]}\n… and more headers"
    return f"{first}\n{head}\n\n{words.body(data, longest=_SHOWN_BYTES)}".rstrip()
