"""
A safe connection for an operator's own program under uvicorn: ``uvicorn --http game_operator.serve:SafeProtocol``.

uvicorn with httptools takes the body of a request that asks for an upgrade for another request. A stranger can leave
the beginning of one there, and the next call of the service on that connection becomes the rest of it.
"""

import asyncio
from typing import Any, ClassVar, Final

try:
    import httptools
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
except ModuleNotFoundError as missing:
    raise ImportError(
        f"game_operator.serve needs the package {missing.name}. Install the extra: pip install 'game-operator[serve]'",
        name=missing.name,
    ) from missing

__all__ = ["SafeProtocol"]

#: Of a request's head and trailers together. uvicorn keeps them in memory, however many come.
_MOST_HEAD_BYTES: Final = 65_536
#: A head ends with this, beside its method, target and fields.
_FIRST_AND_LAST_LINE: Final = len(b"  HTTP/1.1\r\n\r\n")
#: The event loop was held up if a timer is so late. What has arrived by then is not read yet.
_LAG_SECONDS: Final = 0.5
_GRACE_SECONDS: Final = 1.0


class _Parser(httptools.HttpRequestParser):
    """
    httptools' parser, but no request asks it for an upgrade, and none has trailers.

    A server may ignore Upgrade (RFC 9110 §7.8). httptools cannot: it reads no body behind such a head. So a new parser
    reads the head once more without that field, and then what stands behind it.
    """

    def __init__(self, events: "_Events") -> None:
        self.events = events
        super().__init__(events)

    def feed_data(self, data: Any) -> None:  # Anything with a buffer.
        parser, rest = self, data
        while True:
            try:
                httptools.HttpRequestParser.feed_data(parser, rest)
            except httptools.HttpParserUpgrade as stopped:
                rest = memoryview(rest)[stopped.args[0] :]
                parser = parser.events.read_head_again()
            else:
                return

    def asks_for_upgrade(self) -> bool:
        """Return whether httptools takes the request for one of these."""
        return super().should_upgrade()

    def should_upgrade(self) -> bool:
        return False


class _Events:
    """What the parser reports of one connection: passed on, but for upgrades and trailers, and counted."""

    __slots__ = ("_on_header", "_protocol", "_size", "in_body", "in_head", "on_url", "unread")

    def __init__(self, protocol: "SafeProtocol") -> None:
        self._protocol = protocol
        self.on_url, self._on_header = protocol.on_url, protocol.on_header
        self.in_head = self.in_body = False
        self._size = 0
        #: Bytes that came since a head, a piece of a body or a request last ended.
        self.unread = 0

    def on_message_begin(self) -> None:
        self.in_head, self._size = True, 0
        self._protocol.on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        # Once for each field of each request: the lengths are compared because that is fast.
        self._size = size = self._size + len(name) + len(value) + 4
        if size > _MOST_HEAD_BYTES:
            raise ValueError("the head or the trailers are too long")
        if self.in_head and (len(name) != len(b"upgrade") or name.lower() != b"upgrade"):
            self._on_header(name, value)

    def on_headers_complete(self) -> None:
        parser = self._protocol.parser
        self._size += len(parser.get_method()) + len(self._protocol.url) + _FIRST_AND_LAST_LINE
        if self._size > _MOST_HEAD_BYTES:
            raise ValueError("the head is too long")
        self.unread = 0
        if not parser.asks_for_upgrade():
            self.in_head, self.in_body = False, True
            self._protocol.on_headers_complete()
        elif parser.get_method() == b"CONNECT":
            raise ValueError("this is no proxy")

    def on_body(self, body: bytes) -> None:
        self.unread = 0
        self._protocol.on_body(body)

    def on_message_complete(self) -> None:
        self.unread = 0
        if self.in_body:  # Otherwise only its head was read, which is read again.
            self.in_body = False
            self._protocol.on_message_complete()

    def read_head_again(self) -> _Parser:
        """Give the protocol a new parser that has read the same head without Upgrade, and return it."""
        protocol, parser = self._protocol, self._protocol.parser
        first = b"%s %s HTTP/%s\r\n" % (parser.get_method(), protocol.url, parser.get_http_version().encode())
        head = first + b"".join(b"%s: %s\r\n" % field for field in protocol.headers) + b"\r\n"
        protocol.parser = _Parser(self)
        protocol.parser.feed_data(head)
        return protocol.parser


class SafeProtocol(HttpToolsProtocol):
    """
    uvicorn's connection over httptools, safe against what strangers send through a proxy.

    A request that asks for an upgrade is answered as any other: its body is read, and the connection goes on. So there
    are no WebSockets. Trailers are dropped, for uvicorn appends them to the headers. A head has 10 seconds and, with
    the trailers, 64 KiB. What cannot be read behind a request does not take the place of its answer.

    Attributes:
        head_seconds: How long the head of a request may take to arrive, from the connection or the head's first byte.
        parser: What reads the requests, as in uvicorn's own class.
    """

    head_seconds: ClassVar[float] = 10.0
    _head_due: float | None = None
    _head_timer: asyncio.TimerHandle | None = None
    #: The request before the newest one.
    _before: RequestResponseCycle | None = None
    #: Nothing that still comes counts: the connection ends with the last answer that is due.
    _is_ending = False

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.parser: _Parser = _Parser(_Events(self))

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # As uvicorn's own.
        """Begin on *transport*, with ten seconds for the first head."""
        super().connection_made(transport)
        self._wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """End, by *exc* or without an error; the timer ends too."""
        if self._head_timer is not None:
            self._head_timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read *data*, unless the connection is to end."""
        if self._is_ending:
            return
        events = self.parser.events
        events.unread += len(data)
        super().data_received(data)
        if events.unread > _MOST_HEAD_BYTES and not self.transport.is_closing():
            self.send_400_response("The headers are too long.")
        # Line breaks between requests count as the beginning of one: uvicorn takes them for a sign of life.
        if events.in_head or not (events.in_body or self._is_answering()):
            self._wait_for_head()

    def on_headers_complete(self) -> None:
        """Note that a head is there."""
        self._head_due, self._before = None, self.cycle
        super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:
        """Refuse with *msg* what cannot be read; behind a call that is not answered yet, without a word."""
        in_body = self.parser.events.in_body
        last = self._before if in_body else self.cycle
        if last is not None and not last.response_complete:
            self._is_ending, last.keep_alive = True, False
        elif in_body and self.cycle.response_started:
            self.transport.close()
        else:
            super().send_400_response(msg)

    def _is_answering(self) -> bool:
        return not getattr(self.cycle, "response_complete", True)  # Before the first request it is None.

    # One timer for each connection: a head that comes in one piece never touches it.

    def _wait_for_head(self) -> None:
        if self._head_due is None:
            self._head_due = self.loop.time() + self.head_seconds
            self._head_timer = self._head_timer or self.loop.call_at(self._head_due, self._look_for_head)

    def _look_for_head(self) -> None:
        self._head_timer, now = None, self.loop.time()
        if self._head_due is None:
            return
        if self._is_answering():
            self._head_due = now + self.head_seconds
        elif now - self._head_due > _LAG_SECONDS:
            self._head_due = now + _GRACE_SECONDS
        elif now >= self._head_due:
            self.transport.abort()
            return
        self._head_timer = self.loop.call_at(self._head_due, self._look_for_head)
