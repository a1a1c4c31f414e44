"""
The server of ``serve``: uvicorn with limits on what callers hold open, and with a gentle stop.

uvicorn waits for the rest of a request without end, opens connections until the process has no files left, and when it
stops, closes connections on which a request is arriving.
"""

import asyncio
import logging
import socket
import time
from collections.abc import Callable, Iterator, Sized
from contextlib import contextmanager
from itertools import chain, takewhile
from typing import Any, ClassVar, Final, Literal, TypeAlias

import uvicorn
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from game_operator.cli.errors import STOP_SIGNALS, on_signals
from game_operator.errors import ConfigurationError, shown
from game_operator.serve import SafeProtocol

#: Where a connection is: a request is not there as a whole, or is not answered, or the next one has not begun.
Phase: TypeAlias = Literal["arriving", "under way", "idle"]

_LOG = logging.getLogger("game_operator.serve")
#: Open files that are left to the database, to logs and to the listener.
_RESERVED_FILES: Final = 64
#: Where the system does not say how many files may be open.
_USUAL_FILES: Final = 512
#: For the receiver, which answers a body that comes too slowly, to do so first.
_GRACE_SECONDS: Final = 1.0
_SWEEPS_PER_LIMIT: Final = 10
_LAG_SECONDS: Final = 0.5
_SECONDS_BETWEEN_LINES: Final = 60.0
#: The service's connections should live as long as they are used now and then: a new one costs more than a call.
_KEEP_ALIVE_SECONDS: Final = 75
#: How long a stop waits for one more request on a connection. Its answer says that it is the last.
_LINGER_SECONDS: Final = 0.5
_DRAIN_TICK_SECONDS: Final = 0.1


def most_connections(asked: int | None) -> int:
    """
    Return how many connections may be open at once: *asked*, or as many as the limit of open files allows.

    Raises:
        ConfigurationError: The limit of open files does not allow so many.
    """
    most = max(1, _file_limit() - _RESERVED_FILES)
    if asked is None:
        return most
    if asked > most:
        raise ConfigurationError(
            f"--max-connections {asked} needs {asked + _RESERVED_FILES} open files, and this process may open "
            f"{_file_limit()}. Raise the limit (ulimit -n), or pass {most} or fewer."
        )
    return asked


def _file_limit() -> int:
    try:
        from resource import RLIM_INFINITY, RLIMIT_NOFILE, getrlimit
    except ImportError:  # Windows has no such limit, and its event loop one of 512 sockets.
        return _USUAL_FILES
    limit, _ = getrlimit(RLIMIT_NOFILE)
    return 2**20 if limit == RLIM_INFINITY else limit


class _RareLine:
    """A line in the log, at once when its cause first occurs, then at most once a minute with how often it occurred."""

    def __init__(self, line: str, limit: float) -> None:
        self._line, self._limit = line, limit
        self._next, self._count, self._peer = float("-inf"), 0, ""

    def occurred(self, peer: str, now: float) -> None:
        self._count += 1
        self._peer = peer
        self.log_if_due(now)

    def log_if_due(self, now: float) -> None:
        if self._count and now >= self._next:
            extra = {"event": "serve.connections_refused"}
            _LOG.warning(self._line, self._limit, self._count, self._peer, extra=extra)
            self._count, self._next = 0, now + _SECONDS_BETWEEN_LINES


