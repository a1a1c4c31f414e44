"""
The common mistakes of wallets with money, in words: what each means, and how it is usually fixed (diagnosis.toml).

The certifier and the storm name the same mistake by the same words.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path


class MoneyMistake(StrEnum):
    """The mistakes of diagnosis.toml, by their names there."""

    DEBITED_AGAIN = "debited-again"
    CREDITED_AGAIN = "credited-again"
    OTHER_CONTENT = "other-content"
    ANSWERED_OTHERWISE = "answered-otherwise"
    MOVED_BY_A_REPEAT = "moved-by-a-repeat"
    NOT_BOOKED = "not-booked"
    LOST_UPDATE = "lost-update"
    LOSS_LEFT_OPEN = "loss-left-open"
    NOT_REFUNDED = "not-refunded"
    REFUNDED_UNSEEN = "refunded-unseen"
    LATE_WITHDRAW = "late-withdraw"
    EARLY_DEPOSIT = "early-deposit"
    REFUNDED_AFTER_SETTLEMENT = "refunded-after-settlement"
    PAID_AFTER_REFUND = "paid-after-refund"
    REFUSED_AND_DEBITED = "refused-and-debited"
    PAYMENT_REFUSED = "payment-refused"
    FUNDS = "funds"
    FORGED = "forged"
    RESERIALISED = "reserialised"
    OLD_KEY = "old-key"
    ROUNDING = "rounding"
    WRONG_BALANCE_SHOWN = "wrong-balance-shown"


@dataclass(frozen=True, slots=True)
class MistakeText:
    """
    A mistake in words.

    Attributes:
        title: What goes wrong, in a few words.
        means: What it means: who loses money, and when.
        fix: How it is usually fixed.
        risk: ``money lost`` or ``money doubled``; "" if no money moves wrongly.
    """

    title: str
    means: str
    fix: str
    risk: str = ""


def text_of(mistake: str) -> MistakeText:
    """Return *mistake* in words; raise KeyError if there is no such mistake."""
    return _texts()[mistake]


@cache
def _texts() -> Mapping[str, MistakeText]:
    entries = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
    return {name: MistakeText(**entry) for name, entry in entries.items()}
