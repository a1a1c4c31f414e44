"""The operator's game instances, for forms and for people."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from game_operator.sandbox.server import Sandbox

__all__ = ["instance_names"]


def instance_names(sandbox: "Sandbox") -> dict[str, str]:
    """Return the name of each instance by its id, in the order of the catalogue, those that are off included."""
    return {
        instance.id: instance.name if instance.active else f"{instance.name} (off)"
        for game in sandbox.world.games(sandbox.operator_id)
        for instance in game.instances
    }
