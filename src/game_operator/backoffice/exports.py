"""
Files for people, in which what others named stays data: pages of HTML and CSV for spreadsheets.

A page is made of a template, which escapes it, and the style beside it. It loads nothing and runs nothing: a content
security policy admits no script, and no style but the one that it names by its hash. No cell of the CSV becomes a
formula, and nothing hides in one.
"""

import csv
import re
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Decimal
from functools import cache
from hashlib import sha256
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from game_operator import text as words
from game_operator.errors import ConfigurationError
from game_operator.ledger.books.totals import DIMENSIONS, KINDS, TotalsReport

if TYPE_CHECKING:
    from jinja2 import Environment

#: A spreadsheet takes a cell that begins with one of these for a formula, whatever quotes are around it. The last four
#: are the wide forms of the first, which some spreadsheets read alike.
_FORMULA: Final = ("=", "+", "-", "@", "＝", "＋", "－", "＠")
#: Where lists are separated by semicolons, as in much of Europe, a spreadsheet ends cells at one, whatever quotes are
#: around the text.
_BEGINS_INSIDE: Final = re.compile(rf";(?=\s*[{re.escape(''.join(_FORMULA))}])")


def page(template: Path, *filters: Callable[..., object], **values: Any) -> str:  # Any: what the template shows.
    """
    Return the page of *template*, to be written in UTF-8; a filter has the name of its function.

    Raises:
        ConfigurationError: The package jinja2 is not installed.
    """
    style = template.with_suffix(".css").read_text(encoding="utf-8")
    digest = b64encode(sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    made = _environment(template.parent, filters).get_template(template.name).render(values, style=style, policy=policy)
    return words.clean(made)


@cache
def _environment(folder: Path, filters: tuple[Callable[..., object], ...]) -> "Environment":
    try:
        return words.templates(folder, *filters)
    except ImportError:
        raise ConfigurationError(
            'A page of HTML needs the package jinja2. Install the extra: pip install "game-operator[cli]"'
        ) from None


def csv_lines(rows: Iterable[Sequence[object]]) -> Iterator[str]:
    r"""
    Yield *rows* as lines of CSV (RFC 4180), each with its line end, CR LF; only one row is in memory.

    Control characters, line ends and tabs among them, and those that are invisible or turn the text around, are
    written as escapes, such as ``\n`` and ``\u202e``. A text that begins with ``=``, ``+``, ``-`` or ``@`` gets an
    apostrophe in front, also where spaces come before it: a spreadsheet would run it as a formula. So does what follows
    a semicolon in a text, where spreadsheets of other countries begin a cell. An int and a finite Decimal stay numbers,
    negative ones too. None is an empty cell. Open a file for it with ``newline=""`` and ``encoding="utf-8"``.
    """
    for row in rows:
        line = StringIO()
        csv.writer(line, lineterminator="\r\n").writerow([_cell(value) for value in row])
        yield line.getvalue()


def _cell(value: object) -> str:
    if value is None:
        return ""
    if type(value) is int:  # Not a subclass, whose str() may be any text.
        return str(value)
    if type(value) is Decimal and value.is_finite():
        return f"{value:f}"
    # Half of a surrogate pair has no bytes in UTF-8.
    text = words.visible(str(value).encode(errors="backslashreplace")).replace("\n", "\\n").replace("\t", "\\t")
    text = _BEGINS_INSIDE.sub(";'", text)
    return f"'{text}" if text.lstrip().startswith(_FORMULA) else text


def totals_csv(report: TotalsReport) -> Iterator[str]:
    """
    Yield *report* as lines of CSV, the names of columns first; amounts are whole cents.

    It has all columns of the dimensions that it is grouped by, whatever is in them. Text is safe in spreadsheets.
    """
    sums = [name for kind in KINDS for name in (kind, f"{kind}_cents")]
    grouped = [name for name in DIMENSIONS if name in report.by and name != "currency"]
    names = (*grouped, "currency", "late", *sums, "gross_gaming_revenue_cents")
    yield from csv_lines([names])
    yield from csv_lines([_yes_or_no(getattr(row, name)) for name in names] for row in report.rows)


def _yes_or_no(value: object) -> object:
    return ("yes" if value else "no") if isinstance(value, bool) else value
