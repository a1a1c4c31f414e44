"""Follow the provider's games: what has changed, and which instances a receiver accepts."""

from game_operator import GameStatus, WithdrawCall
from game_operator.backoffice import Catalogue
from game_operator_testkit import Sandbox

with Sandbox(seed=1) as sandbox, sandbox.client() as client:
    catalogue = Catalogue(client)  # In production with a store: your SqlLedger.
    catalogue.refresh()

    game = next(game for game in catalogue.games if game.instances[0].id == sandbox.instance_id)
    sandbox.world.add_game(game.model_copy(update={"status": GameStatus.MAINTENANCE}))
    for change in catalogue.refresh():
        print(change.kind, change.before.status, "->", change.after.status)

    # The provider takes an instance away. Its open bets are still played out, so it stays accepted.
    sandbox.world.add_game(game.model_copy(update={"instances": game.instances[1:]}))
    print(*(change.kind for change in catalogue.refresh()))
    print(sandbox.instance_id in {each.id for game in catalogue.games for each in game.instances})
    print(sandbox.instance_id in catalogue.instances)
    late = WithdrawCall(player_id="p1", bet_id="b1", amount_cents=500, instance_id=sandbox.instance_id)
    print(catalogue.currency_of(late))

# Prints:
# game_changed ACTIVE -> MAINTENANCE
# game_changed instance_gone
# False
# True
# EUR
