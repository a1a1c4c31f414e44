"""The operator's game instances, for forms and for people."""

from typing import TYPE_CHECKING

from game_operator.codes import GameStatus
from game_operator.models import GameInfo, GameInstance

if TYPE_CHECKING:
    from game_operator.sandbox.server import Sandbox

__all__ = ["instance_names"]


def instance_names(sandbox: "Sandbox") -> dict[str, str]:
    """Return the name of each instance by its id, in the order of the catalogue, those that are off included."""
    return {
        instance.id: instance.name + _off(game, instance)
        for game in sandbox.world.games(sandbox.operator_id)
        for instance in game.instances
    }


def _off(game: GameInfo, instance: GameInstance) -> str:
    """Return what is to be added to the name of an instance that cannot be played now."""
    if not instance.active:
        return " (off)"
    return "" if game.status == GameStatus.ACTIVE else f" ({game.status.replace('_', ' ').lower()})"
