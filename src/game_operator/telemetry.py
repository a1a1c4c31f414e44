"""
Traces and metrics by OpenTelemetry (extra ``otel``); nothing else here knows it, and nothing imports this unasked.

A ``Telemetry`` is passed to a client, a receiver, a ledger or a reconciler. Ids of players, bets and transactions are
in no metric, and on a span only with ``record_ids``. Names and units are those of docs/reference/metrics.md.
"""

import logging
import os
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from threading import Lock, RLock
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary, WeakSet

from game_operator._version import __version__
from game_operator.models.webhooks import WebhookCall
from game_operator.protocol.exchange import Answer, Reply, Send, Step
from game_operator.protocol.http import HttpResponse
from game_operator.protocol.operations import Operation

try:
    from opentelemetry import context as contexts
    from opentelemetry import metrics, trace
except ModuleNotFoundError as missing:
    raise ImportError(
        "game_operator.telemetry needs opentelemetry-api. Install the extra: pip install 'game-operator[otel]'",
        name=missing.name,
    ) from missing

__all__ = ["Telemetry"]

T = TypeVar("T")

_LOG = logging.getLogger("game_operator.telemetry")
_Attributes: TypeAlias = Mapping[str, str | int]

_SCOPE: Final = "game_operator"
_SCHEMA: Final = "https://opentelemetry.io/schemas/1.44.0"
#: The bounds that the semantic conventions advise for HTTP and for databases, in seconds.
_HTTP_SECONDS: Final = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10)
_DATABASE_SECONDS: Final = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10)
#: From a call that only reads to the longest budget of a batch.
_WEBHOOK_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60)
#: Calls that waited for less found the ledger free, and measuring costs more than they waited.
LEAST_WAIT_SECONDS: Final = 0.001
_BATCH_CALLS: Final = (1, 2, 4, 8, 16, 32, 64)
#: How many values of a histogram wait for the SDK at most.
_MOST_WAITING: Final = 256
_ENDPOINTS: Final = {
    "fetch-games": "/api/v0.2/fetch-games",
    "fetch-bet": "/api/v0.2/fetch-bet/{bet_id}",
    "fetch-round-bets": "/api/v0.2/fetch-round-bets",
    "free-bet/grant": "/api/v0.2/free-bet/grant",
}
_METHODS: Final = frozenset({"CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "TRACE"})
#: What the instrumentations of HTTP libraries look for: an attempt has a span and a measurement already.
_SUPPRESS_HTTP: Final = getattr(contexts, "_SUPPRESS_HTTP_INSTRUMENTATION_KEY", "suppress_http_instrumentation")
_COMMIT_IN: Final = {
    system: {"db.system.name": system, "db.operation.name": "commit"} for system in ("postgresql", "sqlite")
}
_IDS: Final = ("player_id", "bet_id", "round_id", "tx_id")
_NOWHERE: Final = contexts.Context()
_WEBHOOK: Final = contexts.create_key("game_operator.webhook")


class Telemetry:
    """
    Makes spans and metrics of the parts that it is passed to as ``telemetry=``.

    One may serve all parts of a process. Without a provider that records, it does nothing, at the price of the API's
    empty calls.

    Args:
        tracer_provider: An OpenTelemetry TracerProvider; None for the process's global one.
        meter_provider: An OpenTelemetry MeterProvider; None for the process's global one.
        record_ids: Whether spans carry the ids of players, bets, rounds and transactions. Metrics never do.

    Attributes:
        tracer: Makes the spans.
        instruments: What is measured, shared by all that measure for one meter provider.

    Raises:
        ImportError: On the import of this module: opentelemetry-api is not installed.
    """

    def __init__(
        self,
        tracer_provider: "trace.TracerProvider | None" = None,
        meter_provider: "metrics.MeterProvider | None" = None,
        record_ids: bool = False,
    ) -> None:
        self.record_ids: Final = record_ids
        self.tracer: Final = trace.get_tracer(_SCOPE, __version__, tracer_provider, schema_url=_SCHEMA)
        self.instruments: Final = _instruments_of(meter_provider)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(record_ids={self.record_ids})"

    def _start_span(
        self,
        name: str,
        context: "contexts.Context | None" = None,
        kind: "trace.SpanKind" = trace.SpanKind.INTERNAL,
        attributes: _Attributes | None = None,
    ) -> "trace.Span":
        """Start a span; what a sampler or a processor of the SDK raises is logged once, and changes no call."""
        try:
            return self.tracer.start_span(name, context, kind, attributes)
        except Exception:
            _log_failure()
            return trace.INVALID_SPAN

    def observed_call(
        self, steps: Generator[Step, Reply, T], operation: Operation[T], base_url: str, correlation_id: str
    ) -> Generator[Step, Reply, T]:
        """
        Return the *steps* of a call of the Operator API, in a span with one more for each attempt.

        The span names *operation*, the host of *base_url*, and *correlation_id*.
        """
        return _observed_call(self, steps, operation, base_url, correlation_id)

    def webhook(self, operation: str, correlation_id: str) -> "WebhookSpan":
        """Return the span of a webhook for *operation* and *correlation_id*, current until its ``end``."""
        return WebhookSpan(self, operation, correlation_id)

    def waiting_call(self) -> "WaitingCall":
        """Return what a commit needs to know of the call that now waits for it."""
        context = contexts.get_current()
        webhook: Any = context.get(_WEBHOOK)
        return WaitingCall(context, trace.get_current_span(context), webhook, time.perf_counter())

    def commit(self, calls: Sequence["WaitingCall"], system: str) -> "CommitSpan":
        """Return the span of a commit of *calls* in the database *system*, which is current until its ``end``."""
        return CommitSpan(self, calls, _COMMIT_IN[system])

    def measured(self, application: Any, routes: Iterable[str]) -> Any:
        """Return the ASGI *application* of a server of ours, whose requests are measured by their *routes*."""
        return _measured(self.instruments.server_seconds, application, frozenset(routes))

    @contextmanager
    def run(self, name: str) -> Iterator[None]:
        """Yield in the span of a run of the back office, called *name*."""
        span = self._start_span(f"{name} run", attributes={"game_operator.run": name})
        token = contexts.attach(trace.set_span_in_context(span))
        try:
            yield
        except BaseException as failed:
            _fail(span, failed)
            raise
        finally:
            contexts.detach(token)
            _end(span)


class WaitingCall(NamedTuple):
    """A call that waits for its commit: the context and span it came in, its webhook, and since when it waits."""

    context: "contexts.Context"
    span: "trace.Span"
    webhook: "WebhookSpan | None"
    since_seconds: float


class Sum:
    """
    A counter that costs a call next to nothing: it is added up here, and read whenever metrics are collected.

    Only whole numbers, so that cents stay exact.
    """

    def __init__(self, meter: "metrics.Meter", name: str, unit: str, what: str, *keys: str) -> None:
        self._keys = keys
        self.start_anew()
        meter.create_observable_counter(name, [self._observed], unit, what)

    def start_anew(self) -> None:
        """Begin with nothing, as a process does after a fork."""
        # A signal handler may collect metrics while the thread that it interrupts adds.
        self._lock = RLock()
        self._sums: dict[tuple[str, ...], int] = {}

    def add(self, amount: int, *values: str) -> None:
        """Add *amount* to the sum of *values*, which belong to the counter's keys in order; "" leaves a key out."""
        with self._lock:
            self._sums[values] = self._sums.get(values, 0) + amount

    def _observed(self, _options: object) -> "list[metrics.Observation]":
        with self._lock:
            sums = list(self._sums.items())
        return [
            metrics.Observation(
                amount, {key: value for key, value in zip(self._keys, values, strict=True) if value != ""}
            )
            for values, amount in sums
        ]


class Values:
    """
    A histogram that the SDK gets in batches, and before metrics are collected.

    A value alone costs three times as much as one of many in a row, whose code and data the processor has at hand.
    """

    def __init__(self, histogram: "metrics.Histogram") -> None:
        self._histogram = histogram
        self.start_anew()

    def start_anew(self) -> None:
        """Begin with nothing, as a process does after a fork."""
        self._waiting: deque[tuple[float, _Attributes | None]] = deque()

    def record(self, value: float, attributes: _Attributes | None = None) -> None:
        """Record *value*; *attributes* do not change any more."""
        self._waiting.append((value, attributes))
        if len(self._waiting) >= _MOST_WAITING:
            self.flush()

    def flush(self) -> None:
        """Hand over what was recorded; several threads may do so at once."""
        # Without a span: else the SDK would name the one that is current here as an example of all these values.
        token = contexts.attach(_NOWHERE)
        try:
            while True:
                self._histogram.record(*self._waiting.popleft())
        except IndexError:
            return
        except Exception:
            _log_failure()
        finally:
            contexts.detach(token)


class Instruments:
    """All instruments of a meter provider. Those that use it share them, so that sums are added up."""

    def __init__(self, provider: "metrics.MeterProvider") -> None:
        meter = provider.get_meter(_SCOPE, __version__, _SCHEMA)

        def values(name: str, unit: str, what: str, bounds: Sequence[float]) -> Values:
            made = Values(meter.create_histogram(name, unit, what, explicit_bucket_boundaries_advisory=bounds))
            self._values.append(made)
            return made

        def seconds(name: str, what: str, bounds: Sequence[float] = _WEBHOOK_SECONDS) -> Values:
            return values(name, "s", what, bounds)

        def cents(name: str, what: str, *keys: str) -> Sum:
            return Sum(meter, name, "{cent}", what, "game_operator.currency", *keys)

        self._values: list[Values] = []
        operation, action = "game_operator.operation", "game_operator.action"
        self.client_seconds: Final[Values] = seconds("http.client.request.duration", "Attempts of calls", _HTTP_SECONDS)
        self.server_seconds: Final[Values] = seconds(
            "http.server.request.duration", "Requests to `serve`", _HTTP_SECONDS
        )
        self.commit_seconds: Final[Values] = seconds(
            "db.client.operation.duration", "Commits of the ledger", _DATABASE_SECONDS
        )
        self.webhook_seconds: Final[Values] = seconds(
            "game_operator.webhook.duration", "From a body's arrival to its reply"
        )
        self.wait_seconds: Final[Values] = seconds(
            "game_operator.ledger.wait", "Waits of a millisecond or more for a commit under way"
        )
        self.batch_calls: Final[Values] = values(
            "game_operator.ledger.batch.size", "{call}", "Calls of a commit", _BATCH_CALLS
        )
        self.calls: Final[Sum] = Sum(
            meter,
            "game_operator.webhook.calls",
            "{call}",
            "Calls by how they ended",
            *(operation, "game_operator.outcome", "game_operator.code"),
        )
        self.anomalies: Final[Sum] = Sum(
            meter, "game_operator.anomalies", "{call}", "Calls to be looked at", "game_operator.anomaly"
        )
        self.signature_failures: Final[Sum] = Sum(
            meter, "game_operator.signature.failures", "{call}", "Calls that were not authenticated", operation
        )
        self.findings: Final[Sum] = Sum(
            meter, "game_operator.reconcile.findings", "{finding}", "Findings made", "game_operator.finding"
        )
        self.wagered: Final[Sum] = cents("game_operator.wagered", "Wagers that were debited", action)
        self.won: Final[Sum] = cents("game_operator.won", "Wins and claims that were credited", action)
        self.refunded: Final[Sum] = cents("game_operator.refunded", "Wagers that were refunded")
        _alive.add(self)
        self._watching = Lock()
        self._ages_of: WeakKeyDictionary[Any, Callable[[Any], float | None]] = WeakKeyDictionary()
        meter.create_observable_gauge(
            "game_operator.bets.oldest_open", [self._ages], "s", "The age of the oldest open bet; 0 if none is open"
        )

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
        for values in self._values:
            values.start_anew()
        for each in vars(self).values():
            if isinstance(each, Sum):
                each.start_anew()

    def _ages(self, _options: object) -> "list[metrics.Observation]":
        for each in self._values:  # Before the SDK reads its histograms: observable instruments come first.
            each.flush()
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


def _instruments_of(provider: "metrics.MeterProvider | None") -> Instruments:
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


def _end(span: "trace.Span") -> None:
    try:
        span.end()
    except Exception:  # A processor or an exporter, which are not ours.
        _log_failure()


_is_logged: Final = [False]


def _log_failure() -> None:
    if not _is_logged[0]:
        _is_logged[0] = True
        extra = {"event": "telemetry.failed"}
        _LOG.exception("The OpenTelemetry SDK raised; calls go on. This is logged once.", extra=extra)


def _fail(span: "trace.Span", failed: BaseException) -> None:
    # The type alone: a message may quote what nobody should read in a trace.
    span.set_attribute("error.type", type(failed).__qualname__)
    span.set_status(trace.StatusCode.ERROR)


# --- You call the provider


def _observed_call(
    telemetry: Telemetry, steps: Generator[Step, Reply, T], operation: Operation[T], base_url: str, correlation_id: str
) -> Generator[Step, Reply, T]:
    # What this generator attaches is attached for its driver, too, which sends in that context.
    call = telemetry._start_span(
        operation.name,
        attributes={"game_operator.operation": operation.name, "game_operator.correlation_id": correlation_id},
    )
    if telemetry.record_ids:
        call.set_attributes(_ids_of(operation))
    token = contexts.attach(trace.set_span_in_context(call))
    try:
        step = next(steps)
        while True:
            try:
                if isinstance(step, Send):
                    with _attempt(telemetry, step, base_url) as note:
                        reply = yield step
                        note(reply)
                else:
                    reply = yield step
            except BaseException as interruption:
                step = steps.throw(interruption)
            else:
                step = steps.send(reply)
    except StopIteration as finished:
        value: T = finished.value
        return value
    except BaseException as failed:
        _fail(call, failed)
        raise
    finally:
        steps.close()
        contexts.detach(token)
        _end(call)


@contextmanager
def _attempt(telemetry: Telemetry, step: Send, base_url: str) -> Iterator[Callable[[Reply], None]]:
    """Make the CLIENT span of an attempt, and measure it; yield what takes note of its answer."""
    request, address = step.request, urlsplit(base_url)
    measured: dict[str, str | int] = {
        "http.request.method": request.method,
        "server.address": address.hostname or "",
        "server.port": address.port or (443 if address.scheme == "https" else 80),
        "url.template": _ENDPOINTS.get(step.operation_name, step.operation_name),
    }
    span = telemetry._start_span(
        f"{request.method} {measured['url.template']}", kind=trace.SpanKind.CLIENT, attributes=measured
    )
    if telemetry.record_ids:
        span.set_attribute("url.full", base_url + request.path)
    if step.attempt > 1:
        span.set_attribute("http.request.resend_count", step.attempt - 1)

    def note(reply: Reply) -> None:
        assert isinstance(reply, Answer)
        if isinstance(reply.result, HttpResponse):
            measured["http.response.status_code"] = status = reply.result.status
            if status >= 400:
                measured["error.type"] = str(status)
        else:
            measured["error.type"] = "timeout" if reply.result.timed_out else "connection"

    began = time.perf_counter()
    token = contexts.attach(contexts.set_value(_SUPPRESS_HTTP, True, trace.set_span_in_context(span)))
    try:
        yield note
    except BaseException as failed:
        measured["error.type"] = type(failed).__qualname__
        raise
    finally:
        contexts.detach(token)
        telemetry.instruments.client_seconds.record(time.perf_counter() - began, measured)
        for key in ("http.response.status_code", "error.type"):
            if key in measured:
                span.set_attribute(key, measured[key])
        if "error.type" in measured:
            span.set_status(trace.StatusCode.ERROR)
        _end(span)


def _ids_of(operation: Operation[Any]) -> dict[str, str]:
    grant = operation.grant
    if grant is None:
        return {"game_operator.path": operation.path}
    return {"game_operator.player_id": grant.player_id, "game_operator.reference_id": grant.reference_id}


# --- The provider calls you


class WebhookSpan:
    """The span of one webhook, current from its making to its ``end``, and what is counted of the call."""

    __slots__ = ("_attributes", "_began", "_operation", "_span", "_telemetry", "_token", "repeats")

    def __init__(self, telemetry: Telemetry, operation: str, correlation_id: str) -> None:
        self._telemetry, self._operation = telemetry, operation
        #: The calls that the ledger knew already; a ledger without telemetry does not say.
        self.repeats: list[WebhookCall] = []
        self._attributes: dict[str, str] = {"game_operator.correlation_id": correlation_id}
        self._span = telemetry._start_span(f"webhook {operation}" if operation else "webhook")
        context = contexts.set_value(_WEBHOOK, self, trace.set_span_in_context(self._span))
        self._token = contexts.attach(context)
        self._began = time.perf_counter()

    def note(self, operation: str, outcome: str, code: str | None, call: WebhookCall | None, anomaly: str) -> None:
        """Count a call of the webhook, which ended with *outcome*: success, declined, refused or failed."""
        if outcome == "success" and any(call is each for each in self.repeats):
            outcome = "repeat"
        self._telemetry.instruments.calls.add(1, operation, outcome, code or "")
        if outcome == "refused" and code == "INVALID_SIGNATURE":
            self._telemetry.instruments.signature_failures.add(1, operation)
        if anomaly:
            self._telemetry.instruments.anomalies.add(1, anomaly)
        if operation != self._operation:  # A deposit of a batch: the span is the batch's.
            return
        self._attributes["game_operator.outcome"] = outcome
        if code is not None:
            self._attributes["game_operator.code"] = code
        if self._telemetry.record_ids:
            ids = {f"game_operator.{name}": getattr(call, name, None) for name in _IDS}
            self._attributes |= {name: value for name, value in ids.items() if value is not None}

    def end(self) -> None:
        """End the span and measure the webhook."""
        contexts.detach(self._token)
        attributes = self._attributes
        measured = {"game_operator.operation": self._operation} if self._operation else {}
        if "game_operator.outcome" in attributes:
            measured["game_operator.outcome"] = attributes["game_operator.outcome"]
        self._telemetry.instruments.webhook_seconds.record(time.perf_counter() - self._began, measured)
        if self._span.is_recording():
            self._span.set_attributes({**measured, **attributes})
        if measured.get("game_operator.outcome") == "failed":
            self._span.set_attribute("error.type", attributes.get("game_operator.code", "failed"))
            self._span.set_status(trace.StatusCode.ERROR)
        _end(self._span)


class CommitSpan:
    """
    The span of one commit, current from its making to its ``end``, with a link to each of its calls.

    It belongs to the trace of the first call that is recorded. The spans of the others link to it, so each call keeps
    its trace. If no call is recorded, neither is the commit.
    """

    __slots__ = ("_began", "_calls", "_home", "_measured", "_span", "_telemetry", "_token")

    def __init__(self, telemetry: Telemetry, calls: Sequence[WaitingCall], measured: _Attributes) -> None:
        self._telemetry, self._calls, self._measured = telemetry, calls, measured
        self._home = home = next(filter(_may_be_recorded, calls), calls[0])
        context = home.context
        self._span: trace.Span | None = None
        if _may_be_recorded(home):
            # Attributes and links are added afterwards, which costs the SDK half as much.
            self._span = span = telemetry._start_span("ledger commit", context, trace.SpanKind.CLIENT)
            span.set_attributes(measured)
            if len(calls) > 1:
                span.set_attribute("db.operation.batch.size", len(calls))
            for call in calls:
                span.add_link(call.span.get_span_context())
            context = trace.set_span_in_context(span, context)
        self._token = contexts.attach(context)
        self._began = time.perf_counter()

    def end(self, failed: BaseException | None = None) -> None:
        """End the span, and measure the commit and how long its calls waited."""
        contexts.detach(self._token)
        instruments, calls, measured = self._telemetry.instruments, self._calls, self._measured
        if failed is not None:
            measured = {**measured, "error.type": type(failed).__qualname__}
        instruments.commit_seconds.record(time.perf_counter() - self._began, measured)
        instruments.batch_calls.record(len(calls))
        for call in calls:
            waited = self._began - call.since_seconds
            if waited >= LEAST_WAIT_SECONDS:
                instruments.wait_seconds.record(waited)
        if self._span is not None:
            self._end_span(self._span, failed)

    def _end_span(self, span: "trace.Span", failed: BaseException | None) -> None:
        context = span.get_span_context()
        for call in self._calls:
            # A call over its time budget was answered meanwhile, and its span has ended.
            if call is not self._home and call.span.is_recording():
                call.span.add_link(context)
        if failed is not None:
            _fail(span, failed)
        _end(span)


def _may_be_recorded(call: WaitingCall) -> bool:
    """Return whether a commit of *call* would be recorded: not if the call's own span is left out by sampling."""
    context = call.span.get_span_context()
    return context.trace_flags.sampled or not context.is_valid


# --- HTTP, as `serve` answers it


def _measured(seconds: Values, application: Any, routes: frozenset[str]) -> Any:
    async def measured(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await application(scope, receive, send)
            return
        method, path, began = scope["method"], scope["path"], time.perf_counter()
        attributes: dict[str, str | int] = {
            "http.request.method": method if method in _METHODS else "_OTHER",
            "url.scheme": scope.get("scheme", "http"),
        }
        if path in routes:
            attributes["http.route"] = path

        async def noted(message: Any) -> None:
            if message["type"] == "http.response.start":
                attributes["http.response.status_code"] = status = message["status"]
                if status >= 500:
                    attributes["error.type"] = str(status)
            await send(message)

        try:
            await application(scope, receive, noted)
        except BaseException as failed:
            attributes["error.type"] = type(failed).__qualname__
            raise
        finally:
            seconds.record(time.perf_counter() - began, attributes)

    return measured
