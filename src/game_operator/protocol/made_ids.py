"""
The ids of bets that our own tools make to test a wallet: the certifier's and a storm's.

Such bets stay in the books of the wallet, and no provider knows them. Their ids have a shape, with random digits, that
no genuine id has by chance. So a reconciliation can tell them.
"""

import re
from typing import Final

#: How many random digits a run has.
CERTIFY_DIGITS: Final = 8
STORM_DIGITS: Final = 16

#: The run, the scenario, a word and a number; then what a scenario tries, such as a quote.
_STAGE: Final = "(?:[A-Z][0-9]{2}(?:-within-limits)?|balances|end)"
_CERTIFY: Final = re.compile(rf"certify-[0-9a-f]{{{CERTIFY_DIGITS}}}-{_STAGE}-[A-Za-z]+-[0-9]+(?:[^0-9].*)?", re.DOTALL)
_STORM: Final = re.compile(rf"storm-bet-[0-9a-f]{{{STORM_DIGITS}}}-[0-9]+-[0-9]+")


def certify_run_id(digits: str) -> str:
    """Return what all ids of a certification begin with."""
    return f"certify-{digits}"


def storm_bet_id(digits: str, number: int, place: int) -> str:
    """Return the id of a storm's bet: that of the storm, the number of its round, and its place there."""
    return f"storm-bet-{digits}-{number}-{place}"


def is_test_bet(bet_id: str) -> bool:
    """Return whether an id has the whole shape of those that the certifier or a storm makes; a scenario swaps case."""
    return bool(_STORM.fullmatch(bet_id) or any(map(_CERTIFY.fullmatch, (bet_id, bet_id.swapcase()))))
