"""
Output: text and tables for people, exactly one JSON document for programs, and files.

A command prints both. With ``--json`` only ``answer`` writes to stdout, and without it only the other functions do.

What comes from the service is shown literally: it can neither style our tables nor control a terminal.
"""

import json
import os
import sys
import tempfile
import unicodedata
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import TypeAlias

from rich.console import Console
from rich.table import Table
from rich.text import Text

from game_operator.errors import ConfigurationError, one_line, shown

_WIDTH_OF_A_PIPE = 160
#: More columns than any table has.
_WIDEST = 1_000_000
_LARGEST_EXPONENT = 64
#: Only its owner may read and write a file.
SECRET_MODE = 0o600
#: All may read a file, unless the umask forbids it.
PUBLIC_MODE = 0o644
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


def when(millis: int) -> str:
    """Return a time for people, in UTC; or Unix milliseconds after the year 9999, where a wrong clock may lead."""
    try:
        moment = datetime.fromtimestamp(millis / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return f"{millis} ms"
    return moment.strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]


def counted(number: int, noun: str) -> str:
    """Return *number* with *noun*, in the plural if it is not 1."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def cell(value: object, style: str = "") -> Text:
    """Return *value* for a table: literal, without markup."""
    return Text(visible(value), style=style, overflow="fold")


def say(text: str, *, style: str = "", error: bool = False) -> None:
    """Print one line for people, literal, neither cut nor folded; on stderr, and for programs too, if *error*."""
    if error or not wants_json():
        _console(error=error).print(cell(text, style), soft_wrap=True)


def remark(text: str, *, style: str = "") -> None:
    """Print one line on stderr, for people alone: what a program finds in the document, or need not know."""
    if not wants_json():
        say(text, style=style, error=True)


def show_rows(
    title: str, headings: Sequence[str], rows: Iterable[Sequence[object]], *, numbers: Container[str]
) -> None:
    """
    Print a table, the columns named in *numbers* flush right; or a list, where the table is wider than the terminal.

    No value is ever cut or folded: what is left of an amount would look like another amount. A row whose first value
    is "" belongs to the one before it.
    """
    if wants_json():
        return
    listed = [[visible(value) for value in row] for row in rows]
    console = _console()
    table = Table(title=title, title_justify="left")
    for heading in headings:
        table.add_column(heading, justify="right" if heading in numbers else "left", no_wrap=True)
    for row in listed:
        table.add_row(*map(cell, row))
    if console.measure(table, options=console.options.update_width(_WIDEST)).maximum <= console.width:
        console.print(table)
        return
    say(title, style="italic")
    for row in listed:
        if row[0]:
            say("")
        show_details((heading, value) for heading, value in zip(headings, row, strict=True) if value)


def show_details(rows: Iterable[tuple[str, object]]) -> None:
    """Print names and values, a line each; the values whole, so that they can be copied."""
    if wants_json():
        return
    listed = list(rows)
    width = max(len(visible(name)) for name, _ in listed)
    for name, value in listed:
        line = Text.assemble((visible(name).ljust(width), "dim"), "  ", visible(value))
        _console().print(line, soft_wrap=True)


def _has_width() -> bool:
    """Return whether stdout has a width that somebody sees or chose; a pipe has none."""
    return sys.stdout.isatty() or "COLUMNS" in os.environ


def _console(*, error: bool = False) -> Console:
    """Return the console for results, or for what is not the result: errors and progress."""
    # In a pipe rich would take 80 columns, and fold ids that a script wants whole.
    width = None if error or _has_width() else _WIDTH_OF_A_PIPE
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


def answer(document: Mapping[str, object], *sentences: str) -> None:
    """Write *document* for a program that asked for one by ``--json``, or print *sentences* for people."""
    if wants_json():
        write_document(document)
    for sentence in sentences:
        say(sentence)


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


def write_privately(path: Path, content: str | bytes, mode: int = SECRET_MODE) -> None:
    """Write or replace *path*; raise OSError or ValueError if that is not possible, and leave nothing behind."""
    # Written beside and moved, so that neither the mode nor a link of what was there counts.
    handle, name = tempfile.mkstemp(prefix=".game-operator-", dir=path.parent)
    beside = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        beside.chmod(mode)
        beside.replace(path)
    finally:
        # Still there if it could not be moved, as to where a folder is.
        beside.unlink(missing_ok=True)


def _is_device(path: Path) -> bool:
    """Return whether *path* is a device or a pipe: a file moved there would take its place for the whole machine."""
    return path.absolute().parent == Path("/dev") or (path.exists() and not path.is_file())


def check_writable(option: str, path: Path, ending: str, *, may_be_device: bool = False) -> None:
    """
    Check before the work that a file can be written to *path*, which *option* names.

    A file that exists is overwritten only if its name has the *ending* of what is written, such as ``.html``.

    Raises:
        ConfigurationError: There is no folder for it, nothing can be written there, *path* is not a file, or is one
            with another ending.
    """
    folder = shown(str(path.parent))
    if not path.parent.is_dir():
        raise ConfigurationError(f"{option}: there is no folder {folder}. Make it first.")
    # Not Path.exists(), which raises for a name that is too long.
    if os.path.lexists(path):
        if may_be_device and _is_device(path) and not path.is_dir():
            return
        if not path.is_file():
            raise ConfigurationError(f"{option} {shown(str(path))} is not a file. Pass a file that may be overwritten.")
        if path.suffix.lower() != ending:
            raise ConfigurationError(
                f"{option} {shown(str(path))} exists, and only a file whose name ends in {ending} is overwritten. Pass "
                "another name."
            )
    try:
        # What the rights of the folder say is not all: a file system may be read-only or full.
        tempfile.TemporaryFile(prefix=".game-operator-", dir=path.parent).close()
    except OSError as refused:
        raise ConfigurationError(
            f"{option}: nothing can be written in the folder {folder}: {refused.strerror}. Pass a file in another one."
        ) from None


def is_written(path: Path, text: str, what: str) -> bool:
    """
    Write *text*, the *what* of a run that is over, to *path*: a new file is its owner's alone.

    Return whether that was possible, and say why not.
    """
    try:
        if _is_device(path):
            with path.open("ab") as file:
                file.write(text.encode())
        else:
            write_privately(path, text)
    except (OSError, ValueError) as failed:
        problem = getattr(failed, "strerror", None) or failed
        say(f"The {what} could not be written to {path}: {problem}.", style="red", error=True)
        return False
    return True
