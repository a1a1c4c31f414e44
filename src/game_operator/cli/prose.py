"""Sentences for people, wrapped to the terminal; whatever strangers wrote stands in them literally."""

import os
import shutil
import sys
from typing import Final

from rich.cells import cell_len, chop_cells
from rich.console import Console
from rich.text import Text

from game_operator.cli.output import say, visible

__all__ = ["tell", "width"]

_LEAST, _MOST = 40, 100
_CUT: Final = " …"


def width() -> int:
    """Return how many columns sentences take: those of the terminal, and in a pipe those of a usual page."""
    given = sys.stdout.isatty() or "COLUMNS" in os.environ
    return max(_LEAST, min(_MOST, shutil.get_terminal_size((_MOST, 24)).columns if given else _MOST))


def tell(
    text: str,
    *,
    first: str = "",
    indent: str = "",
    style: str = "",
    most: int | None = None,
    anywhere: bool = False,
) -> int:
    """
    Print *text* in lines, the first of them behind *first*, and the others behind *indent*; return how many.

    Args:
        text: What is said; line breaks in it are shown as such escapes.
        first: Stands before the first line.
        indent: Stands before the other lines.
        style: Of all of it.
        most: How many lines at most; the last one then says that there is more.
        anywhere: Whether lines may end in the middle of a word, as those of a document without blanks must.
    """
    room = max(_LEAST // 2, width() - max(cell_len(first), cell_len(indent)))
    lines = _lines(visible(text), room, most, anywhere=anywhere)
    for number, line in enumerate(lines):
        say((indent if number else first) + line, style=style)
    return len(lines)


def _lines(text: str, room: int, most: int | None, *, anywhere: bool) -> list[str]:
    if anywhere:
        lines = chop_cells(text, room)
    else:
        console = Console(width=room, markup=False, emoji=False, highlight=False)
        lines = [line.plain.rstrip() for line in Text(text).wrap(console, room)]
    if most is not None and len(lines) > most:
        lines = lines[:most]
        lines[-1] = _shortened(lines[-1], room, anywhere=anywhere)
    return lines or [""]


def _shortened(line: str, room: int, *, anywhere: bool) -> str:
    while line and cell_len(line + _CUT) > room:
        line = line[:-1] if anywhere or " " not in line else line.rpartition(" ")[0]
    return line.rstrip(" .,;:") + _CUT
