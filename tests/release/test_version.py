"""Version, changelog and tag say the same."""

import re
import subprocess

import pytest

from game_operator import __version__
from tests.support.documents import ROOT
from tools.release import disagreement, main, version

_CHANGELOG = (ROOT / "CHANGELOG.md").read_text()
_DATED = "## [1.2.0] - 2026-11-30\n"


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
    said = disagreement(tag, "1.2.0", changelog)
    assert said is None if problem is None else problem in str(said)


@pytest.mark.outside
def test_this_commit_under_its_tag() -> None:
    """A commit with a tag of a release is one that may be released under it."""
    command = ["git", "tag", "--points-at", "HEAD", "v*"]
    tags = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    assert [said for tag in tags if (said := main(["tag", tag]))] == []
    assert "does not fit" in str(main(["tag", "v0.0.0"]))


def test_the_changelog_s_newest_version_is_the_package_s() -> None:
    """What is not released comes first, then the version of the package, then those before it."""
    first, *versions = re.findall(r"^## \[(.+?)\]", _CHANGELOG, re.MULTILINE)
    assert first == "Unreleased"
    assert versions[0] == __version__ == version()
    assert versions == sorted(versions, key=lambda each: [*map(int, each.split("."))], reverse=True)


def test_an_unknown_step_shows_the_steps() -> None:
    """A mistyped command releases nothing."""
    assert "tools/release.py build" in str(main(["bild"]))


def test_the_supported_version_is_this_one() -> None:
    """SECURITY.md names the minor version that gets fixes."""
    minor = ".".join(__version__.split(".")[:2])
    assert f"the latest minor version, now {minor} |" in (ROOT / "SECURITY.md").read_text()
