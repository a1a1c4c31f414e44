"""The steps of a release refuse what is none, and version, changelog and tag agree; `make torture` runs them all."""

import json
import re
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.error import HTTPError
from venv import create
from wsgiref.types import StartResponse, WSGIEnvironment

import pytest

from game_operator import __version__
from tests.support.documents import ROOT
from tests.support.servers import wsgi_server
from tools import release

_CHANGELOG = (ROOT / "CHANGELOG.md").read_text()
_DATED = "## [1.2.0] - 2026-11-30\n"


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
    said = release.problem_of_sbom({"components": [{"name": name} for name in names]})
    assert said is None if problem is None else problem in str(said)


_FILES = [
    f"{package}-{__version__}{ending}"
    for package in ("game_operator", "game_operator_testkit")
    for ending in ("-py3-none-any.whl", ".tar.gz")
]


@pytest.fixture
def dist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a release, with its four files."""
    monkeypatch.setattr(release, "DIST", tmp_path)
    for name in _FILES:
        (tmp_path / name).touch()
    return tmp_path


@pytest.mark.parametrize(
    ("missing", "more"),
    [
        pytest.param(_FILES[2:], [], id="the SDK alone"),
        pytest.param(_FILES[3:], [], id="no sdist of the testkit"),
        pytest.param(_FILES[1:2], ["game_operator-9.tar.gz"], id="another version"),
        pytest.param([], ["notes.txt"], id="a file more"),
    ],
)
def test_only_a_release_is_tried(missing: list[str], more: list[str], dist: Path) -> None:
    """One sdist and one wheel of this version of each; anything else would be uploaded with them."""
    for name in missing:
        (dist / name).unlink()
    for name in more:
        (dist / name).touch()
    assert f"not one sdist and one wheel of {__version__} of each" in str(release.check())


@pytest.mark.parametrize("broken", [[], _FILES[:1], _FILES[3:], _FILES[1:3]], ids="+".join)
def test_a_release_is_tried_file_by_file(broken: list[str], dist: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The SDK's files alone, the testkit's beside the wheel of the SDK; each problem is reported."""
    installed: list[list[str]] = []

    def tried(files: Sequence[Path], commands: Callable[[Path], Sequence[release.Command]]) -> str | None:
        installed.append([file.name for file in files])
        assert len(commands(dist)) >= 2
        return f"{files[-1].name} is broken" if files[-1].name in broken else None

    monkeypatch.setattr(release, "tried", tried)
    assert release.check() == ("\n".join(f"{name} is broken" for name in broken) or None)
    wheel, sdist, testkit_wheel, testkit_sdist = _FILES
    assert installed == [[wheel], [sdist], [wheel, testkit_wheel], [wheel, testkit_sdist]]


def _owned(organization: str | None, *users: str) -> str:
    roles = [{"role": "Owner", "user": user} for user in users]
    return json.dumps({"ownership": {"organization": organization, "roles": roles}})


@contextmanager
def _index(projects: dict[str, str], status: str = "200 OK") -> Iterator[str]:
    """Yield the address of an index on loopback that has *projects*, by name."""

    def answer(environ: WSGIEnvironment, start_response: StartResponse) -> list[bytes]:
        found = re.fullmatch(r"/pypi/([a-z-]+)/json", environ["PATH_INFO"])
        project = projects.get(found[1]) if found else None
        start_response("404 Not Found" if project is None else status, [("Content-Type", "application/json")])
        return [(project or "{}").encode()]

    with wsgi_server(answer) as port:
        yield f"http://127.0.0.1:{port}"


@pytest.mark.outside
@pytest.mark.parametrize(
    ("sdk", "testkit", "problems"),
    [
        pytest.param(_owned("acme"), _owned("acme"), [], id="both are the organization's"),
        pytest.param(_owned(None, "acme"), _owned(None, "eve", "acme"), [], id="both are the user's"),
        pytest.param(_owned("acme"), _owned("eve"), ["game-operator-testkit does not belong to acme"], id="another's"),
        pytest.param(_owned(None, "eve"), _owned("acme"), ["game-operator does not belong to acme"], id="the SDK's is"),
        pytest.param(_owned("acme"), None, ["no project game-operator-testkit"], id="one is free"),
        pytest.param(None, None, ["no project game-operator.", "no project game-operator-testkit."], id="both are"),
    ],
)
def test_nothing_is_uploaded_unless_both_names_are_ours(
    sdk: str | None, testkit: str | None, problems: list[str]
) -> None:
    """Each name that is free or somebody else's is reported."""
    projects = {"game-operator": sdk, "game-operator-testkit": testkit}
    with _index({name: project for name, project in projects.items() if project}) as address:
        said = release.main(["names", "acme", address])
    lines = said.splitlines() if said else []
    assert len(lines) == len(problems)
    assert all(problem in line for problem, line in zip(problems, lines, strict=True))


