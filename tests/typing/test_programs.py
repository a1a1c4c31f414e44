"""What a user's type checker says: nothing of a right program, and something of every mistake (spec §2.4, §4.2)."""

import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

pytestmark = [pytest.mark.artefact, pytest.mark.outside]

HERE = Path(__file__).parent
REFUSED = HERE / "refused_program.py"
CACHE = HERE.parents[1] / ".mypy_cache" / "programs"

_IGNORE = re.compile(r"  # type: ignore\[([a-z, -]+)\]")
_ERROR = re.compile(r"(\w+\.py):(\d+): error: .*  \[([a-z-]+)\]")

#: For each file, the lines with errors and their codes.
Findings = dict[str, dict[int, set[str]]]


def _findings(*programs: Path) -> Findings:
    """Check *programs* as a user would: strictly, without our settings and without pydantic's plugin."""
    options = ["--strict", "--config-file=", f"--cache-dir={CACHE}", "--no-error-summary"]
    command = [sys.executable, "-m", "mypy", *options, *map(str, programs)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=200)
    assert done.stderr == ""
    found: Findings = defaultdict(lambda: defaultdict(set))
    for line in done.stdout.splitlines():
        error = _ERROR.search(line)
        if error is not None:
            found[error[1]][int(error[2])].add(error[3])
    return found


@pytest.mark.timeout(240)
def test_right_programs_have_no_errors_and_every_mistake_is_seen(tmp_path: Path) -> None:
    """
    The whole public surface is typed (spec §2.3 to §2.8, §4.2).

    Every assert_type holds and every match is complete; each wrong line has the error it is there for, and no other
    line has one. One run of mypy for both, for most of its time goes into reading the libraries.
    """
    bare = tmp_path / "refused_program.py"
    bare.write_text(_IGNORE.sub("", REFUSED.read_text()))
    ignored = ((number, _IGNORE.search(line)) for number, line in enumerate(REFUSED.read_text().splitlines(), start=1))
    expected = {number: set(match[1].split(", ")) for number, match in ignored if match is not None}
    found = _findings(HERE / "user_program.py", bare)
    assert found["user_program.py"] == {}
    assert found["refused_program.py"] == expected
    assert len(expected) > 25
