"""The plan of a run: what it plays, that it repeats, and that its ids are its own."""

from collections import Counter
from collections.abc import Iterable, Iterator
from decimal import Decimal
from hashlib import sha256
from itertools import pairwise
from typing import Any

import pytest

from game_operator import BetConfig, ConfigurationError, GameInfo, GameInstance, Genre
from game_operator.models.webhooks import MAX_AMOUNT_CENTS
from game_operator_testkit.sandbox.dealing.plan import (
    BetEnd,
    Plan,
    PlannedBet,
    PlannedClaim,
    PlannedItem,
    PlannedRound,
)

START_MILLIS = 1_772_323_200_000
PLAYERS = tuple(f"player-{number}" for number in range(40))


def set_shares(monkeypatch: pytest.MonkeyPatch, **shares: float) -> None:
    """Let other shares of a plan be out of the ordinary."""
    for name, share in shares.items():
        monkeypatch.setattr(f"game_operator_testkit.sandbox.dealing.plan._{name.upper()}", share)


def instance(
    name: str, currency: str = "EUR", *, active: bool = True, win: str = "5000", most: str = "20"
) -> GameInstance:
    limits = BetConfig(
        min_wager=Decimal("0.5"),
        max_wager=Decimal(most),
        default_wager=Decimal(1),
        currency=currency,
        max_win=Decimal(win),
    )
    return GameInstance(id=name, name=name, active=active, bet_config=limits)


def game(genre: str, *instances: GameInstance, status: str = "ACTIVE", rtp: str = "96") -> GameInfo:
    return GameInfo(
        id=genre.lower(),
        name=genre,
        status=status,
        provider_name="P",
        rtp=Decimal(rtp),
        genre=genre,
        instances=instances,
    )


#: What may be played in EUR are crash-1, crash-2, keno-1, roulette-1 and slots-1.
GAMES = (
    game(Genre.CRASH, instance("crash-1"), instance("crash-2"), instance("crash-usd", "USD"), rtp="97"),
    game(Genre.KENO, instance("keno-1"), instance("keno-off", active=False), rtp="94"),
    game(Genre.ROULETTE, instance("roulette-1"), rtp="97.3"),
    game(Genre.SLOTS, instance("slots-1"), instance("slots-vnd-off", "VND", active=False)),
    game(Genre.MINE, instance("mine-1"), status="MAINTENANCE"),
    game(Genre.WHEEL, instance("wheel-1"), status="INACTIVE"),
    game(Genre.DICE, instance("dice-1"), status="COMING_SOON"),
    game(Genre.BINGO, instance("bingo-1"), status="A_NEW_STATUS"),
)
ROULETTE = GAMES[2]


def plan(**changes: Any) -> Plan:  # Any: the arguments of Plan.
    settings: dict[str, Any] = {
        "seed": 7,
        "start_millis": START_MILLIS,
        "games": GAMES,
        "players": PLAYERS,
        "bets": 600,
    }
    return Plan(**settings | changes)


def rounds_of(items: Iterable[PlannedItem]) -> Iterator[PlannedRound]:
    return (item for item in items if isinstance(item, PlannedRound))


def claims_of(items: Iterable[PlannedItem]) -> list[PlannedClaim]:
    return [item for item in items if isinstance(item, PlannedClaim)]


def bets_of(items: Iterable[PlannedItem]) -> list[PlannedBet]:
    return [bet for planned in rounds_of(items) for bet in planned.bets]


@pytest.mark.parametrize("bets", [0, 1, 2, 50, 601])
def test_a_plan_has_just_as_many_bets_as_asked_for(bets: int) -> None:
    """The last round is made smaller if it must be; none is empty, and free bets come on top."""
    planned = list(plan(bets=bets))
    assert len(bets_of(planned)) == bets
    assert all(item.bets for item in planned)


def test_only_what_is_open_is_played() -> None:
    """Active instances of ACTIVE games in the currency, and all of them (spec §2.5, §2.6, §2.7)."""
    instances = {item.instance_id: item.game for item in plan()}
    assert instances == {
        "crash-1": "crash",
        "crash-2": "crash",
        "keno-1": "keno",
        "roulette-1": "roulette",
        "slots-1": "slots",
    }
    assert {item.instance_id for item in plan(currency="USD")} == {"crash-usd"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        pytest.param({"currency": "VND"}, "No game can be played in VND", id="only an inactive instance"),
        pytest.param({"games": GAMES[4:]}, "no game with status ACTIVE", id="no game is active"),
        pytest.param({"players": ()}, "needs players", id="no players"),
        pytest.param({"bets": -1}, "cannot have -1 bets", id="a negative number of bets"),
        pytest.param(
            {"games": [game(Genre.DICE, instance("i", most="0.4"))]}, "bet_config", id="limits without a wager"
        ),
    ],
)
def test_a_plan_that_cannot_be(changes: dict[str, object], message: str) -> None:
    """It is said when the plan is made, not when it is read."""
    with pytest.raises(ConfigurationError, match=message):
        plan(**changes)


def test_a_plan_repeats_byte_for_byte() -> None:
    """However often it is read, by however many at once, in this process or another."""
    whole = repr(list(plan()))
    together = plan()
    interleaved = list(zip(together, together, plan(), strict=True))
    assert all(repr([item[column] for item in interleaved]) == whole for column in range(3))
    # The order of a set or a hash would differ from process to process. This changes when the rules of the games do.
    assert sha256(whole.encode()).hexdigest()[:16] == "757065b95e6a138c"


