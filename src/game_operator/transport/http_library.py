"""
Between our values and those of httpx: requests out, responses and failures in.

The same code serves httpx and httpx2, which have one interface and two families of classes; an
``HttpLibrary`` is one of them.
"""

import os
import ssl
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache, partial
from types import ModuleType
from typing import Any, ClassVar, TypeAlias, TypeVar
from urllib.parse import urlsplit
from urllib.request import getproxies

import httpx

from game_operator.errors import ConfigurationError, shown
from game_operator.protocol.exchange import Send, TransportFailed
from game_operator.protocol.http import HeaderPairs, HttpRequest, HttpResponse, is_loopback
from game_operator.transport.connection_reuse import ReuseGuard, YourTransport
from game_operator.transport.own_connections import Until
from game_operator.transport.settings import ReadLimits

#: httpcore's way to be told what it does: the name of an event, and what belongs to it.
Trace: TypeAlias = Callable[[str, Mapping[str, Any]], Awaitable[None] | None]

FORKED_WITH_YOUR_CLIENT = (
    "This process was forked after the client had been used, and its http_client's connections belong to the parent. "
    "Build the http_client and the client after the fork, or leave http_client out: then it is done for you."
)

_C = TypeVar("_C")

_MAX_CONNECTIONS = 100
_REMEMBERED_URLS = 1024
_HEAD_START_SECONDS = 0.1

_context_lock = threading.Lock()
_contexts: dict[bool, ssl.SSLContext] = {}


def _names_a_proxy() -> bool:
    return not {"http", "https", "all"}.isdisjoint(getproxies())


def default_ssl_context(base_url: str, *, trust_env: bool) -> ssl.SSLContext:
    """
    Return the process's TLS settings, built once: reading the root certificates costs more than 100 calls.

    A client that only speaks plain http gets settings without any root, which trust nobody and cost nothing.
    """
    if not base_url.startswith("https:"):
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    with _context_lock:
        if trust_env not in _contexts:
            _contexts[trust_env] = httpx.create_ssl_context(trust_env=trust_env)
        return _contexts[trust_env]


