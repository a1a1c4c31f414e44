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
from importlib.util import find_spec
from typing import Any, Final, Generic, TypeVar

import httpx

from game_operator.errors import ConfigurationError, without_frames
from game_operator.transport.deadlines import DeadlineBackend

HttpClientT = TypeVar("HttpClientT")
AnyOwnClient = TypeVar("AnyOwnClient", "OwnClient", "AsyncOwnClient")

#: As httpx has it by default: routers forget connections that are idle for longer.
KEPT_SECONDS: Final = 5.0


@without_frames
def proxy_at(address: object, *, is_argument: bool = True) -> httpx.Proxy | None:
    """
    Return the proxy at *address*, its user and password apart; None if that is None.

    Raises:
        ConfigurationError: It is not the address of an http, https or SOCKS5 proxy, or the extra ``socks`` is missing.
            The text does not quote the address, which may hold a password.
        TypeError: It is not a str.
    """
    if address is None:
        return None
    if not isinstance(address, str):
        raise TypeError(f"proxy must be a str, not {type(address).__name__}")
    proxy = None
    with suppress(httpx.InvalidURL, ValueError):
        read = httpx.Proxy(address)
        read.url.host.encode("idna")  # As a resolver does: labels have 1 to 63 letters.
        proxy = read if read.url.host and (read.url.port or 0) < 65_536 else None
    if proxy is None:
        problem, remedy = "A proxy's address cannot be read.", _ARGUMENT if is_argument else _VARIABLES
    elif proxy.url.scheme.startswith("socks") and find_spec("socksio") is None:
        problem, remedy = "A SOCKS proxy needs the package socksio.", "Run: pip install 'game-operator[socks]'"
    else:
        return proxy
    raise ConfigurationError(problem, setting="proxy" if is_argument else "trust_env", remedy=remedy)


_ARGUMENT: Final = (
    "Pass one like http://user:password@proxy.example.com:3128; https:// and socks5:// are fine, too. In a password, "
    "write / as %2F, @ as %40 and : as %3A."
)
_VARIABLES: Final = "Check HTTPS_PROXY, HTTP_PROXY and ALL_PROXY, or pass trust_env=False to do without them."


class OwnTransport(httpx.HTTPTransport):
    """httpx's transport over a pool of ours. ``_pool`` is the one private name of httpx that we need."""

    def __init__(self, pool: Any) -> None:
        self._pool = pool


class AsyncOwnTransport(httpx.AsyncHTTPTransport):
    """The same without blocking."""

    def __init__(self, pool: Any) -> None:
        self._pool = pool


class _NoCookies(httpx.Cookies):
    """Stays empty, however many cookies a service sets."""

    def extract_cookies(self, response: httpx.Response) -> None:
        """Keep none."""


class OwnClient(httpx.Client):
    """An ``httpx.Client`` without cookies, over a connection of ours; closed when it is no longer referenced."""

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
    kind: type[AnyOwnClient], proxy: httpx.Proxy | None, context: ssl.SSLContext
) -> Callable[[], AnyOwnClient]:
    """Return what makes an HTTP client of *kind* with one connection, which is opened when it is used."""
    import httpcore  # Here, because httpcore loads trio where that is installed.

    options: dict[str, Any] = {"ssl_context": context, "max_connections": 1, "keepalive_expiry": KEPT_SECONDS}
    prefix = "Async"
    if kind is OwnClient:
        prefix, options["network_backend"] = "", DeadlineBackend(httpcore.SyncBackend())
    pool = "ConnectionPool"
    if proxy is not None:
        url = proxy.url
        pool = "SOCKSProxy" if url.scheme.startswith("socks") else "HTTPProxy"
        options["proxy_url"] = httpcore.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=b"/")
        options["proxy_auth"] = proxy.raw_auth
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
        self._is_closed = False

    def take(self, *, fresh: bool) -> HttpClientT:
        """Return the client that was used last, or, if none is idle or it is to be *fresh*, a new one."""
        with suppress(IndexError):
            if not fresh:
                return self._idle.pop()[0]
        return self._make()

    def give_back(self, http_client: HttpClientT, *, is_kept: bool) -> Iterator[HttpClientT]:
        """Give up a place, and yield the clients to close: *http_client* unless it *is_kept*, and those long unused."""
        self.places.release()
        if is_kept and not self._is_closed:
            self._idle.append((http_client, time.monotonic()))
        else:
            yield http_client
        with suppress(IndexError):  # Another thread may be faster.
            while self._idle[0][1] < time.monotonic() - KEPT_SECONDS:
                yield self._idle.popleft()[0]

    def close(self) -> Iterator[HttpClientT]:
        """Yield the clients to close; the others are closed when they are given back."""
        self._is_closed = True
        idle, self._idle = self._idle, deque()
        yield from (http_client for http_client, _ in idle)
