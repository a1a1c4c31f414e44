"""
Games in which every wager has a draw of its own: slots, cards, mines and whatever has no rules of its own here.

A paytable says what can be won and how likely the prizes are relative to each other. How often anything is won follows
from the game's return: prizes are rounded down to whole cents and cut at the maximum win first, and then just as many
of the tickets win as bring the return back to what the game states.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from random import Random
from types import MappingProxyType
from typing import Final, TypeAlias

from game_operator.codes import Genre

__all__ = ["LotteryBet", "Paytable", "paytable_of", "place"]

#: Multipliers of the wager in hundredths, and the weight of each.
Paytable: TypeAlias = tuple[tuple[int, int], ...]

# With weights out of 100,000 each of these returns about 96 % as it stands, so that odds are hardly bent.
_REELS: Final[Paytable] = (
    (100, 12_000),
    (200, 8_000),
    (500, 4_000),
    (1_000, 1_200),
    (2_500, 500),
    (10_000, 150),
    (50_000, 15),
    (100_000, 1),
)
#: A push, an even win, and three to two.
_CARDS: Final[Paytable] = ((100, 8_000), (200, 41_000), (250, 2_400))
_COIN: Final[Paytable] = ((200, 48_000),)
#: Many small wins, some below the wager, and a thin tail: pegs, mines, rungs and wheels.
_PEGS: Final[Paytable] = (
    (50, 30_000),
    (100, 14_000),
    (150, 12_000),
    (300, 7_000),
    (900, 1_800),
    (2_900, 300),
    (13_000, 25),
)
_SCRATCH: Final[Paytable] = (
    (100, 14_000),
    (200, 7_000),
    (400, 4_000),
    (1_000, 2_000),
    (5_000, 400),
    (25_000, 40),
    (100_000, 2),
)

_PAYTABLES: Final[Mapping[str, Paytable]] = MappingProxyType(
    {
        Genre.ANDAR_BAHAR: _CARDS,
        Genre.BACCARAT: _CARDS,
        Genre.BLACKJACK: _CARDS,
        Genre.BOARD_GAME: _PEGS,
        Genre.COIN_DOZER: _PEGS,
        Genre.CRAPS: _PEGS,
        Genre.DICE: _PEGS,
        Genre.DRAGON_TIGER: _CARDS,
        Genre.HEADS_OR_TAILS: _COIN,
        Genre.HI_LO: _CARDS,
        Genre.LADDER: _PEGS,
        Genre.LIVE_BLACKJACK: _CARDS,
        Genre.MINE: _PEGS,
        Genre.PLINKO: _PEGS,
        Genre.POKER: _CARDS,
        Genre.SETTE_E_MEZZO: _CARDS,
        Genre.SHOOTING: _PEGS,
        Genre.SIC_BO: _PEGS,
        Genre.SLOTS: _REELS,
        Genre.VIDEO_POKER: _REELS,
        Genre.WHEEL: _PEGS,
    }
)


@dataclass(frozen=True, slots=True)
class LotteryBet:
    """
    A wager as one ticket out of many.

    Attributes:
        prizes: What can be won, in cents, and how many of the tickets win it.
        tickets: How many there are in all; the rest win nothing.
    """

    prizes: tuple[tuple[int, int], ...]
    tickets: int

    def won(self, random: Random) -> int:
        """Draw a ticket and return what it wins, in cents."""
        number = random.randrange(self.tickets)
        for won_cents, count in self.prizes:
            if number < count:
                return won_cents
            number -= count
        return 0

    def chances(self) -> tuple[tuple[int, Fraction], ...]:
        """Return each prize in cents with its probability."""
        return tuple((won_cents, Fraction(count, self.tickets)) for won_cents, count in self.prizes)


def paytable_of(genre: str) -> Paytable:
    """Return the paytable of *genre*; one that is unknown has that of the scratch cards."""
    return _PAYTABLES.get(genre, _SCRATCH)


# Wagers repeat, and most of the work is the same for all of them.
@lru_cache(maxsize=4_096)
def place(table: Paytable, *, rtp: Fraction, wager_cents: int, max_win_cents: int) -> LotteryBet:
    """
    Return the bet of *wager_cents* that returns exactly *rtp*, a share of 1.

    If even the maximum win paid every time is less than that, it is paid every time.
    """
    prizes = [(min(wager_cents * hundredths // 100, max_win_cents), weight) for hundredths, weight in table]
    # What must come back on average, in 1/denominator cents.
    due = wager_cents * rtp.numerator
    bet = _returning(due, rtp.denominator, prizes)
    if bet is None:
        # No more tickets can win than there are. Prizes of at least the average always leave enough of them.
        bet = _returning(due, rtp.denominator, [prize for prize in prizes if prize[0] * rtp.denominator >= due])
    if bet is None:
        best = min(max_win_cents, -(-due // rtp.denominator))
        bet = _returning(due, rtp.denominator, [(best, 1)])
    return bet or LotteryBet(((best, 1),), 1)


def _returning(due: int, denominator: int, prizes: list[tuple[int, int]]) -> LotteryBet | None:
    # Σ won · (due · weight) / tickets is due / denominator just when tickets is denominator · Σ won · weight.
    tickets = denominator * sum(won_cents * weight for won_cents, weight in prizes)
    if tickets == 0 or due * sum(weight for _, weight in prizes) > tickets:
        return None
    return LotteryBet(tuple((won_cents, due * weight) for won_cents, weight in prizes), tickets)
