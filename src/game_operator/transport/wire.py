"""
What sync and async connections share: requests as httpx takes them, and the HTTP clients of ours and yours.

The same code serves httpx and httpx2, which have one interface and two families of classes.
"""

import errno
import os
import ssl
from base64 import b64encode
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, lru_cache
from typing import Any, ClassVar, Final, Self

import httpx

from game_operator.errors import ConfigurationError, shown
from game_operator.protocol.exchange import Send, TransportFailed
from game_operator.protocol.http import HeaderPairs, without_echoes
from game_operator.transport.attempt import roots_of
from game_operator.transport.deadlines import Until
from game_operator.transport.own_connections import maker_of

#: The connections of a client are waited for, and not opened without end.
ALL_IN_USE: Final = TransportFailed("All connections are in use", sent=False, timed_out=True)
_REMEMBERED_URLS = 1024
_HEAD_START_SECONDS = 0.1
#: A shorter value is not taken for a secret: it may stand in any text.
_LEAST_SECRET = 8


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
