"""A reconciliation that many workers share: threads, processes, and Dask with a worker that is killed."""

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
from pathlib import Path
from typing import Any

import pytest

from game_operator.backoffice.reconcile.reconciler import Reconciler
from game_operator.errors import ConfigurationError
from game_operator.ledger import SqlLedger
from game_operator.wallet import Wallet
from game_operator.webhooks import RsaSignature, WebhookReceiver, wsgi_app
from game_operator_testkit.sandbox import Sandbox
from testkit.tests.support.reconciling import REPAIR
from tests.support.servers import wsgi_server

pytestmark = [pytest.mark.outside, pytest.mark.timeout(120)]

BETS = 24
QUICK: dict[str, Any] = {
    "min_age": timedelta(0),
    "second_look": timedelta(0),
    "rate_per_second": 5_000.0,
    "sample": 0.0,
    "lease": timedelta(seconds=2),
}


class World:
    """A service, a wallet, and bets whose deposits were lost."""

    def __init__(self, url: str, stack: ExitStack, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        self.ledger = stack.enter_context(SqlLedger(url))
        self.ledger.open_account("p1", Decimal("1000.00"))
        self.wallet = Wallet(self.ledger)
        sandbox = stack.enter_context(Sandbox())
        key = folder / "service.pub.pem"
        key.write_bytes(sandbox.service_public_key_pem)
        receiver = WebhookReceiver(authenticator=RsaSignature([key]))
        port = stack.enter_context(wsgi_server(wsgi_app(receiver, self.wallet)))
        sandbox.wallet_url = f"http://127.0.0.1:{port}"
        for number in range(BETS):
            sandbox.play_round(player_id="p1", wager_cents=100, won_cents=150 + number, settlement="lose")
        self.client = stack.enter_context(sandbox.client())
        self.won_cents = sum(150 + number for number in range(BETS))
        private = folder / "operator.pem"
        private.write_bytes(sandbox.private_key_pem)
        monkeypatch.setenv("GAME_OPERATOR_BASE_URL", sandbox.base_url)
        monkeypatch.setenv("GAME_OPERATOR_ID", sandbox.operator_id)
        monkeypatch.setenv("GAME_OPERATOR_PRIVATE_KEY_FILE", str(private))

    def check(self, reconciler: Reconciler) -> None:
        """Assert that each bet was judged once and settled once."""
        report = reconciler.report()
        assert report.run.state == "finished"
        assert Counter(row["verdict"] for row in report.rows()) == {"settled": BETS}
        assert (report.repaired.bets, report.repaired.total_cents) == (BETS, self.won_cents)
        assert report.run.moved_count == BETS
        assert self.ledger.balance("p1") == 100_000 - 100 * BETS + self.won_cents
        assert self.ledger.verify().findings == ()


@pytest.fixture
def world(postgres_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[World]:
    """A world on PostgreSQL, which processes share."""
    with ExitStack() as stack:
        yield World(postgres_url, stack, monkeypatch, tmp_path)


@pytest.mark.parametrize("workers", [1, 4])
@pytest.mark.drawn(1)
def test_threads(world: World, workers: int) -> None:
    """They share one client."""
    reconciler = Reconciler(world.client, world.wallet, **QUICK)
    with ThreadPoolExecutor(workers) as pool:
        reconciler.run(executor=pool, **REPAIR)
    world.check(reconciler)


def test_processes(world: World) -> None:
    """Each makes a client from its environment, once, and needs neither the ledger nor the key of this one."""
    reconciler = Reconciler(world.client, world.wallet, **QUICK)
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        reconciler.run(executor=pool, **REPAIR)
        world.check(reconciler)
        reconciler.run(executor=pool)
        assert {row["verdict"] for row in reconciler.report().rows()} == {"agrees"}


def test_processes_of_another_operator(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """What another operator is answered says nothing of our bets."""
    monkeypatch.setenv("GAME_OPERATOR_ID", "another")
    reconciler = Reconciler(world.client, world.wallet, **QUICK)
    with (
        ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool,
        pytest.raises(ConfigurationError, match="names the operator 'another'"),
    ):
        reconciler.run(executor=pool)
    assert reconciler.run().verdicts["settle"].bets == BETS, "the run goes on without it"


class _Lost(Executor):
    """An executor that reports a dead worker."""

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_exception(RuntimeError("the worker is gone"))
        return future


def test_an_executor_that_fails(world: World) -> None:
    """What it raises passes through, and the run goes on without it."""
    reconciler = Reconciler(world.client, world.wallet, **QUICK)
    with pytest.raises(RuntimeError, match="the worker is gone"):
        reconciler.run(executor=_Lost(), **REPAIR)
    reconciler.run(**REPAIR)
    world.check(reconciler)


@pytest.mark.torture
def test_dask_with_a_killed_worker(world: World) -> None:
    """A local cluster of two processes; one is killed in the middle: every bet is judged once, and settled once."""
    from distributed import Client, LocalCluster

    local: Any = LocalCluster  # Dask has no types.
    dask: Any = Client
    reconciler = Reconciler(world.client, world.wallet, **QUICK | {"rate_per_second": 10.0})
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
        world.check(reconciler)
