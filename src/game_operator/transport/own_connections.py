"""
The connections that are ours: an httpx client over httpcore's pools, and a deadline that holds for a whole attempt.

What patches or wraps httpx sees every call, because the transport is httpx's own with other pools inside.

httpcore gives each read and each write the same number of seconds. Headers that drip in, or interim answers without
end, make any number of reads. On a ``DeadlineStream`` the seconds carry the moment when they are over, and each read
gets what is left. Async calls need none of that: they are cancelled when their time is over.
"""

import socket
import ssl
import threading
import time
import weakref
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from ipaddress import ip_address
from typing import Any, Final

import anyio
import httpx
from anyio.lowlevel import checkpoint_if_cancelled

#: A key in the extensions of a request that takes a connection of its own.
FRESH: Final = "game_operator.fresh"
#: As httpx has it by default: routers forget connections that are idle for longer.
_KEPT_SECONDS: Final = 5.0


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
    """
    httpcore's *stream*, which keeps to the moment of an ``Until``; other timeouts pass as they are.

    *connecting* is the timeout of reads and writes that have none: httpcore gives none to a SOCKS handshake.
    """

    def __init__(self, stream: Any, connecting: float | None = None) -> None:
        self._stream = stream
        self._connecting = connecting
        self.close: Callable[[], None] = stream.close
        self.get_extra_info: Callable[[str], Any] = stream.get_extra_info

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Read up to *max_bytes*."""
        received: bytes = self._stream.read(max_bytes, _left(self._connecting if timeout is None else timeout))
        return received

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Write *buffer*."""
        self._stream.write(buffer, _left(self._connecting if timeout is None else timeout))

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> "DeadlineStream":
        """Return the stream with TLS over it."""
        from httpcore import ConnectTimeout

        try:
            left = _left(timeout)
        except TimeoutError as late:
            raise ConnectTimeout(str(late)) from None
        return DeadlineStream(self._stream.start_tls(ssl_context, server_hostname, left))


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
            if not addresses:  # The system's resolver raises instead; one that was put in its place may not.
                raise ConnectError(f"{host} has no address")
            while True:
                left = _left(timeout)
                # An address that is not answered leaves its share of the time to the others.
                share = left if left is None else left / len(addresses)
                try:
                    return DeadlineStream(self._backend.connect_tcp(addresses.pop(0), port, share, **options), timeout)
                except (ConnectError, ConnectTimeout):
                    if not addresses:
                        raise
        except TimeoutError as late:
            raise ConnectTimeout(str(late)) from None
        except (OSError, RuntimeError) as failed:  # RuntimeError: no thread can be started for the resolver.
            raise ConnectError(str(failed)) from None


class AsyncBackend:
    """Connects as httpcore's *backend* does; that no thread can be started is a failure to connect."""

    def __init__(self, backend: Any) -> None:
        self._backend = backend

    async def connect_tcp(self, host: str, port: int, timeout: float | None = None, **options: Any) -> Any:
        """Return a connection to *host*; raise httpcore's ConnectError or ConnectTimeout."""
        from httpcore import ConnectError

        try:
            return await self._backend.connect_tcp(host, port, timeout, **options)
        except RuntimeError as failed:
            raise ConnectError(str(failed)) from None


