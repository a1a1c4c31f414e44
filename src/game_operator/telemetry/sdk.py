"""Guards: what a sampler, a processor or an exporter of the OpenTelemetry SDK raises changes no call."""

import logging
from collections.abc import Mapping
from typing import Final

from opentelemetry import context as contexts
from opentelemetry import trace

__all__ = ["begin", "end", "fail", "log_failure"]

_LOG = logging.getLogger("game_operator.telemetry")
_is_logged: Final = [False]


def log_failure() -> None:
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
        log_failure()
        return trace.INVALID_SPAN


def end(span: "trace.Span") -> None:
    """End *span*."""
    try:
        span.end()
    except Exception:  # A processor or an exporter.
        log_failure()


def fail(span: "trace.Span", failed: BaseException) -> None:
    """Let *span* say that *failed* ended it."""
    # The type alone: a message may quote what nobody should read in a trace.
    span.set_attribute("error.type", type(failed).__qualname__)
    span.set_status(trace.StatusCode.ERROR)
