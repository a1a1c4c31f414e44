"""
How ``serve`` runs uvicorn: its connections, its processes with their signals, and the probes of its health.

uvicorn opens connections until the process has no files left; its own limit answers 503 to everyone. When it stops it
closes connections on which a request is arriving. Its supervisor waits without an end; the waits here have one.
"""

import asyncio
import json
import logging
import multiprocessing
import os
import signal
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from resource import RLIM_INFINITY, RLIMIT_NOFILE, getrlimit
from types import FrameType
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeAlias

import uvicorn
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle
from uvicorn.supervisors.multiprocess import Multiprocess

from game_operator.cli.errors import STOP_SIGNALS, ExitCode, error_text
from game_operator.errors import GameOperatorError, LedgerError, shown
from game_operator.serve import SafeProtocol

if TYPE_CHECKING:
    from game_operator.ledger import PingReport
    from game_operator.webhooks.adapters import AsgiApp, Receive, Scope, Send

    Ping: TypeAlias = Callable[[], Awaitable[PingReport]]


_LOG = logging.getLogger("game_operator.serve")
#: For load balancers, supervisors and people, beside the webhooks.
PROBES: Final = frozenset({"/healthz", "/readyz"})
_SECONDS_BETWEEN_LOOKS: Final = 1.0
#: Times in replies are the database's. Clocks that follow NTP differ by milliseconds.
_MOST_CLOCK_MILLIS: Final = 1_000
#: Open files that are left to the database, to logs and to the listener.
_RESERVED_FILES: Final = 64
#: Where the system has no such limit.
_UNLIMITED_FILES: Final = 2**20
_SECONDS_BETWEEN_LINES: Final = 60.0
#: How long a stop waits for one more request on a connection. Its answer says that it is the last.
_LINGER_SECONDS: Final = 0.5
#: Requests that wait for their turn on a connection. uvicorn keeps as many as a peer sends, and the service sends one.
_MOST_WAITING: Final = 100


def most_connections() -> int:
    """Return how many connections may be open at once."""
    files = getrlimit(RLIMIT_NOFILE)[0]
    return max(1, (_UNLIMITED_FILES if files == RLIM_INFINITY else files) - _RESERVED_FILES)


class Connections:
    """
    The open connections of a process, *most* at once: a new one takes the place of the one that is idle for longest.

    A connection is idle unless a request on it is there as a whole and not answered. If none is idle, one goes whose
    peer does not read its answers, or else the new one. So nobody fills the places by silence, by half requests or
    without reading, and no call is cut off.

    Attributes:
        are_ending: Whether each connection ends with its next answer.
    """

    are_ending = False

    def __init__(self, most: int, now: Callable[[], float] | None = None) -> None:
        self._most, self._now = most, now or (lambda: time.monotonic())
        self._open: set[ServeProtocol] = set()
        self._idle: dict[ServeProtocol, None] = {}  # The longest first.
        self._next_line = float("-inf")

    def opened(self, connection: "ServeProtocol") -> None:
        """Count a new connection, and make room for it if there is none."""
        self._open.add(connection)
        self._idle[connection] = None
        if len(self._open) > self._most:
            last = next(iter(self._idle))
            if last is connection:
                last = next((each for each in self._open if each.flow.write_paused), connection)
            self.closed(last)
            last.transport.abort()
            self._report(last)

    def closed(self, connection: "ServeProtocol") -> None:
        """Forget a connection."""
        self._open.discard(connection)
        self._idle.pop(connection, None)

    def note(self, connection: "ServeProtocol", *, is_idle: bool) -> None:
        """Note whether a connection is idle from now on."""
        if not is_idle:
            self._idle.pop(connection, None)
        elif connection in self._open:
            self._idle.setdefault(connection)

    def _report(self, last: "ServeProtocol") -> None:
        if self._now() >= self._next_line:
            self._next_line = self._now() + _SECONDS_BETWEEN_LINES
            _LOG.warning(
                "All %d connections are in use, so one is closed for each new one; now one from %s. Find out who holds "
                "them, or raise the limit of open files (ulimit -n).",
                *(self._most, shown(last.client[0] if last.client else None)),
                extra={"event": "serve.connections_refused"},
            )


