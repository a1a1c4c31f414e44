"""What the database says of a TableAccounts: its columns, its unique keys, and what could change an update."""

import re
from collections.abc import Iterable
from typing import NamedTuple

from game_operator.errors import shown
from game_operator.ledger.accounts.columns import (
    SAMPLE_ROWS,
    KeyColumn,
    decimals_problem,
    has_decimals,
    not_unique,
    unit_problem,
)
from game_operator.ledger.api import TableAccounts
from game_operator.ledger.engine.script import Execute, Kind, Rows, Script

_KEYS = {"text": KeyColumn("text"), "varchar": KeyColumn("text"), "uuid": KeyColumn("uuid")}
_BITS = {"int2": 16, "int4": 32, "int8": 64}
_RELATIONS = {"v": "a view", "m": "a materialized view", "f": "a foreign table", "S": "a sequence", "c": "a type"}
#: What a declared type of SQLite says of its digits: ``(12)``, ``(12, 2)``.
_PRECISION = re.compile(r"\(\s*\d+\s*(?:,\s*([+-]?\d+)\s*)?\)")
#: The types that a key and a balance may have.
_KEY_TYPES = {"sqlite": "TEXT, VARCHAR, UUID or INTEGER", "postgres": "text, varchar, uuid or an integer type"}
_BALANCE_TYPES = {"sqlite": "INTEGER, NUMERIC, DECIMAL or TEXT", "postgres": "numeric or an integer type"}

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

_UPDATE_HOOKS = """
SELECT 'the trigger ' || tgname FROM pg_trigger
WHERE tgrelid = to_regclass(?) AND NOT tgisinternal AND tgenabled <> 'D' AND tgtype & 16 <> 0
UNION ALL SELECT 'the rule ' || rulename FROM pg_rewrite
WHERE ev_class = to_regclass(?) AND ev_type = '2' AND ev_enabled <> 'D'
UNION ALL SELECT 'row level security' WHERE row_security_active(to_regclass(?))
"""


class Column(NamedTuple):
    """
    A column as it is declared.

    Attributes:
        type_name: Its type, as people read it; of a domain of PostgreSQL, the type that it is made of.
        declared: Its type with its digits and its domain.
        key: The kind of key it can be, or None.
        is_exact: Whether a balance in it is exact.
        is_whole: Whether it is an integer.
        scale: How many decimals it keeps; None if the type does not say.
        bytewise: Whether it takes no different ids for equal.
    """

    type_name: str
    declared: str
    key: KeyColumn | None
    is_exact: bool
    is_whole: bool
    scale: int | None
    bytewise: bool = True


class TableLook(NamedTuple):
    """What a look at a TableAccounts found: why it is refused, or what its columns are."""

    problems: list[str]
    keys: tuple[KeyColumn, ...] = ()
    balance: Column | None = None
    has_policies: bool = False


class _Relation(NamedTuple):
    """
    The columns of a table, or why it cannot be used.

    *indexes* has the columns of each unique index that compares bytewise; None for a view, which has no indexes.
    """

    columns: dict[str, Column]
    problems: list[str]
    indexes: list[set[str]] | None = None
    has_policies: bool = False


def look_at_table(kind: Kind, accounts: TableAccounts) -> Script[TableLook]:
    """Look at the columns of *accounts*; it only reads."""
    columns, problems, indexes, has_policies = yield from (
        _in_sqlite(accounts) if kind == "sqlite" else _in_postgres(accounts)
    )
    if not columns:
        return TableLook(problems)
    folded = str.lower if kind == "sqlite" else str
    absent = [name for name in (*accounts.keys, accounts.balance) if folded(name) not in columns]
    if absent:
        there = ", ".join(columns)
        return TableLook([f"The table {accounts.table} has no column {name}; it has {there}." for name in absent])
    keys = [columns[folded(name)] for name in accounts.keys]
    balance = columns[folded(accounts.balance)]
    for name, column in zip(accounts.keys, keys, strict=True):
        problems += _key_problems(kind, f"{accounts.table}.{name}", column)
    # What is unique by fewer columns is unique by more.
    if indexes is not None and not any(names <= set(map(folded, accounts.keys)) for names in indexes):
        advice = ", with the collation BINARY, which compares bytewise: NOCASE would take Ann for ann"
        problems.append(not_unique(accounts, indexes, advice if kind == "sqlite" else ""))
    problems += yield from _balance_problems(kind, accounts, balance)
    return TableLook(problems, tuple(column.key for column in keys if column.key), balance, has_policies)


