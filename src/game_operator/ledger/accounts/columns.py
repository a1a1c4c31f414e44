"""
The columns of a TableAccounts: which ids can be keys, and how balances become cents and back. Pure, and exact.

A balance may be finer than a cent: it is compared and shown rounded down to whole cents, which compares exactly with
whole cents, and moved by whole cents, so that the finer part stays as it is. Cents and micros have no decimals, though:
102.00 is an amount in units, and moved as if it were cents, every bet would take a hundred times the money.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from decimal import Context, Decimal, Inexact, InvalidOperation
from typing import Final, Literal, NamedTuple

from game_operator.errors import LedgerError, shown
from game_operator.ledger.api import MAX_BALANCE_CENTS, Account, TableAccounts, Unit, account_of_parts, parts_of_account
from game_operator.ledger.rules.book import Changes
from game_operator.money import cents_rounded_down

#: How many rows are looked at on opening, where the type of the column does not say which unit it holds.
SAMPLE_ROWS: Final = 1_000

_INTEGER: Final = re.compile(r"0|-?[1-9][0-9]{0,18}", re.ASCII)
_UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)
#: By how many powers of ten a unit is smaller than the currency unit.
_EXPONENT: Final[dict[Unit, int]] = {"units": 0, "cents": -2, "micros": -6}
#: Wide enough for any balance; what would still round is an error.
_EXACT: Final = Context(prec=200, traps=[Inexact, InvalidOperation])


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


def key_values(account: str, columns: Sequence[KeyColumn]) -> tuple[str | int, ...] | None:
    """Return *account* as the values of its key's *columns*, or None if no row can have it."""
    parts = (account,) if len(columns) == 1 else parts_of_account(account, len(columns))
    values = [column.value_of(part) for column, part in zip(columns, parts or (), strict=True)] if parts else [None]
    known = tuple(value for value in values if value is not None)
    return known if len(known) == len(values) else None


def no_such_row(accounts: TableAccounts) -> str:
    """Return what is said of an account that is not there, and how one is named by a key of several columns."""
    if len(accounts.keys) == 1:
        return f"There is no such row in {accounts.table}."
    form = account_of_parts([name.upper() for name in accounts.keys])
    return f"There is no such row in {accounts.table}. Name all columns of its key: '{form}', or a tuple in a program."


class ExactAccount(Account):
    """An account in a table of the operator's, whose balance is known to its last digit."""

    exact: Decimal


def exact_account(key: str, exact: Decimal, unit: Unit, at_millis: int) -> ExactAccount:
    """Return an account that holds *exact*; raise ValueError as ``cents_of`` does."""
    account = ExactAccount(key, cents_of(exact, unit), at_millis)
    account.exact = exact
    return account


def moved_cents(changes: Changes, was: Mapping[str, Account]) -> dict[str, int]:
    """Return by how many cents each account moved, of those that did."""
    moved = {key: cents - was[key].balance_cents for key, cents, _ in changes.accounts.values()}
    return {key: cents for key, cents in moved.items() if cents}


def check_one_row_each(accounts: TableAccounts, keys: Sequence[str]) -> None:
    """Raise LedgerError if two rows were read for one of *keys*, which a view and inherited tables can have."""
    twice = next((key for key, count in Counter(keys).items() if count > 1), None)
    if twice is not None:
        raise LedgerError(
            f"{accounts.table} has two rows or more for the account {shown(twice)}, so that its balance is not known. "
            f"Nothing was moved: make {', '.join(accounts.keys)} unique there."
        )


def check_kept(
    accounts: TableAccounts,
    unit: Unit,
    moved: Mapping[str, int],
    was: Mapping[str, Account],
    now: Mapping[str, Decimal | None],
) -> None:
    """Raise LedgerError if the table does not hold what the ledger has just written: nothing may be committed then."""
    for key, cents in moved.items():
        before = was[key]
        assert isinstance(before, ExactAccount)
        expected = balance_after(before.exact, cents, unit)
        if now.get(key) != expected:
            raise LedgerError(
                f"The account {shown(key)} in {accounts.table} held {before.exact}, was moved to {expected}, and holds "
                f"{now.get(key, 'no row')}. A trigger, a rule or a row policy of the table changes what is written, or "
                "may_bet moved it. Nothing was kept: balances must be moved as the ledger moves them."
            )


def cents_of(balance: Decimal | int, unit: Unit) -> int:
    """Return a *balance* in cents, rounded down; raise ValueError if *unit* or 63 bits of cents cannot hold it."""
    if unit != "units" and has_decimals(balance):
        raise ValueError(f"{balance} has decimals, and {unit} have none")
    cents = cents_rounded_down(_shifted(Decimal(balance), _EXPONENT[unit]))
    if abs(cents) > MAX_BALANCE_CENTS:
        raise ValueError(f"{balance} is more than 63 bits of cents hold")
    return cents


