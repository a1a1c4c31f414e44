"""Look up a round by its id, by the number that players see, and in a wrong instance."""

from game_operator import ClosedBet, RoundFound
from game_operator_testkit import Sandbox

with Sandbox() as sandbox, sandbox.client() as client:
    found = client.fetch_round_bets(instance_id=sandbox.instance_id, round_id=sandbox.round_id)
    assert isinstance(found, RoundFound)
    won_cents = sum(bet.won for bet in found.bets if isinstance(bet, ClosedBet))
    print(f"round {found.round_no}: {len(found.bets)} bets, {won_cents} cents paid out")

    same = client.fetch_round_bets(instance_id=sandbox.instance_id, round_no=found.round_no)
    print("the same by its number:", same == found)

    elsewhere = client.fetch_round_bets(instance_id="0" * 24, round_id=sandbox.round_id)
    print("in another instance:", elsewhere.status)

# Prints:
# round 4127: 12 bets, 130053 cents paid out
# the same by its number: True
# in another instance: NOT_FOUND
