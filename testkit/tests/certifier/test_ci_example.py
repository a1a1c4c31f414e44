"""The workflow in examples/ci: its steps run in order, with a wallet that is right and one that is wrong."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.documents import ROOT

pytestmark = pytest.mark.outside

_FILE = ROOT / "examples" / "ci" / "certify.yml"
#: What GitHub runs a step with for `shell: bash`.
_SHELL = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c"]
_WRONG = """
import sys
sys.path[:0] = [{examples!r}, {root!r}]
import wallet_by_hand
from testkit.tests.certifier.wrong_wallets.repeats import DebitsEachTime
wallet_by_hand.PlainWallet = DebitsEachTime
wallet_by_hand.serve_for_good(*sys.argv[1:])
"""


def _workflow() -> dict[str, Any]:  # Any: YAML.
    read: dict[str, Any] = yaml.safe_load(_FILE.read_text())
    return read


def _steps() -> list[dict[str, Any]]:
    steps: list[dict[str, Any]] = _workflow()["jobs"]["certify"]["steps"]
    return steps


@dataclass
class Runner:
    """A folder in which the steps run, as on a machine of GitHub's; pip installs nothing."""

    folder: Path
    environment: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        programs = self.folder / "bin"
        programs.mkdir()
        commands = {
            "pip": 'echo "$@" >> pip.log',
            "python": f'exec {sys.executable} "$@"',
            "game-operator": f'exec {sys.executable} -m game_operator.cli "$@"',
        }
        for name, command in commands.items():
            (programs / name).write_text(f"#!/bin/sh\n{command}\n")
            (programs / name).chmod(0o755)
        (self.folder / "examples").mkdir()
        self.environment = {
            "PATH": f"{programs}:{os.environ['PATH']}",
            "HOME": str(self.folder),
            "GITHUB_STEP_SUMMARY": str(self.folder / "summary.md"),
        }

    def serve(self, *, is_right: bool) -> None:
        """Put the wallet where the workflow starts it."""
        place, examples = self.folder / "examples" / "wallet_by_hand.py", ROOT / "examples"
        if is_right:
            shutil.copy(examples / "wallet_by_hand.py", place)
        else:
            place.write_text(_WRONG.format(examples=str(examples), root=str(ROOT)))

    def run(self) -> dict[str, int]:
        """Run the job, and return the exit code of each step that ran; a quick part of the scenarios is played."""
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = str(free.getsockname()[1])
        codes: dict[str, int] = {}
        (self.folder / "service.pem").unlink(missing_ok=True)
        (self.folder / "service.pub.pem").unlink(missing_ok=True)
        for step in _steps():
            name = step.get("name", "")
            if "run" not in step or (any(codes.values()) and "always()" not in step.get("if", "")):
                continue
            if name == "Make the next baseline" and codes["Certify"] and (self.folder / "baseline.json").exists():
                continue
            script = step["run"].replace("8000", port).replace("--json-file", "--only A01,A02,B01 --json-file")
            codes[name] = subprocess.run(
                [*_SHELL, script], cwd=self.folder, env=self.environment, timeout=50, check=False, capture_output=True
            ).returncode
        return codes


@pytest.fixture
def runner(tmp_path: Path) -> Iterator[Runner]:
    yield Runner(tmp_path)
    # If a step failed before the one that stops it.
    with suppress(OSError, ValueError):
        os.kill(int((tmp_path / "wallet.pid").read_text()), signal.SIGTERM)


@pytest.mark.artefact
def test_a_right_wallet_passes_and_a_change_that_breaks_it_fails(runner: Runner) -> None:
    """Each step ends well, and what the next ones upload and keep is there; then the summary says what is new."""
    runner.serve(is_right=True)
    assert runner.run() == dict.fromkeys(
        [
            "Install",
            "Start the wallet",
            "Wait for the wallet",
            "Certify",
            "Show the result",
            "Stop the wallet",
            "Make the next baseline",
        ],
        0,
    )
    assert (runner.folder / "pip.log").read_text() == "install game-operator-testkit\n"
    assert "PASSED: 3 passed, 0 failed" in (runner.folder / "summary.md").read_text()
    uploaded = next(step["with"]["path"] for step in _steps() if step.get("name") == "Keep the reports").split()
    for pattern in uploaded:
        assert list(runner.folder.glob(pattern)), pattern
    assert len(list(runner.folder.glob("report.*"))) == 3
    before = (runner.folder / "baseline.json").read_text()
    assert before == (runner.folder / "report.json").read_text()
    runner.serve(is_right=False)
    codes = runner.run()
    assert {name for name, code in codes.items() if code} == {"Certify"}
    assert codes["Stop the wallet"] == 0
    assert "worse: B01 " in (runner.folder / "summary.md").read_text()
    assert (runner.folder / "baseline.json").read_text() == before


def test_a_wallet_that_does_not_start_fails_at_once(runner: Runner) -> None:
    """Nothing is certified."""
    (runner.folder / "examples" / "wallet_by_hand.py").write_text("raise SystemExit('no database')")
    script = next(step["run"] for step in _steps() if step.get("name") == "Wait for the wallet")
    assert "{1..100}" in script
    (runner.folder / "wallet.log").write_text("no database")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    quick = script.replace("{1..100}", "{1..2}").replace("8000", port)
    done = subprocess.run([*_SHELL, quick], cwd=runner.folder, env=runner.environment, capture_output=True, timeout=50)
    assert done.returncode == 1
    assert b"no database" in done.stdout


def test_the_workflow_may_only_read_and_is_pinned() -> None:
    """Every action is pinned, and what main keeps is kept by main alone."""
    read = _workflow()
    assert read["permissions"] == {"contents": "read"}
    used = [step["uses"] for step in _steps() if "uses" in step]
    assert used
    assert all(re.fullmatch(r"actions/[\w/-]+@[0-9a-f]{40}", each) for each in used)
    kept = [step["if"] for step in _steps() if step.get("name") in {"Make the next baseline", "Keep the baseline"}]
    assert len(kept) == 2
    assert kept[0] == kept[1]
    assert "github.ref == 'refs/heads/main'" in kept[0]
    assert "pull_request_target" not in _FILE.read_text()
