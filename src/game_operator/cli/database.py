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

#: What the ledger is called, where the command line does not say so.
LEDGER_NAME = "GAME_OPERATOR_LEDGER_NAME"
#: Where the database's address may stand: on a command line everybody on the machine could read its password.
DATABASE = "GAME_OPERATOR_DATABASE_URL"
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
    """The table of the operator's that holds the balances, if the ledger does not."""

    accounts_table: Annotated[str | None, typer.Option(envvar="GAME_OPERATOR_ACCOUNTS_TABLE")] = None
    accounts_key: Annotated[list[str] | None, typer.Option(envvar="GAME_OPERATOR_ACCOUNTS_KEY")] = None
    accounts_balance: Annotated[str | None, typer.Option(envvar="GAME_OPERATOR_ACCOUNTS_BALANCE")] = None
    accounts_unit: Annotated[str | None, typer.Option(envvar="GAME_OPERATOR_ACCOUNTS_UNIT")] = None
    accounts_shared: Annotated[bool, typer.Option(envvar="GAME_OPERATOR_ACCOUNTS_SHARED")] = False

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that ``--accounts-key`` names."""
        names = ",".join(self.accounts_key or ()).split(",")
        return tuple(filter(None, (name.strip() for name in names)))

    def accounts(self) -> "TableAccounts | None":
        """
        Return where balances are; None without any of the options and variables.

        Raises:
            ConfigurationError: One is missing, or cannot be a name.
        """
        columns = self.columns
        values = {
            "table": self.accounts_table,
            "key": columns[0] if len(columns) == 1 else columns,
            "balance": self.accounts_balance,
        }
        others = {"unit": self.accounts_unit, "shared": self.accounts_shared}
        if not any({**values, **others}.values()):
            return None
        from game_operator.ledger import TableAccounts

        if missing := [f"--accounts-{name}" for name, value in values.items() if not value]:
            raise ConfigurationError(
                f"Missing: {', '.join(missing)}. Balances in your own table need all three: "
                f"{', '.join(f'--accounts-{name}' for name in values)}, or their variables."
            )
        # Any: texts, and whether.
        settings: dict[str, Any] = values | others
        return TableAccounts(**settings)


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
    from game_operator.ledger.office import Office
    from game_operator.ledger.sql import SqlLedger

    with SqlLedger(address, migrate=False, table_prefix=prefix) as ledger:
        if not Office(ledger).are_balances_elsewhere():
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


def check_source(ledger: "SqlLedger", source: str) -> None:
    """Raise ConfigurationError for a source that the ledger does not know: nothing would be found."""
    known = ledger.sources()
    if known and source not in known:
        raise ConfigurationError(
            f"The ledger does not know the source {shown(source)}; it knows {', '.join(map(shown, known))}. Pass one "
            "of these as --source."
        )