def test_a_longer_plan_begins_as_a_shorter_one() -> None:
    """No round depends on how many there will be, but for the last."""
    short, long = list(plan(bets=300)), list(plan())
    last = max(index for index, item in enumerate(short) if isinstance(item, PlannedRound))
    assert last > 50
    assert short[:last] == long[:last]


def test_ids_are_unique_in_all_plans() -> None:
    """Bets, rounds, grants and free bets: within a run, and across runs of another seed or start (spec §2.4, §2.8)."""
    ids: list[str] = []
    for changes in ({}, {"seed": 8}, {"start_millis": START_MILLIS + 1}, {"seed": -7}):
        for item in plan(**changes):
            ids.append(item.round_id)
            if isinstance(item, PlannedRound):
                ids += [bet.bet_id for bet in item.bets]
            else:
                ids += [item.free_bet_id, *(str(bet.id) for bet in item.bets)]
    assert len(ids) > 4 * 600
    assert [name for name, count in Counter(ids).items() if count > 1] == []


def test_wagers_and_winnings_keep_the_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both limits are met and never passed (spec §2.7)."""
    small = game(Genre.SLOTS, instance("small", win="2.5", most="2"))
    crowd = [*bets_of(plan(games=[small, ROULETTE], bets=1_500))]
    set_shares(monkeypatch, jackpots=1)
    tiny = bets_of(plan(games=[small], bets=600))
    assert {min(bet.wager_cents for bet in crowd), max(bet.wager_cents for bet in crowd)} == {50, 2_000}
    assert {min(bet.wager_cents for bet in tiny), max(bet.wager_cents for bet in tiny)} == {50, 200}
    assert max(bet.won_cents for bet in tiny) == 250
    assert max(bet.jackpot_cents for bet in tiny) == 250


def test_time_goes_on() -> None:
    """Nothing starts before what was yielded earlier; a bet is placed in its round and ends later (spec §3)."""
    items = list(plan())
    starts = [item.at_millis for item in items]
    assert START_MILLIS <= starts[0] < START_MILLIS + 300
    assert all(0 <= later - earlier < 600 for earlier, later in pairwise(starts))
    for planned in rounds_of(items):
        for bet in planned.bets:
            assert planned.at_millis < bet.at_millis < bet.ends_at_millis
            if bet.end is BetEnd.ROLLED_BACK:
                assert bet.ends_at_millis - bet.at_millis < 1_000
            else:
                assert bet.ends_at_millis - planned.at_millis > 1_500


@pytest.mark.parametrize(
    ("shares", "expected"),
    [
        pytest.param({}, (0.08, 0.01, 0.91 * 0.01), id="by default"),
        pytest.param({"rolled_back": 0.5, "left_open": 0.3, "jackpots": 0.5}, (0.5, 0.3, 0.1), id="most do not close"),
        pytest.param({"rolled_back": 0, "left_open": 0, "jackpots": 1}, (0, 0, 1), id="all closed with a jackpot"),
    ],
)
def test_bets_end_in_shares(
    monkeypatch: pytest.MonkeyPatch, shares: dict[str, float], expected: tuple[float, float, float]
) -> None:
    """Within four standard deviations; what does not close wins nothing (spec §3)."""
    count = 3_000
    set_shares(monkeypatch, **shares)
    bets = bets_of(plan(bets=count))
    ends = Counter(bet.end for bet in bets)
    jackpots = sum(bet.jackpot_cents > 0 for bet in bets)
    found = (ends[BetEnd.ROLLED_BACK], ends[BetEnd.OPEN], jackpots)
    for number, share in zip(found, expected, strict=True):
        assert abs(number - count * share) <= 4 * (count * share * (1 - share)) ** 0.5
    closed = [bet for bet in bets if bet.end is BetEnd.CLOSED]
    assert not any(bet.won_cents or bet.jackpot_cents for bet in bets if bet.end is not BetEnd.CLOSED)
    assert not closed or 0.1 < sum(bet.won_cents > 0 for bet in closed) / len(closed) < 0.6


def test_the_bets_of_a_claim_sum_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """One to five free bets at the default wager, of which some win; what one deposit pays is their sum (spec §2.2)."""
    set_shares(monkeypatch, claims=1)
    claims = claims_of(plan(bets=400))
    for claim in claims:
        assert claim.won_cents == sum(bet.won_cents or 0 for bet in claim.bets)
        assert {bet.wager_cents for bet in claim.bets} == {100}
        assert max(bet.won_cents or 0 for bet in claim.bets) <= 500_000
        assert claim.player_id in PLAYERS
    assert {len(claim.bets) for claim in claims} == {1, 2, 3, 4, 5}
    assert {claim.won_cents > 0 for claim in claims} == {True, False}


def test_amounts_stay_below_what_a_call_may_move(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even where the limits are as high as they can be, and a deposit pays five free bets at once (spec §2.7)."""
    limits = BetConfig(
        min_wager=Decimal(10**13),
        max_wager=Decimal(10**15),
        default_wager=Decimal(10**13),
        currency="EUR",
        max_win=Decimal("1234567890123456.78"),
    )
    rich = GameInstance(id="rich", name="Rich", active=True, bet_config=limits)
    set_shares(monkeypatch, claims=1, jackpots=1)
    items = list(plan(games=[game(Genre.SLOTS, rich)], bets=200))
    assert {bet.wager_cents for bet in bets_of(items)} == {MAX_AMOUNT_CENTS}
    assert max(bet.won_cents for bet in bets_of(items)) == MAX_AMOUNT_CENTS
    assert max(bet.jackpot_cents for bet in bets_of(items)) == MAX_AMOUNT_CENTS
    assert 0 < max(claim.won_cents for claim in claims_of(items)) <= MAX_AMOUNT_CENTS
