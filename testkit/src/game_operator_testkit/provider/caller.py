"""
Calling a wallet as the service does: webhooks signed and posted, and what came back (spec §2.1, §4.1).

For a sandbox, a certifier, and tests of one's own wallet. How calls are written and signed is assumed
(docs/decisions/0010, 0011).
"""

import ssl
import time
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, Final, Self, TypeAlias

from game_operator._version import __version__
from game_operator.client.settings import ReadLimits, base_url_of, proxy_of_environment, split_address
from game_operator.errors import ConfigurationError, RequestNotSentError, TransportError, shown, without_frames
from game_operator.models.webhooks import WebhookCall
from game_operator.profile import Profile
from game_operator.protocol.exchange import Send, TransportFailed, checked_seconds
from game_operator.protocol.http import HeaderPairs, HttpRequest, is_loopback
from game_operator.protocol.signing import Signature
from game_operator.transport.sync import Wire
from game_operator_testkit.provider.bodies import BodyWriter
from game_operator_testkit.provider.delivery import Begun, Carried, Delivery, DeliveryInDoubtError, delivered
from game_operator_testkit.provider.keys import ServiceKeys, SigningKey
from game_operator_testkit.provider.requests import AS_THE_SERVICE, UNSIGNED, Request

__all__ = ["Delivery", "DeliveryInDoubtError", "WebhookCaller"]

#: A wallet's answers are short; one to a batch has a thousand of them.
_MOST_BYTES: Final = 1_048_576
_LIMITS: Final = ReadLimits(catalogue=_MOST_BYTES, other=_MOST_BYTES)
_HEADERS: Final = (
    (b"Accept", b"application/json"),
    (b"Accept-Encoding", b"identity"),
    (b"User-Agent", f"game-operator/{__version__} (webhooks)".encode()),
)

#: Headers by name, or pairs of name and value, which can have a name twice.
HeadersToSend: TypeAlias = Mapping[str, str] | Iterable[tuple[str, str]]


