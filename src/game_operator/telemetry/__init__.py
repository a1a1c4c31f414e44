"""
Traces and metrics by OpenTelemetry (extra ``otel``); nothing else here knows it, and nothing imports this unasked.

A ``Telemetry`` is passed to a client, a receiver, a ledger or a reconciler. Ids of players, bets and transactions are
in no metric, and on a span only with ``record_ids``. Names and units are those of docs/reference/metrics.md.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

try:
    import opentelemetry.context  # noqa: F401 - asked for here, so that the error says what to install
except ModuleNotFoundError as missing:
    raise ImportError(
        "game_operator.telemetry needs opentelemetry-api. Install the extra: pip install 'game-operator[otel]'",
        name=missing.name,
    ) from missing

from opentelemetry import context as contexts
from opentelemetry import trace

from game_operator.telemetry.client_calls import observed_call
from game_operator.telemetry.instruments import Recorder, begin, end, fail
from game_operator.telemetry.webhooks import COMMIT_IN, CURRENT, CommitSpan, WaitingCall, WebhookSpan, measured

__all__ = ["Telemetry"]


class Telemetry(Recorder):
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

    def __repr__(self) -> str:
        return f"{type(self).__name__}(record_ids={self.record_ids})"

    observed_call = observed_call
    """Makes the span of a call to the service, and measures it."""
    measured = measured
    """Measures the webhooks that an ASGI application answers."""

    def webhook(self, operation: str, correlation_id: str) -> WebhookSpan:
        """Return the span of a webhook for *operation* and *correlation_id*, current until its ``end``."""
        return WebhookSpan(self, operation, correlation_id)

    def waiting_call(self) -> WaitingCall:
        """Return what a commit needs to know of the call that now waits for it."""
        context = contexts.get_current()
        return WaitingCall(context, trace.get_current_span(context), CURRENT.get(), time.perf_counter())

    def commit(self, calls: Sequence[WaitingCall], system: str) -> CommitSpan:
        """Return the span of a commit of *calls* in the database *system*, which is current until its ``end``."""
        return CommitSpan(self, calls, COMMIT_IN[system])

    @contextmanager
    def run(self, name: str) -> Iterator[None]:
        """Yield in the span of a run of the back office, called *name*."""
        span = begin(self.tracer, f"{name} run", attributes={"game_operator.run": name})
        token = contexts.attach(trace.set_span_in_context(span))
        try:
            yield
        except BaseException as failed:
            fail(span, failed)
            raise
        finally:
            contexts.detach(token)
            end(span)