class ServeProtocol(SafeProtocol):
    """A connection that reports when it is idle, and lingers for a moment when the process stops."""

    open_connections: ClassVar[Connections]

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        #: Requests that are there as a whole and not answered.
        self._unanswered: deque[RequestResponseCycle] = deque()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # As uvicorn's own.
        """Begin on *transport*."""
        super().connection_made(transport)
        self.open_connections.opened(self)
        if self.open_connections.are_ending:  # Accepted just before the listener was closed.
            self.shutdown()

    def connection_lost(self, exc: Exception | None) -> None:
        """End, by *exc* or without an error."""
        self.open_connections.closed(self)
        for cycle in self._unanswered:  # uvicorn notifies the newest alone, and the others log errors.
            cycle.disconnected = True
        super().connection_lost(exc)

    def shutdown(self) -> None:
        """Let the request that is there, or comes within a moment, be the last one of this connection."""
        if self.cycle is not None:
            self.cycle.keep_alive = False
        self.loop.call_later(_LINGER_SECONDS, self._close_if_idle)

    def _close_if_idle(self) -> None:
        if not self.transport.is_closing():  # Else its parser is gone.
            events = self.parser.events
            if not (self._unanswered or events.in_head or events.in_body):
                self.transport.close()

    def on_message_complete(self) -> None:
        """Note that a request is there as a whole."""
        super().on_message_complete()
        if self.open_connections.are_ending:
            self.cycle.keep_alive = False
        self._unanswered.append(self.cycle)
        self._note()
        if len(self._unanswered) > _MOST_WAITING:
            self.transport.abort()

    def on_response_complete(self) -> None:
        """Note that a request is answered."""
        super().on_response_complete()
        self._note()

    def _note(self) -> None:
        while self._unanswered and self._unanswered[0].response_complete:
            self._unanswered.popleft()
        self.open_connections.note(self, is_idle=not self._unanswered)


_NOT_STARTED: Final = {"event": "serve.worker_not_started"}
#: The time in which a process that stops answers its calls, and after which a worker is killed.
ANSWER_SECONDS: Final = 15
_STOP_SECONDS: Final = 20
#: How long a worker may take to become ready, or to say that it lives.
START_SECONDS: Final = 60
#: A worker that ends sooner is likely to do so again: the next one waits.
_SOON_SECONDS, _LEAST_PAUSE, _MOST_PAUSE = 10.0, 0.5, 30.0


@contextmanager
def logging_to_stderr() -> Iterator[None]:
    """Let warnings and errors, and replies that refuse a call, go to stderr."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s [%(process)d] %(name)s: %(message)s"))
    loud = ["game_operator.webhooks.refusals", _LOG.name]
    levels = [(each, each.level) for each in map(logging.getLogger, loud)]
    logging.getLogger().addHandler(handler)
    try:
        for each, _ in levels:
            each.setLevel(logging.INFO)
        yield
    finally:
        for each, level in levels:
            each.setLevel(level)
        logging.getLogger().removeHandler(handler)


@contextmanager
def or_end() -> Iterator[None]:
    """End this process if the block fails. uvicorn would give an exit code that ends a worker's supervisor, too."""
    try:
        yield
    except Exception as wrong:
        text = error_text(wrong) if isinstance(wrong, GameOperatorError) else repr(wrong)
        _LOG.error("This process cannot serve: %s", text, extra=_NOT_STARTED)
        os._exit(ExitCode.USAGE)


def stop_gently(drain: Callable[[], bool], drain_seconds: float, is_replaced: Any) -> None:
    """
    Let a signal to stop call *drain*, and stop uvicorn *drain_seconds* later; a second Ctrl-C stops it at once.

    *drain* returns whether it is the first call. A worker that is replaced does not wait: others take the calls. One
    whose supervisor is gone, however it went, does not either, and ends by force if its event loop hangs.
    """
    loop = asyncio.get_running_loop()
    server: uvicorn.Server = signal.getsignal(signal.SIGTERM).__self__  # type: ignore[union-attr]  # uvicorn's handler

    def end() -> None:
        ServeProtocol.open_connections.are_ending = server.should_exit = True

    def asked(number: int, _frame: FrameType | None) -> None:
        if is_replaced.value:
            loop.call_soon_threadsafe(end)
        elif drain():
            loop.call_soon_threadsafe(loop.call_later, drain_seconds, end)
        elif number == signal.SIGINT:
            end()
            server.force_exit = True

    def follow(supervisor: BaseProcess) -> None:
        supervisor.join()
        loop.call_soon_threadsafe(end)
        time.sleep(_STOP_SECONDS)
        os._exit(ExitCode.SAID_NO)

    for number in STOP_SIGNALS:
        signal.signal(number, asked)
    if supervisor := multiprocessing.parent_process():
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # Some send it to all processes of a service.
        threading.Thread(target=follow, args=(supervisor,), daemon=True).start()


