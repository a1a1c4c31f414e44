"""
What happens, told to open pages as server-sent events.

A stream is woken by the live log and then reads what is new in it, by number. So nothing waits in a queue: whoever
reads slowly gets more at once, and what has left the log in the meantime is left out.

The id of an event is a mark: a number, and the run that counted it. A page that is left open while the sandbox starts
again comes back with a mark of the earlier run, and is told to begin anew.
"""

import asyncio
import contextlib
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from game_operator.sandbox.service.exchange_log import Exchange, LiveLog

__all__ = ["EventStream", "Streams", "event", "mark"]

#: How many exchanges one event carries at most; of more, the newest.
MOST_AT_ONCE: Final = 100
_HEARTBEAT_SECONDS: Final = 15.0
#: After an event, so that a storm of calls becomes a few events a second and not one for each call.
_PAUSE_SECONDS: Final = 0.1
#: A reader that takes nothing for so long is hung up on; the page asks again when it is back.
_PATIENCE_SECONDS: Final = 30.0
_MARK: Final = re.compile(r"([0-9a-f]{16})-([0-9]{1,15})")

#: Makes an event's data of exchanges, the newest first.
Show = Callable[[Sequence[Exchange]], str]


class Streams:
    """The open streams of one server, which all end when it stops."""

    def __init__(self, live: LiveLog) -> None:
        self.live = live
        self._open: set[asyncio.Event] = set()
        self.stopped = False

    def stop(self) -> None:
        """End all streams, now and to come."""
        self.stopped = True
        for wake in self._open:
            wake.set()

    @contextmanager
    def woken(self) -> Iterator[asyncio.Event]:
        """Give an event that is set at each exchange, and when all streams shall end."""
        wake, loop = asyncio.Event(), asyncio.get_running_loop()

        def watch(_exchange: Exchange) -> None:
            # A watcher must not raise, and the loop may have closed just now.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(wake.set)

        self._open.add(wake)
        try:
            with self.live.watched_by(watch):
                yield wake
        finally:
            self._open.discard(wake)


class EventStream(Response):
    """
    Exchanges as events, from those after *seen* on, until the reader goes or the server stops.

    Args:
        streams: Of the server.
        seen: The mark of the exchange that the reader has seen last; one that this run did not give begins anew.
        show: Makes the data of an event.
    """

    media_type = "text/event-stream"

    def __init__(self, streams: Streams, seen: str, show: Show) -> None:
        super().__init__()
        del self.headers["content-length"]
        self._streams = streams
        self._seen = seen
        self._after = 0
        self._show = show
        self._gone = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - as every response
        """Send events for as long as there is somebody to read them."""
        with self._streams.woken() as wake:
            leaving = asyncio.create_task(self._watch_reader(receive, wake))
            try:
                await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
                await self._send(self._greeting(), send)
                while not (self._gone or self._streams.stopped):
                    await self._send(await self._next(wake), send)
                if not self._gone:
                    await send({"type": "http.response.body", "body": b""})
            except TimeoutError:
                return
            finally:
                leaving.cancel()

    def _greeting(self) -> bytes:
        live = self._streams.live
        after = _number(self._seen, live)
        if after is None:
            return f"event: anew\nid: {mark(live, 0)}\ndata: {live.run}\n\n".encode()
        self._after = after
        return b": connected\n\n"

    async def _next(self, wake: asyncio.Event) -> bytes:
        new = self._new()
        if not new:
            # Nothing can come between this look at the log and the wait: the event is set by whatever does.
            try:
                async with asyncio.timeout(_HEARTBEAT_SECONDS):
                    await wake.wait()
            except TimeoutError:
                return b": still here\n\n"
            wake.clear()
            return b""
        self._after = new[0].number
        return event(self._show(new), mark(self._streams.live, self._after))

    def _new(self) -> list[Exchange]:
        return [exchange for exchange in self._streams.live.recent(MOST_AT_ONCE) if exchange.number > self._after]

    async def _send(self, data: bytes, send: Send) -> None:
        if not data:
            return
        async with asyncio.timeout(_PATIENCE_SECONDS):
            await send({"type": "http.response.body", "body": data, "more_body": True})
        await asyncio.sleep(0 if data.startswith(b":") else _PAUSE_SECONDS)

    async def _watch_reader(self, receive: Receive, wake: asyncio.Event) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self._gone = True
        wake.set()


def mark(live: LiveLog, number: int) -> str:
    """Return what a reader names that has seen the exchanges of *live* up to *number*."""
    return f"{live.run}-{number}"


def _number(seen: str, live: LiveLog) -> int | None:
    """Return the number in the mark *seen*, or None if *live* has not given it."""
    found = _MARK.fullmatch(seen)
    if found is None or found[1] != live.run or int(found[2]) > live.count:
        return None
    return int(found[2])


def event(data: str, seen: str) -> bytes:
    """Return a server-sent event; a reader that comes back names the mark *seen* as the last it has seen."""
    lines = "".join(f"data: {line}\n" for line in data.splitlines() if line.strip())
    return f"id: {seen}\n{lines}\n".encode(errors="backslashreplace")
