"""Runs that are joined, sliced, stopped and refused."""

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from game_operator import OperatorClient
from game_operator.errors import ConfigurationError, FindingError, RunError
from game_operator.wallet import Wallet
from testkit.tests.support.reconciling import REPAIR, WAGER, WON, Desk, verdicts
from tests.support.leftovers import assert_idle
from tests.support.raw_sql import run
from tests.support.times import wait_until

pytestmark = pytest.mark.outside


# --- runs ------------------------------------------------------------------------------------------------------------


def test_a_run_is_joined_with_its_own_arguments_alone(desk: Desk) -> None:
    """Another reconciler, as another process would have it, goes on with it; one with others is refused."""
    desk.play("lose")
    dry = desk.reconciler().run_some(0.0)
    assert dry.run.state == "planning"
    with pytest.raises(RunError, match=rf"Run {dry.run.id} is under way with other arguments: it is dry"):
        desk.reconciler().run(**REPAIR)
    with pytest.raises(RunError, match="other arguments"):
        desk.reconciler(sample=0.5).run()
    assert desk.reconciler().run().run.id == dry.run.id
    desk.way.fail(401, 1)
    with pytest.raises(Exception, match="401"):
        desk.reconciler().run(**REPAIR)
    for other in ({"actor": "bob"}, {"max_bets": 1}, {"reason": "another"}):
        with pytest.raises(RunError, match="it repairs"):
            desk.reconciler().run(**(REPAIR | other))
    with pytest.raises(RunError, match="it repairs"):
        desk.reconciler().run()
    assert desk.balance() == -WAGER
    assert desk.reconciler().run(**REPAIR).repaired.bets == 1


def test_a_deadline_that_is_over_before_the_first_request(desk: Desk) -> None:
    """Nothing was sent, which is an answer that did not come, and no fewer than none."""

    class Slow:
        def sign(self, message: bytes) -> bytes:
            time.sleep(0.01)
            return bytes(256)

    bet = desk.play("lose")
    with OperatorClient(desk.client.base_url, desk.client.operator_id, Slow(), deadline=0.001, retries=0) as client:
        report = desk.reconciler(client=client).run()
    assert verdicts(report) == {bet: "no_answer"}


def test_slices_never_begin_repairs_and_go_on_with_them(desk: Desk) -> None:
    """A person begins them."""
    bet = desk.play("lose")
    for _ in range(3):
        assert desk.reconciler().run_some(5.0).repaired.bets == 0
    desk.way.fail(401, 1)
    with pytest.raises(Exception, match="401"):
        desk.reconciler().run(**REPAIR)
    report = desk.reconciler().run_some(5.0)
    assert (report.run.state, verdicts(report)) == ("finished", {bet: "settled"})
    assert report.run.actor == "ann"


def test_a_run_that_is_stopped_ends_for_good(desk: Desk) -> None:
    """The next is another one."""
    desk.play("lose")
    reconciler = desk.reconciler()
    assert reconciler.stop() is None
    began = reconciler.run_some(0.0)
    stopped = reconciler.stop()
    assert stopped is not None
    assert (stopped.id, stopped.state, stopped.why) == (began.run.id, "stopped", "by hand")
    assert reconciler.stop() is None
    assert reconciler.run().run.id == began.run.id + 1


def after_repair(desk: Desk, act: Callable[[Any], object]) -> Any:  # Any: its repair is replaced.
    """Return a wallet that does something after each repair."""
    wallet: Any = Wallet(desk.ledger)
    repair = wallet.repair

    def repaired(wanted: Any) -> Any:
        outcome = repair(wanted)
        act(wanted)
        return outcome

    wallet.repair = repaired
    return wallet


def test_a_run_that_is_stopped_while_it_repairs(desk: Desk) -> None:
    """Nothing is settled after that, and what is left is not said to be left by the brakes."""
    for _ in range(3):
        desk.play("lose")
    settled: list[Any] = []

    def stop(wanted: Any) -> None:
        settled.append(wanted)
        desk.reconciler().stop()  # Somebody stops the run just then.

    report = desk.reconciler(wallet=after_repair(desk, stop)).run(**REPAIR)
    assert (report.run.state, len(settled), report.run.moved_count) == ("stopped", 1, 1)
    assert desk.balance() == WON - 3 * WAGER
    assert desk.reconciler().run(**REPAIR).repaired.bets == 2


