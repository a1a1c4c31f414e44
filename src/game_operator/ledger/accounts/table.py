"""
Balances in a table of the operator's: in PostgreSQL one statement locks a batch's rows, and one moves them.

A balance may be finer than a cent: it is compared and shown rounded down to whole cents, which compares exactly with
whole cents, and moved by whole cents, so that the finer part stays as it is. Only units have decimals: 102.00 moved as
if it were cents, every bet would take a hundred times the money.

SQLite keeps ``12.50`` in a NUMERIC column as a float. Decimals of at most 15 significant digits survive that there and
back. A balance that has more, or would get more, is refused and never rounded.
"""

import json
from collections.abc import Iterable, Mapping, Sequence, Set
from decimal import Context, Decimal, Inexact, InvalidOperation
from typing import Any, Final, TypeAlias

from game_operator.errors import LedgerError, SchemaError, shown
from game_operator.ledger.accounts.balances import OperatorBalances
from game_operator.ledger.accounts.catalogue import Column, KeyColumn, TableLook, has_decimals, look_at_table
from game_operator.ledger.api import MAX_BALANCE_CENTS, Account, TableAccounts, Unit, account_of_parts, parts_of_account
from game_operator.ledger.engine.tables import CLOCK
from game_operator.ledger.rules.book import Changes
from game_operator.ledger.steps import Execute, Kind, Rows, Steps, Together
from game_operator.money import cents_rounded_down

_DIGITS = 15
_TYPES = {"text": "text", "uuid": "uuid", "integer": "bigint"}
#: By how many powers of ten a unit is smaller than the currency unit.
_EXPONENT: Final[dict[Unit, int]] = {"units": 0, "cents": -2, "whole": 0, "thousandths": -3}
#: Wide enough for any balance; what would still round is an error.
_EXACT: Final = Context(prec=200, traps=[Inexact, InvalidOperation])


class ExactAccount(Account):
    """An account in a table of the operator's, whose balance is known to its last digit."""

    exact: Decimal


def table_balances(kind: Kind, prefix: str, accounts: TableAccounts) -> Steps["TableBalances"]:
    """Return what locks and moves the balances of *accounts*; raise SchemaError if its columns cannot be used."""
    look = yield from look_at_table(kind, accounts)
    if look.problems:
        raise SchemaError(" ".join(look.problems))
    return TableBalances(kind, prefix, accounts, look)


