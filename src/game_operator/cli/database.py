"""The database that a command works on, the table of balances in it, and what is said of one that will not do."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from game_operator.errors import ConfigurationError, SchemaError, shown

if TYPE_CHECKING:
    from game_operator.ledger import SqlLedger, TableAccounts

#: Where the database's address may stand: on a command line everybody on the machine could read its password.
DATABASE = "GAME_OPERATOR_DATABASE_URL"
PREFIX = "game_operator_"

TablePrefix = Annotated[str, typer.Option(metavar="TEXT", help="How the names of the tables begin.")]

_ACCOUNTS = "Balances in a table of your own"


@dataclass(frozen=True, kw_only=True)
class BalancesOptions:
    """The table of the operator's that holds the balances, if the ledger does not."""

    accounts_table: Annotated[
        str | None,
        typer.Option(
            metavar="TABLE",
            help="The table that holds the balances, perhaps with its schema, if the ledger does not.",
            rich_help_panel=_ACCOUNTS,
        ),
    ] = None
    accounts_key: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN",
            help="Its column with the player's id; of a key of two columns both, as player_id,currency.",
            rich_help_panel=_ACCOUNTS,
        ),
    ] = None
    accounts_balance: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Its column with the balance.", rich_help_panel=_ACCOUNTS)
    ] = None
    accounts_unit: Annotated[
        str | None,
        typer.Option(
            metavar="cents|units|micros", help="What the balance counts; else cents.", rich_help_panel=_ACCOUNTS
        ),
    ] = None
    accounts_shared: Annotated[
        bool,
        typer.Option(
            "--accounts-shared",
            help="Two services really share these balances, each with its own --table-prefix.",
            rich_help_panel=_ACCOUNTS,
        ),
    ] = False

    @property
    def are_given(self) -> bool:
        """Whether the command line has any of them."""
        return any(vars(self).values())

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that ``--accounts-key`` names."""
        return tuple(name.strip() for each in self.accounts_key or () for name in each.split(","))

    def accounts(self) -> "TableAccounts | None":
        """
        Return where balances are; None without any of the options.

        Raises:
            ConfigurationError: One is missing, or cannot be a name.
        """
        needed = {
            "--accounts-table": self.accounts_table,
            "--accounts-key": self.accounts_key,
            "--accounts-balance": self.accounts_balance,
        }
        if not self.are_given:
            return None
        if missing := [option for option, value in needed.items() if not value]:
            raise ConfigurationError(
                f"There is no {' and no '.join(missing)}. Balances in a table of yours need all three: "
                f"{', '.join(needed)}."
            )
        from game_operator.ledger import TableAccounts

        columns = self.columns
        # Any: texts that are checked there.
        values: Any = {
            "table": self.accounts_table,
            "key": columns[0] if len(columns) == 1 else columns,
            "balance": self.accounts_balance,
            "unit": self.accounts_unit,
            "shared": self.accounts_shared,
        }
        return TableAccounts(**values)


class TablesMissingError(ConfigurationError):
    """
    There are no tables, or they are old. Catch it as ``ConfigurationError``.

    Attributes:
        statements: What would make them.
        version: The version that they have, 0 if there are none.
    """

    def __init__(self, message: str, statements: str = "", *, version: int = 0) -> None:
        super().__init__(message)
        self.statements = statements
        self.version = version


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


def check_file(address: str, advice: str) -> None:
    """Raise ConfigurationError for an SQLite file that is not there: opening would make an empty one."""
    check_folder(address)
    file = file_of(address)
    if file is not None and not file.exists():
        raise ConfigurationError(f"There is no file {shown(str(file))}. {advice}")


@contextmanager
def tables_missing(prefix: str, advice: str) -> Iterator[None]:
    """Turn the error of a ledger that found no tables into one sentence that ends in *advice*, and the statements."""
    try:
        yield
    except SchemaError as refused:
        from game_operator.ledger.engine.tables import VERSION

        if not refused.statements:
            raise
        message = f"There are no tables {prefix}* in this database. Is --table-prefix right? {advice}"
        if refused.version:
            message = (
                f"The tables {prefix}* have version {refused.version}, and this program needs version {VERSION}. "
                "Run `game-operator ledger migrate`: programs that run already go on."
            )
        raise TablesMissingError(message, refused.statements, version=refused.version or 0) from None


@contextmanager
def opened(
    address: str, prefix: str, advice: str, *, accounts: "TableAccounts | None" = None, **options: Any
) -> "Iterator[SqlLedger]":
    """
    Yield the ledger in *address*, whose tables are not made unless *options* have ``migrate=True``.

    Args:
        address: Where it is.
        prefix: How its tables begin.
        advice: What to do where there are no tables.
        accounts: The operator's own table of balances; the ledger must have served from it before.
        options: Of ``SqlLedger``.

    Raises:
        ConfigurationError: There are no tables, they are old, or its balances are not in *accounts*.
    """
    from game_operator.ledger import SqlLedger

    with tables_missing(prefix, advice):
        if accounts is not None:
            check_elsewhere(address, prefix, accounts)
        ledger = SqlLedger(address, accounts=accounts, table_prefix=prefix, **{"migrate": False} | options)
    with ledger:
        yield ledger


def check_elsewhere(address: str, prefix: str, accounts: "TableAccounts") -> None:
    """
    Raise ConfigurationError if the balances of a ledger are its own and not in *accounts*.

    Opened with them, it would take note of them, and the wallet that serves from it would refuse its calls.
    """
    from game_operator.ledger.sql import SqlLedger, are_balances_elsewhere

    with SqlLedger(address, migrate=False, table_prefix=prefix) as ledger:
        if not are_balances_elsewhere(ledger):
            raise ConfigurationError(
                f"No wallet has served the ledger {prefix}* from {accounts.table} yet: its balances are its own. Is "
                "--table-prefix right? Else leave --accounts-table out, or begin with `game-operator serve`."
            )
