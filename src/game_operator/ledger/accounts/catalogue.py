"""What the database says of a TableAccounts: its columns, its unique keys, and what could change an update."""

import json
import re
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Final, Literal, NamedTuple, get_args

from game_operator.errors import shown
from game_operator.ledger.api import TableAccounts, Unit
from game_operator.ledger.engine.script import Execute, Kind, Rows, Script
from game_operator.ledger.engine.tables import sql_texts

#: The questions to the catalogue of a database.
CATALOGUE_SQL: Final[Mapping[str, str]] = sql_texts(__package__, "catalogue.sql")

_INTEGER: Final = re.compile(r"0|-?[1-9][0-9]{0,18}", re.ASCII)
_UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)
_BITS = {"int2": 16, "int4": 32, "int8": 64}
_RELATIONS = {"v": "a view", "m": "a materialized view", "f": "a foreign table", "S": "a sequence", "c": "a type"}
#: What a declared type of SQLite says of its digits: ``(12)``, ``(12, 2)``.
_PRECISION = re.compile(r"\(\s*\d+\s*(?:,\s*([+-]?\d+)\s*)?\)")
#: The affinity that SQLite gives a declared type by parts of its name, in SQLite's order.
_AFFINITIES = {
    "INTEGER": ("INT",),
    "TEXT": ("CHAR", "CLOB", "TEXT"),
    "BLOB": ("BLOB",),
    "REAL": ("REAL", "FLOA", "DOUB"),
}
#: The types that a key and a balance may have.
_KEY_TYPES = {"sqlite": "TEXT, VARCHAR, UUID or INTEGER", "postgres": "text, varchar, uuid or an integer type"}
_BALANCE_TYPES = {"sqlite": "INTEGER, NUMERIC, DECIMAL or TEXT", "postgres": "numeric or an integer type"}


class KeyColumn(NamedTuple):
    """The kind of a key column; *bits* is the size of an integer's."""

    kind: Literal["text", "uuid", "integer"]
    bits: int = 64

    def value_of(self, account: str) -> str | int | None:
        """Return *account* as a value of the column, or None if no row can have it: ids are compared bytewise."""
        if self.kind == "text":
            return account
        if self.kind == "uuid":
            return account if _UUID.fullmatch(account) else None
        # "007" and "+7" are other ids than "7", though a cast would take them for the same.
        if not _INTEGER.fullmatch(account):
            return None
        value = int(account)
        return value if -(1 << self.bits - 1) <= value < 1 << self.bits - 1 else None


_KEYS = {"text": KeyColumn("text"), "varchar": KeyColumn("text"), "uuid": KeyColumn("uuid")}


class Column(NamedTuple):
    """
    A column as it is declared.

    Attributes:
        type_name: Its type, as people read it; of a domain of PostgreSQL, the type that it is made of.
        declared: Its type with its digits and its domain.
        key: The kind of key it can be, or None. SQLite keeps texts as they are where it is a text.
        is_exact: Whether a balance in it is exact.
        is_whole: Whether it is an integer.
        scale: How many decimals it keeps; None if the type does not say.
        bytewise: Whether different ids are never equal in it.
    """

    type_name: str
    declared: str
    key: KeyColumn | None
    is_exact: bool
    is_whole: bool
    scale: int | None
    bytewise: bool = True


_SEE = 'What a column counts, only you know: docs/how-to/own-transaction.md, "Which unit", lists all.'


class TableLook(NamedTuple):
    """What a look at a TableAccounts found: why it is refused, and its columns."""

    problems: list[str]
    columns: dict[str, Column]
    #: The columns of each unique index that compares bytewise; None for a view, which has no indexes.
    indexes: list[set[str]] | None = None
    has_policies: bool = False
    keys: tuple[KeyColumn, ...] = ()
    balance: Column | None = None


def look_at_table(kind: Kind, accounts: TableAccounts) -> Script[TableLook]:
    """Look at the columns of *accounts*; it only reads."""
    look = yield from (_in_sqlite(accounts) if kind == "sqlite" else _in_postgres(accounts))
    problems, columns, indexes = look.problems, look.columns, look.indexes
    if not columns:
        return look
    folded = str.lower if kind == "sqlite" else str
    absent = [name for name in (*accounts.keys, accounts.balance) if folded(name) not in columns]
    if absent:
        there = ", ".join(columns)
        problems += [f"The table {accounts.table} has no column {name}; it has {there}." for name in absent]
        return look
    keys = [columns[folded(name)] for name in accounts.keys]
    balance = columns[folded(accounts.balance)]
    for name, column in zip(accounts.keys, keys, strict=True):
        key = f"The key {accounts.table}.{name} has"
        if column.key is None:
            problems.append(f"{key} the type {column.type_name}; it must be {_KEY_TYPES[kind]}, to keep ids exact.")
        elif not column.bytewise:
            problems.append(f"{key} a collation that takes different ids for equal; ids differ bytewise.")
    # What is unique by fewer columns is unique by more.
    if indexes is not None and not any(names <= set(map(folded, accounts.keys)) for names in indexes):
        problems.append(_not_unique(kind, accounts, indexes))
    problems += _balance_problems(kind, accounts, balance)
    return look._replace(keys=tuple(column.key for column in keys if column.key), balance=balance)


