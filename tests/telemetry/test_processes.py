"""Without a Telemetry nothing of OpenTelemetry is loaded; and the Telemetries of a process add up."""

import subprocess
import sys

import pytest

_EVERYTHING = """
import importlib, pkgutil, sys
import game_operator
for module in pkgutil.walk_packages(game_operator.__path__, "game_operator."):
    if module.name not in ("game_operator.telemetry", "game_operator.cli.__main__"):
        importlib.import_module(module.name)
print(sorted(name for name in sys.modules if name.startswith("opentelemetry") or name == "game_operator.telemetry"))
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
