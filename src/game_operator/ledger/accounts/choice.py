"""
The dialect for a kind of database and the accounts that a ledger was given, and what is noted about the operator's.

Opening a ledger with ``accounts=`` leaves a mark, and opening it without ``accounts=`` finds the mark. A command line
knows no ``accounts=``: without the mark it would open and credit accounts that no player has.

One ledger moves the balances in a table, unless the operator says that several share it. Two ledgers do not know each
other's calls: the same bet debits through each, and both books are sound. So a ledger with a TableAccounts notes its
prefix beside that table's name, in a table that all ledgers of a database share.
"""

from collections.abc import Callable

from game_operator.errors import ConfigurationError, LedgerError, SchemaError, shown
from game_operator.ledger.accounts.balances import Elsewhere, ObjectBalances
from game_operator.ledger.accounts.catalogue import CATALOGUE_SQL
from game_operator.ledger.accounts.table import table_balances
from game_operator.ledger.api import AccountsSpec, TableAccounts
from game_operator.ledger.engine.dialects import Balances, SqlDialect
from game_operator.ledger.engine.sources import stands_alone
from game_operator.ledger.engine.tables import BALANCE_TABLES, has_table
from game_operator.ledger.steps import Execute, Kind, Rows, Steps

_MARK = "balances_elsewhere"


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
    place, todo = f"your {type(accounts).__name__}", "open and adjust them"
    if isinstance(accounts, TableAccounts):
        place, todo = f"the table {accounts.table}", "insert and update its rows"
    raise ConfigurationError(
        f"{doing} is for accounts of the ledger's own. These live in {place}, which is yours: {todo} yourself, as you "
        "do already."
    )


def opened_dialect(
    kind: Kind, prefix: str, accounts: AccountsSpec, clock_millis: Callable[[], int]
) -> Steps[SqlDialect]:
    """Return ``dialect_for`` these, which knows the sources; note that the operator's *accounts* are elsewhere."""
    dialect = yield from dialect_for(kind, prefix, accounts, clock_millis)
    yield from dialect.sources.load()
    if accounts is not None:
        yield from mark(kind, prefix)
    if isinstance(accounts, TableAccounts):
        yield from claim(kind, prefix, accounts)
    return dialect


def check_accounts_first(kind: Kind, prefix: str, accounts: AccountsSpec) -> Steps[None]:
    """
    Raise SchemaError for *accounts* that cannot be used, before the ledger's tables are made or migrated.

    A ledger that has tables already is asked about those that share its balances when it is open.
    """
    if not isinstance(accounts, TableAccounts):
        return
    yield from table_balances(kind, prefix, accounts)
    if accounts.shared or not (yield from has_table(kind, BALANCE_TABLES)):
        return
    if (yield from has_table(kind, f"{prefix}meta")):
        return
    for table in (yield from base_tables(kind, accounts)):
        owner = yield from owner_of(table)
        if owner not in (None, prefix):
            raise _refused(owner, table, prefix)


def dialect_for(
    kind: Kind, prefix: str, accounts: AccountsSpec, clock_millis: Callable[[], int], *, beside: str = ""
) -> Steps[SqlDialect]:
    """
    Return how rows are loaded and stored in a *kind* of database, after a look at the columns of a TableAccounts.

    Without *accounts*, it is a dialect that refuses to touch any balances that are elsewhere. *beside* is for the
    statement of PostgreSQL that stores.

    Raises:
        SchemaError: The columns of a TableAccounts are not there or not exact.
    """
    if accounts is None and (yield from is_marked(prefix)):
        accounts = Elsewhere(prefix)
    balances: Balances
    if accounts is None:
        balances = Balances(kind, prefix)
    elif isinstance(accounts, TableAccounts):
        balances = yield from table_balances(kind, prefix, accounts)
    else:
        balances = ObjectBalances(kind, prefix, accounts)
    return SqlDialect(prefix, balances, clock_millis, beside=beside)


