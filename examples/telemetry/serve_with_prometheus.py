"""
Run `game-operator` with metrics for Prometheus: each worker answers at a separate port.

    METRICS_FOLDER=/run/wallet-metrics python serve_with_prometheus.py serve --telemetry --workers 4 …

Prometheus finds the ports in the files of that folder. docs/how-to/deploy.md has its part.
"""

import atexit
import json
import os
import sys
from pathlib import Path

from opentelemetry import metrics, trace
from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk.metrics import MeterProvider
from prometheus_client import start_http_server

from game_operator.cli import main


def answer_prometheus(folder: Path) -> None:
    """Answer at a free port of this machine, and name it in a file of *folder* as long as this process lives."""
    for left in folder.glob("*.json"):
        if not Path("/proc", left.stem).exists():  # Of a process that was killed.
            left.unlink(missing_ok=True)
    server, _ = start_http_server(0, addr="127.0.0.1")
    target = folder / f"{os.getpid()}.json"
    written = target.with_suffix(".new")
    written.write_text(json.dumps([{"targets": [f"127.0.0.1:{server.server_port}"]}]))
    written.replace(target)  # So that Prometheus never reads half a file.
    atexit.register(target.unlink, missing_ok=True)


answer_prometheus(Path(os.environ["METRICS_FOLDER"]))
metrics.set_meter_provider(MeterProvider([PrometheusMetricReader()]))
trace.set_tracer_provider(trace.NoOpTracerProvider())  # Metrics alone.

if __name__ == "__main__":  # Workers run what is above, and not this.
    sys.exit(main())
