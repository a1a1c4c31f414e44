"""Answers of the service as they look in production: sizes, ids and amounts are realistic, and the same every time."""

import json
import random

__all__ = ["BET_ID", "INSTANCE_ID", "ROUND_ID", "catalogue", "grant_accepted", "one_bet", "round_of"]

#: What ``one_bet`` and ``round_of`` are about.
BET_ID, ROUND_ID, INSTANCE_ID = "bet-00000000", "round-812", f"{0x65A1B2C3D4E5F60000000007:024x}"

_GENRES = ("Slots", "Crash", "Roulette", "Blackjack", "Dice", "LiveRoulette", "Mine", "Plinko", "Keno", "Baccarat")
_STATUSES = ("ACTIVE", "ACTIVE", "ACTIVE", "INACTIVE", "MAINTENANCE", "COMING_SOON")
_LIMITS = {
    "EUR": (0.1, 1000, 1.5, 250000.55),
    "USD": (0.1, 1000.0, 1, 250000),
    "BTC": (0.0001, 0.5, 0.001, 2.5),
}


def catalogue(games: int = 2_000) -> bytes:
    """Return the answer of fetch-games, three instances to a game: about 1.4 MB for 2,000 games (spec §2.5)."""
    dice = random.Random(1)
    return _compact({"games": [_game(number, dice) for number in range(games)]})


def one_bet() -> bytes:
    """Return the answer of fetch-bet for a settled bet (spec §2.4)."""
    return _compact(_bet(0))


def round_of(bets: int) -> bytes:
    """Return the answer of fetch-round-bets with *bets* bets in all three states (spec §2.8)."""
    found = {"status": "OK", "round_id": ROUND_ID, "round_no": 812, "instance_id": INSTANCE_ID, "game": "crash-x"}
    return _compact(found | {"bets": [_bet(number) for number in range(bets)]})


def grant_accepted() -> bytes:
    """Return the answer of free-bet/grant (spec §2.3)."""
    return _compact({"success": True, "free_bet_id": _id(99), "message": "Free bet granted successfully"})


def _game(number: int, dice: random.Random) -> dict[str, object]:
    return {
        "id": f"game-{number:06d}",
        "name": f"Game number {number}",
        "status": dice.choice(_STATUSES),
        "thumbnail_url": None if number % 7 == 0 else f"https://cdn.example.com/thumbnails/game-{number:06d}.png",
        "provider_name": "Example Studios",
        "rtp": None if number % 11 == 0 else round(90 + 9 * dice.random(), 2),
        "genre": dice.choice(_GENRES),
        "instances": [
            _instance(3 * number + place, currency, number % 9 != 0) for place, currency in enumerate(_LIMITS)
        ],
    }


def _instance(number: int, currency: str, active: bool) -> dict[str, object]:
    least, most, default, win = _LIMITS[currency]
    limits = {"min_wager": least, "max_wager": most, "default_wager": default, "currency": currency, "max_win": win}
    return {"id": _id(number), "name": f"{currency} table {number}", "active": active, "bet_config": limits}


def _bet(number: int) -> dict[str, object]:
    status = ("CLOSED", "OPEN", "ROLLED_BACK")[number % 3]
    won = {"won": 250} if status == "CLOSED" else {}
    return {
        "status": status,
        "reference_id": f"bet-{number:08d}",
        "player_id": f"player-{number % 97}",
        "round_id": ROUND_ID,
        "instance_id": INSTANCE_ID,
        "game": "crash-x",
        "wager": 100 + number,
        **won,
        "timestamp": 1_790_000_000_000 + number,
    }


def _id(number: int) -> str:
    return f"{0x65A1B2C3D4E5F60000000000 + number:024x}"


def _compact(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
