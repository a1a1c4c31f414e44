"""docs/reference/metrics.md says what is made: each metric, attribute, bucket, span and log event."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from game_operator.backoffice.reconcile.judge import Verdict
from game_operator.codes import WebhookErrorCode
from game_operator.ledger.staff.anomalies import anomaly_texts
from game_operator.protocol.webhook import OPERATIONS
from testkit.tests.support.observed_run import ObservedRun
from tests.support.documents import ROOT
from tests.support.sources import sources

_PAGE = ROOT / "docs" / "reference" / "metrics.md"


@cache
def rows(heading: str, after: str = "") -> list[list[str]]:
    """Return the cells of the first table below *heading*, or below the text *after* in its section."""
    _, _, section = _PAGE.read_text().partition(f"\n## {heading}\n")
    assert section, f"the page has no heading {heading}"
    lines = section.partition(after)[2].splitlines() if after else section.splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith("|"))
    table = lines[first : lines.index("", first)]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table[2:]]


def codes(cell: str) -> list[str]:
    """Return what a cell has between backticks."""
    return re.findall(r"`([^`]+)`", cell)


def values_of(attribute: str) -> set[str]:
    """Return the values that the page lists for an attribute."""
    (cell,) = [values for names, values in rows("Attributes") if attribute in codes(names)]
    return set(codes(cell))


_SOURCES = [*sources().values()]
_OF_RECORD_IDS = "With `record_ids`"


# --- metrics


def test_each_metric_is_on_the_page(run: ObservedRun) -> None:
    """And nothing else is: with its kind and its unit."""
    said = {(codes(name)[0], kind.partition(",")[0], codes(kind)[0]) for name, kind, *_ in rows("Metrics")}
    assert said == {(name, made.kind, made.unit) for name, made in run.metrics.items()}


def test_each_metric_has_the_attributes_of_the_page(run: ObservedRun) -> None:
    """All of them were made, and no others."""
    said = {codes(name)[0]: set(codes(attributes)) for name, _, attributes, _ in rows("Metrics")}
    assert said == {name: set(made.attributes) for name, made in run.metrics.items()}


def test_buckets_are_those_of_the_page(run: ObservedRun) -> None:
    """Of each histogram."""
    said = {
        name: tuple(float(bound) for bound in bounds.split(","))
        for names, bounds in rows("Buckets")
        for name in codes(names)
    }
    assert said == {name: made.bounds for name, made in run.metrics.items() if made.kind == "histogram"}


@pytest.mark.parametrize(
    ("attribute", "values"),
    [
        pytest.param("game_operator.operation", set(OPERATIONS.values()), id="operations"),
        pytest.param("game_operator.code", set(WebhookErrorCode), id="codes"),
        pytest.param("game_operator.anomaly", set(anomaly_texts()), id="anomalies"),
        pytest.param("game_operator.finding", {each for each in Verdict if each.is_finding}, id="findings"),
    ],
)
def test_the_page_lists_all_values(attribute: str, values: set[str]) -> None:
    """Of attributes with a list in the code; operations are also those of the client, and of batches."""
    extra = values_of(attribute) - {str(each) for each in values}
    assert {str(each) for each in values} <= values_of(attribute)
    of_clients = {"fetch-games", "fetch-bet", "fetch-round-bets", "free-bet/grant", "deposit-batch"}
    assert extra == (of_clients if attribute == "game_operator.operation" else set())


# --- spans


def _said_spans() -> dict[str, tuple[str, set[str]]]:
    return {
        name: (kind, set(codes(attributes))) for names, kind, _, attributes in rows("Spans") for name in codes(names)
    }


def test_each_span_is_on_the_page(run: ObservedRun) -> None:
    """With its kind; the run makes one in each row."""
    made = {(span.name, span.kind.name) for span in run.spans}
    said = _said_spans()
    assert made <= {(name, kind) for name, (kind, _) in said.items()}
    of_rows = [set(codes(names)) for names, *_ in rows("Spans")]
    assert [row for row in of_rows if not row & {name for name, _ in made}] == []


def test_spans_have_the_attributes_of_the_page(run: ObservedRun) -> None:
    """No span has an attribute that the page does not name, and each attribute of the page is described."""
    said, of_ids = _said_spans(), {code for row in rows("Spans", _OF_RECORD_IDS) for code in codes(row[1])}
    for span in run.spans:
        assert set(span.attributes or ()) - of_ids <= said[span.name][1], span.name
    made = {attribute for span in run.spans for attribute in span.attributes or ()}
    assert of_ids <= made
    described = {code for names, _ in rows("Attributes") for code in codes(names)}
    in_tables = {each for _, attributes in said.values() for each in attributes}
    assert described == in_tables | {each for row in rows("Metrics") for each in codes(row[2])}


# --- logs


def _events() -> Iterator[tuple[str, Path, set[str]]]:
    """Yield each event in the source, where it is, and the fields that are written beside it."""
    for path in _SOURCES:
        text = path.read_text()
        if '"event"' not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Dict):
                pairs = zip(node.keys, node.values, strict=True)
                fields = {key.value: value for key, value in pairs if isinstance(key, ast.Constant)}
                if "event" in fields:
                    yield _text_of(fields["event"]), path, {str(name) for name in fields if name != "event"}
            elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "extra['event']":
                yield _text_of(node.value), path, set()


def _text_of(node: ast.expr) -> str:
    assert isinstance(node, ast.Constant), "an event's name is written as it is, so that it can be found"
    return str(node.value)


def test_each_log_event_is_on_the_page() -> None:
    """By its stable name; a new one is added there, an old one never disappears silently."""
    said = [codes(row[0])[0] for row in rows("Log events")]
    assert len(said) == len(set(said))
    assert set(said) == {name for name, _, _ in _events()}


def test_log_events_have_the_logger_and_the_fields_of_the_page() -> None:
    """The logger is one of the file that logs; all fields are in that file, and those beside the name on the page."""
    said = {codes(name)[0]: (codes(logger)[0], codes(fields)) for name, logger, _, fields, _ in rows("Log events")}
    for name, path, beside in _events():
        logger, fields = said[name]
        text = path.read_text()
        assert f'getLogger("{logger}")' in text, name
        assert beside <= set(fields), name
        assert [field for field in fields if f'"{field}"' not in text] == [], name
