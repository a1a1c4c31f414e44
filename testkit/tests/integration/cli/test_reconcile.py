"""`game-operator reconcile`: dry runs, repairs, findings, refunds and reports (spec §2.8, §3, §4.2)."""

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

from game_operator import OperatorClient
from game_operator.backoffice import Reconciler
from game_operator.ledger import SqlLedger
from game_operator.wallet import Wallet
from game_operator_testkit.sandbox import Sandbox
from testkit.tests.support.reconciling import called_by
from tests.support.command_line import Run, Told, said, started, stopped
from tests.support.raw_sql import run as run_sql
from tests.support.times import wait_until

pytestmark = pytest.mark.outside

QUICK = ("--min-age", "0s", "--second-look", "0s", "--rate", "5000", "--sample", "0")
BY = ("--actor", "ann", "--reason", "deposits were lost")
REPAIR = ("--repair", "--max-bets", "10", "--max-total", "1000.00", *BY)


@pytest.fixture(scope="module")
def sandbox(public_key: RSAPublicKey) -> Iterator[Sandbox]:
    """A service that plays against the wallet of one test after the other."""
    with Sandbox(operator_public_key=public_key) as sandbox:
        yield sandbox


class World:
    """A service, a ledger behind a wallet, and the command with the settings of both."""

    def __init__(self, run: Run, sandbox: Sandbox, ledger: SqlLedger, options: tuple[str, ...]) -> None:
        self.run_command, self.sandbox, self.ledger, self.options = run, sandbox, ledger, options

    def play(self, wager_cents: int = 500, *, reported_won_cents: int | None = None, **changes: Any) -> str:
        """Play a round, and return the id of its bet; fetch-bet may report another win."""
        (bet_id,) = self.sandbox.play_round(player_id="p1", wager_cents=wager_cents, **changes).bet_ids
        if reported_won_cents is not None:
            self.sandbox.lies.about_bet(bet_id, {"won": reported_won_cents})
        return bet_id

    def lose(self, won_cents: int = 1_250, **changes: Any) -> str:
        """Play a round whose settlement is lost."""
        options: dict[str, Any] = {"won_cents": won_cents, "settlement": "lose"}
        return self.play(**options | changes)

    def reconcile(self, *options: str) -> Told:
        """Run the command `reconcile`."""
        told: Told = self.run_command("reconcile", *options, *self.options)
        return told

    def quick(self, *options: str) -> Told:
        """Run `reconcile run` without waiting for bets to become old."""
        return self.reconcile("run", *QUICK, *options)

    @property
    def balance(self) -> int:
        """What the player holds."""
        return self.ledger.balance("p1")


@contextmanager
def world_of(url: str, run: Run, sandbox: Sandbox) -> Iterator[World]:
    """Yield a world with a player who holds 100.00."""
    with SqlLedger(url) as ledger, called_by(sandbox, Wallet(ledger)):
        ledger.open_account("p1", Decimal("100.00"))
        yield World(run, sandbox, ledger, ("--database", url))


@pytest.fixture
def world(run: Run, sandbox: Sandbox, settings: dict[str, str], sqlite_url: str) -> Iterator[World]:
    """A world on SQLite."""
    with world_of(sqlite_url, run, sandbox) as world:
        yield world


@pytest.fixture
def any_world(run: Run, sandbox: Sandbox, settings: dict[str, str], database_url: str) -> Iterator[World]:
    """A world on a database of each kind."""
    with world_of(database_url, run, sandbox) as world:
        yield world


def test_a_lost_deposit_from_the_dry_run_to_the_late_call(any_world: World) -> None:
    """The whole story: found, settled once, found no more, and the late calls move nothing."""
    world = any_world
    world.lose()
    world.play(cancel=True, settlement="lose")
    world.play(won_cents=100)
    assert world.balance == 8_600

    dry = world.quick()
    assert (dry.code, dry.err) == (1, "")
    assert "is dry: it moves no money" in dry.out
    assert said(dry.out)["open"] == "bets 2, total 17.50"
    how = "game-operator reconcile run --repair --max-bets 2 --max-total 17.50 --actor NAME --reason TEXT"
    assert how in dry.out
    assert world.balance == 8_600

    options = how.removeprefix("game-operator reconcile run ").replace("NAME", "ann").replace("TEXT", "lost").split()
    repaired = world.quick(*options)
    assert (repaired.code, repaired.err) == (0, "")
    assert said(repaired.out)["repaired"] == "bets 2, total 17.50"
    assert "Nothing waits for a person." in repaired.out
    assert world.balance == 10_350

    again = world.quick(*REPAIR)
    assert again.code == 0
    assert said(again.out)["repaired"] == "bets 0, total 0.00"
    world.sandbox.release_held(lost=True)
    assert world.balance == 10_350
    assert world.reconcile("findings").out == "There are no such findings.\n"


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        pytest.param(("--repair", *BY), "Missing: --max-bets, --max-total", id="no brakes"),
        pytest.param(("--max-bets", "1"), "Leave out --max-bets without --repair", id="a brake of a dry run"),
        pytest.param((*REPAIR, "--seconds", "1"), "--seconds never begins a run that repairs", id="a repair in parts"),
        pytest.param(("--min-age", "2"), "not a length of time: write 2d, 12h, 30m or 60s", id="an age without a unit"),
        pytest.param(("--html", "-"), "would write a file named '-'", id="standard output"),
        pytest.param(("--source", "other"), "does not know the source 'other'; it knows ''", id="an unknown source"),
    ],
)
@pytest.mark.drawn(8)
def test_wrong_usage_says_what_to_do(world: World, options: tuple[str, ...], problem: str) -> None:
    """Exit code 2, and no run has begun."""
    world.play(won_cents=0)
    told = world.reconcile("run", *options)
    assert (told.code, told.out) == (2, "")
    assert problem in told.err
    assert world.reconcile("run", *options, "--json").error["exit_code"] == 2
    assert world.reconcile("status").out == "There was no reconciliation yet.\n"


