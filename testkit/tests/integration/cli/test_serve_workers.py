"""`game-operator serve --workers`: worker processes behind one port, and the probes of load balancers."""

import json
import os
import re
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import psycopg
import pytest
from uvicorn.supervisors.multiprocess import Multiprocess

from game_operator import BalanceCall, WithdrawCall
from game_operator.cli.keys import KeyFiles
from game_operator.cli.serving import Supervisor
from game_operator.ledger import SqlLedger
from game_operator_testkit.provider.caller import WebhookCaller
from game_operator_testkit.provider.replies import read_reply
from testkit.tests.integration.cli.conftest import BODY
from tests.support.command_line import Forked, serving, stopped
from tests.support.servers import RawClient, request_bytes
from tests.support.times import wait_until
from tests.support.wallet_process import workers_of as children_that_answer

pytestmark = pytest.mark.outside

BALANCE = BalanceCall(player_id="p1")
PATIENCE_SECONDS = 30.0


def workers_of(process: Forked) -> list[int]:
    return children_that_answer(process.pid)


def probe(url: str, path: str = "/readyz", method: str = "GET") -> tuple[int, Any]:
    """Ask a path at the root of the server, over a connection of its own."""
    with RawClient(int(re.sub(r"\D*//[^:]+:(\d+).*", r"\1", url))) as client:
        client.send(request_bytes(path, b"", {"Connection": "close"}, method=method, length=None))
        status, _, body = client.reply(has_body=method != "HEAD")
    return status, json.loads(body) if body else None


def balance(url: str, keys: KeyFiles) -> tuple[int, str | None]:
    with WebhookCaller(url, keys.private) as service:
        delivery = service.send(BALANCE)
        return delivery.status, delivery.code


def is_listening(url: str) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2]))):
        return True
    return False


@pytest.mark.torture
def test_workers_are_replaced_when_they_die_and_stop_together(keys: KeyFiles, database: str) -> None:
    """A worker that is killed has a successor at the same port; after SIGTERM nothing is left."""
    options = ("--database", database, "--service-key", keys.public, "--workers", 1)
    with serving(*options) as (url, process):
        (first,) = workers_of(process)
        assert balance(url, keys) == (200, None)
        os.kill(first, signal.SIGKILL)
        wait_until(lambda: workers_of(process) not in ([], [first]))
        assert balance(url, keys) == (200, None)  # It waits in the queue of the port until the worker is ready.
        (second,) = workers_of(process)
        os.kill(process.pid, signal.SIGHUP)
        wait_until(lambda: second not in workers_of(process))
        assert balance(url, keys) == (200, None)
        last = workers_of(process)
        ended = stopped(process, signal.SIGTERM)
    assert (ended.code, ended.out) == (0, "")
    assert [line.partition("serve: ")[2] for line in ended.err.splitlines()] == [
        f"Worker {first} ended with exit code -9. Another one takes its place.",
        "The rolling restart has ended: all workers are new.",
    ]
    assert not any(Path(f"/proc/{pid}").exists() for pid in last)
    assert not is_listening(url)


@pytest.mark.torture
def test_a_worker_that_cannot_begin_ends_the_rolling_restart(tmp_path: Path, keys: KeyFiles, database: str) -> None:
    """The old one goes on, with what it has read; when the fault is removed, the next restart succeeds."""
    key = tmp_path / "service.pub.pem"
    key.write_bytes(keys.public.read_bytes())
    with serving("--database", database, "--service-key", key, "--workers", 1) as (url, process):
        old = workers_of(process)
        key.rename(tmp_path / "away.pem")
        os.kill(process.pid, signal.SIGHUP)
        wait_until(lambda: len(workers_of(process)) == 2)
        wait_until(lambda: len(workers_of(process)) == 1)
        assert workers_of(process) == old
        assert balance(url, keys) == (200, None)
        (tmp_path / "away.pem").rename(key)
        os.kill(process.pid, signal.SIGHUP)
        wait_until(lambda: not set(old) & set(workers_of(process)))
        assert balance(url, keys) == (200, None)
        ended = stopped(process, signal.SIGINT)
    assert ended.code == 0
    assert re.search(rf"This process cannot serve: --service-key: '{key}' cannot be read: No such file", ended.err)
    assert f"keeping worker [{old[0]}] and aborting the restart." in ended.err


