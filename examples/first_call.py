"""
List the games you may offer, from a service that runs on this machine.

For the real service use `with OperatorClient.from_env() as client:`, which reads GAME_OPERATOR_BASE_URL,
GAME_OPERATOR_ID and GAME_OPERATOR_PRIVATE_KEY_FILE.
"""

from game_operator_testkit import Sandbox

with Sandbox() as sandbox, sandbox.client() as client:
    games = client.fetch_games()
    print(len(games), "games")
    for game in games[:3]:
        for instance in game.instances[:1]:
            limits = instance.bet_config  # Exact decimals in currency units, not cents.
            print(
                f"{game.name} ({game.genre}, {game.status}): {limits.min_wager} to {limits.max_wager} {limits.currency}"
            )

# Prints:
# 14 games
# Comet Crash (Crash, ACTIVE): 0.1 to 100 EUR
# Harbour Mines (Mine, ACTIVE): 0.1 to 100 EUR
# Granite Plinko (Plinko, ACTIVE): 0.1 to 120 USD
