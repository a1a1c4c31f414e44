"""Balances in the operator's own table in PostgreSQL: one statement locks a batch's rows, one moves them."""

import json
from collections.abc import Generator, Mapping, Sequence, Set
from decimal import Decimal, InvalidOperation
from typing import Any, NamedTuple

from game_operator.errors import LedgerError, SchemaError, shown
from game_operator.ledger.accounts.columns import (
    SAMPLE_ROWS,
    KeyColumn,
    cents_of,
    check_kept,
    check_one_row_each,
    decimals_problem,
    delta_of,
    exact_account,
    key_values,
    moved_cents,
    no_such_row,
    not_unique,
    unit_problem,
    unreadable,
)
from game_operator.ledger.api import Account, TableAccounts, Unit
from game_operator.ledger.engine.rows import CLOCK, KEYS, clocks_part
from game_operator.ledger.engine.script import Execute, Rows, Step, Together
from game_operator.ledger.rules.book import Changes

_KEYS = {"text": KeyColumn("text"), "varchar": KeyColumn("text"), "uuid": KeyColumn("uuid")}
_INTEGERS = {"int2": 16, "int4": 32, "int8": 64}
_TYPES = {"text": "text", "uuid": "uuid", "integer": "bigint"}
_RELATIONS = {"v": "a view", "m": "a materialized view", "f": "a foreign table", "S": "a sequence", "c": "a type"}
_UNSUPPORTED = "0A000"
_DECIMALS = "scale(CAST(balance AS numeric)) > 0"

# A domain is what it is made of, be it another domain. Of an ordinary table every column can be updated.
_COLUMNS = """
WITH RECURSIVE field (attnum, typid, typmod, is_base) AS (
    SELECT attnum, atttypid, atttypmod, NOT EXISTS (SELECT FROM pg_type WHERE oid = atttypid AND typtype = 'd')
    FROM pg_attribute WHERE attrelid = to_regclass(?) AND attnum > 0 AND NOT attisdropped
    UNION ALL
    SELECT field.attnum, type.typbasetype, type.typtypmod,
        NOT EXISTS (SELECT FROM pg_type AS base WHERE base.oid = type.typbasetype AND base.typtype = 'd')
    FROM field JOIN pg_type AS type ON type.oid = field.typid AND type.typtype = 'd'
)
SELECT CAST(owner.relkind AS text), CAST(attribute.attname AS text), CAST(base.typname AS text), field.typmod,
    format_type(attribute.atttypid, attribute.atttypmod), format_type(field.typid, field.typmod),
    coalesce(rule.collisdeterministic, true), pg_column_is_updatable(owner.oid, attribute.attnum, false),
    row_security_active(owner.oid)
FROM field
JOIN pg_attribute AS attribute ON attribute.attrelid = to_regclass(?) AND attribute.attnum = field.attnum
JOIN pg_class AS owner ON owner.oid = attribute.attrelid
JOIN pg_type AS base ON base.oid = field.typid
LEFT JOIN pg_collation AS rule ON rule.oid = attribute.attcollation
WHERE field.is_base ORDER BY attribute.attnum
"""

_UNIQUE = """
SELECT CAST(index.indexrelid AS text), CAST(field.attname AS text)
FROM pg_index AS index CROSS JOIN generate_series(0, index.indnkeyatts - 1) AS place
JOIN pg_attribute AS field ON field.attrelid = index.indrelid AND field.attnum = index.indkey[place]
WHERE index.indrelid = to_regclass(?) AND index.indisunique AND index.indisvalid AND index.indpred IS NULL
    AND index.indexprs IS NULL
"""

_MEDDLERS = """
SELECT 'the trigger ' || tgname FROM pg_trigger
WHERE tgrelid = to_regclass(?) AND NOT tgisinternal AND tgenabled <> 'D' AND tgtype & 16 <> 0
UNION ALL SELECT 'the rule ' || rulename FROM pg_rewrite
WHERE ev_class = to_regclass(?) AND ev_type = '2' AND ev_enabled <> 'D'
UNION ALL SELECT 'row level security' WHERE row_security_active(to_regclass(?))
"""