def _addresses_of(host: str, port: int, timeout: float | None) -> list[str]:
    with suppress(ValueError):
        ip_address(host.partition("%")[0])
        return [host]
    found: Future[list[Any]] = Future()

    def look_up() -> None:
        try:
            found.set_result(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
        except Exception as failed:  # Whatever it is, the caller raises it.
            found.set_exception(failed)

    # A resolver that is silent blocks for half a minute, and nothing interrupts it.
    threading.Thread(target=look_up, daemon=True, name="game-operator-resolver").start()
    try:
        return list(dict.fromkeys(str(entry[4][0]) for entry in found.result(_left(timeout))))
    except TimeoutError:
        # Without the host: that of a proxy's address which is written wrongly may be its password.
        raise TimeoutError("DNS did not answer in time") from None


def proxy_at(address: str) -> httpx.Proxy:
    """
    Return the proxy at *address*, its user and password apart.

    Raises:
        ValueError: It is not the address of an http, https, socks5 or socks5h proxy. The text does not quote it.
        ImportError: It is a SOCKS proxy, and the extra is missing.
    """
    try:
        proxy = httpx.Proxy(address)
    except (httpx.InvalidURL, ValueError):
        raise ValueError("a proxy has no readable address") from None
    if not proxy.url.host:
        raise ValueError("a proxy has no readable address")
    if proxy.url.scheme.startswith("socks"):
        try:
            import socksio  # noqa: F401 - httpcore needs it
        except ImportError:
            raise ImportError("a SOCKS proxy needs socksio. Run: pip install 'game-operator[socks]'") from None
    return proxy


def _maker(kind: str, proxy: httpx.Proxy | None, options: dict[str, Any]) -> Callable[[], Any]:
    """Return what makes a pool of httpcore with one connection; *kind* is "" or "Async"."""
    import httpcore  # Here, because httpcore loads trio where that is installed.

    options |= {"max_connections": 1, "keepalive_expiry": _KEPT_SECONDS}
    if proxy is None:
        return partial(getattr(httpcore, f"{kind}ConnectionPool"), **options)
    url = proxy.url
    options["proxy_url"] = httpcore.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=b"/")
    options["proxy_auth"] = proxy.raw_auth
    if url.scheme == "https":
        options["proxy_ssl_context"] = options["ssl_context"]
    return partial(
        getattr(httpcore, f"{kind}{'SOCKSProxy' if url.scheme.startswith('socks') else 'HTTPProxy'}"), **options
    )


class _Pool:
    """
    Up to *most* connections, each in a pool of httpcore's of its own.

    In one pool, httpcore looks at every connection for each call; 64 calls in flight take three times as long. And a
    connection that is given up in the handshake behind a proxy keeps its place there.
    """

    def __init__(self, make: Callable[[], Any], most: int) -> None:
        self._make = make
        self._places = threading.Semaphore(most)
        self._idle: deque[tuple[Any, float]] = deque()

    def handle_request(self, request: Any) -> Any:
        """Return httpcore's response to *request*, over a connection that is idle, or a new one."""
        if not self._places.acquire(blocking=False):
            self._wait_for_place(request.extensions["timeout"]["pool"])
        is_kept = FRESH not in request.extensions
        pool = _latest(self._idle) if is_kept else None
        pool = pool or self._make()
        try:
            response = pool.handle_request(request)
        except BaseException:
            self._give_back(pool, is_kept=False)
            raise
        response.stream = _Body(response.stream, lambda: self._give_back(pool, is_kept=is_kept))
        return response

    def close(self) -> None:
        """Close what is idle."""
        while pool := _latest(self._idle):
            pool.close()

    def _wait_for_place(self, timeout: float) -> None:
        from httpcore import PoolTimeout

        try:
            has_place = self._places.acquire(timeout=_left(timeout))
        except TimeoutError:
            has_place = False
        if not has_place:
            raise PoolTimeout("all connections are in use")

    def _give_back(self, pool: Any, *, is_kept: bool) -> None:
        if is_kept:
            self._idle.append((pool, time.monotonic()))
        else:
            pool.close()
        self._places.release()
        for expired in _expired(self._idle):
            expired.close()


