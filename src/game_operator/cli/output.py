"""
Output: text and tables for people, and exactly one JSON document for programs.

With ``--json`` only ``answer`` writes to stdout, and without it only the other functions do. What comes from the
service is shown literally: it can neither style our tables nor control a terminal.
"""

import json
import os
import sys
import unicodedata
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from decimal import Decimal
from typing import TypeAlias

from rich.console import Console
from rich.table import Table
from rich.text import Text

from game_operator.errors import one_line

_WIDTH_OF_A_PIPE = 160
#: More columns than any table has.
_WIDEST = 1_000_000
_LARGEST_EXPONENT = 64
#: Whether the command that runs was given ``--json``.
_AS_JSON = ContextVar("_AS_JSON", default=False)

#: Shows what is under way, how much of it is done, and of how much.
ShowProgress: TypeAlias = Callable[[str, int, int], None]


def visible(value: object) -> str:
    """Return *value* as text in which everything that does not print stands as its escape, as in ``repr``."""
    text = str(value)
    if text.isprintable():
        return text
    return "".join(letter if unicodedata.category(letter) == "Zs" else one_line(letter) for letter in text)


def counted(number: int, noun: str) -> str:
    """Return *number* with *noun*, in the plural if it is not 1."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def say(text: str, *, style: str = "", error: bool = False) -> None:
    """Print one line for people, literal, neither cut nor folded; on stderr, and for programs too, if *error*."""
    if error or not wants_json():
        _console(error=error).print(Text(visible(text), style=style), soft_wrap=True)


def remark(text: str, *, style: str = "") -> None:
    """Print one line on stderr, for people alone: what a program finds in the document, or need not know."""
    if not wants_json():
        say(text, style=style, error=True)


def show_rows(
    title: str, headings: Sequence[str], rows: Iterable[Sequence[object]], *, numbers: Container[str]
) -> None:
    """
    Print a table, the columns named in *numbers* flush right; or a list, where the table is wider than the terminal.

    No value is ever cut or folded: what is left of an amount would look like another amount.
    """
    if wants_json():
        return
    listed = [[visible(value) for value in row] for row in rows]
    console = _console()
    table = Table(title=Text(title), title_justify="left")
    for heading in headings:
        table.add_column(heading, justify="right" if heading in numbers else "left", no_wrap=True)
    for row in listed:
        table.add_row(*map(Text, row))
    if console.measure(table, options=console.options.update_width(_WIDEST)).maximum <= console.width:
        console.print(table)
        return
    say(title, style="italic")
    for row in listed:
        say("")
        show_details(zip(headings, row, strict=True))


def show_details(rows: Iterable[tuple[str, object]]) -> None:
    """Print names and values, a line each; the values whole, so that they can be copied."""
    if wants_json():
        return
    listed = [(visible(name), visible(value)) for name, value in rows]
    width = max((len(name) for name, _ in listed), default=0)
    for name, value in listed:
        _console().print(Text.assemble((name.ljust(width), "dim"), "  ", value), soft_wrap=True)


def _console(*, error: bool = False) -> Console:
    """Return the console for results, or for what is not the result: errors and progress."""
    # In a pipe rich would take 80 columns, and fold ids that a script wants whole.
    has_width = error or sys.stdout.isatty() or "COLUMNS" in os.environ
    width = None if has_width else _WIDTH_OF_A_PIPE
    return Console(stderr=error, width=width, highlight=False, markup=False, emoji=False)


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """Show on stderr, if that is a terminal, that *what* is under way."""
    with _console(error=True).status(Text(what)):
        yield


@contextmanager
def progress() -> Iterator[ShowProgress]:
    """Yield what shows on stderr, if that is a terminal, how far a run is."""
    console = _console(error=True)
    if not console.is_terminal:
        yield lambda *_: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
    from rich.table import Column

    about_it = TextColumn("{task.description}", markup=False, table_column=Column(ratio=1, no_wrap=True))
    columns = (BarColumn(bar_width=20), MofNCompleteColumn(), TimeRemainingColumn(), about_it)
    with Progress(*columns, console=console, transient=True, expand=True) as bar:
        task = bar.add_task("…", total=None)

        def show(about: str, completed: int, total: int) -> None:
            bar.update(task, completed=completed, total=total, description=visible(about))

        yield show


@contextmanager
def answering(*, as_json: bool) -> Iterator[None]:
    """Run a command that answers a program with one document if *as_json*, and else people."""
    before = _AS_JSON.set(as_json)
    try:
        yield
    finally:
        _AS_JSON.reset(before)


def wants_json() -> bool:
    """Return whether the command that runs answers a program."""
    return _AS_JSON.get()


def write_document(document: Mapping[str, object]) -> None:
    """Write *document* as the one line of JSON that ``--json`` promises: ASCII, decimals digit for digit."""
    sys.stdout.write(_json(document) + "\n")
    sys.stdout.flush()


def _json(value: object) -> str:
    match value:
        # JSON has no infinity, which a service's 1e999 is read as: it is written as text, "Infinity".
        case float() | Decimal() if not Decimal(value).is_finite():
            return json.dumps(str(Decimal(value)))
        case Decimal():
            return format(value, "f") if abs(value.adjusted()) <= _LARGEST_EXPONENT else str(value)
        case tuple() if hasattr(value, "_asdict"):  # A named tuple.
            return _json(value._asdict())
        case Mapping():
            return "{" + ",".join(f"{json.dumps(str(name))}:{_json(item)}" for name, item in value.items()) + "}"
        case list() | tuple():
            return "[" + ",".join(map(_json, value)) + "]"
        case _:
            return json.dumps(value, allow_nan=False)
