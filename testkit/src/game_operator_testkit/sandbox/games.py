"""
The games as they are played: betting limits in whole cents, wagers within them, and what the wagers of a round win.

Everything is pure: chance comes from the ``Random`` that is passed in, and the same one plays the same. What a game
pays is in ``paytables.toml``. Prizes are rounded down to whole cents and cut at the maximum win first; then as many
tickets win as bring the return back to the game's ``rtp`` (spec §2.5), to the last digit.
"""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cache, lru_cache
from importlib.resources import files
from random import Random
from typing import Any, Final, TypeAlias

from pydantic import TypeAdapter

from game_operator.errors import ConfigurationError
from game_operator.models import BetConfig, GameInfo
from game_operator.models.webhooks import MAX_AMOUNT_CENTS
from game_operator.money import cents_rounded_down

#: What a game returns that does not say, in percent.
_USUAL_RTP: Final = Decimal(96)
#: Bits of a draw that decides all bets of a round: no probability is off by more than 2 ** -64.
_BITS: Final = 64

#: Multipliers of the wager in hundredths, and the weight of each.
Prizes: TypeAlias = tuple[tuple[int, int], ...]


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


@dataclass(frozen=True, slots=True)
class Paytable:
    """What a player may bet on, each choice with its prizes, and what decides the bets; see ``paytables.toml``."""

    choices: tuple[Prizes, ...]
    draw: str = "bet"

    def choose(self, wager_cents: int, max_win_cents: int, random: Random) -> Prizes:
        """Choose as a player would; something else if the best prize is above the maximum win."""
        if len(self.choices) == 1:
            return self.choices[0]
        chosen = random.choice(self.choices)
        if wager_cents * chosen[-1][0] // 100 <= max_win_cents:
            return chosen
        fitting = [choice for choice in self.choices if wager_cents * choice[-1][0] // 100 <= max_win_cents]
        return random.choice(fitting or self.choices[:1])


@dataclass(frozen=True, slots=True)
class Odds:
    """
    A wager as one ticket out of many.

    Attributes:
        prizes: What can be won, in cents, and how many of the tickets win it.
        tickets: How many there are in all; the rest win nothing.
    """

    prizes: tuple[tuple[int, int], ...]
    tickets: int

    def won(self, ticket: int) -> int:
        """Return what *ticket* wins, in cents; tickets count from 0, those that win first."""
        for won_cents, count in self.prizes:
            if ticket < count:
                return won_cents
            ticket -= count
        return 0


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
    return max(Fraction(_USUAL_RTP if game.rtp is None else game.rtp) / 100, Fraction(0))


def paytable_of(genre: str) -> Paytable:
    """Return the paytable of *genre*; an unknown one has that of the scratch cards."""
    return _paytables()[_data()["genres"].get(genre, "scratch")]


def is_shared(genre: str) -> bool:
    """Return whether all bets of a round of *genre* end together."""
    return paytable_of(genre).draw != "bet"


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
    rtp, table, cap = rtp_of(game), paytable_of(game.genre), limits.max_win_cents
    drawn = random.getrandbits(_BITS)
    bets = [odds(table.choose(wager, cap, random), rtp=rtp, wager_cents=wager, max_win_cents=cap) for wager in wagers]
    if table.draw == "round":
        return [bet.won(bet.tickets * drawn >> _BITS) for bet in bets]
    if table.draw == "zero":
        return [_won_on_a_wheel(bet, rtp, drawn, random) for bet in bets]
    return [bet.won(random.randrange(bet.tickets)) for bet in bets]


def _won_on_a_wheel(bet: Odds, rtp: Fraction, drawn: int, random: Random) -> int:
    # A fair wheel returns 36/37. To return exactly the rtp, the zero falls with probability 1 - rtp: nobody bets on it,
    # so its tickets are the last ones. A bet that wins more often than the other numbers fall has its own draw.
    others = bet.tickets * rtp.numerator // rtp.denominator
    if sum(count for _, count in bet.prizes) > others or others > bet.tickets:
        return bet.won(random.randrange(bet.tickets))
    is_zero = drawn * rtp.denominator >= rtp.numerator << _BITS
    return 0 if is_zero else bet.won(random.randrange(others))


# Wagers repeat, and most of the work is the same for all of them.
@lru_cache(maxsize=4_096)
def odds(prizes: Prizes, *, rtp: Fraction, wager_cents: int, max_win_cents: int) -> Odds:
    """
    Return the odds of *wager_cents* on *prizes* that return exactly *rtp*, a share of 1.

    If even the maximum win paid every time is less than that, it is paid every time.
    """
    in_cents = [(min(wager_cents * hundredths // 100, max_win_cents), weight) for hundredths, weight in prizes]
    # What must come back on average, in 1/denominator cents.
    due = wager_cents * rtp.numerator
    found = _returning(due, rtp.denominator, in_cents)
    if found is None:
        # No more tickets can win than there are. Prizes of at least the average always leave enough of them.
        found = _returning(due, rtp.denominator, [prize for prize in in_cents if prize[0] * rtp.denominator >= due])
    best = min(max_win_cents, -(-due // rtp.denominator))
    return found or _returning(due, rtp.denominator, [(best, 1)]) or Odds(((best, 1),), 1)


def _returning(due: int, denominator: int, prizes: Sequence[tuple[int, int]]) -> Odds | None:
    # Σ won · (due · weight) / tickets is due / denominator just when tickets is denominator · Σ won · weight.
    tickets = denominator * sum(won_cents * weight for won_cents, weight in prizes)
    if tickets == 0 or due * sum(weight for _, weight in prizes) > tickets:
        return None
    return Odds(tuple((won_cents, due * weight) for won_cents, weight in prizes), tickets)


@cache
def _data() -> Mapping[str, Any]:  # Any: what TOML holds.
    return tomllib.loads(files(__package__).joinpath("paytables.toml").read_text("utf-8"))


@cache
def _paytables() -> Mapping[str, Paytable]:
    return TypeAdapter(dict[str, Paytable]).validate_python(_data()["paytables"])
