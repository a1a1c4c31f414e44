"""The database that a command works on, and the table of balances in it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from game_operator.errors import ConfigurationError, shown

if TYPE_CHECKING:
    from game_operator.ledger import SqlLedger, TableAccounts

#: What the ledger is called, where the command line does not say so.
LEDGER_NAME = "GAME_OPERATOR_LEDGER_NAME"
#: Where the database's address may stand: on a command line everybody on the machine could read its password.
DATABASE = "GAME_OPERATOR_DATABASE_URL"
#: How a variable of the environment says yes or no.
_SAID: Final = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False, "": False}
PREFIX = "game_operator_"

DatabaseUrl = Annotated[
    str | None,
    typer.Option("--database", metavar="URL", help=f"sqlite:///wallet.db or postgresql://…; else {DATABASE}."),
]
LedgerName = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", envvar=LEDGER_NAME, help="What the ledger is called: a database of another name is refused."
    ),
]
TablePrefix = Annotated[str, typer.Option(metavar="TEXT", help="How the names of the tables begin.")]


@dataclass(frozen=True, kw_only=True)
class BalancesOptions:
    """The table of the operator's that holds the balances, if the ledger does not; else by the environment."""

    accounts_table: str | None = None
    accounts_key: list[str] | None = None
    accounts_balance: str | None = None
    accounts_unit: str | None = None
    accounts_shared: bool = False

    @property
    def are_given(self) -> bool:
        """Whether the command line has any of them."""
        return any(self._given().values())

    def of_ledger(self, database: str, table_prefix: str) -> "LedgerOptions":
        """Return the options of the ledger at *database* with these."""
        return LedgerOptions(database=database, table_prefix=table_prefix, **self._given())

    def _given(self) -> dict[str, Any]:  # Any: texts and whether, by the names of the fields.
        return {option.name: getattr(self, option.name) for option in fields(BalancesOptions)}

    def _settings(self) -> dict[str, Any]:
        """Return what the command line says, or the environment where it says nothing."""
        return {name: value or _of_environment(name) for name, value in self._given().items()}

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that ``--accounts-key``, or its variable, names."""
        keys = self._settings()["accounts_key"] or ()
        return tuple(name.strip() for each in keys for name in each.split(","))

    def accounts(self) -> "TableAccounts | None":
        """
        Return where balances are; None without any of the options and variables.

        Raises:
            ConfigurationError: One is missing, or cannot be a name.
        """
        values = {name.removeprefix("accounts_"): value for name, value in self._settings().items()}
        if not any(values.values()):
            return None
        from game_operator.ledger import TableAccounts

        needed = ("table", "key", "balance")
        if missing := [f"--accounts-{name}" for name in needed if not values[name]]:
            raise ConfigurationError(
                f"Missing: {', '.join(missing)}. Balances in your own table need all three: "
                f"{', '.join(f'--accounts-{name}' for name in needed)}, or their variables."
            )
        columns = self.columns
        return TableAccounts(**values | {"key": columns[0] if len(columns) == 1 else columns})


def _of_environment(name: str) -> Any:
    """Return what the variable of an option of ``BalancesOptions`` says, or None."""
    variable = f"GAME_OPERATOR_{name.upper()}"
    text = os.environ.get(variable, "").strip()
    if name == "accounts_key":
        return [text] if text else None
    if name != "accounts_shared":
        return text or None
    if (said := _SAID.get(text.lower())) is None:
        raise ConfigurationError(f"{variable} is {shown(text)}. Set it to 1 or 0.")
    return said


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
                "--table-prefix right? Else leave --accounts-table and its variable out, or begin with `game-operator "
                "serve`."
            )


@dataclass(frozen=True, kw_only=True)
class LedgerOptions(BalancesOptions):
    """Where the ledger is, and where its balances are."""

    database: DatabaseUrl = None
    table_prefix: TablePrefix = PREFIX
    ledger_name: LedgerName = None

    @contextmanager
    def opened(
        self,
        *,
        make: bool = False,
        missing: str = "Check the path. (`game-operator ledger open` makes a new ledger.)",
        **options: Any,
    ) -> "Iterator[SqlLedger]":
        """
        Yield the ledger.

        Args:
            make: Whether its tables, and the file of SQLite, are made if they are not there.
            missing: What to do if there is no file.
            options: Of ``SqlLedger``. A ledger with a table of the operator's must have served from it before.

        Raises:
            ConfigurationError: There is no file, or its balances are not in *accounts*.
            SchemaError: There are no tables, or they are old.
        """
        from game_operator.ledger import SqlLedger

        address, prefix = address_of(self.database), self.table_prefix
        check_file(address, "" if make else missing)
        own = {} if "accounts" in options else {"accounts": self.accounts()}
        options = {"migrate": make, "name": self.ledger_name, **own, **options}
        if options["accounts"] is not None:
            check_elsewhere(address, prefix, options["accounts"])
        with SqlLedger(address, table_prefix=prefix, **options) as ledger:
            yield ledger
