"""`/healthz` and `/readyz`: what they say, when they say 503, and that they say it quickly and little."""

import asyncio
import json
import os
import socket
import subprocess
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

from game_operator import BalanceCall
from game_operator.cli.serving import Health
from game_operator.errors import LedgerUnavailableError
from game_operator.ledger import PingReport
from game_operator_testkit.provider.caller import WebhookCaller
from tests.support.command_line import COMMAND, clean_environment
from tests.support.hostile_server import Connection, HostileServer
from tests.support.proxy import pump
from tests.support.servers import reply_to, request_bytes

ADDRESS = "postgresql://wallet:pa55@db.example/wallet"
WELL = PingReport(latency_millis=1.5, clock_difference_millis=1_000, writable=True)
ALL_WELL = {"database": "ok", "database_latency_millis": 1.5, "clock": "ok", "clock_difference_millis": 1_000}
AWAY = {
    "database": "unavailable",
    "database_latency_millis": None,
    "clock": "unknown",
    "clock_difference_millis": None,
}


class Looks:
    """A ping that gives reports in turn, the last one for ever, and counts."""

    def __init__(self, *reports: PingReport | None, seconds: float = 0.0) -> None:
        self._reports, self._seconds, self.count = list(reports), seconds, 0

    async def __call__(self) -> PingReport:
        self.count += 1
        await asyncio.sleep(self._seconds)
        report = self._reports.pop(0) if len(self._reports) > 1 else self._reports[0]
        if report is None:
            raise LedgerUnavailableError(f"{ADDRESS} does not answer")
        return report


async def ask(
    health: Health, path: str = "/readyz", method: str = "GET", **scope: Any
) -> tuple[int, dict[bytes, bytes], bytes]:
    """Return status, headers and body."""
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        raise AssertionError("nothing of the request is read")

    async def wallet(*_: object) -> None:
        sent.extend(({"status": 299, "headers": []}, {"body": b"the wallet's"}))

    application: Callable[..., Awaitable[None]] = health.beside(wallet)
    await application({"type": "http", "method": method, "path": path, **scope}, receive, send)
    start, body = sent
    return start["status"], dict(start["headers"]), body["body"]


def read(health: Health, path: str = "/readyz", method: str = "GET") -> tuple[int, dict[str, object]]:
    status, _, body = asyncio.run(ask(health, path, method))
    return status, json.loads(body)


@pytest.mark.parametrize(
    ("report", "found"),
    [
        pytest.param(WELL, ALL_WELL, id="all well"),
        pytest.param(None, AWAY, id="the database is away"),
        pytest.param(
            PingReport(latency_millis=1.5, clock_difference_millis=1_000, writable=True, bets_stopped=True),
            ALL_WELL | {"bets": "stopped"},
            id="bets are stopped",
        ),
        pytest.param(
            PingReport(latency_millis=1.5, clock_difference_millis=1_001, writable=True),
            ALL_WELL | {"clock": "off", "clock_difference_millis": 1_001},
            id="the clock is ahead",
        ),
    ],
)
def test_trouble_is_reported_and_takes_no_machine_out(report: PingReport | None, found: dict[str, object]) -> None:
    """All machines have the same database: with trouble there, /readyz stays 200; no address is in it."""
    health = Health(Looks(report))
    assert read(health) == (200, {"status": "ready", **found})
    assert read(health, "/healthz") == (200, {"status": "alive"})


def test_it_is_not_ready_any_more_when_it_is_about_to_stop() -> None:
    """The balancer sends its next calls elsewhere."""
    health = Health(Looks(WELL))
    assert read(health)[0] == 200
    assert [health.drain(), health.drain()] == [True, False]
    assert read(health) == (503, {"status": "draining", **ALL_WELL})
    assert read(health, "/healthz")[0] == 200


def test_a_flood_is_one_look_in_a_second() -> None:
    """Those who come during a look wait for it, and those after it get what it found, for a second."""
    now = 0.0
    looks = Looks(WELL, None, seconds=0.02)
    health = Health(looks, lambda: now)

    async def flood() -> set[bytes]:
        return {body for _, _, body in await asyncio.gather(*(ask(health) for _ in range(500)))}

    first = asyncio.run(flood())
    now += 0.99
    assert asyncio.run(flood()) == first
    assert (len(first), looks.count) == (1, 1)
    now += 0.02
    assert asyncio.run(flood()) != first
    assert looks.count == 2


