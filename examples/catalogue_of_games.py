"""Follow the provider's games: what has changed, and which instances a receiver accepts."""

from game_operator import GameStatus, WithdrawCall
from game_operator.backoffice import Catalogue, CatalogueChange
from game_operator.backoffice.catalogue import GameStatusChanged, InstanceGone
from game_operator_testkit import Sandbox


def report(change: CatalogueChange) -> None:
    match change:
        case GameStatusChanged(before=before, after=after):
            print(f"{before} -> {after}")
        case InstanceGone(before=instance):
            print(f"gone: {instance.name}")


with Sandbox(seed=1) as sandbox, sandbox.client() as client:
    catalogue = Catalogue(client)  # In production with a store: a file, or your SqlLedger.
    catalogue.refresh()
    catalogue.subscribe(report)

    game = next(game for game in catalogue if game.instances[0].id == sandbox.instance_id)
    sandbox.world.add_game(game.model_copy(update={"status": GameStatus.MAINTENANCE}))
    catalogue.refresh()

    # The provider takes an instance away. Its open bets are still played out, so it stays accepted.
    sandbox.world.add_game(game.model_copy(update={"instances": game.instances[1:]}))
    print(len(catalogue.refresh()), "changes")
    print(sandbox.instance_id in {each.id for game in catalogue for each in game.instances})
    print(sandbox.instance_id in catalogue.instances)
    late = WithdrawCall(player_id="p1", bet_id="b1", amount_cents=500, instance_id=sandbox.instance_id)
    print(catalogue.currency_of(late))

# Prints:
# ACTIVE -> MAINTENANCE
# MAINTENANCE -> ACTIVE
# gone: Comet Crash EUR
# 2 changes
# False
# True
# EUR
