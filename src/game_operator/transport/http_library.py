"""
Between our values and those of httpx: requests out, responses and failures in.

The same code serves httpx and httpx2, which have one interface and two families of classes.
"""

import errno
import os
import ssl
from collections.abc import Callable, Iterator, Mapping
from functools import cache, lru_cache
from typing import Any, ClassVar, Final, Self, TypeVar
from urllib.parse import urlsplit

import httpx

from game_operator.errors import ConfigurationError, shown, without_frames
from game_operator.protocol.exchange import Send, TransportFailed
from game_operator.protocol.http import HeaderPairs, HttpReply, is_loopback, joined_headers
from game_operator.transport.environment_proxy import proxy_for
from game_operator.transport.own_connections import FRESH, Until, proxy_at
from game_operator.transport.settings import ReadLimits

_C = TypeVar("_C")

_MAX_CONNECTIONS = 100
_REMEMBERED_URLS = 1024
_HEAD_START_SECONDS = 0.1
#: This process, or this machine, can open no more files: nobody has to change a setting.
_EXHAUSTED: Final = (errno.EMFILE, errno.ENFILE)


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
    except OSError as failed:
        if failed.errno in _EXHAUSTED:
            raise
        problem = f"{type(failed).__name__}: {failed}"
    except (ImportError, ValueError) as failed:
        problem = str(failed)
    raise ConfigurationError(
        f"No connection can be set up ({problem}).",
        setting="trust_env",
        remedy="Check HTTPS_PROXY and the other proxy variables, SSL_CERT_FILE and SSL_CERT_DIR, or pass "
        "trust_env=False to do without them.",
    )


class Progress:
    """
    How far an attempt has come, as httpcore reports it: what it calls with each event and what belongs to that.

    Nothing is reported where a mock, or a transport of another kind, answers in its place.

    Attributes:
        is_sent: Whether the request to the service has begun to leave; that to a proxy for a tunnel does not count.
        reused: Whether it left over a connection of HTTP/1.1 that had been there before.
        unfinished: httpcore's stream from the moment there is a connection until the request leaves. Cut short in
            between, httpcore 1.0.9 leaves things behind: a connection that is still open and, behind a proxy, one that
            keeps its place in the pool for ever.
    """

    def __init__(self) -> None:
        self.is_sent = self.reused = False
        self.unfinished: Any = None
        self._has_connected = False

    def __call__(self, event: str, info: Mapping[str, Any]) -> None:
        """Take note of *event*."""
        if self.is_sent:
            return
        if event.endswith("connect_tcp.complete"):
            self.unfinished = info["return_value"]
        elif event.endswith(".started"):
            if not event.startswith("http"):
                self._has_connected = True
            elif (
                not event.endswith("response_closed.started")
                and getattr(info.get("request"), "method", b"") != b"CONNECT"
            ):
                self.is_sent = True
                self.reused = event.startswith("http11.") and not self._has_connected
                self.unfinished = None

    def may_have_sent(self, *, unless_reported: bool = True) -> bool:
        """Return whether something may have left; *unless_reported* if nothing was reported."""
        return self.is_sent or (unless_reported and not self._has_connected)


class AsyncProgress(Progress):
    """The same, awaited."""

    async def __call__(self, event: str, info: Mapping[str, Any]) -> None:  # type: ignore[override] # as httpcore asks
        """Take note of *event*."""
        Progress.__call__(self, event, info)


#: Errors of these are failures of the network, as OSError and TimeoutError are.
_NETWORK_LIBRARIES = frozenset({"anyio", "h11", "h2", "httpcore", "httpcore2", "httpx", "httpx2", "socksio", "trio"})


def _root_of(kind: type) -> str:
    return kind.__module__.partition(".")[0]


def _roots_of(value: object) -> set[str]:
    return set(map(_root_of, type(value).__mro__))


def failure(error: Exception, progress: Progress) -> TransportFailed:
    """
    Return what *error*, raised instead of a response, means for a request that had come as far as *progress*.

    Raises:
        Exception: *error* itself, if it does not come from the network: a bug in a hook, or what a signal handler
            raised. Such an error is never taken for a failure of the network.
    """
    if not isinstance(error, OSError) and not _NETWORK_LIBRARIES & _roots_of(error):
        raise error
    kinds = {kind.__name__ for kind in type(error).__mro__ if _root_of(kind) in _FAMILY}
    cause = error.__cause__
    # Over another library the kind says nothing: httpx-aiohttp calls a reset in the middle of an answer ConnectTimeout.
    is_known = cause is None or isinstance(cause, OSError) or bool(_NETWORK_LIBRARIES & _roots_of(cause))
    sent = progress.may_have_sent(unless_reported=not is_known or kinds.isdisjoint(_NEVER_SENT))
    timed_out = isinstance(error, TimeoutError) or "TimeoutException" in kinds
    return TransportFailed(reason_of(error), sent, timed_out)


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


def reason_of(error: Exception) -> str:
    """Return the kind of *error* and what it says, without what it may quote of a header."""
    name, text = type(error).__name__, _text_of(error)
    if "header value" in text:
        # h11 quotes the value of a header it refuses, which may be a credential of the user's own client.
        text = "a header has a value that cannot be sent"
    return f"{name}: {text}" if text else name


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


def _beside(names: tuple[bytes, ...], yours: HeaderPairs) -> HeaderPairs:
    """Return the headers of the user's own client that ours, called *names*, do not replace."""
    replaced = {name.lower() for name in names} | {b"host", b"content-type", b"content-length", b"connection"}
    return tuple((name, value) for name, value in yours if name.lower() not in replaced)