def test_a_run_that_is_paused_while_it_repairs_loses_nothing(desk: Desk) -> None:
    """What was about to be settled is settled when the run goes on."""
    bets = [desk.play("lose") for _ in range(3)]

    def pause(_: object) -> None:  # Twenty calls of another process have failed just then.
        run(desk.url, "UPDATE {p}runs SET state = 'paused' WHERE state = 'running'")

    assert desk.reconciler(wallet=after_repair(desk, pause)).run(**REPAIR).run.state == "paused"
    report = desk.reconciler(wallet=Wallet(desk.ledger)).run(**REPAIR)
    assert (report.run.state, verdicts(report)) == ("finished", dict.fromkeys(bets, "settled"))
    assert report.run.moved_count == 3


@pytest.mark.parametrize(("won", "reported"), [(100, 300), (300, 100)], ids=["paid", "taken back"])
def test_what_is_owed_is_posted_once(desk: Desk, won: int, reported: int) -> None:
    """The finding is resolved with what was paid, and the next run agrees."""
    reconciler, number = desk.reconciler(), differing(desk, won, reported)
    with pytest.raises(ConfigurationError, match="actor"):
        reconciler.resolve(number, actor="", reason="why")
    before = desk.balance()
    done = reconciler.resolve(number, pay=True, actor="ann", reason="seen")
    assert (done.paid_cents, done.resolved_by, done.resolution) == (reported - won, "ann", "seen")
    for pay in (True, False):
        with pytest.raises(FindingError, match="resolved by ann already"):
            reconciler.resolve(number, pay=pay, actor="bob", reason="again")
    assert reconciler.run().is_fine
    assert desk.balance() == before + reported - won


@pytest.mark.drawn(3)
def test_no_transaction_is_open_while_the_service_is_asked(any_desk: Desk) -> None:
    """For bets, rounds and games: a service that does not answer holds up no call."""
    desk = any_desk
    for _ in range(3):
        desk.play("lose")
    desk.way.before = lambda _: assert_idle(desk.url, sessions=9)
    assert desk.reconciler().run(**REPAIR).repaired.bets == 3
    assert {"fetch-bet", "fetch-games"} <= set(desk.way.asked)


def differing(desk: Desk, won: int, reported: int) -> int:
    """Play a round whose win differs, look at it, and return the finding's id."""
    desk.sandbox.lies.about_bet(desk.play(won_cents=won), {"won": reported})
    desk.reconciler().run()
    (found,) = desk.findings()
    return found.id


@pytest.mark.parametrize("pay", [True, False])
def test_a_finding_of_another_source_is_refused(desk: Desk, pay: bool) -> None:
    """Each service has its own findings; an unknown number is refused too."""
    number, by = differing(desk, 100, 300), {"actor": "ann", "reason": "seen"}
    desk.ledger.add_source("other")
    other = desk.reconciler(wallet=Wallet(desk.ledger, source="other"))
    assert list(other.findings(resolved=True)) == []
    with pytest.raises(FindingError, match="is of the source '', not of 'other'"):
        other.resolve(number, pay=pay, **by)
    for unknown in (0, -1, number + 1, 2**63):
        with pytest.raises(FindingError, match="There is no finding"):
            other.resolve(unknown, pay=pay, **by)


def test_a_process_leaves_and_the_run_goes_on(desk: Desk) -> None:
    """At once although its next call is minutes away; another reconciler then ends the run."""
    for _ in range(3):
        desk.play("lose")
    slow = desk.reconciler(rate_per_second=0.01)
    thread = threading.Thread(target=slow.run)
    thread.start()
    wait_until(lambda: (begun := slow.status()) is not None and begun.state == "running")
    slow.leave()
    thread.join(30)
    assert not thread.is_alive()
    run_ = slow.status()
    assert run_ is not None
    assert run_.is_under_way
    slow.stop()
    assert desk.reconciler().run().open.bets == 3
