"""What the database says of a TableAccounts: its columns, its unique keys, and what could change an update."""

import json
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Final, Literal, NamedTuple, get_args

from game_operator.errors import shown
from game_operator.ledger.api import TableAccounts, Unit
from game_operator.ledger.engine.tables import sql_texts
from game_operator.ledger.steps import Execute, Kind, Rows, Steps

#: The questions to the catalogue of a database.
CATALOGUE_SQL: Final[Mapping[str, str]] = sql_texts(__package__, "catalogue.sql")

_INTEGER: Final = re.compile(r"0|-?[1-9][0-9]{0,18}", re.ASCII)
_UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)
_BITS = {"int2": 16, "int4": 32, "int8": 64}
_RELATIONS = {"v": "a view", "m": "a materialized view", "f": "a foreign table"}
#: What a declared type of SQLite says of its digits: ``(12)``, ``(12, 2)``.
_PRECISION = re.compile(r"\(\s*\d+\s*(?:,\s*([+-]?\d+)\s*)?\)")
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


_SEE = 'What a column counts, only you know: docs/how-to/own-tables.md, "Which unit", lists all.'


class TableLook(NamedTuple):
    """What a look at a TableAccounts found: why it is refused, and its columns."""

    problems: list[str]
    columns: dict[str, Column]
    #: The columns of each unique index that compares bytewise.
    indexes: Sequence[set[str]] = ()
    keys: tuple[KeyColumn, ...] = ()
    balance: Column | None = None


def look_at_table(kind: Kind, accounts: TableAccounts) -> Steps[TableLook]:
    """Look at the columns of *accounts*; it only reads."""
    look = yield from (_in_sqlite(accounts) if kind == "sqlite" else _in_postgres(accounts))
    problems, columns, indexes = look.problems, look.columns, look.indexes
    if problems:
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
    if not any(names <= set(map(folded, accounts.keys)) for names in indexes):
        by = "by itself" if len(accounts.keys) == 1 else "together"
        advice = ", with the collation BINARY: NOCASE would take Ann for ann" if kind == "sqlite" else ""
        problems.append(
            f"The key {accounts.table}.{', '.join(accounts.keys)} must be unique {by}: make it the primary key, or add "
            f"a unique index{advice}. If an account has more columns, name all of them as its key."
        )
    problems += _balance_problems(kind, accounts, balance)
    return look._replace(keys=tuple(column.key for column in keys if column.key), balance=balance)


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


def _in_sqlite(accounts: TableAccounts) -> Steps[TableLook]:
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
    is_whole, is_text = "INT" in declared, any(part in declared for part in ("CHAR", "CLOB", "TEXT"))
    is_numeric = declared.startswith(("NUMERIC", "DECIMAL"))
    key = KeyColumn("integer") if is_whole else KeyColumn("text") if is_text else None
    digits = _PRECISION.search(declared) if is_numeric else None
    return Column(
        shown(declared),
        declared,
        KeyColumn("uuid") if declared == "UUID" else key,
        is_exact=is_whole or is_text or is_numeric,
        is_whole=is_whole,
        scale=0 if is_whole else None if digits is None else int(digits[1] or 0),
    )


def _in_postgres(accounts: TableAccounts) -> Steps[TableLook]:
    rows: Rows = yield Execute(CATALOGUE_SQL["columns"], (accounts.quoted_table,) * 2)
    if not rows:
        missing = (
            f"There is no table {accounts.table} in this PostgreSQL database: name one that exists already. "
            "Names created without quotes are lowercase."
        )
        return TableLook([missing], {})
    relation, has_policies = rows[0][0], rows[0][7]
    if relation not in "rp":
        what = _RELATIONS.get(relation, "no table")
        problem = f"{accounts.table} is {what}: name the table behind it, or pass an Accounts object."
        return TableLook([problem], {})
    if has_policies:
        problem = f"Row policies of {accounts.table} apply to the ledger's role: let it bypass them (BYPASSRLS)."
        return TableLook([problem], {})
    columns = {}
    for _, name, type_name, scale, declared, base, bytewise, _ in rows:
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
    unique: Rows = yield Execute(CATALOGUE_SQL["unique_indexes"], (accounts.quoted_table,))
    return TableLook([], columns, [set(json.loads(row[0])) for row in unique])