def delta_of(cents: int, unit: Unit) -> Decimal:
    """Return a movement of *cents* in *unit*, exactly."""
    return _shifted(Decimal(cents), -2 - _EXPONENT[unit])


def balance_after(balance: Decimal, cents: int, unit: Unit) -> Decimal:
    """Return *balance*, moved by *cents*, exactly."""
    return _EXACT.add(balance, delta_of(cents, unit))


def has_decimals(balance: object) -> bool:
    """Return whether *balance* is written with decimals, be they zeros: 102.00 is an amount in units."""
    if isinstance(balance, float):
        return not balance.is_integer()
    try:
        exponent = (balance if isinstance(balance, Decimal) else Decimal(str(balance))).as_tuple().exponent
    except InvalidOperation:
        return False
    return isinstance(exponent, int) and exponent < 0


def not_unique(accounts: TableAccounts, indexes: Iterable[Collection[str]], advice: str = "") -> str:
    """Return that the key is not unique, and what to do; *indexes* are the unique ones that compare bytewise."""
    by = "by itself" if len(accounts.keys) == 1 else "together"
    problem = f"The key {accounts.table}.{', '.join(accounts.keys)} must be unique {by}"
    keys = {name.lower() for name in accounts.keys}  # SQLite's names differ in more than their case.
    wider = next((index for index in indexes if keys < {name.lower() for name in index}), None)
    if wider is None:
        return f"{problem}: make it the primary key, or add a unique index{advice}."
    columns = ", ".join(
        f'"{name}"' for name in (*accounts.keys, *sorted(name for name in wider if name.lower() not in keys))
    )
    return (
        f"{problem}, and a unique index of the table has more columns. If an account is a row of that index, name all "
        f"its columns as its key: {columns}"
    )


def unit_problem(accounts: TableAccounts, declared: str, scale: int | None) -> str | None:
    """Return why the unit does not fit a balance that is declared with *scale* decimals, or None if it does."""
    unit, fitting = accounts.unit, _fitting(scale)
    if unit in fitting:
        return None
    fits = " or ".join(f'"{each}"' for each in fitting)
    column = f"The balance {accounts.table}.{accounts.balance} is {declared}"
    advice = (
        f"What fits is the unit {fits}."
        if fits
        else "No unit fits: keep whole cents or micros, or units with 2 decimals."
    )
    if unit is None:
        return f"{column}: say what it counts. {advice}"
    why = "no cents fit in whole units" if unit == "units" else f"{unit} have no decimals"
    return f'{column}, which keeps {scale} decimals, and the unit "{unit}" was passed: {why}. {advice}'


def decimals_problem(accounts: TableAccounts, declared: str, balance: object) -> str:
    """Return why the unit of *accounts* does not fit a column in which *balance* was found."""
    return (
        f"The balance {accounts.table}.{accounts.balance} is {declared}, and one of its first {SAMPLE_ROWS} rows holds "
        f'{shown(balance)}, while the unit "{accounts.unit}" was passed, which has no decimals. What fits is '
        'the unit "units"; if the decimals are zeros and the amounts are not units, update the rows to whole numbers.'
    )


def unreadable(accounts: TableAccounts, key: object, balance: object) -> LedgerError:
    """Return the error for a balance that is not an exact amount of money in the unit of *accounts*."""
    why = "which is not an exact amount of money"
    if accounts.unit != "units" and has_decimals(balance):
        why = f'and unit="{accounts.unit or "cents"}" has no decimals. Check the unit that was passed'
    return LedgerError(
        f"The account {shown(key)} cannot be read: its {accounts.table}.{accounts.balance} is {shown(balance)}, "
        f"{why}. Nothing was moved: fix the row, and the call's repeat will find it."
    )


def _fitting(scale: int | None) -> tuple[Unit, ...]:
    """Return the units that a column with *scale* decimals can hold, and no other can be meant."""
    if scale is None:
        return "units", "cents", "micros"
    if scale == 0:
        return "cents", "micros"
    return ("units",) if scale >= 2 else ()


def _shifted(amount: Decimal, exponent: int) -> Decimal:
    """Return *amount* times ten to the power of *exponent*; unlike ``scaleb`` it never rounds."""
    sign, digits, own = amount.as_tuple()
    if not isinstance(own, int):
        raise ValueError(f"{amount} is not an amount of money")
    return Decimal((sign, digits, own + exponent))
