"""The workflows of this repository, and the one that users copy: what they may do, and whose code they run."""

import re
import subprocess
import sys
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.documents import ROOT
from tools import release

_OURS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
_RELEASE = ROOT / ".github" / "workflows" / "release.yml"
_FOR_USERS = sorted((ROOT / "examples" / "ci").glob("*.yml"))


def _jobs(workflow: Path) -> dict[str, dict[str, Any]]:  # Any: YAML.
    jobs: dict[str, dict[str, Any]] = yaml.safe_load(workflow.read_text())["jobs"]
    return jobs


def _commands(workflow: Path) -> Iterator[str]:
    yield from (step["run"] for job in _jobs(workflow).values() for step in job.get("steps", ()) if "run" in step)


@pytest.mark.artefact
@pytest.mark.outside
def test_zizmor_finds_nothing() -> None:
    """In our workflows, in what updates their pins, and in the one that users copy."""
    options = ["--offline", "--pedantic", "--strict-collection"]  # A file that cannot be read is an error.
    command: list[str | Path] = [Path(sys.executable).with_name("zizmor"), *options, ROOT / ".github", *_FOR_USERS]
    done = subprocess.run(command, capture_output=True, text=True, timeout=50)
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    for file in (*_OURS, *_FOR_USERS, ROOT / ".github" / "dependabot.yml"):
        assert f"completed {file}" in said or f"completed {file.relative_to(ROOT)}" in said


def test_every_action_is_pinned_by_one_digest() -> None:
    """A digest with the version it is, and the same one wherever the action is used."""
    text = "".join(file.read_text() for file in (*_OURS, *_FOR_USERS))
    used = re.findall(r"uses: (?!\./)(.+)", text)
    assert len(used) > 10
    assert [each for each in used if not re.fullmatch(r"[\w-]+/[\w/-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", each)] == []
    pins = {re.sub(r"^([\w-]+/[\w-]+)[^@]*", r"\1", each) for each in used}
    actions = [pin.partition("@")[0] for pin in pins]
    assert len(actions) == len(set(actions))


@pytest.mark.parametrize("workflow", _OURS, ids=lambda path: path.name)
def test_a_workflow_has_no_right_that_no_job_asks_for(workflow: Path) -> None:
    """Rights are given job by job; only the jobs that sign and publish have more than reading. Runs do not pile up."""
    read = yaml.safe_load(workflow.read_text())
    assert read["permissions"] == {}
    assert read["concurrency"]["group"]
    more = {
        name: job["permissions"] for name, job in _jobs(workflow).items() if job["permissions"] != {"contents": "read"}
    }
    publishing = {name: {"id-token": "write"} for name in ("publish", "publish-testkit")}
    expected = {"attest": {"id-token": "write", "attestations": "write"}} | publishing
    assert more == (expected if workflow.name == "release.yml" else {})


def test_a_release_is_published_last_and_as_it_was_built() -> None:
    """Publishing waits for all other jobs and a person, installs nothing, and uploads what one job has built."""
    jobs = _jobs(_RELEASE)
    assert set(jobs["attest"]["needs"]) == {"check", "names", "try", "sbom"}
    assert {jobs[each]["needs"] for each in ("try", "sbom")} == {"build"}
    for name in ("attest", "publish", "publish-testkit"):
        assert [step for step in jobs[name]["steps"] if "run" in step] == []
    assert sorted(_names(jobs, "actions/upload-artifact")) == ["dist-sdk", "dist-testkit", "sbom"]


def test_the_sdk_is_published_before_the_testkit() -> None:
    """The testkit requires the SDK in its own version; each job uploads the files of one distribution."""
    jobs = _jobs(_RELEASE)
    assert (jobs["publish"]["needs"], jobs["publish-testkit"]["needs"]) == ("attest", "publish")
    for job, artifact in (("publish", "dist-sdk"), ("publish-testkit", "dist-testkit")):
        assert jobs[job]["environment"] == "pypi"
        assert list(_names({job: jobs[job]}, "actions/download-artifact")) == [artifact]


