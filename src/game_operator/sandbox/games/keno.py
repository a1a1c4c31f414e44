"""
Keno: 20 of 80 numbers are drawn once for the round, and each bet has picked one to eight of them beforehand.

The odds are those of the draw, so the paytable is what is solved: its prizes are scaled until the return is exactly
the game's. Of the fraction of a cent that a prize may then have, a whole cent is paid as often as the fraction says.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import comb
from random import Random
from typing import Final

__all__ = ["KenoBet", "draw", "place"]

_NUMBERS: Final = range(1, 81)
_DRAWN: Final = 20

#: By how many numbers were picked: by how many of them fell, the prizes in relation to each other.
_PRIZES: Final[Mapping[int, Mapping[int, int]]] = {
    1: {1: 4},
    2: {2: 15},
    3: {2: 1, 3: 55},
    4: {2: 1, 3: 4, 4: 160},
    5: {3: 2, 4: 15, 5: 450},
    6: {3: 1, 4: 6, 5: 70, 6: 1_500},
    7: {4: 3, 5: 20, 6: 120, 7: 2_500},
    8: {4: 2, 5: 8, 6: 60, 7: 500, 8: 5_000},
}


@dataclass(frozen=True, slots=True)
class KenoBet:
    """
    A wager on numbers that were picked.

    Attributes:
        picked: The numbers, of 1 to 80.
        wager_cents: The wager.
        rtp: The return, as a share of 1.
    """

    picked: frozenset[int]
    wager_cents: int
    rtp: Fraction

    def won(self, drawn: frozenset[int], random: Random) -> int:
        """Return what the bet wins when the numbers *drawn* fall, in cents."""
        prize = _multipliers(len(self.picked), self.rtp).get(len(self.picked & drawn))
        if prize is None:
            return 0
        cents, rest = divmod(self.wager_cents * prize.numerator, prize.denominator)
        return cents + (random.randrange(prize.denominator) < rest)

    def chances(self) -> tuple[tuple[int, Fraction], ...]:
        """Return each prize in cents with its probability."""
        chances: list[tuple[int, Fraction]] = []
        for hits, multiplier in _multipliers(len(self.picked), self.rtp).items():
            probability = Fraction(_ways(len(self.picked), hits), comb(len(_NUMBERS), _DRAWN))
            cents, rest = divmod(self.wager_cents * multiplier, 1)
            chances += [(cents, probability * (1 - rest)), (cents + 1, probability * rest)]
        return tuple(chances)


def draw(random: Random) -> frozenset[int]:
    """Draw the 20 numbers of a round."""
    return frozenset(random.sample(_NUMBERS, _DRAWN))


def place(*, rtp: Fraction, wager_cents: int, max_win_cents: int, random: Random) -> KenoBet | None:
    """Pick numbers as a player would, fewer if they could win more than the maximum; None if one could."""
    spots = random.randint(1, len(_PRIZES))
    while spots and not _fits(spots, rtp, wager_cents, max_win_cents):
        spots -= 1
    return KenoBet(frozenset(random.sample(_NUMBERS, spots)), wager_cents, rtp) if spots else None


@lru_cache
def _multipliers(spots: int, rtp: Fraction) -> Mapping[int, Fraction]:
    prizes = _PRIZES[spots]
    unscaled = Fraction(sum(_ways(spots, hits) * prize for hits, prize in prizes.items()), comb(len(_NUMBERS), _DRAWN))
    return {hits: prize * rtp / unscaled for hits, prize in prizes.items()}


@lru_cache
def _highest(spots: int, rtp: Fraction) -> Fraction:
    return max(_multipliers(spots, rtp).values())


def _fits(spots: int, rtp: Fraction, wager_cents: int, max_win_cents: int) -> bool:
    highest = _highest(spots, rtp)
    # The maximum is whole cents: a prize below it is so too when it is rounded up.
    return wager_cents * highest.numerator <= max_win_cents * highest.denominator


def _ways(spots: int, hits: int) -> int:
    """Return how many of the draws hit just *hits* of *spots* numbers."""
    return comb(spots, hits) * comb(len(_NUMBERS) - spots, _DRAWN - hits)
