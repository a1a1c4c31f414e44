"""
The service, played on this machine: the Operator API over real HTTP on loopback, and a dealer who plays rounds against
a wallet by signed webhooks (extra ``sandbox``).

::

    with Sandbox() as sandbox, sandbox.client() as client:
        client.fetch_games()

Calls are recognised, verified, answered and written by ``game_operator.protocol``, the other half of what the clients
and the receiver do; what this package adds is a world to ask about, games to play, and everything that may go wrong on
the way. Choices that the specification leaves to the service are listed in docs/decisions/0009 and 0017.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from game_operator.provider.faults import FAULTS, Fault, FaultPlan
    from game_operator.sandbox.server import Sandbox
    from game_operator.sandbox.service.exchange_log import Exchange
    from game_operator.sandbox.service.played_round import PlayedRound
    from game_operator.sandbox.service.world import Grant, SandboxWorld

__all__ = ["FAULTS", "Exchange", "Fault", "FaultPlan", "Grant", "PlayedRound", "Sandbox", "SandboxWorld"]

_HOMES = {
    "FAULTS": "game_operator.provider.faults",
    "Exchange": "game_operator.sandbox.service.exchange_log",
    "Fault": "game_operator.provider.faults",
    "FaultPlan": "game_operator.provider.faults",
    "Grant": "game_operator.sandbox.service.world",
    "PlayedRound": "game_operator.sandbox.service.played_round",
    "Sandbox": "game_operator.sandbox.server",
    "SandboxWorld": "game_operator.sandbox.service.world",
}
_OF_THE_EXTRA = frozenset({"httpx_aiohttp", "jinja2", "starlette", "uvicorn"})


def __getattr__(name: str) -> Any:
    # Lazily: what plays in process needs no web server.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(_HOMES[name]), name)
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] not in _OF_THE_EXTRA:
            raise
        raise ImportError(
            f"game_operator.sandbox needs the package {missing.name}. "
            "Install the extra: pip install 'game-operator[sandbox]'",
            name=missing.name,
        ) from missing