def test_each_artifact_has_the_files_of_one_distribution() -> None:
    """What is uploaded from dist/ as two artifacts is all that a build writes, and no file is in both."""
    steps = [step["with"] for step in _jobs(_RELEASE)["build"]["steps"] if "upload-artifact" in step.get("uses", "")]
    patterns = {step["name"]: step["path"].removeprefix("dist/") for step in steps}
    for package, artifact in ((release.SDK, "dist-sdk"), (release.TESTKIT, "dist-testkit")):
        for file in (f"{package}-0.1.0.tar.gz", f"{package}-0.1.0-py3-none-any.whl"):
            assert [name for name, pattern in patterns.items() if fnmatch(file, pattern)] == [artifact]


def test_the_names_are_asked_for_with_what_the_repository_says() -> None:
    """Owner and index are variables of the repository, and reach the command as arguments."""
    (step,) = [step for step in _jobs(_RELEASE)["names"]["steps"] if "run" in step]
    assert step["run"] == 'python tools/release.py names "$OWNER" "$INDEX"'
    assert step["env"] == {"OWNER": "${{ vars.INDEX_OWNER }}", "INDEX": "${{ vars.INDEX_URL }}"}


def _names(jobs: dict[str, dict[str, Any]], action: str) -> Iterator[str]:
    """Yield the names of the artifacts that *action* takes in *jobs*."""
    steps = (step for job in jobs.values() for step in job.get("steps", ()))
    yield from (step["with"]["name"] for step in steps if step.get("uses", "").startswith(f"{action}@"))


@pytest.mark.parametrize("workflow", _OURS, ids=lambda path: path.name)
def test_what_a_workflow_runs_is_there(workflow: Path) -> None:
    """Targets of make, steps of the release, scripts and locks exist by the names that are used."""
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    locks = [path.name for path in (ROOT / "requirements").iterdir()]
    for command in _commands(workflow):
        assert all(target in targets for target in re.findall(r"^make ([\w-]+)", command))
        assert all(step in str(release.__doc__) for step in re.findall(r"tools/release\.py \w+", command))
        assert all(lock in locks for lock in re.findall(r"requirements/([a-z]+\.txt)", command))
        assert not command.startswith(".ci/") or (ROOT / command).stat().st_mode & 0o100


def test_the_versions_of_python_are_those_that_we_name() -> None:
    """What both pyproject.toml promise is tried with each release; the nightly run looks further, without a promise."""
    classifier = re.compile(r"Programming Language :: Python :: (3\.\d+)")
    named = classifier.findall((ROOT / "pyproject.toml").read_text())
    nightly = _jobs(ROOT / ".github" / "workflows" / "nightly.yml")
    assert _jobs(_RELEASE)["try"]["strategy"]["matrix"]["python"] == named
    assert classifier.findall((ROOT / "testkit" / "pyproject.toml").read_text()) == named
    assert nightly["python"]["strategy"]["matrix"]["python"] == [*named, "3.15"]
    assert nightly["python"]["continue-on-error"] == "${{ matrix.python == '3.15' }}"
    page = (ROOT / "docs" / "reference" / "versions.md").read_text()
    assert f"| CPython | {', '.join(named)} | 3.15 |" in page


def test_only_linux_is_promised() -> None:
    """The classifiers name Linux alone; what runs on other systems stops nothing."""
    for project in (ROOT, ROOT / "testkit"):
        assert re.findall(r'"Operating System :: (.+)"', (project / "pyproject.toml").read_text()) == ["POSIX :: Linux"]
    jobs = [(name, job) for workflow in _OURS for name, job in _jobs(workflow).items() if "uses" not in job]
    assert {name for name, job in jobs if not job["runs-on"].startswith("ubuntu-")} == {"platform"}
    assert dict(jobs)["platform"]["continue-on-error"] is True


def test_advisories_are_looked_up_for_every_lock() -> None:
    """Each night, by the command of the documents."""
    job = _jobs(ROOT / ".github" / "workflows" / "nightly.yml")["advisories"]
    locks = {path.stem for path in (ROOT / "requirements").glob("*.txt")}
    assert set(job["strategy"]["matrix"]["lock"]) == locks
    (command,) = [step["run"] for step in job["steps"] if "pip_audit" in step.get("run", "")]
    assert "--require-hashes" in command
