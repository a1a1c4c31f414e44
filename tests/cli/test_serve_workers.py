"""`game-operator serve --workers`: worker processes behind one port, and the probes of load balancers."""

import asyncio
import json
import logging
import os
import re
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pytest

from game_operator import BalanceCall, WithdrawCall
from game_operator.cli.errors import StoppedError
from game_operator.cli.keys import KeyFiles
from game_operator.cli.worker_processes import Supervisor
from game_operator.ledger import SqlLedger
from game_operator.protocol.webhook_reply import read_reply
from game_operator.provider.caller import WebhookCaller
from game_operator.sandbox import Sandbox
from tests.cli.support import Forked, Run, started, stopped
from tests.support.raw_sql import damage
from tests.support.servers import RawClient, request_bytes

pytestmark = pytest.mark.outside

BODY = b'{"player_id":"p1"}'
BALANCE = BalanceCall(player_id="p1")
PATIENCE_SECONDS = 30.0


@contextmanager
def serving(*args: object, **environ: str) -> Iterator[tuple[str, Forked]]:
    """Start ``game-operator serve`` on a free port, and yield where it answers."""
    with started("serve", "--port", "0", "--json", *map(str, args), **environ) as process:
        try:
            assert process.stdout is not None
            yield json.loads(process.stdout.readline())["url"], process
        finally:
            process.kill()


def workers_of(process: Forked) -> list[int]:
    text = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
    return [int(pid) for pid in text.split()]


def wait_until(is_so: Callable[[], object]) -> None:
    give_up = time.monotonic() + PATIENCE_SECONDS
    while not is_so():
        assert time.monotonic() < give_up
        time.sleep(0.02)


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
        f"Worker {first} was killed by signal 9. Another one takes its place.",
        "A rolling restart of 1 workers begins.",
        "The rolling restart has ended: all workers are new.",
    ]
    assert not any(Path(f"/proc/{pid}").exists() for pid in last)
    assert not is_listening(url)


@pytest.mark.torture
def test_what_is_seen_on_opening_is_said_once(keys: KeyFiles, database: str) -> None:
    """By the supervisor; neither its worker nor its successor repeats it."""
    damage(database, ["UPDATE {p}postings SET at_millis = at_millis + 600000"])
    options = ("--database", database, "--service-key", keys.public, "--workers", 1)
    with serving(*options) as (_, process):
        (first,) = workers_of(process)
        os.kill(process.pid, signal.SIGHUP)
        wait_until(lambda: first not in workers_of(process))
        ended = stopped(process, signal.SIGTERM)
    assert ended.err.count("seconds behind the newest posting") == 1


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
    assert "ended with exit code 2 before it took calls." in ended.err
    assert "The rolling restart ends here: the workers that are left go on." in ended.err


@pytest.mark.torture
def test_workers_end_when_their_supervisor_is_killed(keys: KeyFiles, postgres_url: str) -> None:
    """All of them, and the port is free: nothing but the pipe between them says that it is gone."""
    with SqlLedger(postgres_url) as ledger:
        ledger.open_account("p1", Decimal("100.00"))
    options = ("--database", postgres_url, "--service-key", keys.public, "--workers", 2)
    with serving(*options) as (url, process):
        wait_until(lambda: len(workers_of(process)) == 2)
        workers = workers_of(process)
        assert balance(url, keys) == (200, None)
        process.kill()
        process.wait()
        wait_until(lambda: not is_listening(url))
        wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in workers))


@pytest.mark.torture
@pytest.mark.parametrize("workers", [None, 1])
def test_it_drains_before_it_stops(keys: KeyFiles, database: str, workers: int | None) -> None:
    """After SIGTERM it goes on for --drain-seconds, and /readyz says that it will stop."""
    options = ["--database", database, "--service-key", keys.public, "--drain-seconds", 1.5]
    if workers is not None:
        options += ["--workers", workers]
    with serving(*options) as (url, process):
        assert probe(url)[0] == 200
        process.terminate()
        wait_until(lambda: probe(url)[0] == 503)
        assert probe(url)[1]["status"] == "draining"
        assert probe(url, "/healthz")[0] == 200
        assert balance(url, keys) == (200, None)
        assert process.wait(PATIENCE_SECONDS) == 0


