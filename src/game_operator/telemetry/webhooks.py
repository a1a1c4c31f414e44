"""
The span of one webhook, what is counted of its calls, and how `serve` measures the requests that carry them.

The span of one commit of the ledger is linked with the spans of the calls that wait for it.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, Final, NamedTuple

from opentelemetry import context as contexts
from opentelemetry import trace

from game_operator.models.webhooks import WebhookCall
from game_operator.protocol.webhook import OPERATIONS
from game_operator.telemetry.instruments import Attributes, Instruments, Recorder, begin, end, fail

_METHODS: Final = frozenset({"CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "TRACE"})
_IDS: Final = ("player_id", "bet_id", "round_id", "tx_id")
_NAMES: Final = {operation: f"webhook {operation}" for operation in [*OPERATIONS.values(), "deposit-batch"]} | {
    "": "webhook"
}
#: Calls that waited for less found the ledger free, and measuring costs more than they waited.
_LEAST_WAIT_SECONDS: Final = 0.001
COMMIT_IN: Final = {
    system: {"db.system.name": system, "db.operation.name": "commit"} for system in ("postgresql", "sqlite")
}
#: The webhook whose call is handled here.
CURRENT: Final[ContextVar["WebhookSpan | None"]] = ContextVar("game_operator_webhook", default=None)


class WebhookSpan:
    """The span of one webhook, current from its making to its ``end``, and what is counted of its calls."""

    __slots__ = (
        "_before",
        "_began",
        "_correlation_id",
        "_ids",
        "_notes",
        "_operation",
        "_recorder",
        "_span",
        "_token",
        "repeats",
    )

    def __init__(self, recorder: Recorder, operation: str, correlation_id: str) -> None:
        self._recorder, self._operation, self._correlation_id = recorder, operation, correlation_id
        #: The calls that the ledger knew already; a ledger without telemetry does not say.
        self.repeats: tuple[WebhookCall, ...] = ()
        self._notes: tuple[Note, ...] = ()
        self._ids: Mapping[str, str] = {}
        self._span = span = begin(recorder.tracer, _NAMES[operation])
        # Where nothing makes spans, what is current stays.
        self._token = None if span is trace.INVALID_SPAN else contexts.attach(trace.set_span_in_context(span))
        self._before = CURRENT.set(self)
        self._began = time.perf_counter()

    def note(self, operation: str, outcome: str, code: str | None, call: WebhookCall | None, anomaly: str) -> None:
        """Take note of a call of the webhook, which ended with *outcome*: success, declined, refused or failed."""
        if self.repeats and outcome == "success" and any(call is each for each in self.repeats):
            outcome = "repeat"
        self._notes += (Note(operation, outcome, code or "", anomaly),)
        if self._recorder.record_ids and operation == self._operation:
            ids = {f"game_operator.{name}": getattr(call, name, None) for name in _IDS}
            self._ids = {name: value for name, value in ids.items() if value is not None}

    def end(self) -> None:
        """End the span, and let the webhook and its calls be counted."""
        seconds = time.perf_counter() - self._began
        CURRENT.reset(self._before)
        if self._token is not None:
            contexts.detach(self._token)
        instruments = self._recorder.instruments
        instruments.later(_count, instruments, seconds, self._operation, self._notes)
        if self._span.is_recording():
            self._describe(self._span)
        end(self._span)

    def _describe(self, span: "trace.Span") -> None:
        note = _own_note(self._operation, self._notes)
        attributes = {
            **_attributes_of(self._operation, note),
            "game_operator.correlation_id": self._correlation_id,
            **self._ids,
        }
        if note is not None and note.code:
            attributes["game_operator.code"] = note.code
        if note is not None and note.outcome == "failed":
            attributes["error.type"] = note.code
            span.set_status(trace.StatusCode.ERROR)
        span.set_attributes(attributes)


class Note(NamedTuple):
    """How a call ended. Its code is "" for SUCCESS, and its anomaly "" unless a person should look at the call."""

    operation: str
    outcome: str
    code: str
    anomaly: str


def _own_note(operation: str, notes: Sequence[Note]) -> Note | None:
    """Return how the webhook ended: with its call, or if it has none, as a batch, None."""
    return next((note for note in notes if note.operation == operation), None)


def _attributes_of(operation: str, note: Note | None) -> dict[str, str]:
    measured = {"game_operator.operation": operation, "game_operator.outcome": note.outcome if note else ""}
    return {name: value for name, value in measured.items() if value}


def _count(instruments: Instruments, seconds: float, operation: str, notes: Sequence[Note]) -> None:
    instruments.webhook_seconds.record(seconds, _attributes_of(operation, _own_note(operation, notes)))
    for note in notes:
        instruments.calls.add(1, note.operation, note.outcome, note.code)
        if note.outcome == "refused" and note.code == "INVALID_SIGNATURE":
            instruments.signature_failures.add(1, note.operation)
        if note.anomaly:
            instruments.anomalies.add(1, note.anomaly)


class WaitingCall(NamedTuple):
    """A call that waits for its commit: the context and span it came in, its webhook, and since when it waits."""

    context: "contexts.Context"
    span: "trace.Span"
    webhook: WebhookSpan | None
    since_seconds: float


class CommitSpan:
    """
    The span of one commit, current from its making to its ``end``, with a link to each of its calls.

    It belongs to the trace of the first call that is recorded. The spans of the others link to it, so each call keeps
    its trace. If no call is recorded, neither is the commit.
    """

    __slots__ = ("_began", "_calls", "_home", "_measured", "_recorder", "_span", "_token")

    def __init__(self, recorder: Recorder, calls: Sequence[WaitingCall], measured: Attributes) -> None:
        self._recorder, self._calls, self._measured = recorder, calls, measured
        self._home = home = next(filter(_may_be_recorded, calls), calls[0])
        context = home.context
        span: trace.Span = trace.INVALID_SPAN
        if _may_be_recorded(home):
            span = begin(recorder.tracer, "ledger commit", context, trace.SpanKind.CLIENT)
            context = trace.set_span_in_context(span, context)
            if span.is_recording():
                self._describe(span)
        self._span = span
        self._token = contexts.attach(context)
        self._began = time.perf_counter()

    def _describe(self, span: "trace.Span") -> None:
        # Attributes and links that are added afterwards cost the SDK half as much.
        span.set_attributes(self._measured)
        if len(self._calls) > 1:
            span.set_attribute("db.operation.batch.size", len(self._calls))
        for call in self._calls:
            span.add_link(call.span.get_span_context())

    def end(self, failed: BaseException | None = None) -> None:
        """End the span, and measure the commit and how long its calls waited."""
        seconds = time.perf_counter() - self._began
        contexts.detach(self._token)
        instruments, measured = self._recorder.instruments, self._measured
        if failed is not None:
            measured = {**measured, "error.type": type(failed).__qualname__}
        waits = [self._began - call.since_seconds for call in self._calls]
        instruments.later(_count_commit, instruments, seconds, measured, waits)
        if self._span.is_recording():
            self._end_span(self._span, failed)

    def _end_span(self, span: "trace.Span", failed: BaseException | None) -> None:
        context = span.get_span_context()
        for call in self._calls:
            # A call over its time budget was answered meanwhile, and its span has ended.
            if call is not self._home and call.span.is_recording():
                call.span.add_link(context)
        if failed is not None:
            fail(span, failed)
        end(span)


def _may_be_recorded(call: WaitingCall) -> bool:
    """Return whether a commit of *call* would be recorded: not if the call's own span is left out by sampling."""
    context = call.span.get_span_context()
    return context.trace_flags.sampled or not context.is_valid


def _count_commit(instruments: Instruments, seconds: float, measured: Attributes, waits: Sequence[float]) -> None:
    instruments.commit_seconds.record(seconds, measured)
    instruments.batch_calls.record(len(waits))
    for waited in waits:
        if waited >= _LEAST_WAIT_SECONDS:
            instruments.wait_seconds.record(waited)


def measured(recorder: Recorder, application: Any, routes: Iterable[str]) -> Any:
    """
    Return the ASGI *application* of a server of ours, whose requests are measured by their *routes*.

    Frameworks have instrumentations for that.
    """
    instruments, known = recorder.instruments, frozenset(routes)

    async def answer(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await application(scope, receive, send)
            return
        method, path, began = scope["method"], scope["path"], time.perf_counter()
        attributes: dict[str, str | int] = {
            "http.request.method": method if method in _METHODS else "_OTHER",
            "url.scheme": scope.get("scheme", "http"),
        }
        if path in known:
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
            instruments.later(instruments.server_seconds.record, time.perf_counter() - began, attributes)

    return answer