def from_environment(make: Callable[[], _C]) -> _C:
    """
    Return what *make* builds; what httpx raises meanwhile is a ConfigurationError, for the environment is to blame.

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
    A connection on its way to TLS, as httpcore tells of it: a ``Trace``.

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

    def judged(self, result: HttpResponse | TransportFailed) -> HttpResponse | TransportFailed:
        """Return *result*, a failure of which is known not to have been sent while the handshake is unfinished."""
        if self.unfinished is None or isinstance(result, HttpResponse):
            return result
        return replace(result, sent=False)


#: Errors of these are failures of the network, as OSError and TimeoutError are.
_NETWORK_LIBRARIES = frozenset(
    {"aiohttp", "anyio", "h11", "h2", "httpcore", "httpcore2", "httpx", "httpx2", "httpx_aiohttp", "socksio", "trio"}
)


def _root_of(kind: type) -> str:
    return kind.__module__.partition(".")[0]


def _roots_of(value: object) -> set[str]:
    return set(map(_root_of, type(value).__mro__))


class HttpLibrary:
    """httpx or httpx2: its classes, and what its exceptions mean."""

    def __init__(self, module: ModuleType) -> None:
        self.module: Any = module
        self.body = type("Body", (_Body, self.module.ByteStream), {})

    def failure(self, error: Exception) -> TransportFailed:
        """
        Return what *error*, raised instead of a response, means for the request.

        Raises:
            Exception: *error* itself, if it does not come from the network: a bug in a hook, or what a signal handler
                raised. Nobody waits on while such an error is taken for a failure of the network.
        """
        if not isinstance(error, OSError) and not _NETWORK_LIBRARIES & _roots_of(error):
            raise error
        cause = error.__cause__
        if cause is not None and type(cause).__module__.startswith("aiohttp"):
            sent, timed_out = not _never_left_aiohttp(cause), isinstance(cause, TimeoutError)
        else:
            kinds = {kind.__name__ for kind in type(error).__mro__ if _root_of(kind) in _FAMILY}
            sent = kinds.isdisjoint(_NEVER_SENT)
            timed_out = isinstance(error, TimeoutError) or "TimeoutException" in kinds
        return TransportFailed(_told(error), sent, timed_out)


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

    def __aiter__(self) -> "_Pieces":
        return _Pieces(self._pieces)


class _Pieces:
    def __init__(self, pieces: list[bytes]) -> None:
        self._left = iter(pieces)

    def __aiter__(self) -> "_Pieces":
        return self

    async def __anext__(self) -> bytes:
        for piece in self._left:
            return piece
        raise StopAsyncIteration


HTTPX = HttpLibrary(httpx)


def _text_of(error: BaseException) -> str:
    # On trio, the reason of a failed handshake stands three errors deep, behind three empty texts.
    behind = error.__cause__ or error.__context__
    # Of a cancellation behind it nobody learns anything: it tells of the library's own scopes.
    return str(error) or (_text_of(behind) if isinstance(behind, Exception) else "")


def _told(error: Exception) -> str:
    name, text = type(error).__name__, _text_of(error)
    refused = error.__cause__
    if refused is not None and type(refused).__name__ in _AIOHTTP_REFUSED:
        # httpx-aiohttp calls it a timeout, and aiohttp tells more of its settings than of the reason.
        host, port, number = (getattr(refused, part, None) for part in ("host", "port", "errno"))
        # A name that is not found has a negative number, and no text but its own.
        why = os.strerror(number) if isinstance(number, int) and number > 0 else getattr(refused, "strerror", "")
        text = f"cannot connect to {host}:{port}: {why}"
        name = "ConnectError"
    if "header value" in text:
        # h11 quotes the value of a header it refuses, which may be a credential of the user's own client.
        text = "a header has a value that cannot be sent"
    return f"{name}: {text}" if text else name


def _never_left_aiohttp(cause: BaseException) -> bool:
    """
    Return whether aiohttp's own error says that no connection came about.

    httpx-aiohttp maps every ClientConnectionError to ConnectTimeout, a reset in the middle of an answer included; taken
    at its word, a grant that may have been made would count as never sent.
    """
    return any(kind.__name__ in _AIOHTTP_NEVER_SENT for kind in type(cause).__mro__)


_AIOHTTP_REFUSED = {"ClientConnectorError", "ClientConnectorDNSError"}
_AIOHTTP_NEVER_SENT = {"ClientConnectorError", "ConnectionTimeoutError", "InvalidURL", "ClientHttpProxyError"}


def library_of(http_client: object, kind: str) -> HttpLibrary:
    """
    Return the library that *http_client* belongs to, whose class *kind* it must be.

    Raises:
        ConfigurationError: It is no such client of httpx or httpx2.
    """
    library = HTTPX
    if "httpx2" in _roots_of(http_client):
        import httpx2

        library = HttpLibrary(httpx2)
    if not isinstance(http_client, getattr(library.module, kind)):
        raise ConfigurationError(
            f"http_client is a {type(http_client).__module__}.{type(http_client).__name__}.",
            setting="http_client",
            remedy=f"Pass a {kind} of httpx or httpx2 here.",
        )
    return library


def check_open(http_client: Any) -> None:
    """
    Raise if the user's *http_client* cannot be used.

    Raises:
        ConfigurationError: It is closed.
    """
    if http_client.is_closed:
        raise ConfigurationError(
            "Your http_client is closed.",
            setting="http_client",
            remedy="Close it only after the last call of this client.",
        )


class Target:
    """Where a client's requests go, and everything about them that is the same for each."""

    def __init__(self, library: HttpLibrary, base_url: str, http_client: object | None) -> None:
        self._library = library
        self._base_url = base_url
        self._yours: Any = http_client
        self._host = ((b"Host", _parsed(library, base_url).netloc),)
        self._url = lru_cache(_REMEMBERED_URLS)(library.module.URL)
        self._core_url = lru_cache(_REMEMBERED_URLS)(partial(_core_url, library.module.URL))
        self._beside = lru_cache(1)(_beside)  # As a rule, your client's headers are the same at each call.

    def request(self, step: Send, trace: Trace | None = None, give_up_seconds: float | None = None) -> Any:
        """
        Return the library's request for *step*, its body and its headers untouched.

        It is to end at *give_up_seconds* on the monotonic clock, where the connections can see to that.
        """
        signed = step.request
        headers = self._headers(signed)
        if self._yours is not None:
            headers += self._beside(tuple(name for name, _ in signed.headers), tuple(self._yours.headers.raw))
        request = self._library.module.Request(
            signed.method,
            self._url(self._base_url + signed.path),
            headers=headers,
            # Given content= instead, httpx would go over the headers twice more, to add some of its own.
            stream=self._library.body(signed.body),
            extensions=_extensions(step.timeout_seconds, trace, give_up_seconds),
        )
        request.read()  # Transports and hooks of yours may ask for its content.
        return request

    def core_request(self, step: Send, trace: Trace | None = None, give_up_seconds: float | None = None) -> Any:
        """Return httpcore's request for *step*, as ``request`` returns the library's."""
        from httpcore import Request

        signed = step.request
        return Request(
            signed.method,
            self._core_url(self._base_url + signed.path),
            headers=self._headers(signed),
            content=_Body(signed.body),
            extensions=_extensions(step.timeout_seconds, trace, give_up_seconds),
        )

    def _headers(self, signed: HttpRequest) -> HeaderPairs:
        headers = self._host + signed.headers
        if signed.body:
            headers += ((b"Content-Type", b"application/json"), (b"Content-Length", b"%d" % len(signed.body)))
        return headers