class TableBalances(OperatorBalances):
    """The accounts of a TableAccounts whose columns have been looked at."""

    def __init__(self, kind: Kind, prefix: str, accounts: TableAccounts, look: TableLook) -> None:
        super().__init__(kind, prefix)
        assert look.balance is not None
        self.key_parts: int = len(look.keys)
        self.unknown: str = f"There is no such row in {accounts.table}."
        if self.key_parts > 1:
            form = account_of_parts([name.upper() for name in accounts.keys])
            self.unknown += f" Name all columns of its key: '{form}', or a tuple in a program."
        self._accounts, self._keys = accounts, look.keys
        self._unit: Unit = accounts.unit or "cents"
        self.step_cents: int = 100 if self._unit == "whole" else 1
        self._as_text = look.balance.key == KeyColumn("text")
        texts = _sqlite_texts(accounts) if kind == "sqlite" else _postgres_texts(accounts, look.keys, look.balance)
        self._one, self._many, self._lock, self.parts["balances"] = texts

    def balance(self, key: str) -> Steps[int | None]:
        """Return a balance in cents, rounded down, or None if there is no such row."""
        balances = self._exact((yield self._read({key})))
        return cents_of(balances[key], self._unit) if key in balances else None

    def known(self, keys: Set[str]) -> Steps[set[str] | None]:
        """Return which of *keys* have a row; None if a key has several columns, for no player's id is one."""
        if self.key_parts > 1:
            return None
        return {row[0] for row in (yield self._read(keys))}

    def load(self, keys: Set[str], others: tuple[Execute, ...]) -> Steps[tuple[list[Account], int | None, list[Rows]]]:
        """Lock the rows in sorted order, then read *others*; return those that exist, the clock, and their rows."""
        # The clocks by a separate statement, so that it sees what was committed before the lock was ours.
        rows, clocks, *rest = yield Together((self._read(keys, lock=True), self.clocks.of(keys), *others))
        at_millis = {row[0]: row[1] for row in clocks}
        accounts: list[Account] = []
        for key, exact in self._exact(rows).items():
            accounts.append(account := ExactAccount(key, cents_of(exact, self._unit), at_millis.get(key, 0)))
            account.exact = exact
        return accounts, max((row[2] for row in rows if len(row) > 2), default=None), rest

    def rows(self, changes: Changes, was: Mapping[str, Account]) -> Steps[dict[str, list[Any]]]:
        """Return the rows to write: in PostgreSQL by what each balance moved, in SQLite what it becomes by that."""
        moved = moved_cents(changes, was)
        known, written = self._known(moved), []
        if self.kind == "postgres":
            written = [(key, *known[key], format(delta_of(cents, self._unit), "f")) for key, cents in moved.items()]
        elif moved:
            # What may_bet moved in the caller's transaction is not overwritten, but found afterwards.
            for key, balance in self._exact((yield self._read(moved.keys()))).items():
                written.append((self._stored(key, balance_after(balance, moved[key], self._unit)), *known[key]))
        return {"balances": written, **(yield from super().rows(changes, was))}

    def stored(self, statements: tuple[Execute, ...], changes: Changes, was: Mapping[str, Account]) -> Steps[list[Any]]:
        """
        Perform the *statements*, read the balances again, and return the answers.

        Only a later statement sees what a trigger has made of the balances; in a pipeline it costs no round trip.

        Raises:
            LedgerError: A balance is not what it was moved to: nothing may be committed.
        """
        moved = moved_cents(changes, was)
        if not moved:
            return (yield from super().stored(statements, changes, was))
        *answers, rows = yield Together((*statements, self._read(moved.keys())))
        now = self._exact(rows)
        for key, cents in moved.items():
            before = was[key]
            assert isinstance(before, ExactAccount)
            expected = balance_after(before.exact, cents, self._unit)
            if now.get(key) != expected:
                raise LedgerError(
                    f"The account {shown(key)} in {self._accounts.table} held {before.exact}, was moved to {expected}, "
                    f"and holds {now.get(key, 'no row')}. A trigger or a rule of the table changes what "
                    "is written, or may_bet moved it. Nothing was kept: balances must be moved as the ledger moves "
                    "them."
                )
        return answers  # type: ignore[no-any-return]  # Drivers send rows back.

    def _read(self, keys: Set[str], *, lock: bool = False) -> Execute:
        """Return the question for the accounts of *keys* that exist, and their balances in the column's unit."""
        known = self._known(sorted(keys))
        rows = [(key, *values) for key, values in known.items()]
        if self._one and len(rows) == 1:
            return Execute(self._one, rows[0])
        return Execute(self._lock if lock else self._many, (json.dumps([*known] if self.key_parts == 1 else rows),))

    def _known(self, keys: Iterable[str]) -> dict[str, list[str | int]]:
        """Return the values of the key's columns for each of *keys* that a row can have."""
        known = {}
        for key in keys:
            parts = (key,) if self.key_parts == 1 else parts_of_account(key, self.key_parts) or ()
            values = [column.value_of(part) for column, part in zip(self._keys, parts, strict=False)]
            exact = [value for value in values if value is not None]
            if len(exact) == self.key_parts:
                known[key] = exact
        return known

    def _exact(self, rows: Rows) -> dict[str, Decimal]:
        """Return the balances in *rows*; raise LedgerError for one that cannot be read, or that two rows hold."""
        exact: dict[str, Decimal] = {}
        for key, balance, *_ in rows:
            if key in exact:  # Inherited tables can have several rows for a unique key.
                raise LedgerError(
                    f"{self._accounts.table} has two rows or more for the account {shown(key)}, so that its balance is "
                    f"not known. Nothing was moved: make {', '.join(self._accounts.keys)} unique there."
                )
            try:
                exact[key] = _decimal(balance)
                cents_of(exact[key], self._unit)
            except (InvalidOperation, ValueError) as failed:
                why = "which is not an exact amount of money"
                if self._unit != "units" and has_decimals(balance):
                    why = f'and unit="{self._unit}" has no decimals. Check the unit that was passed'
                column = f"{self._accounts.table}.{self._accounts.balance}"
                raise LedgerError(
                    f"The account {shown(key)} cannot be read: its {column} is {shown(balance)}, {why}. "
                    "Nothing was moved: fix the row, and the call's repeat will find it."
                ) from failed
        return exact

    def _stored(self, key: str, balance: Decimal) -> str | int:
        text = format(balance, "f")
        if self._as_text:
            return text
        whole = balance == balance.to_integral_value()
        if whole and abs(int(balance)) <= MAX_BALANCE_CENTS:
            return int(balance)
        if len(text.replace("-", "").replace(".", "").strip("0")) > _DIGITS:
            raise LedgerError(
                f"The account {shown(key)} would hold {text}, and a NUMERIC column of SQLite keeps {_DIGITS} digits "
                "exactly. Nothing was moved: keep balances as TEXT."
            )
        return text


#: The statements that read one account, read several, lock several, and write. Names were checked and are quoted; all
#: else is a parameter. Several accounts are a JSON array of them, or of arrays: the account and the values of its key.
_Texts: TypeAlias = tuple[str, str, str, str]


