"""CSV for spreadsheets: no cell of it becomes a formula."""

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from typing import Final

#: A spreadsheet takes a cell that begins with one of these for a formula, whatever quotes are around it. The last four
#: are the wide forms of the first, which some spreadsheets read alike.
_FORMULA: Final = ("=", "+", "-", "@", "＝", "＋", "－", "＠")
#: These are dropped by some spreadsheets, and what follows is read as a formula.
_DROPPED: Final = ("\t", "\r", "\n")
#: Where lists are separated by semicolons, as in much of Europe, a spreadsheet ends cells at one, and at line ends,
#: whatever quotes are around the text.
_BEGINS_INSIDE: Final = re.compile(rf"([;\r\n])(?=[^\S\r\n]*[{re.escape(''.join(_FORMULA))}])")


class _Line:
    """What ``csv.writer`` writes to: it keeps the latest line."""

    text = ""

    def write(self, text: str) -> None:
        self.text = text


def csv_text(rows: Iterable[Sequence[object]]) -> str:
    """Return *rows* as one CSV text, as ``csv_lines`` writes each."""
    return "".join(csv_lines(rows))


def csv_lines(rows: Iterable[Sequence[object]]) -> Iterator[str]:
    """
    Yield *rows* as lines of CSV (RFC 4180), each with its line end, CR LF; only one row is in memory.

    A text that begins with ``=``, ``+``, ``-``, ``@``, a tab or a line end gets an apostrophe in front, also where
    spaces come before it: a spreadsheet would run it as a formula. So does what follows a semicolon or a line end in
    a text, where spreadsheets of other countries begin a cell. An int and a finite Decimal stay numbers, negative
    ones too. None is an empty cell. Open a file for it with ``newline=""`` and ``encoding="utf-8"``.
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
    text = _BEGINS_INSIDE.sub(r"\1'", str(value).encode(errors="backslashreplace").decode())
    return f"'{text}" if text.startswith(_DROPPED) or text.lstrip().startswith(_FORMULA) else text
