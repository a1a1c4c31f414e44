"""``/healthz`` and ``/readyz`` of ``serve``, beside the webhooks: for load balancers, supervisors and people."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, TypeAlias

from game_operator.errors import LedgerError

if TYPE_CHECKING:
    from game_operator.ledger import PingReport
    from game_operator.webhooks.asgi import AsgiApp, Receive, Scope, Send

    Ping: TypeAlias = Callable[[], Awaitable[PingReport]]

PATHS: Final = frozenset({"/healthz", "/readyz"})
_CACHED_SECONDS: Final = 1.0
#: Times in replies are the database's. Clocks that follow NTP differ by milliseconds.
_MOST_CLOCK_MILLIS: Final = 1_000


class Health:
    """
    Whether this process lives, whether it should get calls, and how its database and clock are.

    Trouble of the database or the clock is reported, and the process stays ready: all machines have that trouble, and
    without one of them the service would get no answer at all.

    Args:
        ping: Looks at the database, in less than a second.
        now: A clock in seconds; else ``time.monotonic``.

    Attributes:
        draining: Whether the process is about to stop.
    """

    def __init__(self, ping: "Ping", now: Callable[[], float] | None = None) -> None:
        self._ping, self._now = ping, now or (lambda: time.monotonic())
        self.draining: bool = False
        self._look: asyncio.Task[dict[str, object]] | None = None
        self._look_again_at = 0.0

    def drain(self) -> bool:
        """Let ``/readyz`` report from now on that the process is about to stop; return whether it did not before."""
        is_first, self.draining = not self.draining, True
        return is_first

    def beside(self, application: "AsgiApp") -> "AsgiApp":
        """Return an ASGI application that answers GET and HEAD of the two paths, and has *application* for the rest."""

        def either(scope: "Scope", receive: "Receive", send: "Send") -> Awaitable[None]:
            if scope["type"] == "http" and scope["path"] in PATHS and scope["method"] in ("GET", "HEAD"):
                return self._respond(scope["path"], send)
            return application(scope, receive, send)

        return either

    async def _respond(self, path: str, send: "Send") -> None:
        status, document = (200, {"status": "alive"}) if path == "/healthz" else await self._readiness()
        body = json.dumps(document).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        headers.append((b"cache-control", b"no-store"))
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def _readiness(self) -> tuple[int, dict[str, object]]:
        if self._look is None or self._now() >= self._look_again_at:
            self._look_again_at = self._now() + _CACHED_SECONDS
            self._look = asyncio.create_task(self._looked())
        found = await asyncio.shield(self._look)  # Others wait for the same look.
        return (503, {"status": "draining", **found}) if self.draining else (200, {"status": "ready", **found})

    async def _looked(self) -> dict[str, object]:
        try:
            report = await self._ping()
        except LedgerError:  # Its reason may hold the address. Whatever it is, all machines have it.
            away = {"database": "unavailable", "database_latency_millis": None}
            return {**away, "clock": "unknown", "clock_difference_millis": None}
        found: dict[str, object] = {
            "database": "ok" if report.writable else "read-only",
            "database_latency_millis": report.latency_millis,
            "clock": "ok" if abs(report.clock_difference_millis) <= _MOST_CLOCK_MILLIS else "off",
            "clock_difference_millis": report.clock_difference_millis,
        }
        # Wins and refunds are still paid here, so the process stays ready.
        return {**found, "bets": "stopped"} if report.bets_stopped else found