class Connections:
    """
    The open connections: how many there may be, and how long each has to send a request.

    At the limit a new connection takes the place of another one, in this order: one whose peer does not read its
    answers, one that has waited over a second for the rest of a request, one between requests, one that has waited
    less. Within each, the oldest goes first. A call under way is closed only if its peer does not read.

    Args:
        most: How many connections may be open at once.
        request_seconds: How long a request may take to arrive, from the connection or its first byte to its last byte,
            and how long a peer may leave its answers unread.
        now: A clock in seconds.

    Attributes:
        are_ending: Whether each connection ends with its next answer.
    """

    are_ending = False

    def __init__(self, most: int, request_seconds: float, now: Callable[[], float] = time.monotonic) -> None:
        self._most = most
        self._request_seconds = request_seconds
        self._now = now
        self._open: set[LimitedProtocol] = set()
        # Since when each is in its phase, the longest first; and since when peers do not read.
        self._in: dict[Phase, dict[LimitedProtocol, float]] = {"arriving": {}, "under way": {}, "idle": {}}
        self._stalled: dict[LimitedProtocol, float] = {}
        self._late = _RareLine(
            "A request did not arrive within %g s, so its connection was closed: %d since the last such line, the last "
            "one from %s. Half requests can shut honest callers out. Find out who sends them, or change "
            "--request-timeout.",
            request_seconds,
        )
        self._unread = _RareLine(
            "A peer did not read its answers for %g s, so its connection was closed: %d since the last such line, the "
            "last one from %s. Find out who sends requests and does not read the answers.",
            request_seconds,
        )
        self._full = _RareLine(
            "All %d connections were in use, so one was closed: %d since the last such line, the last one "
            "from %s. Find out who holds them, or raise --max-connections and the limit of open files (ulimit -n).",
            most,
        )

    def protocol_class(self) -> "type[LimitedProtocol]":
        """Return the class that uvicorn makes a protocol of for each connection."""
        return type("ServeProtocol", (LimitedProtocol,), {"open_connections": self})

    async def watch(self) -> None:
        """Close connections that are late, until cancelled."""
        pause = min(1.0, self._request_seconds / _SWEEPS_PER_LIMIT)
        while True:
            before = self._now()
            await asyncio.sleep(pause)
            # A loop that was held up has not read what is there: callers are not late, but we are.
            if self._now() - before < 2 * pause + _LAG_SECONDS:
                self.close_late()

    def opened(self, connection: "LimitedProtocol") -> None:
        """Count a new connection, and make room for it if there is none."""
        self._open.add(connection)
        if len(self._open) > self._most:
            last = self._least_needed(connection)
            self._full.occurred(last.peer, self._now())
            self._close(last)
            if last is connection:
                return
        self.enters(connection, "arriving")

    def _least_needed(self, newest: "LimitedProtocol") -> "LimitedProtocol":
        late, arriving = self._now() - _GRACE_SECONDS, self._in["arriving"]
        # In a burst all requests have just begun: idle connections go before them.
        overdue = takewhile(lambda each: arriving[each] <= late, arriving)
        return next(chain(self._stalled, overdue, self._in["idle"], arriving), newest)

    def enters(self, connection: "LimitedProtocol", phase: Phase) -> None:
        """Note that a connection is in *phase* from now on, unless it is already."""
        if connection in self._open and connection not in self._in[phase]:
            for others in self._in.values():
                others.pop(connection, None)
            self._in[phase][connection] = self._now()

    def stalled(self, connection: "LimitedProtocol") -> None:
        """Note that the peer does not read, and that more answers than fit wait for it."""
        if connection in self._open:
            self._stalled.setdefault(connection, self._now())

    def reads_again(self, connection: "LimitedProtocol") -> None:
        """Note that the peer has read what waited for it."""
        self._stalled.pop(connection, None)

    def closed(self, connection: "LimitedProtocol") -> None:
        """Forget a connection."""
        self._open.discard(connection)
        for waiting in (self._stalled, *self._in.values()):
            waiting.pop(connection, None)

    def close_late(self) -> None:
        """Close each connection whose request did not arrive, or whose answers were not read, in time."""
        now = self._now()
        late = now - self._request_seconds
        for connection, since in list(takewhile(lambda each: each[1] <= late, self._in["arriving"].items())):
            if connection.waits_for_body and since > late - _GRACE_SECONDS:
                continue
            self._late.occurred(connection.peer, now)
            self._close(connection)
        for connection in [each for each, since in self._stalled.items() if since <= late]:
            self._unread.occurred(connection.peer, now)
            self._close(connection)
        for line in (self._late, self._unread, self._full):
            line.log_if_due(now)

    def _close(self, connection: "LimitedProtocol") -> None:
        self.closed(connection)
        connection.transport.abort()


class _PatientFlow(FlowControl):
    """
    Reads no more while requests wait for their turn.

    uvicorn reads again after each answer, and its queue of requests grows as fast as a peer can send them.
    """

    def __init__(self, transport: asyncio.Transport, waiting: Sized) -> None:
        super().__init__(transport)
        self._waiting = waiting

    def resume_reading(self) -> None:
        if not self._waiting:
            super().resume_reading()