def _core_url(parse: Callable[[str], Any], url: str) -> Any:
    from httpcore import URL

    parsed = parse(url)
    return URL(scheme=parsed.raw_scheme, host=parsed.raw_host, port=parsed.port, target=parsed.raw_path)


def _parsed(library: HttpLibrary, base_url: str) -> Any:
    try:
        return library.module.URL(base_url)
    except library.module.InvalidURL:
        problem = f"The base URL {shown(base_url)} has a host that no machine can have."
    raise ConfigurationError(problem, setting="base_url", remedy="Pass one like https://api.example.com.")


def _beside(names: tuple[bytes, ...], yours: HeaderPairs) -> HeaderPairs:
    """Return the headers of the user's own client that ours, called *names*, do not replace."""
    replaced = {name.lower() for name in names} | {b"host", b"content-type", b"content-length", b"connection"}
    return tuple((name, value) for name, value in yours if name.lower() not in replaced)


def _extensions(seconds: float, trace: Trace | None, give_up_seconds: float | None) -> dict[str, Any]:
    # Connecting gives up a little before the attempt does, so that a grant that never left is told from one in doubt;
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

    *closed_told* is what a call says after they are closed.
    """

    _client_kind: ClassVar[str]
    _guard_kind: ClassVar[type[ReuseGuard]]
    _direct: ClassVar[Any]
    _proxied: ClassVar[Any]

    def __init__(
        self,
        closed_told: str,
        base_url: str,
        http_client: Any,
        ssl_context: ssl.SSLContext | None,
        trust_env: bool,
        read_limits: ReadLimits,
    ) -> None:
        self._closed_told = closed_told
        self._base_url = base_url
        self._secure = base_url.startswith("https:")
        self._ssl_context = ssl_context
        self._trust_env = trust_env
        self._read_limits = read_limits
        self._yours = http_client
        self._your_transport = None if http_client is None else YourTransport(http_client, self._guard_kind)
        self._library = HTTPX if http_client is None else library_of(http_client, self._client_kind)
        self._target = Target(self._library, base_url, http_client)
        self._closed = False

    def _request(self, http_client: Any, step: Send, trace: Trace | None, give_up_seconds: float | None = None) -> Any:
        make = self._target.core_request if isinstance(http_client, self._direct) else self._target.request
        request = make(step, trace, give_up_seconds)
        if self._your_transport is not None:
            self._your_transport.prepare(request, is_grant=step.is_grant)
        return request

    def _check_not_closed(self) -> None:
        if self._closed:
            raise ConfigurationError(self._closed_told)

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
            kind = self._proxied if self._trust_env and not stays_here and _names_a_proxy() else self._direct
            return kind(verify=context, trust_env=self._trust_env, limits=limits)

        return from_environment(make)


def gather(response: Any, chunks: list[bytes], size: int, limit: int) -> HttpResponse:
    """Return our response from the library's *response* and the raw *chunks* of its body, *size* bytes in all."""
    headers = tuple(response.headers.raw)
    encodings = [value for name, value in headers if name.lower() == b"content-encoding"]
    defect = defect_of(b", ".join(encodings).decode("latin-1"), size, limit)
    return HttpResponse(response.status_code, headers, b"".join(chunks)[:limit], defect)


def defect_of(encoding: str, size: int, limit: int) -> str:
    """Return why a body of *size* bytes in *encoding* cannot be read, or ""."""
    if size > limit:
        return f"the body is longer than {limit} bytes"
    if encoding.strip().lower() not in {"", "identity"}:
        return f"the body is {encoding[:40]!r} encoded, although identity was asked for"
    return ""
