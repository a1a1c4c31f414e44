"""
Between our values and those of httpx: requests out, responses and failures in.

The same code serves httpx and httpx2, which have one interface and two families of classes.
"""

import os
import ssl
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache, lru_cache
from typing import Any, ClassVar, Self, TypeAlias, TypeVar
from urllib.parse import urlsplit
from urllib.request import getproxies

import httpx

from game_operator.errors import ConfigurationError, shown
from game_operator.protocol.exchange import Send, TransportFailed
from game_operator.protocol.http import HeaderPairs, HttpReply, is_loopback, joined_headers
from game_operator.transport.connection_reuse import ReuseGuard, YourTransport
from game_operator.transport.own_connections import Until
from game_operator.transport.settings import ReadLimits

#: What httpcore calls with each event: its name, and what belongs to it.
Trace: TypeAlias = Callable[[str, Mapping[str, Any]], Awaitable[None] | None]

_C = TypeVar("_C")

_MAX_CONNECTIONS = 100
_REMEMBERED_URLS = 1024
_HEAD_START_SECONDS = 0.1


def default_ssl_context(base_url: str, *, trust_env: bool) -> ssl.SSLContext:
    """
    Return the process's TLS settings, built once: reading the root certificates costs more than 100 calls.

    A client that only speaks plain http gets settings without any root, which trust no certificate and cost nothing.
    """
    if not base_url.startswith("https:"):
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    return _system_context(trust_env)


@cache
def _system_context(trust_env: bool) -> ssl.SSLContext:
    return httpx.create_ssl_context(trust_env=trust_env)


def from_environment(make: Callable[[], _C]) -> _C:
    """
    Return what *make* builds; what httpx raises meanwhile is a ConfigurationError, because the environment is wrong.

    httpx's own error goes no further: its text and its frames may hold a proxy's password.

    Raises:
        ConfigurationError: A proxy variable or SSL_CERT_FILE cannot be used.
    """
    try:
        return make()
    except (OSError, ImportError) as failed:
        problem = f"{type(failed).__name__}: {failed}"
    except (httpx.InvalidURL, ValueError):
        problem = "a proxy has no readable address"
    raise ConfigurationError(
        f"No connection can be set up ({problem}).",
        setting="trust_env",
        remedy="Check HTTPS_PROXY and the other proxy variables, SSL_CERT_FILE and SSL_CERT_DIR, or pass "
        "trust_env=False to do without them.",
    )


class Handshake:
    """
    A connection on its way to TLS, as httpcore reports it: a ``Trace``.

    *unfinished* is httpcore's stream from the moment there is a connection until TLS protects it. As long as it is set,
    no request has left. Cut short there, httpcore 1.0.9 leaves things behind: an async connection stays open when the
    handshake is cancelled, and behind a proxy the connection keeps its place in the pool for ever.
    """

    def __init__(self) -> None:
        self.unfinished: Any = None

    def __call__(self, event: str, info: Mapping[str, Any]) -> None:
        """Take note of *event*."""
        if event.endswith("connect_tcp.complete"):
            self.unfinished = info["return_value"]
        elif event.endswith("start_tls.complete"):
            self.unfinished = None

    def judged(self, failed: TransportFailed) -> TransportFailed:
        """Return *failed*; while the handshake is unfinished, nothing was sent."""
        return failed if self.unfinished is None else replace(failed, sent=False)


#: Errors of these are failures of the network, as OSError and TimeoutError are.
_NETWORK_LIBRARIES = frozenset(
    {"aiohttp", "anyio", "h11", "h2", "httpcore", "httpcore2", "httpx", "httpx2", "httpx_aiohttp", "socksio", "trio"}
)


def _root_of(kind: type) -> str:
    return kind.__module__.partition(".")[0]


def _roots_of(value: object) -> set[str]:
    return set(map(_root_of, type(value).__mro__))


def failure(error: Exception) -> TransportFailed:
    """
    Return what *error*, raised instead of a response, means for the request.

    Raises:
        Exception: *error* itself, if it does not come from the network: a bug in a hook, or what a signal handler
            raised. Such an error is never taken for a failure of the network.
    """
    if not isinstance(error, OSError) and not _NETWORK_LIBRARIES & _roots_of(error):
        raise error
    cause = error.__cause__
    if cause is not None and type(cause).__module__.startswith("aiohttp"):
        # httpx-aiohttp maps every ClientConnectionError to ConnectTimeout, a reset in the middle of an answer included.
        # A grant that may have been made would count as never sent, so aiohttp's own error decides.
        sent = _AIOHTTP_NEVER_SENT.isdisjoint(kind.__name__ for kind in type(cause).__mro__)
        timed_out = isinstance(cause, TimeoutError)
    else:
        kinds = {kind.__name__ for kind in type(error).__mro__ if _root_of(kind) in _FAMILY}
        sent = kinds.isdisjoint(_NEVER_SENT)
        timed_out = isinstance(error, TimeoutError) or "TimeoutException" in kinds
    return TransportFailed(_reason_of(error), sent, timed_out)


