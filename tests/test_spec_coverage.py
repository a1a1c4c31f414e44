"""
Each statement in tests/spec_coverage.toml names tests that exist and cite its section; each scenario names tests, too.

The scenarios of tests/scenarios.toml are those that our own ledger and wallet survive. The certifier's have the same
groups, and a few numbers more or fewer.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache

from tests.support.coverage_pages import SCENARIOS, STATEMENTS, Statement
from tests.support.documents import ROOT

#: The sections that concern the Operator API, and those of webhooks.
SECTIONS = (
    *("§1", "§2.1", "§2.2", "§2.3", "§2.4", "§2.5", "§2.6", "§2.7", "§2.8", "§3", "§4.1", "§4.2", "§5", "§6"),
    *("§7.1", "§7.2", "§7.3", "§8", "§9"),
)
#: How many scenarios each group has.
GROUPS = {"A": 11, "B": 17, "C": 15, "D": 9, "E": 13, "F": 13, "G": 5, "H": 7}


def test_every_section_has_statements() -> None:
    """No section is missing from the map."""
    assert {each.section for each in STATEMENTS} == set(SECTIONS)


def test_statements_stand_once() -> None:
    """A statement that stands twice would hide one that is missing."""
    statements = [(each.section, each.says) for each in STATEMENTS]
    assert len(statements) == len(set(statements))


def test_statements_are_proved() -> None:
    """Each test that a row names exists, and its docstring or its module's cites the section."""
    assert [problem for each in STATEMENTS for problem in _problems(each)] == []


def _problems(statement: Statement) -> Iterator[str]:
    if not statement.tests:
        yield f"{statement.says!r} names no test"
    for file, name in map(_file_and_name, statement.tests):
        docstring = _docstrings(file).get(name)
        if docstring is None:
            yield f"{file} has no test {name}"
        elif not re.search(re.escape(statement.section) + r"(?![.\d])", docstring):
            yield f"{file}::{name} does not cite {statement.section}"


def test_every_scenario_stands_once() -> None:
    """From A01 to H07, in order, and nothing else but E08, which asked for a scheme that nobody has."""
    numbers = [f"{group}{number:02}" for group, count in GROUPS.items() for number in range(1, count + 1)]
    assert [each.number for each in SCENARIOS] == [number for number in numbers if number != "E08"]


def test_scenarios_are_tests() -> None:
    """Each test that is named exists; a scenario without any says why."""
    assert [each for each in SCENARIOS if bool(each.tests) == bool(each.without_test)] == []
    named = [_file_and_name(test) for each in SCENARIOS for test in each.tests]
    assert [(file, name) for file, name in named if name not in _docstrings(file)] == []


def _file_and_name(test: str) -> tuple[str, str]:
    """Return the file of a test, and its name."""
    file, _, name = test.partition("::")
    return file, name


@cache
def _docstrings(file: str) -> dict[str, str]:
    """Return each test function of *file* with its docstring and its module's."""
    module = ast.parse((ROOT / file).read_text())
    above = ast.get_docstring(module) or ""
    functions = [node for node in ast.walk(module) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    tests = [node for node in functions if node.name.startswith("test_")]
    return {node.name: f"{ast.get_docstring(node) or ''} {above}" for node in tests}
