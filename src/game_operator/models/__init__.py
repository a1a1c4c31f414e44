"""The wire models: frozen values with the field names of the specification (spec §2)."""

from game_operator.models.bets import Bet, BetLookup, BetNotFound, ClosedBet, OpenBet, RolledBackBet
from game_operator.models.free_bets import GrantAccepted, GrantRefused, GrantRequest
from game_operator.models.games import BetConfig, GameInfo, GameInstance
from game_operator.models.rounds import RoundFound, RoundLookup, RoundNotFound

__all__ = [
    "Bet",
    "BetConfig",
    "BetLookup",
    "BetNotFound",
    "ClosedBet",
    "GameInfo",
    "GameInstance",
    "GrantAccepted",
    "GrantRefused",
    "GrantRequest",
    "OpenBet",
    "RolledBackBet",
    "RoundFound",
    "RoundLookup",
    "RoundNotFound",
]
