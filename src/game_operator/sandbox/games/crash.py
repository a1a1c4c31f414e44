"""
Crash: a multiplier climbs until it crashes, for all players at once; who has cashed out before wins.

The point of a round lies at or above m with probability rtp/m, so that every target returns the same. A target is kept
as the whole cents the player cashes out with: the multiplier is that over the wager, and nothing is rounded.
"""

from dataclasses import dataclass
from fractions import Fraction
from random import Random
from typing import Final

__all__ = ["CrashBet", "draw", "place"]

#: The point is rtp · steps / drawn: so finely that no probability is off by more than 2 ** -64.
_STEPS: Final = 2**64


@dataclass(frozen=True, slots=True)
class CrashBet:
    """
    A wager and the amount it cashes out with.

    Attributes:
        wager_cents: The wager.
        target_cents: What is won if the round gets that far.
        rtp: The return, as a share of 1.
    """

    wager_cents: int
    target_cents: int
    rtp: Fraction

    def won(self, drawn: int) -> int:
        """Return what the bet wins in the round that *drawn* decides, in cents."""
        return self.target_cents if drawn < self._winning() else 0

    def chances(self) -> tuple[tuple[int, Fraction], ...]:
        """Return the prize in cents with its probability."""
        return ((self.target_cents, Fraction(self._winning(), _STEPS)),)

    def _winning(self) -> int:
        steps = self.wager_cents * self.rtp.numerator * _STEPS
        least_cents = self.target_cents * self.rtp.denominator
        return min(-(-steps // least_cents), _STEPS) if least_cents else _STEPS


def draw(random: Random) -> int:
    """Draw what decides a round: the smaller, the higher the point."""
    return random.getrandbits(64)


def place(*, rtp: Fraction, wager_cents: int, max_win_cents: int, random: Random) -> CrashBet:
    """Choose a target as a player would, at most the maximum win and no less than returns *rtp*."""
    # From 1.01 to 101 times the wager, and as many players aim at m or more as rounds get there: about 1/m.
    hundredths = int(101 / (1 - random.random() * 0.99))
    least = -(-wager_cents * rtp.numerator // rtp.denominator)
    return CrashBet(wager_cents, min(max(wager_cents * hundredths // 100, least), max_win_cents), rtp)
