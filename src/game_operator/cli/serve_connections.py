"""
The connections of ``serve``: how many there may be, which one goes at the limit, and how each ends when it stops.

uvicorn opens connections until the process has no files left; its own limit answers 503 to everyone. When it stops it
closes connections on which a request is arriving.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable
from resource import RLIM_INFINITY, RLIMIT_NOFILE, getrlimit
from typing import Any, ClassVar, Final

from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from game_operator.errors import ConfigurationError, shown
from game_operator.serve import SafeProtocol

_LOG = logging.getLogger("game_operator.serve")
#: Open files that are left to the database, to logs and to the listener.
_RESERVED_FILES: Final = 64
#: Where the system has no such limit.
_UNLIMITED_FILES: Final = 2**20
_SECONDS_BETWEEN_LINES: Final = 60.0
#: How long a stop waits for one more request on a connection. Its answer says that it is the last.
_LINGER_SECONDS: Final = 0.5
#: Requests that wait for their turn on a connection. uvicorn keeps as many as a peer sends, and the service sends one.
_MOST_WAITING: Final = 100


def most_connections(asked: int | None) -> int:
    """Return how many connections may be open at once; raise ConfigurationError if fewer than asked may be."""
    files = getrlimit(RLIMIT_NOFILE)[0]
    most = max(1, (_UNLIMITED_FILES if files == RLIM_INFINITY else files) - _RESERVED_FILES)
    if asked is not None and asked > most:
        raise ConfigurationError(
            f"--max-connections {asked} needs {asked + _RESERVED_FILES} open files, and this process may open {files}. "
            f"Raise the limit (ulimit -n), or pass {most} or fewer."
        )
    return asked or most


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
                "them, or raise --max-connections and the limit of open files (ulimit -n).",
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
        super().connection_made(transport)
        self.open_connections.opened(self)
        if self.open_connections.are_ending:  # Accepted just before the listener was closed.
            self.shutdown()

    def connection_lost(self, exc: Exception | None) -> None:
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
        super().on_message_complete()
        if self.open_connections.are_ending:
            self.cycle.keep_alive = False
        self._unanswered.append(self.cycle)
        self._note()
        if len(self._unanswered) > _MOST_WAITING:
            self.transport.abort()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._note()

    def _note(self) -> None:
        while self._unanswered and self._unanswered[0].response_complete:
            self._unanswered.popleft()
        self.open_connections.note(self, is_idle=not self._unanswered)
