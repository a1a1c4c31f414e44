"""Mistakes that show in many scenarios: mistakes.toml says what each means and how to fix it."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

CRASH: Final = "fails with HTTP"
STATUS: Final = "another HTTP status"
NO_ANSWER: Final = "no answer"
NO_REPLY: Final = "no reply of spec §2.1"
NO_BALANCE: Final = "no balance"
WRONG_BALANCE: Final = "tells a wrong balance"
FAILS: Final = "answers SYSTEM_ERROR"
FRACTIONS: Final = "a balance finer than a cent"
OTHER_CODES: Final = "other codes"
OUT_OF_TIME: Final = "out of time"
SCALE: Final = "a hundredfold"
SHARED: Final = "another player's balance"
STEADY: Final = "SUCCESS where nothing was done"
TURNED_AWAY: Final = "turned away with HTTP"
UNREADABLE: Final = "every withdraw is INVALID_REQUEST"
UNSERVED: Final = "batches are not served"

#: HTTP statuses of a proxy, firewall or login in front of a wallet.
TURNING_AWAY: Final = frozenset({401, 403, 407, 429})


@dataclass(frozen=True, slots=True)
class Mistake:
    """One mistake in words, as a scenario has them; mistakes.toml describes the other fields."""

    title: str
    means: str
    mend: str
    hides_money: bool = False
    only_in_the_plainest: bool = False


def slug_of(cause: str) -> str:
    """Return the words above with which a note's *cause* begins, or *cause* itself."""
    return next((words for words in _mistakes() if cause.startswith(words)), cause)


def mistake_of(cause: str) -> Mistake | None:
    """Return the mistake behind a note's *cause*; None if it is none of these."""
    return _mistakes().get(slug_of(cause))


@cache
def _mistakes() -> Mapping[str, Mistake]:
    entries = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
    return {cause: Mistake(**entry) for cause, entry in entries.items()}