@pytest.mark.outside
@pytest.mark.parametrize(
    ("project", "status", "error"),
    [
        pytest.param(_owned("acme"), "503 Service Unavailable", HTTPError, id="it fails"),
        pytest.param("{}", "200 OK", KeyError, id="it does not say who owns it"),
        pytest.param("<html>", "200 OK", ValueError, id="no JSON"),
    ],
)
def test_an_index_that_cannot_answer_stops_the_release(project: str, status: str, error: type[Exception]) -> None:
    """Not knowing is not owning."""
    with _index({"game-operator": project}, status) as address, pytest.raises(error):
        release.problem_of_name(release.SDK, "acme", address)


@pytest.mark.outside
@pytest.mark.parametrize(
    ("licence", "is_allowed"),
    [
        pytest.param("MIT", True, id="allowed"),
        pytest.param("LGPL-3.0-only", True, id="allowed for psycopg"),
        pytest.param("GPL-3.0-only", False, id="nobody allowed it"),
    ],
)
def test_a_licence_that_nobody_allowed_stops_a_release(
    licence: str, is_allowed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The list has each package with its licence; a package with another licence is reported."""
    monkeypatch.setattr(release, "LICENCES", tmp_path / "licences.md")
    create(tmp_path / "venv", with_pip=False, symlinks=True)
    (packages,) = tmp_path.glob("venv/lib/*/site-packages")
    metadata = packages / "x-1.0.dist-info" / "METADATA"
    metadata.parent.mkdir()
    metadata.write_text(f"Metadata-Version: 2.4\nName: x\nVersion: 1.0\nLicense-Expression: {licence}\n")
    said = release.problem_of_licences(str(tmp_path / "venv" / "bin" / "python"), release.ALLOWED)
    assert f"| x    | 1.0     | {licence}" in release.LICENCES.read_text()
    assert said is None if is_allowed else f"{licence} not in allow-only licenses" in str(said)


@pytest.mark.parametrize(
    ("tag", "changelog", "problem"),
    [
        pytest.param("v1.2.0", _DATED, None, id="all agree"),
        pytest.param("v1.2.1", _DATED, "does not fit the version", id="another version"),
        pytest.param("1.2.0", _DATED, "does not fit the version", id="no v"),
        pytest.param("v1.2.0", "## [1.2.0] - not released\n", "YYYY-MM-DD", id="no date"),
        pytest.param("v1.2.0", "## [1x2y0] - 2026-11-30\n", "YYYY-MM-DD", id="a dot is a dot"),
        pytest.param("v1.2.0", "## [Unreleased]\n", "YYYY-MM-DD", id="no section"),
    ],
)
def test_what_may_be_released(tag: str, changelog: str, problem: str | None) -> None:
    """The tag is v and the version, and the changelog has a section for it with the day."""
    said = release.disagreement(tag, "1.2.0", changelog)
    assert said is None if problem is None else problem in str(said)


@pytest.mark.outside
def test_this_commit_under_its_tag() -> None:
    """A commit with a tag of a release is one that may be released under it."""
    command = ["git", "tag", "--points-at", "HEAD", "v*"]
    tags = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    assert [said for tag in tags if (said := release.main(["tag", tag]))] == []
    assert "does not fit" in str(release.main(["tag", "v0.0.0"]))


def test_the_changelog_s_newest_version_is_the_package_s() -> None:
    """What is not released comes first, then the version of the package, then those before it."""
    first, *versions = re.findall(r"^## \[(.+?)\]", _CHANGELOG, re.MULTILINE)
    assert first == "Unreleased"
    assert versions[0] == __version__ == release.version()
    assert versions == sorted(versions, key=lambda each: [*map(int, each.split("."))], reverse=True)


def test_an_unknown_step_shows_the_steps() -> None:
    """A mistyped command releases nothing."""
    assert "tools/release.py build" in str(release.main(["bild"]))


def test_the_supported_version_is_this_one() -> None:
    """SECURITY.md names the minor version that gets fixes."""
    minor = ".".join(__version__.split(".")[:2])
    assert f"the latest minor version, now {minor} |" in (ROOT / "SECURITY.md").read_text()
