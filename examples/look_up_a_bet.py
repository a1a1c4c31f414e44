"""
Look up a bet in each of its states.

Each state has its own class, so a program can only read `won` if it exists. A type checker reports a case that a
program does not handle.
"""

from typing import assert_never

from game_operator import BetNotFound, ClosedBet, OpenBet, RolledBackBet
from game_operator_testkit import Sandbox


def story(bet: OpenBet | ClosedBet | RolledBackBet | BetNotFound) -> str:
    match bet:
        case ClosedBet(won=0):
            return f"{bet.wager_amount} wagered and lost"
        case ClosedBet():
            return f"{bet.wager_amount} wagered, {bet.won_amount} won"
        case OpenBet():
            return f"{bet.wager_amount} wagered, not settled yet"
        case RolledBackBet():
            return f"{bet.wager_amount} wagered and given back"
        case BetNotFound():
            return "no such bet, or older than 90 days"
        case _:
            assert_never(bet)


with Sandbox() as sandbox, sandbox.client() as client:
    for name, bet_id in sandbox.bet_ids.items():
        found = client.fetch_bet(bet_id)
        print(f"{name}: {found.status}, {story(found)}")

# Prints:
# OPEN: OPEN, 83.32 wagered, not settled yet
# CLOSED: CLOSED, 49.48 wagered, 811.71 won
# LOST: CLOSED, 89.79 wagered and lost
# ROLLED_BACK: ROLLED_BACK, 33.39 wagered and given back
# EXPIRED: NOT_FOUND, no such bet, or older than 90 days