class PostgresTableAccounts:
    """The accounts of a TableAccounts whose columns have been looked at."""

    def __init__(
        self,
        prefix: str,
        accounts: TableAccounts,
        keys: Sequence[KeyColumn],
        unit: Unit,
        *,
        number: str,
        has_policies: bool = False,
    ) -> None:
        self.unknown = no_such_row(accounts)
        self._has_policies = has_policies
        self.key_parts = len(keys)
        self._accounts, self._keys, self._unit = accounts, tuple(keys), unit
        table, balance = accounts.quoted_table, f'owned."{accounts.balance}"'
        names = [f'owned."{name}"' for name in accounts.keys]
        account, rows = _rows_wanted(table, names, self._keys)
        # S608: the names were checked and are quoted. Texts, whatever types the caller's connection makes of numbers.
        self._balances = f"SELECT {account} AS account, CAST({balance} AS text) AS balance FROM {rows}"  # noqa: S608
        # NO KEY: rows that refer to the player can be inserted meanwhile, and two callers that did so do not deadlock.
        self._lock = (
            f"SELECT locked.account, locked.balance, {CLOCK} FROM "  # noqa: S608
            f"({self._balances} ORDER BY {', '.join(names)} FOR NO KEY UPDATE OF owned) AS locked"
        )
        # A statement of its own, so that it sees what was committed before the lock was ours.
        self._clocks = f"SELECT account, at_millis FROM {prefix}clocks WHERE account = ANY({KEYS})"  # noqa: S608
        matches = " AND ".join(
            f"{name} = CAST(moved.cells ->> {index} AS {_TYPES[key.kind]})"
            for index, (name, key) in enumerate(zip(names, self._keys, strict=True))
        )
        #: The statements that write the rows of ``rows``, for the one statement that stores a batch.
        self.parts = {
            "balances": (
                f'UPDATE {table} AS owned SET "{accounts.balance}" = '  # noqa: S608
                f"{balance} + CAST(moved.cells ->> {len(names)} AS {number}) "
                f"FROM json_array_elements(CAST(CAST(? AS text) AS json)) AS moved (cells) WHERE {matches}"
            ),
            "clocks": clocks_part(prefix),
        }

    def load(
        self, keys: Set[str], others: tuple[Execute, ...]
    ) -> Generator[Step, Any, tuple[list[Account], int | None, list[Rows]]]:
        """Lock the rows in sorted order, then read *others*; return those that exist, the clock, and their rows."""
        lock = Execute(self._lock, (self._json(keys),))
        clocks = Execute(self._clocks, (json.dumps(sorted(keys)),))
        seen = (Execute(self._balances, (self._json(keys),)),) if self._has_policies else ()
        rows, known, *rest = yield Together((lock, clocks, *seen, *others))
        if seen:
            self._check_none_is_hidden(rows, rest.pop(0))
        at_millis = {row[0]: row[1] for row in known}
        exact = self._exact(rows)
        accounts = [exact_account(key, balance, self._unit, at_millis.get(key, 0)) for key, balance in exact.items()]
        return [*accounts], max((row[2] for row in rows), default=None), rest

    def rows(self, changes: Changes, was: Mapping[str, Account]) -> dict[str, list[Any]]:
        """Return the rows to write, as many as each of ``parts`` must change."""
        moved = moved_cents(changes, was)
        return {
            "balances": [
                (*self._values(key), format(delta_of(cents, self._unit), "f")) for key, cents in moved.items()
            ],
            "clocks": [(key, at) for key, _, at in changes.accounts.values()],
        }

    def stored(self, statement: Execute, changes: Changes, was: Mapping[str, Account]) -> Generator[Step, Any, Rows]:
        """
        Perform the statement with ``parts``, read the balances again, and return its rows.

        Only a later statement sees what a trigger has made of the balances; in a pipeline it costs no round trip.

        Raises:
            LedgerError: A balance is not what it was moved to.
        """
        moved = moved_cents(changes, was)
        if not moved:
            return (yield statement)  # type: ignore[no-any-return]  # Drivers send rows back.
        try:
            rows, now = yield Together((statement, Execute(self._balances, (self._json(moved.keys()),))))
        except Exception as failed:
            if not _is_unsupported(failed):
                raise
            raise LedgerError(
                f"{self._accounts.table} has a rule for UPDATE that PostgreSQL cannot apply to the ledger's statement. "
                "Nothing was kept: drop the rule, or pass an Accounts object."
            ) from failed
        check_kept(self._accounts, self._unit, moved, was, self._exact(now))
        return rows  # type: ignore[no-any-return]  # Drivers send rows back.

    def after_store(self, changes: Changes, was: Mapping[str, Account]) -> Generator[Step, Any, None]:  # noqa: ARG002 - as others do
        """Do what cannot be done by ``parts``: nothing."""
        yield from ()

    def balance(self, key: str) -> Generator[Step, Any, int | None]:
        """Return a balance in cents, rounded down, or None if there is no such row."""
        rows: Rows = yield Execute(self._balances, (self._json({key}),))
        exact = self._exact(rows)
        return cents_of(exact[key], self._unit) if key in exact else None

    def _check_none_is_hidden(self, locked: Rows, seen: Rows) -> None:
        """Raise LedgerError for a row that may be read and not updated: only what cannot be seen is unknown."""
        hidden = {row[0] for row in seen} - {row[0] for row in locked}
        if hidden:
            raise LedgerError(
                f"A row policy of {self._accounts.table} lets the ledger read the account {shown(min(hidden))} and not "
                "update it. Nothing was kept: let the ledger's role do both, or neither."
            )

    def _values(self, account: str) -> tuple[str | int, ...]:
        values = key_values(account, self._keys)
        assert values is not None, "The account was loaded."
        return values

    def _json(self, keys: Set[str]) -> str:
        """Return the accounts that can exist, each with the values of its key where that has several."""
        known = ((key, key_values(key, self._keys)) for key in sorted(keys))
        if self.key_parts == 1:
            return json.dumps([key for key, values in known if values])
        return json.dumps([(key, *values) for key, values in known if values])

    def _exact(self, rows: Rows) -> dict[str, Decimal]:
        """Return the balances in *rows*; raise LedgerError for one that cannot be read, or that two rows hold."""
        check_one_row_each(self._accounts, [row[0] for row in rows])
        exact = {}
        for key, balance, *_ in rows:
            try:
                exact[key] = Decimal(balance or "NaN")
                cents_of(exact[key], self._unit)
            except (InvalidOperation, ValueError) as failed:
                raise unreadable(self._accounts, key, balance) from failed
        return exact


