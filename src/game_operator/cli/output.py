"""
Output: exactly one JSON document for programs, and text and tables for people.

With ``--json`` only ``answer`` writes to stdout. What comes from the service is shown literally: it can neither style
our tables nor control a terminal.

People see the same document, a record as lines and a list of records as a table. A view says which parts are shown, and
which of their fields, in order. It has the fields by the path of the part:
``{"": "state why", "bet.calls": "tx_id amount_cents"}``. Units are those of the names: ``_cents`` are shown as amounts
in currency units, and ``_millis`` as times, so that a view leaves out lengths of time.
"""

import json
import os
import sys
import unicodedata
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from decimal import Decimal
from functools import reduce
from typing import Any, Final, TypeAlias

from rich.console import Console
from rich.table import Table
from rich.text import Text

from game_operator.errors import one_line
from game_operator.money import amount_from_cents
from game_operator.text import when

_WIDTH_OF_A_PIPE = 160
#: More columns than any table has.
_WIDEST = 1_000_000
_LARGEST_EXPONENT = 64
#: Whether the command that runs was given ``--json``.
_AS_JSON = ContextVar("_AS_JSON", default=False)
_FIRST_IDS: Final = 5
_NOTHING: Final[tuple[object, ...]] = (None, "", (), [], {})

View: TypeAlias = Mapping[str, str]
#: A record of a document: a mapping or a named tuple. Any: JSON.
Record: TypeAlias = Any


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
        console(error=error).print(Text(visible(text), style=style), soft_wrap=True)


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
    screen = console()
    table = Table(title=Text(title), title_justify="left")
    for heading in headings:
        table.add_column(heading, justify="right" if heading in numbers else "left", no_wrap=True)
    for row in listed:
        table.add_row(*map(Text, row))
    if screen.measure(table, options=screen.options.update_width(_WIDEST)).maximum <= screen.width:
        screen.print(table)
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
        console().print(Text.assemble((name.ljust(width), "dim"), "  ", value), soft_wrap=True)


def console(*, error: bool = False) -> Console:
    """Return the console for results, or for what is not the result: errors and progress."""
    # In a pipe rich would take 80 columns, and fold ids that a script wants whole.
    has_width = error or sys.stdout.isatty() or "COLUMNS" in os.environ
    width = None if has_width else _WIDTH_OF_A_PIPE
    return Console(stderr=error, width=width, highlight=False, markup=False, emoji=False)


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """Show on stderr, if that is a terminal, that *what* is under way."""
    with console(error=True).status(Text(what)):
        yield


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


def answer(document: Mapping[str, object], *sentences: str, view: View | None = None) -> None:
    """Write *document* for a program that asked for it by ``--json``; show *sentences* and the *view* to people."""
    if wants_json():
        write_document(document)
        return
    for sentence in sentences:
        say(sentence)
    show(document, view or {})


def answer_list(name: str, found: Sequence[Record], limit: int, columns: str) -> None:
    """Answer with the first *limit* records of *found*, and whether there are more."""
    more = len(found) > limit
    nothing = [] if found else [f"There are no such {name}."]
    answer({name: found[:limit], "more": more}, *nothing, view={name: columns})
    if more:
        say(f"There are more than these {limit}: pass a greater --limit.")


def show(document: Mapping[str, object], view: View) -> None:
    """Show the *view* of a document to people."""
    for path, names in view.items():
        _show_part(path, names.split(), reduce(_member, filter(None, path.split(".")), document))


def _member(record: Record, name: str) -> Record:
    return None if record is None else _fields(record).get(name)


def _fields(record: Record) -> Mapping[str, Any]:
    fields: Mapping[str, Any] = record if isinstance(record, Mapping) else record._asdict()
    return fields


def _show_part(path: str, names: list[str], part: Record) -> None:
    """Show a record, without what is empty; or records, also by their names, which are then the first field."""
    if part is None:
        return
    if path and isinstance(part, Mapping) and all(map(_is_record, part.values())):
        part = [{names[0]: name, **_fields(record)} for name, record in part.items()]
    if _is_record(part):
        show_details(_lines(names, _fields(part)))
    else:
        show_records(label(path.rpartition(".")[2]).capitalize(), names, part)


