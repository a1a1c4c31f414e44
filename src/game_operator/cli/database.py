"""The database that a command works on, the table of balances in it, and what is said of one that will not do."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from game_operator.errors import ConfigurationError, SchemaError, shown

if TYPE_CHECKING:
    from game_operator.ledger import TableAccounts

__all__ = ["DATABASE", "PREFIX", "TablePrefix", "TablesMissingError", "address_of", "check_folder", "file_of"]
__all__ += [
    "AccountsBalance",
    "AccountsKey",
    "AccountsShared",
    "AccountsTable",
    "AccountsUnit",
    "accounts_in",
    "check_elsewhere",
    "columns_in",
]
__all__ += ["tables_missing"]

#: Where the database's address may stand: on a command line everybody on the machine could read its password.
DATABASE = "GAME_OPERATOR_DATABASE_URL"
PREFIX = "game_operator_"

TablePrefix = Annotated[str, typer.Option(metavar="TEXT", help="How the names of the tables begin.")]

_ACCOUNTS = "Balances in a table of your own"
AccountsTable = Annotated[
    str | None,
    typer.Option(
        metavar="TABLE",
        help="The table that holds the balances, perhaps with its schema, if the ledger does not.",
        rich_help_panel=_ACCOUNTS,
    ),
]
AccountsKey = Annotated[
    list[str] | None,
    typer.Option(
        metavar="COLUMN",
        help="Its column with the player's id; of a key of two columns both, as player_id,currency.",
        rich_help_panel=_ACCOUNTS,
    ),
]
AccountsBalance = Annotated[
    str | None, typer.Option(metavar="COLUMN", help="Its column with the balance.", rich_help_panel=_ACCOUNTS)
]
AccountsUnit = Annotated[
    str | None,
    typer.Option(metavar="cents|units|micros", help="What the balance counts; else cents.", rich_help_panel=_ACCOUNTS),
]
AccountsShared = Annotated[
    bool,
    typer.Option(
        "--accounts-shared",
        help="Two services really share these balances, each with its own --table-prefix.",
        rich_help_panel=_ACCOUNTS,
    ),
]

_OLD = " and this program needs version "
_BEFORE_STATEMENTS = "Run these statements:\n\n"


class TablesMissingError(ConfigurationError):
    """
    There are no tables, or they are old. Catch it as ``ConfigurationError``.

    Attributes:
        statements: What would make them.
        are_old: Whether they are there, in an older version.
    """

    def __init__(self, message: str, statements: str = "", *, are_old: bool = False) -> None:
        super().__init__(message)
        self.statements = statements
        self.are_old = are_old


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
    from game_operator.ledger.engine.address import path_of

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
        before, told, statements = str(refused).partition(_BEFORE_STATEMENTS)
        if not told:
            raise
        if _OLD in before:
            raise TablesMissingError(
                f"{before}Run `game-operator ledger migrate`: programs that run already go on.",
                statements,
                are_old=True,
            ) from None
        raise TablesMissingError(missing(prefix, advice), statements) from None


def missing(prefix: str, advice: str) -> str:
    """Return the sentence on tables that are not there."""
    return f"There are no tables {prefix}* in this database. Is --table-prefix right? {advice}"


def columns_in(key: list[str] | None) -> tuple[str, ...]:
    """Return the columns that ``--accounts-key`` names."""
    return tuple(name.strip() for each in key or () for name in each.split(","))


def accounts_in(
    table: str | None, key: list[str] | None, balance: str | None, unit: str | None, shared: bool = False
) -> "TableAccounts | None":
    """
    Return where the options ``--accounts-…`` say that balances are; None without any of them.

    Raises:
        ConfigurationError: One is missing, or cannot be a name.
    """
    needed = {"--accounts-table": table, "--accounts-key": key, "--accounts-balance": balance}
    missing = [option for option, value in needed.items() if not value]
    if len(missing) == len(needed) and unit is None and not shared:
        return None
    if missing:
        raise ConfigurationError(
            f"There is no {' and no '.join(missing)}. Balances in a table of yours need all three: {', '.join(needed)}."
        )
    from game_operator.ledger import TableAccounts

    names = columns_in(key)
    columns: Any = names[0] if len(names) == 1 else names  # Any: one column, or several.
    values: Any = {
        "table": table,
        "key": columns,
        "balance": balance,
        "unit": unit,
        "shared": shared,
    }  # Any: texts, checked there.
    return TableAccounts(**values)


def check_elsewhere(address: str, prefix: str, accounts: "TableAccounts | None") -> None:
    """
    Raise ConfigurationError if *accounts* are given for a ledger whose balances are its own.

    Opened with them, it would take note of them, and the wallet that serves from it would refuse its calls.
    """
    if accounts is None:
        return
    from game_operator.ledger.sql import SqlLedger
    from game_operator.ledger.staff.admin import are_balances_elsewhere

    with SqlLedger(address, migrate=False, table_prefix=prefix) as ledger:
        if not are_balances_elsewhere(ledger):
            raise ConfigurationError(
                f"No wallet has served the ledger {prefix}* from {accounts.table} yet: its balances are its own. Is "
                "--table-prefix right? Else leave --accounts-table out, or begin with `game-operator serve`."
            )
