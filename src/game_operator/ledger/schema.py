"""The tables: made and migrated on opening, printed on request, and refused when they are newer than this program."""

import re
from collections.abc import Generator
from importlib.resources import files
from typing import Any

from game_operator.errors import ConfigurationError, SchemaError, shown
from game_operator.ledger.script import Execute, Step

__all__ = ["VERSION", "check_prefix", "check_version", "ddl"]

#: The version of the tables that this program reads and writes.
VERSION = 1

_PREFIX = re.compile(r"[a-z_][a-z0-9_]{0,30}")


def check_prefix(prefix: str) -> str:
    """Return *prefix* if a table's name can begin with it; raise ConfigurationError if not."""
    if not _PREFIX.fullmatch(prefix):
        raise ConfigurationError(
            f"table_prefix must be 1 to 31 of a-z, 0-9 and _, and not begin with a digit, not {shown(prefix)}"
        )
    return prefix


def ddl(dialect: str, prefix: str, *, after: int = 0) -> str:
    """Return the statements that make the tables of *dialect*, from version *after* on."""
    folder = files(__package__) / "sql"
    texts = [(folder / f"{dialect}_{version:04}.sql").read_text() for version in range(after + 1, VERSION + 1)]
    return "\n".join(texts).replace("{prefix}", prefix)


def check_version(version: int | None, prefix: str) -> int:
    """
    Return the version to migrate from; 0 when there are no tables.

    Raises:
        SchemaError: The tables are newer than this program.
    """
    if version is not None and version > VERSION:
        raise SchemaError(
            f"The tables {prefix}* have version {version}, and this program knows version {VERSION}. "
            "A newer program has migrated them: upgrade this one, and do not run the two side by side."
        )
    return version or 0


def stored_version(prefix: str) -> Generator[Step, Any, int]:
    """Read the version out of the tables, which must be there."""
    rows = yield Execute(f"SELECT value FROM {prefix}meta WHERE name = ?", ("version",))  # noqa: S608 - a checked prefix
    return int(rows[0][0])
