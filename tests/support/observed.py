"""An OpenTelemetry SDK that keeps everything in memory, and a Telemetry that reports to it."""

from collections.abc import Iterator, Mapping
from typing import Any

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader, MetricReader
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from game_operator.telemetry import Telemetry


class Observed:
    """A Telemetry, and what it made of spans and metrics so far."""

    def __init__(self, *readers: MetricReader, record_ids: bool = False) -> None:
        self._exporter, self._reader = InMemorySpanExporter(), InMemoryMetricReader()
        self.tracers = TracerProvider(shutdown_on_exit=False)
        self.tracers.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.meters = MeterProvider([self._reader, *readers], shutdown_on_exit=False)
        self.telemetry = Telemetry(self.tracers, self.meters, record_ids=record_ids)

    def spans(self, name: str = "") -> list[ReadableSpan]:
        """Return the spans that have ended, or those of a name, the first that ended first."""
        return [span for span in self._exporter.get_finished_spans() if name in ("", span.name)]

    def span(self, name: str) -> ReadableSpan:
        """Return the only span of a name."""
        (span,) = self.spans(name)
        return span

    def points(self, metric: str) -> list[tuple[Mapping[str, Any], Any]]:
        """Return the attributes and the data point of each series of a metric."""
        return [
            (dict(point.attributes), point)
            for one in self.metrics()
            if one.name == metric
            for point in one.data.data_points
        ]

    def sums(self, metric: str) -> dict[tuple[Any, ...], int]:
        """Return the sums of a counter by the values of its attributes."""
        return {tuple(attributes.values()): point.value for attributes, point in self.points(metric)}

    def counts(self, metric: str) -> dict[tuple[Any, ...], int]:
        """Return how often a histogram was recorded, by the values of its attributes."""
        return {tuple(attributes.values()): point.count for attributes, point in self.points(metric)}

    def everything(self) -> str:
        """Return all that spans and metrics say."""
        return "\n".join([*(span.to_json() for span in self.spans()), *(one.to_json() for one in self.metrics())])

    def metrics(self) -> Iterator[Any]:
        """Yield each metric as the SDK collects it."""
        data: Any = self._reader.get_metrics_data()
        if data is None:
            return
        yield from (one for each in data.resource_metrics for scope in each.scope_metrics for one in scope.metrics)


class _Failing(SpanProcessor):
    """Raises when a span of a name starts, or ends."""

    def __init__(self, moment: str, name: str) -> None:
        self._moment, self._name = moment, name

    def on_start(self, span: Any, parent_context: Any = None) -> None:
        self._fail("start", span)

    def on_end(self, span: Any) -> None:
        self._fail("end", span)

    def _fail(self, moment: str, span: Any) -> None:
        if (moment, span.name) == (self._moment, self._name):
            raise RuntimeError("of the SDK")


def failing(moment: str, name: str) -> Observed:
    """Return an SDK with a processor that raises at the "start" or the "end" of each span of a *name*."""
    observed = Observed()
    observed.tracers.add_span_processor(_Failing(moment, name))
    return observed
