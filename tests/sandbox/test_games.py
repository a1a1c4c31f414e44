"""The rules of the games: limits, wagers, and that each game returns what it states (spec §2.5, §2.7)."""

from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from random import Random
from statistics import median
from typing import Protocol

import pytest

from game_operator import BetConfig, ConfigurationError, GameInfo, Genre
from game_operator.sandbox.games import crash, keno, lottery, roulette
from game_operator.sandbox.games.rounds import (
    Limits,
    bets_in_round,
    is_shared,
    limits_of,
    pick_wager,
    play,
    rtp_of,
)

PLENTY = 10**12
#: What rtp="97.3" means.
ROULETTE_RTP = Fraction(973, 1000)


class Chancy(Protocol):
    """A bet that can tell what it wins how often."""

    def chances(self) -> tuple[tuple[int, Fraction], ...]: ...


def config(least: str, most: str, default: str = "1", win: str = "10000") -> BetConfig:
    return BetConfig(
        min_wager=Decimal(least),
        max_wager=Decimal(most),
        default_wager=Decimal(default),
        currency="EUR",
        max_win=Decimal(win),
    )


def game_of(genre: str, rtp: str | None) -> GameInfo:
    share = None if rtp is None else Decimal(rtp)
    return GameInfo(id="g", name="G", status="ACTIVE", provider_name="P", rtp=share, genre=genre, instances=())


def limits_with(max_win_cents: int) -> Limits:
    return Limits(min_cents=1, max_cents=PLENTY, default_cents=100, max_win_cents=max_win_cents)


def placed(genre: str, rtp: Fraction, wager_cents: int, max_win_cents: int, random: Random) -> Chancy:
    """Return a bet as ``play`` places it: of the genre's own rules, or of a lottery where those do not fit."""
    bet: Chancy | None = None
    if genre == Genre.CRASH:
        bet = crash.place(rtp=rtp, wager_cents=wager_cents, max_win_cents=max_win_cents, random=random)
    elif genre == Genre.KENO:
        bet = keno.place(rtp=rtp, wager_cents=wager_cents, max_win_cents=max_win_cents, random=random)
    elif genre == Genre.ROULETTE and rtp <= 1:
        bet = roulette.place(rtp=rtp, wager_cents=wager_cents, max_win_cents=max_win_cents, random=random)
    table = lottery.paytable_of(genre)
    return bet or lottery.place(table, rtp=rtp, wager_cents=wager_cents, max_win_cents=max_win_cents)


def mean(bet: Chancy) -> Fraction:
    return sum((won_cents * chance for won_cents, chance in bet.chances()), Fraction(0))


@pytest.mark.parametrize(
    ("given", "limits"),
    [
        pytest.param(config("0.1", "100"), Limits(10, 10_000, 100, 1_000_000), id="whole cents are kept"),
        pytest.param(
            config("0.025", "30.999", "0.255", "3000.125"), Limits(3, 3_099, 25, 300_012), id="what is finer is cut off"
        ),
        pytest.param(config("0.021", "0.03", "0.024"), Limits(3, 3, 3, 1_000_000), id="one wager remains"),
        pytest.param(config("0", "1", "0"), Limits(1, 100, 1, 1_000_000), id="nothing is no wager"),
        pytest.param(config("1", "5", "9"), Limits(100, 500, 500, 1_000_000), id="a default above the highest"),
        pytest.param(
            config("2500", "9999999999999.98", "25000", "9999999999999.99"),
            Limits(250_000, 999_999_999_999_998, 2_500_000, 999_999_999_999_999),
            id="more digits than a double keeps",
        ),
        pytest.param(
            config("0.0100000000000000000000000000000000001", "10000000000000.01", "1", "1234567890123456.78"),
            Limits(2, 10**15, 100, 10**15),
            id="no more than a call may move, however many digits",
        ),
        pytest.param(config("1", "2", "1", "-5"), Limits(100, 200, 100, 0), id="nothing can be won"),
    ],
)
def test_limits_in_whole_cents(given: BetConfig, limits: Limits) -> None:
    """Limits never widen: the least wager is rounded up, the highest and the maximum win down (spec §2.4, §2.7)."""
    assert limits_of(given) == limits


