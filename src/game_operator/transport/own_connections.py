"""
The connections that are ours: httpcore without httpx, and a deadline that holds for a whole attempt.

Around its connections an ``httpx.Client`` keeps cookies, merges headers, follows redirects, runs hooks, writes a log,
and builds a second request and response. Our connections do not need that, which costs more than a third of a call, its
signature aside. The direct clients have the interface of a client and hand each request to httpcore's pool.

httpcore gives each read and each write the same number of seconds. Headers that drip in, or interim answers without
end, make any number of reads. On a ``DeadlineStream`` the seconds carry the moment when they are over, and each read
gets what is left.
"""

import socket
import ssl
import threading
import time
import weakref
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any, ClassVar, NamedTuple

import httpx

from game_operator.protocol.http import HeaderPairs


class Until(float):
    """Seconds from now, as httpcore passes them on, and the *moment* on the monotonic clock when they are over."""

    moment: float

    @classmethod
    def over_at(cls, moment: float) -> "Until":
        """Return the seconds until *moment*."""
        until = cls(moment - time.monotonic())
        until.moment = moment
        return until


def _left(timeout: float | None) -> float | None:
    """Return what is left of *timeout* now; raise TimeoutError if that is nothing."""
    if not isinstance(timeout, Until):
        return timeout
    seconds = timeout.moment - time.monotonic()
    if seconds <= 0:
        raise TimeoutError("The attempt did not end in time")
    return seconds


class DeadlineStream:
    """httpcore's *stream*, which keeps to the moment of an ``Until``; other timeouts pass as they are."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Read up to *max_bytes*."""
        received: bytes = self._stream.read(max_bytes, _left(timeout))
        return received

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Write *buffer*."""
        self._stream.write(buffer, _left(timeout))

    def close(self) -> None:
        """Close the connection."""
        self._stream.close()

    def start_tls(
        self, ssl_context: Any, server_hostname: str | None = None, timeout: float | None = None
    ) -> "DeadlineStream":
        """Return the stream with TLS over it."""
        from httpcore import ConnectTimeout

        try:
            left = _left(timeout)
        except TimeoutError as late:
            raise ConnectTimeout(str(late)) from None
        return DeadlineStream(self._stream.start_tls(ssl_context, server_hostname, left))

    def get_extra_info(self, info: str) -> Any:
        """Return what httpcore's stream knows about *info*."""
        return self._stream.get_extra_info(info)


class DeadlineBackend:
    """Connects as httpcore's *backend* does, within one timeout, however many addresses a host has."""

    def __init__(self, backend: Any) -> None:
        self._backend = backend

    def connect_tcp(self, host: str, port: int, timeout: float | None = None, **options: Any) -> DeadlineStream:
        """
        Return a connection to *host*.

        Raises:
            httpcore.ConnectError: None can be made.
            httpcore.ConnectTimeout: The time is over.
        """
        # Here, because httpcore loads trio where that is installed.
        from httpcore import ConnectError, ConnectTimeout

        try:
            addresses = _addresses_of(host, port, timeout)
            for waiting in range(len(addresses), 0, -1):
                left = _left(timeout)
                # An address that is not answered leaves its share of the time to the others.
                share = left if left is None else left / waiting
                address = addresses[-waiting]
                try:
                    stream = self._backend.connect_tcp(address, port, share, **options)
                except (ConnectError, ConnectTimeout):
                    if waiting == 1:
                        raise
                else:
                    return DeadlineStream(stream)
        except TimeoutError as late:
            raise ConnectTimeout(str(late)) from None
        except OSError as failed:
            raise ConnectError(str(failed)) from None
        raise ConnectError(f"{host} has no address")


