"""The rules of the games: limits, wagers, and that each game returns what it states (spec §2.5, §2.7)."""

from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from random import Random
from statistics import median

import pytest

from game_operator import BetConfig, ConfigurationError, GameInfo, Genre
from game_operator_testkit.sandbox.games import (
    Limits,
    Odds,
    bets_in_round,
    is_shared,
    limits_of,
    odds,
    paytable_of,
    pick_wager,
    play,
    rtp_of,
)

PLENTY = 10**12


def chances(bet: Odds) -> tuple[tuple[int, Fraction], ...]:
    """Return each prize in cents with its probability."""
    return tuple((won_cents, Fraction(count, bet.tickets)) for won_cents, count in bet.prizes)


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


def placed(genre: str, rtp: Fraction, wager_cents: int, max_win_cents: int, random: Random) -> Odds:
    """Return a bet as ``play`` places it."""
    prizes = paytable_of(genre).choose(wager_cents, max_win_cents, random)
    return odds(prizes, rtp=rtp, wager_cents=wager_cents, max_win_cents=max_win_cents)


def mean(bet: Odds) -> Fraction:
    return sum((won_cents * chance for won_cents, chance in chances(bet)), Fraction(0))


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
        assert mean(bet) / wager_cents == share
        assert sum(chance for _, chance in chances(bet)) <= 1
        assert all(0 <= won_cents <= max_win_cents for won_cents, chance in chances(bet) if chance)


@pytest.mark.parametrize("genre", [Genre.CRASH, Genre.KENO, Genre.ROULETTE, Genre.SLOTS, Genre.PLINKO])
@pytest.mark.parametrize("max_win_cents", [95, 1, 0])
def test_a_maximum_win_that_is_too_low_is_paid_every_time(genre: str, max_win_cents: int) -> None:
    """One cent less than must come back on average, and no odds can help: never more than the limit (spec §2.7)."""
    random = Random(4)
    rounds = [play(game_of(genre, "96"), limits_with(max_win_cents), [100, 100], random) for _ in range(20)]
    assert rounds == [[max_win_cents, max_win_cents]] * 20


@pytest.mark.slow
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
@pytest.mark.drawn(7)
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


def _average(bets: list[Odds], value: Callable[[int], int]) -> float:
    """Return the mean of what *value* says of a win, over bets that are placed equally often."""
    total = sum((value(cents) * chance for bet in bets for cents, chance in chances(bet)), Fraction(0))
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


def test_each_ticket_wins_what_its_prize_says() -> None:
    """Two of ten win 5 cents, three win 7, and the rest nothing."""
    bet = Odds(((5, 2), (7, 3)), 10)
    assert [bet.won(ticket) for ticket in range(10)] == [5, 5, 7, 7, 7, 0, 0, 0, 0, 0]


def test_prizes_that_are_cut_off_still_differ() -> None:
    """Where the small prizes alone would need more tickets than there are, they make way for the higher ones."""
    (pegs,) = paytable_of(Genre.PLINKO).choices
    bets = [odds(pegs, rtp=Fraction(97, 100), wager_cents=100, max_win_cents=cap) for cap in (10_000, 150)]
    assert [sorted({won_cents for won_cents, _ in bet.prizes}) for bet in bets] == [
        [50, 100, 150, 300, 900, 2_900, 10_000],
        [100, 150],
    ]


@pytest.mark.parametrize("genre", [Genre.KENO, Genre.ROULETTE, Genre.CRASH])
@pytest.mark.parametrize("max_win_cents", [10**9, 3_600, 3_599, 400, 200])
def test_players_choose_what_the_maximum_win_allows(genre: str, max_win_cents: int) -> None:
    """Nobody bets on a prize that would be cut off, as long as something else is left (spec §2.7)."""
    random, choices = Random(15), paytable_of(genre).choices
    chosen = {paytable_of(genre).choose(100, max_win_cents, random) for _ in range(800)}
    assert chosen == ({prizes for prizes in choices if prizes[-1][0] <= max_win_cents} or {choices[0]})


@pytest.mark.parametrize(("spots", "chance"), [(1, 0.25), (2, 0.0601), (3, 0.01388), (6, 0.000129)])
def test_keno_has_the_odds_of_the_draw(spots: int, chance: float) -> None:
    """The probability of hitting all numbers is that of 20 balls out of 80."""
    prizes = paytable_of(Genre.KENO).choices[spots - 1]
    bet = odds(prizes, rtp=Fraction(9425, 10_000), wager_cents=1_000_000, max_win_cents=PLENTY)
    assert float(chances(bet)[-1][1]) == pytest.approx(chance, rel=0.01)


def test_roulette_pays_what_a_wheel_pays() -> None:
    """36/k for k numbers, which fall with probability k/36 unless the zero does (spec §2.5)."""
    rtp = Fraction(973, 1000)
    bets = [odds(prizes, rtp=rtp, wager_cents=10, max_win_cents=PLENTY) for prizes in paytable_of("Roulette").choices]
    assert [chances(bet) for bet in bets] == [((360 // k, rtp * k / 36),) for k in (18, 12, 1)]


@pytest.mark.parametrize(("genre", "share"), [(Genre.ROULETTE, 0.03), (Genre.CRASH, 0.05)])
@pytest.mark.slow
def test_how_often_all_lose(genre: str, share: float) -> None:
    """All lose at the zero, which falls with probability 1 - rtp, and in a crash before the lowest target."""
    game, limits, random, count = game_of(genre, "97"), limits_with(200), Random(9), 1_500
    lost = sum(not any(play(game, limits, [100] * 40, random)) for _ in range(count))
    assert abs(lost - count * share) < 4 * (count * share * (1 - share)) ** 0.5


def test_crash_pays_all_who_aimed_below_the_point() -> None:
    """Of the bets of a round, those that win have aimed lower than those that lose."""
    game, random = game_of(Genre.CRASH, "97"), Random(12)
    prizes = [won for won in play(game, limits_with(PLENTY), [100] * 4_000, random) if won]
    reached = sorted({won for ((won, _),) in paytable_of(Genre.CRASH).choices})
    assert sorted(set(prizes)) == reached[: len(set(prizes))]


@pytest.mark.parametrize("genre", Genre)
def test_every_paytable_is_sound(genre: str) -> None:
    """The lowest prize of a choice comes first, and the first choice is the safest: ``choose`` relies on both."""
    choices = paytable_of(genre).choices
    assert all(list(prizes) == sorted(prizes) for prizes in choices)
    assert choices[0][-1][0] == min(prizes[-1][0] for prizes in choices)


def test_the_same_chance_plays_the_same() -> None:
    """Nothing but the Random that is passed in decides, and another decides otherwise."""
    games = [game_of(genre, "95") for genre in Genre]

    def played(seed: int) -> list[list[int]]:
        random = Random(seed)
        return [play(game, limits_with(PLENTY), [50, 100, 150], random) for game in games]

    assert played(13) == played(13) != played(14)
