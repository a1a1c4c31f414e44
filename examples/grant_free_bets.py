"""Grant five free bets, then send the same reference again: the service grants once."""

from functools import partial

from game_operator import FreeBetRejectedError
from game_operator_testkit import Sandbox

with Sandbox() as sandbox, sandbox.client() as client:
    welcome = partial(
        client.grant_free_bet,
        player_id="player-1",
        instance_id=sandbox.instance_id,
        count=5,
        wager_amount_cents=100,
        expire_duration_millis=86_400_000,
        reference_id="welcome-7",
    )
    print("granted as", welcome().free_bet_id)
    try:
        welcome()
    except FreeBetRejectedError as rejected:
        print(f"{rejected.error_code}: {rejected.message}")
    try:
        welcome(count=51, reference_id="welcome-8")
    except FreeBetRejectedError as rejected:
        # Limits of the specification are checked before anything is sent.
        print(f"{rejected.error_code} after {rejected.attempts} attempts: {rejected.message}")

# Prints:
# granted as 8eae19e2cd88adff41eb2513
# DUPLICATE_REFERENCE_ID: Free bet with this reference ID already exists for this instance
# COUNT_TOO_HIGH after 0 attempts: Count cannot exceed 50
