"""
Balances in the operator's own table in SQLite.

SQLite keeps ``12.50`` in a NUMERIC column as a float. Decimals of at most 15 significant digits survive that there and
back; a balance that has more, or would get more, is refused and never rounded.
"""

import contextlib
from collections.abc import Generator, Iterable, Mapping, Set
from decimal import Decimal, InvalidOperation
from typing import Any

from game_operator.errors import LedgerError, SchemaError, shown
from game_operator.ledger.accounts import TableAccounts, Unit
from game_operator.ledger.api import Account
from game_operator.ledger.book import Changes
from game_operator.ledger.script import ConflictError, Execute, Rows, Step
from game_operator.ledger.sql_text import IN_LIST, one_or_many
from game_operator.ledger.table_columns import KeyColumn, balance_after, cents_of, unreadable

__all__ = ["SqliteTableAccounts", "sqlite_table_accounts"]

_DIGITS = 15
_LARGEST = 2**63 - 1


class SqliteTableAccounts:
    """The accounts of a TableAccounts whose columns have been looked at; the write lock of the file is ours."""

    def __init__(self, prefix: str, accounts: TableAccounts, key: KeyColumn, unit: Unit, *, as_text: bool) -> None:
        self.unknown = f"There is no such row in {accounts.table}."
        self._accounts, self._key, self._unit, self._as_text = accounts, key, unit, as_text
        # A qualified name cannot be taken for a text, as SQLite does with "a name" that it does not find; a sign before
        # the column keeps a converter for its declared type away; COLLATE keeps ids bytewise.
        table, name, balance = accounts.quoted_table, f'owned."{accounts.key}"', f'owned."{accounts.balance}"'
        # S608: the names were checked and are quoted; all else is a parameter.
        select = f"SELECT +{name}, +{balance} FROM {table} AS owned WHERE {name} COLLATE BINARY "  # noqa: S608
        self._one, self._many = select + "= ?", select + IN_LIST
        self._update = f'UPDATE {table} AS owned SET "{accounts.balance}" = ? WHERE {name} COLLATE BINARY = ?'  # noqa: S608
        clocks = f"SELECT account, at_millis FROM {prefix}clocks WHERE account "  # noqa: S608
        self._clock, self._clocks = clocks + "= ?", clocks + IN_LIST
        self._upsert_clock = (
            f"INSERT INTO {prefix}clocks (account, at_millis) VALUES (?, ?) "  # noqa: S608
            "ON CONFLICT (account) DO UPDATE SET at_millis = excluded.at_millis"
        )

    def load(self, keys: Set[str]) -> Generator[Step, Any, list[Account]]:
        """Return those of the accounts that exist."""
        balances = yield from self._balances(keys)
        if not balances:
            return []
        rows: Rows = yield one_or_many(self._clock, self._clocks, (), balances.keys())
        at_millis = {row[0]: row[1] for row in rows}
        return [Account(key, cents_of(balance, self._unit), at_millis.get(key, 0)) for key, balance in balances.items()]

    def store(self, changes: Changes, was: Mapping[str, Account]) -> Generator[Step, Any, None]:
        """Move the balances by what the batch moved."""
        moved = {key: cents - was[key].balance_cents for key, cents, _ in changes.accounts.values()}
        moved = {key: delta for key, delta in moved.items() if delta}
        if moved:
            # Read again: only the rounded balance went through the batch.
            balances = yield from self._balances(moved.keys())
            rows = [
                (self._stored(key, balance_after(balance, moved[key], self._unit)), self._key.value_of(key))
                for key, balance in balances.items()
            ]
            if (yield Execute(self._update, rows, many=True)) != len(moved):
                raise ConflictError
        if changes.accounts:
            yield Execute(self._upsert_clock, [(key, at) for key, _, at in changes.accounts.values()], many=True)

    def balance(self, key: str) -> Generator[Step, Any, int | None]:
        """Return a balance in cents, rounded down, or None if there is no such row."""
        balances = yield from self._balances({key})
        return cents_of(balances[key], self._unit) if key in balances else None

    def _balances(self, keys: Iterable[str]) -> Generator[Step, Any, dict[str, Decimal]]:
        values = {value for value in map(self._key.value_of, keys) if value is not None}
        if not values:
            return {}
        rows: Rows = yield one_or_many(self._one, self._many, (), values)
        return {str(key): self._exact(key, balance) for key, balance in rows}

    def _exact(self, key: object, balance: object) -> Decimal:
        """Return a balance as it was meant: the float nearest to 0.1 as 0.1."""
        with contextlib.suppress(InvalidOperation, ValueError):
            text = format(balance, f".{_DIGITS}g") if isinstance(balance, float) else str(balance)
            if balance is not None and not (isinstance(balance, float) and float(text) != balance):
                amount = Decimal(text)
                cents_of(amount, self._unit)
                return amount
        raise unreadable(self._accounts, key, balance)

    def _stored(self, key: str, balance: Decimal) -> str | int:
        text = format(balance, "f")
        if self._as_text:
            return text
        whole = balance == balance.to_integral_value()
        if whole and abs(int(balance)) <= _LARGEST:
            return int(balance)
        if len(text.replace("-", "").replace(".", "").strip("0")) > _DIGITS:
            raise LedgerError(
                f"The account {shown(key)} would hold {text}, and a NUMERIC column of SQLite keeps {_DIGITS} digits "
                "exactly. Nothing was moved: keep balances in whole cents or micros, or as TEXT."
            )
        return text


