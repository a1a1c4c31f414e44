"""Answers of the service as they look in production: sizes, ids and amounts are realistic, and the same every time."""

import json
import random

__all__ = ["BET_ID", "catalogue", "one_bet"]

#: The bet of ``one_bet``.
BET_ID = "bet-00000000"
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
    return _compact(
        {
            "status": "CLOSED",
            "reference_id": BET_ID,
            "player_id": "player-0",
            "round_id": "round-812",
            "instance_id": _id(7),
            "game": "crash-x",
            "wager": 100,
            "won": 250,
            "timestamp": 1_790_000_000_000,
        }
    )


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


def _id(number: int) -> str:
    return f"{0x65A1B2C3D4E5F60000000000 + number:024x}"


def _compact(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