@pytest.mark.parametrize(
    "given",
    [
        pytest.param(config("0.101", "0.109"), id="no whole cent between"),
        pytest.param(config("2", "1.99"), id="the least above the highest"),
        pytest.param(config("0", "0.009"), id="less than a cent"),
        pytest.param(config("10000000000000.01", "20000000000000"), id="more than a call may move"),
    ],
)
def test_limits_that_leave_nothing(given: BetConfig) -> None:
    """The error names both limits (spec §2.7)."""
    with pytest.raises(ConfigurationError, match=f"{given.min_wager} and max_wager {given.max_wager}"):
        limits_of(given)


@pytest.mark.parametrize(
    ("rtp", "share"),
    [
        pytest.param("97.3", Fraction(973, 1000), id="as stated"),
        pytest.param("95.125", Fraction(95125, 100_000), id="all digits"),
        pytest.param(None, Fraction(96, 100), id="not stated"),
        pytest.param("-1", Fraction(0), id="never below nothing"),
    ],
)
def test_return_of_a_game(rtp: str | None, share: Fraction) -> None:
    """``rtp`` is a percentage, and may be null (spec §2.5)."""
    assert rtp_of(game_of(Genre.SLOTS, rtp)) == share


def test_wagers_lie_within_the_limits() -> None:
    """Both limits are wagered now and then and nothing beyond; most wagers are near the default (spec §2.7)."""
    limits = Limits(min_cents=10, max_cents=10_000, default_cents=100, max_win_cents=PLENTY)
    random = Random(1)
    wagers = [pick_wager(limits, random) for _ in range(3_000)]
    assert (min(wagers), max(wagers)) == (10, 10_000)
    assert 90 <= median(wagers) <= 110
    assert sum(50 <= wager <= 200 for wager in wagers) > 2_700
    assert {pick_wager(Limits(7, 7, 7, 7), random) for _ in range(200)} == {7}


@pytest.mark.parametrize(
    ("genre", "counts"),
    [
        pytest.param(Genre.SLOTS, {1}, id="slots"),
        pytest.param("Tombola", {1}, id="unknown"),
        pytest.param(Genre.CRASH, set(range(2, 13)), id="crash"),
        pytest.param(Genre.KENO, set(range(2, 13)), id="keno"),
        pytest.param(Genre.ROULETTE, set(range(2, 13)), id="roulette"),
        pytest.param(Genre.LIVE_BLACKJACK, set(range(1, 8)), id="a table with seven seats"),
    ],
)
def test_bets_of_a_round(genre: str, counts: set[int]) -> None:
    """A spin has one bet, a round that is shared has many (spec §2.8)."""
    random = Random(2)
    assert {bets_in_round(genre, random) for _ in range(400)} == counts


@pytest.mark.parametrize("genre", [*Genre, "Tombola"])
@pytest.mark.parametrize(
    ("rtp", "wager_cents", "max_win_cents"),
    [
        pytest.param("97.3", 100, PLENTY, id="a usual wager"),
        pytest.param("94.25", 1, PLENTY, id="one cent"),
        pytest.param("95.125", 37, 37 * 60, id="the highest prizes are cut off"),
        pytest.param("96", 101, 151, id="the maximum win is hardly more than the wager"),
        pytest.param("96", 100, 96, id="the maximum win is what must come back"),
        pytest.param("100", 99, 99, id="the maximum win is the wager"),
        pytest.param("104.5", 33, PLENTY, id="more comes back than is wagered"),
        pytest.param("965", 33, PLENTY, id="much more comes back"),
        pytest.param("0", 50, PLENTY, id="nothing comes back"),
        pytest.param("97.123456789", 99_999_999_999, 10**15, id="large amounts"),
    ],
)
def test_every_bet_returns_exactly_the_rtp(genre: str, rtp: str, wager_cents: int, max_win_cents: int) -> None:
    """By its odds, without playing: whole cents and the maximum win cost a player nothing (spec §2.5, §2.7)."""
    share, random = Fraction(rtp) / 100, Random(3)
    for _ in range(8 if is_shared(genre) else 1):
        bet = placed(genre, share, wager_cents, max_win_cents, random)
        assert abs(mean(bet) / wager_cents - share) <= (Fraction(1, 2**56) if genre == Genre.CRASH else 0)
        assert sum(chance for _, chance in bet.chances()) <= 1
        assert all(0 <= won_cents <= max_win_cents for won_cents, chance in bet.chances() if chance)


