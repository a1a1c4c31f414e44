"""
The connections that are ours: HTTP clients of httpx, whose transports are httpx's own over pools of httpcore.

So what patches or wraps httpx sees every call.
"""

import ssl
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Final, Generic, TypeVar

import httpx

from game_operator.protocol.signing import Signature
from game_operator.transport.attempt import LOCATION
from game_operator.transport.deadlines import DeadlineBackend

HttpClientT = TypeVar("HttpClientT")
AnyOwnClient = TypeVar("AnyOwnClient", "OwnClient", "AsyncOwnClient")

#: As httpx has it by default: routers forget connections that are idle for longer.
KEPT_SECONDS: Final = 5.0


class OwnTransport(httpx.HTTPTransport):
    """httpx's transport over a pool of ours. ``_pool`` is the one private name of httpx that we need."""

    def __init__(self, pool: Any) -> None:
        self._pool = pool

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Return the response, the address of a redirect put aside."""
        return _without_location(super().handle_request(request))


class AsyncOwnTransport(httpx.AsyncHTTPTransport):
    """The same without blocking."""

    def __init__(self, pool: Any) -> None:
        self._pool = pool

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Return the response, the address of a redirect put aside."""
        return _without_location(await super().handle_async_request(request))


def _without_location(response: httpx.Response) -> httpx.Response:
    if "location" in response.headers:
        response.extensions[LOCATION] = response.headers.pop("location")
    return response


class _NoCookies(httpx.Cookies):
    """Stays empty, however many cookies a service sets."""

    def extract_cookies(self, response: httpx.Response) -> None:
        """Keep none."""


class OwnClient(httpx.Client):
    """An ``httpx.Client`` without cookies, over our connection. It closes when nothing refers to it any more."""

    cookies: Any = _NoCookies()

    def __init__(self, pool: Any) -> None:
        transport = OwnTransport(pool)
        super().__init__(transport=transport, trust_env=False)
        # A forked child that ends has no business with its parent's connections.
        weakref.finalize(self, transport.close).atexit = False


class AsyncOwnClient(httpx.AsyncClient):
    """The same without blocking; it is closed on its event loop."""

    cookies: Any = _NoCookies()

    def __init__(self, pool: Any) -> None:
        super().__init__(transport=AsyncOwnTransport(pool), trust_env=False)


def maker_of(
    kind: type[AnyOwnClient],
    proxy: httpx.Proxy | None,
    context: ssl.SSLContext,
    watch: Callable[[Any], Any] | None = None,
) -> Callable[[], AnyOwnClient]:
    """
    Return what makes an HTTP client of *kind* with one connection, which is opened when it is used.

    *watch* returns the network backend to use in place of the one that it is given.
    """
    import httpcore  # Here, because httpcore loads trio where that is installed.

    options: dict[str, Any] = {"ssl_context": context, "max_connections": 1, "keepalive_expiry": KEPT_SECONDS}
    prefix = "Async"
    if kind is OwnClient:
        prefix, options["network_backend"] = "", DeadlineBackend(httpcore.SyncBackend())
    if watch is not None:
        options["network_backend"] = watch(options.get("network_backend") or httpcore.AnyIOBackend())
    pool = "ConnectionPool"
    if proxy is not None:
        url = proxy.url
        pool = "SOCKSProxy" if url.scheme.startswith("socks") else "HTTPProxy"
        options["proxy_url"] = httpcore.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=b"/")
        options["proxy_auth"] = proxy.raw_auth and tuple(map(Signature, proxy.raw_auth))  # Not shown in logs.
        if url.scheme == "https":
            options["proxy_ssl_context"] = context
    make = getattr(httpcore, prefix + pool)
    return lambda: kind(make(**options))


class Connections(Generic[HttpClientT]):
    """
    The HTTP clients of one process and one event loop, with a connection each, in at most as many *places*.

    With one client for all, httpcore would look at every connection for each call, so that a call takes three times as
    long if 64 are in flight; and a connection that is given up in its handshake behind a proxy would keep its place.
    """

    def __init__(self, make: Callable[[], HttpClientT], places: Any) -> None:
        self.places: Any = places
        self._make = make
        self._idle: deque[tuple[HttpClientT, float]] = deque()
        self.is_closed: bool = False

    def take(self, *, fresh: bool) -> HttpClientT:
        """Return the client that was used last, or, if none is idle or it is to be *fresh*, a new one."""
        with suppress(IndexError):
            if not fresh:
                return self._idle.pop()[0]
        return self._make()

    def give_back(self, http_client: HttpClientT, *, is_kept: bool) -> Iterator[HttpClientT]:
        """Give up a place, and yield the clients to close: *http_client* unless it *is_kept*, and those long unused."""
        self.places.release()
        if is_kept and not self.is_closed:
            self._idle.append((http_client, time.monotonic()))
        else:
            yield http_client
        with suppress(IndexError):  # Another thread may be faster.
            while self._idle[0][1] < time.monotonic() - KEPT_SECONDS:
                yield self._idle.popleft()[0]

    def close(self) -> Iterator[HttpClientT]:
        """Yield the clients to close; the others are closed when they are given back."""
        self.is_closed = True
        idle, self._idle = self._idle, deque()
        yield from (http_client for http_client, _ in idle)