@pytest.mark.torture
def test_trouble_of_the_database_takes_no_successor_out(keys: KeyFiles, postgres_url: str) -> None:
    """A worker that begins without its database, in the place of one that served, is ready and answers."""
    with SqlLedger(postgres_url) as ledger:
        ledger.open_account("p1", Decimal("100.00"))
    name = postgres_url.partition("///")[2].partition("?")[0]
    with (
        serving("--database", postgres_url, "--service-key", keys.public, "--workers", 1) as (url, process),
        psycopg.connect(postgres_url.replace(name, "postgres", 1), autocommit=True) as server,
    ):
        (first,) = workers_of(process)
        server.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false".encode())
        server.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", (name,))
        os.kill(first, signal.SIGKILL)
        wait_until(lambda: workers_of(process) not in ([], [first]))
        status, found = probe(url)
        assert (status, found["status"], found["database"]) == (200, "ready", "unavailable")
        assert balance(url, keys) == (200, "SYSTEM_ERROR")
        server.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true".encode())
        wait_until(lambda: balance(url, keys) == (200, None))


def test_sigterm_that_comes_twice_is_meant_once(keys: KeyFiles, database: str) -> None:
    """As ``timeout`` sends it: the worker goes on for its drain, and nobody is killed."""
    options = ("--database", database, "--service-key", keys.public, "--drain-seconds", 1.5, "--workers", 1)
    with serving(*options) as (url, process):
        process.send_signal(signal.SIGTERM)
        wait_until(lambda: probe(url)[0] == 503)
        ended = stopped(process, signal.SIGTERM)
    assert (process.wait(PATIENCE_SECONDS), "killed" in ended.err) == (0, False), ended.err


def test_probes_a_currency_and_a_gentle_stop(keys: KeyFiles, database: str, signed_head: dict[str, str]) -> None:
    """Probes are at the root and no webhooks; bets have a currency; when it stops, connections end with an answer."""
    whole = request_bytes("/wallet/player-balance", BODY, signed_head)
    bet = WithdrawCall(player_id="p1", bet_id="b1", amount_cents=500, instance_id="i1")
    options = ("--database", database, "--service-key", keys.public, "--prefix", "/wallet", "--currency", "EUR")
    with serving(*options) as (url, process), WebhookCaller(url, keys.private) as service:
        assert service.send(bet).code is None
        _check_probes(url)
        _check_stop(int(url.removesuffix("/wallet").rpartition(":")[2]), whole, process)
        assert process.wait(PATIENCE_SECONDS) == 0
    with SqlLedger(database) as ledger:
        rows = [row for row in ledger.totals(by=("currency",)).rows if row.wagers]
    assert [(row.currency, row.wagers_cents) for row in rows] == [("EUR", 500)]


def _check_probes(url: str) -> None:
    status, document = probe(url)
    assert document.pop("database_latency_millis") > 0
    ready = {"status": "ready", "database": "ok", "clock": "ok", "clock_difference_millis": 0}
    assert (status, document) == (200, ready)
    assert probe(url, "/healthz") == (200, {"status": "alive"})
    assert probe(url, "/healthz", "HEAD") == (200, None)
    assert probe(url, "/readyz", "POST")[0] == 404
    assert probe(url, "/wallet/healthz")[0] == 404


def _check_stop(port: int, whole: bytes, process: Forked) -> None:
    """A request that comes in the last moment is answered, and so is one that was half there; idle ones are closed."""
    with RawClient(port) as kept, RawClient(port) as half, RawClient(port) as idle:
        for client in (kept, idle):
            client.send(whole)
            assert client.reply()[1].get("connection") is None
        half.send(whole[:40])
        process.terminate()
        wait_until(lambda: not is_listening(f"http://127.0.0.1:{port}"))
        for client, rest in ((kept, whole), (half, whole[40:])):
            client.send(rest)
            _, headers, body = client.reply()
            assert (headers["connection"], read_reply(body).code) == ("close", None)
            assert client.is_closed()
        assert idle.is_closed()


