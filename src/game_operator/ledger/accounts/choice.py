"""The dialect for a kind of database and the accounts that a ledger was given."""

from collections.abc import Callable, Generator
from typing import Any, Literal, TypeAlias

from game_operator.errors import ConfigurationError, shown
from game_operator.ledger.accounts.claims import check_unclaimed, claim
from game_operator.ledger.accounts.location import Elsewhere, is_marked, mark
from game_operator.ledger.accounts.objects import ObjectPostgresAccounts, ObjectSqliteAccounts
from game_operator.ledger.accounts.own import OwnPostgresAccounts, OwnSqliteAccounts
from game_operator.ledger.api import AccountsSpec, TableAccounts
from game_operator.ledger.engine.script import Step
from game_operator.ledger.postgres.dialect import PostgresAccounts, PostgresDialect
from game_operator.ledger.postgres.table_accounts import (
    postgres_table_accounts,
    postgres_table_look,
    postgres_table_meddlers,
)
from game_operator.ledger.sqlite.store import SqliteAccounts, SqliteDialect
from game_operator.ledger.sqlite.table_accounts import (
    sqlite_table_accounts,
    sqlite_table_look,
    sqlite_table_meddlers,
)

Kind: TypeAlias = Literal["sqlite", "postgres"]
AnyDialect: TypeAlias = SqliteDialect | PostgresDialect


def check_accounts(accounts: AccountsSpec) -> None:
    """Raise TypeError if *accounts* is nothing that ``accounts=`` takes."""
    if accounts is None or isinstance(accounts, TableAccounts):
        return
    if isinstance(accounts, type) or not all(callable(getattr(accounts, name, None)) for name in ("lock", "move")):
        raise TypeError(f"accounts= takes a TableAccounts or an object with lock and move, not {shown(accounts)}")


def set_based(accounts: AccountsSpec) -> bool:
    """Return whether a batch of calls can be applied at once."""
    return accounts is None or isinstance(accounts, TableAccounts)


def check_own(accounts: AccountsSpec, doing: str) -> None:
    """Raise ConfigurationError if *accounts* are the operator's: only our own are opened and adjusted by us."""
    if accounts is None:
        return
    table = isinstance(accounts, TableAccounts)
    place = f"the table {accounts.table}" if isinstance(accounts, TableAccounts) else f"your {type(accounts).__name__}"
    raise ConfigurationError(
        f"{doing} is for accounts of the ledger's own. These live in {place}, which is yours: "
        f"{'insert and update its rows' if table else 'open and adjust them'} yourself, as you do already."
    )


def has_own_accounts(dialect: AnyDialect) -> bool:
    """Return whether balances are in our own table."""
    return isinstance(dialect.accounts, OwnSqliteAccounts | OwnPostgresAccounts)


def fitted(
    kind: Kind, prefix: str, accounts: AccountsSpec, clock_millis: Callable[[], int]
) -> Generator[Step, Any, AnyDialect]:
    """
    Return ``dialect_for`` these, which knows the ledger's sources.

    If *accounts* are the operator's, the mark is left that balances are elsewhere.
    """
    dialect = yield from dialect_for(kind, prefix, accounts, clock_millis)
    yield from dialect.sources.load()
    if accounts is not None:
        yield from mark(prefix)
    if isinstance(accounts, TableAccounts):
        yield from claim(kind, prefix, accounts)
    return dialect


def check_accounts_first(kind: Kind, prefix: str, accounts: AccountsSpec) -> Generator[Step, Any, None]:
    """
    Look at *accounts* before the ledger's tables are made or migrated, so that a start that is refused changes nothing.

    Raises:
        SchemaError: They cannot be used, or belong to another ledger.
    """
    if isinstance(accounts, TableAccounts):
        yield from (_for_sqlite if kind == "sqlite" else _for_postgres)(prefix, accounts)
        yield from check_unclaimed(kind, prefix, accounts)


def dialect_for(
    kind: Kind, prefix: str, accounts: AccountsSpec, clock_millis: Callable[[], int]
) -> Generator[Step, Any, AnyDialect]:
    """
    Return how rows are loaded and stored in a *kind* of database; a TableAccounts is looked at first.

    Without *accounts*, where balances are elsewhere, it is a dialect that refuses to touch any.

    Raises:
        SchemaError: The columns of a TableAccounts are not there or not exact.
    """
    if accounts is None and (yield from is_marked(prefix)):
        accounts = Elsewhere(prefix)
    if kind == "sqlite":
        return SqliteDialect(prefix, clock_millis, accounts=(yield from _for_sqlite(prefix, accounts)))
    return PostgresDialect(prefix, accounts=(yield from _for_postgres(prefix, accounts)))


def _for_sqlite(prefix: str, accounts: AccountsSpec) -> Generator[Step, Any, SqliteAccounts | None]:
    if isinstance(accounts, TableAccounts):
        return (yield from sqlite_table_accounts(prefix, accounts))
    return None if accounts is None else ObjectSqliteAccounts(prefix, accounts)


def _for_postgres(prefix: str, accounts: AccountsSpec) -> Generator[Step, Any, PostgresAccounts | None]:
    if isinstance(accounts, TableAccounts):
        return (yield from postgres_table_accounts(prefix, accounts))
    return None if accounts is None else ObjectPostgresAccounts(prefix, accounts)


def table_problems(kind: Kind, accounts: TableAccounts) -> Generator[Step, Any, list[str]]:
    """Return why opening a ledger with *accounts* is refused, nothing if it is not; it only executes and reads."""
    if kind == "sqlite":
        return (yield from sqlite_table_look(accounts)).problems
    return (yield from postgres_table_look(accounts)).problems


def table_meddlers(kind: Kind, accounts: TableAccounts) -> Generator[Step, Any, list[str]]:
    """
    Return what could change an update of the ledger's, so that the call is refused: triggers, rules, row policies.

    Most are harmless: only one that changes the balance is a LedgerError. It only executes statements that read.
    """
    look = sqlite_table_meddlers if kind == "sqlite" else postgres_table_meddlers
    return (yield from look(accounts))
