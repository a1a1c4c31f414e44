"""
One renderer: people see the document that ``--json`` prints, a record as lines and a list of records as a table.

A view says which parts of a document are shown, and which of their fields, in order. It has the fields by the path of
the part: ``{"": "state why", "bet.calls": "tx_id amount_cents"}``. Units are those of the names: ``_cents`` are shown
as amounts in currency units, and ``_millis`` as times, so that a view leaves out lengths of time.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from functools import reduce
from typing import Any, Final, TypeAlias

from game_operator.cli.output import say, show_details, show_rows, wants_json, write_document
from game_operator.money import amount_from_cents

View: TypeAlias = Mapping[str, str]
#: A record of a document: a mapping or a named tuple. Any: JSON.
Record: TypeAlias = Any

_FIRST_IDS: Final = 5
_NOTHING: Final[tuple[object, ...]] = (None, "", (), [], {})


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


def when(millis: int) -> str:
    """Return a time for people, in UTC; or Unix milliseconds after the year 9999, where a wrong clock may lead."""
    try:
        moment = datetime.fromtimestamp(millis / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return f"{millis} ms"
    return moment.strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]


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


#: The mark and the style of what a check found.
_LOOK: Final = {
    **dict.fromkeys(("ok", "fine"), ("✓", "green")),
    **dict.fromkeys(("problem", "unreachable", "finding"), ("✗", "red")),
    **dict.fromkeys(("skipped", "not visible"), ("·", "dim")),
    "advice": ("→", ""),
}


def show_check(outcome: str, name: str, found: str, **more: str) -> None:
    """Show what a check of a doctor found, and what there is *more*: ``to_do``, ``why``, ``assumed``."""
    mark, style = _LOOK[outcome]
    say(f"{mark} {name}: {found}", style=style)
    for about, text in more.items():
        if text:
            say(f"    {label(about)}: {text}")
