"""The database that a command works on, and what is said of one that it cannot work on."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from game_operator.errors import ConfigurationError, SchemaError, shown

__all__ = ["DATABASE", "PREFIX", "TablePrefix", "TablesMissingError", "address_of", "check_folder", "file_of"]
__all__ += ["tables_missing"]

#: Where the database's address may stand: on a command line everybody on the machine could read its password.
DATABASE = "GAME_OPERATOR_DATABASE_URL"
PREFIX = "game_operator_"

TablePrefix = Annotated[str, typer.Option(metavar="TEXT", help="How the names of the tables begin.")]

_BEFORE_STATEMENTS = "Run these statements:\n\n"


class TablesMissingError(ConfigurationError):
    """
    There are no tables. Catch it as ``ConfigurationError``.

    Attributes:
        statements: What would make them.
    """

    def __init__(self, message: str, statements: str = "") -> None:
        super().__init__(message)
        self.statements = statements


def address_of(option: str | None) -> str:
    """Return the database's address, from the option or the environment."""
    address = option or os.environ.get(DATABASE)
    if not address:
        raise ConfigurationError(f"There is no database. Pass --database sqlite:///wallet.db, or set {DATABASE}.")
    return address


def file_of(address: str) -> Path | None:
    """Return the file of an SQLite database, or None for any other."""
    if not address.startswith("sqlite:///"):
        return None
    from game_operator.ledger.sqlite import path_of

    path = path_of(address)
    return None if path == ":memory:" else Path(path)


def check_folder(address: str) -> None:
    """Raise ConfigurationError if there is no folder for the file of an SQLite database."""
    file = file_of(address)
    if file is not None and not file.parent.is_dir():
        raise ConfigurationError(f"There is no folder {shown(str(file.parent))}. Make it first.")


@contextmanager
def tables_missing(prefix: str, advice: str) -> Iterator[None]:
    """Turn the error of a ledger that found no tables into one sentence that ends in *advice*, and the statements."""
    try:
        yield
    except SchemaError as refused:
        _, told, statements = str(refused).partition(_BEFORE_STATEMENTS)
        if not told:
            raise
        raise TablesMissingError(missing(prefix, advice), statements) from None


def missing(prefix: str, advice: str) -> str:
    """Return the sentence on tables that are not there."""
    return f"There are no tables {prefix}* in this database. Is --table-prefix right? {advice}"
