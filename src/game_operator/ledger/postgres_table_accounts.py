"""Balances in the operator's own table in PostgreSQL: one statement locks a batch's rows, one moves them."""

import json
from collections.abc import Generator, Mapping, Set
from decimal import Decimal, InvalidOperation
from typing import Any

from game_operator.errors import SchemaError
from game_operator.ledger.accounts import TableAccounts, Unit
from game_operator.ledger.api import Account
from game_operator.ledger.book import Changes
from game_operator.ledger.script import Execute, Rows, Step, Together
from game_operator.ledger.sql_text import CLOCK, KEYS, clocks_part
from game_operator.ledger.table_columns import KeyColumn, cents_of, delta_of, unreadable

__all__ = ["PostgresTableAccounts", "postgres_table_accounts"]

_KEYS = {"text": KeyColumn("text"), "varchar": KeyColumn("text"), "uuid": KeyColumn("uuid")}
_INTEGERS = {"int2": 16, "int4": 32, "int8": 64}

# A domain is what it is made of.
_COLUMNS = """
SELECT CAST(field.attname AS text), CAST(coalesce(base.typname, type.typname) AS text),
    CASE WHEN base.oid IS NULL THEN field.atttypmod ELSE type.typtypmod END,
    coalesce(rule.collisdeterministic, true),
    EXISTS (
        SELECT FROM pg_index AS index WHERE index.indrelid = field.attrelid AND index.indisunique AND index.indisvalid
        AND index.indpred IS NULL AND index.indexprs IS NULL AND index.indnkeyatts = 1
        AND index.indkey[0] = field.attnum
    )
FROM pg_attribute AS field
JOIN pg_class AS owner ON owner.oid = field.attrelid AND owner.relkind IN ('r', 'p')
JOIN pg_type AS type ON type.oid = field.atttypid
LEFT JOIN pg_type AS base ON base.oid = type.typbasetype AND type.typtype = 'd'
LEFT JOIN pg_collation AS rule ON rule.oid = field.attcollation
WHERE field.attrelid = to_regclass(?) AND field.attnum > 0 AND NOT field.attisdropped
"""


class PostgresTableAccounts:
    """The accounts of a TableAccounts whose columns have been looked at."""

    def __init__(self, prefix: str, accounts: TableAccounts, key: KeyColumn, unit: Unit, *, number: str) -> None:
        self.unknown = f"There is no such row in {accounts.table}."
        self._accounts, self._key, self._unit = accounts, key, unit
        self._type = {"text": "text", "uuid": "uuid", "integer": "bigint"}[key.kind]
        table, name, balance = accounts.quoted_table, f'owned."{accounts.key}"', f'owned."{accounts.balance}"'
        # NO KEY: rows that refer to the player can be inserted meanwhile, and two callers that did so do not deadlock.
        # Texts, whatever types the caller's connection makes of numbers. S608: the names were checked and are quoted.
        self._lock = (
            f"SELECT locked.account, locked.balance, {CLOCK} FROM "  # noqa: S608
            f"(SELECT CAST({name} AS text) AS account, CAST({balance} AS text) AS balance FROM {table} AS owned "
            f"WHERE {name} = ANY({self._keys()}) ORDER BY {name} FOR NO KEY UPDATE) AS locked"
        )
        self._balance = f"SELECT CAST({balance} AS text) FROM {table} AS owned WHERE {name} = ANY({self._keys()})"  # noqa: S608
        # A statement of its own, so that it sees what was committed before the lock was ours.
        self._clocks = f"SELECT account, at_millis FROM {prefix}clocks WHERE account = ANY({KEYS})"  # noqa: S608
        #: The statements that write the rows of ``rows``, for the one statement that stores a batch.
        self.parts = {
            "balances": (
                f'UPDATE {table} AS owned SET "{accounts.balance}" = {balance} + CAST(moved.cells ->> 1 AS {number}) '  # noqa: S608
                "FROM json_array_elements(CAST(CAST(? AS text) AS json)) AS moved (cells) "
                f"WHERE {name} = CAST(moved.cells ->> 0 AS {self._type})"
            ),
            "clocks": clocks_part(prefix),
        }

    def load(
        self, keys: Set[str], others: tuple[Execute, ...]
    ) -> Generator[Step, Any, tuple[list[Account], int | None, list[Rows]]]:
        """Lock the rows in sorted order, then read *others*; return those that exist, the clock, and their rows."""
        lock = Execute(self._lock, (self._json(keys),))
        clocks = Execute(self._clocks, (json.dumps(sorted(keys)),))
        rows, known, *rest = yield Together((lock, clocks, *others))
        at_millis = {row[0]: row[1] for row in known}
        accounts = [Account(key, self._cents(key, balance), at_millis.get(key, 0)) for key, balance, _ in rows]
        return accounts, max((row[2] for row in rows), default=None), rest

    def rows(self, changes: Changes, was: Mapping[str, Account]) -> dict[str, list[Any]]:
        """Return the rows to write, as many as each of ``parts`` must change."""
        moved = {key: cents - was[key].balance_cents for key, cents, _ in changes.accounts.values()}
        return {
            "balances": [(key, format(delta_of(cents, self._unit), "f")) for key, cents in moved.items() if cents],
            "clocks": [(key, at) for key, _, at in changes.accounts.values()],
        }

    def after_store(self, changes: Changes, was: Mapping[str, Account]) -> Generator[Step, Any, None]:  # noqa: ARG002 - as others do
        """Do what cannot be done by ``parts``: nothing."""
        yield from ()

    def balance(self, key: str) -> Generator[Step, Any, int | None]:
        """Return a balance in cents, rounded down, or None if there is no such row."""
        rows: Rows = yield Execute(self._balance, (self._json({key}),))
        return self._cents(key, rows[0][0]) if rows else None

    def _keys(self) -> str:
        texts = "jsonb_array_elements_text(CAST(CAST(? AS text) AS jsonb)) AS wanted (account)"
        return f"ARRAY(SELECT CAST(wanted.account AS {self._type}) FROM {texts})"  # noqa: S608

    def _json(self, keys: Set[str]) -> str:
        return json.dumps(sorted(key for key in keys if self._key.value_of(key) is not None))

    def _cents(self, key: str, balance: str | None) -> int:
        try:
            return cents_of(Decimal(balance or "NaN"), self._unit)
        except (InvalidOperation, ValueError) as failed:
            raise unreadable(self._accounts, key, balance) from failed


