"""The list of faults that ``tools/planted_faults.py`` plants (tests/support/generated_pages.py) is one of this code."""

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
TOOL = runpy.run_path(str(ROOT / "tools" / "planted_faults.py"))
MODULES = TOOL["listed"]()


@pytest.mark.parametrize("name", MODULES)
def test_every_fault_can_be_planted(name: str) -> None:
    """What is replaced stands in its file once, and the tests that are to notice are there."""
    module = MODULES[name]
    files = TOOL["files_of"](ROOT / "src" / "game_operator" / module.file)
    text = "".join(file.read_text() for file in files)
    befores = {fault.before for fault in module.faults}
    assert {before: text.count(before) for before in befores} == dict.fromkeys(befores, 1)
    assert len({(fault.before, fault.after) for fault in module.faults}) == len(module.faults)
    assert all((ROOT / file).exists() for file in module.tests if "/" in file)


def test_who_caught_a_fault_is_still_there() -> None:
    """A test that is renamed or removed leaves no fault to nobody: run the tool with ``--record``."""
    tests = "".join(file.read_text() for place in ("tests", "testkit/tests") for file in (ROOT / place).rglob("*.py"))
    there = set(re.findall(r"def (test_\w+)\(", tests))
    caught_by = {fault.caught_by for module in MODULES.values() for fault in module.faults} - {""}
    assert [test for test in sorted(caught_by) if test.partition("[")[0].rpartition("::")[2] not in there] == []


def test_the_list_is_written_as_it_is_read() -> None:
    """``--record`` changes nothing but who caught a fault."""
    assert TOOL["written"](MODULES) == TOOL["LIST"].read_text()
