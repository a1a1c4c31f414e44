"""What makes spans and measures, for one pair of providers."""

from typing import Final

from opentelemetry import metrics, trace

from game_operator._version import __version__
from game_operator.telemetry.instruments import SCHEMA, SCOPE, instruments_of

__all__ = ["Recorder"]


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
