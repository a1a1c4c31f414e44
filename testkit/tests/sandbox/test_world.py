"""The state behind the sandbox, and the world it starts with (spec §2.5 to §2.8, §8)."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

from game_operator import ConfigurationError, GrantAccepted, GrantErrorCode
from game_operator.models import GrantRequest
from game_operator_testkit.sandbox import Sandbox
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
