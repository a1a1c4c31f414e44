"""
What a call has moved and what the wallet has now, in a sentence, and amounts in the decimals of their currency.

A cent is a hundredth of the currency unit in every currency (spec §2.4). Pages write an amount with the decimals that
the currency has, and with more only where digits would be lost otherwise (docs/decisions/0046).
"""

from collections.abc import Callable
from decimal import Decimal
from typing import Final

from game_operator.errors import MalformedCallError
from game_operator.models.webhooks import DepositCall, Reply, RollbackCall, WebhookCall
from game_operator.money import amount_from_cents
from game_operator.profile import Profile
from game_operator.protocol.webhook import read_call

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


def balance_sentence(balance_cents: int | None, currency: str = "") -> str:
    """Return what the wallet has now; "" if it has not said so."""
    return "" if balance_cents is None else f"The wallet now has {money_in(balance_cents, currency)}."


def call_in(path: str, body: bytes, profile: Profile) -> WebhookCall | None:
    """Return the call in a *body* posted to *path*; None for a batch, and for what cannot be read."""
    try:
        return read_call(path.removeprefix("/"), body, profile)[0]
    except (KeyError, MalformedCallError):
        return None


def settlement_sentence(
    path: str, body: bytes, reply: Reply | None, profile: Profile, currency_of: Callable[[str], str]
) -> str:
    """Return what became of a deposit or rollback: its amount, the answer and the balance; "" for another call."""
    call = call_in(path, body, profile)
    if not isinstance(call, DepositCall | RollbackCall):
        return ""
    currency = currency_of(call.instance_id or "")
    cents = getattr(call, "amount_cents", None)
    amount = "" if cents is None else f" of {money_in(cents, currency)}"
    if reply is None:
        return f"{call.player_id}’s {call.operation}{amount} was not answered."
    if reply.code is not None:
        return f"{call.player_id}’s {call.operation}{amount} was refused: {reply.code}."
    return (
        f"{call.player_id}’s {call.operation}{amount} was accepted. {balance_sentence(reply.balance_cents, currency)}"
    )