#: Libraries whose errors have the same names, and those that say that a request never left.
_FAMILY = {"httpcore", "httpcore2", "httpx", "httpx2"}
_NEVER_SENT = {"ConnectError", "ConnectTimeout", "PoolTimeout", "ProxyError", "UnsupportedProtocol", "InvalidURL"}


class _Body:
    """
    The body of a request as a transport takes it: in one piece, or in none.

    httpx's own has an empty piece instead of none, which goes through all layers like any other. And read by an async
    transport it is a generator, which trio reports as not exhausted when the connection breaks meanwhile.
    """

    def __init__(self, body: bytes) -> None:
        self._pieces = [body] if body else []

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._pieces)

    def __aiter__(self) -> Self:
        self._left = iter(self._pieces)
        return self

    async def __anext__(self) -> bytes:
        for piece in self._left:
            return piece
        raise StopAsyncIteration


def _text_of(error: BaseException) -> str:
    # On trio, the reason of a failed handshake stands three errors deep, behind three empty texts.
    behind = error.__cause__ or error.__context__
    # A cancellation behind it says nothing: it comes from the library's own scopes.
    return str(error) or (_text_of(behind) if isinstance(behind, Exception) else "")


def _reason_of(error: Exception) -> str:
    name, text = type(error).__name__, _text_of(error)
    refused = error.__cause__
    if refused is not None and type(refused).__name__ in _AIOHTTP_REFUSED:
        # httpx-aiohttp calls it a timeout, and aiohttp names its settings in place of the reason.
        host, port, number = (getattr(refused, part, None) for part in ("host", "port", "errno"))
        # A name that is not found has a negative number, and its own text.
        why = os.strerror(number) if isinstance(number, int) and number > 0 else getattr(refused, "strerror", "")
        name, text = "ConnectError", f"cannot connect to {host}:{port}: {why}"
    if "header value" in text:
        # h11 quotes the value of a header it refuses, which may be a credential of the user's own client.
        text = "a header has a value that cannot be sent"
    return f"{name}: {text}" if text else name


_AIOHTTP_REFUSED = {"ClientConnectorError", "ClientConnectorDNSError"}
_AIOHTTP_NEVER_SENT = {"ClientConnectorError", "ConnectionTimeoutError", "InvalidURL", "ClientHttpProxyError"}


def _library_of(http_client: object, kind: str) -> Any:
    """
    Return the module of the library that *http_client* belongs to, whose class *kind* it must be.

    Raises:
        ConfigurationError: It is not such a client of httpx or httpx2.
    """
    library: Any = httpx
    if "httpx2" in _roots_of(http_client):
        import httpx2 as library
    if not isinstance(http_client, getattr(library, kind)):
        raise ConfigurationError(
            f"http_client is a {type(http_client).__module__}.{type(http_client).__name__}.",
            setting="http_client",
            remedy=f"Pass a {kind} of httpx or httpx2 here.",
        )
    return library


@lru_cache(_REMEMBERED_URLS)
def _core_url(url: str) -> Any:
    from httpcore import URL

    parsed = httpx.URL(url)
    return URL(scheme=parsed.raw_scheme, host=parsed.raw_host, port=parsed.port, target=parsed.raw_path)


def _beside(names: tuple[bytes, ...], yours: HeaderPairs) -> HeaderPairs:
    """Return the headers of the user's own client that ours, called *names*, do not replace."""
    replaced = {name.lower() for name in names} | {b"host", b"content-type", b"content-length", b"connection"}
    return tuple((name, value) for name, value in yours if name.lower() not in replaced)


def _extensions(seconds: float, trace: Trace | None, give_up_seconds: float | None) -> dict[str, Any]:
    # Connecting gives up a little before the attempt does, so that a grant that never left differs from one in doubt;
    # on a busy machine two timers that end together end in any order.
    early = max(seconds - _HEAD_START_SECONDS, seconds / 2)
    if give_up_seconds is not None:
        early = Until.over_at(give_up_seconds - seconds + early)
        seconds = Until.over_at(give_up_seconds)
    timeout = {"connect": early, "pool": early, "read": seconds, "write": seconds}
    return {"timeout": timeout} if trace is None else {"timeout": timeout, "trace": trace}