@contextmanager
def _without_resources() -> Iterator[None]:
    """Go on if the system has no process or memory left for a worker."""
    try:
        yield
    except OSError as failed:
        _LOG.error("No worker can be started: %s.", failed.strerror, extra=_NOT_STARTED)


class Supervisor(Multiprocess):
    """
    Keeps workers at *listener* until SIGTERM or SIGINT, and replaces them one after another on SIGHUP.

    It calls *announce* when the first worker takes calls. Workers go on for *drain_seconds* after the signal, unless
    *is_replaced*, a flag that they see, is set.

    Attributes:
        has_failed: Whether the first worker ended before it took calls.
    """

    has_failed = False
    _pause, _look_at = 0.0, float("-inf")

    def __init__(
        self,
        config: uvicorn.Config,
        listener: socket.socket,
        announce: Callable[[], object],
        drain_seconds: float,
        is_replaced: Any,
    ) -> None:
        super().__init__(config, [listener])
        self._announce, self._is_replaced, self._stop_seconds = announce, is_replaced, drain_seconds + _STOP_SECONDS
        self._is_asked = self._is_hurried = False
        for number in STOP_SIGNALS:
            signal.signal(number, self._note)
        sys.stdin = None  # uvicorn would hand it to the workers, which would leave it open.
        threading.Thread(target=self._watch, daemon=True).start()

    def _note(self, number: int, _frame: FrameType | None) -> None:
        # SIGTERM may come twice and mean it once: `timeout` sends it to the process and to its group.
        self._is_hurried |= self._is_asked and number == signal.SIGINT
        self._is_asked = True

    def _watch(self) -> None:
        """When asked, tell all workers to stop, one that begins too; kill those that do not, or at a second Ctrl-C."""
        told: dict[BaseProcess, float] = {}
        while True:
            time.sleep(0.1)
            if self._is_asked and not self.should_exit.is_set():
                self._is_replaced.value = False
                self.should_exit.set()
                for worker in multiprocessing.active_children():
                    worker.terminate()
            now, replaced = time.monotonic(), {each.process for each in self.processes if each.parent_conn.closed}
            stopping = [w for w in multiprocessing.active_children() if self.should_exit.is_set() or w in replaced]
            told = {worker: told.get(worker, now) for worker in stopping}
            for worker, since in told.items():
                if self._is_hurried or now - since > self._stop_seconds:
                    extra = {"event": "serve.worker_killed"}
                    _LOG.error("Worker %s did not stop, so it is killed.", worker.pid, extra=extra)
                    worker.kill()

    def init_processes(self) -> None:
        """Start the workers, and announce the first when it takes calls."""
        super().init_processes()
        if self.processes[0].wait_until_ready(START_SECONDS, self.should_exit):
            self._announce()
        elif not self._is_asked:
            self.has_failed = True
            self.should_exit.set()

    def restart_all(self) -> None:
        """Replace each worker when its successor takes calls; if one does not, keep those that are left."""
        before = set(self.processes)
        self._is_replaced.value = True
        with _without_resources():
            super().restart_all()
        self._is_replaced.value = False
        if not before & set(self.processes):  # Else uvicorn has logged which worker was not ready.
            _LOG.info("The rolling restart has ended: all workers are new.", extra={"event": "serve.restart"})

    def keep_subprocess_alive(self) -> None:
        """Start another worker in the place of each that has ended or hangs; later, if it has done so again soon."""
        if (now := time.monotonic()) < self._look_at:
            return
        before = list(self.processes)
        for worker in before:
            worker.child_conn.close()  # Else one that ends would leave uvicorn's question without an end.
        with _without_resources():
            super().keep_subprocess_alive()
        ended = [worker for worker in before if worker not in self.processes]
        for worker in ended:
            text = "Worker %s ended with exit code %s. Another one takes its place."
            _LOG.error(text, worker.pid, worker.exitcode, extra={"event": "serve.worker_ended"})
        if ended:
            is_soon = now - self._look_at < _SOON_SECONDS
            self._pause = min(_MOST_PAUSE, max(_LEAST_PAUSE, 2 * self._pause)) if is_soon else 0.0
            self._look_at = time.monotonic() + self._pause

    def terminate_all(self) -> None:
        """Let the port be free as soon as no worker listens."""
        self.sockets[0].close()
        super().terminate_all()


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
            if scope["type"] == "http" and scope["path"] in PROBES and scope["method"] in ("GET", "HEAD"):
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
            self._look_again_at = self._now() + _SECONDS_BETWEEN_LOOKS
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
