"""
What sync and async connections share: what an attempt led to, requests as httpx takes them, and the HTTP clients of
ours and yours.

The same code serves httpx and httpx2, which have one interface and two families of classes.
"""

import errno
import os
import ssl
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache, lru_cache
from typing import Any, ClassVar, Final, Self

import httpx

from game_operator.errors import ConfigurationError, shown
from game_operator.protocol.exchange import Departure, Send, TransportFailed
from game_operator.protocol.http import HeaderPairs, HttpReply, defect_of, joined_headers, without_echoes
from game_operator.transport.own_connections import LOCATION, Until, maker_of

#: The connections of a client are waited for, and not opened without end.
ALL_IN_USE: Final = TransportFailed("All connections are in use", sent=False, timed_out=True)
_REMEMBERED_URLS = 1024
_HEAD_START_SECONDS = 0.1
#: A shorter value is not taken for a secret: it may stand in any text.
_LEAST_SECRET = 8
#: Errors of these are failures of the network, as OSError and TimeoutError are.
_NETWORK_LIBRARIES = frozenset({"anyio", "h11", "h2", "httpcore", "httpcore2", "httpx", "httpx2", "socksio", "trio"})
#: What OpenSSL calls an answer that is not TLS.
_NO_TLS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE")
#: Libraries whose errors have the same names, and those that say that a request never left.
_FAMILY = {"httpcore", "httpcore2", "httpx", "httpx2"}
_NEVER_SENT = {"ConnectError", "ConnectTimeout", "PoolTimeout", "ProxyError", "UnsupportedProtocol", "InvalidURL"}


class Progress:
    """
    How far an attempt has come, as httpcore reports it: what it calls with each event and what belongs to that.

    Nothing is reported where a mock, or a transport of another kind, answers in its place.

    Attributes:
        departure: Whether the request to the service may have left; that to a proxy for a tunnel does not count.
        has_connected, is_sent: Whether a connection has been begun, and whether the request has been seen to leave.
        reused: Whether it left over a connection of HTTP/1.1 that had been there before.
        unfinished: httpcore's stream from the moment there is a connection until the request leaves. Cut short in
            between, httpcore 1.0.9 leaves things behind: a connection that is still open and, behind a proxy, one that
            keeps its place in the pool for ever.
    """

    def __init__(self, departure: Departure) -> None:
        self.departure: Departure = departure
        self.reused: bool = False
        self.unfinished: Any = None
        self.has_connected: bool = False
        self.is_sent: bool = False

    def __call__(self, event: str, info: Mapping[str, Any]) -> None:
        """Take note of *event*."""
        if self.is_sent:
            return
        if event.endswith("connect_tcp.complete"):
            self.unfinished = info["return_value"]
        elif event.endswith(".started"):
            if not event.startswith("http"):
                self.has_connected, self.departure.may_have_left = True, False
            elif not event.endswith("response_closed.started"):
                self._note_sent(event, info.get("request"))

    def _note_sent(self, event: str, request: Any) -> None:
        if getattr(request, "method", b"") != b"CONNECT":
            self.reused = event.startswith("http11.") and not self.has_connected
            self.is_sent = self.departure.may_have_left = True
            self.unfinished = None
            if request is not None:
                request.extensions.pop("trace", None)  # What comes after costs time, and says nothing more.


def roots_of(value: object) -> dict[str, str]:
    """Return the names of the classes of *value*, and the package that each is from."""
    return {kind.__name__: kind.__module__.partition(".")[0] for kind in type(value).__mro__}


def failure(error: Exception, progress: Progress) -> TransportFailed:
    """
    Return what *error*, raised instead of a response, means for a request that had come as far as *progress*.

    Raises:
        Exception: *error* itself, if it does not come from the network: a bug in a hook, or what a signal handler
            raised. Such an error is never taken for a failure of the network.
    """
    is_connecting = progress.has_connected and not progress.is_sent
    # Somebody has to ask the resolver.
    no_thread = is_connecting and isinstance(error, RuntimeError) and type(error).__module__ == "builtins"
    if not no_thread and not isinstance(error, OSError) and _NETWORK_LIBRARIES.isdisjoint(roots_of(error).values()):
        raise error
    kinds = {name for name, root in roots_of(error).items() if root in _FAMILY}
    # httpx-aiohttp calls a reset in the middle of an answer ConnectTimeout.
    is_misnamed = "aiohttp" in roots_of(error.__cause__).values()
    sent = progress.is_sent or (not is_connecting and (is_misnamed or kinds.isdisjoint(_NEVER_SENT)))
    timed_out = isinstance(error, TimeoutError) or "TimeoutException" in kinds
    return TransportFailed(reason_of(error), sent, timed_out, _remedy_for(error))