#: Run by each interpreter that starts, of which the workers are the only ones: what a test wants to be wrong with it.
_IN_WORKERS = """
import os, pathlib, signal, time
from multiprocessing import current_process

folder = pathlib.Path(__file__).parent
signal.signal(signal.SIGUSR2, lambda *_: time.sleep(600))
if (folder / "dies").exists():
    with (folder / "deaths").open("a") as deaths:
        deaths.write("died\\n")
    os._exit(7)
while (folder / "sleeps").exists():
    time.sleep(0.1)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder in which files say what is wrong with workers that begin."""
    folder = tmp_path / "path"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(_IN_WORKERS)
    return folder


@contextmanager
def one_worker(keys: KeyFiles, database: str, folder: Path, *args: object) -> Iterator[tuple[str, Forked]]:
    options = ("--database", database, "--service-key", keys.public, "--workers", 1, *args)
    with serving(*options, PYTHONPATH=str(folder)) as (url, process):
        yield url, process


def test_the_pause_grows_to_half_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    """While each new worker dies at once; after one that lived, the next comes at once."""
    now, looks = 1000.0, list[float]()

    def replace(supervisor: Supervisor) -> None:
        looks.append(now)
        supervisor.processes = [Mock()]

    monkeypatch.setattr("game_operator.cli.serving.time", Mock(monotonic=lambda: now))
    monkeypatch.setattr(Multiprocess, "keep_subprocess_alive", replace)
    supervisor = Supervisor.__new__(Supervisor)
    supervisor.processes = [Mock()]
    while len(looks) < 10:
        supervisor.keep_subprocess_alive()
        now += 0.5
    assert [after - before for before, after in pairwise(looks)] == [0.5, 0.5, 1, 2, 4, 8, 16, 30, 30]
    now += 60
    for _ in range(2):
        supervisor.keep_subprocess_alive()
        now += 0.5
    assert looks[-1] - looks[-2] == 0.5


@pytest.mark.torture
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_during_a_replacement_ends_all(
    keys: KeyFiles, database: str, folder: Path, number: signal.Signals
) -> None:
    """While the supervisor waits for a worker that begins; both end at once, as does the port."""
    with one_worker(keys, database, folder) as (url, process):
        (folder / "sleeps").touch()
        process.send_signal(signal.SIGHUP)
        wait_until(lambda: len(workers_of(process)) == 2)
        both = workers_of(process)
        assert balance(url, keys) == (200, None)
        began = time.monotonic()
        assert stopped(process, number).code == 0
        assert time.monotonic() - began < 5
    assert not any(Path(f"/proc/{pid}").exists() for pid in both)
    assert not is_listening(url)


@pytest.mark.torture
@pytest.mark.timeout(120)
@pytest.mark.parametrize("how", [signal.SIGSTOP, signal.SIGUSR2], ids=["stopped", "its event loop hangs"])
def test_a_worker_that_hangs_is_killed(keys: KeyFiles, database: str, folder: Path, how: signal.Signals) -> None:
    """When it is replaced and when all stop, after its time: so each end is bounded."""
    with one_worker(keys, database, folder) as (url, process):
        (first,) = workers_of(process)
        os.kill(first, how)
        process.send_signal(signal.SIGHUP)
        wait_until(lambda: first not in workers_of(process))
        (second,) = workers_of(process)
        assert balance(url, keys) == (200, None)
        os.kill(second, how)
        began = time.monotonic()
        ended = stopped(process, signal.SIGTERM)
        assert 15 < time.monotonic() - began < 25
    assert ended.code == 0
    for worker in (first, second):
        assert f"Worker {worker} did not stop, so it is killed." in ended.err
    assert not is_listening(url)
