"""What a user's type checker says: nothing of a right program, and something of every mistake (spec §2.4, §4.2)."""

import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

HERE = Path(__file__).parent
CACHE = HERE.parents[1] / ".mypy_cache" / "programs"

_IGNORE = re.compile(r"  # type: ignore\[([a-z, -]+)\]")
_ERROR = re.compile(r"(\w+\.py):(\d+): error: .*  \[([a-z-]+)\]")

#: For each file, the lines with errors and their codes.
Findings = dict[str, dict[int, set[str]]]


@pytest.fixture(scope="module")
def findings(tmp_path_factory: pytest.TempPathFactory) -> Findings:
    """Check both programs as a user would: strictly, without our settings and without pydantic's plugin."""
    bare = tmp_path_factory.mktemp("programs") / "refused_program.py"
    bare.write_text(_IGNORE.sub("", (HERE / "refused_program.py").read_text()))
    options = ["--strict", "--config-file=", f"--cache-dir={CACHE}", "--no-error-summary"]
    command = [sys.executable, "-m", "mypy", *options, str(HERE / "user_program.py"), str(bare)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=200)
    assert done.stderr == ""
    found: Findings = defaultdict(lambda: defaultdict(set))
    for line in done.stdout.splitlines():
        error = _ERROR.search(line)
        if error is not None:
            found[error[1]][int(error[2])].add(error[3])
    return found


@pytest.mark.timeout(240)
def test_a_right_program_has_no_errors(findings: Findings) -> None:
    """The whole public surface is typed: every assert_type holds and every match is complete (spec §2.4, §2.8)."""
    assert findings["user_program.py"] == {}


@pytest.mark.timeout(240)
def test_every_mistake_is_seen(findings: Findings) -> None:
    """Each wrong line has the error it is there for, and no other line has one (spec §2.4, §2.8, §4.2)."""
    expected: dict[int, set[str]] = {}
    for number, line in enumerate((HERE / "refused_program.py").read_text().splitlines(), start=1):
        ignored = _IGNORE.search(line)
        if ignored is not None:
            expected[number] = set(ignored[1].split(", "))
    assert len(expected) > 25
    assert findings["refused_program.py"] == expected
