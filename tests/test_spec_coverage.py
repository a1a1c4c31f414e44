"""Each statement in docs/maintainers/spec-coverage.md names tests that exist and cite its section."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.support.documents import ROOT

_ROW = re.compile(r"^\| (§[0-9.]+) \| (.+?) \| (.+?) \|$", re.MULTILINE)
_TEST = re.compile(r"`((?:testkit/)?tests/[\w/]+\.py)::(\w+)`")

#: The sections that concern the Operator API, and those of webhooks.
SECTIONS = (
    *("§1", "§2.1", "§2.2", "§2.3", "§2.4", "§2.5", "§2.6", "§2.7", "§2.8", "§3", "§4.1", "§4.2", "§5", "§6"),
    *("§7.1", "§7.2", "§7.3", "§8", "§9"),
)

ROWS = [tuple(match) for match in _ROW.findall((ROOT / "docs" / "maintainers" / "spec-coverage.md").read_text())]


def test_every_section_has_statements() -> None:
    """No section is missing from the map."""
    assert {section for section, _, _ in ROWS} == set(SECTIONS)


def test_statements_stand_once() -> None:
    """A statement that stands twice would hide one that is missing."""
    statements = [(section, statement) for section, statement, _ in ROWS]
    assert len(statements) == len(set(statements))


def test_statements_are_proved() -> None:
    """Each test that a row names exists, and its docstring or its module's cites the section."""
    assert [problem for row in ROWS for problem in _problems(*row)] == []


def _problems(section: str, statement: str, tests: str) -> Iterator[str]:
    named = _TEST.findall(tests)
    if not named:
        yield f"{statement!r} names no test"
    for file, name in named:
        docstring = _docstrings(ROOT / file).get(name)
        if docstring is None:
            yield f"{file} has no test {name}"
        elif not re.search(re.escape(section) + r"(?![.\d])", docstring):
            yield f"{file}::{name} does not cite {section}"


def test_what_a_row_lacks_is_found() -> None:
    """The check above sees a row without a test, a test that is not there, and one that cites another section."""
    this = "`tests/test_spec_coverage.py::test_every_section_has_statements`"
    found = [*_problems("§1", "nothing", "none"), *_problems("§1", "gone", this.replace("every", "no"))]
    assert found[0] == "'nothing' names no test"
    assert found[1].endswith("has no test test_no_section_has_statements")
    assert [problem.rpartition(" ")[2] for problem in _problems("§99", "elsewhere", this)] == ["§99"]


@cache
def _docstrings(file: Path) -> dict[str, str]:
    """Return each test function of *file* with its docstring and its module's."""
    module = ast.parse(file.read_text())
    above = ast.get_docstring(module) or ""
    functions = [node for node in ast.walk(module) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    tests = [node for node in functions if node.name.startswith("test_")]
    return {node.name: f"{ast.get_docstring(node) or ''} {above}" for node in tests}