def _remedy_for(error: BaseException | None) -> str:
    """Return what to do about an error of TLS that stands behind *error*, or ""."""
    while error is not None and not isinstance(error, ssl.SSLError):
        error = error.__cause__ or error.__context__
    if isinstance(error, ssl.SSLCertVerificationError):
        return "Check the host name in the address. For a private CA, set SSL_CERT_FILE to its certificates."
    if getattr(error, "reason", None) in _NO_TLS:
        return "Nothing was sent: that port speaks plain http, not TLS. Pass http:// instead of https://."
    return ""


def _text_of(error: BaseException) -> str:
    # On trio, the reason of a failed handshake stands three errors deep, behind three empty texts.
    behind = error.__cause__ or error.__context__
    # A cancellation behind it says nothing: it comes from the library's own scopes.
    return str(error) or (_text_of(behind) if isinstance(behind, Exception) else "")


def reason_of(error: Exception) -> str:
    """Return the kind of *error* and what it says, without what it may quote of a header."""
    name, text, behind = type(error).__name__, _text_of(error), error.__cause__
    while behind is not None and not isinstance(behind, ConnectionError):
        behind = behind.__cause__ or behind.__context__
    if behind is not None and behind.errno:
        text = os.strerror(behind.errno)  # anyio's words around it say nothing.
    if "header value" in text:
        # h11 quotes the value of a header it refuses, which may be a credential of the user's own client. All its
        # errors have one class, and nothing but this sentence tells them apart.
        text = "a header has a value that cannot be sent"
    return f"{name}: {text}" if text else name


def gather(response: Any, body: bytes, limit: int, progress: Progress) -> HttpReply:
    """Return our reply from the library's *response* and its raw *body*, as far as it was read."""
    pairs = tuple(response.headers.raw)
    headers, defect = joined_headers(pairs), defect_of(pairs, len(body), limit)
    if LOCATION in response.extensions:
        headers["location"] = response.extensions[LOCATION]
    return HttpReply(response.status_code, headers, body[:limit], defect, progress.reused)


class _Body:
    """
    The body of a request as a transport takes it: in one piece; an empty body has no piece.

    httpx's own has an empty piece, which goes through all layers. Read by an async transport it is a generator, which
    trio reports as not exhausted when the connection breaks meanwhile.
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


def _library_of(http_client: object, kind: str) -> Any:
    """Return the module that *http_client* belongs to: httpx or httpx2, whose class *kind* it must be."""
    library: Any = httpx
    if "httpx2" in roots_of(http_client).values():
        import httpx2 as library
    if not isinstance(http_client, getattr(library, kind)):
        raise ConfigurationError(
            f"http_client is a {type(http_client).__module__}.{type(http_client).__name__}.",
            setting="http_client",
            remedy=f"Pass an httpx.{kind} or httpx2.{kind} here.",
        )
    return library


def _beside(names: tuple[bytes, ...], yours: HeaderPairs) -> HeaderPairs:
    """Return the headers of the user's own client that ours, called *names*, do not replace."""
    replaced = {name.lower() for name in names} | {b"host", b"content-type", b"content-length", b"connection"}
    return tuple((name, value) for name, value in yours if name.lower() not in replaced)


def _extensions(seconds: float, trace: Callable[..., Any], give_up_seconds: float | None) -> dict[str, Any]:
    # Connecting gives up a little before the attempt: a request that gets no connection out of your pool has not left.
    early = max(seconds - _HEAD_START_SECONDS, seconds / 2)
    if give_up_seconds is not None:
        early = Until.over_at(give_up_seconds - seconds + early)
        seconds = Until.over_at(give_up_seconds)
    timeout = {"connect": early, "pool": early, "read": seconds, "write": seconds}
    return {"timeout": timeout, "trace": trace}


