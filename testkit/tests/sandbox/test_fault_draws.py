"""Which faults are laid on which calls."""

from itertools import pairwise

import pytest

from game_operator_testkit.provider.bodies import DEFAULT_WRITER
from game_operator_testkit.provider.faults import Fault, FaultPlan, FaultSwitches
from game_operator_testkit.sandbox.dealing.dealt import DealtBet
from game_operator_testkit.sandbox.dealing.fault_draws import FaultDraws
from testkit.tests.sandbox import dealing

BET = dealing.bet()
DEALT = DealtBet(planned=BET)


@pytest.mark.parametrize(("attempt", "struck"), [(1, {"forged", "old-key", "reserialised"}), (2, set()), (5, set())])
def test_a_repeat_is_not_forged_again(attempt: int, struck: set[str]) -> None:
    """At any rate: what is sent again meets the faults of the wire, and duplicates."""
    draws = FaultDraws(FaultSwitches(FaultPlan(dict.fromkeys(Fault, 1.0))), 0, DEFAULT_WRITER)
    pending = draws.planned(DEALT, BET.withdraw())
    pending.attempts = attempt
    posts = draws.posts(pending)
    assert {str(post.extra) for post in posts} == {"None", "duplicate"} | struck
    assert {str(post.manner) for post in posts if post.extra is None} == {"request-lost"}


def test_from_the_sixth_delivery_on_all_is_calm() -> None:
    """Else a call would never arrive where faults strike always."""
    draws = FaultDraws(FaultSwitches(FaultPlan(dict.fromkeys(Fault, 1.0))), 0, DEFAULT_WRITER)
    pending = draws.planned(DEALT, BET.withdraw())
    pending.attempts = 6
    assert [(post.extra, post.manner) for post in draws.posts(pending)] == [(None, None)]


def _drawn(plan: FaultPlan, *, each_occurs: bool, bets: int) -> list[tuple[Fault, ...]]:
    """Return the faults of the withdraws of so many bets."""
    draws = FaultDraws(FaultSwitches(plan), 7, DEFAULT_WRITER, each_occurs=each_occurs)
    return [draws.planned(DealtBet(planned=dealing.bet(n)), dealing.bet(n).withdraw()).faults for n in range(bets)]


def test_a_fault_that_chance_forgets_is_laid_on_a_call() -> None:
    """At most one on a call and none twice: at once, and then once in 143 bets, up to eight times."""
    rare = dealing.faults(Fault.RESET, Fault.SLOW, Fault.FORGED, rate=1e-9)
    assert not any(_drawn(rare, each_occurs=False, bets=1_000))
    laid = _drawn(rare, each_occurs=True, bets=3_000)
    assert {len(found) for found in laid} == {0, 1}
    assert set(laid[:3]) == {(Fault.RESET,), (Fault.SLOW,), (Fault.FORGED,)}
    places = [number for number, found in enumerate(laid) if Fault.RESET in found]
    assert len(places) == 8
    assert all(140 <= later - earlier <= 146 for earlier, later in pairwise(places))


def test_of_two_faults_on_the_wire_one_occurs() -> None:
    """So none is laid beside another."""
    both = FaultPlan({Fault.RESET: 1e-9, Fault.SLOW: 1.0})
    assert set(_drawn(both, each_occurs=True, bets=20)) == {(Fault.SLOW,)}
