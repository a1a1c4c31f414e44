"""What the sync and the async client share: everything but the awaits."""

import inspect
import logging
import os
import random
import ssl
import time
from abc import ABC
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, replace
from functools import partial
from types import EllipsisType
from typing import TYPE_CHECKING, Any, Final, Generic, Self, TypeAlias, TypeVar

from game_operator._version import __version__
from game_operator.client.settings import ReadLimits, base_url_of, proxy_at, proxy_of_environment
from game_operator.errors import ConfigurationError
from game_operator.protocol.exchange import (
    Answer,
    CallSettings,
    Reply,
    RetryPolicy,
    Send,
    Step,
    TransportFailed,
    checked_seconds,
    exchange,
)
from game_operator.protocol.http import HttpReply, without_echoes
from game_operator.protocol.operations import Operation
from game_operator.signers.environment import FromEnvironment, checked_operator_id
from game_operator.signers.keys import (
    KeySource,
    RememberedSignatures,
    is_async,
    load_signer,
)

if TYPE_CHECKING:
    from game_operator.telemetry import Telemetry
else:
    Telemetry = object  # Who reads hints at run time loads no OpenTelemetry.

T = TypeVar("T")
HttpClientT = TypeVar("HttpClientT")
WireT = TypeVar("WireT")

_log = logging.getLogger("game_operator.client")
_DEFAULT_POLICY: Final = RetryPolicy()
#: Endless, and safe to share between threads: ``random.random`` is one call into C.
_JITTER: Final[Iterator[float]] = iter(random.random, None)
_HEADERS: Final = (
    (b"Accept", b"application/json"),
    # A compressed body could unpack to any size, and our bodies are short.
    (b"Accept-Encoding", b"identity"),
    (b"User-Agent", f"game-operator/{__version__}".encode()),
)


@dataclass(frozen=True, slots=True)
class Exchange:
    """
    One attempt, as shown to ``on_exchange``. It carries no signature and no key.

    Attributes:
        method: ``GET`` or ``POST``.
        url: The whole address.
        status: The HTTP status, or None when no response arrived.
        attempt: 1 for the first attempt of a call.
        elapsed: Seconds from sending to the last byte of the body, or to the failure.
        request_body: The exact bytes sent; ``b""`` for a GET.
        response_body: The bytes received, a signature echoed by the service cut out.
        operation: The endpoint: ``fetch-games``, ``fetch-bet``, ``fetch-round-bets`` or ``free-bet/grant``.
        correlation_id: 16 hexadecimal digits that all attempts of a call share, and its span.
    """

    method: str
    url: str
    status: int | None
    attempt: int
    elapsed: float
    request_body: bytes
    response_body: bytes
    operation: str = ""
    correlation_id: str = ""


OnExchange: TypeAlias = Callable[[Exchange], object]


