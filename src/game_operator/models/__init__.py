"""
The wire models: frozen values with the field names of the specification (spec §2), and the calls of webhooks.

Names are loaded when they are first used: those of the Operator API need pydantic, and the calls of webhooks do not.
"""

from typing import TYPE_CHECKING

from game_operator._lazy import lazy_names

if TYPE_CHECKING:
    from game_operator.models.bets import (
        Bet,
        BetLookup,
        BetNotFound,
        ClosedBet,
        OpenBet,
        RolledBackBet,
        RoundFound,
        RoundLookup,
        RoundNotFound,
    )
    from game_operator.models.free_bets import GrantAccepted, GrantRefused, GrantRequest
    from game_operator.models.games import BetConfig, GameInfo, GameInstance
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

if not TYPE_CHECKING:  # With a __getattr__, a type checker would accept every misspelt name.
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            ".bets": ("Bet BetLookup BetNotFound ClosedBet OpenBet RolledBackBet RoundFound RoundLookup RoundNotFound"),
            ".free_bets": "GrantAccepted GrantRefused GrantRequest",
            ".games": "BetConfig GameInfo GameInstance",
            ".webhooks": "BalanceCall DepositCall FreeBet MovingCall Reply RollbackCall WebhookCall WithdrawCall",
        },
    )
