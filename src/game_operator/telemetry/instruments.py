"""
What makes spans and measures: the instruments of OpenTelemetry are shared by all that measure for one meter provider.

What a sampler, a processor or an exporter of the OpenTelemetry SDK raises changes no call.
"""

import logging
import os
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from threading import Lock, RLock
from typing import Any, Final, TypeAlias, TypeVar
from weakref import WeakKeyDictionary, WeakSet

from opentelemetry import context as contexts
from opentelemetry import metrics, trace

from game_operator._version import __version__

T = TypeVar("T")

Attributes: TypeAlias = Mapping[str, str | int]

SCOPE: Final = "game_operator"
SCHEMA: Final = "https://opentelemetry.io/schemas/1.44.0"
#: The bounds that the semantic conventions advise for HTTP and for databases, in seconds.
_HTTP_SECONDS: Final = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10)
_DATABASE_SECONDS: Final = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10)
#: From a call that only reads to the longest budget of a batch.
_WEBHOOK_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60)
_BATCH_CALLS: Final = (1, 2, 4, 8, 16, 32, 64)
#: How much waits at most to be counted. So much takes about a millisecond.
_MOST_WAITING: Final = 64
_NOWHERE: Final = contexts.Context()

_LOG = logging.getLogger("game_operator.telemetry")
_is_logged: Final = [False]


def _log_failure() -> None:
    """Log what was raised just now, if it is the first time in this process."""
    if not _is_logged[0]:
        _is_logged[0] = True
        extra = {"event": "telemetry.failed"}
        _LOG.exception("The OpenTelemetry SDK raised; calls go on. This is logged once.", extra=extra)


def begin(
    tracer: "trace.Tracer",
    name: str,
    context: "contexts.Context | None" = None,
    kind: "trace.SpanKind" = trace.SpanKind.INTERNAL,
    attributes: Mapping[str, str | int] | None = None,
) -> "trace.Span":
    """Return a span of *tracer*, or one that records nothing."""
    try:
        return tracer.start_span(name, context, kind, attributes)
    except Exception:  # A sampler or a processor.
        _log_failure()
        return trace.INVALID_SPAN


def end(span: "trace.Span") -> None:
    """End *span*."""
    try:
        span.end()
    except Exception:  # A processor or an exporter.
        _log_failure()


def fail(span: "trace.Span", failed: BaseException) -> None:
    """Let *span* say that *failed* ended it."""
    # The type alone: a message may quote what nobody should read in a trace.
    span.set_attribute("error.type", type(failed).__qualname__)
    span.set_status(trace.StatusCode.ERROR)


class Sum:
    """
    A counter that costs a call next to nothing: it is added up here, and read whenever metrics are collected.

    Only whole numbers, so that cents stay exact.
    """

    def __init__(self, *keys: str) -> None:
        self._keys = keys
        self.start_anew()

    def start_anew(self) -> None:
        """Begin with nothing, as a process does after a fork."""
        # A signal handler may collect metrics while the thread that it interrupts adds.
        self._lock = RLock()
        self._sums: dict[tuple[str, ...], int] = {}

    def add(self, amount: int, *values: str) -> None:
        """Add *amount* to the sum of *values*, which belong to the counter's keys in order; "" leaves a key out."""
        with self._lock:
            self._sums[values] = self._sums.get(values, 0) + amount

    def observed(self) -> "list[metrics.Observation]":
        """Return the sum of each series."""
        with self._lock:
            sums = list(self._sums.items())
        return [metrics.Observation(amount, self._attributes(values)) for values, amount in sums]

    def _attributes(self, values: tuple[str, ...]) -> dict[str, str]:
        return {key: value for key, value in zip(self._keys, values, strict=True) if value != ""}


