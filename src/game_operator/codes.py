"""
The word lists that errors and models share.

Genres, statuses and grant errors are the specification's (spec §2.5, §7.2); values that a later version of the service
may add arrive as plain ``str``, see ``models``. The codes of a webhook reply are assumed, because the specification
does not show them (spec §7.1; docs/decisions/0013).
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final


class GameStatus(StrEnum):
    """The status of a game (spec §2.5)."""

    ACTIVE = "ACTIVE"
    INACTIVE = "INACTIVE"
    MAINTENANCE = "MAINTENANCE"
    COMING_SOON = "COMING_SOON"


class Genre(StrEnum):
    """The 32 genres a game can have (spec §2.5)."""

    ANDAR_BAHAR = "AndarBahar"
    BACCARAT = "Baccarat"
    BINGO = "Bingo"
    BLACKJACK = "Blackjack"
    BOARD_GAME = "BoardGame"
    COIN_DOZER = "CoinDozer"
    CRAPS = "Craps"
    CRASH = "Crash"
    DICE = "Dice"
    DRAGON_TIGER = "DragonTiger"
    HEADS_OR_TAILS = "HeadsOrTails"
    HI_LO = "HiLo"
    INSTANT_WIN = "InstantWin"
    KENO = "Keno"
    LIVE_BLACKJACK = "LiveBlackjack"
    LIVE_ROULETTE = "LiveRoulette"
    LADDER = "Ladder"
    LOBBY = "Lobby"
    MATCH_AND_WIN = "MatchAndWin"
    MINE = "Mine"
    PLINKO = "Plinko"
    POKER = "Poker"
    ROULETTE = "Roulette"
    SCRATCH_CARDS = "ScratchCards"
    SETTE_E_MEZZO = "SetteEMezzo"
    SHOOTING = "Shooting"
    SHOW = "Show"
    SIC_BO = "SicBo"
    SLOTS = "Slots"
    VIDEO_POKER = "VideoPoker"
    WHEEL = "Wheel"
    OTHER = "Other"


class GrantErrorCode(StrEnum):
    """Why the service refuses a free-bet grant (spec §7.2)."""

    INVALID_COUNT = "INVALID_COUNT"
    COUNT_TOO_HIGH = "COUNT_TOO_HIGH"
    INVALID_WAGER_AMOUNT = "INVALID_WAGER_AMOUNT"
    WAGER_AMOUNT_TOO_HIGH = "WAGER_AMOUNT_TOO_HIGH"
    INVALID_EXPIRE_DURATION = "INVALID_EXPIRE_DURATION"
    EXPIRE_DURATION_TOO_LONG = "EXPIRE_DURATION_TOO_LONG"
    EMPTY_PLAYER_ID = "EMPTY_PLAYER_ID"
    PLAYER_ID_TOO_LONG = "PLAYER_ID_TOO_LONG"
    EMPTY_REFERENCE_ID = "EMPTY_REFERENCE_ID"
    REFERENCE_ID_TOO_LONG = "REFERENCE_ID_TOO_LONG"
    INVALID_INSTANCE_ID = "INVALID_INSTANCE_ID"
    INSTANCE_NOT_FOUND = "INSTANCE_NOT_FOUND"
    DUPLICATE_REFERENCE_ID = "DUPLICATE_REFERENCE_ID"


class WebhookErrorCode(StrEnum):
    """
    Why a webhook call is refused (spec §7.1 shows no list; assumed, docs/decisions/0013).

    *Final* codes say that the call moved nothing and, unchanged, never will. INVALID_SIGNATURE, and BET_NOT_FOUND and
    PLAYER_NOT_FOUND as answers to a deposit, ask for the call again. SYSTEM_ERROR says that the outcome is unknown.
    """

    INSUFFICIENT_BALANCE = "INSUFFICIENT_BALANCE"
    PLAYER_NOT_FOUND = "PLAYER_NOT_FOUND"
    BET_NOT_FOUND = "BET_NOT_FOUND"
    BET_ALREADY_CLOSED = "BET_ALREADY_CLOSED"
    BET_ROLLED_BACK = "BET_ROLLED_BACK"
    DUPLICATE_TRANSACTION = "DUPLICATE_TRANSACTION"
    PLAYER_BLOCKED = "PLAYER_BLOCKED"
    LIMIT_EXCEEDED = "LIMIT_EXCEEDED"
    INVALID_REQUEST = "INVALID_REQUEST"
    INVALID_SIGNATURE = "INVALID_SIGNATURE"
    SYSTEM_ERROR = "SYSTEM_ERROR"


#: By these an operator refuses a bet that could be placed; each other code says something of a call, bet or balance.
OPERATORS_RULES: Final = frozenset({WebhookErrorCode.PLAYER_BLOCKED, WebhookErrorCode.LIMIT_EXCEEDED})


class BetState(StrEnum):
    """
    What the ledger knows of a bet (docs/decisions/0014).

    OPEN, CLOSED and ROLLED_BACK are the specification's (spec §3). The others are ours: SPENT was debited and has no
    settling deposit (a rain), TOMBSTONE was rolled back before its withdraw came, DECLINED was refused for good.
    """

    OPEN = "OPEN"
    SPENT = "SPENT"
    CLOSED = "CLOSED"
    ROLLED_BACK = "ROLLED_BACK"
    TOMBSTONE = "TOMBSTONE"
    DECLINED = "DECLINED"


#: The service's own sentence for each refusal (spec §7.2), word for word.
GRANT_MESSAGES: Final[Mapping[GrantErrorCode, str]] = MappingProxyType(
    {
        GrantErrorCode.INVALID_COUNT: "Count must be at least 1",
        GrantErrorCode.COUNT_TOO_HIGH: "Count cannot exceed 50",
        GrantErrorCode.INVALID_WAGER_AMOUNT: "Wager amount must be greater than 0",
        GrantErrorCode.WAGER_AMOUNT_TOO_HIGH: "Wager amount cannot exceed $10,000.00",
        GrantErrorCode.INVALID_EXPIRE_DURATION: "Expire duration must be greater than 0",
        GrantErrorCode.EXPIRE_DURATION_TOO_LONG: "Expire duration cannot exceed 30 days",
        GrantErrorCode.EMPTY_PLAYER_ID: "Player ID cannot be empty",
        GrantErrorCode.PLAYER_ID_TOO_LONG: "Player ID cannot exceed 100 characters",
        GrantErrorCode.EMPTY_REFERENCE_ID: "Reference ID cannot be empty",
        GrantErrorCode.REFERENCE_ID_TOO_LONG: "Reference ID cannot exceed 100 characters",
        GrantErrorCode.INVALID_INSTANCE_ID: "Invalid instance ID format",
        GrantErrorCode.INSTANCE_NOT_FOUND: "Game instance not found",
        GrantErrorCode.DUPLICATE_REFERENCE_ID: ("Free bet with this reference ID already exists for this instance"),
    }
)
