"""
A connection is reused only when nothing is left on it (docs/decisions/0028).

Bytes behind a complete answer would be read as the answer to the next request, and a grant would look made that was
never made. Before httpcore reuses a connection it looks at the socket. It does not look at what it, TLS or the event
loop has read from the socket already; this module does, through private attributes. Where one is absent, the
connection is closed.
"""

import inspect
import select
import socket
import ssl
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from typing import Any, Final

from game_operator.transport.own_connections import DeadlineStream

#: From the body of a response, or from a connection of the pool, to the connection that speaks HTTP/1.1.
_INWARD: Final = ("_httpcore_stream", "_connection", "_stream")
#: From httpcore's stream down to the socket; TLS keeps the others below itself.
_DOWNWARD: Final = ("transport_stream", "_stream", "_sock", "socket")
#: From httpcore's stream to anyio's, without TLS: the way most async connections go, found without a search.
_ANYIO: Final = "_stream"
#: Where the TLS streams of anyio, trio and httpcore keep what has arrived and is not decrypted yet.
_ENCRYPTED: Final = ("_read_bio", "_incoming")
_DECRYPTED: Final = ("_ssl_object", "ssl_obj")
_DEEPEST: Final = 12
#: Transports that answer in this process, without a connection.
_IN_PROCESS: Final = frozenset({"ASGITransport", "MockTransport", "WSGITransport"})
_BEFORE_WRITING: Final = "http11.send_request_headers.started"


class LeftOverError(Exception):
    """The connection had something left on it and is closed; nothing of the request was written."""


def is_reusable(response: Any) -> bool:
    """
    Return whether nothing is left on the connection of *response*, whose body has been read and which is not closed.

    False means also that this cannot be known.
    """
    stream = _network_stream(response)
    if stream is None:
        return True
    connection = _http11(response.stream)
    # When the response is closed, httpcore polls the socket of every idle connection, this one among them.
    return connection is not None and _nothing_read(connection, stream)


def spoil(response: Any) -> Any:
    """
    Make sure that the connection of *response* is closed together with it.

    Returns:
        httpcore's stream, if closing that is the only way left; else None.
    """
    stream = _network_stream(response)
    if stream is None:
        return None
    connection = _http11(response.stream)
    if connection is not None:
        connection._h11_state.send_failed()  # A connection whose parser is not at its end is closed.
        return None
    try:
        with suppress(OSError):  # It may be gone already.
            stream.get_extra_info("socket").shutdown(socket.SHUT_RDWR)  # httpcore sees that, and closes it.
    except (AttributeError, TypeError):
        return stream  # There is no socket, or it is one of uvloop's, which refuse that.
    return None


def _network_stream(response: Any) -> Any:
    """Return httpcore's stream under *response*, or None if it has none or shares it with others, as HTTP/2 does."""
    extensions = response.extensions
    if extensions.get("http_version") == b"HTTP/2":
        return None
    return extensions.get("network_stream")


def _http11(holder: Any) -> Any:
    for _ in range(_DEEPEST):
        if holder is None or hasattr(holder, "_h11_state"):
            return holder
        holder = _first(holder, _INWARD)
    return None


def _first(holder: Any, names: tuple[str, ...]) -> Any:
    for name in names:
        if (found := getattr(holder, name, None)) is not None:
            return found
    return None


def _nothing_read(connection: Any, stream: Any) -> bool:
    if connection._h11_state.trailing_data != (b"", False):
        return False
    protocol = getattr(getattr(stream, _ANYIO, None), "_protocol", None)
    if (queue := getattr(protocol, "read_queue", None)) is not None:
        return len(queue) == 0
    if isinstance(stream, DeadlineStream) and type(stream.get_extra_info("socket")) is socket.socket:
        return True  # Above a blocking socket without TLS, nothing keeps bytes.
    return not _holds_bytes(stream)


def _holds_bytes(layer: Any) -> bool:
    """Return whether a *layer* down to the socket has read bytes that were not taken; True if one is unknown."""
    for _ in range(_DEEPEST):
        if isinstance(layer, ssl.SSLSocket):
            return layer.pending() > 0
        if isinstance(layer, socket.socket):
            return False
        if (arrived := _first(layer, _ENCRYPTED)) is not None:
            decrypted = _first(layer, _DECRYPTED)
            if decrypted is None or arrived.pending or decrypted.pending():
                return True
        if (protocol := getattr(layer, "_protocol", None)) is not None:  # anyio on asyncio
            queue = getattr(protocol, "read_queue", None)
            return queue is None or len(queue) > 0
        if type(layer).__module__.startswith("trio."):  # Its sockets keep nothing.
            return not hasattr(layer, "is_readable") and _holds_bytes(_first(layer, _DOWNWARD))
        layer = _first(layer, _DOWNWARD)
    return True


