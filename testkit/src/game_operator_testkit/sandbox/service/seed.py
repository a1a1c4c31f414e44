"""
A small world to start with: the same seed makes the same one, ids, amounts and all.

Only times follow the clock: bets and rounds lie a fixed while before the moment the sandbox was made.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from importlib.resources import files
from random import Random
from types import MappingProxyType
from typing import Any, Final

from game_operator.codes import GameStatus
from game_operator.models import BetConfig, ClosedBet, GameInfo, GameInstance, OpenBet, RolledBackBet
from game_operator_testkit.sandbox.service.world import RETENTION_MILLIS, PlacedBet, SandboxWorld

_MINUTE: Final = 60_000
#: The number of each round, and its age.
_ROUNDS: Final = {
    "crowded": (4127, 30 * _MINUTE),
    "empty": (4128, 10 * _MINUTE),
    "expired": (17, RETENTION_MILLIS + 2 * _MINUTE),
}


@dataclass(frozen=True, slots=True)
class Landmarks:
    """
    What there is to ask a seeded world about.

    Attributes:
        instance_id: An active instance in EUR, of a game with rounds; the bets and rounds below are its own.
        bet_ids: Bets by what became of them: OPEN, CLOSED (won), LOST (closed with nothing won), ROLLED_BACK, and
            EXPIRED, which is just over 90 days old and so not found.
        round_id: A round with the four bets that are found, and more.
        round_no: The number of that round.
        empty_round_id: A round without bets.
        expired_round_id: A round just over 90 days old and so not found.
    """

    instance_id: str
    bet_ids: Mapping[str, str]
    round_id: str
    round_no: int
    empty_round_id: str
    expired_round_id: str


def populate(world: SandboxWorld, seed: int | None, now_millis: int) -> Landmarks:
    """
    Fill a new *world*, and return what to ask about.

    The bets and rounds are older than *now_millis*. A *seed* of None stands for 0.
    """
    random = _random(seed)
    games = _games(random)
    for game in games:
        world.add_game(game)
    place = {"instance_id": games[0].instances[0].id, "game": games[0].id}
    rounds = {name: f"round-{_hex(random)}" for name in _ROUNDS}
    for name, (round_no, age_millis) in _ROUNDS.items():
        started_at_millis = now_millis - age_millis
        world.add_round(round_id=rounds[name], round_no=round_no, started_at_millis=started_at_millis, **place)
    return Landmarks(
        instance_id=place["instance_id"],
        bet_ids=MappingProxyType(_add_bets(world, place, rounds, random, now_millis)),
        round_id=rounds["crowded"],
        round_no=_ROUNDS["crowded"][0],
        empty_round_id=rounds["empty"],
        expired_round_id=rounds["expired"],
    )


def catalogue(seed: int | None, instance_id: str | None = None) -> list[GameInfo]:
    """Return the games that ``populate`` puts into a world with this *seed*; with *instance_id*, all played there."""
    games = _games(_random(seed))
    return games if instance_id is None else [_played_in(instance_id, game) for game in games]


def _played_in(instance_id: str, game: GameInfo) -> GameInfo:
    return game.model_copy(
        update={"instances": [each.model_copy(update={"id": instance_id}) for each in game.instances]}
    )


def _random(seed: int | None) -> Random:
    return Random(seed or 0)  # noqa: S311 - ids of a toy world, which must repeat


def _games(random: Random) -> list[GameInfo]:
    data = tomllib.loads(files(__package__).joinpath("catalogue.toml").read_text("utf-8"))
    return [_game(title, data["limits"], random) for title in data["games"]]


def _game(title: Mapping[str, Any], limits: Mapping[str, Mapping[str, str]], random: Random) -> GameInfo:
    status = title.get("status", GameStatus.ACTIVE)
    has_thumbnail, rtp, currencies = title.get("thumbnail", True), title.get("rtp"), title["currencies"]
    return GameInfo(
        id=title["id"],
        name=title["name"],
        status=status,
        thumbnail_url=f"https://games.example/thumbnails/{title['id']}.png" if has_thumbnail else None,
        provider_name=random.choice(("Northlight", "Quiet Harbour", "Third Bell")),
        rtp=None if rtp is None else Decimal(rtp),
        genre=title["genre"],
        instances=tuple(
            GameInstance(
                id=_hex(random),
                name=f"{title['name']} {currency}",
                # Of several instances the last is switched off; of a game that cannot be played, all are.
                active=status == GameStatus.ACTIVE and (number == 0 or number < len(currencies) - 1),
                bet_config=BetConfig(
                    currency=currency,
                    **{name: Decimal(units) for name, units in limits[currency].items()},
                ),
            )
            for number, currency in enumerate(currencies)
        ),
    )


def _add_bets(
    world: SandboxWorld, place: Mapping[str, str], rounds: Mapping[str, str], random: Random, now_millis: int
) -> dict[str, str]:
    """Add bets of all states at *place*, and return the ids of one for each."""

    def placed(age_millis: int, round_id: str = rounds["crowded"]) -> dict[str, str | int]:
        return {
            "reference_id": f"bet-{_hex(random)}",
            "player_id": f"player-{random.randrange(1, 10)}",
            "round_id": round_id,
            "wager": random.randrange(10, 10_001),
            "timestamp": now_millis - age_millis,
            **place,
        }

    winnings = random.randrange(10_001, 100_001)
    bets: dict[str, PlacedBet] = {
        "OPEN": OpenBet.model_validate(placed(29 * _MINUTE)),
        "CLOSED": ClosedBet.model_validate(placed(29 * _MINUTE) | {"won": winnings}),
        "LOST": ClosedBet.model_validate(placed(28 * _MINUTE) | {"won": 0}),
        "ROLLED_BACK": RolledBackBet.model_validate(placed(28 * _MINUTE)),
        "EXPIRED": ClosedBet.model_validate(placed(RETENTION_MILLIS + _MINUTE, rounds["expired"]) | {"won": 0}),
    }
    for bet in bets.values():
        world.add_bet(bet)
    for _ in range(8):
        won = random.choice((0, random.randrange(1, 20_001)))
        world.add_bet(ClosedBet.model_validate(placed(28 * _MINUTE) | {"won": won}))
    return {state: bet.reference_id for state, bet in bets.items()}


def _hex(random: Random) -> str:
    return f"{random.getrandbits(96):024x}"
