"""The state behind the sandbox, and the world it starts with (spec §2.5 to §2.8, §8)."""

import re
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

from game_operator import ClosedBet, ConfigurationError, GameInfo, GrantAccepted, GrantErrorCode
from game_operator.models import GameInstance, GrantRequest
from game_operator_testkit.sandbox import Sandbox, SandboxWorld
from game_operator_testkit.sandbox.service.world import RETENTION_MILLIS
from testkit.tests.sandbox.support import NOW_MILLIS, terms
from tests.support.times import StoppedClock


@pytest.fixture
def seeded(public_key: RSAPublicKey) -> Callable[[int | None], Sandbox]:
    """Make a sandbox from a seed, at a stopped clock."""
    return lambda seed: Sandbox(operator_public_key=public_key, seed=seed, clock=StoppedClock(NOW_MILLIS))


def everything(sandbox: Sandbox) -> object:
    """Return all that a sandbox was seeded with."""
    marks, world = sandbox.landmarks, sandbox.world
    bets = [world.bet(bet_id, now_millis=NOW_MILLIS) for bet_id in marks.bet_ids.values()]
    rounds = [
        world.round(marks.instance_id, round_id, None, now_millis=NOW_MILLIS)
        for round_id in (marks.round_id, marks.empty_round_id, marks.expired_round_id)
    ]
    return marks, world.games(), bets, rounds


@pytest.mark.parametrize("seed", [None, 0, 7, 2**70])
def test_the_same_seed_makes_the_same_world(seeded: Callable[[int | None], Sandbox], seed: int | None) -> None:
    """Ids, amounts, games, bets and rounds: all the same, from run to run."""
    assert everything(seeded(seed)) == everything(seeded(seed))


def test_no_seed_stands_for_zero(seeded: Callable[[int | None], Sandbox]) -> None:
    """So examples print the same each time."""
    assert everything(seeded(None)) == everything(seeded(0))


def test_another_seed_makes_another_world(seeded: Callable[[int | None], Sandbox]) -> None:
    """Every id differs."""
    one, other = seeded(1).landmarks, seeded(2).landmarks
    assert one.instance_id != other.instance_id
    assert not set(one.bet_ids.values()) & set(other.bet_ids.values())
    assert {one.round_id, one.empty_round_id} & {other.round_id, other.empty_round_id} == set()


def test_the_world_is_rich_enough(sandbox: Sandbox) -> None:
    """At least twelve games, and instances whose ids are 24 hex digits and all different (docs/decisions/0017)."""
    games = sandbox.world.games()
    ids = [instance.id for game in games for instance in game.instances]
    assert len(games) >= 12
    assert len({game.id for game in games}) == len(games)
    assert len(set(ids)) == len(ids)
    assert all(re.fullmatch("[0-9a-f]{24}", instance_id) for instance_id in ids)


def test_the_known_instance_is_active(sandbox: Sandbox) -> None:
    """It takes grants, and belongs to a game that can be played (spec §2.5, §2.6)."""
    instances = {instance.id: (game, instance) for game in sandbox.world.games() for instance in game.instances}
    game, instance = instances[sandbox.instance_id]
    assert (game.status, instance.active, instance.bet_config.currency) == ("ACTIVE", True, "EUR")


def test_landmarks_cannot_be_changed(sandbox: Sandbox) -> None:
    """They say what was seeded, and no test can spoil them for the next."""
    with pytest.raises(TypeError):
        sandbox.bet_ids["OPEN"] = "other"  # type: ignore[index] # The point of the test.


def test_of_sixteen_threads_one_is_granted(public_key: RSAPublicKey) -> None:
    """The world itself is safe for threads: a reference id is granted once (spec §2.2)."""
    world = Sandbox(operator_public_key=public_key).world
    instance_id = world.games()[0].instances[0].id
    for number in range(20):
        request = GrantRequest(**terms(instance_id, reference_id=f"race-{number}"))
        gate = threading.Barrier(16)

        def grant(request: GrantRequest = request, gate: threading.Barrier = gate) -> GrantAccepted | GrantErrorCode:
            gate.wait()
            return world.grant(request, now_millis=NOW_MILLIS)

        with ThreadPoolExecutor(16) as threads:
            outcomes = [job.result() for job in [threads.submit(grant) for _ in range(16)]]
        assert outcomes.count(GrantErrorCode.DUPLICATE_REFERENCE_ID) == 15
    assert len(world.grants()) == 20


def test_a_grant_is_kept_with_its_time(public_key: RSAPublicKey) -> None:
    """What was granted, and when, can be looked at afterwards (spec §2.2, §2.3)."""
    world = Sandbox(operator_public_key=public_key).world
    request = GrantRequest(**terms(world.games()[0].instances[0].id))
    granted = world.grant(request, now_millis=NOW_MILLIS)
    assert isinstance(granted, GrantAccepted)
    (grant,) = world.grants()
    assert (grant.request, grant.granted_at_millis) == (request, NOW_MILLIS)
    assert grant.free_bet_id == granted.free_bet_id


def test_bets_age_one_by_one(public_key: RSAPublicKey) -> None:
    """A round still lists a bet of 90 days, and no longer one that is older (spec §2.8, §8)."""
    world = SandboxWorld("acme", public_key)
    world.add_round(round_id="r", round_no=1, instance_id="i", game="g", started_at_millis=NOW_MILLIS)
    for number, at_millis in enumerate((NOW_MILLIS - 1, NOW_MILLIS)):
        bet = ClosedBet(
            reference_id=f"bet-{number}",
            player_id="p",
            round_id="r",
            instance_id="i",
            game="g",
            wager=1,
            won=0,
            timestamp=at_millis,
        )
        world.add_bet(bet)
    found = world.round("i", "r", None, now_millis=NOW_MILLIS + RETENTION_MILLIS)
    assert [bet["reference_id"] for bet in found.model_dump()["bets"]] == ["bet-1"]


