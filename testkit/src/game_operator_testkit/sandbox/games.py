"""
The games as they are played: betting limits in whole cents, wagers within them, and what the wagers of a round win.

Everything is pure: chance comes from the ``Random`` that is passed in, and the same one plays the same. What a bet wins
is drawn by the weights in ``paytables.toml``. What a game states as its ``rtp`` (spec §2.5) is shown and not played.
"""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from random import Random
from typing import Any, Final

from game_operator.errors import ConfigurationError
from game_operator.models import BetConfig, GameInfo
from game_operator.models.webhooks import MAX_AMOUNT_CENTS
from game_operator.money import cents_rounded_down

#: The paytable of a genre that is not listed.
_USUAL: Final = "pegs"


@dataclass(frozen=True, slots=True)
class Limits:
    """
    The betting limits of an instance in whole cents, none of them beyond what a call may move.

    Attributes:
        min_cents: The least wager, at least 1.
        max_cents: The highest wager.
        default_cents: The usual wager, between the two.
        max_win_cents: The most that one bet wins.
    """

    min_cents: int
    max_cents: int
    default_cents: int
    max_win_cents: int


def limits_of(config: BetConfig) -> Limits:
    """
    Return the whole cents within *config*: the minimum rounded up, the maxima down (spec §2.4, §2.7).

    Raises:
        ConfigurationError: No whole cent lies between the least and the highest wager.
    """
    # copy_negate and not "-", which would round to the precision of the context.
    least = max(1, -cents_rounded_down(config.min_wager.copy_negate()))
    most = min(cents_rounded_down(config.max_wager), MAX_AMOUNT_CENTS)
    if least > most:
        raise ConfigurationError(
            f"Nothing can be wagered between min_wager {config.min_wager} and max_wager {config.max_wager} "
            f"{config.currency}: wagers are whole cents, from 1 to {MAX_AMOUNT_CENTS}. Widen the bet_config."
        )
    return Limits(
        min_cents=least,
        max_cents=most,
        default_cents=max(least, min(cents_rounded_down(config.default_wager), most)),
        max_win_cents=max(0, min(cents_rounded_down(config.max_win), MAX_AMOUNT_CENTS)),
    )


def is_shared(genre: str) -> bool:
    """Return whether all bets of a round of *genre* end together."""
    return genre in _data()["shared"]


def bets_in_round(genre: str, random: Random) -> int:
    """Return how many bets a round of *genre* has this time: 1 for slots, 2 to 12 for roulette."""
    return random.randint(*_data()["bets_in_round"].get(genre, (1, 1)))


def pick_wager(limits: Limits, random: Random) -> int:
    """Return a wager in cents as players choose them: mostly near the default, at times the least or the highest."""
    chance = random.random()
    if chance < 0.01:
        return limits.max_cents
    if chance < 0.05:
        return limits.min_cents
    if chance < 0.4:
        return limits.default_cents
    near = random.randint(limits.default_cents // 2, limits.default_cents * 2)
    return max(limits.min_cents, min(near, limits.max_cents))


def play(game: GameInfo, limits: Limits, wagers: Sequence[int], random: Random) -> list[int]:
    """
    Play one round of *game* and return what each of *wagers* wins, in cents and in their order; 0 is a loss.

    A wager is not held against the limits, because a free bet's may lie outside; no win is above ``max_win_cents``.
    """
    hundredths, weights = zip(*_data()["paytables"][_data()["genres"].get(game.genre, _USUAL)], strict=True)
    drawn = random.choices(hundredths, weights, k=len(wagers))
    return [min(wager * won // 100, limits.max_win_cents) for wager, won in zip(wagers, drawn, strict=True)]


@cache
def _data() -> Mapping[str, Any]:  # Any: what TOML holds.
    return tomllib.loads(files(__package__).joinpath("paytables.toml").read_text("utf-8"))
