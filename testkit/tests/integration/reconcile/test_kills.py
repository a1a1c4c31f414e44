"""Processes that reconcile with repair, killed at random moments: each bet is settled once, and none is left."""

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import timedelta
from decimal import Decimal
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from game_operator import OperatorClient
from game_operator.backoffice.reconcile.reconciler import Reconciler
from game_operator.ledger import SqlLedger
from game_operator.wallet import Wallet
from game_operator.webhooks import RsaSignature, WebhookReceiver, wsgi_app
from game_operator_testkit.sandbox import Sandbox
from testkit.tests.support.reconciling import REPAIR
from tests.support.crowds import worker_context
from tests.support.leftovers import assert_idle
from tests.support.raw_sql import rows
from tests.support.seeds import random_of
from tests.support.servers import wsgi_server

pytestmark = [pytest.mark.outside, pytest.mark.timeout(120)]

#: So many processes work at once: on SQLite one alone.
WORKERS = {"sqlite": 1, "postgres": 2}


@pytest.fixture
def url(database_url: str) -> str:
    """An empty database of each kind."""
    return database_url


class Lost(NamedTuple):
    """Bets whose deposits were lost, with what they won; and what a process needs to reconcile them."""

    bets: dict[str, int]
    arguments: tuple[str, ...]


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


def _started(lost: Lost) -> Any:
    context = worker_context()
    begun = context.Event()
    process = context.Process(target=_reconcile, args=(begun, *lost.arguments), daemon=True)
    process.start()
    assert begun.wait(60)
    return process


@pytest.fixture
def lost(url: str, tmp_path: Path) -> Iterator[Lost]:
    """A service that has lost deposits, and its wallet."""
    with ExitStack() as stack:
        ledger = stack.enter_context(SqlLedger(url))
        ledger.open_account("p1", Decimal("1000.00"))
        sandbox = stack.enter_context(Sandbox())
        key, private = tmp_path / "service.pub.pem", tmp_path / "operator.pem"
        key.write_bytes(sandbox.service_public_key_pem)
        private.write_bytes(sandbox.private_key_pem)
        receiver = WebhookReceiver(authenticator=RsaSignature([key]))
        port = stack.enter_context(wsgi_server(wsgi_app(receiver, Wallet(ledger))))
        sandbox.wallet_url = f"http://127.0.0.1:{port}"
        bets = {}
        for number in range(60):
            played = sandbox.play_round(
                player_id="p1", wager_cents=100, won_cents=150 + number, settlement="lose" if number % 3 else "send"
            )
            bets[played.bet_ids[0]] = 150 + number if number % 3 else 0
        yield Lost(bets, (url, sandbox.base_url, sandbox.operator_id, str(private)))


def killed(url: str, lost: Lost, *, kills: int, seed: int) -> str:
    """Kill processes at work, let the last ones end, and assert that each bet was judged and settled once."""
    random, workers = random_of(seed), WORKERS[url.partition(":")[0].removesuffix("ql")]
    with SqlLedger(url) as ledger:
        before = ledger.balance("p1")
    running: list[Any] = []
    at_work = 0
    for _ in range(kills):
        while len(running) < workers:
            running.append(_started(lost))
        time.sleep(random.uniform(0.0, 0.5))
        victim = running.pop(random.randrange(len(running)))
        at_work += victim.is_alive()
        victim.kill()
        victim.join()
    running += [_started(lost) for _ in range(workers - len(running))]
    for process in running:
        process.join(60)
    assert [process.exitcode for process in running] == [0] * workers
    _check(url, lost.bets, before)
    assert at_work, "nothing was killed while it worked"
    return f"{url.partition(':')[0]}, {kills} kills, {at_work} of them at work"


def _check(url: str, lost: dict[str, int], before: int) -> None:
    owed = sum(lost.values())
    with SqlLedger(url) as ledger:
        assert ledger.balance("p1") == before + owed
        assert ledger.verify().findings == ()
        assert all(bet.state.value == "CLOSED" for bet in ledger.bets())
    # Each was settled in one of the runs, once; and in each run that ended each bet was judged.
    settled = Counter(row[0] for row in rows(url, "SELECT key FROM {p}items WHERE state = 'settled'"))
    assert settled == Counter({bet: 1 for bet, cents in lost.items() if cents})
    runs = rows(url, "SELECT id, state, moved_count, moved_cents FROM {p}runs ORDER BY id")
    assert {row[1] for row in runs} == {"finished"}
    assert (sum(row[2] for row in runs), sum(row[3] for row in runs)) == (len(settled), owed)
    for run_id, *_ in runs:
        verdicts = Counter(row[0] for row in rows(url, "SELECT state FROM {p}items WHERE run_id = ?", run_id))
        assert sum(verdicts.values()) == len(lost)
        assert set(verdicts) <= {"agrees", "settled"}
    assert rows(url, "SELECT COUNT(*) FROM {p}chunks WHERE state <> 'done'") == [(0,)]
    assert rows(url, "SELECT COUNT(*) FROM {p}findings") == [(0,)]
    assert_idle(url, sessions=5)


@pytest.mark.drawn(1)
def test_killed_while_reconciling(url: str, lost: Lost) -> None:
    """Twice; on PostgreSQL another process is at work beside it."""
    killed(url, lost, kills=2, seed=1)


@pytest.mark.torture
@pytest.mark.timeout(1_800)
def test_killed_50_times(url: str, lost: Lost) -> None:
    """Fifty times."""
    killed(url, lost, kills=50, seed=2)
