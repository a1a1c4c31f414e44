"""
A report as one file of HTML that needs nothing else.

What a wallet answered is data in it. The template escapes it, a content security policy admits no script and one
style, which it names by its hash, and the page loads nothing.
"""

from base64 import b64encode
from hashlib import sha256
from pathlib import Path
from typing import Final

from game_operator import text as words
from game_operator_testkit.certifier.report.again import call_of
from game_operator_testkit.certifier.report.comparison import Comparison
from game_operator_testkit.certifier.report.report import Report
from game_operator_testkit.certifier.report.shown import cut, message, shown_exchanges, shown_notes
from game_operator_testkit.certifier.report.summary import Summary, balance_in_words

__all__ = ["html"]

_TEMPLATES: Final = Path(__file__).with_name("templates")


def html(report: Report, comparison: Comparison | None = None) -> str:
    """Return *report*, with its *comparison* if there is one, as a page, to be written in UTF-8."""
    filters = (balance_in_words, call_of, cut, message, shown_exchanges, shown_notes)
    template = words.templates(_TEMPLATES, *filters).get_template("report.html")
    style = (_TEMPLATES / "report.css").read_text(encoding="utf-8")
    digest = b64encode(sha256(style.encode()).digest()).decode()
    page = template.render(
        report=report,
        summary=Summary(report),
        comparison=comparison,
        style=style,
        policy=f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'",
    )
    return words.clean(page)