class BaseWire:
    """
    The connections of a client, made when they are first used; sync and async ones share everything but the awaits.

    *owner* is what an error calls the client, *limit_of* returns how many bytes of an endpoint's answer are read, and
    *proxy_of* the proxy, or raises a ConfigurationError. *watch* is that of ``maker_of``.
    """

    _client_kind: ClassVar[str]
    _own: ClassVar[type]
    _most_connections: ClassVar[int] = 100

    def __init__(
        self,
        owner: str,
        base_url: str,
        http_client: Any,
        ssl_context: ssl.SSLContext | None,
        trust_env: bool,
        limit_of: Callable[[str], int],
        proxy_of: Callable[[], httpx.Proxy | None],
        watch: Callable[[Any], Any] | None = None,
    ) -> None:
        self._owner = owner
        self._base_url = base_url
        self._secure = base_url.startswith("https:")
        self._ssl_context = ssl_context
        self._trust_env = trust_env
        self._limit_of = limit_of
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
        self._proxy_of = proxy_of
        self._watch = watch
        self._proxy: httpx.Proxy | None = None

    def _request(self, step: Send, trace: Callable[..., Any], give_up_seconds: float | None = None) -> Any:
        """
        Return the library's request for *step*, whose progress httpcore reports to *trace*.

        Its body and headers are those of *step*. It is to end at *give_up_seconds* on the monotonic clock, where the
        connections can see to that.
        """
        signed = step.request
        headers, url = self._host + signed.headers, self._base_url + signed.path
        extensions = _extensions(step.timeout_seconds, trace, give_up_seconds)
        if signed.body:
            headers += ((b"Content-Type", b"application/json"), (b"Content-Length", b"%d" % len(signed.body)))
        if step.fresh or self._yours is not None:
            headers += ((b"Connection", b"close"),)
        if self._yours is not None:
            headers += self._beside(tuple(name for name, _ in signed.headers), tuple(self._yours.headers.raw))
        # Given content= instead of stream=, httpx would go over the headers twice more, to add some.
        request = self._library.Request(
            signed.method, self._url(url), headers=headers, stream=self._body(signed.body), extensions=extensions
        )
        request.read()  # Mocks, instruments and hooks may ask for its content.
        return request

    def _named(self, failed: TransportFailed) -> TransportFailed:
        """Return *failed* with a word on the proxy, if the request never left. Its name may be a misplaced password."""
        if self._proxy is None or failed.sent:
            return failed
        reason = f"through the proxy (proxy=, HTTPS_PROXY or ALL_PROXY): {failed.reason}".encode(errors="replace")
        if auth := self._proxy.raw_auth:  # A proxy may send back what we said.
            for secret in (b64encode(b":".join(auth)), auth[1]):
                reason = without_echoes(reason, secret) if len(secret) >= _LEAST_SECRET else reason
        return replace(failed, reason=reason.decode())

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

    def _maker(self) -> Callable[[], Any]:
        """
        Return what makes HTTP clients of ours.

        Raises:
            ConfigurationError: A proxy variable or SSL_CERT_FILE cannot be used.
            OSError: This process can open no more files.
        """
        self._proxy = self._proxy_of()
        is_secure = self._secure or (self._proxy is not None and self._proxy.url.scheme == "https")
        context = self._ssl_context or default_ssl_context(is_secure=is_secure, trust_env=self._trust_env)
        return maker_of(self._own, self._proxy, context, self._watch)


@cache
def default_ssl_context(*, is_secure: bool, trust_env: bool) -> ssl.SSLContext:
    """
    Return the process's TLS settings, built once: reading the root certificates costs more than 100 calls.

    A client that only speaks plain http gets settings without any root, which trust no certificate and cost nothing.

    Raises:
        ConfigurationError: SSL_CERT_FILE or SSL_CERT_DIR cannot be used.
        OSError: This process can open no more files.
    """
    if not is_secure:
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        return httpx.create_ssl_context(trust_env=trust_env)
    except OSError as failed:
        if failed.errno in (errno.EMFILE, errno.ENFILE):
            raise
        raise ConfigurationError(
            f"The certificates of the environment cannot be read ({type(failed).__name__}: {failed}).",
            setting="trust_env",
            remedy="Check SSL_CERT_FILE and SSL_CERT_DIR, or pass trust_env=False to do without them.",
        ) from None