def _extensions(seconds: float, progress: Progress, give_up_seconds: float | None) -> dict[str, Any]:
    # Connecting gives up a little before the attempt does, so that a grant that never left differs from one in doubt;
    # on a busy machine two timers that end together end in any order.
    early = max(seconds - _HEAD_START_SECONDS, seconds / 2)
    if give_up_seconds is not None:
        early = Until.over_at(give_up_seconds - seconds + early)
        seconds = Until.over_at(give_up_seconds)
    timeout = {"connect": early, "pool": early, "read": seconds, "write": seconds}
    return {"timeout": timeout, "trace": progress}


class BaseWire:
    """
    The connections of a client, made when they are first used; sync and async ones share everything but the awaits.

    *owner* is what an error calls the client.
    """

    _client_kind: ClassVar[str]
    _own: ClassVar[Any]

    def __init__(
        self,
        owner: str,
        base_url: str,
        http_client: Any,
        ssl_context: ssl.SSLContext | None,
        trust_env: bool,
        read_limits: ReadLimits,
        proxy: httpx.Proxy | None = None,
    ) -> None:
        self._owner = owner
        self._base_url = base_url
        self._secure = base_url.startswith("https:")
        self._ssl_context = ssl_context
        self._trust_env = trust_env
        self._read_limits = read_limits
        self._yours = http_client
        self._your_process: int | None = None
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
        self._proxy = proxy
        if proxy is not None and http_client is not None:
            raise ConfigurationError(
                "Both proxy and http_client are given.",
                setting="proxy",
                remedy="Give the proxy to your http_client, or leave http_client out.",
            )

    def _request(self, step: Send, progress: Progress, give_up_seconds: float | None = None) -> Any:
        """
        Return the library's request for *step*, whose *progress* httpcore reports.

        Its body and headers are those of *step*. It is to end at *give_up_seconds* on the monotonic clock, where the
        connections can see to that.
        """
        signed = step.request
        headers, url = self._host + signed.headers, self._base_url + signed.path
        extensions = _extensions(step.timeout_seconds, progress, give_up_seconds)
        if signed.body:
            headers += ((b"Content-Type", b"application/json"), (b"Content-Length", b"%d" % len(signed.body)))
        if step.fresh or self._yours is not None:
            headers += ((b"Connection", b"close"),)
            extensions[FRESH] = True
        if self._yours is not None:
            headers += self._beside(tuple(name for name, _ in signed.headers), tuple(self._yours.headers.raw))
        # Given content= instead of stream=, httpx would go over the headers twice more, to add some.
        request = self._library.Request(
            signed.method, self._url(url), headers=headers, stream=self._body(signed.body), extensions=extensions
        )
        request.read()  # Mocks, instruments and hooks may ask for its content.
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
        Return a new HTTP client of ours.

        Raises:
            ConfigurationError: A proxy variable or SSL_CERT_FILE cannot be used.
            OSError: This process can open no more files.
        """
        # What goes to this machine in the open stays on this machine.
        stays_here = self._base_url.startswith("http:") and is_loopback(urlsplit(self._base_url).hostname or "")

        def make() -> Any:
            if self._proxy is None and self._trust_env and not stays_here and (named := proxy_for(self._base_url)):
                self._proxy = proxy_at(named)
            is_secure = self._secure or (self._proxy is not None and self._proxy.url.scheme == "https")
            url = "https:" if is_secure else self._base_url
            context = self._ssl_context or default_ssl_context(url, trust_env=self._trust_env)
            return self._own(self._proxy, most=_MAX_CONNECTIONS, ssl_context=context)

        return from_environment(make)


@without_frames
def checked_proxy(proxy: object) -> httpx.Proxy:
    """
    Return the proxy at an address. No error quotes it, because it may hold a password.

    Raises:
        ConfigurationError: It is not the address of a proxy, or the extra ``socks`` is missing.
        TypeError: It is not a str.
    """
    if not isinstance(proxy, str):
        raise TypeError(f"proxy must be a str, not {type(proxy).__name__}")
    try:
        return proxy_at(proxy)
    except ImportError as missing:
        raise ConfigurationError(f"The proxy cannot be used: {missing}", setting="proxy") from None
    except ValueError:
        raise ConfigurationError(
            "The proxy's address cannot be read.",
            setting="proxy",
            remedy="Pass one like http://user:password@proxy.example.com:3128; socks5:// and https:// are fine, too. "
            "In a password, write / as %2F, @ as %40, : as %3A.",
        ) from None


def gather(response: Any, body: bytes, limit: int, progress: Progress) -> HttpReply:
    """Return our reply from the library's *response* and its raw *body*, as far as it was read."""
    headers = tuple(response.headers.raw)
    defect = defect_of(headers, len(body), limit)
    return HttpReply(response.status_code, joined_headers(headers), body[:limit], defect, progress.reused)


def defect_of(headers: HeaderPairs, size: int, limit: int) -> str:
    """Return why a body of *size* bytes with these *headers* cannot be read, or ""."""
    if size > limit:
        return f"the body is longer than {limit} bytes"
    encodings = [value for name, value in headers if name.lower() == b"content-encoding"]
    encoding = b", ".join(encodings).decode("latin-1")
    if encoding.strip().lower() not in {"", "identity"}:
        return f"the body is {encoding[:40]!r} encoded, although identity was asked for"
    return ""
