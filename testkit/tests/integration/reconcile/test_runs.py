"""Runs that are joined, sliced, stopped and refused."""

from collections import Counter
from typing import Any

import pytest

from game_operator.errors import ConfigurationError, RunError
from game_operator.models import BetNotFound
from game_operator.wallet import Wallet
from testkit.tests.support.reconciling import REPAIR, WAGER, WON, Desk, verdicts
from tests.support.raw_sql import run

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


def test_a_run_that_is_stopped_while_it_repairs(desk: Desk) -> None:
    """Nothing is settled after that, and what is left is not said to be left by the brakes."""
    for _ in range(3):
        desk.play("lose")
    reconciler = desk.reconciler()
    stopped: list[bool] = []

    def stop(*_: Any) -> None:
        if not stopped:
            stopped.append(True)
            reconciler.stop()

    wallet: Any = Wallet(desk.ledger)  # Any: its repair is replaced.
    repair = wallet.repair
    settled: list[str] = []

    def repaired(wanted: Any) -> Any:
        outcome = repair(wanted)
        settled.append(wanted.call.bet_id)
        stop()
        return outcome

    wallet.repair = repaired  # Somebody stops the run just then.
    reconciler = desk.reconciler(wallet=wallet)
    report = reconciler.run(**REPAIR)
    assert (report.run.state, len(settled), report.run.moved_count) == ("stopped", 1, 1)
    assert desk.balance() == WON - 3 * WAGER
    assert desk.reconciler().run(**REPAIR).repaired.bets == 2


def test_a_run_that_is_paused_while_it_repairs_loses_nothing(desk: Desk) -> None:
    """What was about to be settled is settled when the run goes on."""
    bets = [desk.play("lose") for _ in range(3)]
    wallet: Any = Wallet(desk.ledger)  # Any: its repair is replaced.
    repair = wallet.repair

    def repaired(wanted: Any) -> Any:
        outcome = repair(wanted)
        run(desk.url, "UPDATE {p}runs SET state = 'paused' WHERE state = 'running'")
        return outcome

    wallet.repair = repaired  # Twenty calls of another process have failed just then.
    assert desk.reconciler(wallet=wallet).run(**REPAIR).run.state == "paused"
    report = desk.reconciler(wallet=Wallet(desk.ledger)).run(**REPAIR)
    assert (report.run.state, verdicts(report)) == ("finished", dict.fromkeys(bets, "settled"))
    assert report.run.moved_count == 3


def test_findings_are_never_deleted(desk: Desk) -> None:
    """A finding that comes back is another one."""
    bet = desk.play("lose")
    reconciler = desk.reconciler()
    for _ in range(2):
        desk.sandbox.lies.about_bet(bet, BetNotFound())
        reconciler.run()
        reconciler.run()
        desk.sandbox.lies.about_bet(bet, {"status": "OPEN"})
        reconciler.run()
        desk.sandbox.lies.clear()
    found = desk.findings(resolved=True)
    assert [(each.kind, each.seen, each.resolved_by) for each in found] == [("missing_there", 2, "reconcile")] * 2
    assert desk.findings() == []
    assert Counter(each.subject for each in found) == {bet: 2}


def test_a_finding_is_resolved_by_a_person(desk: Desk) -> None:
    """Once, with who and why."""
    from game_operator.errors import FindingError

    bet = desk.play("lose")
    desk.sandbox.lies.about_bet(bet, BetNotFound())
    reconciler = desk.reconciler()
    reconciler.run()
    (found,) = desk.findings()
    with pytest.raises(ConfigurationError, match="actor"):
        reconciler.resolve(found.id, actor="", reason="why")
    done = reconciler.resolve(found.id, actor="ann", reason="the provider will look")
    assert (done.resolved_by, done.resolution, done.paid_cents) == ("ann", "the provider will look", None)
    with pytest.raises(FindingError, match="resolved by ann"):
        reconciler.resolve(found.id, actor="bob", reason="again")
    with pytest.raises(FindingError, match="no finding 99"):
        reconciler.resolve(99, actor="bob", reason="again")