class BaseWire:
    """
    The connections of a client, made when they are first used; sync and async ones share everything but the awaits.

    *owner* is what an error calls the client.
    """

    _client_kind: ClassVar[str]
    _guard_kind: ClassVar[type[ReuseGuard]]
    _direct: ClassVar[Any]
    _proxied: ClassVar[Any]

    def __init__(
        self,
        owner: str,
        base_url: str,
        http_client: Any,
        ssl_context: ssl.SSLContext | None,
        trust_env: bool,
        read_limits: ReadLimits,
    ) -> None:
        self._owner = owner
        self._base_url = base_url
        self._secure = base_url.startswith("https:")
        self._ssl_context = ssl_context
        self._trust_env = trust_env
        self._read_limits = read_limits
        self._yours = http_client
        self._your_process: int | None = None
        self._your_transport = None if http_client is None else YourTransport(http_client, self._guard_kind)
        self._library = httpx if http_client is None else _library_of(http_client, self._client_kind)
        self._body = type("Body", (_Body, self._library.ByteStream), {})
        self._url = lru_cache(_REMEMBERED_URLS)(self._library.URL)
        self._beside = lru_cache(1)(_beside)  # As a rule, your client's headers are the same at each call.
        try:
            self._host = ((b"Host", self._library.URL(base_url).netloc),)
        except self._library.InvalidURL:
            raise ConfigurationError(
                f"The base URL {shown(base_url)} has a host that no machine can have.",
                setting="base_url",
                remedy="Pass one like https://api.example.com.",
            ) from None
        self._closed = False

    def _request(self, http_client: Any, step: Send, trace: Trace | None, give_up_seconds: float | None = None) -> Any:
        """
        Return httpcore's request for *step* where the connections are ours, else the library's.

        Its body and headers are those of *step*. It is to end at *give_up_seconds* on the monotonic clock, where the
        connections can see to that.
        """
        signed = step.request
        headers, url = self._host + signed.headers, self._base_url + signed.path
        extensions = _extensions(step.timeout_seconds, trace, give_up_seconds)
        if signed.body:
            headers += ((b"Content-Type", b"application/json"), (b"Content-Length", b"%d" % len(signed.body)))
        if isinstance(http_client, self._direct):
            from httpcore import Request  # Here, because httpcore loads trio where that is installed.

            body = _Body(signed.body)
            return Request(signed.method, _core_url(url), headers=headers, content=body, extensions=extensions)
        if self._yours is not None:
            headers += self._beside(tuple(name for name, _ in signed.headers), tuple(self._yours.headers.raw))
        # Given content= instead of stream=, httpx would go over the headers twice more, to add some.
        request = self._library.Request(
            signed.method, self._url(url), headers=headers, stream=self._body(signed.body), extensions=extensions
        )
        request.read()  # Transports and hooks of yours may ask for its content.
        if self._your_transport is not None:
            self._your_transport.prepare(request, is_grant=step.is_grant)
        return request

    def _is_closed(self) -> ConfigurationError:
        return ConfigurationError(f"This {self._owner} is closed.", remedy="Make a new one, or close it later.")

    def _check_yours(self) -> None:
        """Raise ConfigurationError if the user's own http_client is closed, or was used in the parent process."""
        self._your_process = self._your_process or os.getpid()
        problem = ""
        if self._yours.is_closed:
            problem, remedy = "Your http_client is closed.", "Close it only after the last call of this client."
        elif self._your_process != os.getpid():
            problem = (
                "This process was forked after the client had been used, and its http_client's connections belong to "
                "the parent."
            )
            remedy = "Build the http_client and the client after the fork, or leave http_client out."
        if problem:
            raise ConfigurationError(problem, setting="http_client", remedy=remedy)

    def _new_http_client(self) -> Any:
        """
        Return a new HTTP client of ours: a direct one, or a proxied one if the environment names a proxy.

        Raises:
            ConfigurationError: A proxy variable or SSL_CERT_FILE cannot be used.
        """
        limits = httpx.Limits(max_connections=_MAX_CONNECTIONS, max_keepalive_connections=_MAX_CONNECTIONS)
        # What goes to this machine in the open stays on this machine.
        stays_here = self._base_url.startswith("http:") and is_loopback(urlsplit(self._base_url).hostname or "")

        def make() -> Any:
            context = self._ssl_context or default_ssl_context(self._base_url, trust_env=self._trust_env)
            proxied = self._trust_env and not stays_here and not {"http", "https", "all"}.isdisjoint(getproxies())
            if proxied:
                return self._proxied(verify=context, limits=limits)
            return self._direct(ssl_context=context, **vars(limits))

        return from_environment(make)


def gather(response: Any, body: bytes, limit: int) -> HttpReply:
    """Return our response from httpcore's or the library's *response* and its raw *body*, as far as it was read."""
    if isinstance(response.headers, list):  # httpcore's
        status, headers = response.status, tuple(response.headers)
    else:
        status, headers = response.status_code, tuple(response.headers.raw)
    return HttpReply(status, joined_headers(headers), body[:limit], defect_of(headers, len(body), limit))


def defect_of(headers: HeaderPairs, size: int, limit: int) -> str:
    """Return why a body of *size* bytes with these *headers* cannot be read, or ""."""
    if size > limit:
        return f"the body is longer than {limit} bytes"
    encodings = [value for name, value in headers if name.lower() == b"content-encoding"]
    encoding = b", ".join(encodings).decode("latin-1")
    if encoding.strip().lower() not in {"", "identity"}:
        return f"the body is {encoding[:40]!r} encoded, although identity was asked for"
    return ""
