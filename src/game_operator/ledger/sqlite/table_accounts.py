"""
Balances in the operator's own table in SQLite.

SQLite keeps ``12.50`` in a NUMERIC column as a float. Decimals of at most 15 significant digits survive that there and
back; a balance that has more, or would get more, is refused and never rounded.
"""

import contextlib
import re
from collections.abc import Generator, Iterable, Mapping, Sequence, Set
from decimal import Decimal, InvalidOperation
from typing import Any, NamedTuple

from game_operator.errors import LedgerError, SchemaError, shown
from game_operator.ledger.accounts.columns import (
    SAMPLE_ROWS,
    KeyColumn,
    balance_after,
    cents_of,
    check_kept,
    decimals_problem,
    exact_account,
    has_decimals,
    key_values,
    moved_cents,
    no_such_row,
    not_unique,
    unit_problem,
    unreadable,
)
from game_operator.ledger.api import Account, TableAccounts, Unit
from game_operator.ledger.engine.rows import IN_LIST, one_or_many
from game_operator.ledger.engine.script import Execute, Rows, Step
from game_operator.ledger.rules.book import Changes

_DIGITS = 15
_LARGEST = 2**63 - 1
#: What a declared type says of its digits: ``(12)``, ``(12, 2)``.
_PRECISION = re.compile(r"\(\s*\d+\s*(?:,\s*([+-]?\d+)\s*)?\)")


class SqliteTableAccounts:
    """The accounts of a TableAccounts whose columns have been looked at; the write lock of the file is ours."""

    def __init__(
        self, prefix: str, accounts: TableAccounts, keys: Sequence[KeyColumn], unit: Unit, *, as_text: bool
    ) -> None:
        self.unknown = no_such_row(accounts)
        self.key_parts = len(keys)
        self._accounts, self._keys, self._unit, self._as_text = accounts, tuple(keys), unit, as_text
        # A qualified name cannot be taken for a text, as SQLite does with "a name" that it does not find; a sign before
        # the column keeps a converter for its declared type away; COLLATE keeps ids bytewise.
        table, balance = accounts.quoted_table, f'owned."{accounts.balance}"'
        names = [f'owned."{name}"' for name in accounts.keys]
        matches = " AND ".join(f"{name} COLLATE BINARY = ?" for name in names)
        # S608: the names were checked and are quoted; all else is a parameter.
        select = f"SELECT +{names[0]}, +{balance} FROM {table} AS owned WHERE "  # noqa: S608
        self._one, self._many = select + matches, f"{select}{names[0]} COLLATE BINARY {IN_LIST}"
        self._update = f'UPDATE {table} AS owned SET "{accounts.balance}" = ? WHERE {matches}'  # noqa: S608
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
        return [exact_account(key, each, self._unit, at_millis.get(key, 0)) for key, each in balances.items()]

    def store(self, changes: Changes, was: Mapping[str, Account]) -> Generator[Step, Any, None]:
        """
        Move the balances by what the batch moved, and read them again.

        Raises:
            LedgerError: A balance is not what it was moved to, for a trigger changes what is written.
        """
        moved = moved_cents(changes, was)
        if moved:
            # What may_bet moved in the caller's transaction is not overwritten, but found below.
            balances = yield from self._balances(moved.keys())
            rows = [
                (
                    self._stored(key, balance_after(balance, moved[key], self._unit)),
                    *(key_values(key, self._keys) or ()),
                )
                for key, balance in balances.items()
            ]
            yield Execute(self._update, rows, many=True)
            check_kept(self._accounts, self._unit, moved, was, (yield from self._balances(moved.keys())))
        if changes.accounts:
            yield Execute(self._upsert_clock, [(key, at) for key, _, at in changes.accounts.values()], many=True)

    def balance(self, key: str) -> Generator[Step, Any, int | None]:
        """Return a balance in cents, rounded down, or None if there is no such row."""
        balances = yield from self._balances({key})
        return cents_of(balances[key], self._unit) if key in balances else None

    def _balances(self, keys: Iterable[str]) -> Generator[Step, Any, dict[str, Decimal]]:
        known = {key: values for key in keys if (values := key_values(key, self._keys)) is not None}
        if self.key_parts > 1:
            found = {}
            for key, values in known.items():
                for row in (yield Execute(self._one, values)):
                    found[key] = self._exact(key, row[1])
            return found
        if not known:
            return {}
        rows: Rows = yield one_or_many(self._one, self._many, (), {values[0] for values in known.values()})
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


class SqliteTableLook(NamedTuple):
    """What a look at a TableAccounts found: why it is refused, or what its columns are."""

    problems: list[str]
    keys: list[KeyColumn]
    as_text: bool = False


def sqlite_table_accounts(prefix: str, accounts: TableAccounts) -> Generator[Step, Any, SqliteTableAccounts]:
    """
    Look at the columns of *accounts* and return what reads and moves its balances.

    Raises:
        SchemaError: There is no such table or column, the key is not unique or not compared bytewise, the balance is
            not exact, or cannot hold its unit.
    """
    look = yield from sqlite_table_look(accounts)
    if look.problems:
        raise SchemaError(" ".join(look.problems))
    return SqliteTableAccounts(prefix, accounts, look.keys, accounts.unit or "cents", as_text=look.as_text)


