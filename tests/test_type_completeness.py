"""A type checker knows the type of everything in the package as users install it."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.documents import ROOT

pytestmark = [pytest.mark.artefact, pytest.mark.outside, pytest.mark.timeout(600)]

#: It takes ten seconds, and many times that beside other work.
_PATIENCE = 280


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the package, installed from its wheel and not from the source tree."""
    place = tmp_path_factory.mktemp("installed")
    wheels = place / "wheels"
    _run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(wheels))
    (wheel,) = wheels.glob("*.whl")
    options = ("--quiet", "--no-index", "--no-deps", "--no-compile", "--disable-pip-version-check")
    _run(sys.executable, "-m", "pip", "install", *options, "--target", str(place / "site"), str(wheel))
    return place / "site"


def _run(*command: str) -> None:
    subprocess.run(command, cwd=ROOT, check=True, timeout=_PATIENCE)


def _coverage(site: Path, what: str) -> subprocess.CompletedProcess[str]:
    """Return what pyrefly says of *what* in *site*: exit code 1 and the names if a type is missing."""
    pyrefly = str(Path(sys.executable).with_name("pyrefly"))
    where = ("--search-path", str(site), "--python-interpreter-path", sys.executable)
    command = (pyrefly, "coverage", "check", "--fail-under", "100", *where, "--output-format", "min-text")
    (site / "pyrefly.toml").touch()  # Else it looks for settings in the folders above.
    return subprocess.run((*command, what), cwd=site, capture_output=True, text=True, timeout=_PATIENCE, check=False)


def test_every_name_has_a_type(installed: Path) -> None:
    """All of the package, and not only what is public: 100 percent, in the wheel that users install."""
    assert (installed / "game_operator" / "py.typed").exists()
    checked = _coverage(installed, "game_operator")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "100.00%" in checked.stdout + checked.stderr
