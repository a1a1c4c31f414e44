"""`game-operator serve --telemetry`: spans and metrics go to the SDK that the process was started with."""

import json
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from game_operator import WithdrawCall
from game_operator.cli.keys import KeyFiles
from game_operator_testkit.provider.caller import WebhookCaller
from tests.support.command_line import COMMAND, Run, clean_environment, stopped

#: What `opentelemetry-instrument` does: Python runs it before the command, in each process.
_SDK = """
import os, sys
from pathlib import Path
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import ConsoleMetricExporter, PeriodicExportingMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor

def line(item):
    return item.to_json(indent=None) + "\\n"

out = open(Path(__file__).parent / f"{os.getpid()}.jsonl", "a")
tracers = TracerProvider()
tracers.add_span_processor(SimpleSpanProcessor(ConsoleSpanExporter(out=out, formatter=line)))
trace.set_tracer_provider(tracers)
reader = PeriodicExportingMetricReader(ConsoleMetricExporter(out=out, formatter=line), 3_600_000)
metrics.set_meter_provider(MeterProvider([reader]))
"""


def _reported(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for file in folder.glob("*.jsonl") for line in file.read_text().splitlines()]


@pytest.mark.outside
def test_spans_and_metrics_go_to_the_sdk_of_the_process(tmp_path: Path, database: str, keys: KeyFiles) -> None:
    """Webhooks with their commits, and http.server.* by route, which frameworks would measure themselves."""
    (tmp_path / "sitecustomize.py").write_text(_SDK)
    where = ("--port", "0", "--json", "--database", database, "--service-key", str(keys.public))
    with subprocess.Popen(
        [*COMMAND, "serve", *where, "--telemetry"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=clean_environment({"PYTHONPATH": str(tmp_path)}),
    ) as process:
        assert process.stdout is not None
        with WebhookCaller(json.loads(process.stdout.readline())["url"], keys.private) as caller:
            caller.send(WithdrawCall(player_id="p1", bet_id="b1", amount_cents=100))
        assert stopped(process, signal.SIGTERM).code == 0
    reported = _reported(tmp_path)
    spans = {each["name"]: each for each in reported if "name" in each}
    assert spans["ledger commit"]["parent_id"] == spans["webhook withdraw"]["context"]["span_id"]
    metrics = [
        metric
        for each in reported
        for resource in each.get("resource_metrics", ())
        for scope in resource["scope_metrics"]
        for metric in scope["metrics"]
    ]
    (requests,) = [each for each in metrics if each["name"] == "http.server.request.duration"]
    (point,) = requests["data"]["data_points"]
    assert (point["attributes"]["http.route"], point["count"]) == ("/withdraw", 1)


@pytest.mark.outside
def test_telemetry_without_an_sdk_is_refused(run: Run, database: str, keys: KeyFiles) -> None:
    """It would go nowhere: the command says how to start it."""
    told = run("serve", "--database", database, "--service-key", keys.public, "--telemetry", "--port", "0")
    assert told.code == 2
    assert "opentelemetry-instrument game-operator serve" in " ".join(told.err.split())
