"""The span of one commit of the ledger, which is linked with the spans of its calls."""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from opentelemetry import context as contexts
from opentelemetry import trace

from game_operator.telemetry.instruments import Attributes
from game_operator.telemetry.recorder import Recorder
from game_operator.telemetry.sdk import begin, end, fail

if TYPE_CHECKING:
    from game_operator.telemetry.webhooks import WebhookSpan

__all__ = ["COMMIT_IN", "CommitSpan", "WaitingCall"]

#: Calls that waited for less found the ledger free, and measuring costs more than they waited.
_LEAST_WAIT_SECONDS: Final = 0.001
COMMIT_IN: Final = {
    system: {"db.system.name": system, "db.operation.name": "commit"} for system in ("postgresql", "sqlite")
}


class WaitingCall(NamedTuple):
    """A call that waits for its commit: the context and span it came in, its webhook, and since when it waits."""

    context: "contexts.Context"
    span: "trace.Span"
    webhook: "WebhookSpan | None"
    since_seconds: float


class CommitSpan:
    """
    The span of one commit, current from its making to its ``end``, with a link to each of its calls.

    It belongs to the trace of the first call that is recorded. The spans of the others link to it, so each call keeps
    its trace. If no call is recorded, neither is the commit.
    """

    __slots__ = ("_began", "_calls", "_home", "_measured", "_span", "_telemetry", "_token")

    def __init__(self, telemetry: Recorder, calls: Sequence[WaitingCall], measured: Attributes) -> None:
        self._telemetry, self._calls, self._measured = telemetry, calls, measured
        self._home = home = next(filter(_may_be_recorded, calls), calls[0])
        context = home.context
        self._span: trace.Span | None = None
        if _may_be_recorded(home):
            # Attributes and links are added afterwards, which costs the SDK half as much.
            self._span = span = begin(telemetry.tracer, "ledger commit", context, trace.SpanKind.CLIENT)
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
            if waited >= _LEAST_WAIT_SECONDS:
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
            fail(span, failed)
        end(span)


def _may_be_recorded(call: WaitingCall) -> bool:
    """Return whether a commit of *call* would be recorded: not if the call's own span is left out by sampling."""
    context = call.span.get_span_context()
    return context.trace_flags.sampled or not context.is_valid