def sqlite_table_accounts(prefix: str, accounts: TableAccounts) -> Generator[Step, Any, SqliteTableAccounts]:
    """
    Look at the columns of *accounts* and return what reads and moves its balances.

    Raises:
        SchemaError: There is no such table or column, the key is not unique or not compared bytewise, or the balance
            is not exact.
    """
    columns = yield from _columns(accounts)
    key_type, balance_type = (_column(accounts, columns, name) for name in (accounts.key, accounts.balance))
    key = _key_column(accounts, key_type)
    yield from _check_unique(accounts, columns)
    unit, as_text = _balance_kind(accounts, balance_type)
    return SqliteTableAccounts(prefix, accounts, key, unit, as_text=as_text)


def _columns(accounts: TableAccounts) -> Generator[Step, Any, dict[str, tuple[str, int]]]:
    """Return declared type and place in the primary key of each column; names are folded, as SQLite does."""
    schema, _, table = accounts.table.rpartition(".")
    kind: Rows = yield Execute(f"SELECT type FROM {_master(schema)} WHERE name = ? COLLATE NOCASE", (table,))  # noqa: S608 - checked names
    if not kind or kind[0][0] != "table":
        raise SchemaError(
            f"There is no table {accounts.table} in this SQLite file: accounts= names a table that exists already."
        )
    rows: Rows = yield Execute("SELECT name, type, pk FROM pragma_table_xinfo(?, ?)", (table, schema or "main"))
    return {name.lower(): (declared.upper(), pk) for name, declared, pk in rows}


def _master(schema: str) -> str:
    return f'"{schema}".sqlite_master' if schema else "sqlite_master"


def _column(accounts: TableAccounts, columns: Mapping[str, tuple[str, int]], name: str) -> str:
    if name.lower() not in columns:
        raise SchemaError(f"The table {accounts.table} has no column {name}; it has {', '.join(columns)}.")
    return columns[name.lower()][0]


def _affinity(declared: str) -> str:
    """Return what SQLite makes of a declared type, by its own rules in its own order."""
    for affinity, parts in (
        ("INTEGER", ("INT",)),
        ("TEXT", ("CHAR", "CLOB", "TEXT")),
        ("BLOB", ("BLOB",)),
        ("REAL", ("REAL", "FLOA", "DOUB")),
    ):
        if any(part in declared for part in parts):
            return affinity
    return "NUMERIC" if declared else "BLOB"


def _key_column(accounts: TableAccounts, declared: str) -> KeyColumn:
    affinity = _affinity(declared)
    if declared == "UUID":
        return KeyColumn("uuid")
    if affinity in ("TEXT", "INTEGER"):
        return KeyColumn("text" if affinity == "TEXT" else "integer")
    raise SchemaError(
        f"The key {accounts.table}.{accounts.key} has the type {shown(declared)}; it must be TEXT, VARCHAR, UUID or "
        "INTEGER, which keep ids as they are."
    )


def _check_unique(accounts: TableAccounts, columns: Mapping[str, tuple[str, int]]) -> Generator[Step, Any, None]:
    key = accounts.key.lower()
    primary = [name for name, (_, pk) in columns.items() if pk]
    if primary == [key] and columns[key][0] == "INTEGER":
        return  # The rowid itself has no index.
    schema, _, table = accounts.table.rpartition(".")
    rows: Rows = yield Execute(
        "SELECT i.name, lower(c.name), upper(c.coll) "
        "FROM pragma_index_list(?, ?) AS i, pragma_index_xinfo(i.name, ?) AS c "
        'WHERE i."unique" AND NOT i.partial AND c.key',
        (table, schema or "main", schema or "main"),
    )
    indexes: dict[str, list[tuple[str, str]]] = {}
    for index, name, collation in rows:
        indexes.setdefault(index, []).append((name, collation))
    if [(key, "BINARY")] not in indexes.values():
        raise SchemaError(
            f"The key {accounts.table}.{accounts.key} must be unique by itself and compared bytewise: make it the "
            "primary key, or add a unique index, with the collation BINARY. NOCASE would take Ann for ann."
        )


def _balance_kind(accounts: TableAccounts, declared: str) -> tuple[Unit, bool]:
    """Return the unit, and whether balances are kept as text."""
    affinity, name = _affinity(declared), f"{accounts.table}.{accounts.balance}"
    if affinity in ("REAL", "BLOB"):
        raise SchemaError(
            f"The balance {name} has the type {shown(declared)}, which is not exact; it must be INTEGER, NUMERIC, "
            "DECIMAL or TEXT."
        )
    if accounts.unit is None and affinity != "INTEGER":
        raise SchemaError(f'The balance {name} is {declared}: tell accounts= what it counts, such as unit="units".')
    if accounts.unit == "units" and affinity == "INTEGER":
        raise SchemaError(f'The balance {name} is {declared}, and no cents fit in whole units: is it unit="cents"?')
    return accounts.unit or "cents", affinity == "TEXT"