def postgres_table_accounts(prefix: str, accounts: TableAccounts) -> Generator[Step, Any, PostgresTableAccounts]:
    """
    Look at the columns of *accounts* and return what locks and moves its balances.

    Raises:
        SchemaError: There is no such table or column, the key is not unique or not compared bytewise, or the balance
            is not exact.
    """
    rows: Rows = yield Execute(_COLUMNS, (accounts.quoted_table,))
    columns = {row[0]: tuple(row[1:]) for row in rows}
    if not columns:
        raise SchemaError(
            f"There is no table {accounts.table} in this PostgreSQL database: accounts= names a table that exists "
            "already. Names created without quotes are lowercase."
        )
    for name in (accounts.key, accounts.balance):
        if name not in columns:
            raise SchemaError(f"The table {accounts.table} has no column {name}; it has {', '.join(columns)}.")
    key = _key_column(accounts, *columns[accounts.key])
    unit = _unit(accounts, *columns[accounts.balance])
    number = "bigint" if columns[accounts.balance][0] in _INTEGERS else "numeric"
    return PostgresTableAccounts(prefix, accounts, key, unit, number=number)


def _key_column(accounts: TableAccounts, type_name: str, _modifier: int, bytewise: bool, unique: bool) -> KeyColumn:
    name = f"{accounts.table}.{accounts.key}"
    key = KeyColumn("integer", _INTEGERS[type_name]) if type_name in _INTEGERS else _KEYS.get(type_name)
    if key is None:
        raise SchemaError(
            f"The key {name} has the type {type_name}; it must be text, varchar, uuid or an integer type, which keep "
            "and compare ids as they are."
        )
    if not bytewise:
        raise SchemaError(f"The key {name} has a collation that takes different ids for equal; ids differ bytewise.")
    if not unique:
        raise SchemaError(f"The key {name} must be unique by itself: make it the primary key, or add a unique index.")
    return key


def _unit(accounts: TableAccounts, type_name: str, modifier: int, _bytewise: bool, _unique: bool) -> Unit:
    name = f"{accounts.table}.{accounts.balance}"
    if type_name in _INTEGERS:
        if accounts.unit == "units":
            raise SchemaError(
                f'The balance {name} is {type_name}, and no cents fit in whole units: is it unit="cents"?'
            )
        return accounts.unit or "cents"
    if type_name != "numeric":
        raise SchemaError(
            f"The balance {name} has the type {type_name}, which is not exact; it must be numeric or an integer type."
        )
    if accounts.unit is None:
        raise SchemaError(f'The balance {name} is numeric: tell accounts= what it counts, such as unit="units".')
    scale = _scale(modifier)
    if scale is not None and scale < (2 if accounts.unit == "units" else 0):
        raise SchemaError(
            f"The balance {name} keeps {scale} decimals, so that PostgreSQL would round cents away: it needs 2 or more."
        )
    return accounts.unit


def _scale(modifier: int) -> int | None:
    """Return how many decimals a numeric column keeps, or None for all; the lower 11 bits, with a sign."""
    if modifier < 0:
        return None
    bits = modifier - 4 & 0x7FF
    return bits - 0x800 if bits & 0x400 else bits
