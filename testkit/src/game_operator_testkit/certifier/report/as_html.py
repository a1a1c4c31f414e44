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
from game_operator_testkit.certifier.report.again import call_of
from game_operator_testkit.certifier.report.comparison import Comparison
from game_operator_testkit.certifier.report.report import Report
from game_operator_testkit.certifier.report.shown import LINE, cut, message, shown_exchanges, shown_notes
from game_operator_testkit.certifier.report.summary import Summary, balance_in_words
from game_operator_testkit.certifier.report.verdicts import Exchange

if TYPE_CHECKING:
    from jinja2 import Environment

__all__ = ["html"]

_TEMPLATES: Final = Path(__file__).with_name("templates")


def html(report: Report, comparison: Comparison | None = None) -> str:
    """
    Return *report*, with its *comparison* if there is one, as a page, to be written in UTF-8.

    Raises:
        ConfigurationError: The extra ``certify`` is not installed.
    """
    template = _environment().get_template("report.html")
    style, script = _style_and_script()
    page = template.render(
        report=report,
        summary=Summary(report),
        comparison=comparison,
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


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


@cache
def _environment() -> "Environment":
    made = words.templates(_TEMPLATES, balance_in_words)
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
    raw: str


def _sent(exchange: Exchange, url: str) -> _Sent:
    line = call_of(exchange, url) or ""
    if len(line) > LINE:
        line = ""
    if line.startswith("game-operator "):
        return _Sent(line, "")
    first = f"{exchange.method} {exchange.path}"
    return _Sent(line, message(first, exchange.request_headers, exchange.request_body))


def _answer(exchange: Exchange) -> str:
    return message(f"HTTP {exchange.status}", exchange.answer_headers, exchange.answer_body)