def _key_problems(kind: Kind, name: str, column: Column) -> list[str]:
    if column.key is None:
        return [f"The key {name} has the type {column.type_name}; it must be {_KEY_TYPES[kind]}, to keep ids exact."]
    if not column.bytewise:
        return [f"The key {name} has a collation that takes different ids for equal; ids differ bytewise."]
    return []


def _balance_problems(kind: Kind, accounts: TableAccounts, column: Column) -> Script[list[str]]:
    """Return why the balance cannot be moved exactly, in the unit of *accounts*."""
    if not column.is_exact:
        inexact = f"The balance {accounts.table}.{accounts.balance} has the type {column.type_name}, which is not exact"
        return [f"{inexact}; it must be {_BALANCE_TYPES[kind]}."]
    if accounts.unit is not None or not column.is_whole or column.scale:
        problem = unit_problem(accounts, column.declared, column.scale)
        if problem is not None:
            return [problem]
    # SQLite keeps any number in a column of any type.
    if accounts.unit == "units" or (kind == "postgres" and column.scale is not None):
        return []
    balance = f'owned."{accounts.balance}"'
    shown_balance = f"+{balance}" if kind == "sqlite" else f"CAST({balance} AS text)"
    rows: Rows = yield Execute(
        f"SELECT {shown_balance} FROM {accounts.quoted_table} AS owned LIMIT {SAMPLE_ROWS}",  # noqa: S608 - checked names
        (),
    )
    found = next((row[0] for row in rows if has_decimals(row[0])), None)
    return [] if found is None else [decimals_problem(accounts, column.declared, found)]


def _in_sqlite(accounts: TableAccounts) -> Script[_Relation]:
    schema, _, table = accounts.table.rpartition(".")
    kind: Rows = yield Execute(f"SELECT type FROM {_master(schema)} WHERE name = ? COLLATE NOCASE", (table,))  # noqa: S608 - checked names
    if kind and kind[0][0] == "view":
        problem = (
            f"{accounts.table} is a view, and SQLite cannot update one by itself: name the table behind it, or "
            "pass an Accounts object."
        )
        return _Relation({}, [problem])
    if not kind or kind[0][0] != "table":
        return _Relation({}, [f"There is no table {accounts.table} in this SQLite file: name one that exists already."])
    where = (table, schema or "main")
    rows: Rows = yield Execute("SELECT name, type, pk FROM pragma_table_xinfo(?, ?)", where)
    columns = {name.lower(): _sqlite_column(declared.upper()) for name, declared, _ in rows}
    primary = [(name.lower(), declared.upper()) for name, declared, place in rows if place]
    keys: Rows = yield Execute(
        "SELECT i.name, lower(c.name), upper(c.coll) "
        "FROM pragma_index_list(?, ?) AS i, pragma_index_xinfo(i.name, ?) AS c "
        'WHERE i."unique" AND NOT i.partial AND c.key',
        (*where, schema or "main"),
    )
    # The rowid itself has no index.
    indexes = [{primary[0][0]}] if len(primary) == 1 and primary[0][1] == "INTEGER" else []
    inexact = {index for index, _, collation in keys if collation != "BINARY"}
    indexes += _grouped((index, name) for index, name, _ in keys if index not in inexact)
    return _Relation(columns, [], indexes)


