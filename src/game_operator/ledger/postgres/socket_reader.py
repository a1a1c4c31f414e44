"""
How asyncio waits for the server's answers: one reader stays on the event loop, from call to call.

Psycopg adds a reader and a timer for each wait and removes them again. For a lone call that is most of what the loop
costs.
"""

import asyncio
import contextlib
import os
import socket
from collections.abc import Generator
from contextvars import Context
from typing import TYPE_CHECKING, Any, TypeVar

from psycopg.waiting import Ready, Wait

if TYPE_CHECKING:
    import psycopg
    from psycopg.abc import PQGen

T = TypeVar("T")

_CANCEL_SECONDS = 5.0
#: How often a wait is looked after: uvloop drops the reader of a connection that was reset, without calling it.
_LOOK_SECONDS = 0.25


class SocketReader:
    """
    Waits for one connection, like its ``wait``.

    The reader has a separate file descriptor for the socket. Psycopg adds and removes readers for the connection's, and
    libpq closes that when the server is gone.
    """

    #: The loop that the reader is on.
    _loop: asyncio.AbstractEventLoop | None = None
    _socket: socket.socket | None = None
    #: Set to what ``_resumed`` returns.
    _answer: "asyncio.Future[tuple[Any, Any]] | None" = None
    _work: "PQGen[Any]"
    #: One for all waits, as long as there are any, because a timer for each would cost what this class saves.
    _timer: asyncio.TimerHandle | None = None

    def __init__(self, connection: "psycopg.AsyncConnection[Any]") -> None:
        self._connection = connection

    async def wait(self, work: "PQGen[T]") -> T:
        """Do *work* on the connection, and return its result; cancelled, it stops the statement on the server."""
        try:
            wanted, result = _resumed(work, None)
            while wanted is not None:
                if wanted == Wait.R and self._stands():
                    loop = asyncio.get_running_loop()
                    self._work, self._answer = work, loop.create_future()
                    self._timer = self._timer or loop.call_later(_LOOK_SECONDS, self._look)
                    wanted, result = await self._answer
                else:  # A socket that takes no more for now, or a loop without readers.
                    wanted, result = _resumed(work, await self._connection.wait(_once(wanted)))
        except asyncio.CancelledError:
            # What nobody waits for must lock no row. Whatever hinders it: the connection is dropped next.
            with contextlib.suppress(Exception):
                await self._connection.cancel_safe(timeout=_CANCEL_SECONDS)
            raise
        return result  # type: ignore[no-any-return]  # What the work returns.

    def close(self) -> None:
        """Leave the loop."""
        self._leave()
        if self._socket is not None:
            self._socket.close()

    def _stands(self) -> bool:
        """Return whether the reader is on the running loop now."""
        loop = asyncio.get_running_loop()
        if self._loop is loop:
            return True
        self._leave()
        try:
            if self._socket is None:
                self._socket = socket.socket(fileno=os.dup(self._connection.pgconn.socket))
            # Without the context of the call that happens to be the first.
            Context().run(loop.add_reader, self._socket.fileno(), self._read)
        except (OSError, NotImplementedError):  # No descriptor is left, or such a loop has no readers: psycopg waits.
            return False
        self._loop = loop
        return True

    def _leave(self) -> None:
        loop, self._loop = self._loop, None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if loop is not None and self._socket is not None and not loop.is_closed():
            loop.remove_reader(self._socket.fileno())

    def _look(self) -> None:
        """Read for a wait that is still there; where nothing has come, reading does no harm."""
        self._timer = None
        if self._answer is not None and not self._answer.done():
            self._read()

    def _read(self) -> None:
        answer = self._answer
        if answer is None or answer.done():
            # Psycopg is waiting by itself, or the server is gone: the loop would call again without end.
            self._leave()
            return
        try:
            answer.set_result(_resumed(self._work, Ready.R))
        except Exception as raised:  # It belongs to the task that waits.
            answer.set_exception(raised)


def _resumed(work: "PQGen[Any]", ready: Any) -> tuple[Any, Any]:
    """Return what *work* waits for next, and its result if that is None."""
    try:
        return work.send(ready), None
    except StopIteration as done:
        return None, done.value


def _once(wanted: Any) -> Generator[Any, Any, Any]:
    return (yield wanted)
