"""Without a Telemetry nothing of OpenTelemetry is loaded; and the Telemetries of a process add up."""

import os
import subprocess
import sys

import pytest

_EVERYTHING = """
import importlib, sys
from pathlib import Path
import game_operator
root = Path(game_operator.__path__[0])
for file in sorted(root.rglob("*.py")):
    parts = file.relative_to(root.parent).with_suffix("").parts
    if parts[1] != "telemetry" and parts[-1] != "__main__":
        importlib.import_module(".".join(parts).removesuffix(".__init__"))
print(sorted(name for name in sys.modules if name.startswith(("opentelemetry", "game_operator.telemetry"))))
"""
_MISSING = """
import sys
sys.modules["opentelemetry"] = None
import game_operator.telemetry
"""


def _run(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)


@pytest.mark.outside
def test_no_module_loads_it() -> None:
    """Not one of all our modules, but the one that is asked for by name."""
    done = _run(_EVERYTHING)
    assert done.stdout == "[]\n", done.stderr


@pytest.mark.outside
def test_the_extra_is_named_where_it_is_missing() -> None:
    """By the command that installs it."""
    last = _run(_MISSING).stderr.splitlines()[-1]
    assert last.startswith("ImportError: game_operator.telemetry needs opentelemetry-api.")
    assert "pip install 'game-operator[otel]'" in last


_TWO = """
from opentelemetry import metrics
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from game_operator.telemetry import Telemetry
early, reader = Telemetry(), InMemoryMetricReader()
provider = MeterProvider([reader], shutdown_on_exit=False)
metrics.set_meter_provider(provider)
for telemetry in (early, Telemetry(), Telemetry(meter_provider=provider)):
    telemetry.instruments.wagered.add(1, "EUR", "BET")
(metric,) = reader.get_metrics_data().resource_metrics[0].scope_metrics[0].metrics
print([point.value for point in metric.data.data_points])
"""


@pytest.mark.outside
def test_all_of_a_process_add_up_wherever_they_were_made() -> None:
    """Before the SDK was set up, after it, and with its provider by name: no sum is lost."""
    done = _run(_TWO)
    assert done.stdout == "[3]\n", done.stderr


_FORKED = """
import os
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from game_operator.telemetry import Telemetry
reader = InMemoryMetricReader()
telemetry = Telemetry(meter_provider=MeterProvider([reader], shutdown_on_exit=False))
wagered = telemetry.instruments.wagered
wagered.add(500, "EUR", "BET")
wagered._lock.acquire()  # as if another thread were adding
if os.fork() == 0:
    wagered.add(1, "EUR", "BET")
    (metric,) = [
        each
        for each in reader.get_metrics_data().resource_metrics[0].scope_metrics[0].metrics
        if each.name == "game_operator.wagered"
    ]
    print([point.value for point in metric.data.data_points], flush=True)
    os._exit(0)
os.wait()
"""


@pytest.mark.outside
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform has no fork")
def test_a_child_counts_from_nothing() -> None:
    """What the parent counted is the parent's, and a lock that another thread held there holds up nobody."""
    done = _run(_FORKED)
    assert done.stdout == "[1]\n", done.stderr
