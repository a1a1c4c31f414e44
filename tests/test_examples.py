"""Every file in examples/ is a whole program that runs offline and prints what its last comment says."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.outside

_FOLDER = Path(__file__).parent.parent / "examples"
_EXAMPLES = sorted(_FOLDER.glob("*.py"))
_HEADING = "\n# Prints:\n"


def _run(example: Path) -> "subprocess.CompletedProcess[str]":
    # No settings, no proxies: an example needs nothing but itself.
    environ = {"PATH": os.environ["PATH"], "HOME": "/nonexistent"}
    command = [sys.executable, "-W", "error", str(example)]
    return subprocess.run(command, capture_output=True, text=True, env=environ, timeout=50, cwd=_FOLDER)


def _promised(example: Path) -> str:
    _, heading, block = example.read_text().partition(_HEADING)
    assert heading, f"{example.name} does not say what it prints"
    lines = block.splitlines()
    assert all(line.startswith("#") for line in lines), f"{example.name} goes on after its '# Prints:' block"
    return "".join(f"{line.removeprefix('#').removeprefix(' ')}\n" for line in lines)


# In processes of their own, so that xdist runs them side by side.
@pytest.mark.parametrize("example", [pytest.param(example, id=example.stem) for example in _EXAMPLES])
def test_an_example_prints_what_it_says(example: Path) -> None:
    """It ends well, prints exactly its '# Prints:' block, and warns of nothing."""
    promised = _promised(example)
    ran = _run(example)
    assert ran.stderr == ""
    assert (ran.returncode, ran.stdout) == (0, promised)
    assert promised, f"{example.name} prints nothing"


def test_there_is_an_example_for_each_idea() -> None:
    """The table above is not empty by accident, and nobody puts an example where it is not run."""
    assert len(_EXAMPLES) >= 9
    assert {path.suffix for path in _FOLDER.iterdir() if path.name != "__pycache__"} == {".py"}


@pytest.mark.parametrize("forbidden", ["GAME_OPERATOR_BASE_URL=", "BEGIN PRIVATE KEY", "YOUR_"])
def test_no_example_has_anything_to_fill_in(forbidden: str) -> None:
    """No keys and no hosts to fill in."""
    assert not [example.name for example in _EXAMPLES if forbidden in example.read_text()]
