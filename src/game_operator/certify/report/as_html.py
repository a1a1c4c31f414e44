"""
A report as one file of HTML that needs nothing else.

What a wallet answered is data in it. The template escapes it, a content security policy admits no script and no
style but the two that it names by their hashes, and the page loads nothing.
"""

from base64 import b64encode
from collections import defaultdict
from collections.abc import Sequence
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from game_operator.certify.report.again import call_of, curl_of, why_no_line
from game_operator.certify.report.report import Latency, Report
from game_operator.certify.report.summary import Summary, by_reason
from game_operator.certify.report.verdicts import Exchange, Outcome, Verdict
from game_operator.errors import ConfigurationError
from game_operator.protocol.http import HeaderPairs
from game_operator.provider import text as words
from game_operator.provider.latency import MARKS_MS, above, latency_chart

if TYPE_CHECKING:
    from jinja2 import Environment

__all__ = ["html"]

_TEMPLATES: Final = Path(__file__).with_name("templates")
#: Mistakes that are shown at once; of more than these, most are usually one.
_MOST_CAUSES: Final = 5
#: Of a scenario's exchanges, beside those that show what is wrong; JSON has them all.
_SHOWN_PASSED: Final = 12
_SHOWN_FAILED: Final = 20
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
    style, script = ((_TEMPLATES / name).read_text(encoding="utf-8") for name in ("report.css", "report.js"))
    latency = report.latency if report.latency and report.latency.samples_ms else None
    summary = Summary(report)
    page = template.render(
        report=report,
        summary=summary,
        causes=[(cause, summary.meaning(cause)) for cause in summary.causes],
        most_causes=_MOST_CAUSES,
        latency=latency,
        chart=_chart(latency) if latency else "",
        percents=_PERCENTS,
        first_mark=MARKS_MS[0],
        style=style,
        script=script,
        # Nothing is loaded, and nothing runs but what stands here.
        policy=f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; base-uri 'none'; "
        "form-action 'none'",
    )
    return words.clean(page)


def _chart(latency: Latency) -> str:
    late = ", ".join(f"{above(latency.samples_ms, mark):,} took longer than {mark} ms" for mark in MARKS_MS)
    story = f"{len(latency.samples_ms):,} answers; half within {words.duration(latency.percentile_ms(50))}; {late}."
    return latency_chart(latency.samples_ms, [(mark, f"{mark} ms") for mark in MARKS_MS], story, with_counts=True)


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


@cache
def _environment() -> "Environment":
    try:
        made = words.templates(_TEMPLATES, by_reason)
    except ImportError:
        raise ConfigurationError(
            'A report as HTML needs the package jinja2. Install the extra: pip install "game-operator[certify]"'
        ) from None
    made.filters |= {"anchor": _anchor, "shown_exchanges": _shown_exchanges}
    made.filters["answer"] = lambda each: _message(f"HTTP {each.status}", each.answer_headers, each.answer_body)
    made.globals["sent"] = _sent
    return made


def _anchor(text: str) -> str:
    """Return what a link can lead to; ids are ours, and a stranger's would not lead anywhere else."""
    return "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in text)


class _Shown(NamedTuple):
    """An exchange on the page: its place from 1, whether it decided, and what else it shows to be wrong."""

    number: int
    exchange: Exchange
    decided: bool
    reasons: Sequence[str]


def _shown_exchanges(verdict: Verdict) -> list[_Shown]:
    """Return the exchanges that are worth a place on the page: the first ones, and all that show what is wrong."""
    reasons: defaultdict[int, list[str]] = defaultdict(list)
    for note in verdict.notes:
        if note.exchange is not None:
            reasons[note.exchange].append(note.reason)
    decisive = verdict.notes[0].exchange if verdict.notes else None
    most = _SHOWN_FAILED if verdict.outcome is Outcome.FAILED else _SHOWN_PASSED
    return [
        _Shown(place + 1, exchange, place == decisive, reasons[place][place == decisive :])
        for place, exchange in enumerate(verdict.exchanges)
        if place < most or place in reasons
    ]


class _Sent(NamedTuple):
    """A request on the page: *line* sends it again; *raw* shows it where there is no line that can be read."""

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
