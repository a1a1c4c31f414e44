"""
Build the session token that opens a game for a player, and the address to send the player to.

The specification does not show the contents of a token. The package assumes them (docs/decisions/0005). Your provider
gives you the address of the game.
"""

from decimal import Decimal

from game_operator import SessionTokenBuilder, SessionTokenError, launch_url
from game_operator_testkit import Sandbox

sandbox = Sandbox()  # Not started: a token needs the operator's key, but no service.
tokens = SessionTokenBuilder(sandbox.operator_id, sandbox.private_key_pem)
token = tokens.build(player_id="player-1", instance_id=sandbox.instance_id, balance=Decimal("12.50"), name="Ann")

address = launch_url("https://play.example/comet-crash?token={token}", token)
print(address.partition("=")[0])

claims = tokens.decode(token, instance_id=sandbox.instance_id)
print(f"{claims.player_id} ({claims.name}) with {claims.balance}, valid for {claims.expires_at - claims.issued_at}")

try:
    tokens.decode(token, instance_id="another")
except SessionTokenError:
    print("refused for another instance")

# Prints:
# https://play.example/comet-crash?token
# player-1 (Ann) with 12.50, valid for 0:15:00
# refused for another instance