class YourTransport:
    """
    What can be known of the connections of the user's own *http_client*.

    Args:
        http_client: An httpx or httpx2 client, sync or async.
        guard_kind: ``ReuseGuard`` or ``AsyncReuseGuard``.
    """

    def __init__(self, http_client: Any, guard_kind: "type[ReuseGuard]") -> None:
        self._http_client = http_client
        self._guard_kind = guard_kind
        self.is_blind: bool = False

    def prepare(self, request: Any, *, is_grant: bool) -> None:
        """See to it that *request* goes over a connection with nothing left on it, or a new one if that is unknown."""
        find = getattr(self._http_client, "_transport_for_url", None)
        transport = None if find is None else find(request.url)
        kind: Any = type(transport)
        kinds = _names_of(kind)
        if not kinds.isdisjoint(_IN_PROCESS):
            return
        if "AiohttpTransport" in kinds:
            known = _close_idle(transport, request.url, every=is_grant)
        else:
            pools = list(_pools_in(transport))
            known = bool(pools) and not self.is_blind
            request.extensions["trace"] = self._guard_kind(pools, request.extensions.get("trace"), self)
        if not known:
            # Every connection is closed after its answer, so that the next request finds none to reuse.
            request.headers["Connection"] = "close"


@lru_cache
def _names_of(kind: type) -> frozenset[str]:
    return frozenset(each.__name__ for each in kind.__mro__)


def _close_idle(transport: Any, url: Any, *, every: bool) -> bool:
    """
    Close the connections to *url*'s host that aiohttp keeps, and return whether that was possible.

    Half the head of an answer that arrives between two calls waits in aiohttp's parser, out of sight. So a
    grant takes a new connection, and *every* one is closed. A look-up keeps those without a sign of an answer: aiohttp
    makes a new parser for each request, so that the other half of a head is an error and no answer.
    """
    session: Any = getattr(transport, "client", None)
    if not hasattr(session, "connector"):
        return True  # The first call makes the session.
    kept = getattr(session.connector, "_conns", None)
    if not isinstance(kept, dict):
        return False
    for key in [key for key in kept if key.host == url.host]:
        held = kept[key]
        left_over = list(held) if every else _left_over(held)
        for each in left_over:
            held.remove(each)
            each[0].close()
        if not held:
            del kept[key]
    return True


def _left_over(held: Iterable[Any]) -> list[Any]:
    """Return those of aiohttp's idle connections that hold what arrived since their answer, read or not."""
    left_over, descriptors = [], {}
    for each in held:
        protocol = each[0]
        sock = protocol.transport and protocol.transport.get_extra_info("socket")
        if getattr(protocol, "should_close", True) or sock is None or sock.fileno() < 0:
            left_over.append(each)
        else:
            descriptors[sock.fileno()] = each
    # A closed connection can be read, too: aiohttp would only find that out when it writes.
    return left_over + [descriptors[descriptor] for descriptor in _readable(descriptors)]


def _readable(descriptors: Collection[int]) -> list[int]:
    if not descriptors:  # Windows refuses to wait for nothing.
        return []
    if not hasattr(select, "poll"):  # Windows, where select takes any descriptor.
        return select.select(list(descriptors), [], [], 0)[0]
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    return [descriptor for descriptor, _ in poll.poll(0)]


def _pools_in(transport: Any, depth: int = 3) -> Iterator[Any]:
    # A transport may be wrapped into another one that retries, measures or logs.
    parts = getattr(transport, "__dict__", {})
    if hasattr(parts.get("_pool"), "_requests"):
        yield parts["_pool"]
    elif depth > 0:
        for part in parts.values():
            if hasattr(part, "handle_request") or hasattr(part, "handle_async_request"):
                yield from _pools_in(part, depth - 1)


class ReuseGuard:
    """
    Looks at a connection of the user's own client right before a request is written to it: a trace of httpcore.

    Somebody else may have used that connection since we looked at it last. It looks at each sending of a request, for
    the user's client, its authentication and its transport may send one twice.
    """

    _keeps_deadlines = True

    def __init__(self, pools: list[Any], inner: Any, yours: YourTransport) -> None:
        self._pools = pools
        self._inner = inner
        self._yours = yours

    def __call__(self, event: str, info: Mapping[str, Any]) -> None:
        """
        Take note of *event*.

        Raises:
            LeftOverError: Something is left on the connection.
        """
        if event == _BEFORE_WRITING:
            self._check()
        elif self._inner is not None:
            self._inner(event, info)

    def _check(self) -> None:
        waiting = [each for pool in self._pools for each in list(pool._requests)[::-1]]
        ours = (each.connection for each in waiting if each.request.extensions.get("trace") is self)
        connection = _http11(next(ours, None))
        if not hasattr(connection, "_network_stream"):
            self._yours.is_blind = True
            return
        stream = connection._network_stream
        if getattr(connection, "_request_count", 2) > 1:
            # Asked for "is_readable", anyio makes a table of everything that is known of the connection.
            raw = getattr(getattr(stream, _ANYIO, None), "_raw_socket", None)
            has_more = (
                stream.get_extra_info("is_readable") if raw is None else raw.fileno() < 0 or _readable([raw.fileno()])
            )
            if has_more or not _nothing_read(connection, stream):
                raise LeftOverError
        if self._keeps_deadlines and not isinstance(stream, DeadlineStream):
            # For requests of others, whose timeouts are plain seconds, this changes nothing.
            connection._network_stream = DeadlineStream(stream)


class AsyncReuseGuard(ReuseGuard):
    """A ``ReuseGuard`` that is awaited."""

    _keeps_deadlines = False  # Async connections are cancelled when the time is over.

    async def __call__(self, event: str, info: Mapping[str, Any]) -> None:  # type: ignore[override] # as httpcore asks
        """Take note of *event*, as ``ReuseGuard`` does."""
        if event == _BEFORE_WRITING:
            self._check()
        elif self._inner is not None and inspect.isawaitable(result := self._inner(event, info)):
            await result