class _AsyncPool:
    """The same without blocking."""

    def __init__(self, make: Callable[[], Any], most: int) -> None:
        self._make = make
        self._places = anyio.Semaphore(most, fast_acquire=True)
        self._idle: deque[tuple[Any, float]] = deque()

    async def handle_async_request(self, request: Any) -> Any:
        """Return httpcore's response to *request*, over a connection that is idle, or a new one."""
        await self._take_place(request.extensions["timeout"]["pool"])
        is_kept = FRESH not in request.extensions
        pool = _latest(self._idle) if is_kept else None
        pool = pool or self._make()
        try:
            response = await pool.handle_async_request(request)
        except BaseException:
            await self._give_back(pool, is_kept=False)
            raise
        response.stream = _AsyncBody(response.stream, lambda: self._give_back(pool, is_kept=is_kept))
        return response

    async def aclose(self) -> None:
        """Close what is idle."""
        while pool := _latest(self._idle):
            await pool.aclose()

    async def _take_place(self, timeout: float) -> None:
        try:
            return self._places.acquire_nowait()
        except anyio.WouldBlock:
            from httpcore import PoolTimeout
        with anyio.move_on_after(timeout):
            return await self._places.acquire()
        raise PoolTimeout("all connections are in use")

    async def _give_back(self, pool: Any, *, is_kept: bool) -> None:
        self._places.release()
        if is_kept:
            self._idle.append((pool, time.monotonic()))
        with anyio.CancelScope(shield=True):
            if not is_kept:
                await pool.aclose()
            for expired in _expired(self._idle):
                await expired.aclose()


def _latest(idle: deque[tuple[Any, float]]) -> Any:
    try:
        return idle.pop()[0]
    except IndexError:  # Another thread may have taken it.
        return None


def _expired(idle: deque[tuple[Any, float]]) -> Iterator[Any]:
    """Take those that nobody has used for long: the service may have closed them."""
    oldest = time.monotonic() - _KEPT_SECONDS
    with suppress(IndexError):
        while idle[0][1] < oldest:
            yield idle.popleft()[0]


class _Body:
    """The body of a response of httpcore, which calls *done* when it is closed."""

    def __init__(self, body: Any, done: Callable[[], object]) -> None:
        self._body, self._done = body, done

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._body)

    def close(self) -> None:
        done, self._done = self._done, bool
        try:
            self._body.close()
        finally:
            done()


class _AsyncBody:
    """The same, awaited."""

    def __init__(self, body: Any, done: Callable[[], Awaitable[object]]) -> None:
        self._body, self._done = body, done

    def __aiter__(self) -> AsyncIterator[bytes]:
        return aiter(self._body)

    async def aclose(self) -> None:
        done, self._done = self._done, checkpoint_if_cancelled
        try:
            await self._body.aclose()
        finally:
            await done()


class OwnTransport(httpx.HTTPTransport):
    """httpx's transport over our connections. Its pool is the one private name of httpx that we need."""

    def __init__(self, proxy: httpx.Proxy | None, *, most: int, **options: Any) -> None:
        from httpcore import SyncBackend

        options["network_backend"] = DeadlineBackend(SyncBackend())
        self._pool: Any = _Pool(_maker("", proxy, options), most)


class AsyncOwnTransport(httpx.AsyncHTTPTransport):
    """The same without blocking."""

    def __init__(self, proxy: httpx.Proxy | None, *, most: int, **options: Any) -> None:
        from httpcore import AnyIOBackend

        options["network_backend"] = AsyncBackend(AnyIOBackend())
        self._pool: Any = _AsyncPool(_maker("Async", proxy, options), most)


class _NoCookies(httpx.Cookies):
    """Stays empty, however many cookies a service sets."""

    def extract_cookies(self, response: httpx.Response) -> None:
        """Keep none."""


_NO_COOKIES: Final = _NoCookies()


class OwnClient(httpx.Client):
    """An ``httpx.Client`` over our connections, without cookies."""

    cookies: Any = _NO_COOKIES


class AsyncOwnClient(httpx.AsyncClient):
    """The same without blocking; it is closed on its event loop."""

    cookies: Any = _NO_COOKIES


def own_client(proxy: httpx.Proxy | None, **options: Any) -> httpx.Client:
    """Return an ``httpx.Client``; its connections close when it is no longer referenced."""
    transport = OwnTransport(proxy, **options)
    http_client = OwnClient(transport=transport, trust_env=False)
    # A forked child that ends has no business with its parent's connections.
    weakref.finalize(http_client, transport.close).atexit = False
    return http_client


def own_async_client(proxy: httpx.Proxy | None, **options: Any) -> httpx.AsyncClient:
    """Return an ``httpx.AsyncClient``."""
    return AsyncOwnClient(transport=AsyncOwnTransport(proxy, **options), trust_env=False)
