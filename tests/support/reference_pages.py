"""The pages of docs/reference that the program itself describes: its commands, codes, profile fields and tables."""

import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import fields
from functools import partial
from html import escape
from inspect import cleandoc
from typing import Any, Final, Literal, get_args, get_origin

from game_operator import Profile, codes, errors
from game_operator.cli import app
from game_operator.cli import errors as cli_errors
from game_operator.ledger.engine.tables import VERSION, ddl
from game_operator.profile import CALLS, DEFAULT_FIELDS, BodyParser
from game_operator_testkit.provider.delivery import Finality, finality
from tests.support.documents import ROOT

_PREFIX: Final = "game_operator_"
#: A code and its meaning, as the page about webhooks has them.
_MEANING: Final = re.compile(r"^\| ([A-Z_]+) \| ([^|]+) \| ", re.MULTILINE)
_FINALITY: Final = {Finality.FINAL: "final", Finality.REPEAT: "send again"}


_OF_A_TABLE: Final = "--accounts-"
_LINK_TO_A_TABLE: Final = "[your own table of balances](../cli.md#your-own-table-of-balances)"


def reference_pages() -> dict[str, str]:
    """Return the text of each page by its name in docs."""
    written = {f"reference/{name}": _page(*parts) for name, parts in _PAGES.items()}
    return written | {f"reference/{name}": text for name, text in _pages_of_commands()}


def _page(title: str, readers: str, lines: Callable[[], Iterator[str]]) -> str:
    return "\n".join([f"# {title}", "", readers, "", *lines()]).rstrip() + "\n"


def _table(*header: str, rows: Iterable[Iterable[str]]) -> Iterator[str]:
    yield f"| {' | '.join(header)} |"
    yield "|---" * len(header) + "|"
    for row in rows:
        yield f"| {' | '.join(' '.join(cell.split()) for cell in row)} |"
    yield ""


def _code(text: str) -> str:
    if "|" in text:  # It ends a cell, in code too, and not every reader of Markdown takes a backslash before it.
        return f"<code>{escape(text).replace('|', '&#124;')}</code>"
    return f"`{text}`" if text else ""


# Any, here and below: Typer keeps the classes of commands and parameters to itself.
def _commands() -> Iterator[str]:
    whole: Any = app.whole()
    yield from (*_usage(whole, "game-operator"), "## The commands", "")
    yield from _table("Command", "What it does", rows=_rows_of_commands(whole))
    # Those of a table are the same in some forty commands: the page has them once.
    yield from ("## Your own table of balances", "")
    serve = whole.commands["serve"]
    records = [record for record in _records(serve, serve.context_class(serve)) if record[0].startswith(_OF_A_TABLE)]
    yield from _table("Option", "Meaning", rows=[(_code(name), _marked(text)) for name, text in records])


def _rows_of_commands(whole: Any) -> Iterator[tuple[str, str]]:
    for path, command in _leaves(whole, "game-operator"):
        first = _marked(command.get_short_help_str(limit=200))
        yield f"[`{path.removeprefix('game-operator ')}`](cli/{_file(path)})", first


