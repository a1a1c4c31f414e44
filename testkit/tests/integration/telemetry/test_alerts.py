"""The dashboard and the alert rules use names that exist, as Prometheus has them; each alert leads to its page."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from testkit.tests.support.observed_run import ObservedRun
from tests.support.documents import ROOT

_FOLDER = ROOT / "examples" / "telemetry"
_DASHBOARD: Any = json.loads((_FOLDER / "dashboard.json").read_text())
_RULES: Any = yaml.safe_load((_FOLDER / "alerts.yml").read_text())
_ALERTS: list[dict[str, Any]] = [rule for group in _RULES["groups"] for rule in group["rules"]]
_WORDS = {
    *("and", "by", "histogram_quantile", "hour", "increase", "max", "offset", "on", "or", "rate", "sum", "unless"),
    "vector",
}
_SELECTOR = re.compile(r"(\w+)\{([^}]*)\}")
_MATCHER = re.compile(r'(\w+)(=~|!=|!~|=)"([^"]*)"')
_BY = re.compile(r"\bby \(([^)]*)\)")


class _Query(NamedTuple):
    """A query, and the text beside it that may name its labels."""

    expression: str
    texts: str

    @property
    def metrics(self) -> set[str]:
        """The metrics it names: all that is left without labels, durations and the words of the language."""
        bare = re.sub(r"\[[^]]*\]|\{[^}]*\}|offset \w+", "", _BY.sub("", self.expression))
        return set(re.findall(r"[a-z]\w*", bare)) - _WORDS

    @property
    def grouped_by(self) -> set[str]:
        return {label for labels in _BY.findall(self.expression) for label in re.split(r",\s*", labels)}


def _each_query() -> Iterator[Any]:
    for panel in _DASHBOARD["panels"]:
        for target in panel["targets"]:
            yield pytest.param(_Query(target["expr"], target["legendFormat"]), id=f"{panel['title']} {target['refId']}")
    for rule in _ALERTS:
        yield pytest.param(_Query(rule["expr"], " ".join(rule["annotations"].values())), id=rule["alert"])


_QUERIES = list(_each_query())


@pytest.mark.parametrize("query", _QUERIES)
def test_a_query_names_what_is_there(run: ObservedRun, query: _Query) -> None:
    """Metrics as the exporter for Prometheus names them, and labels that all of them have."""
    assert query.metrics
    assert query.metrics - set(run.samples) == set()
    assert [metric for metric in query.metrics if query.grouped_by - run.samples[metric]] == []
    for metric, matchers in _SELECTOR.findall(query.expression):
        labels = {label for label, _, _ in _MATCHER.findall(matchers)}
        assert labels, matchers
        assert labels <= run.samples[metric], metric


@pytest.mark.parametrize("rule", _ALERTS, ids=lambda rule: str(rule["alert"]))
def test_an_alert_says_what_to_do(rule: dict[str, Any]) -> None:
    """What happened, what that means, how urgent it is, and where the steps are."""
    assert rule["labels"]["severity"] in ("page", "ticket")
    notes = rule["annotations"]
    assert set(notes) == {"summary", "description", "runbook"}
    assert all(notes.values())
    page, _, anchor = notes["runbook"].partition("#")
    assert anchor in _anchors(ROOT / page)


def _anchors(page: Path) -> list[str]:
    headings = re.findall(r"^### (Alert: .+)$", page.read_text(), re.MULTILINE)
    return [heading.lower().replace(":", "").replace(" ", "-") for heading in headings]


def test_each_heading_of_an_alert_has_its_alert() -> None:
    """In the order of the file."""
    led_to = [rule["annotations"]["runbook"].partition("#")[2] for rule in _ALERTS]
    assert led_to == _anchors(ROOT / "docs" / "how-to" / "runbook.md")


@pytest.mark.torture
def test_alerts_fire_when_they_should() -> None:
    """As Prometheus evaluates the rules over made-up histories."""
    assert shutil.which("promtool"), "promtool is not installed: tools/install-languages.sh installs it"
    command = ["promtool", "test", "rules", "alerts_test.yml"]
    done = subprocess.run(command, cwd=_FOLDER, capture_output=True, text=True, check=False, timeout=50)
    assert done.returncode == 0, done.stdout + done.stderr
