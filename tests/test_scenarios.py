"""
Holds tests/scenarios.toml true: each scenario stands there once, and each test that it names exists.

These are scenarios that our own ledger and wallet survive. The certifier's have the same groups, and a few numbers more
or fewer.
"""

from tests.support.coverage_pages import SCENARIOS
from tests.test_spec_coverage import docstrings, file_and_name

#: How many scenarios each group has.
GROUPS = {"A": 11, "B": 17, "C": 15, "D": 9, "E": 13, "F": 13, "G": 5, "H": 7}


def test_every_scenario_stands_once() -> None:
    """From A01 to H07, in order, and nothing else but E08, which asked for a scheme that nobody has."""
    numbers = [f"{group}{number:02}" for group, count in GROUPS.items() for number in range(1, count + 1)]
    assert [each.number for each in SCENARIOS] == [number for number in numbers if number != "E08"]


def test_scenarios_are_tests() -> None:
    """Each test that is named exists; a scenario without any says why."""
    assert [each for each in SCENARIOS if bool(each.tests) == bool(each.without_test)] == []
    named = [file_and_name(test) for each in SCENARIOS for test in each.tests]
    assert [(file, name) for file, name in named if name not in docstrings(file)] == []
