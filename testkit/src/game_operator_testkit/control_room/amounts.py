"""
Amounts in the decimals of their currency.

A cent is a hundredth of the currency unit in every currency (spec §2.4), though JPY has no hundredths and KWD has
thousandths (ISO 4217). Pages write an amount with the decimals that the currency has, and with more only where digits
would be lost otherwise. Texts for programs keep two decimals.
"""

from decimal import Decimal
from typing import Final

from game_operator.money import amount_from_cents

#: Currencies with other than two decimals (ISO 4217).
_NO_DECIMALS: Final = frozenset(
    {
        *("BIF", "CLP", "DJF", "GNF", "ISK", "JPY", "KMF", "KRW", "PYG"),
        *("RWF", "UGX", "UYI", "VND", "VUV", "XAF", "XOF", "XPF"),
    }
)
_THREE_DECIMALS: Final = frozenset({"BHD", "IQD", "JOD", "KWD", "LYD", "OMR", "TND"})
_USUAL_DECIMALS: Final = 2


def units_in(units: Decimal, currency: str = "") -> str:
    """Return currency units with the decimals of *currency*, and with all that they have beyond those."""
    usual = 0 if currency in _NO_DECIMALS else 3 if currency in _THREE_DECIMALS else _USUAL_DECIMALS
    fraction = f"{units:f}".partition(".")[2].rstrip("0")
    # A hundredth of a yen is written with both digits, as a cent is.
    decimals = max(usual, len(fraction), _USUAL_DECIMALS if fraction else 0)
    return f"{units:,.{decimals}f}"


def cents_in(cents: int, currency: str = "") -> str:
    """Return *cents* as currency units, as ``units_in`` does."""
    return units_in(amount_from_cents(cents), currency)


def money_in(cents: int, currency: str = "") -> str:
    """Return *cents* with their currency, if it is known: ``12.50 EUR``, ``500 JPY``, ``0.250 KWD``."""
    return f"{cents_in(cents, currency)} {currency}".rstrip()
