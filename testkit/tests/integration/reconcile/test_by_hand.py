"""What people do about findings, how a process leaves a run, and ids in answers that no bet can have."""

import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from game_operator import OperatorClient
from game_operator.backoffice import Reconciler
from game_operator.errors import FindingError
from game_operator.ledger import SqlLedger
from game_operator.wallet import Wallet
from game_operator_testkit import InProcessSandbox
from testkit.tests.support.reconciling import KEYS

pytestmark = [pytest.mark.outside, pytest.mark.drawn(6)]

QUICK: dict[str, Any] = {"min_age": timedelta(0), "second_look": timedelta(0), "rate_per_second": 5_000.0}
BY: dict[str, Any] = {"actor": "ann", "reason": "seen"}


class World:
    """A service, a wallet with a player p1, and a reconciler that looks at all bets."""

    def __init__(self, sandbox: InProcessSandbox, ledger: SqlLedger, client: OperatorClient) -> None:
        self.sandbox, self.ledger, self.client = sandbox, ledger, client
        self.wallet = Wallet(ledger)
        sandbox.wallet = self.wallet
        self.reconciler = Reconciler(client, self.wallet, sample=1.0, **QUICK)

    def differ(self, won_cents: int = 100, reported_won_cents: int = 300) -> int:
        """Play a round whose win differs, look at it, and return the finding's id."""
        played = self.sandbox.play_round(player_id="p1", wager_cents=500, won_cents=won_cents)
        self.sandbox.lies.about_bet(played.bet_ids[0], {"won": reported_won_cents})
        self.reconciler.run()
        (found,) = self.reconciler.findings()
        return found.id


@pytest.fixture
def world(ledger: SqlLedger) -> Iterator[World]:
    """A world in this process."""
    with InProcessSandbox(keys=KEYS) as sandbox, sandbox.client() as client:
        yield World(sandbox, ledger, client)


@pytest.mark.parametrize(("won", "reported"), [(100, 300), (300, 100)], ids=["paid", "taken back"])
def test_what_is_owed_is_posted_once(world: World, won: int, reported: int) -> None:
    """The finding is resolved with what was paid, and the next run agrees."""
    number, before = world.differ(won, reported), world.ledger.balance("p1")
    done = world.reconciler.resolve(number, pay=True, **BY)
    assert (done.paid_cents, done.resolved_by, done.resolution) == (reported - won, "ann", "seen")
    assert world.ledger.balance("p1") == before + reported - won
    for pay in (True, False):
        with pytest.raises(FindingError, match="resolved by ann already"):
            world.reconciler.resolve(number, pay=pay, **BY)
    assert world.reconciler.run().is_fine
    assert world.ledger.balance("p1") == before + reported - won


@pytest.mark.parametrize("pay", [True, False])
def test_a_finding_of_another_source_is_refused(world: World, pay: bool) -> None:
    """Each service has its own findings; an unknown number is refused too."""
    number = world.differ()
    world.ledger.add_source("other")
    other = Reconciler(world.client, Wallet(world.ledger, source="other"), **QUICK)
    assert list(other.findings(resolved=True)) == []
    with pytest.raises(FindingError, match="is of the source '', not of 'other'"):
        other.resolve(number, pay=pay, **BY)
    for unknown in (0, -1, number + 1, 2**63):
        with pytest.raises(FindingError, match="There is no finding"):
            world.reconciler.resolve(unknown, pay=pay, **BY)


def test_a_process_leaves_and_the_run_goes_on(world: World) -> None:
    """At once although its next call is minutes away; another reconciler then ends the run."""
    for _ in range(3):
        world.sandbox.play_round(player_id="p1", wager_cents=100, won_cents=150, settlement="lose")
    slow = Reconciler(world.client, world.wallet, **QUICK | {"rate_per_second": 0.01})
    thread = threading.Thread(target=slow.run)
    thread.start()
    deadline = time.monotonic() + 30
    while (begun := slow.status()) is None or begun.state != "running":
        assert time.monotonic() < deadline
        time.sleep(0.01)
    slow.leave()
    thread.join(30)
    assert not thread.is_alive()
    run = slow.status()
    assert run is not None
    assert run.is_under_way
    slow.stop()
    assert world.reconciler.run().open.bets == 3
