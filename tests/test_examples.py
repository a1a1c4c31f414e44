"""Every file in examples/ is a whole program that runs offline and prints what its last comment says."""

import logging
import os
import runpy
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.outside

_FOLDER = Path(__file__).parent.parent / "examples"
_EXAMPLES = sorted(_FOLDER.glob("*.py"))
#: Those that configure Django, which is done once in a process, and one of the others.
_CONFIGURES_DJANGO = [example for example in _EXAMPLES if "settings.configure(" in example.read_text()]
_IN_A_PROCESS = [_FOLDER / "first_call.py", *_CONFIGURES_DJANGO]
_HEADING = "\n# Prints:\n"


def _of_these(examples: list[Path], *smoke: str) -> list[Any]:
    """Return the *examples*; all but *smoke* are for `make test-artefacts`."""
    return [
        pytest.param(each, id=each.stem, marks=() if each.stem in smoke else pytest.mark.artefact) for each in examples
    ]


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


@contextmanager
def _unconfigured_logging() -> Iterator[None]:
    """Logging as a program finds it: configuring it has no effect where there are handlers, such as those of pytest."""
    before = logging.root.handlers, logging.root.level
    logging.root.handlers = []
    logging.root.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logging.root.handlers = before[0]
        logging.root.setLevel(before[1])


@pytest.mark.parametrize(
    "example",
    _of_these([each for each in _EXAMPLES if each not in _CONFIGURES_DJANGO], "play_rounds", "webhooks_fastapi"),
)
def test_an_example_prints_what_it_says(
    example: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It prints exactly its '# Prints:' block, and warns of nothing: pytest turns a warning into an error."""
    promised = _promised(example)
    assert promised, f"{example.name} prints nothing"
    for name in list(os.environ):
        if name.startswith("GAME_OPERATOR_") or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", "/nonexistent")
    monkeypatch.chdir(_FOLDER)
    monkeypatch.setattr(sys, "argv", [str(example)])
    with _unconfigured_logging():
        runpy.run_path(str(example), run_name="__main__")
    printed, told = capsys.readouterr()
    # How long an answer takes depends on what else this machine does.
    noted = [line for line in told.splitlines() if not line.endswith("; the service may give up before that")]
    assert (printed, noted) == (promised, [])


@pytest.mark.parametrize("example", _of_these(_IN_A_PROCESS, "first_call"))
def test_an_example_ends_well(example: Path) -> None:
    """In a process of its own, as a user starts it."""
    ran = _run(example)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, _promised(example), "")


def test_there_is_an_example_for_each_idea() -> None:
    """The table above is not empty by accident, and nobody puts an example where it is not run."""
    assert len(_EXAMPLES) >= 9
    assert {path.suffix for path in _FOLDER.iterdir() if path.is_file()} == {".py"}
    # The tests of the testkit run those in other languages (certifier/test_other_languages.py) and the workflow in ci/
    # (certifier/test_ci_example.py), and check the dashboard and the alerts (integration/telemetry/test_alerts.py).
    assert {path.name for path in _FOLDER.iterdir() if path.is_dir()} <= {"ci", "telemetry", "wallets", "__pycache__"}
    assert [path.name for path in (_FOLDER / "ci").iterdir()] == ["certify.yml"]


@pytest.mark.parametrize("forbidden", ["GAME_OPERATOR_BASE_URL=", "BEGIN PRIVATE KEY", "YOUR_"])
def test_no_example_has_anything_to_fill_in(forbidden: str) -> None:
    """No keys and no hosts to fill in."""
    assert not [example.name for example in _EXAMPLES if forbidden in example.read_text()]