def sqlite_table_look(accounts: TableAccounts) -> Generator[Step, Any, SqliteTableLook]:
    """Look at the columns of *accounts*; it only reads."""
    schema, _, table = accounts.table.rpartition(".")
    kind: Rows = yield Execute(f"SELECT type FROM {_master(schema)} WHERE name = ? COLLATE NOCASE", (table,))  # noqa: S608 - checked names
    if not kind or kind[0][0] != "table":
        problem = f"There is no table {accounts.table} in this SQLite file: name one that exists already."
        if kind and kind[0][0] == "view":
            problem = (
                f"{accounts.table} is a view, and SQLite cannot update one by itself: name the table behind it, or "
                "pass an Accounts object."
            )
        return SqliteTableLook([problem], [])
    rows: Rows = yield Execute("SELECT name, type, pk FROM pragma_table_xinfo(?, ?)", (table, schema or "main"))
    columns = {name.lower(): (declared.upper(), pk) for name, declared, pk in rows}
    absent = [name for name in (*accounts.keys, accounts.balance) if name.lower() not in columns]
    if absent:
        return SqliteTableLook([_absent(accounts, name, columns) for name in absent], [])
    keys, problems = _key_columns(accounts, columns)
    if not problems:
        problems += yield from _unique_problems(accounts, columns)
    declared = columns[accounts.balance.lower()][0]
    problems += yield from _balance_problems(accounts, declared)
    return SqliteTableLook(problems, keys, _affinity(declared) == "TEXT")


def sqlite_table_meddlers(accounts: TableAccounts) -> Generator[Step, Any, list[str]]:
    """Return what of the table could change an update of the ledger's: triggers; it only reads."""
    schema, _, table = accounts.table.rpartition(".")
    rows: Rows = yield Execute(
        f"SELECT name FROM {_master(schema)} WHERE type = 'trigger' AND tbl_name = ? COLLATE NOCASE "  # noqa: S608
        "AND sql LIKE '%UPDATE%'",
        (table,),
    )
    return [f"the trigger {row[0]} of {accounts.table}" for row in rows]


def _master(schema: str) -> str:
    return f'"{schema}".sqlite_master' if schema else "sqlite_master"


def _absent(accounts: TableAccounts, name: str, columns: Iterable[str]) -> str:
    return f"The table {accounts.table} has no column {name}; it has {', '.join(columns)}."


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


def _key_columns(accounts: TableAccounts, columns: Mapping[str, tuple[str, int]]) -> tuple[list[KeyColumn], list[str]]:
    keys, problems = [], []
    for name in accounts.keys:
        declared = columns[name.lower()][0]
        affinity = _affinity(declared)
        if declared == "UUID":
            keys.append(KeyColumn("uuid"))
        elif affinity in ("TEXT", "INTEGER"):
            keys.append(KeyColumn("text" if affinity == "TEXT" else "integer"))
        else:
            problems.append(
                f"The key {accounts.table}.{name} has the type {shown(declared)}; it must be TEXT, VARCHAR, UUID or "
                "INTEGER, which keep ids as they are."
            )
    return keys, problems


def _unique_problems(
    accounts: TableAccounts, columns: Mapping[str, tuple[str, int]]
) -> Generator[Step, Any, list[str]]:
    keys = {name.lower() for name in accounts.keys}
    primary = [name for name, (_, pk) in columns.items() if pk]
    if len(primary) == 1 and primary[0] in keys and columns[primary[0]][0] == "INTEGER":
        return []  # The rowid itself has no index.
    schema, _, table = accounts.table.rpartition(".")
    rows: Rows = yield Execute(
        "SELECT i.name, lower(c.name), upper(c.coll) "
        "FROM pragma_index_list(?, ?) AS i, pragma_index_xinfo(i.name, ?) AS c "
        'WHERE i."unique" AND NOT i.partial AND c.key',
        (table, schema or "main", schema or "main"),
    )
    indexes: dict[str, set[tuple[str, str]]] = {}
    for index, name, collation in rows:
        indexes.setdefault(index, set()).add((name, collation))
    # What is unique by fewer columns is unique by more.
    if any(index <= {(name, "BINARY") for name in keys} for index in indexes.values()):
        return []
    bytewise = [{name for name, _ in index} for index in indexes.values() if {each for _, each in index} == {"BINARY"}]
    advice = ", with the collation BINARY, which compares bytewise: NOCASE would take Ann for ann"
    return [not_unique(accounts, bytewise, advice)]


def _balance_problems(accounts: TableAccounts, declared: str) -> Generator[Step, Any, list[str]]:
    """Return why the balance cannot be moved exactly, in the unit that *accounts* says."""
    affinity = _affinity(declared)
    if affinity in ("REAL", "BLOB"):
        inexact = f"The balance {accounts.table}.{accounts.balance} has the type {shown(declared)}, which is not exact"
        return [f"{inexact}; it must be INTEGER, NUMERIC, DECIMAL or TEXT."]
    scale = _scale(declared, affinity)
    if accounts.unit is not None or affinity != "INTEGER" or scale:
        problem = unit_problem(accounts, declared, scale)
        if problem is not None:
            return [problem]
    if accounts.unit == "units":
        return []
    # SQLite keeps any number in a column, whatever its type declares.
    rows: Rows = yield Execute(
        f'SELECT +owned."{accounts.balance}" FROM {accounts.quoted_table} AS owned LIMIT {SAMPLE_ROWS}',  # noqa: S608
        (),
    )
    found = next((row[0] for row in rows if has_decimals(row[0])), None)
    return [] if found is None else [decimals_problem(accounts, declared, found)]


def _scale(declared: str, affinity: str) -> int | None:
    """Return how many decimals a declared type says that it keeps, or None if it does not say."""
    digits = _PRECISION.search(declared)
    if digits is not None and digits[1] is not None:
        return int(digits[1])
    # One number behind a type of texts is their length.
    is_whole = affinity == "INTEGER" or (affinity == "NUMERIC" and digits is not None)
    return 0 if is_whole else None