@pytest.mark.parametrize("genre", [Genre.CRASH, Genre.KENO, Genre.ROULETTE, Genre.SLOTS, Genre.PLINKO])
@pytest.mark.parametrize("max_win_cents", [95, 1, 0])
def test_a_maximum_win_that_is_too_low_is_paid_every_time(genre: str, max_win_cents: int) -> None:
    """One cent less than must come back on average, and no odds can help: never more than the limit (spec §2.7)."""
    random = Random(4)
    rounds = [play(game_of(genre, "96"), limits_with(max_win_cents), [100, 100], random) for _ in range(20)]
    assert rounds == [[max_win_cents, max_win_cents]] * 20


@pytest.mark.parametrize(
    ("genre", "rtp", "wager_cents", "max_win_cents"),
    [
        pytest.param(Genre.CRASH, "97", 37, PLENTY, id="crash"),
        pytest.param(Genre.CRASH, "97", 37, 74, id="crash, cut off at twice the wager"),
        pytest.param(Genre.SLOTS, "95.125", 13, PLENTY, id="slots"),
        pytest.param(Genre.SLOTS, "95.125", 13, 40, id="slots, cut off at thrice the wager"),
        pytest.param(Genre.KENO, "94.25", 7, 2_000, id="keno"),
        pytest.param(Genre.KENO, "94.25", 7, 14, id="keno, where no pick pays as little as the maximum"),
        pytest.param(Genre.ROULETTE, "97.3", 25, PLENTY, id="roulette"),
        pytest.param(Genre.ROULETTE, "92", 25, 50, id="roulette of another return, on even chances alone"),
        pytest.param(Genre.ROULETTE, "97.3", 25, 40, id="roulette, where red pays more than the maximum"),
        pytest.param(Genre.ROULETTE, "110", 25, 50, id="roulette that gives more than it takes"),
        pytest.param(Genre.MINE, "96.5", 3, PLENTY, id="mine"),
        pytest.param(Genre.BLACKJACK, "99.41", 11, PLENTY, id="blackjack"),
        pytest.param(Genre.HEADS_OR_TAILS, None, 10, PLENTY, id="heads or tails"),
        pytest.param("Tombola", "90", 10, PLENTY, id="a genre that is unknown"),
    ],
)
def test_a_long_run_returns_the_rtp(genre: str, rtp: str | None, wager_cents: int, max_win_cents: int) -> None:
    """10,000 wagers give back, and win, within four standard deviations of what the odds say (spec §2.5)."""
    game, count, random = game_of(genre, rtp), 10_000, Random(5)
    limits = limits_with(max_win_cents)
    won = [play(game, limits, [wager_cents], random)[0] for _ in range(count)]
    assert max(won) <= max_win_cents
    bets = [placed(genre, rtp_of(game), wager_cents, max_win_cents, random) for _ in range(200)]
    expected_cents = float(wager_cents * rtp_of(game))
    squares = _average(bets, lambda cents: cents**2)
    assert abs(sum(won) - count * expected_cents) < 4 * (count * (squares - expected_cents**2)) ** 0.5
    winning = _average(bets, lambda cents: cents > 0)
    assert abs(sum(cents > 0 for cents in won) - count * winning) < 5 * (count * winning * (1 - winning)) ** 0.5 + 1


def _average(bets: list[Chancy], value: Callable[[int], int]) -> float:
    """Return the mean of what *value* says of a win, over bets that are placed equally often."""
    total = sum((value(cents) * chance for bet in bets for cents, chance in bet.chances()), Fraction(0))
    return float(total / len(bets))