@pytest.mark.parametrize("instance_id", ["", "no hex", "A" * 24, "0" * 23, "0" * 25])
def test_an_instance_id_has_a_format(sandbox: Sandbox, instance_id: str) -> None:
    """A game that could never be granted free bets is not taken (docs/decisions/0017)."""
    game = sandbox.world.games()[0]
    instance = game.instances[0].model_copy(update={"id": instance_id})
    odd = game.model_copy(update={"id": "odd", "instances": (instance,)})
    with pytest.raises(ConfigurationError, match="24 lower-case hex digits"):
        sandbox.world.add_game(odd)


def test_a_game_is_replaced_under_its_id(public_key: RSAPublicKey) -> None:
    """So its status can change, and an instance that is gone takes no more grants (spec §2.5, §2.6)."""
    world = Sandbox(operator_public_key=public_key).world
    game = world.games()[0]
    kept, dropped = game.instances[:1], game.instances[1]
    world.add_game(game.model_copy(update={"status": "MAINTENANCE", "instances": kept}))
    assert (world.games()[0].status, len(world.games())) == ("MAINTENANCE", 14)
    assert world.grant(GrantRequest(**terms(dropped.id)), now_millis=1) is GrantErrorCode.INSTANCE_NOT_FOUND
    assert isinstance(world.grant(GrantRequest(**terms(kept[0].id)), now_millis=1), GrantAccepted)


def test_a_game_by_hand_is_granted_free_bets(public_key: RSAPublicKey, sandbox: Sandbox) -> None:
    """What add_game offers, fetch-games lists and grants accept (spec §2.2, §4.2)."""
    world = SandboxWorld("acme", public_key)
    limits = sandbox.world.games()[0].instances[0].bet_config
    instance = GameInstance(id="a" * 24, name="By Hand EUR", active=True, bet_config=limits)
    game = GameInfo(
        id="by-hand", name="By Hand", status="ACTIVE", provider_name="P", genre="Dice", instances=(instance,)
    )
    world.add_game(game)
    assert world.games() == (game,)
    assert isinstance(world.grant(GrantRequest(**terms("a" * 24)), now_millis=1), GrantAccepted)


def granted(sandbox: Sandbox, reference_id: str = "r1", **changes: int) -> str:
    """Grant at NOW_MILLIS, for a second unless told otherwise; return the id."""
    request = GrantRequest.model_validate(
        terms(sandbox.instance_id, reference_id=reference_id, expire_duration_millis=1_000) | changes
    )
    accepted = sandbox.world.grant(request, now_millis=NOW_MILLIS)
    assert isinstance(accepted, GrantAccepted)
    return accepted.free_bet_id


def test_grants_and_what_became_of_them(seeded: Callable[[int | None], Sandbox]) -> None:
    """Granted, until it has expired or is claimed; claimed stays claimed."""
    world = (sandbox := seeded(0)).world
    first, second = granted(sandbox, "r1"), granted(sandbox, "r2")
    one, two = world.grants()
    assert (one.free_bet_id, two.free_bet_id) == (first, second)
    assert (one.granted_at_millis, one.expires_at_millis) == (NOW_MILLIS, NOW_MILLIS + 1_000)
    world.end_claim(first)
    for later, told in ((0, "granted"), (999, "granted"), (1_000, "expired")):
        assert world.grant_status(one, now_millis=NOW_MILLIS + later) == "claimed"
        assert world.grant_status(two, now_millis=NOW_MILLIS + later) == told


@pytest.mark.parametrize(("later", "sound"), [(999, True), (1_000, False)])
def test_a_claim_begins_before_the_grant_has_expired(
    seeded: Callable[[int | None], Sandbox], later: int, sound: bool
) -> None:
    """To the millisecond; until it is paid it may begin again."""
    free_bet_id = granted(sandbox := seeded(0))
    if sound:
        grant = sandbox.world.begin_claim(free_bet_id, now_millis=NOW_MILLIS + later)
        assert sandbox.world.begin_claim(free_bet_id, now_millis=NOW_MILLIS + later) is grant
        sandbox.world.end_claim(free_bet_id)
    with pytest.raises(ConfigurationError, match="claimed already" if sound else "expired already"):
        sandbox.world.begin_claim(free_bet_id, now_millis=NOW_MILLIS + later)
    with pytest.raises(ConfigurationError, match="'x' are unknown"):
        sandbox.world.begin_claim("x", now_millis=NOW_MILLIS)


def test_bets_are_listed_newest_first(seeded: Callable[[int | None], Sandbox]) -> None:
    """No more than asked for."""
    world = seeded(0).world
    before = world.bets(limit=1_000)
    newest = before[0].model_copy(update={"reference_id": "new"})
    world.add_bet(newest)
    assert world.bets(limit=1_000) == (newest, *before)
    assert world.bets(limit=1) == (newest,)
    assert world.bets(limit=0) == ()


def test_round_numbers_go_up(seeded: Callable[[int | None], Sandbox]) -> None:
    """Above all there are, and never twice, from whatever thread."""
    world = (sandbox := seeded(0)).world
    first = world.next_round_no(sandbox.instance_id)
    assert first > sandbox.round_no
    world.add_round(
        round_id="r", round_no=first + 10, instance_id=sandbox.instance_id, game="g", started_at_millis=NOW_MILLIS
    )
    with ThreadPoolExecutor(8) as threads:
        numbers = list(threads.map(lambda _: world.next_round_no(sandbox.instance_id), range(200)))
    assert sorted(numbers) == [*range(first + 11, first + 211)]
    assert world.next_round_no("another") == 1
