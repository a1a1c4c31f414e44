"""
Money: integer cents inside, exact ``Decimal`` currency units at the edges, and the only conversions between them.

The specification fixes a cent as a hundredth of the currency unit, in every currency (spec §2.4).
No function here does arithmetic on ``float``, and none depends on the decimal context.
"""

from decimal import Decimal
from typing import NewType

from game_operator.errors import shown

Cents = NewType("Cents", int)
"""An amount of money in hundredths of the currency unit (spec §2.4)."""


class FinerThanACentError(ValueError):
    """An amount is not a whole number of cents."""


_CENT_EXPONENT = -2
_LARGEST_EXPONENT = 64


def amount_from_cents(cents: int) -> Decimal:
    """Return *cents* as currency units, exactly and always with two decimals: 1250 is ``Decimal("12.50")``."""
    digits = tuple(map(int, str(abs(cents))))
    return Decimal((cents < 0, digits, _CENT_EXPONENT))


def cents_from_amount(amount: Decimal) -> Cents:
    """
    Return *amount* currency units as cents: ``Decimal("12.5")`` is 1250.

    Raises:
        TypeError: *amount* is not a Decimal; an int might be meant as cents, and a float is not exact.
        ValueError: *amount* is not finite. A ``FinerThanACentError`` if it is finer than a cent.
    """
    numerator, denominator = _ratio(amount)
    cents, remainder = divmod(numerator * 100, denominator)
    if remainder:
        raise FinerThanACentError(
            f"{amount} is finer than a cent; round it yourself, in the direction you have agreed on"
        )
    return Cents(cents)


def cents_rounded_down(amount: Decimal) -> Cents:
    """
    Return the most whole cents that are not more than *amount* currency units: 1.239 is 123, and -0.001 is -1.

    Raises:
        TypeError: *amount* is not a Decimal.
        ValueError: *amount* is not finite, or its exponent lies beyond ±64.
    """
    numerator, denominator = _ratio(amount)
    return Cents(numerator * 100 // denominator)


def json_cents(cents: int) -> str:
    """Return *cents* as the text of a JSON number in currency units, always with two decimals: -5 is ``-0.05``."""
    units, rest = divmod(abs(cents), 100)
    return f"{'-' if cents < 0 else ''}{units}.{rest:02d}"


def json_number(amount: Decimal) -> str:
    """
    Return *amount* as the text of a JSON number, digit for digit and without an exponent.

    Raises:
        ValueError: *amount* is not finite, or its exponent lies beyond ±64.
    """
    _ratio(amount)
    return format(amount, "f")


def _ratio(amount: Decimal) -> tuple[int, int]:
    if not isinstance(amount, Decimal):
        raise TypeError(f"an amount must be a Decimal in currency units, not {type(amount).__name__} {shown(amount)}")
    # Bounded first: written out, Decimal("1e999999999") would fill the memory.
    if not amount.is_finite() or abs(amount.adjusted()) > _LARGEST_EXPONENT:
        raise ValueError(f"{shown(str(amount))} is not an amount of money")
    return amount.as_integer_ratio()