@pytest.mark.parametrize(
    ("genre", "together"),
    [
        pytest.param(Genre.CRASH, True, id="one point for all"),
        pytest.param(Genre.ROULETTE, True, id="one spin for all"),
        pytest.param(Genre.HEADS_OR_TAILS, False, id="each its own"),
        pytest.param(Genre.SLOTS, False, id="each its own spin"),
    ],
)
def test_one_outcome_decides_a_shared_round(genre: str, together: bool) -> None:
    """In 3 % of the rounds all twelve lose: a crash at once, or the zero. Alone that is next to impossible."""
    # So low a maximum leaves the even chances, the small targets and nearly even odds.
    game, limits, random = game_of(genre, "97"), limits_with(200), Random(6)
    rounds = [play(game, limits, [100] * 12, random) for _ in range(800)]
    lost = sum(not any(won) for won in rounds)
    assert lost > 12 if together else lost < 5
    assert is_shared(genre) is together


class EachInTurn(Random):
    """Chance that has one case after the other, so that a mean over all of them is exact."""

    def __init__(self) -> None:
        super().__init__(0)
        self._next = 0

    def randrange(self, start: int, stop: int | None = None, step: int = 1) -> int:
        self._next += 1
        return (self._next - 1) % start


def test_each_ticket_wins_what_its_prize_says() -> None:
    """Two of ten win 5 cents, three win 7, and the rest nothing."""
    bet, random = lottery.LotteryBet(((5, 2), (7, 3)), 10), EachInTurn()
    assert [bet.won(random) for _ in range(10)] == [5, 5, 7, 7, 7, 0, 0, 0, 0, 0]


def test_prizes_that_are_cut_off_still_differ() -> None:
    """Where the small prizes alone would need more tickets than there are, they make way for the higher ones."""
    table = lottery.paytable_of(Genre.PLINKO)
    bets = [lottery.place(table, rtp=Fraction(97, 100), wager_cents=100, max_win_cents=cap) for cap in (10_000, 150)]
    assert [sorted({won_cents for won_cents, _ in bet.prizes}) for bet in bets] == [
        [50, 100, 150, 300, 900, 2_900, 10_000],
        [100, 150],
    ]


def test_keno_pays_the_fraction_of_a_cent_on_average() -> None:
    """One number of one, at 3.77 for 7 cents, is 26.39: 39 of 100 times 27 cents, else 26."""
    bet, random = keno.KenoBet(frozenset((1,)), 7, Fraction(9425, 10_000)), EachInTurn()
    assert Counter(bet.won(frozenset(range(1, 21)), random) for _ in range(100)) == {27: 39, 26: 61}


@pytest.mark.parametrize(("max_win_cents", "spots"), [(377, 1), (376, None), (390, 1), (10**9, 8)])
def test_keno_picks_no_more_than_the_maximum_win_allows(max_win_cents: int, spots: int | None) -> None:
    """A single number pays 3.77 times the wager and not a cent less (spec §2.7)."""
    random = Random(15)
    bets = [
        keno.place(rtp=Fraction(9425, 10_000), wager_cents=100, max_win_cents=max_win_cents, random=random)
        for _ in range(60)
    ]
    assert max((len(bet.picked) for bet in bets if bet), default=None) == spots
    assert None not in bets or spots is None


