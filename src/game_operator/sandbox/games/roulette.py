"""
Roulette: one spin decides all bets of the round.

A bet on k of the numbers 1 to 36 pays 36/k times the wager. On a fair wheel it returns 36/37, which games round to
97.3 %. To return exactly what the game states, the zero is made that much wider or narrower: it falls with probability
1 - rtp, each other number with rtp/36. Nobody bets on the zero, whose return would differ.
"""

from dataclasses import dataclass
from fractions import Fraction
from random import Random
from typing import Final

__all__ = ["RouletteBet", "draw", "place"]

_NUMBERS: Final = range(1, 37)
_RED: Final = frozenset((1, 3, 5, 7, 9, 12, 14, 16, 18, 19, 21, 23, 25, 27, 30, 32, 34, 36))
#: Red, black, even, odd, low and high.
_EVEN_CHANCES: Final = (
    _RED,
    frozenset(_NUMBERS) - _RED,
    frozenset(_NUMBERS[1::2]),
    frozenset(_NUMBERS[::2]),
    frozenset(_NUMBERS[:18]),
    frozenset(_NUMBERS[18:]),
)
_DOZENS: Final = tuple(frozenset(_NUMBERS[start : start + 12]) for start in (0, 12, 24))
_COLUMNS: Final = tuple(frozenset(_NUMBERS[start::3]) for start in range(3))
_STRAIGHT: Final = tuple(frozenset((number,)) for number in _NUMBERS)
#: What players bet on, the popular bets several times.
_BETS: Final = _EVEN_CHANCES * 6 + _DOZENS * 6 + _COLUMNS * 6 + _STRAIGHT


@dataclass(frozen=True, slots=True)
class RouletteBet:
    """
    A wager on some of the numbers.

    Attributes:
        numbers: The numbers it wins on; their count divides 36.
        wager_cents: The wager.
        rtp: The return, as a share of 1.
    """

    numbers: frozenset[int]
    wager_cents: int
    rtp: Fraction

    @property
    def prize_cents(self) -> int:
        """What is won if one of the numbers falls."""
        return self.wager_cents * (36 // len(self.numbers))

    def won(self, drawn: int) -> int:
        """Return what the bet wins when the number *drawn* falls, in cents."""
        return self.prize_cents if drawn in self.numbers else 0

    def chances(self) -> tuple[tuple[int, Fraction], ...]:
        """Return the prize in cents with its probability."""
        return ((self.prize_cents, self.rtp * len(self.numbers) / 36),)


def draw(*, rtp: Fraction, random: Random) -> int:
    """Spin the wheel: 0 to 36. *rtp* is a share of 1 and no more than that."""
    number = random.randrange(36 * rtp.denominator)
    return 1 + number // rtp.numerator if number < 36 * rtp.numerator else 0


def place(*, rtp: Fraction, wager_cents: int, max_win_cents: int, random: Random) -> RouletteBet | None:
    """Choose a bet as a player would; None if even red could win more than the maximum."""
    bet = RouletteBet(random.choice(_BETS), wager_cents, rtp)
    if bet.prize_cents > max_win_cents:
        bet = RouletteBet(random.choice(_EVEN_CHANCES), wager_cents, rtp)
    return bet if bet.prize_cents <= max_win_cents else None
