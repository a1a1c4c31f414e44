"""The steps of a release refuse what is not a release; `make torture` runs them as a whole."""

from pathlib import Path
from typing import Any

import pytest
from tools import release

from game_operator import __version__
from tests.support.documents import ROOT


def _bom(*names: str) -> dict[str, Any]:
    return {"components": [{"name": name} for name in names]}


@pytest.mark.parametrize(
    ("names", "problem"),
    [
        pytest.param(["httpx", "cryptography", "psycopg", "idna"], None, id="what a wallet needs"),
        pytest.param(["httpx", "cryptography"], "lacks {'psycopg'}", id="an extra is missing"),
        pytest.param(["httpx", "cryptography", "psycopg", "pytest"], "holds {'pytest'}", id="a tool is on the list"),
    ],
)
def test_what_an_sbom_has_to_list(names: list[str], problem: str | None) -> None:
    """What runs in production, and nothing that only builds or tests."""
    said = release.problem_of_sbom(_bom(*names))
    assert said is None if problem is None else problem in str(said)


def test_a_part_of_the_lock_keeps_its_hashes() -> None:
    """Names as a package spells them lead to its entry, and to no other whose name begins so."""
    part = release.lock_of({"psycopg", "pydantic_core"})
    names = [line.partition("==")[0] for line in part.splitlines() if line[0] != " "]
    assert names == ["psycopg", "pydantic-core"]
    assert part.count("--hash=sha256:") > 10
    assert all(line in (ROOT / "requirements" / "dev.txt").read_text().splitlines() for line in part.splitlines())


@pytest.mark.parametrize(
    "files",
    [
        pytest.param([], id="nothing"),
        pytest.param([f"game_operator-{__version__}.tar.gz"], id="no wheel"),
        pytest.param(["game_operator-9.tar.gz", "game_operator-9-py3-none-any.whl"], id="another version"),
        pytest.param(
            [f"game_operator-{__version__}.tar.gz", f"game_operator-{__version__}-py3-none-any.whl", "notes.txt"],
            id="a file more",
        ),
    ],
)
def test_only_a_release_is_tried(files: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One sdist and one wheel of this version; anything else would be uploaded with them."""
    monkeypatch.setattr(release, "DIST", tmp_path)
    for name in files:
        (tmp_path / name).touch()
    assert f"not one sdist and one wheel of {__version__}" in str(release.check())


def test_a_release_is_tried_file_by_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both are, and each problem is reported."""
    wheel, sdist = f"game_operator-{__version__}-py3-none-any.whl", f"game_operator-{__version__}.tar.gz"
    for name in (wheel, sdist):
        (tmp_path / name).touch()
    monkeypatch.setattr(release, "DIST", tmp_path)
    monkeypatch.setattr(release, "tried", lambda file: f"{file.name} is broken" if file.name == sdist else None)
    assert release.check() == f"{sdist} is broken"
    monkeypatch.setattr(release, "tried", lambda file: None)
    assert release.check() is None
