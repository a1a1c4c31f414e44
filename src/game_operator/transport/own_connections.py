"""
httpcore without httpx, for the connections that are ours.

Around its connections an ``httpx.Client`` keeps cookies, merges headers, follows redirects, runs hooks, writes a log,
and builds a second request and response. Ours would need none of that, which costs more than a third of a call, its
signature aside. These two have the interface of a client and hand each request to httpcore's pool.
"""

import ssl
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import httpx

from game_operator.protocol.http import HeaderPairs
from game_operator.transport.deadline import DeadlineBackend, hold_deadlines

__all__ = ["AsyncDirectClient", "DirectClient", "ProxiedClient"]


class _Headers(NamedTuple):
    raw: HeaderPairs


@dataclass(slots=True, frozen=True, repr=False)
class _Response:
    """
    What this package reads of an ``httpx.Response``; the body is unread.

    It has no ``repr``, for a service may echo a signature, and error trackers show the locals of every frame.
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
    """An ``httpx.Client``, which knows proxies, that closes itself when nobody holds it any more."""

    def __init__(self, **options: Any) -> None:
        self._client = httpx.Client(**options)
        hold_deadlines(self._client)
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