@pytest.mark.torture
def test_without_workers_it_drains_no_longer(keys: KeyFiles, database: str) -> None:
    """Where SIGTERM goes to all processes of a service, callers are refused at once, and do not wait in the queue."""
    options = ("--database", database, "--service-key", keys.public, "--drain-seconds", 60, "--workers", 1)
    with serving(*options) as (_, process):
        for pid in (process.pid, *workers_of(process)):
            os.kill(pid, signal.SIGTERM)
        assert process.wait(PATIENCE_SECONDS) == 0


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


@pytest.mark.torture
def test_a_second_signal_waits_for_nobody(keys: KeyFiles, database: str) -> None:
    """Ctrl-C twice ends it in the middle of its drain."""
    options = ("--database", database, "--service-key", keys.public, "--drain-seconds", 60)
    for more in ((), ("--workers", 1)):
        with serving(*options, *more) as (url, process):
            process.send_signal(signal.SIGINT)
            wait_until(lambda: probe(url)[0] == 503)
            process.send_signal(signal.SIGINT)
            assert process.wait(PATIENCE_SECONDS) == 0


def test_probes_a_currency_and_a_gentle_stop(keys: KeyFiles, database: str) -> None:
    """Probes are at the root and no webhooks; bets have a currency; when it stops, connections end with an answer."""
    with WebhookCaller("http://127.0.0.1:1", keys.private) as service:
        whole = request_bytes("/wallet/player-balance", BODY, {"Signature": service.signature(BODY).decode()})
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
    assert probe(url, "/readyz", "POST")[0] == 405
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


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        pytest.param(("--workers", 2), "--workers 2 needs PostgreSQL. SQLite takes one writer at a time", id="SQLite"),
        pytest.param(("--workers", 0), "--workers", id="none"),
        pytest.param(("--drain-seconds", -1), "--drain-seconds", id="back in time"),
        pytest.param(("--currency", "EUR€"), "--currency 'EUR€' is not a code", id="no code"),
        pytest.param(("--currency", "X" * 17), "is not a code of 1 to 16 letters", id="too long a code"),
        pytest.param(("--catalogue", "--currency", "EUR"), "it excludes --instances and --currency", id="two sources"),
        pytest.param(("--catalogue", "--instances", "i1"), "it excludes --instances and --currency", id="two lists"),
        pytest.param(("--catalogue",), "Missing or empty: --base-url", id="no service"),
    ],
)
def test_what_cannot_be_served(
    run: Run, keys: KeyFiles, database: str, monkeypatch: pytest.MonkeyPatch, args: tuple[object, ...], problem: str
) -> None:
    """One sentence and exit code 2."""
    for name in [name for name in os.environ if name.startswith("GAME_OPERATOR_")]:
        monkeypatch.delenv(name)
    ended = run("serve", "--database", database, "--service-key", keys.public, "--port", 0, *args)
    assert (ended.code, ended.out) == (2, "")
    assert problem in ended.err


