"""
The two columns of a TableAccounts: which ids can be keys, and how balances become cents and back. Pure, and exact.

A balance may be finer than a cent: it is compared and shown rounded down to whole cents, which compares exactly with
whole cents, and moved by whole cents, so that the finer part stays as it is.
"""

import re
from decimal import Context, Decimal, Inexact, InvalidOperation
from typing import Final, Literal, NamedTuple

from game_operator.errors import LedgerError, shown
from game_operator.ledger.accounts import TableAccounts, Unit
from game_operator.ledger.api import MAX_BALANCE_CENTS
from game_operator.money import cents_rounded_down

__all__ = ["KeyColumn", "balance_after", "cents_of", "delta_of", "unreadable"]

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


def cents_of(balance: Decimal | int, unit: Unit) -> int:
    """
    Return a *balance* in cents, rounded down.

    Raises:
        ValueError: It is no amount of money, or more than 63 bits of cents hold.
    """
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


def unreadable(accounts: TableAccounts, key: object, balance: object) -> LedgerError:
    """Return the error for a balance that is no exact amount of money."""
    return LedgerError(
        f"The account {shown(key)} cannot be read: its {accounts.table}.{accounts.balance} is {shown(balance)}, "
        "which is no exact amount of money. Nothing was moved: mend the row, and the call's repeat will find it."
    )


def _shifted(amount: Decimal, exponent: int) -> Decimal:
    """Return *amount* times ten to the power of *exponent*; unlike ``scaleb`` it never rounds."""
    sign, digits, own = amount.as_tuple()
    if not isinstance(own, int):
        raise ValueError(f"{amount} is not an amount of money")
    return Decimal((sign, digits, own + exponent))