def test_a_service_that_is_away(world: World, nobody: str) -> None:
    """Its bets are findings, and the exit code is 3."""
    world.lose()
    few = world.quick("--base-url", nobody, "--deadline", "0.2")
    assert few.code == 3
    assert "no_answer" in few.out


def test_a_service_that_refuses_the_operator(world: World) -> None:
    """HTTP 401: the run is paused, and the exit code is that of a service that says no."""
    world.lose()
    refused = world.quick("--operator-id", "someone-else")
    assert (refused.code, refused.out) == (1, "")
    assert "HTTP 401" in refused.err
    assert world.reconcile("report").code == 3
    assert world.reconcile("stop").code == 0
    assert world.reconcile("report").code == 1


def test_findings_are_listed_paid_and_resolved_once(world: World) -> None:
    """A win that was reported too low is paid; paying again, or for nothing, is refused."""
    paid = world.play(won_cents=100, reported_won_cents=300)
    kept = world.play(won_cents=0, reported_won_cents=50)
    assert world.quick("--sample", "1").code == 1
    listed = world.reconcile("findings", "--json")
    assert listed.code == 1
    found = {each["bet_id"]: each for each in listed.document["findings"]}
    assert {bet: each["owed_cents"] for bet, each in found.items()} == {paid: 200, kept: 50}
    before = world.balance

    number = str(found[paid]["id"])
    told = world.reconcile("resolve", number, "--pay", *BY)
    assert (told.code, told.out) == (0, f"2.00 was posted to p1. The finding {number} is resolved.\n")
    assert world.balance == before + 200
    again = world.reconcile("resolve", number, "--pay", *BY)
    assert (again.code, "resolved by ann already" in again.err, world.balance) == (1, True, before + 200)

    other = str(found[kept]["id"])
    assert world.reconcile("resolve", other, *BY).out == f"The finding {other} is resolved.\n"
    assert world.balance == before + 200
    assert world.reconcile("findings").code == 0
    every = world.reconcile("findings", "--all", "--bet", paid)
    assert (every.code, "deposits were lost" in every.out, "2.00" in every.out) == (0, True, True)
    assert world.reconcile("findings", "--all", "--limit", "1").out.endswith("pass a greater --limit.\n")
    assert world.quick("--sample", "1").code == 1, "what was not paid still differs"


@pytest.mark.parametrize(
    ("number", "code"), [pytest.param(signal.SIGINT, 130, id="Ctrl-C"), pytest.param(signal.SIGTERM, 143, id="SIGTERM")]
)
def test_an_interrupted_run_goes_on(world: World, settings: dict[str, str], number: int, code: int) -> None:
    """It ends at once although its rate is slow, says how it goes on, and each bet is then settled once."""
    for _ in range(4):
        world.lose(won_cents=500)
    slow = ("--min-age", "0s", "--second-look", "0s", "--sample", "0", "--rate", "0.01")
    process = started("reconcile", "run", *slow, *REPAIR, *world.options, **settings)
    wait_until(lambda: said(world.reconcile("status").out).get("state") == "running")
    ended = stopped(process, number)
    assert (ended.code, ended.out) == (code, "")
    assert "Run 1 is kept, and every repair so far is complete." in ended.err
    assert "`game-operator reconcile run --seconds 60` goes on with it" in ended.err
    assert said(world.reconcile("status").out)["state"] == "running"
    for change in (
        "runs SET interval_micros = 1000, next_call_micros = 0, parameters = replace(parameters, '100000000', '1000')",
        "chunks SET ready_at_millis = 0",
    ):
        run_sql(world.options[1], f"UPDATE {{p}}{change}")
    assert world.quick("--seconds", "30").code == 0
    assert (world.balance, said(world.reconcile("status").out)["state"]) == (10_000, "finished")


def test_a_run_with_code_of_the_operators_goes_on_in_her_program(world: World) -> None:
    """The command has a plain wallet: it would leave her rows out. A dry run may be anybody's."""
    world.lose()

    def clock_millis() -> int:
        own.leave()  # As when it is interrupted, as soon as the run has begun.
        return time.time_ns() // 1_000_000

    with OperatorClient.from_env() as client:
        wallet = Wallet(world.ledger, after=lambda *_: None)
        own = Reconciler(client, wallet, min_age=timedelta(0), second_look=timedelta(0), clock_millis=clock_millis)
        begun = own.run(repair=True, max_bets=1, max_total_cents=10_000, actor="ann", reason="a test")
    assert begun.run.is_under_way
    told = world.quick("--seconds", "1")
    assert (told.code, told.out) == (1, "")
    assert "repairs with another kind of wallet" in told.err
    assert (world.balance, world.reconcile("stop").code) == (9_500, 0)
    assert world.quick("--seconds", "1").code == 1, "the bet can be settled"
