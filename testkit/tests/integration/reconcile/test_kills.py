"""Processes that reconcile with repair, killed at random moments: each bet is settled once, and none is left."""

import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from decimal import Decimal
from pathlib import Path

import pytest

from game_operator.ledger import SqlLedger
from game_operator.wallet import Wallet
from game_operator.webhooks import RsaSignature, WebhookReceiver, wsgi_app
from game_operator_testkit.sandbox import Sandbox
from tests.support.leftovers import assert_idle
from tests.support.raw_sql import rows
from tests.support.reconcile_factory import DATABASE
from tests.support.seeds import random_of
from tests.support.servers import wsgi_server

pytestmark = [pytest.mark.outside, pytest.mark.timeout(120)]

#: So many processes work at once: on SQLite one alone.
WORKERS = {"sqlite": 1, "postgres": 2}


@pytest.fixture
def url(database_url: str) -> str:
    """An empty database of each kind."""
    return database_url


class Process:
    """A process that reconciles."""

    def __init__(self, log: Path) -> None:
        with log.open("ab") as errors:
            command = [sys.executable, "-m", "tests.support.reconcile_process"]
            self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors)
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"begun\n", log.read_text()[-2_000:]

    def kill(self) -> bool:
        """Kill it, in the middle of whatever it does; return whether it was at work."""
        was_at_work = self._process.poll() is None
        self._process.kill()
        self._bury()
        return was_at_work

    def end(self, seconds: float) -> int:
        """Wait for its end and return its status."""
        self._process.wait(seconds)
        return self._bury()

    def _bury(self) -> int:
        status = self._process.wait(10)
        assert self._process.stdout is not None
        self._process.stdout.close()
        return status


@pytest.fixture
def lost(url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[dict[str, int]]:
    """Bets whose deposits were lost, with what they won; a service and a wallet that processes find by environment."""
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
        monkeypatch.setenv("GAME_OPERATOR_BASE_URL", sandbox.base_url)
        monkeypatch.setenv("GAME_OPERATOR_ID", sandbox.operator_id)
        monkeypatch.setenv("GAME_OPERATOR_PRIVATE_KEY_FILE", str(private))
        monkeypatch.setenv(DATABASE, url)
        yield bets


def killed(url: str, lost: dict[str, int], log: Path, *, kills: int, seed: int) -> str:
    """Kill processes at work, let the last ones end, and assert that each bet was judged and settled once."""
    random, workers = random_of(seed), WORKERS[url.partition(":")[0].removesuffix("ql")]
    with SqlLedger(url) as ledger:
        before = ledger.balance("p1")
    running: list[Process] = []
    at_work = 0
    for _ in range(kills):
        while len(running) < workers:
            running.append(Process(log))
        time.sleep(random.uniform(0.0, 0.5))
        at_work += running.pop(random.randrange(len(running))).kill()
    running += [Process(log) for _ in range(workers - len(running))]
    assert [each.end(60) for each in running] == [0] * workers, log.read_text()[-2_000:]
    _check(url, lost, before)
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
def test_killed_while_reconciling(url: str, lost: dict[str, int], tmp_path: Path) -> None:
    """Twice; on PostgreSQL another process is at work beside it."""
    killed(url, lost, tmp_path / "log", kills=2, seed=1)


@pytest.mark.torture
@pytest.mark.timeout(1_800)
def test_killed_50_times(url: str, lost: dict[str, int], tmp_path: Path) -> None:
    """Fifty times."""
    killed(url, lost, tmp_path / "log", kills=50, seed=2)
