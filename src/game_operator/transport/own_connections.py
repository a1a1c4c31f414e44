"""
The connections that are ours: HTTP clients of httpx, whose transports are httpx's own over pools of httpcore.

So what patches or wraps httpx sees every call. On blocking connections a deadline holds for a whole attempt: httpcore
gives each read and each write the same number of seconds, and headers that drip in, or interim answers without end,
make any number of reads. On a ``DeadlineStream`` the seconds carry the moment when they are over, and each read gets
what is left. Async calls need none of that: they are cancelled when their time is over.
"""

import socket
import ssl
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from ipaddress import ip_address
from typing import Any, Final, Generic, TypeVar

import httpx

from game_operator.protocol.signing import Signature

T = TypeVar("T")
HttpClientT = TypeVar("HttpClientT")
AnyOwnClient = TypeVar("AnyOwnClient", "OwnClient", "AsyncOwnClient")

#: Where our transports put the address of a redirect: httpx would read it, and may fail, although it follows none.
LOCATION: Final = "game_operator.location"
#: As httpx has it by default: routers forget connections that are idle for longer.
KEPT_SECONDS: Final = 5.0


class Until(float):
    """Seconds from now, as httpcore passes them on, and the *moment* on the monotonic clock when they are over."""

    moment: float

    @classmethod
    def over_at(cls, moment: float) -> "Until":
        """Return the seconds until *moment*."""
        until = cls(moment - time.monotonic())
        until.moment = moment
        return until


def seconds_left(timeout: float | None) -> float | None:
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
        received: bytes = self._stream.read(max_bytes, seconds_left(self._connecting if timeout is None else timeout))
        return received

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Write *buffer*."""
        self._stream.write(buffer, seconds_left(self._connecting if timeout is None else timeout))

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> "DeadlineStream | _TlsInTls":
        """Return the stream with TLS over it."""
        from httpcore import ConnectTimeout

        try:
            left = seconds_left(timeout)
        except TimeoutError as late:
            raise ConnectTimeout(str(late)) from None
        if self.get_extra_info("ssl_object") is None:
            return DeadlineStream(self._stream.start_tls(ssl_context, server_hostname, left))
        try:
            return _TlsInTls(self, ssl_context, server_hostname, timeout)
        except BaseException:
            self.close()
            raise


class _TlsInTls:
    """TLS through the TLS of an https proxy: httpcore's own makes any number of reads, each with the whole timeout."""

    def __init__(
        self, stream: DeadlineStream, context: ssl.SSLContext, hostname: str | None, timeout: float | None
    ) -> None:
        self._stream, self.close = stream, stream.close
        self._received, self._to_send = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._received, self._to_send, server_hostname=hostname)
        self._until_done(self._tls.do_handshake, timeout)

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        try:
            return self._until_done(lambda: self._tls.read(max_bytes), timeout)
        except ssl.SSLZeroReturnError:
            return b""

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._until_done(lambda: self._tls.write(buffer), timeout)

    def get_extra_info(self, info: str) -> Any:
        return self._tls if info == "ssl_object" else self._stream.get_extra_info(info)

    def _until_done(self, act: Callable[[], T], timeout: float | None) -> T:
        while True:
            result: list[T] = []
            with suppress(ssl.SSLWantReadError):
                result.append(act())
            if sent := self._to_send.read():
                self._stream.write(sent, timeout)
            if result:
                return result[0]
            if received := self._stream.read(65_536, timeout):
                self._received.write(received)
            else:
                self._received.write_eof()


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
                left = seconds_left(timeout)
                # An address that is not answered leaves its share of the time to the others.
                share = left if left is None else left / len(addresses)
                try:
                    return DeadlineStream(self._backend.connect_tcp(addresses.pop(0), port, share, **options), timeout)
                except (ConnectError, ConnectTimeout):
                    if not addresses:
                        raise
        except TimeoutError as late:
            raise ConnectTimeout(str(late)) from None
        except OSError as failed:
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
        return list(dict.fromkeys(str(entry[4][0]) for entry in found.result(seconds_left(timeout))))
    except TimeoutError:
        # Without the host: that of a proxy's address which is written wrongly may be its password.
        raise TimeoutError("DNS did not answer in time") from None


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
