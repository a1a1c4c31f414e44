"""The tables: made and migrated on opening, printed on request, and refused when they are newer than this program."""

import re
from collections.abc import Generator
from importlib.resources import files
from typing import Any

from game_operator.errors import ConfigurationError, SchemaError, shown
from game_operator.ledger.engine.script import Execute, Kind, Rows, Step

#: The version of the tables that this program reads and writes.
VERSION = 2

#: The question for the oldest version whose programs may still write; NULL in tables of version 1.
OLDEST_WRITER = "SELECT value FROM {prefix}meta WHERE name = 'oldest_writer'"

_PREFIX = re.compile(r"[a-z_][a-z0-9_]{0,30}")


def check_prefix(prefix: str) -> str:
    """Return *prefix* if a table's name can begin with it; raise ConfigurationError if not."""
    if not _PREFIX.fullmatch(prefix):
        raise ConfigurationError(
            f"The table prefix {shown(prefix)} is invalid.",
            setting="table_prefix",
            remedy="Pass 1 to 31 of a-z, 0-9 and _ that do not begin with a digit.",
        )
    return prefix


def ddl(dialect: str, prefix: str, *, after: int = 0) -> str:
    """Return the statements that make the tables of *dialect*, from version *after* on."""
    folder = files(__package__) / "migrations"
    texts = [(folder / f"{dialect}_{version:04}.sql").read_text() for version in range(after + 1, VERSION + 1)]
    return "\n".join(texts).replace("{prefix}", prefix)


def check_version(version: int | None, prefix: str) -> int:
    """Return the version to migrate from, 0 without tables; raise SchemaError if they are newer than this program."""
    if version is not None and version > VERSION:
        raise SchemaError(
            f"The tables {prefix}* have version {version}, and this program knows version {VERSION}. "
            "A newer program has migrated them: upgrade this one. Programs that ran before go on."
        )
    return version or 0


def tables_needed(dialect: str, prefix: str, version: int) -> SchemaError:
    """Return the error for tables that have an older *version* than this program needs, or none (0)."""
    state = f"have version {version}, and this program needs version {VERSION}" if version else "are missing or old"
    return SchemaError(f"The tables {prefix}* {state}. Run these statements:\n\n{ddl(dialect, prefix, after=version)}")


def refuse_writer(oldest: int | None, prefix: str) -> None:
    """Raise SchemaError if programs of this version may not write any more; *oldest* answers OLDEST_WRITER."""
    if oldest is not None and oldest > VERSION:
        raise SchemaError(
            f"The tables {prefix}* were migrated while this program ran: programs older than version {oldest} may not "
            f"write any more, and this one has version {VERSION}. Nothing was written: upgrade it and repeat the call."
        )


def check_writer(prefix: str) -> Generator[Step, Any, None]:
    """Raise SchemaError if programs of this version may not write any more."""
    rows = yield Execute(OLDEST_WRITER.format(prefix=prefix), ())
    refuse_writer(int(rows[0][0]) if rows else None, prefix)


def back(prefix: str) -> Generator[Step, Any, int]:
    """
    Undo the latest migration, so that programs of the version before can be started again; return that version.

    The tables it added stay, with what is known: programs of the version before do not look at them, and going
    forward again finds all of it.

    Raises:
        SchemaError: The migration is not one that only adds tables, or there is none to undo.
    """
    version = yield from stored_version(prefix)
    rows = yield Execute(OLDEST_WRITER.format(prefix=prefix), ())
    oldest = int(rows[0][0]) if rows else version
    if version != VERSION or oldest >= version:
        raise SchemaError(
            f"The tables {prefix}* have version {version}, and programs older than version {oldest} cannot work with "
            "them: there is no way back. Restore a backup, or stay with this version."
        )
    if version == 2:  # Version 1 knows of no such row.
        yield Execute(f"DELETE FROM {prefix}meta WHERE name = 'oldest_writer'", ())  # noqa: S608 - a checked prefix
    yield Execute(f"UPDATE {prefix}meta SET value = {version - 1} WHERE name = 'version'", ())  # noqa: S608
    return version - 1


def has_table(kind: Kind, name: str) -> Generator[Step, Any, bool]:
    """Return whether there is a table called *name*."""
    sql = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?"
    rows: Rows = yield Execute(sql if kind == "sqlite" else "SELECT 1 WHERE to_regclass(?) IS NOT NULL", (name,))
    return bool(rows)


def has_newest_table(kind: Kind, prefix: str) -> Generator[Step, Any, bool]:
    """Return whether the tables that the latest migration adds are there; the way back leaves them."""
    return (yield from has_table(kind, f"{prefix}sources"))


def found_version(kind: Kind, prefix: str) -> Generator[Step, Any, int | None]:
    """Return the version of the tables; None if there are none."""
    if not (yield from has_table(kind, f"{prefix}meta")):
        return None
    rows: Rows = yield Execute(f"SELECT value FROM {prefix}meta WHERE name = 'version'", ())  # noqa: S608 - a checked prefix
    return int(rows[0][0]) if rows else None


def stored_version(prefix: str) -> Generator[Step, Any, int]:
    """Read the version out of the tables, which must be there."""
    rows = yield Execute(f"SELECT value FROM {prefix}meta WHERE name = ?", ("version",))  # noqa: S608 - a checked prefix
    return int(rows[0][0])