def is_marked(prefix: str) -> Steps[bool]:
    """Return whether a ledger was opened here whose balances are in the operator's own table."""
    rows: Rows = yield Execute(f"SELECT value FROM {prefix}meta WHERE name = '{_MARK}'", ())  # noqa: S608 - a checked prefix
    return bool(rows)


def mark(kind: Kind, prefix: str, *, joined: bool = False) -> Steps[bool]:
    """
    Leave the mark; return whether it was there.

    With *joined* the transaction is the caller's, and the mark is kept only if the caller commits. No call waits for
    such a commit, because a caller that holds locks could wait for a caller that waits for those locks.
    """
    if (yield from is_marked(prefix)):
        return True
    alone = f"pg_try_advisory_xact_lock(hashtext('{prefix}{_MARK}'))" if joined and kind == "postgres" else "true"
    sql = f"INSERT INTO {prefix}meta (name, value) SELECT '{_MARK}', 1 WHERE {alone} ON CONFLICT (name) DO NOTHING"
    yield Execute(sql, ())
    return False


def base_tables(kind: Kind, accounts: TableAccounts) -> Steps[list[str]]:
    """Return the names of the tables that hold the balances of *accounts*; read only."""
    if kind == "sqlite":
        return [accounts.table.lower().removeprefix("main.")]
    rows: Rows = yield Execute(CATALOGUE_SQL["base_tables"], (accounts.quoted_table,))
    return [name for (name,) in rows]


def owner_of(table: str) -> Steps[str | None]:
    """Return the prefix of the ledger that moves the balances in *table*, or None; read only."""
    rows: Rows = yield Execute(f"SELECT prefix FROM {BALANCE_TABLES} WHERE name = ?", (table,))  # noqa: S608
    return rows[0][0] if rows else None


def claim(kind: Kind, prefix: str, accounts: TableAccounts, *, joined: bool = False) -> Steps[None]:
    """
    Note that the ledger with *prefix* moves these balances; raise SchemaError if another does, unshared.

    With *joined* the transaction is the caller's, and no other waits for it.
    """
    for table in (yield from base_tables(kind, accounts)):
        owner = yield from owner_of(table)
        if owner is None and kind == "postgres" and not joined:
            # A user who may only read moves nothing, and claims nothing.
            rights: Rows = yield Execute("SELECT has_table_privilege(?, 'INSERT')", (BALANCE_TABLES,))
            if not rights[0][0]:
                continue
        if owner is None:
            yield from _note(kind, table, prefix, joined=joined)
            owner = yield from owner_of(table)
        if not (owner in (None, prefix) or accounts.shared):
            raise _refused(owner, table, prefix)


def _note(kind: Kind, table: str, prefix: str, *, joined: bool) -> Steps[None]:
    alone, values = "true", [table, prefix]
    if joined and kind == "postgres":
        alone = "pg_try_advisory_xact_lock(hashtext(?), 1)"
        values.append(topic := f"{BALANCE_TABLES} {table}")
        if not (yield from stands_alone(topic, prefix)):
            raise LedgerError(
                f"Another ledger is about to move the balances in {table}, in a transaction that is open. "
                "Nothing was moved: repeat the call."
            )
    yield Execute(
        f"INSERT INTO {BALANCE_TABLES} (name, prefix) "
        f"SELECT CAST(? AS text), CAST(? AS text) WHERE {alone} ON CONFLICT DO NOTHING",
        values,
    )


def _refused(owner: str | None, table: str, prefix: str) -> SchemaError:
    return SchemaError(
        f"The balances in {table} are moved by the ledger with the table prefix {owner} already, and this one has "
        f"{prefix}: a call that comes through both would move money twice. Pass that table_prefix (--table-prefix); or "
        "TableAccounts(shared=True) (--accounts-shared) if two services really share these balances."
    )