class LimitedProtocol(SafeProtocol):
    """One connection, which reports when a request begins, is whole and is answered."""

    open_connections: ClassVar[Connections]
    #: The parser is between the first byte of a request and the end of its headers; or of its body.
    _in_headers = _in_request = False
    #: Requests that are there and not answered.
    _under_way = 0
    _answering: RequestResponseCycle | None = None

    @property
    def peer(self) -> str:
        """The address of the other end, for the log."""
        return shown(self.client[0] if self.client else None)

    @property
    def waits_for_body(self) -> bool:
        """Whether a request is there but for the rest of its body."""
        return self._in_request and not self._in_headers

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # As uvicorn's own.
        super().connection_made(transport)
        self.flow: _PatientFlow = _PatientFlow(transport, self.pipeline)
        self.open_connections.opened(self)
        if self.open_connections.are_ending:  # Accepted just before the listener was closed.
            self.shutdown()

    def shutdown(self) -> None:
        """Let the request that is there, or comes within a moment, be the last one of this connection."""
        if self.cycle is not None:
            self.cycle.keep_alive = False
        self.loop.call_later(_LINGER_SECONDS, self._close_if_idle)

    def _close_if_idle(self) -> None:
        if not self._in_request and not self._under_way:
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self.open_connections.closed(self)
        if self._answering is not None:
            self._answering.disconnected = True  # uvicorn notifies the newest request alone, and the others log errors.
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self.open_connections.stalled(self)

    def resume_writing(self) -> None:
        super().resume_writing()
        self.open_connections.reads_again(self)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        # Line breaks between requests count as the beginning of one: uvicorn takes them for a sign of life.
        if not self._under_way:
            self.open_connections.enters(self, "arriving")

    # The names of httptools.

    def on_message_begin(self) -> None:
        self._in_headers = self._in_request = True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._in_headers = False
        super().on_headers_complete()
        if self.open_connections.are_ending:
            self.cycle.keep_alive = False

    def on_message_complete(self) -> None:
        self._in_request = False
        self._under_way += 1
        self.open_connections.enters(self, "under way")
        super().on_message_complete()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:  # uvicorn's own.
        self._answering = cycle
        super()._start_asgi_task(cycle, app)

    # uvicorn's own: should it go, a connection with a second request counts as busy for ever, and a test fails.

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self.pipeline:
            self.flow.resume_reading()  # uvicorn asks for it before it takes the last one from its queue.
        self._under_way = max(0, self._under_way - 1)
        if self._in_request and not self._under_way:
            self.open_connections.enters(self, "arriving")
        elif not self._under_way:
            self.open_connections.enters(self, "idle")


class WalletServer(uvicorn.Server):
    """
    uvicorn that calls *ready* when it listens, watches *connections*, and for which a signal to stop is a good end.

    Before it stops it calls *drain*, and goes on for *drain_seconds*. *options* are those of ``uvicorn.Config``.
    """

    # Any: uvicorn has a type of its own for an application.
    def __init__(
        self,
        application: Any,
        connections: Connections,
        ready: Callable[[], object],
        drain: Callable[[], object],
        *,
        drain_seconds: float = 0.0,
        **options: Any,
    ) -> None:
        config = uvicorn.Config(
            application,
            interface="asgi3",
            http=connections.protocol_class(),
            ws="none",
            lifespan="off",
            log_config=None,
            proxy_headers=False,  # X-Forwarded-For is read by IpAllowList alone, from proxies that were named.
            server_header=False,
            date_header=False,
            timeout_keep_alive=_KEEP_ALIVE_SECONDS,
            **options,
        )
        super().__init__(config)
        self._connections, self._ready = connections, ready
        self._drain, self._drain_seconds = drain, drain_seconds

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        self._watching = asyncio.create_task(self._connections.watch())
        self._ready()

    def stop(self) -> None:
        """Answer the calls under way, and end; any thread may ask for it."""
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._drain()
        until = time.monotonic() + self._drain_seconds
        while time.monotonic() < until and not self.force_exit:
            await asyncio.sleep(_DRAIN_TICK_SECONDS)
        self._connections.are_ending = True
        await super().shutdown(sockets=sockets)
        self._watching.cancel()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        # uvicorn's own raises the signal again when all is done, which would kill us on our way out.
        with on_signals(STOP_SIGNALS, self.handle_exit):
            yield
