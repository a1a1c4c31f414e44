"""The list of faults that ``tools/planted_faults.py`` plants (docs/maintainers/mutation.md) is one of this code."""

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
TOOL = runpy.run_path(str(ROOT / "tools" / "planted_faults.py"))
MODULES = TOOL["MODULES"]


@pytest.mark.parametrize("name", MODULES)
def test_every_fault_can_be_planted(name: str) -> None:
    """What is replaced stands in its file once, and the tests that are to notice are there."""
    module = MODULES[name]
    files = TOOL["files_of"](ROOT / "src" / "game_operator" / module.file)
    text = "".join(file.read_text() for file in files)
    assert {before: text.count(before) for before, _ in module.faults} == {before: 1 for before, _ in module.faults}
    assert all((ROOT / file).exists() for file in module.tests if file.startswith("tests/"))
