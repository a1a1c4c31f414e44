"""The pages that say which tests prove the specification, and which scenarios our wallet survives."""

import tomllib
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from tests.support.documents import ROOT


class Statement(NamedTuple):
    """A statement of the specification in our words, its section, and the tests that prove it."""

    section: str
    says: str
    tests: list[str]


class Scenario(NamedTuple):
    """What a wallet must survive, and the tests in which ours does; without any, why."""

    number: str
    happens: str
    tests: list[str]
    without_test: str


_OF_SPECIFICATION: Final = tomllib.loads((ROOT / "tests" / "spec_coverage.toml").read_text())
_OF_SCENARIOS: Final = tomllib.loads((ROOT / "tests" / "scenarios.toml").read_text())
STATEMENTS: Final = [Statement(**each) for each in _OF_SPECIFICATION["statements"]]
SCENARIOS: Final = [
    Scenario(number, each["happens"], each.get("tests", []), each.get("without_test", ""))
    for number, each in _OF_SCENARIOS.items()
]
_SPECIFICATION: Final = """\
# The specification, and the tests that prove it

For maintainers, and readers of the specification. You need: the specification.

Each statement of the specification about the Operator API or webhooks, in our words. Each test cites its section. What
the specification leaves open is in [the decisions](../decisions/index.md).
"""
_SCENARIO_TESTS: Final = """\
# Scenarios and their tests

For maintainers, and certifiers of wallets. You need: nothing.

What a certifier would ask of an operator's wallet, with the tests of ours. Those in `tests/ledger_contract.py` run with
every ledger. A: flows. B: repeats. C: order and state. D: many at a time. E: who calls. F: hostile input. G: money. H:
time and failure.
"""


def coverage_pages() -> dict[str, str]:
    """Return the text of both pages by its name in docs."""
    statements = ((each.section, each.says, _named(each.tests)) for each in STATEMENTS)
    scenarios = ((each.number, each.happens, _named(each.tests) or each.without_test) for each in SCENARIOS)
    return {
        "maintainers/spec-coverage.md": "\n".join([_SPECIFICATION, *_table("Section", "Statement", statements)]),
        "maintainers/scenarios.md": "\n".join([_SCENARIO_TESTS, *_table("Scenario", "What happens", scenarios)]),
    }


def _named(tests: Iterable[str]) -> str:
    return ", ".join(f"`{test}`" for test in tests)


def _table(number: str, what: str, rows: Iterable[tuple[str, str, str]]) -> Iterator[str]:
    yield from (f"| {number} | {what} | Tests |", "|---|---|---|")
    yield from (f"| {' | '.join(row)} |" for row in rows)
    yield ""
