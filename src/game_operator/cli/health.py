"""``/healthz`` and ``/readyz`` of ``serve``, beside the webhooks: for load balancers, supervisors and people."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from game_operator.errors import LedgerUnavailableError

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
        ping: Looks at the database, in bounded time.
        now: A clock in seconds.

    Attributes:
        draining: Whether the process is about to stop.
    """

    def __init__(self, ping: "Ping", now: Callable[[], float] = time.monotonic) -> None:
        self._ping, self._now = ping, now
        self.draining: bool = False
        self._found: dict[str, object] = {}
        self._until = float("-inf")
        self._look: asyncio.Task[None] | None = None

    def drain(self) -> bool:
        """Let ``/readyz`` report from now on that the process is about to stop; return whether it did not before."""
        is_first, self.draining = not self.draining, True
        return is_first

    def beside(self, application: "AsgiApp") -> "AsgiApp":
        """Return an ASGI application that answers the two paths, and leaves all others to *application*."""

        def either(scope: "Scope", receive: "Receive", send: "Send") -> Awaitable[None]:
            if scope["type"] == "http" and scope["path"] in PATHS:
                return self._respond(scope, send)
            return application(scope, receive, send)

        return either

    async def _respond(self, scope: "Scope", send: "Send") -> None:
        document: dict[str, object]
        allow = []
        if scope["method"] not in ("GET", "HEAD"):
            status, document, allow = 405, {"status": "use GET or HEAD"}, [(b"allow", b"GET, HEAD")]
        elif scope["path"] == "/healthz":
            status, document = 200, {"status": "alive"}
        else:
            status, document = await self._readiness()
        body = json.dumps(document).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode()), *allow]
        headers.append((b"cache-control", b"no-store"))
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def _readiness(self) -> tuple[int, dict[str, object]]:
        if self._now() >= self._until:
            if self._look is None:  # All who ask meanwhile wait for this one.
                self._look = asyncio.create_task(self._looked())
            await asyncio.shield(self._look)
        status = "draining" if self.draining else "ready"
        return 200 if status == "ready" else 503, {"status": status, **self._found}

    async def _looked(self) -> None:
        try:
            report = await self._ping()
        except LedgerUnavailableError:  # Its reason may hold the address.
            self._found = _found("unavailable", "unknown", None, None)
        else:
            clock = "ok" if abs(report.clock_difference_millis) <= _MOST_CLOCK_MILLIS else "off"
            database = "ok" if report.writable else "read-only"
            self._found = _found(database, clock, report.latency_millis, report.clock_difference_millis)
            if report.bets_stopped:  # Wins and refunds are still paid here, so the process stays ready.
                self._found["bets"] = "stopped"
        finally:
            self._until, self._look = self._now() + _CACHED_SECONDS, None


# Any: a value of JSON.
def _found(database: str, clock: str, latency_millis: Any, clock_difference_millis: Any) -> dict[str, object]:
    return {
        "database": database,
        "database_latency_millis": latency_millis,
        "clock": clock,
        "clock_difference_millis": clock_difference_millis,
    }
