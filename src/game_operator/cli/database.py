"""The database that a command works on, and the table of balances in it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from game_operator.errors import ConfigurationError, shown

if TYPE_CHECKING:
    from game_operator.ledger import SqlLedger, TableAccounts

#: Where the database's address may stand: on a command line everybody on the machine could read its password.
DATABASE = "GAME_OPERATOR_DATABASE_URL"
PREFIX = "game_operator_"

DatabaseUrl = Annotated[
    str | None,
    typer.Option("--database", metavar="URL", help=f"sqlite:///wallet.db or postgresql://…; else {DATABASE}."),
]
TablePrefix = Annotated[str, typer.Option(metavar="TEXT", help="How the names of the tables begin.")]


@dataclass(frozen=True, kw_only=True)
class BalancesOptions:
    """The table of the operator's that holds the balances, if the ledger does not."""

    accounts_table: str | None = None
    accounts_key: list[str] | None = None
    accounts_balance: str | None = None
    accounts_unit: str | None = None
    accounts_shared: bool = False

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
        if not self.are_given:
            return None
        from game_operator.ledger import TableAccounts

        # Any: texts that are checked there.
        values: dict[str, Any] = {name.removeprefix("accounts_"): value for name, value in vars(self).items()}
        needed = ("table", "key", "balance")
        if missing := [f"--accounts-{name}" for name in needed if not values[name]]:
            raise ConfigurationError(
                f"Missing: {', '.join(missing)}. Balances in your own table need all three: "
                f"{', '.join(f'--accounts-{name}' for name in needed)}."
            )
        columns = self.columns
        return TableAccounts(**values | {"key": columns[0] if len(columns) == 1 else columns})


def address_of(
    option: str | None,
    missing: str = f"There is no database. Pass --database sqlite:///wallet.db, or set {DATABASE}.",
) -> str:
    """Return the database's address, from the option or the environment; raise ConfigurationError(*missing*)."""
    address = option or os.environ.get(DATABASE)
    if not address:
        raise ConfigurationError(missing)
    return address


def check_file(address: str, missing: str = "") -> Path | None:
    """
    Return the file of an SQLite database, or None for any other.

    Raises:
        ConfigurationError: There is no folder for it; or, if it should be there, no file, because opening would make an
            empty one. *missing* then says what to do.
    """
    if not address.startswith("sqlite:///"):
        return None
    from game_operator.ledger.engine.address import IN_MEMORY, path_of

    path = path_of(address)
    if path == IN_MEMORY:
        return None
    file = Path(path)
    if not file.parent.is_dir():
        raise ConfigurationError(f"There is no folder {shown(str(file.parent))}. Make it first.")
    if missing and not file.exists():
        raise ConfigurationError(f"There is no file {shown(str(file))}. {missing}")
    return file


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


@dataclass(frozen=True, kw_only=True)
class LedgerOptions:
    """Where the ledger is."""

    database: DatabaseUrl = None
    table_prefix: TablePrefix = PREFIX

    @contextmanager
    def opened(
        self,
        *,
        make: bool = False,
        accounts: "TableAccounts | None" = None,
        missing: str = "Check the path. (`game-operator ledger open` makes a new ledger.)",
        **options: Any,
    ) -> "Iterator[SqlLedger]":
        """
        Yield the ledger.

        Args:
            make: Whether its tables, and the file of SQLite, are made if they are not there.
            accounts: The operator's own table of balances; the ledger must have served from it before.
            missing: What to do if there is no file.
            options: Of ``SqlLedger``.

        Raises:
            ConfigurationError: There is no file, or its balances are not in *accounts*.
            SchemaError: There are no tables, or they are old.
        """
        from game_operator.ledger import SqlLedger

        address, prefix = address_of(self.database), self.table_prefix
        check_file(address, "" if make else missing)
        if accounts is not None:
            check_elsewhere(address, prefix, accounts)
        with SqlLedger(address, accounts=accounts, table_prefix=prefix, **{"migrate": make} | options) as ledger:
            yield ledger