class Instruments:
    """
    All instruments of a meter provider. Those that use it share them, so that sums are added up.

    Counting is done ``later``, many in a row: alone, between other work, each costs three times as much, because the
    processor has its code and data no longer at hand.
    """

    def __init__(self, provider: "metrics.MeterProvider") -> None:
        meter = provider.get_meter(SCOPE, __version__, SCHEMA)

        def values(name: str, unit: str, what: str, bounds: Sequence[float]) -> "metrics.Histogram":
            return meter.create_histogram(name, unit, what, explicit_bucket_boundaries_advisory=bounds)

        def seconds(name: str, what: str, bounds: Sequence[float] = _WEBHOOK_SECONDS) -> "metrics.Histogram":
            return values(name, "s", what, bounds)

        def total(name: str, unit: str, what: str, *keys: str) -> Sum:
            made = Sum(*keys)
            self._sums.append(made)

            def observed(_options: object) -> "list[metrics.Observation]":
                self.catch_up()
                return made.observed()

            meter.create_observable_counter(name, [observed], unit, what)
            return made

        def cents(name: str, what: str, *keys: str) -> Sum:
            return total(name, "{cent}", what, "game_operator.currency", *keys)

        # First what a collection needs, which may come from another thread before all instruments are made.
        self._waiting: deque[tuple[Callable[..., object], tuple[Any, ...]]] = deque()
        self._watching = Lock()
        self._ages_of: WeakKeyDictionary[Any, Callable[[Any], float | None]] = WeakKeyDictionary()
        self._sums: list[Sum] = []
        operation, action = "game_operator.operation", "game_operator.action"
        self.client_seconds: Final = seconds("http.client.request.duration", "Attempts of calls", _HTTP_SECONDS)
        self.server_seconds: Final = seconds("http.server.request.duration", "Requests to `serve`", _HTTP_SECONDS)
        self.commit_seconds: Final = seconds("db.client.operation.duration", "Commits of the ledger", _DATABASE_SECONDS)
        self.webhook_seconds: Final = seconds("game_operator.webhook.duration", "From a body's arrival to its reply")
        self.wait_seconds: Final = seconds(
            "game_operator.ledger.wait", "Waits of a millisecond or more for a commit under way"
        )
        self.batch_calls: Final = values("game_operator.ledger.batch.size", "{call}", "Calls of a commit", _BATCH_CALLS)
        self.calls: Final = total(
            "game_operator.webhook.calls",
            "{call}",
            "Calls by how they ended",
            *(operation, "game_operator.outcome", "game_operator.code"),
        )
        self.anomalies: Final = total(
            "game_operator.anomalies", "{call}", "Calls to be looked at", "game_operator.anomaly"
        )
        self.signature_failures: Final = total(
            "game_operator.signature.failures", "{call}", "Calls that were not authenticated", operation
        )
        self.calls_by_key: Final = total(
            "game_operator.key.calls", "{call}", "Genuine calls by the key that signed them", "game_operator.key"
        )
        self.findings: Final = total(
            "game_operator.reconcile.findings", "{finding}", "Findings made", "game_operator.finding"
        )
        self.wagered: Final = cents("game_operator.wagered", "Wagers that were debited", action)
        self.won: Final = cents("game_operator.won", "Wins and claims that were credited", action)
        self.refunded: Final = cents("game_operator.refunded", "Wagers that were refunded")
        _alive.add(self)
        meter.create_observable_gauge(
            "game_operator.bets.oldest_open", [self._ages], "s", "The age of the oldest open bet; 0 if none is open"
        )

    def later(self, count: Callable[..., object], *arguments: Any) -> None:
        """Call *count* with *arguments*, which do not change any more: soon, and before metrics are collected."""
        self._waiting.append((count, arguments))
        if len(self._waiting) >= _MOST_WAITING:
            self.catch_up()

    def catch_up(self) -> None:
        """Count what waits; several threads may do so at once."""
        # Without a span: else the SDK would name the one that is current here as an example of all these values.
        token = contexts.attach(_NOWHERE)
        try:
            while self._waiting:
                with suppress(IndexError):  # Another thread took the last one.
                    self._count(*self._waiting.popleft())
        finally:
            contexts.detach(token)

    @staticmethod
    def _count(count: Callable[..., object], arguments: tuple[Any, ...]) -> None:
        try:
            count(*arguments)
        except Exception:  # A view, a filter or a reservoir of the SDK.
            _log_failure()

    def watch_oldest_open(self, ledger: T, seconds_of: Callable[[T], float | None]) -> None:
        """Ask *ledger* for the age of its oldest open bet whenever metrics are collected, as long as it lives."""
        with self._watching:
            self._ages_of[ledger] = seconds_of

    def forget(self, ledger: object) -> None:
        """Ask *ledger* no more."""
        with self._watching:
            self._ages_of.pop(ledger, None)

    def start_anew(self) -> None:
        """Begin with nothing, as a process does after a fork."""
        self._watching = Lock()
        self._waiting.clear()
        for each in self._sums:
            each.start_anew()

    def _ages(self, _options: object) -> "list[metrics.Observation]":
        self.catch_up()  # Before the SDK reads its histograms: observable instruments come first.
        ages: list[float] = []
        with self._watching:
            watched = list(self._ages_of.items())
        for ledger, seconds_of in watched:
            # Anything a driver raises: a database that is away is seen by other metrics.
            with suppress(Exception):
                seconds = seconds_of(ledger)
                ages += [] if seconds is None else [seconds]
        return [metrics.Observation(max(ages))] if ages else []


_made: "WeakKeyDictionary[metrics.MeterProvider, Instruments]" = WeakKeyDictionary()
_global: list[Instruments] = []
_alive: "WeakSet[Instruments]" = WeakSet()
_making = Lock()


def instruments_of(provider: "metrics.MeterProvider | None") -> Instruments:
    """Return the instruments of *provider*, or of the process's global one."""
    # A second observable counter of the same name would be left out by the SDK, with all that it counts.
    current = metrics.get_meter_provider()
    with _making:
        if provider is None or provider is current:
            # Those that were made before the process had a provider report to it, too, once it is set.
            if not _global:
                _global.append(_made.get(current) or Instruments(current))
            return _global[0]
        if provider not in _made:
            _made[provider] = Instruments(provider)
        return _made[provider]


def _start_anew_in_child() -> None:
    global _making
    _making = Lock()
    for instruments in _alive:
        instruments.start_anew()


if hasattr(os, "register_at_fork"):  # Windows has no fork.
    os.register_at_fork(after_in_child=_start_anew_in_child)


class Recorder:
    """What makes spans, and the instruments; the parts of a ``Telemetry`` share it."""

    def __init__(
        self,
        tracer_provider: "trace.TracerProvider | None" = None,
        meter_provider: "metrics.MeterProvider | None" = None,
        record_ids: bool = False,
    ) -> None:
        self.record_ids: Final = record_ids
        self.tracer: Final = trace.get_tracer(SCOPE, __version__, tracer_provider, schema_url=SCHEMA)
        self.instruments: Final = instruments_of(meter_provider)