def _lines(names: list[str], fields: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield name and value of each field that is not empty; of a list, each value."""
    for name in names:
        value = fields.get(name)
        values = value if isinstance(value, list | tuple) and not _is_record(value) else [value]
        for each in values:
            if each not in _NOTHING:
                yield label(name), cell(name, each)


def _is_record(value: object) -> bool:
    return isinstance(value, Mapping) or hasattr(value, "_asdict")


def show_records(title: str, names: Sequence[str], records: Iterable[Record]) -> None:
    """Show the fields *names* of *records* as a table, without columns that are empty."""
    listed = list(map(_fields, records))
    # The first column says what the rows are about, whatever stands there.
    used = [name for name in names if name == names[0] or any(each.get(name) not in _NOTHING for each in listed)]
    numbers = {label(name) for name in used if all(_is_number(name, each.get(name)) for each in listed)}
    if listed:
        rows = [[cell(name, each.get(name)) for name in used] for each in listed]
        show_rows(title, tuple(map(label, used)), rows, numbers=numbers)


def _is_number(name: str, value: object) -> bool:
    is_time = name.endswith("_millis")
    return not is_time and (value is None or (isinstance(value, int | Decimal) and not isinstance(value, bool)))


def label(name: str) -> str:
    """Return the name of a field for people: ``opened at (UTC)`` for ``opened_at_millis``."""
    return name.removesuffix("_cents").replace("_millis", " (UTC)").replace("_", " ")


def cell(name: str, value: Record) -> str:
    """Return the value of the field *name* for people, by its unit."""
    match value:
        case None | "" | () | []:
            return "–"
        case bool():
            return "yes" if value else "no"
        case int() if name.endswith("_millis"):
            return when(value)
        case int() if name.endswith("_cents"):
            return str(amount_from_cents(value))
        case Decimal():
            return format(value, "f")
        case float():
            return f"{value:g}"
        case Mapping():
            return ", ".join(_member_in_words(name, each, item) for each, item in value.items())
        case tuple() if _is_record(value):
            return cell(name, _fields(value))
        case list() | tuple():
            return ", ".join(cell(name, each) for each in value)
        case _:
            return str(value)


def _member_in_words(name: str, member: str, value: Record) -> str:
    # The unit is in the name of the member; or in that of the field, as where amounts are by currency.
    if member.endswith(("_cents", "_millis")):
        return f"{label(member)} {cell(member, value)}"
    return f"{member} {cell(name, value)}"


def show_kinds(findings: Iterable[Record], *ids: str) -> None:
    """Show *findings* as a table by kind: how many, the first of their *ids*, and what the first one says."""
    by_kind: dict[str, list[Mapping[str, Any]]] = {}
    for each in map(_fields, findings):
        by_kind.setdefault(each["kind"], []).append(each)
    rows = []
    for kind, found in by_kind.items():
        named = (str(next(filter(None, (each.get(name) for name in ids)), "–")) for each in found)
        first = list(dict.fromkeys(named))[:_FIRST_IDS]
        more = ["…"] if len(found) > len(first) else []
        rows.append(
            {"kind": kind, "findings": len(found), "first": first + more, "detail_of_first": found[0]["detail"]}
        )
    show_records("Findings", ("kind", "findings", "first", "detail_of_first"), rows)


def explained_at(what: str, name: str) -> str:
    """Return the heading of the site that explains *name*, which is *what* a ledger reports: doctor or anomaly."""
    return f"reference/findings.html#{what}-{name.replace(' ', '-')}"


#: The mark and the style of what a check found.
_LOOK: Final = {
    **dict.fromkeys(("ok", "fine"), ("✓", "green")),
    **dict.fromkeys(("problem", "unreachable", "finding"), ("✗", "red")),
    **dict.fromkeys(("skipped", "not visible"), ("·", "dim")),
    "advice": ("→", ""),
}


def show_check(outcome: str, name: str, found: str, **more: str) -> None:
    """Show what a check of a doctor found, and what there is *more*: ``to_do``, ``why``, ``assumed``, ``see``."""
    mark, style = _LOOK[outcome]
    say(f"{mark} {name}: {found}", style=style)
    for about, text in more.items():
        if text:
            say(f"    {label(about)}: {text}")
