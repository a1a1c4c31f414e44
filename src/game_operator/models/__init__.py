"""
The wire models: frozen values with the field names of the specification (spec §2), and the calls of webhooks.

Names are loaded when they are first used: those of the Operator API need pydantic, and the calls of webhooks do not.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from game_operator.models.bets import Bet, BetLookup, BetNotFound, ClosedBet, OpenBet, RolledBackBet
    from game_operator.models.free_bets import GrantAccepted, GrantRefused, GrantRequest
    from game_operator.models.games import BetConfig, GameInfo, GameInstance
    from game_operator.models.rounds import RoundFound, RoundLookup, RoundNotFound
    from game_operator.models.webhooks import (
        BalanceCall,
        DepositCall,
        FreeBet,
        MovingCall,
        Reply,
        RollbackCall,
        WebhookCall,
        WithdrawCall,
    )

__all__ = [
    "BalanceCall",
    "Bet",
    "BetConfig",
    "BetLookup",
    "BetNotFound",
    "ClosedBet",
    "DepositCall",
    "FreeBet",
    "GameInfo",
    "GameInstance",
    "GrantAccepted",
    "GrantRefused",
    "GrantRequest",
    "MovingCall",
    "OpenBet",
    "Reply",
    "RollbackCall",
    "RolledBackBet",
    "RoundFound",
    "RoundLookup",
    "RoundNotFound",
    "WebhookCall",
    "WithdrawCall",
]

#: Where each name lives; a test holds this against the imports above.
_HOMES = {
    "bets": ("Bet", "BetLookup", "BetNotFound", "ClosedBet", "OpenBet", "RolledBackBet"),
    "free_bets": ("GrantAccepted", "GrantRefused", "GrantRequest"),
    "games": ("BetConfig", "GameInfo", "GameInstance"),
    "rounds": ("RoundFound", "RoundLookup", "RoundNotFound"),
    "webhooks": (
        "BalanceCall",
        "DepositCall",
        "FreeBet",
        "MovingCall",
        "Reply",
        "RollbackCall",
        "WebhookCall",
        "WithdrawCall",
    ),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


if not TYPE_CHECKING:  # To a type checker it would make every misspelt name look defined.

    def __getattr__(name: str) -> Any:
        home = _HOME_OF.get(name)
        if home is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(f"{__name__}.{home}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