@pytest.mark.torture
def test_it_follows_the_games(keys: KeyFiles, database: str) -> None:
    """With --catalogue an instance of the service is accepted, in its currency; another operator's is not."""
    with Sandbox() as sandbox:
        settings = {
            "GAME_OPERATOR_BASE_URL": sandbox.base_url,
            "GAME_OPERATOR_ID": sandbox.operator_id,
            "GAME_OPERATOR_PRIVATE_KEY": sandbox.private_key_pem.decode(),
        }
        options = ("--database", database, "--service-key", keys.public, "--catalogue")
        with serving(*options, **settings) as (url, process), WebhookCaller(url, keys.private) as service:

            def code(bet_id: str, instance_id: str) -> str | None:
                bet = WithdrawCall(player_id="p1", bet_id=bet_id, amount_cents=500, instance_id=instance_id)
                return service.send(bet).code

            wait_until(lambda: code("b1", sandbox.instance_id) is None)
            # For good, if no list was asked for in the last minute.
            assert code("b2", "another") in ("SYSTEM_ERROR", "INVALID_REQUEST")
            assert stopped(process, signal.SIGTERM).code == 0
        with sandbox.client() as client:
            instances = [instance for game in client.fetch_games() for instance in game.instances]
        (currency,) = {each.bet_config.currency for each in instances if each.id == sandbox.instance_id}
    with SqlLedger(database) as ledger:
        bet = ledger.bet("b1")
        assert bet is not None
        assert bet.currency == currency


READY = "import os, socket; link = socket.socket(fileno=int(os.environ['GAME_OPERATOR_SERVE_WORKER'].split(',')[1]));"


def supervised(
    monkeypatch: pytest.MonkeyPatch, program: str, *, stop_after: float = 60.0, count: int = 1
) -> tuple[float, int]:
    """Let a supervisor run *program* as its workers; return how long it took, and how often it announced."""
    monkeypatch.setattr(sys, "orig_argv", ["python", "-I", "-S", "-c", program])
    for name, seconds in (("_GRACE_SECONDS", 0.1), ("_START_SECONDS", 0.5), ("_LEAST_PAUSE", 0.1)):
        monkeypatch.setattr(f"game_operator.cli.worker_processes.{name}", seconds)
    announced: list[bool] = []

    async def run(listener: socket.socket) -> None:
        supervisor = Supervisor(count, listener, lambda: announced.append(True), drain_seconds=0, stop_seconds=0.1)
        asyncio.get_running_loop().call_later(stop_after, os.kill, os.getpid(), signal.SIGTERM)
        await supervisor.run()

    began = time.monotonic()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        asyncio.run(run(listener))
    return time.monotonic() - began, len(announced)


def test_none_ever_ready_is_3(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """Whether they end or hang; nothing is announced."""
    with pytest.raises(StoppedError, match="3") as ended:
        supervised(monkeypatch, "raise SystemExit(7)")
    assert (ended.value.code, ended.value.name) == (3, "WorkersEnded")
    assert caplog.text.count("ended with exit code 7 before it took calls.") == 4


def test_a_worker_that_dies_at_once_waits_longer_each_time(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """At once the first time, then after 0.1, 0.2 and 0.4 s here: never in a busy loop."""
    slept: list[float] = []
    sleep, thread = asyncio.sleep, threading.get_ident()

    async def noted(seconds: float) -> None:
        # Servers of other tests may still run in threads of their own.
        if threading.get_ident() == thread:
            slept.append(seconds)
        await sleep(seconds)

    monkeypatch.setattr(asyncio, "sleep", noted)
    _, announced = supervised(monkeypatch, f"{READY} link.send(b'r')", stop_after=2.0)
    deaths = [record.created for record in caplog.records if "takes its place" in record.getMessage()]
    assert announced == 1
    assert 3 <= len(deaths) <= 6
    # How long a process takes to start and to die differs each time.
    assert slept[:3] == [0.0, 0.1, 0.2]


def test_a_worker_that_does_not_stop_is_killed(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """After its time, so that the end is bounded."""
    program = f"{READY} link.send(b'r'); import time; time.sleep(60)"
    took, announced = supervised(monkeypatch, program, stop_after=0.5, count=2)
    assert announced == 1
    assert took < PATIENCE_SECONDS
    assert "did not stop within" in caplog.text


def test_a_worker_that_never_gets_ready_is_killed(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """One that hangs at its start counts as one that has ended."""
    caplog.set_level(logging.ERROR)
    supervised(monkeypatch, "import time; time.sleep(60)", stop_after=1.0)
    assert "was killed by signal 9 before it took calls." in caplog.text
