"""`/healthz` and `/readyz`: what they say, when they say 503, and that they say it quickly and little."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from game_operator.cli.health import Health
from game_operator.errors import LedgerUnavailableError
from game_operator.ledger import PingReport

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
            PingReport(latency_millis=1.5, clock_difference_millis=1_000, writable=False),
            ALL_WELL | {"database": "read-only"},
            id="read-only",
        ),
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
        pytest.param(
            PingReport(latency_millis=1.5, clock_difference_millis=-1_001, writable=True),
            ALL_WELL | {"clock": "off", "clock_difference_millis": -1_001},
            id="the clock is behind",
        ),
    ],
)
def test_trouble_is_reported_and_takes_no_machine_out(report: PingReport | None, found: dict[str, object]) -> None:
    """All machines have the same database: with trouble there, /readyz stays 200; no address is in it."""
    health = Health(Looks(report))
    health.opened = True
    assert read(health) == (200, {"status": "ready", **found})
    assert read(health, "/healthz") == (200, {"status": "alive"})


def test_it_is_not_ready_before_the_ledger_was_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until the database has answered once; trouble that comes later is another thing."""
    monkeypatch.setattr("game_operator.cli.health._CACHED_SECONDS", 0)
    health = Health(Looks(None, WELL, None))
    assert read(health) == (503, {"status": "starting", **AWAY})
    assert read(health, "/healthz")[0] == 200
    assert read(health) == (200, {"status": "ready", **ALL_WELL})
    assert read(health) == (200, {"status": "ready", **AWAY})


def test_it_is_not_ready_any_more_when_it_is_about_to_stop() -> None:
    """The balancer sends its next calls elsewhere."""
    health = Health(Looks(WELL))
    assert read(health)[0] == 200
    health.drain()
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


def test_who_gives_up_stops_no_look() -> None:
    """A probe that hangs up leaves the others with their answer."""
    looks = Looks(WELL, seconds=0.05)
    health = Health(looks)

    async def two() -> int:
        gone, stays = asyncio.create_task(ask(health)), asyncio.create_task(ask(health))
        await asyncio.sleep(0.01)
        gone.cancel()
        return (await stays)[0]

    assert (asyncio.run(two()), looks.count) == (200, 1)


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
@pytest.mark.parametrize(("method", "status"), [("GET", 200), ("HEAD", 200), ("POST", 405), ("PUT", 405)])
def test_only_get_and_head(path: str, method: str, status: int) -> None:
    """Anything else is refused, and never read."""
    answered, headers, _ = asyncio.run(ask(Health(Looks(WELL)), path, method))
    assert answered == status
    assert headers.get(b"allow") == (b"GET, HEAD" if status == 405 else None)
    assert headers[b"cache-control"] == b"no-store"


@pytest.mark.parametrize("path", ["/", "/withdraw", "/healthz/", "/healthz/withdraw", "/wallet/readyz", "/Healthz"])
def test_all_other_paths_are_the_wallets(path: str) -> None:
    """The two paths take no operation's place, and no operation is reached through them."""
    assert asyncio.run(ask(Health(Looks(None)), path))[2] == b"the wallet's"