def _rows_wanted(table: str, names: Sequence[str], keys: Sequence[KeyColumn]) -> tuple[str, str]:
    """Return what names the account of a row, and the rows of the accounts in one JSON text."""
    texts = "(CAST(CAST(? AS text) AS jsonb)) AS wanted"
    if len(names) == 1:
        listed = (
            f"SELECT CAST(wanted.account AS {_TYPES[keys[0].kind]}) FROM jsonb_array_elements_text{texts} (account)"  # noqa: S608
        )
        return f"CAST({names[0]} AS text)", f"{table} AS owned WHERE {names[0]} = ANY(ARRAY({listed}))"
    matches = " AND ".join(
        f"{name} = CAST(wanted.cells ->> {place} AS {_TYPES[key.kind]})"
        for place, (name, key) in enumerate(zip(names, keys, strict=True), 1)
    )
    return "wanted.cells ->> 0", f"jsonb_array_elements{texts} (cells) JOIN {table} AS owned ON {matches}"


class _Column(NamedTuple):
    """A column as PostgreSQL describes it; *declared* is its type for people."""

    relation: str
    type_name: str
    modifier: int
    declared: str
    bytewise: bool
    updatable: bool
    has_policies: bool


class PostgresTableLook(NamedTuple):
    """What a look at a TableAccounts found: why it is refused, or what its columns are."""

    problems: list[str]
    keys: list[KeyColumn]
    number: str = "numeric"
    has_policies: bool = False


def postgres_table_accounts(prefix: str, accounts: TableAccounts) -> Generator[Step, Any, PostgresTableAccounts]:
    """
    Look at the columns of *accounts* and return what locks and moves its balances.

    Raises:
        SchemaError: There is no such table or column, the key is not unique or not compared bytewise, the balance is
            not exact, or cannot hold its unit.
    """
    look = yield from postgres_table_look(accounts)
    if look.problems:
        raise SchemaError(" ".join(look.problems))
    unit = accounts.unit or "cents"
    return PostgresTableAccounts(prefix, accounts, look.keys, unit, number=look.number, has_policies=look.has_policies)


def postgres_table_look(accounts: TableAccounts) -> Generator[Step, Any, PostgresTableLook]:
    """Look at the columns of *accounts*; it only reads."""
    columns = yield from _columns(accounts)
    if not columns:
        missing = (
            f"There is no table {accounts.table} in this PostgreSQL database: name one that exists already. "
            "Names created without quotes are lowercase."
        )
        return PostgresTableLook([missing], [])
    absent = [name for name in (*accounts.keys, accounts.balance) if name not in columns]
    if absent:
        return PostgresTableLook([_absent(accounts, name, columns) for name in absent], [])
    relation = columns[accounts.balance].relation
    keys, problems = _key_columns(accounts, columns)
    problems += _relation_problems(accounts, columns[accounts.balance])
    if relation in "rp":
        problems += yield from _unique_problems(accounts)
    problems += yield from _balance_problems(accounts, columns[accounts.balance])
    number = "bigint" if columns[accounts.balance].type_name in _INTEGERS else "numeric"
    return PostgresTableLook(problems, keys, number, columns[accounts.balance].has_policies)


