"""
The service, played on this machine: the Operator API over real HTTP on loopback, and a dealer who plays rounds against
a wallet by signed webhooks.

::

    with Sandbox() as sandbox, sandbox.client() as client:
        client.fetch_games()

Calls are recognised, verified, answered and written by ``game_operator.protocol``, the other half of what the clients
and the receiver do; what this package adds is a world to ask about, games to play, and everything that may go wrong on
the way. Choices that the specification leaves to the service are listed in docs/decisions/0017.
"""

from typing import TYPE_CHECKING

from game_operator._lazy import lazy_names

if TYPE_CHECKING:
    from game_operator_testkit.provider.faults import FAULTS, Fault, FaultPlan
    from game_operator_testkit.sandbox.server import Sandbox
    from game_operator_testkit.sandbox.service.exchange_log import Exchange
    from game_operator_testkit.sandbox.service.state import PlayedRound
    from game_operator_testkit.sandbox.service.world import Grant, SandboxWorld

__all__ = ["FAULTS", "Exchange", "Fault", "FaultPlan", "Grant", "PlayedRound", "Sandbox", "SandboxWorld"]

if not TYPE_CHECKING:  # With a __getattr__, a type checker would accept every misspelt name.
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "game_operator_testkit.provider.faults": "FAULTS Fault FaultPlan",
            ".server": "Sandbox",
            ".service.exchange_log": "Exchange",
            ".service.state": "PlayedRound",
            ".service.world": "Grant SandboxWorld",
        },
    )