def _sqlite_column(declared: str) -> Column:
    affinity = _affinity(declared)
    key = {"TEXT": KeyColumn("text"), "INTEGER": KeyColumn("integer")}.get(affinity)
    digits = _PRECISION.search(declared)
    if digits is not None and digits[1] is not None:
        scale: int | None = int(digits[1])
    else:
        # One number behind a type of texts is their length.
        scale = 0 if affinity == "INTEGER" or (affinity == "NUMERIC" and digits is not None) else None
    return Column(
        shown(declared),
        declared,
        KeyColumn("uuid") if declared == "UUID" else key,
        is_exact=affinity not in ("REAL", "BLOB"),
        is_whole=affinity == "INTEGER",
        scale=scale,
    )


def is_text_in_sqlite(column: Column) -> bool:
    """Return whether SQLite keeps what is written to *column* as a text."""
    return _affinity(column.declared) == "TEXT"


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


def _grouped(names: Iterable[tuple[str, str]]) -> list[set[str]]:
    indexes: dict[str, set[str]] = {}
    for index, name in names:
        indexes.setdefault(index, set()).add(name)
    return [*indexes.values()]


def _in_postgres(accounts: TableAccounts) -> Script[_Relation]:
    rows: Rows = yield Execute(_COLUMNS, (accounts.quoted_table,) * 2)
    if not rows:
        missing = (
            f"There is no table {accounts.table} in this PostgreSQL database: name one that exists already. "
            "Names created without quotes are lowercase."
        )
        return _Relation({}, [missing])
    columns, problems = {}, []
    for relation, name, type_name, modifier, declared, base, bytewise, updatable, _ in rows:
        bits = _BITS.get(type_name)
        columns[name] = Column(
            type_name,
            declared if declared == base else f"{declared}, which is {base}",
            KeyColumn("integer", bits) if bits else _KEYS.get(type_name),
            is_exact=bits is not None or type_name == "numeric",
            is_whole=bits is not None,
            scale=0 if bits else _scale(modifier),
            bytewise=bytewise,
        )
        if name == accounts.balance and relation not in "rp" and not (relation == "v" and updatable):
            what = _RELATIONS.get(relation, "no table")
            if relation == "v":
                what += f" whose column {name} PostgreSQL cannot update by itself"
            problems.append(f"{accounts.table} is {what}: name the table behind it, or pass an Accounts object.")
    indexes = None
    if rows[0][0] in "rp":
        indexes = _grouped((yield Execute(_UNIQUE, (accounts.quoted_table,))))
    return _Relation(columns, problems, indexes, has_policies=rows[0][8])


def _scale(modifier: int) -> int | None:
    """Return how many decimals a numeric column keeps, or None for all; the lower 11 bits, with a sign."""
    if modifier < 0:
        return None
    bits = modifier - 4 & 0x7FF
    return bits - 0x800 if bits & 0x400 else bits


def table_update_hooks(kind: Kind, accounts: TableAccounts) -> Script[list[str]]:
    """
    Return what could change an update of the ledger's, so that the call is refused: triggers, rules, row policies.

    Most are harmless: only one that changes the balance is a LedgerError. It only executes statements that read.
    """
    if kind == "postgres":
        rows: Rows = yield Execute(_UPDATE_HOOKS, (accounts.quoted_table,) * 3)
        return [f"{row[0]} of {accounts.table}" for row in rows]
    schema, _, table = accounts.table.rpartition(".")
    rows = yield Execute(
        f"SELECT name FROM {_master(schema)} WHERE type = 'trigger' AND tbl_name = ? COLLATE NOCASE "  # noqa: S608
        "AND sql LIKE '%UPDATE%'",
        (table,),
    )
    return [f"the trigger {row[0]} of {accounts.table}" for row in rows]


def _master(schema: str) -> str:
    return f'"{schema}".sqlite_master' if schema else "sqlite_master"
