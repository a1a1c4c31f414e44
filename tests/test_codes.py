"""The word lists: those of the specification, word for word (spec §2.5, §7.2), and those that are assumed."""

import pytest

from game_operator.codes import GRANT_MESSAGES, BetState, GameStatus, Genre, GrantErrorCode, WebhookErrorCode
from game_operator_testkit.control_room.outcomes import _MEANINGS
from game_operator_testkit.sandbox.storm.report import _REMEDIES
from tests.support.documents import ROOT

GENRES = [
    *("AndarBahar", "Baccarat", "Bingo", "Blackjack", "BoardGame", "CoinDozer", "Craps", "Crash", "Dice"),
    *("DragonTiger", "HeadsOrTails", "HiLo", "InstantWin", "Keno", "LiveBlackjack", "LiveRoulette", "Ladder"),
    *("Lobby", "MatchAndWin", "Mine", "Plinko", "Poker", "Roulette", "ScratchCards", "SetteEMezzo", "Shooting"),
    *("Show", "SicBo", "Slots", "VideoPoker", "Wheel", "Other"),
]

MESSAGES = {
    "INVALID_COUNT": "Count must be at least 1",
    "COUNT_TOO_HIGH": "Count cannot exceed 50",
    "INVALID_WAGER_AMOUNT": "Wager amount must be greater than 0",
    "WAGER_AMOUNT_TOO_HIGH": "Wager amount cannot exceed $10,000.00",
    "INVALID_EXPIRE_DURATION": "Expire duration must be greater than 0",
    "EXPIRE_DURATION_TOO_LONG": "Expire duration cannot exceed 30 days",
    "EMPTY_PLAYER_ID": "Player ID cannot be empty",
    "PLAYER_ID_TOO_LONG": "Player ID cannot exceed 100 characters",
    "EMPTY_REFERENCE_ID": "Reference ID cannot be empty",
    "REFERENCE_ID_TOO_LONG": "Reference ID cannot exceed 100 characters",
    "INVALID_INSTANCE_ID": "Invalid instance ID format",
    "INSTANCE_NOT_FOUND": "Game instance not found",
    "DUPLICATE_REFERENCE_ID": "Free bet with this reference ID already exists for this instance",
}


def test_genres() -> None:
    """There are 32 genres, and no other (spec §2.5)."""
    assert len(GENRES) == 32
    assert [str(genre) for genre in Genre] == GENRES


def test_game_statuses() -> None:
    """There are four game statuses, and no other (spec §2.5, §3)."""
    assert [str(status) for status in GameStatus] == ["ACTIVE", "INACTIVE", "MAINTENANCE", "COMING_SOON"]


def test_grant_errors() -> None:
    """The 13 error codes and their messages are the specification's (spec §7.2)."""
    assert {str(code): message for code, message in GRANT_MESSAGES.items()} == MESSAGES
    assert set(GRANT_MESSAGES) == set(GrantErrorCode)


WEBHOOK_CODES = [
    *("INSUFFICIENT_BALANCE", "PLAYER_NOT_FOUND", "BET_NOT_FOUND", "BET_ALREADY_CLOSED", "BET_ROLLED_BACK"),
    *("DUPLICATE_TRANSACTION", "PLAYER_BLOCKED", "LIMIT_EXCEEDED", "INVALID_REQUEST"),
    *("INVALID_SIGNATURE", "SYSTEM_ERROR"),
]


def test_webhook_errors() -> None:
    """Spec §7.1 shows no list of codes; these eleven are assumed (docs/decisions/0013)."""
    assert [str(code) for code in WebhookErrorCode] == WEBHOOK_CODES


def test_bet_states() -> None:
    """A bet is OPEN, CLOSED or ROLLED_BACK (spec §3); NOT_FOUND is no state, and three more are the ledger's own."""
    states = [str(state) for state in BetState]
    assert states == ["OPEN", "SPENT", "CLOSED", "ROLLED_BACK", "TOMBSTONE", "DECLINED"]


@pytest.mark.parametrize("page", ["how-to/webhooks.md", "tutorials/another-language.md"])
def test_the_pages_for_wallets_name_every_code(page: str) -> None:
    """A code that no page names is found by nobody who writes a wallet."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    assert [code for code in WebhookErrorCode if code not in text] == []


#: No withdraw is refused with them by a correct wallet.
NOT_OF_A_WITHDRAW = {
    "BET_NOT_FOUND",
    "BET_ALREADY_CLOSED",
    "DUPLICATE_TRANSACTION",
    "INVALID_SIGNATURE",
    "SYSTEM_ERROR",
}


def test_people_read_what_a_code_means() -> None:
    """The control room has words for each, and a storm a remedy for a refused withdraw unless none can be given."""
    assert set(_MEANINGS) == set(WebhookErrorCode)
    assert set(_REMEDIES) == set(WebhookErrorCode) - NOT_OF_A_WITHDRAW - {"BET_ROLLED_BACK"}