def _sqlite_texts(accounts: TableAccounts) -> _Texts:
    """Return the statements for SQLite, where the write lock of the file is ours."""
    # A qualified name cannot be taken for a text, as SQLite does with "a name" that it does not find; a sign before
    # the column keeps a converter for its declared type away; COLLATE keeps ids bytewise.
    table, balance = f"{accounts.quoted_table} AS owned", f'+owned."{accounts.balance}"'
    columns = [f'owned."{name}" COLLATE BINARY' for name in accounts.keys]
    matches = " AND ".join(f"{column} = ?" for column in columns)
    cell = "json_extract(wanted.value, '$[{}]')" if len(columns) > 1 else "wanted.value"
    listed = " AND ".join(f"{column} = {cell.format(index)}" for index, column in enumerate(columns, 1))
    many = f"SELECT {cell.format(0)}, {balance} FROM json_each(?) AS wanted CROSS JOIN {table} WHERE {listed}"  # noqa: S608
    update = f'UPDATE {table} SET "{accounts.balance}" = ? WHERE {matches}'  # noqa: S608
    return f"SELECT ?, {balance} FROM {table} WHERE {matches}", many, many, update  # noqa: S608


def _postgres_texts(accounts: TableAccounts, keys: Sequence[KeyColumn], column: Column) -> _Texts:
    """Return the statements for PostgreSQL, where the rows are locked in sorted order."""
    table, balance = f"{accounts.quoted_table} AS owned", f'owned."{accounts.balance}"'
    names, types = [f'owned."{name}"' for name in accounts.keys], [_TYPES[key.kind] for key in keys]
    # Qualified, because the operator's columns may have any name.
    rows = "json_array_elements(CAST(CAST(? AS text) AS json)) AS wanted (cells)"
    cells = [f"CAST(wanted.cells ->> {index} AS {kind})" for index, kind in enumerate(types, 1)]
    matches = " AND ".join(f"{name} = {cell}" for name, cell in zip(names, cells, strict=True))
    account, found = "wanted.cells ->> 0", f"{rows} JOIN {table} ON {matches}"
    if len(names) == 1:
        texts = "json_array_elements_text(CAST(CAST(? AS text) AS json)) AS wanted (account)"
        listed = f"SELECT CAST(wanted.account AS {types[0]}) FROM {texts}"  # noqa: S608
        account, found = f"CAST({names[0]} AS text)", f"{table} WHERE {names[0]} = ANY(ARRAY({listed}))"
    # Texts, because connections may read numbers as any type.
    many = f"SELECT {account} AS account, CAST({balance} AS text) AS balance FROM {found}"  # noqa: S608
    # NO KEY: rows that refer to the player can be inserted meanwhile, and two callers that did so do not deadlock.
    locked = f"({many} ORDER BY {', '.join(names)} FOR NO KEY UPDATE OF owned) AS locked"
    moved = f"CAST(wanted.cells ->> {len(names) + 1} AS {'bigint' if column.is_whole else 'numeric'})"
    update = f'UPDATE {table} SET "{accounts.balance}" = {balance} + {moved} FROM {rows} WHERE {matches}'  # noqa: S608
    return "", many, f"SELECT locked.account, locked.balance, {CLOCK} FROM {locked}", update  # noqa: S608


def moved_cents(changes: Changes, was: Mapping[str, Account]) -> dict[str, int]:
    """Return by how many cents each account moved, of those that did."""
    moved = {key: cents - was[key].balance_cents for key, cents, _ in changes.accounts.values()}
    return {key: cents for key, cents in moved.items() if cents}


def cents_of(balance: Decimal | int, unit: Unit) -> int:
    """Return a *balance* in cents, rounded down; raise ValueError if *unit* or 63 bits of cents cannot hold it."""
    if unit != "units" and has_decimals(balance):
        raise ValueError(f"{balance} has decimals, and {unit} have none")
    cents = cents_rounded_down(_shifted(Decimal(balance), _EXPONENT[unit]))
    if abs(cents) > MAX_BALANCE_CENTS:
        raise ValueError(f"{balance} is more than 63 bits of cents hold")
    return cents


def delta_of(cents: int, unit: Unit) -> Decimal:
    """Return a movement of *cents* in *unit*, exactly, without decimals where the unit has none."""
    delta = _shifted(Decimal(cents), -2 - _EXPONENT[unit])
    return delta if unit == "units" else delta.to_integral_exact(context=_EXACT)


def _decimal(balance: object) -> Decimal:
    """Return a balance as it was meant: the float nearest to 0.1 as 0.1, and no float of more digits."""
    text = format(balance, f".{_DIGITS}g") if isinstance(balance, float) else str(balance)
    if isinstance(balance, float) and float(text) != balance:
        raise ValueError(f"{balance} is not exact")
    return Decimal(text)


def balance_after(balance: Decimal, cents: int, unit: Unit) -> Decimal:
    """Return *balance*, moved by *cents*, exactly."""
    return _EXACT.add(balance, delta_of(cents, unit))


def _shifted(amount: Decimal, exponent: int) -> Decimal:
    """Return *amount* times ten to the power of *exponent*; unlike ``scaleb`` it never rounds."""
    sign, digits, own = amount.as_tuple()
    if not isinstance(own, int):
        raise ValueError(f"{amount} is not an amount of money")
    return Decimal((sign, digits, own + exponent))
