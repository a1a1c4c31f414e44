"""The dialect for a kind of database and the accounts that a ledger was given."""

from collections.abc import Callable, Generator
from typing import Any, TypeAlias

from game_operator.errors import ConfigurationError, shown
from game_operator.ledger.accounts.balances import Elsewhere, ObjectBalances, OwnBalances
from game_operator.ledger.accounts.claims import check_unclaimed, claim, is_marked, mark
from game_operator.ledger.accounts.table import table_balances
from game_operator.ledger.api import AccountsSpec, TableAccounts
from game_operator.ledger.engine.dialects import Balances, PostgresDialect, SqliteDialect
from game_operator.ledger.engine.script import Kind, Step

AnyDialect: TypeAlias = SqliteDialect | PostgresDialect


def check_accounts(accounts: AccountsSpec) -> None:
    """Raise TypeError if ``accounts=`` does not take *accounts*."""
    if accounts is None or isinstance(accounts, TableAccounts):
        return
    if isinstance(accounts, type) or not all(callable(getattr(accounts, name, None)) for name in ("lock", "move")):
        raise TypeError(f"accounts= takes a TableAccounts or an object with lock and move, not {shown(accounts)}")


def most_calls(accounts: AccountsSpec) -> int:
    """Return how many calls may share a commit; an object of the operator's is asked one call at a time."""
    return 64 if accounts is None or isinstance(accounts, TableAccounts) else 1


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


def opened_dialect(
    kind: Kind, prefix: str, accounts: AccountsSpec, clock_millis: Callable[[], int]
) -> Generator[Step, Any, AnyDialect]:
    """Return ``dialect_for`` these, which knows the sources; note that the operator's *accounts* are elsewhere."""
    dialect = yield from dialect_for(kind, prefix, accounts, clock_millis)
    yield from dialect.sources.load()
    if accounts is not None:
        yield from mark(prefix)
    if isinstance(accounts, TableAccounts):
        yield from claim(kind, prefix, accounts)
    return dialect


def check_accounts_first(kind: Kind, prefix: str, accounts: AccountsSpec) -> Generator[Step, Any, None]:
    """Raise SchemaError for *accounts* that cannot be used, before the ledger's tables are made or migrated."""
    if isinstance(accounts, TableAccounts):
        yield from table_balances(kind, prefix, accounts)
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
    balances: Balances
    if isinstance(accounts, TableAccounts):
        balances = yield from table_balances(kind, prefix, accounts)
    else:
        balances = OwnBalances(kind, prefix) if accounts is None else ObjectBalances(kind, prefix, accounts)
    return SqliteDialect(prefix, balances, clock_millis) if kind == "sqlite" else PostgresDialect(prefix, balances)
