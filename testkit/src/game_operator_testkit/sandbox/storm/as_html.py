"""A report as one file of HTML that needs nothing else: the page loads nothing, and runs no script."""

from base64 import b64encode
from hashlib import sha256
from pathlib import Path
from typing import Final

from game_operator import __version__
from game_operator import text as words
from game_operator_testkit.sandbox.storm.report import StormReport

__all__ = ["html"]

_FOLDER: Final = Path(__file__).parent
#: Of each kind so many differences are on the page, and of each so many lines of its history; the trace has all.
_MOST_SHOWN: Final = 100
_MOST_LINES: Final = 200


def html(report: StormReport) -> str:
    """Return *report* as a page, to be written in UTF-8; ImportError if jinja2 is not installed."""
    style = (_FOLDER / "report.css").read_text(encoding="utf-8")
    digest = b64encode(sha256(style.encode()).digest()).decode()
    page = (
        words.templates(_FOLDER)
        .get_template("report.html")
        .render(
            report=report,
            most_shown=_MOST_SHOWN,
            most_lines=_MOST_LINES,
            style=style,
            policy=f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'",
            version=__version__,
        )
    )
    return words.clean(page)
