"""
The first cause that a report names for each wallet of the tests, stored in first_causes.toml.

A change of the certifier that names another cause shows here, and has to be an improvement. The tests compare the runs
that they make anyway. ``python -m testkit.tests.certifier.first_causes`` makes these runs and writes the file.
"""

import os
import re
import sys
import tomllib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from game_operator_testkit.certifier import Report

__all__ = ["hold_first_cause", "names_a_mistake"]

_FILE: Final = Path(__file__).with_suffix(".toml")
_HEAD: Final = (
    "# The first cause that a report names for each wallet of the tests: first_causes.py compares and writes it.\n"
    "# Wallets that race may be named in several ways.\n\n"
)
_WRITES: Final = "WRITE_FIRST_CAUSES"
_TESTS: Final = ("wrong_wallets", "sound_wallets")
#: Wallets whose causes this run has written.
_written: Final[set[str]] = set()


def first_cause(report: "Report") -> str:
    """Return what the first cause costs, and its words; if it is not a known mistake, by the scenario that shows it."""
    if not report.causes:
        return "nothing"
    first = report.causes[0]
    return f"{first.verdict.cost}: {first.title if first.mistake else first.verdict.name}"


def names_a_mistake(name: str) -> bool:
    """Return whether a known mistake is stored for *name*, and not the scenario that shows it."""
    return not any(re.search(": [A-H][0-9]{2} ", each) for each in _stored().get(name, ()))


def hold_first_cause(name: str, report: "Report", *, at_any_cost: bool = False) -> None:
    """Hold that the first cause of *report* is one that is stored for *name*; store it if that is asked for."""
    found, stored = first_cause(report), _stored().get(name, [])
    words = {each.partition(": ")[2] for each in stored} if at_any_cost else set()
    if found in stored or found.partition(": ")[2] in words:
        return
    assert os.environ.get(_WRITES), f"{name}: {found!r}, and stored is {_stored().get(name)}"
    _stored()[name] = [*(_stored()[name] if name in _written else ()), found]
    _written.add(name)
    lines = [f"{name} = {_listed(causes)}" for name, causes in sorted(_stored().items())]
    _FILE.write_text(_HEAD + "\n".join(lines) + "\n")


@cache
def _stored() -> dict[str, list[str]]:
    return tomllib.loads(_FILE.read_text()) if _FILE.exists() else {}


def _listed(causes: list[str]) -> str:
    return "[" + ", ".join(f'"{cause}"' for cause in causes) + "]"


if __name__ == "__main__":
    import pytest

    os.environ[_WRITES] = "yes"
    files = [str(_FILE.parent / f"test_{name}.py") for name in _TESTS]
    sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", "-k", "not nowhere_else and not name_it", *files]))
