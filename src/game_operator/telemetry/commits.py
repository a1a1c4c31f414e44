"""The span of one commit of the ledger, which is linked with the spans of its calls."""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from opentelemetry import context as contexts
from opentelemetry import trace

from game_operator.telemetry.instruments import Attributes, Instruments, Recorder, begin, end, fail

if TYPE_CHECKING:
    from game_operator.telemetry.webhooks import WebhookSpan

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
        instruments.later(_count, instruments, seconds, measured, waits)
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


def _count(instruments: Instruments, seconds: float, measured: Attributes, waits: Sequence[float]) -> None:
    instruments.commit_seconds.record(seconds, measured)
    instruments.batch_calls.record(len(waits))
    for waited in waits:
        if waited >= _LEAST_WAIT_SECONDS:
            instruments.wait_seconds.record(waited)
