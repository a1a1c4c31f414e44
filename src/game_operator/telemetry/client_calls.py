"""The span of one call of the Operator API, with a CLIENT span for each attempt."""

import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

from opentelemetry import context as contexts
from opentelemetry import trace

from game_operator.protocol.exchange import Answer, Reply, Send, Step
from game_operator.protocol.http import HttpReply
from game_operator.protocol.operations import Operation
from game_operator.telemetry.instruments import Recorder, begin, end, fail

T = TypeVar("T")

_ENDPOINTS: Final = {
    "fetch-games": "/api/v0.2/fetch-games",
    "fetch-bet": "/api/v0.2/fetch-bet/{bet_id}",
    "fetch-round-bets": "/api/v0.2/fetch-round-bets",
    "free-bet/grant": "/api/v0.2/free-bet/grant",
}
#: What the instrumentations of HTTP libraries look for: an attempt has a span and a measurement already.
_SUPPRESS_HTTP: Final = getattr(contexts, "_SUPPRESS_HTTP_INSTRUMENTATION_KEY", "suppress_http_instrumentation")


def observed_call(
    recorder: Recorder,
    steps: Generator[Step, Reply, T],
    operation: Operation[T],
    base_url: str,
    correlation_id: str,
) -> Generator[Step, Reply, T]:
    """
    Return the *steps* of a call of the Operator API, in a span with one more for each attempt.

    The span names *operation*, the host of *base_url*, and *correlation_id*.
    """
    # What this generator attaches is attached for its driver, too, which sends in that context.
    call = begin(
        recorder.tracer,
        operation.name,
        attributes={"game_operator.operation": operation.name, "game_operator.correlation_id": correlation_id},
    )
    if recorder.record_ids:
        call.set_attributes(_ids_of(operation))
    token = contexts.attach(trace.set_span_in_context(call))
    try:
        step = next(steps)
        while True:
            try:
                if isinstance(step, Send):
                    with _attempt(recorder, step, base_url) as note:
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
        fail(call, failed)
        raise
    finally:
        steps.close()
        contexts.detach(token)
        end(call)


@contextmanager
def _attempt(recorder: Recorder, step: Send, base_url: str) -> Iterator[Callable[[Reply], None]]:
    """Make the CLIENT span of an attempt, and measure it; yield what takes note of its answer."""
    request, address = step.request, urlsplit(base_url)
    measured: dict[str, str | int] = {
        "http.request.method": request.method,
        "server.address": address.hostname or "",
        "server.port": address.port or (443 if address.scheme == "https" else 80),
        "url.template": _ENDPOINTS.get(step.operation_name, step.operation_name),
    }
    span = begin(
        recorder.tracer,
        f"{request.method} {measured['url.template']}",
        kind=trace.SpanKind.CLIENT,
        attributes=measured,
    )
    if recorder.record_ids:
        span.set_attribute("url.full", base_url + request.path)
    if step.attempt > 1:
        span.set_attribute("http.request.resend_count", step.attempt - 1)

    def note(reply: Reply) -> None:
        assert isinstance(reply, Answer)
        if isinstance(reply.result, HttpReply):
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
        instruments, seconds = recorder.instruments, time.perf_counter() - began
        instruments.later(instruments.client_seconds.record, seconds, measured)
        for key in ("http.response.status_code", "error.type"):
            if key in measured:
                span.set_attribute(key, measured[key])
        if "error.type" in measured:
            span.set_status(trace.StatusCode.ERROR)
        end(span)


def _ids_of(operation: Operation[Any]) -> dict[str, str]:
    grant = operation.grant
    if grant is None:
        return {"game_operator.path": operation.path}
    return {"game_operator.player_id": grant.player_id, "game_operator.reference_id": grant.reference_id}