class Machine(HostileServer):
    """A database's machine: its socket is reached at a port of this one, by name, until it is broken."""

    def __init__(self, postgres_url: str, folder: Path) -> None:
        super().__init__(self._forward)
        self._address, self._ended = urlsplit(postgres_url), ExitStack()
        self.hosts, self._resolver = folder / "hosts", folder / "resolv.conf"
        self.hosts.write_text("127.0.0.1 localhost database.example\n")
        self._resolver.write_text("nameserver 127.0.0.53\noptions timeout:30\n")

    @property
    def url(self) -> str:
        """The database's address by its name."""
        return f"postgresql://postgres@database.example:{self.port}{self._address.path}"

    def _forward(self, connection: Connection) -> None:
        (host,), (number,) = (parse_qs(self._address.query)[name] for name in ("host", "port"))
        with socket.socket(socket.AF_UNIX) as upstream:
            upstream.connect(f"{host}/.s.PGSQL.{number}")
            pump(connection, upstream)

    def seen_by(self, *command: str) -> list[str]:
        """Return what runs *command* where names are found in our files."""
        mounts = f"mount --bind {self.hosts} /etc/hosts && mount --bind {self._resolver} /etc/resolv.conf"
        return ["unshare", "--mount", "sh", "-c", f'{mounts} && exec "$@"', "sh", *command]

    def drop_packets(self) -> None:
        """Cut all connections, and let nobody through again: the queue is full, and the system drops what comes."""
        self.close()
        listener = self._ended.enter_context(socket.socket())
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", self.port))
        listener.listen(0)
        for _ in range(4):
            each = self._ended.enter_context(socket.socket())
            each.setblocking(False)
            each.connect_ex(listener.getsockname())

    def lose_its_name(self) -> None:
        """Cut all connections, and let nobody answer who asks for the name."""
        names = self._ended.enter_context(socket.socket(type=socket.SOCK_DGRAM))
        names.bind(("127.0.0.53", 53))
        self.hosts.write_text("127.0.0.1 localhost\n")
        self.close()

    def close(self) -> None:
        """Cut all connections, and take no more."""
        self.accept_no_more()
        for each in self.connections:
            with suppress(OSError):
                each.sock.shutdown(socket.SHUT_RDWR)

    def __exit__(self, *exc: object) -> None:
        super().__exit__(*exc)
        self._ended.close()


@pytest.mark.torture
@pytest.mark.outside
@pytest.mark.skipif(os.geteuid() != 0, reason="only root takes the place of DNS")
@pytest.mark.parametrize("broken", [Machine.drop_packets, Machine.lose_its_name])
@pytest.mark.parametrize("workers", [(), ("--workers", "1")], ids=["one process", "workers"])
def test_probes_are_answered_whatever_the_network_does(
    broken: Callable[[Machine], None],
    workers: tuple[str, ...],
    tmp_path: Path,
    postgres_url: str,
    private_key: RSAPrivateKey,
    public_pem: bytes,
) -> None:
    """/readyz within a second, again and again; /healthz at once; both while a call waits for the database, too."""
    key = tmp_path / "service.pem"
    key.write_bytes(public_pem)
    with Machine(postgres_url, tmp_path) as machine, ThreadPoolExecutor(1) as pool:
        options = ("--database", machine.url, "--service-key", str(key), "--port", "0", "--json", *workers)
        with subprocess.Popen(
            machine.seen_by(*COMMAND, "serve", *options),
            stdout=subprocess.PIPE,
            env=clean_environment({}),
            text=True,
        ) as process:
            try:
                assert process.stdout is not None
                url = json.loads(process.stdout.readline())["url"]
                assert probe(url)[0]["database"] == "ok"
                broken(machine)
                time.sleep(1.1)
                with WebhookCaller(url, private_key, timeout=30) as service:
                    waiting = pool.submit(service.send, BalanceCall(player_id="p1"))
                    for _ in range(3):
                        found, seconds = probe(url)
                        assert found == {"status": "ready", **AWAY}
                        assert seconds < 1
                        assert probe(url, "/healthz")[1] < 0.5
                    assert waiting.result().code == "SYSTEM_ERROR"
            finally:
                process.kill()


def probe(url: str, path: str = "/readyz") -> tuple[dict[str, Any], float]:
    """Return what a path says with 200, and after how many seconds."""
    began = time.monotonic()
    request = request_bytes(path, b"", {}, method="GET", length=None)
    status, _, body = reply_to(urlsplit(url).port or 0, request)
    assert status == 200
    return json.loads(body), time.monotonic() - began
