"""CSV for spreadsheets: no cell of it becomes a formula, and nothing hides in one."""

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from typing import Final

from game_operator.text import visible

#: A spreadsheet takes a cell that begins with one of these for a formula, whatever quotes are around it. The last four
#: are the wide forms of the first, which some spreadsheets read alike.
_FORMULA: Final = ("=", "+", "-", "@", "＝", "＋", "－", "＠")
#: Where lists are separated by semicolons, as in much of Europe, a spreadsheet ends cells at one, whatever quotes are
#: around the text.
_BEGINS_INSIDE: Final = re.compile(rf";(?=\s*[{re.escape(''.join(_FORMULA))}])")


class _Line:
    """What ``csv.writer`` writes to: it keeps the latest line."""

    text = ""

    def write(self, text: str) -> None:
        self.text = text


def csv_lines(rows: Iterable[Sequence[object]]) -> Iterator[str]:
    r"""
    Yield *rows* as lines of CSV (RFC 4180), each with its line end, CR LF; only one row is in memory.

    Control characters, line ends and tabs among them, and those that are invisible or turn the text around, are
    written as escapes, such as ``\n`` and ``\u202e``. A text that begins with ``=``, ``+``, ``-`` or ``@`` gets an
    apostrophe in front, also where spaces come before it: a spreadsheet would run it as a formula. So does what follows
    a semicolon in a text, where spreadsheets of other countries begin a cell. An int and a finite Decimal stay numbers,
    negative ones too. None is an empty cell. Open a file for it with ``newline=""`` and ``encoding="utf-8"``.
    """
    line = _Line()
    writer = csv.writer(line, lineterminator="\r\n")
    for row in rows:
        writer.writerow([_cell(value) for value in row])
        yield line.text


def _cell(value: object) -> str:
    if value is None:
        return ""
    if type(value) is int:  # Not a subclass, whose str() may be any text.
        return str(value)
    if type(value) is Decimal and value.is_finite():
        return f"{value:f}"
    # Half of a surrogate pair has no bytes in UTF-8.
    text = visible(str(value).encode(errors="backslashreplace")).replace("\n", "\\n").replace("\t", "\\t")
    text = _BEGINS_INSIDE.sub(";'", text)
    return f"'{text}" if text.lstrip().startswith(_FORMULA) else text