def _addresses_of(host: str, port: int, timeout: float | None) -> list[str]:
    if timeout is None:
        return [host]
    with suppress(ValueError):
        ip_address(host.partition("%")[0])
        return [host]
    found: list[Any] = []

    def look_up() -> None:
        try:
            found.append(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
        except Exception as failed:  # Whatever it is, the caller raises it.
            found.append(failed)

    # A resolver that is silent blocks for half a minute, and nothing interrupts it.
    resolving = threading.Thread(target=look_up, daemon=True, name="game-operator-resolver")
    resolving.start()
    resolving.join(_left(timeout))
    if not found:
        raise TimeoutError(f"the address of {host} was not found in time")
    if isinstance(found[0], Exception):
        raise found[0]
    return list(dict.fromkeys(str(entry[4][0]) for entry in found[0]))


class _Headers(NamedTuple):
    raw: HeaderPairs


@dataclass(slots=True, frozen=True, repr=False)
class _Response:
    """
    What this package reads of an ``httpx.Response``; the body is unread.

    It has no ``repr``, because a service may echo a signature and error trackers show the locals of every frame.
    """

    status_code: int
    headers: _Headers
    stream: Any
    extensions: Mapping[str, Any]
    is_stream_consumed: ClassVar[bool] = False

    def close(self) -> None:
        """Give the connection back, or close it."""
        self.stream.close()

    async def aclose(self) -> None:
        """Give the connection back, or close it."""
        await self.stream.aclose()


def _response(core: Any) -> _Response:
    return _Response(core.status, _Headers(core.headers), core.stream, core.extensions)


def _options(verify: ssl.SSLContext, limits: httpx.Limits) -> dict[str, Any]:
    return {
        "ssl_context": verify,
        "max_connections": limits.max_connections,
        "max_keepalive_connections": limits.max_keepalive_connections,
        "keepalive_expiry": limits.keepalive_expiry,
    }


class DirectClient:
    """Sends ``httpcore.Request``s, without a proxy; the arguments are those of ``httpx.HTTPTransport``."""

    def __init__(self, *, verify: ssl.SSLContext, limits: httpx.Limits, **_: Any) -> None:
        # Here, because httpcore loads trio where that is installed.
        from httpcore import ConnectionPool, SyncBackend

        backend: Any = DeadlineBackend(SyncBackend())
        self._pool = ConnectionPool(network_backend=backend, **_options(verify, limits))

    def send(self, request: Any, **_: Any) -> Any:
        """Send *request* and return the response, its body unread; a redirect is never followed."""
        return _response(self._pool.handle_request(request))

    def close(self) -> None:
        """Close the connections."""
        self._pool.close()


class ProxiedClient:
    """An ``httpx.Client``, which knows proxies, that closes itself when it is no longer referenced."""

    def __init__(self, **options: Any) -> None:
        self._client = httpx.Client(**options)
        for transport in (self._client._transport, *self._client._mounts.values()):
            pool: Any = getattr(transport, "_pool", None)
            if hasattr(pool, "_network_backend"):  # Proxies keep the deadline, too.
                pool._network_backend = DeadlineBackend(pool._network_backend)
        self._closing = weakref.finalize(self, self._client.close)
        # A forked child that ends has no business with its parent's connections.
        self._closing.atexit = False

    def send(self, request: httpx.Request, **options: Any) -> httpx.Response:
        """Send *request* as ``httpx.Client.send`` does."""
        return self._client.send(request, **options)

    def close(self) -> None:
        """Close the connections."""
        self._closing()


class AsyncDirectClient:
    """The same as ``DirectClient`` without blocking."""

    def __init__(self, *, verify: ssl.SSLContext, limits: httpx.Limits, **_: Any) -> None:
        from httpcore import AsyncConnectionPool

        self._pool = AsyncConnectionPool(**_options(verify, limits))

    async def send(self, request: Any, **_: Any) -> Any:
        """Send *request* and return the response, its body unread; a redirect is never followed."""
        return _response(await self._pool.handle_async_request(request))

    async def aclose(self) -> None:
        """Close the connections."""
        await self._pool.aclose()