class WebhookCaller:
    """
    Posts webhooks to a wallet, signed as the service signs them. Threads may share one.

    A call is posted once, over a new connection, and redirects are not followed.

    Args:
        url: The address that the paths of spec §4.1 are below; plain http only to this machine. It is an attribute too.
        signing_key: The service's RSA private key: a path, a PEM as str or bytes, or an ``RSAPrivateKey``.
        profile: Names the header of the signature and the fields of the bodies.
        timeout: Seconds to connect, to send, and between two pieces of the answer. An answer's body is given up after
            as long in all; headers that drip in can outlast it.
        allow_insecure_http: Whether plain http may go to another machine.
        ssl_context: Whom to trust over https, such as a CA of your own; None for the usual ones.

    Raises:
        ConfigurationError: A setting cannot work; ``SigningKeyError`` if it is the key.
        TypeError: An argument is of another kind.
    """

    @without_frames
    def __init__(
        self,
        url: str,
        signing_key: SigningKey,
        *,
        profile: Profile | None = None,
        timeout: float = 10.0,
        allow_insecure_http: bool = False,
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        self._keys = ServiceKeys(signing_key)
        self.url: Final = base_url_of(url, allow_insecure_http=allow_insecure_http, name="url")
        profile = profile or Profile()
        self._header = profile.signature_header
        self._writer: Final = BodyWriter(profile)
        self._timeout = checked_seconds("timeout", timeout)
        self._wire = Wire(*wire_settings(type(self).__name__, self.url, ssl_context))

    def signature(self, body: bytes) -> Signature:
        """Return the value of the signature header for *body* (assumed, docs/decisions/0011)."""
        return self._keys.signature(Request("", "", body))

    def send(self, call: WebhookCall) -> Delivery:
        """
        Write *call* as the service does, under the names of the profile, post it, and return the answer.

        Raises:
            RequestNotSentError: It never left this machine: nothing happened at the wallet.
            DeliveryInDoubtError: No whole answer came; the wallet may have carried the call out.
        """
        return self.post(f"/{call.operation}", self._writer.encoded(call))

    def post(self, path: str, body: bytes, headers: HeadersToSend = (), *, signed: bool = True) -> Delivery:
        """
        Post *body* as it is to *path*, with *headers* beside our own, and return the answer.

        Args:
            path: Below the url, such as ``/withdraw``.
            body: Any bytes, well-formed or not.
            headers: More headers; a signature of your own among them, together with ``signed=False``.
            signed: Whether the body is signed.

        Raises:
            RequestNotSentError: It never left this machine: nothing happened at the wallet.
            DeliveryInDoubtError: No whole answer came; the wallet may have carried the call out.
            ConfigurationError: *path* is invalid, or the caller is closed.
        """
        texts = headers.items() if isinstance(headers, Mapping) else headers
        carried = self.carry(Request("", path, body, AS_THE_SERVICE if signed else UNSIGNED, headers=tuple(texts)))
        return delivered(carried)

    def carry(self, request: Request) -> Carried:
        """Sign *request* as it says, send it as any client would, and return it with its answer; raise as ``post``."""
        # The path goes into the request line as it is.
        path = request.path
        if not (path.startswith("/") and path.isascii() and path.isprintable() and set(" ?#\\").isdisjoint(path)):
            raise ConfigurationError(
                f"path {shown(path)} is not the path of a webhook. Pass one like /withdraw, with the slash."
            )
        begun = Begun(request, self._keys.headers(request, self._header), f"{self.url}{path}")
        step = webhook_step(path, request.body, begun.headers, self._timeout, fresh=True)
        result = self._wire.send(step, give_up_seconds=time.monotonic() + self._timeout)
        if isinstance(result, TransportFailed):
            raise error_of(self.url, step, result, time.perf_counter() - begun.began)
        return begun.carried(result, result.defect)

    def close(self) -> None:
        """Close the connections."""
        self._wire.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()


def wire_settings(owner: str, url: str, ssl_context: ssl.SSLContext | None) -> tuple[Any, ...]:  # Any: a wire's.
    """Return the settings of the connections to *url* that *owner* has."""
    return owner, url, None, ssl_context, True, _LIMITS.of, partial(proxy_of_environment, url)


def beside_type(headers: HeaderPairs) -> HeaderPairs:
    """Return *headers* without the content type, which is added to every request."""
    return tuple((name, value) for name, value in headers if name.lower() != b"content-type")


def webhook_step(path: str, body: bytes, headers: HeaderPairs, timeout: float, *, fresh: bool = False) -> Send:
    """Return the sending of *body* to *path*, with *headers* beside those that every webhook has."""
    return Send(HttpRequest("POST", path, (*_HEADERS, *beside_type(headers)), body), timeout, 1, "webhook", fresh)


def error_of(url: str, step: Send, failed: TransportFailed, seconds: float) -> TransportError:
    """Return the error of a webhook to the wallet at *url* that *failed* after so many seconds."""
    request = step.request
    # What came back instead of an answer may quote what we sent.
    signature = next((value for _, value in request.headers if isinstance(value, Signature)), b"\0")
    reason = failed.reason_without(signature)
    # The first try may have arrived, even if the second one did not leave.
    if failed.sent or step.attempt > 1:
        return DeliveryInDoubtError(
            f"{request.path}: {reason}", attempts=step.attempt, elapsed_seconds=seconds, timed_out=failed.timed_out
        )
    told = f"{url}{request.path} cannot be reached: {reason}"
    return not_delivered(told, seconds, timed_out=failed.timed_out, remedy=failed.remedy)


def not_delivered(reason: str, elapsed_seconds: float, *, timed_out: bool, remedy: str) -> RequestNotSentError:
    """Return the error of a webhook that never left; *remedy* is "" if nothing is known of the reason."""
    return RequestNotSentError(
        reason,
        elapsed_seconds=elapsed_seconds,
        timed_out=timed_out,
        setting="url",
        remedy=remedy
        or "The webhook never left: check the wallet's address, DNS, firewall and TLS, and that it is running.",
    )


def check_moves_money(url: str, what: str, *, moves_money: bool, name: str = "The wallet's address") -> None:
    """
    Raise ConfigurationError unless *what* may move the money of the wallet at *url*, the argument called *name*.

    A wallet on this machine needs no permission; one on another machine needs *moves_money*.
    """
    host = split_address(url).hostname or ""
    if not host:
        raise ConfigurationError(
            f"{name} {shown(url)} is not a valid address.", remedy="Pass one like http://127.0.0.1:8000/wallet."
        )
    if not is_loopback(host) and not moves_money:
        raise ConfigurationError(
            f"{shown(host)} is another machine, and {what} moves its players' money.",
            setting="moves_money",
            remedy="Pass moves_money=True if that is what you want.",
        )
