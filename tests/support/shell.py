"""Lines pasted into a shell."""

import shutil
import subprocess

import pytest

needs_curl = pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")


def run_in_shell(line: str) -> str:
    """Return what *line* prints."""
    done = subprocess.run(["sh", "-s"], input=line.encode(), capture_output=True, timeout=50, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.decode()