def _not_unique(kind: Kind, accounts: TableAccounts, indexes: list[set[str]]) -> str:
    """Return that the key is not unique, and what to do; *indexes* are the unique ones that compare bytewise."""
    by = "by itself" if len(accounts.keys) == 1 else "together"
    problem = f"The key {accounts.table}.{', '.join(accounts.keys)} must be unique {by}"
    keys = {name.lower() for name in accounts.keys}  # SQLite's names differ in more than their case.
    wider = next((index for index in indexes if keys < {name.lower() for name in index}), None)
    if wider is None:
        advice = ", with the collation BINARY, which compares bytewise: NOCASE would take Ann for ann"
        return f"{problem}: make it the primary key, or add a unique index{advice if kind == 'sqlite' else ''}."
    others = sorted(name for name in wider if name.lower() not in keys)
    columns = ", ".join(f'"{name}"' for name in (*accounts.keys, *others))
    return (
        f"{problem}, and a unique index of the table has more columns. If an account is a row of that index, name all "
        f"its columns as its key: {columns}"
    )


def _balance_problems(kind: Kind, accounts: TableAccounts, column: Column) -> list[str]:
    """Return why the balance cannot be moved exactly in the unit of *accounts*; which it counts, no look can tell."""
    name, unit, scale = f"The balance {accounts.table}.{accounts.balance}", accounts.unit, column.scale
    if not column.is_exact:
        inexact = f"{name} has the type {column.type_name}, which is not exact"
        return [f"{inexact}; it must be {_BALANCE_TYPES[kind]}."]
    if unit is None and (scale or not column.is_whole):
        told = "say what it counts by unit=, at the command line --accounts-unit: one of"
        return [f"{name} is {column.declared}: {told} {', '.join(get_args(Unit))}. {_SEE}"]
    if scale is None or (scale >= 2 if unit == "units" else scale == 0):
        return []
    passed = f'the unit "{unit or "cents"}" was passed, which has {"two" if unit == "units" else "no decimals"}'
    return [f"{name} is {column.declared}, which keeps {scale or 'no'} decimals, and {passed}. {_SEE}"]


def has_decimals(balance: object) -> bool:
    """Return whether *balance* is written with decimals, zeros included: 102.00 is an amount in units."""
    if isinstance(balance, float):
        return not balance.is_integer()
    try:
        exponent = (balance if isinstance(balance, Decimal) else Decimal(str(balance))).as_tuple().exponent
    except InvalidOperation:
        return False
    return isinstance(exponent, int) and exponent < 0


def _in_sqlite(accounts: TableAccounts) -> Script[TableLook]:
    schema, _, table = accounts.table.rpartition(".")
    schema = schema or "main"
    master = f'"{schema}".sqlite_master'
    kind: Rows = yield Execute(f"SELECT type FROM {master} WHERE name = ? COLLATE NOCASE", (table,))  # noqa: S608 - checked names
    if kind and kind[0][0] == "view":
        problem = (
            f"{accounts.table} is a view, and SQLite cannot update one by itself: name the table behind it, or "
            "pass an Accounts object."
        )
        return TableLook([problem], {})
    if not kind or kind[0][0] != "table":
        missing = f"There is no table {accounts.table} in this SQLite file: name one that exists already."
        return TableLook([missing], {})
    rows: Rows = yield Execute("SELECT name, type, pk FROM pragma_table_xinfo(?, ?)", (table, schema))
    columns = {name.lower(): _sqlite_column(declared.upper()) for name, declared, _ in rows}
    primary = [(name.lower(), declared.upper()) for name, declared, place in rows if place]
    unique: Rows = yield Execute(CATALOGUE_SQL["unique_indexes_in_sqlite"], (table, schema, schema))
    # The rowid itself has no index.
    indexes = [{primary[0][0]}] if len(primary) == 1 and primary[0][1] == "INTEGER" else []
    return TableLook([], columns, indexes + [set(json.loads(row[0])) for row in unique])


def _sqlite_column(declared: str) -> Column:
    known = (name for name, parts in _AFFINITIES.items() if any(part in declared for part in parts))
    affinity = next(known, "NUMERIC" if declared else "BLOB")
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


def _in_postgres(accounts: TableAccounts) -> Script[TableLook]:
    rows: Rows = yield Execute(CATALOGUE_SQL["columns"], (accounts.quoted_table,) * 2)
    if not rows:
        missing = (
            f"There is no table {accounts.table} in this PostgreSQL database: name one that exists already. "
            "Names created without quotes are lowercase."
        )
        return TableLook([missing], {})
    columns, problems = {}, []
    for relation, name, type_name, scale, declared, base, bytewise, updatable, _ in rows:
        bits = _BITS.get(type_name)
        columns[name] = Column(
            type_name,
            declared if declared == base else f"{declared}, which is {base}",
            KeyColumn("integer", bits) if bits else _KEYS.get(type_name),
            is_exact=bits is not None or type_name == "numeric",
            is_whole=bits is not None,
            scale=0 if bits else scale,
            bytewise=bytewise,
        )
        if name == accounts.balance and relation not in "rp" and not (relation == "v" and updatable):
            what = _RELATIONS.get(relation, "no table")
            if relation == "v":
                what += f" whose column {name} PostgreSQL cannot update by itself"
            problems.append(f"{accounts.table} is {what}: name the table behind it, or pass an Accounts object.")
    indexes = None
    if rows[0][0] in "rp":
        unique: Rows = yield Execute(CATALOGUE_SQL["unique_indexes"], (accounts.quoted_table,))
        indexes = [set(json.loads(row[0])) for row in unique]
    return TableLook(problems, columns, indexes, has_policies=rows[0][8])
