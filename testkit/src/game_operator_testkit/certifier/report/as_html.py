"""
A report as one file of HTML that needs nothing else.

What a wallet answered is data in it. The template escapes it, a content security policy admits no script and no
style but the two that it names by their hashes, and the page loads nothing.
"""

from base64 import b64encode
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from game_operator import text as words
from game_operator_testkit.certifier.report.again import call_of, curl_of, why_no_line
from game_operator_testkit.certifier.report.comparison import Comparison
from game_operator_testkit.certifier.report.report import Latency, Report
from game_operator_testkit.certifier.report.shown import LINE, cut, message, shown_exchanges, shown_notes
from game_operator_testkit.certifier.report.summary import Summary, by_reason
from game_operator_testkit.certifier.report.verdicts import Exchange
from game_operator_testkit.provider.latency import MARKS_MS, above, latency_chart

if TYPE_CHECKING:
    from jinja2 import Environment

__all__ = ["html"]

_TEMPLATES: Final = Path(__file__).with_name("templates")
_PERCENTS: Final = (50, 90, 95, 99, 100)


def html(report: Report, comparison: Comparison | None = None) -> str:
    """
    Return *report*, with its *comparison* if there is one, as a page, to be written in UTF-8.

    Raises:
        ConfigurationError: The extra ``certify`` is not installed.
    """
    template = _environment().get_template("report.html")
    style, script = _style_and_script()
    latency = report.latency if report.latency and report.latency.samples_ms else None
    summary = Summary(report)
    page = template.render(
        report=report,
        summary=summary,
        comparison=comparison,
        latency=latency,
        chart=_chart(latency) if latency else "",
        percents=_PERCENTS,
        first_mark=MARKS_MS[0],
        style=style,
        script=script,
        policy=security_policy(),
    )
    return words.clean(page)


def security_policy() -> str:
    """Return the content security policy of such a page: it loads nothing, and runs nothing but its own script."""
    style, script = map(_hash, _style_and_script())
    return f"default-src 'none'; style-src {style}; script-src {script}; base-uri 'none'; form-action 'none'"


@cache
def _style_and_script() -> tuple[str, str]:
    style, script = ((_TEMPLATES / name).read_text(encoding="utf-8") for name in ("report.css", "report.js"))
    return style, script


def _chart(latency: Latency) -> str:
    late = ", ".join(f"{above(latency.samples_ms, mark):,} took longer than {mark} ms" for mark in MARKS_MS)
    story = f"{len(latency.samples_ms):,} answers; half within {words.duration(latency.percentile_ms(50))}; {late}."
    return latency_chart(latency.samples_ms, [(mark, f"{mark} ms") for mark in MARKS_MS], story, with_counts=True)


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


@cache
def _environment() -> "Environment":
    made = words.templates(_TEMPLATES, by_reason)
    made.filters |= {"anchor": _anchor, "answer": _answer, "cut": cut}
    made.filters |= {"shown_exchanges": shown_exchanges, "shown_notes": shown_notes}
    made.globals["sent"] = _sent
    return made


def _anchor(text: str) -> str:
    """Return what a link can lead to; ids are ours, and a stranger's would not lead anywhere else."""
    return "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in text)


class _Sent(NamedTuple):
    """A request on the page: *line* sends it again; *raw* shows it where there is no line that can be read."""

    line: str
    why_no_line: str
    raw: str


def _sent(exchange: Exchange, url: str) -> _Sent:
    why, line = why_no_line(exchange, url), curl_of(exchange, url) or call_of(exchange, url) or ""
    if len(line) > LINE:
        why, line = f"The line that sends it again has {len(line):,} characters, too many for a report.", ""
    if line.startswith(("curl ", "game-operator ")):
        return _Sent(line, why, "")
    first = f"{exchange.method} {exchange.path}"
    return _Sent(line, why, message(first, exchange.request_headers, exchange.request_body))


def _answer(exchange: Exchange) -> str:
    return message(f"HTTP {exchange.status}", exchange.answer_headers, exchange.answer_body)
