"""The wheel and the sdist: what is in them, what is not, and that both come out the same anywhere."""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from email.parser import HeaderParser
from pathlib import Path
from typing import NamedTuple

import pytest

from game_operator import __version__
from tests.support.documents import ROOT

pytestmark = pytest.mark.outside

_NAME = f"game_operator-{__version__}"


class Built(NamedTuple):
    """Both files of a release."""

    sdist: Path
    wheel: Path


def _build(source: Path, out: Path, *targets: str, **differently: object) -> None:
    """Build with the locked hatchling, which needs no network."""
    command = [sys.executable, "-m", "hatchling", "build", *targets, "--directory", str(out)]
    environment = os.environ | {"SOURCE_DATE_EPOCH": "1700000000"}
    subprocess.run(command, cwd=source, env=environment, check=True, capture_output=True, timeout=50, **differently)  # type: ignore[call-overload]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """The files of this folder as it is now."""
    out = tmp_path_factory.mktemp("dist")
    _build(ROOT, out)
    return Built(out / f"{_NAME}.tar.gz", out / f"{_NAME}-py3-none-any.whl")


def _package_files() -> set[str]:
    """Return the files of the package that git knows, or would take."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--deduplicate", "src/game_operator"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    return {name.removeprefix("src/") for name in listed if (ROOT / name).exists()}


def _texts(built: Built) -> dict[str, bytes]:
    """Return all members of both files."""
    with zipfile.ZipFile(built.wheel) as wheel:
        found = {f"wheel:{name}": wheel.read(name) for name in wheel.namelist()}
    with tarfile.open(built.sdist) as sdist:
        files = [(member.name, sdist.extractfile(member)) for member in sdist.getmembers()]
        return found | {f"sdist:{name}": file.read() for name, file in files if file is not None}


def test_the_wheel_has_the_package_and_nothing_else(built: Built) -> None:
    """Every file of the package, templates, SQL and pictures too, and the marker that it has types."""
    with zipfile.ZipFile(built.wheel) as wheel:
        names = set(wheel.namelist())
    about = {f"{_NAME}.dist-info/{each}" for each in ("METADATA", "RECORD", "WHEEL", "entry_points.txt")}
    assert names == _package_files() | about | {f"{_NAME}.dist-info/licenses/LICENSE"}
    assert "game_operator/py.typed" in names
    assert {".html", ".svg", ".toml", ".sql", ".css", ".js", ".json"} <= {Path(name).suffix for name in names}


@pytest.mark.artefact
def test_the_sdist_has_what_the_wheel_is_built_from(built: Built) -> None:
    """No tests, whose keys are for tests alone; no file that lies about in a folder of work."""
    with tarfile.open(built.sdist) as sdist:
        names = {member.name.removeprefix(f"{_NAME}/") for member in sdist.getmembers() if member.isfile()}
        modes = {member.mode for member in sdist.getmembers() if member.isfile()}
        owners = {(member.uid, member.gid, member.uname, member.gname) for member in sdist.getmembers()}
    beside = {".gitignore", "CHANGELOG.md", "LICENSE", "PKG-INFO", "README.md", "SECURITY.md", "pyproject.toml"}
    assert names == {f"src/{name}" for name in _package_files()} | beside
    assert modes == {0o644}
    assert owners == {(0, 0, "", "")}


@pytest.mark.artefact
def test_no_key_and_no_folder_of_ours_is_in_them(built: Built) -> None:
    """A private key begins with a line that only the code that looks for it has, and never a whole one."""
    found = _texts(built)
    assert len(found) > 900
    key = re.compile(rb"-----BEGIN [A-Z ]*PRIVATE KEY-----\s+[A-Za-z0-9+/]{40}")
    assert key.search((ROOT / "tests" / "vectors" / "TEST-ONLY-private-key.pem").read_bytes())
    assert [name for name, text in found.items() if key.search(text)] == []
    assert [name for name, text in found.items() if os.fsencode(ROOT) in text] == []


@pytest.mark.artefact
def test_the_same_wheel_comes_out_of_the_sdist(built: Built, tmp_path: Path) -> None:
    """In another folder, with another umask and time zone: the build can be repeated, and the sdist is complete."""
    with tarfile.open(built.sdist) as sdist:
        sdist.extractall(tmp_path, filter="data")
    _build(tmp_path / _NAME, tmp_path, "--target", "wheel", umask=0o077)
    again = tmp_path / built.wheel.name
    assert hashlib.sha256(again.read_bytes()).digest() == hashlib.sha256(built.wheel.read_bytes()).digest()


@pytest.mark.artefact
def test_what_an_index_shows(built: Built) -> None:
    """Version, licence, commands, the plugin of pytest, and no address that does not exist."""
    found = _texts(built)
    about = HeaderParser().parsestr(found[f"wheel:{_NAME}.dist-info/METADATA"].decode())
    assert (about["Name"], about["Version"], about["License-Expression"]) == ("game-operator", __version__, "MIT")
    assert about["Requires-Python"] == ">=3.11"
    assert "Typing :: Typed" in about.get_all("Classifier", [])
    assert about.get_all("Project-URL") is None
    entries = found[f"wheel:{_NAME}.dist-info/entry_points.txt"].decode()
    assert "game-operator = game_operator.cli:main" in entries
    assert "game_operator = game_operator.testing.plugin" in entries


@pytest.mark.artefact
@pytest.mark.torture
@pytest.mark.timeout(1800)
def test_make_dist_in_a_fresh_clone(tmp_path: Path) -> None:
    """Built twice and compared, each file installed into a fresh venv, the demo run, the SBOM written."""
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
    done = subprocess.run(
        ["make", "dist", f"PYTHON={sys.executable}"], cwd=clone, capture_output=True, text=True, timeout=1750
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for file in sorted((clone / "dist").iterdir()):
        assert f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}" in done.stdout
    assert (clone / "sbom" / "game-operator.cdx.json").exists()
    shutil.rmtree(clone)
