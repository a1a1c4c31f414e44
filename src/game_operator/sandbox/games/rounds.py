"""
The games as they are played: betting limits in whole cents, wagers within them, and what the wagers of a round win.

All is pure: chance comes from the ``Random`` that is passed in, and the same one plays the same. In the long run a
game returns its ``rtp`` (spec §2.5) to the last digit, whatever its limits cut off.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from random import Random
from types import MappingProxyType
from typing import Final

from game_operator.codes import Genre
from game_operator.errors import ConfigurationError
from game_operator.models import BetConfig, GameInfo
from game_operator.models.webhooks import MAX_AMOUNT_CENTS
from game_operator.money import cents_rounded_down
from game_operator.sandbox.games import crash, keno, lottery, roulette

__all__ = ["Limits", "bets_in_round", "is_shared", "limits_of", "pick_wager", "play", "rtp_of"]

#: What a game returns that does not say, in percent.
_USUAL_RTP: Final = Decimal(96)

#: Genres of which one outcome decides all bets of a round.
_SHARED: Final = frozenset((Genre.CRASH, Genre.KENO, Genre.ROULETTE, Genre.LIVE_ROULETTE))

#: How many bets a round has, at least and at most; one, of a genre that is not here.
_BETS_IN_ROUND: Final[Mapping[str, tuple[int, int]]] = MappingProxyType(
    {
        Genre.BINGO: (2, 12),
        Genre.CRASH: (2, 12),
        Genre.KENO: (2, 12),
        Genre.LIVE_BLACKJACK: (1, 7),
        Genre.LIVE_ROULETTE: (2, 12),
        Genre.POKER: (2, 6),
        Genre.ROULETTE: (2, 12),
    }
)


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


def rtp_of(game: GameInfo) -> Fraction:
    """Return what *game* returns in the long run, as a share of 1; 0.96 if it does not say (spec §2.5)."""
    return _share(_USUAL_RTP if game.rtp is None else game.rtp)


def is_shared(genre: str) -> bool:
    """Tell whether one outcome decides all bets of a round of *genre*."""
    return genre in _SHARED


def bets_in_round(genre: str, random: Random) -> int:
    """Return how many bets a round of *genre* has this time: 1 for slots, 2 to 12 for roulette."""
    return random.randint(*_BETS_IN_ROUND.get(genre, (1, 1)))


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

    Where the genre has one outcome for all, such as the spin of a roulette, it is drawn once. A wager is not held
    against the limits, for a free bet's may lie outside; no win is above ``max_win_cents``.
    """
    rtp, cap = rtp_of(game), limits.max_win_cents
    match game.genre:
        case Genre.CRASH:
            return _play_crash(rtp, cap, wagers, random)
        case Genre.KENO:
            return _play_keno(rtp, cap, wagers, random)
        # A wheel cannot pay back more than is wagered on its numbers.
        case Genre.ROULETTE | Genre.LIVE_ROULETTE if rtp <= 1:
            return _play_roulette(rtp, cap, wagers, random)
        case _:
            return [_play_alone(game.genre, rtp, cap, wager, random) for wager in wagers]


def _play_crash(rtp: Fraction, cap: int, wagers: Sequence[int], random: Random) -> list[int]:
    drawn = crash.draw(random)
    return [crash.place(rtp=rtp, wager_cents=wager, max_win_cents=cap, random=random).won(drawn) for wager in wagers]


def _play_keno(rtp: Fraction, cap: int, wagers: Sequence[int], random: Random) -> list[int]:
    drawn = keno.draw(random)
    bets = [keno.place(rtp=rtp, wager_cents=wager, max_win_cents=cap, random=random) for wager in wagers]
    return [
        _play_alone(Genre.KENO, rtp, cap, wager, random) if bet is None else bet.won(drawn, random)
        for wager, bet in zip(wagers, bets, strict=True)
    ]


def _play_roulette(rtp: Fraction, cap: int, wagers: Sequence[int], random: Random) -> list[int]:
    drawn = roulette.draw(rtp=rtp, random=random)
    bets = [roulette.place(rtp=rtp, wager_cents=wager, max_win_cents=cap, random=random) for wager in wagers]
    return [
        _play_alone(Genre.ROULETTE, rtp, cap, wager, random) if bet is None else bet.won(drawn)
        for wager, bet in zip(wagers, bets, strict=True)
    ]


def _play_alone(genre: str, rtp: Fraction, cap: int, wager: int, random: Random) -> int:
    """Play a wager that no bet of a shared round fits, or whose game has none: with odds that can be bent."""
    bet = lottery.place(lottery.paytable_of(genre), rtp=rtp, wager_cents=wager, max_win_cents=cap)
    return bet.won(random)


@lru_cache
def _share(percent: Decimal) -> Fraction:
    return max(Fraction(percent) / 100, Fraction(0))
