"""
Holds docs/maintainers/scenarios.md true: each scenario stands there once, and each test that it names exists.

These are scenarios that our own ledger and wallet survive. The certifier's have the same groups, and a few numbers more
or fewer.
"""

import ast
import re
from functools import cache
from pathlib import Path

from tests.support.documents import ROOT

_ROW = re.compile(r"^\| ([A-H]\d\d) \| (.+?) \| (.+?) \|$", re.MULTILINE)
_TEST = re.compile(r"`((?:testkit/)?tests/[\w/]+\.py)::(\w+)`")
#: How many scenarios each group has.
GROUPS = {"A": 11, "B": 17, "C": 15, "D": 9, "E": 13, "F": 13, "G": 5, "H": 7}

TEXT = (ROOT / "docs" / "maintainers" / "scenarios.md").read_text()
ROWS = [tuple(match) for match in _ROW.findall(TEXT)]


def test_every_scenario_stands_once() -> None:
    """From A01 to H07, in order, and nothing else but E08, which asked for a scheme that nobody has."""
    numbers = [f"{group}{number:02}" for group, count in GROUPS.items() for number in range(1, count + 1)]
    expected = [number for number in numbers if number != "E08"]
    assert [scenario for scenario, _, _ in ROWS] == expected
    assert len(re.findall(r"^\| [A-Z]\d\d", TEXT, re.MULTILINE)) == len(expected)


def test_scenarios_are_tests() -> None:
    """Each test that is named exists; a scenario without any says why."""
    named = {scenario: _TEST.findall(tests) for scenario, _, tests in ROWS}
    assert [row for row in ROWS if not named[row[0]] and not row[2].startswith("No test: ")] == []
    absent = [each for tests in named.values() for each in tests if each[1] not in _tests_in(ROOT / each[0])]
    assert absent == []


@cache
def _tests_in(file: Path) -> set[str]:
    nodes = ast.walk(ast.parse(file.read_text()))
    return {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
