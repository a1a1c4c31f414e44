"""A reconciliation that many workers share: threads, processes, and workers that are killed at random moments."""

import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import ExitStack
from datetime import timedelta
from decimal import Decimal
from multiprocessing import get_context
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

import pytest

from game_operator import OperatorClient
from game_operator.backoffice.reconcile.reconciler import Reconciler
from game_operator.errors import ConfigurationError
from game_operator.ledger import SqlLedger
from game_operator.wallet import Wallet
from game_operator_testkit.sandbox import Sandbox
from testkit.tests.support.reconciling import REPAIR, called_by
from tests.support.crowds import worker_context
from tests.support.leftovers import assert_idle
from tests.support.raw_sql import is_sqlite, rows
from tests.support.seeds import random_of

pytestmark = [pytest.mark.outside, pytest.mark.timeout(120)]

BETS, LOST = 60, 40
QUICK: dict[str, Any] = {
    "min_age": timedelta(0),
    "second_look": timedelta(0),
    "rate_per_second": 5_000.0,
    "sample": 0.0,
    "lease": timedelta(seconds=2),
}


class World:
    """A service, a wallet, and sixty bets, of which two in three have lost their deposits."""

    def __init__(self, url: str, stack: ExitStack, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        self.url = url
        self.ledger = stack.enter_context(SqlLedger(url))
        self.ledger.open_account("p1", Decimal("1000.00"))
        self.wallet = Wallet(self.ledger)
        sandbox = stack.enter_context(Sandbox())
        stack.enter_context(called_by(sandbox, self.wallet))
        #: What was lost, and what it has won.
        self.lost: dict[str, int] = {}
        for number in range(BETS):
            won, is_lost = 150 + number, number % 3 != 0
            played = sandbox.play_round(
                player_id="p1", wager_cents=100, won_cents=won, settlement="lose" if is_lost else "send"
            )
            if is_lost:
                self.lost[played.bet_ids[0]] = won
        self.client = stack.enter_context(sandbox.client())
        self.owed = sum(self.lost.values())
        self.due = self.ledger.balance("p1") + self.owed
        private = folder / "operator.pem"
        private.write_bytes(sandbox.private_key_pem)
        #: What a process needs to reconcile them.
        self.arguments = (url, sandbox.base_url, sandbox.operator_id, str(private))
        monkeypatch.setenv("GAME_OPERATOR_BASE_URL", sandbox.base_url)
        monkeypatch.setenv("GAME_OPERATOR_ID", sandbox.operator_id)
        monkeypatch.setenv("GAME_OPERATOR_PRIVATE_KEY_FILE", str(private))

    def check(self, reconciler: Reconciler) -> None:
        """Assert that each bet was judged once and settled once."""
        report = reconciler.report()
        assert report.run.state == "finished"
        assert Counter(row["verdict"] for row in report.rows()) == {"settled": LOST}
        assert (report.repaired.bets, report.repaired.total_cents) == (LOST, self.owed)
        assert report.run.moved_count == LOST
        assert self.ledger.balance("p1") == self.due
        assert self.ledger.verify().findings == ()


@pytest.fixture
def world(url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[World]:
    """A world on a database of each kind."""
    with ExitStack() as stack:
        yield World(url, stack, monkeypatch, tmp_path)


@pytest.fixture
def shared(postgres_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[World]:
    """A world on PostgreSQL, which processes share."""
    with ExitStack() as stack:
        yield World(postgres_url, stack, monkeypatch, tmp_path)


@pytest.mark.parametrize("workers", [1, 4])
@pytest.mark.drawn(1)
def test_threads(shared: World, workers: int) -> None:
    """They share one client."""
    reconciler = Reconciler(shared.client, shared.wallet, **QUICK)
    with ThreadPoolExecutor(workers) as pool:
        reconciler.run(executor=pool, **REPAIR)
    shared.check(reconciler)


def test_processes(shared: World) -> None:
    """Each makes a client from its environment, once, and needs neither the ledger nor the key of this one."""
    reconciler = Reconciler(shared.client, shared.wallet, **QUICK)
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        reconciler.run(executor=pool, **REPAIR)
        shared.check(reconciler)
        reconciler.run(executor=pool)
        assert {row["verdict"] for row in reconciler.report().rows()} == {"agrees"}


def test_processes_of_another_operator(shared: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """What another operator is answered says nothing of our bets."""
    monkeypatch.setenv("GAME_OPERATOR_ID", "another")
    reconciler = Reconciler(shared.client, shared.wallet, **QUICK)
    with (
        ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool,
        pytest.raises(ConfigurationError, match="names the operator 'another'"),
    ):
        reconciler.run(executor=pool)
    assert reconciler.run().verdicts["settle"].bets == LOST, "the run goes on without it"


class _Lost(Executor):
    """An executor that reports a dead worker."""

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_exception(RuntimeError("the worker is gone"))
        return future


def test_an_executor_that_fails(shared: World) -> None:
    """What it raises passes through, and the run goes on without it."""
    reconciler = Reconciler(shared.client, shared.wallet, **QUICK)
    with pytest.raises(RuntimeError, match="the worker is gone"):
        reconciler.run(executor=_Lost(), **REPAIR)
    reconciler.run(**REPAIR)
    shared.check(reconciler)


@pytest.mark.torture
def test_dask_with_a_killed_worker(shared: World) -> None:
    """A local cluster of two processes; one is killed in the middle: every bet is judged once, and settled once."""
    from distributed import Client, LocalCluster

    local: Any = LocalCluster  # Dask has no types.
    dask: Any = Client
    reconciler = Reconciler(shared.client, shared.wallet, **QUICK | {"rate_per_second": 10.0})
    with (
        local(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=50) as cluster,
        dask(cluster) as client,
        ThreadPoolExecutor(1) as beside,
    ):
        victim = next(iter(client.run(os.getpid).values()))
        done = beside.submit(reconciler.run, executor=client.get_executor(), **REPAIR)
        time.sleep(1)
        assert not done.done()
        os.kill(victim, signal.SIGKILL)
        done.result(timeout=90)
        shared.check(reconciler)


# --- killed -----------------------------------------------------------------------------------------------------------


def _reconcile(begun: Event, url: str, base_url: str, operator_id: str, key: str) -> None:
    """Reconcile with repair, in a process: with a second's lease, and looks that are slow enough to be killed in."""
    with OperatorClient(base_url, operator_id, Path(key)) as client, SqlLedger(url) as ledger:
        reconciler = Reconciler(
            client,
            Wallet(ledger),
            min_age=timedelta(0),
            second_look=timedelta(milliseconds=300),
            rate_per_second=60.0,
            sample=1.0,
            lease=timedelta(seconds=1),
        )
        begun.set()
        reconciler.run(**REPAIR)


def _started(world: World) -> Any:
    context = worker_context()
    begun = context.Event()
    process = context.Process(target=_reconcile, args=(begun, *world.arguments), daemon=True)
    process.start()
    assert begun.wait(60)
    return process


def _killed(world: World, *, kills: int, seed: int) -> None:
    """Kill processes at work, let the last ones end, and assert that each bet was judged and settled once."""
    random, workers = random_of(seed), 1 if is_sqlite(world.url) else 2
    running: list[Any] = []
    at_work = 0
    for _ in range(kills):
        while len(running) < workers:
            running.append(_started(world))
        time.sleep(random.uniform(0.0, 0.5))
        victim = running.pop(random.randrange(len(running)))
        at_work += victim.is_alive()
        victim.kill()
        victim.join()
    running += [_started(world) for _ in range(workers - len(running))]
    for process in running:
        process.join(60)
    assert [process.exitcode for process in running] == [0] * workers
    _check_runs(world)
    assert at_work, "nothing was killed while it worked"


def _check_runs(world: World) -> None:
    """Assert that each bet was settled in one of the runs, once, and that each run judged each bet."""
    url = world.url
    assert world.ledger.balance("p1") == world.due
    assert world.ledger.verify().findings == ()
    assert all(bet.state.value == "CLOSED" for bet in world.ledger.bets())
    settled = Counter(row[0] for row in rows(url, "SELECT key FROM {p}items WHERE state = 'settled'"))
    assert settled == Counter(world.lost.keys())
    runs = rows(url, "SELECT id, state, moved_count, moved_cents FROM {p}runs ORDER BY id")
    assert {row[1] for row in runs} == {"finished"}
    assert (sum(row[2] for row in runs), sum(row[3] for row in runs)) == (LOST, world.owed)
    for run_id, *_ in runs:
        verdicts = Counter(row[0] for row in rows(url, "SELECT state FROM {p}items WHERE run_id = ?", run_id))
        assert sum(verdicts.values()) == BETS
        assert set(verdicts) <= {"agrees", "settled"}
    assert rows(url, "SELECT COUNT(*) FROM {p}chunks WHERE state <> 'done'") == [(0,)]
    assert rows(url, "SELECT COUNT(*) FROM {p}findings") == [(0,)]
    assert_idle(url, sessions=5)


@pytest.mark.drawn(1)
def test_killed_while_reconciling(world: World) -> None:
    """Twice; on PostgreSQL another process is at work beside it."""
    _killed(world, kills=2, seed=1)


@pytest.mark.torture
@pytest.mark.timeout(1_800)
def test_killed_50_times(world: World) -> None:
    """Fifty times."""
    _killed(world, kills=50, seed=2)