class WatchedRandom(Random):
    """Chance that counts how many numbers were drawn at a time."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.samples: list[int] = []

    def sample(self, population: range, k: int) -> list[int]:  # type: ignore[override] # a keno draws from a range
        self.samples.append(k)
        return super().sample(population, k)


def test_keno_draws_once_for_the_round() -> None:
    """Twenty numbers for all, and one to eight picks for each of the bets."""
    random = WatchedRandom(7)
    play(game_of(Genre.KENO, "94"), limits_with(PLENTY), [100] * 30, random)
    first, *picks = random.samples
    assert first == 20
    assert len(picks) == 30
    assert set(picks) == set(range(1, 9))


@pytest.mark.parametrize(("spots", "hits", "odds"), [(1, 1, 0.25), (2, 2, 0.0601), (3, 3, 0.01388), (6, 6, 0.000129)])
def test_keno_has_the_odds_of_the_draw(spots: int, hits: int, odds: float) -> None:
    """The probability of hitting all numbers is that of 20 balls out of 80."""
    bet = keno.KenoBet(frozenset(range(1, spots + 1)), 1_000_000, Fraction(9425, 10_000))
    best = max(won_cents for won_cents, _ in bet.chances())
    chance = sum(chance for won_cents, chance in bet.chances() if won_cents >= best - 1)
    assert float(chance) == pytest.approx(odds, rel=0.01)
    drawn = frozenset((*range(1, hits + 1), *range(81 - 20 + hits, 81)))
    assert len(drawn) == 20
    assert bet.won(drawn, Random(8)) >= best - 1
    assert bet.won(frozenset(range(61, 81)), Random(8)) == 0


def test_roulette_pays_what_a_wheel_pays() -> None:
    """36/k for k numbers, on each of them and on no other; red and black have no number in common."""
    random = Random(9)
    bets = [roulette.place(rtp=ROULETTE_RTP, wager_cents=10, max_win_cents=PLENTY, random=random) for _ in range(1_500)]
    kinds = {bet.numbers for bet in bets if bet}
    assert sorted(len(numbers) for numbers in kinds) == [1] * 36 + [12] * 6 + [18] * 6
    assert all(set.union(*map(set, (n for n in kinds if len(n) == size))) == {*range(1, 37)} for size in (1, 12, 18))
    assert all(frozenset(range(1, 37)) - numbers in kinds for numbers in kinds if len(numbers) == 18)
    for bet in filter(None, bets[:100]):
        outcomes = [bet.won(drawn) for drawn in range(37)]
        assert [number for number, won in enumerate(outcomes) if won] == sorted(bet.numbers)
        assert {won for won in outcomes if won} == {360 // len(bet.numbers)}


def test_roulette_at_97_3_is_a_fair_wheel() -> None:
    """The zero falls as often as each of 37 numbers, within the rounding of the rtp (spec §2.5)."""
    random, steps = EachInTurn(), 36 * ROULETTE_RTP.denominator
    counts = Counter(roulette.draw(rtp=ROULETTE_RTP, random=random) for _ in range(steps))
    assert counts.pop(0) == 972
    assert counts == dict.fromkeys(range(1, 37), 973)
    assert abs(Fraction(972, steps) - Fraction(1, 37)) < Fraction(5, 100_000)


@pytest.mark.parametrize(("target_cents", "share"), [(100, 0.97), (150, 0.97 / 1.5), (1_000, 0.097), (10_000, 0.0097)])
def test_crash_reaches_a_multiplier_as_often_as_it_should(target_cents: int, share: float) -> None:
    """The point is at m or above with probability rtp/m, so that every target returns the same."""
    random, count = Random(11), 10_000
    bet = crash.CrashBet(100, target_cents, Fraction(97, 100))
    reached = sum(bet.won(crash.draw(random)) == target_cents for _ in range(count))
    assert abs(reached - count * share) < 4 * (count * share * (1 - share)) ** 0.5


def test_crash_pays_all_who_aimed_below_the_point() -> None:
    """Of the bets of a round, whoever wins has aimed lower than whoever loses, whatever they wagered."""
    random = Random(12)
    for _ in range(200):
        drawn = crash.draw(random)
        bets = [
            crash.place(rtp=ROULETTE_RTP, wager_cents=wager, max_win_cents=PLENTY, random=random)
            for wager in range(100, 1_300, 100)
        ]
        targets: dict[bool, list[Fraction]] = {True: [Fraction(0)], False: [Fraction(PLENTY)]}
        for bet in bets:
            targets[bet.won(drawn) > 0].append(Fraction(bet.target_cents, bet.wager_cents))
        assert max(targets[True]) < min(targets[False])


def test_the_same_chance_plays_the_same() -> None:
    """Nothing but the Random that is passed in decides, and another decides otherwise."""
    games = [game_of(genre, "95") for genre in Genre]

    def played(seed: int) -> list[list[int]]:
        random = Random(seed)
        return [play(game, limits_with(PLENTY), [50, 100, 150], random) for game in games]

    assert played(13) == played(13) != played(14)
