"""The operator's game instances, for forms and for people."""

from typing import TYPE_CHECKING

from game_operator.codes import GameStatus
from game_operator.models import BetNotFound, GameInfo, GameInstance
from game_operator.protocol.operations import AnyBet

if TYPE_CHECKING:
    from game_operator.sandbox.server import Sandbox

__all__ = ["currency_of", "instance_names"]


def instance_names(sandbox: "Sandbox") -> dict[str, str]:
    """Return the name of each instance by its id, in the order of the catalogue, those that are off included."""
    return {
        instance.id: instance.name + _off(game, instance)
        for game in sandbox.world.games(sandbox.operator_id)
        for instance in game.instances
    }


def currency_of(sandbox: "Sandbox", bet: AnyBet) -> str:
    """Return the currency of the instance that *bet* was placed in, or "" if there is no such instance any more."""
    instance_id = None if isinstance(bet, BetNotFound) else bet.instance_id
    instances = (each for game in sandbox.world.games(sandbox.operator_id) for each in game.instances)
    return next((each.bet_config.currency for each in instances if each.id == instance_id), "")


def _off(game: GameInfo, instance: GameInstance) -> str:
    """Return what is to be added to the name of an instance that cannot be played now."""
    if not instance.active:
        return " (off)"
    return "" if game.status == GameStatus.ACTIVE else f" ({game.status.replace('_', ' ').lower()})"
