"""The rules of the games: limits, wagers, and what a round wins (spec §2.5, §2.7)."""

from decimal import Decimal
from random import Random

import pytest

from game_operator import BetConfig, ConfigurationError, GameInfo, Genre
from game_operator_testkit.sandbox.games import Limits, limits_of, play

PLENTY = 10**12


def config(least: str, most: str, default: str = "1", win: str = "10000") -> BetConfig:
    return BetConfig(
        min_wager=Decimal(least),
        max_wager=Decimal(most),
        default_wager=Decimal(default),
        currency="EUR",
        max_win=Decimal(win),
    )


def game_of(genre: str) -> GameInfo:
    return GameInfo(id="g", name="G", status="ACTIVE", provider_name="P", rtp=None, genre=genre, instances=())


def limits_with(max_win_cents: int) -> Limits:
    return Limits(min_cents=1, max_cents=PLENTY, default_cents=100, max_win_cents=max_win_cents)


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


@pytest.mark.parametrize("genre", [*Genre, "Tombola"])
def test_some_bets_win_and_some_lose(genre: str) -> None:
    """In each genre, an unknown one too; what comes back is near 95 in 100."""
    won = play(game_of(genre), limits_with(PLENTY), [100] * 20_000, Random(3))
    assert 0.2 < sum(map(bool, won)) / len(won) < 0.7
    assert 0.85 < sum(won) / (100 * len(won)) < 1.05
    assert len(set(won)) >= 4


def test_wins_are_whole_cents_rounded_down() -> None:
    """Half of a wager of a cent is nothing."""
    won = play(game_of(Genre.PLINKO), limits_with(PLENTY), [1, 3] * 1_000, Random(5))
    assert set(won[::2]) == {0, 1, 2, 5, 10}
    assert set(won[1::2]) == {0, 1, 3, 6, 15, 30}