def _leaves(command: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Yield each command that does something, with the words that call it."""
    parts: dict[str, Any] = getattr(command, "commands", {})
    if not parts:
        yield path, command
    for name, part in parts.items():
        yield from _leaves(part, f"{path} {name}")


def _file(path: str) -> str:
    return path.removeprefix("game-operator ").replace(" ", "-") + ".md"


def _pages_of_commands() -> Iterator[tuple[str, str]]:
    readers = "For engineers and staff who look up an option. Read first: [the command line](../cli.md)."
    for path, command in _leaves(app.whole(), "game-operator"):
        yield f"cli/{_file(path)}", _page(path, readers, partial(_usage, command, path))


def _usage(command: Any, path: str) -> Iterator[str]:
    yield from (_marked(cleandoc(command.help)), "")
    context = command.context_class(command, info_name=path)
    usage = " ".join(command.collect_usage_pieces(context))
    yield from ("```text", f"{path} {usage}", "```", "")
    records = _records(command, context)
    rows = [(_code(name), _marked(text)) for name, text in records if not name.startswith(_OF_A_TABLE)]
    if len(rows) < len(records):
        rows.append((_code(f"{_OF_A_TABLE}…"), f"Options of {_LINK_TO_A_TABLE}."))
    yield from _table("Argument, option", "Meaning", rows=rows) if rows else ()


def _records(command: Any, context: Any) -> list[tuple[str, str]]:
    records = (each.get_help_record(context) for each in command.get_params(context) if each.name != "help")
    return [record for record in records if record]


def _marked(text: str) -> str:
    """Return *text* with what Markdown would take for a mark in code: options, settings and addresses."""
    return re.sub(r"(?<![\w`-])(--[a-z][\w-]*|GAME_OPERATOR_\w+|sqlite:///\S+\.db|postgresql://…)(?!`)", r"`\1`", text)


def _codes() -> Iterator[str]:
    yield from (
        "## Errors in Python",
        "",
        "A program branches on attributes of an error. [The classes](api/errors.md) say where to import them from.",
        "",
        "```text",
    )
    yield from (
        (cleandoc(errors.__doc__ or "").partition("::\n\n")[2].partition("\n\n``game_op")[0]),
        "```",
        "",
    )
    yield from ("## Exit codes of the command", "")
    yield from _table("Code", "Meaning", rows=_exit_codes())
    yield from ("## A grant that is refused (spec §7.2)", "")
    yield from _table("Code", "Message", rows=((_code(code), text) for code, text in codes.GRANT_MESSAGES.items()))
    yield from ("## A webhook that is refused (assumed)", "")
    yield from ("What each code means, and what a service may conclude from it for each call:", "")
    meanings = dict(_MEANING.findall((ROOT / "docs" / "how-to" / "webhooks.md").read_text()))
    yield from _table(
        *("Code", "Meaning", *CALLS),
        rows=(
            (_code(each), meanings[each], *(_FINALITY[finality(call, each)] for call in CALLS))
            for each in codes.WebhookErrorCode
        ),
    )
    yield "*Final*: the call moved nothing and, unchanged, never will."
    yield from ("More: [error codes](../how-to/webhooks.md#error-codes).", "")
    for kind, heading in ((codes.BetState, "State of a bet"), (codes.GameStatus, "Status of a game")):
        yield from (f"## {heading}", "", _markdown(kind.__doc__ or ""), "")
        yield from (", ".join(map(_code, kind)) + ".", "")
    yield from ("## Genres (spec §2.5)", "", ", ".join(map(_code, codes.Genre)) + ".")


def _exit_codes() -> Iterator[tuple[str, str]]:
    """Yield each exit code with what the help of the whole command says of it."""
    told = " ".join((app.game_operator.__doc__ or "").split()).partition("Exit codes: ")[2]
    meanings = dict(re.findall(r"(\d+) (.+?)(?=, \d|\.$)", told))
    yield from ((str(int(code)), meanings[str(int(code))]) for code in cli_errors.ExitCode)


def _markdown(docstring: str) -> str:
    """Return a docstring with links to the decisions that it names."""
    text = cleandoc(docstring).replace("``", "`")
    return re.sub(r"docs/decisions/(\d{4})", lambda found: f"decision {int(found[1])}", text)


def _profile() -> Iterator[str]:
    yield "All of this is **assumed**: the specification does not show it. A number in brackets is that of a"
    yield "[decision](../decisions/index.md). `game-operator profile show` prints the defaults as TOML, which"
    yield from ("`Profile.from_toml` and `--profile FILE` read.", "")
    about = _attributes(Profile.__doc__ or "")
    default = Profile()
    rows = [
        (_code(each.name), _type(each.type), _default(default, each.name), about[each.name]) for each in _settings()
    ]
    yield from _table("Field", "Type", "Default", "Meaning", rows=rows)
    yield from ("## Names of fields", "", "Where each value of a call is looked for in a body; the first one present")
    yield from ("counts. A dot steps into an object. `field.operation` stands in the place of `field`.", "")
    rows_of_names = ((_code(name), ", ".join(map(_code, names))) for name, names in DEFAULT_FIELDS.items())
    yield from _table("Field", "Names", rows=rows_of_names)


def _settings() -> list[Any]:  # Any: fields of a dataclass, of any type.
    return [each for each in fields(Profile) if each.init]


def _type(annotation: Any) -> str:
    if get_origin(annotation) is Literal:
        return " or ".join(_code(repr(choice)) for choice in get_args(annotation))
    if annotation == BodyParser | None:
        return "`BodyParser` or `None`"
    return _code(annotation.__name__ if isinstance(annotation, type) else str(annotation).rpartition("abc.")[2])


def _default(profile: Profile, name: str) -> str:
    return "see below" if name == "fields" else _code(repr(getattr(profile, name)))


def _attributes(docstring: str) -> dict[str, str]:
    """Return the texts of a docstring's attributes by name."""
    section = cleandoc(docstring).partition("Attributes:\n")[2].partition("\n\n")[0]
    found = re.findall(r"^    (\w+): (.*?)(?=^    \w|\Z)", section, re.MULTILINE | re.DOTALL)
    return {name: _linked(" ".join(text.replace("``", "`").split())) for name, text in found}


def _linked(text: str) -> str:
    """Return *text* with a link to each decision whose number is in brackets."""

    def link(found: re.Match[str]) -> str:
        (note,) = (ROOT / "docs" / "decisions").glob(f"{found[1]}-*.md")
        return f"([{int(found[1])}](../decisions/{note.name}))"

    return re.sub(r"\((\d{4})\)", link, text)


def _schema() -> Iterator[str]:
    yield f"This is version {VERSION} of the tables. Their names begin with `table_prefix`, by default `{_PREFIX}`,"
    yield "which is left out here. Amounts are whole cents, times Unix milliseconds. What each table is for:"
    yield "[the ledger](tables.md). `game-operator ledger schema --sql --dialect postgres`, or `sqlite`,"
    yield from ("prints the statements, with all constraints and indexes.", "")
    postgres = ddl("postgres", _PREFIX)
    types, keys = _postgres_types(postgres), _primary_keys(postgres)
    with closing(sqlite3.connect(":memory:")) as database:
        database.executescript(ddl("sqlite", _PREFIX))
        for table in sorted(types):
            yield from (
                f"## {table.removeprefix(_PREFIX)}",
                "",
                f"Primary key: {', '.join(map(_code, keys[table]))}.",
                "",
            )
            columns = database.execute("SELECT * FROM pragma_table_info(?)", (table,)).fetchall()
            rows = (
                (_code(name), types[table].get(name, "-"), kind.lower(), "" if filled or name in keys[table] else "yes")
                for _, name, kind, filled, *_ in columns
            )
            yield from _table("Column", "PostgreSQL", "SQLite", "May be NULL", rows=rows)


def _postgres_types(statements: str) -> dict[str, dict[str, str]]:
    """Return the type of each column by table."""
    return {name: dict(_COLUMN.findall(body)) for name, body in _CREATE.findall(statements)}


def _primary_keys(statements: str) -> dict[str, list[str]]:
    return {
        name: re.findall(r"\w+", "".join(_KEY.findall(body)[0]).replace("PRIMARY KEY", ""))
        for name, body in _CREATE.findall(statements)
    }


_CREATE: Final = re.compile(r"^CREATE TABLE (?:IF NOT EXISTS )?(\w+) \(\n(.*?)^\)", re.MULTILINE | re.DOTALL)
_COLUMN: Final = re.compile(r"^    ([a-z_]+) ([a-z]+)\b", re.MULTILINE)
#: Beside the column, or in a line for the whole table.
_KEY: Final = re.compile(r"^    (?:(\w+) [^\n]*PRIMARY KEY|PRIMARY KEY \(([^)]*)\))", re.MULTILINE)

#: By file: the title, who reads it, and what writes it.
_PAGES: Final[dict[str, tuple[str, str, Callable[[], Iterator[str]]]]] = {
    "cli.md": (
        "The command line",
        (
            "For engineers and staff who look up a command or an option. You need: "
            '`pip install "game-operator[cli]"`, and the testkit for `sandbox`, `storm`, `certify`, `call` and `demo`.'
        ),
        _commands,
    ),
    "codes.md": (
        "Codes and errors",
        "For engineers who look up a code, an error or an exit code. You need: nothing.",
        _codes,
    ),
    "profile.md": (
        "Profile fields",
        "For engineers whose provider differs from what is assumed. Read first: [webhooks](../how-to/webhooks.md).",
        _profile,
    ),
    "schema.md": (
        "The tables of a ledger",
        "For database administrators and analysts. Read first: [the ledger](tables.md).",
        _schema,
    ),
}
