"""Temporary files in memory: some disks take ten times the processor time for each file that a test or server makes."""

import os
import tempfile
from pathlib import Path
from typing import Final

_MEMORY: Final = Path("/dev/shm")
#: The servers with their databases, and the folders of the tests that run.
_NEEDED_BYTES: Final = 3 * 2**30


def keep_in_memory() -> None:
    """Keep the temporary files of this process and its children in memory, unless TMPDIR is set or memory is short."""
    if "TMPDIR" not in os.environ and _suits(_MEMORY):
        os.environ["TMPDIR"] = tempfile.tempdir = str(_MEMORY)


def _suits(folder: Path) -> bool:
    try:
        system = os.statvfs(folder)
    except OSError:
        return False
    may_execute = not system.f_flag & os.ST_NOEXEC
    return may_execute and os.access(folder, os.W_OK) and system.f_bavail * system.f_frsize >= _NEEDED_BYTES
