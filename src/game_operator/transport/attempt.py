"""What an attempt to send a request led to: how far it got, and what a response or an error means."""

import os
import ssl
from collections.abc import Mapping
from typing import Any, Final

from game_operator.protocol.exchange import Departure, TransportFailed
from game_operator.protocol.http import HttpReply, defect_of, joined_headers


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


#: Where our transports put the address of a redirect: httpx would read it, and may fail, although it follows none.
LOCATION: Final = "game_operator.location"
#: Errors of these are failures of the network, as OSError and TimeoutError are.
_NETWORK_LIBRARIES = frozenset({"anyio", "h11", "h2", "httpcore", "httpcore2", "httpx", "httpx2", "socksio", "trio"})


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


#: What OpenSSL calls an answer that is not TLS.
_NO_TLS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE")
#: Libraries whose errors have the same names, and those that say that a request never left.
_FAMILY = {"httpcore", "httpcore2", "httpx", "httpx2"}
_NEVER_SENT = {"ConnectError", "ConnectTimeout", "PoolTimeout", "ProxyError", "UnsupportedProtocol", "InvalidURL"}


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