class BaseClient(FromEnvironment, ABC, Generic[HttpClientT, WireT]):
    """Construction, settings and what a step looks like from outside."""

    _make_wire: Callable[..., WireT]
    _takes_async_signer = True

    def __init__(
        self,
        base_url: str,
        operator_id: str,
        private_key: KeySource,
        *,
        passphrase: str | bytes | None = None,
        timeout: float = 10.0,
        deadline: float | None = 30.0,
        retries: RetryPolicy | int = _DEFAULT_POLICY,
        proxy: str | None = None,
        ssl_context: ssl.SSLContext | None = None,
        trust_env: bool = True,
        http_client: HttpClientT | None = None,
        on_exchange: OnExchange | None = None,
        read_limits: ReadLimits | None = None,
        allow_insecure_http: bool = False,
        telemetry: "Telemetry | None" = None,
    ) -> None:
        limits = read_limits or ReadLimits()
        try:
            _check_kind("ssl_context", ssl_context, ssl.SSLContext)
            _check_kind("trust_env", trust_env, bool)
            _check_kind("read_limits", read_limits, ReadLimits)
            _check_kind("allow_insecure_http", allow_insecure_http, bool)
            signer = load_signer(private_key, passphrase)
            self._base_url = base_url_of(base_url, allow_insecure_http=allow_insecure_http)
            self._settings = CallSettings(
                operator_id=checked_operator_id(operator_id),
                base_url=self._base_url,
                headers=_HEADERS,
                policy=_policy_of(retries),
                timeout_seconds=checked_seconds("timeout", timeout),
                deadline_seconds=None if deadline is None else checked_seconds("deadline", deadline),
            )
            way = proxy_at(proxy)
        finally:
            # Error trackers show the locals of every frame that an error passes, and a key may be in the wrong place.
            del base_url, operator_id, private_key, passphrase, proxy
        if is_async(signer) and not self._takes_async_signer:
            raise ConfigurationError(
                "The signer's sign method is async.",
                setting="private_key",
                remedy="Use AsyncOperatorClient with it.",
            )
        self._signatures = RememberedSignatures(signer)
        proxy_of = partial(proxy_of_environment, self._base_url) if way is None and trust_env else lambda: way
        self._wire = self._make_wire(
            type(self).__name__, self._base_url, http_client, ssl_context, trust_env, limits.of, proxy_of
        )
        if way is not None and http_client is not None:
            raise ConfigurationError(
                "Both proxy and http_client are given.",
                setting="proxy",
                remedy="Give the proxy to your http_client, or leave http_client out.",
            )
        returns_at_once = callable(on_exchange) and not inspect.iscoroutinefunction(on_exchange)
        if on_exchange is not None and not returns_at_once:
            raise TypeError("on_exchange must be a function that returns at once, and not an async one")
        self._on_exchange, self._telemetry = on_exchange, telemetry
        self._owns_wire = True
        # Not with the first answer: pydantic takes a tenth of a second to load, and an event loop would stand still.
        import game_operator.models.operator_api  # noqa: F401 - for its effect

    @property
    def base_url(self) -> str:
        """The address of the service, without a slash at its end."""
        return self._base_url

    @property
    def operator_id(self) -> str:
        """The id that the provider gave the operator."""
        return self._settings.operator_id

    def with_options(
        self,
        *,
        timeout: float | EllipsisType = ...,
        deadline: float | EllipsisType | None = ...,
        retries: RetryPolicy | int | EllipsisType = ...,
    ) -> Self:
        """
        Return a client with other bounds over the same connections, which only this client closes.

        A bound that is not given stays as it is.
        """
        changes: dict[str, Any] = {}
        if not isinstance(timeout, EllipsisType):
            changes["timeout_seconds"] = checked_seconds("timeout", timeout)
        if not isinstance(deadline, EllipsisType):
            changes["deadline_seconds"] = None if deadline is None else checked_seconds("deadline", deadline)
        if not isinstance(retries, EllipsisType):
            changes["policy"] = _policy_of(retries)
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other._settings = replace(self._settings, **changes)
        other._owns_wire = False
        return other

    def __repr__(self) -> str:
        if "_settings" not in self.__dict__:
            return object.__repr__(self)  # An error tracker shows a client whose construction failed.
        return f"{type(self).__name__}(base_url={self._base_url!r}, operator_id={self._settings.operator_id!r})"

    def __reduce__(self) -> str:
        name = type(self).__name__
        raise TypeError(
            f"{name} holds a private key and connections and is not pickled; "
            f"build one in each process instead, for example with {name}.from_env()"
        )

    def _steps(self, operation: Operation[T]) -> Generator[Step, Reply, T]:
        correlation_id = os.urandom(8).hex()
        steps = exchange(
            operation,
            self._settings,
            started_seconds=time.monotonic(),
            jitter=_JITTER,
            correlation_id=correlation_id,
        )
        if self._telemetry is None:
            return steps
        return self._telemetry.observed_call(steps, operation, self._base_url, correlation_id)

    def _answer(self, step: Send, result: HttpReply | TransportFailed, began: float) -> Answer:
        """Return the answer to *step*, once ``on_exchange`` has seen it; what that raises changes no grant."""
        answer = Answer(result, time.monotonic(), time.time_ns() // 1_000_000)
        if self._on_exchange is None:
            return answer
        request, status, body = step.request, None, b""
        if isinstance(result, HttpReply):
            signature = next(value for name, value in request.headers if name == b"X-Signature")
            status, body = result.status, without_echoes(result.body, signature)
        url, elapsed = self._base_url + request.path, answer.seconds - began
        attempt = Exchange(
            request.method,
            url,
            status,
            step.attempt,
            elapsed,
            request.body,
            body,
            step.operation_name,
            step.correlation_id,
        )
        try:
            self._on_exchange(attempt)
        except Exception:  # It is the user's own code, which may raise anything.
            extra = {
                "event": "client.on_exchange_raised",
                "operation": step.operation_name,
                "correlation_id": step.correlation_id,
            }
            _log.exception("on_exchange raised; the call goes on", extra=extra)
        return answer


def _check_kind(name: str, value: object, kind: type) -> None:
    if value is not None and not isinstance(value, kind):
        raise TypeError(f"{name} must be of the type {kind.__name__}, not {type(value).__name__}")


def _policy_of(retries: RetryPolicy | int) -> RetryPolicy:
    return retries if isinstance(retries, RetryPolicy) else RetryPolicy(max_retries=retries)