def postgres_table_meddlers(accounts: TableAccounts) -> Generator[Step, Any, list[str]]:
    """Return what of the table could change an update of the ledger's: triggers, rules, row policies; it only reads."""
    rows: Rows = yield Execute(_MEDDLERS, (accounts.quoted_table,) * 3)
    return [f"{row[0]} of {accounts.table}" for row in rows]


def _columns(accounts: TableAccounts) -> Generator[Step, Any, dict[str, _Column]]:
    rows: Rows = yield Execute(_COLUMNS, (accounts.quoted_table,) * 2)
    columns = {}
    for relation, name, type_name, modifier, declared, base, *rest in rows:
        shown_type = declared if declared == base else f"{declared}, which is {base}"
        columns[name] = _Column(relation, type_name, modifier, shown_type, *rest)
    return columns


def _absent(accounts: TableAccounts, name: str, columns: Mapping[str, _Column]) -> str:
    return f"The table {accounts.table} has no column {name}; it has {', '.join(columns)}."


def _relation_problems(accounts: TableAccounts, balance: _Column) -> list[str]:
    if balance.relation in "rp" or (balance.relation == "v" and balance.updatable):
        return []
    kind = _RELATIONS.get(balance.relation, "no table")
    if balance.relation == "v":
        kind += f" whose column {accounts.balance} PostgreSQL cannot update by itself"
    return [f"{accounts.table} is {kind}: name the table behind it, or pass an Accounts object."]


def _key_columns(accounts: TableAccounts, columns: Mapping[str, _Column]) -> tuple[list[KeyColumn], list[str]]:
    keys, problems = [], []
    for each in accounts.keys:
        column, name = columns[each], f"{accounts.table}.{each}"
        bits = _INTEGERS.get(column.type_name)
        key = KeyColumn("integer", bits) if bits else _KEYS.get(column.type_name)
        if key is None:
            problems.append(
                f"The key {name} has the type {column.type_name}; it must be text, varchar, uuid or an integer type, "
                "which keep and compare ids as they are."
            )
            continue
        if not column.bytewise:
            problems.append(f"The key {name} has a collation that takes different ids for equal; ids differ bytewise.")
        keys.append(key)
    return keys, problems


def _unique_problems(accounts: TableAccounts) -> Generator[Step, Any, list[str]]:
    rows: Rows = yield Execute(_UNIQUE, (accounts.quoted_table,))
    indexes: dict[str, set[str]] = {}
    for index, name in rows:
        indexes.setdefault(index, set()).add(name)
    # What is unique by fewer columns is unique by more.
    if any(names <= set(accounts.keys) for names in indexes.values()):
        return []
    return [not_unique(accounts, indexes.values())]


def _balance_problems(accounts: TableAccounts, column: _Column) -> Generator[Step, Any, list[str]]:
    """Return why the balance cannot be moved exactly, in the unit that *accounts* says."""
    name = f"{accounts.table}.{accounts.balance}"
    if column.type_name not in _INTEGERS and column.type_name != "numeric":
        inexact = f"The balance {name} has the type {column.type_name}, which is not exact"
        return [f"{inexact}; it must be numeric or an integer type."]
    if column.type_name in _INTEGERS and accounts.unit is None:
        return []
    scale = 0 if column.type_name in _INTEGERS else _scale(column.modifier)
    problem = unit_problem(accounts, column.declared, scale)
    if problem is not None:
        return [problem]
    if scale is not None or accounts.unit == "units":
        return []
    first = f'SELECT "{accounts.balance}" AS balance FROM {accounts.quoted_table} LIMIT {SAMPLE_ROWS}'  # noqa: S608
    found: Rows = yield Execute(f"SELECT CAST(balance AS text) FROM ({first}) AS first WHERE {_DECIMALS} LIMIT 1", ())  # noqa: S608
    return [decimals_problem(accounts, column.declared, found[0][0])] if found else []


def _scale(modifier: int) -> int | None:
    """Return how many decimals a numeric column keeps, or None for all; the lower 11 bits, with a sign."""
    if modifier < 0:
        return None
    bits = modifier - 4 & 0x7FF
    return bits - 0x800 if bits & 0x400 else bits


def _is_unsupported(failed: Exception) -> bool:
    """Return whether PostgreSQL does not support a statement, as driver, SQLAlchemy or Django wrapped it."""
    errors = (failed, getattr(failed, "orig", None), failed.__cause__)
    return any(getattr(error, "sqlstate", None) == _UNSUPPORTED for error in errors)
