"""
Write the lock files of requirements/ anew, from both pyproject.toml: each package that make installs, with its hashes.

    make lock                              versions stay as they are locked, if pyproject.toml allows them
    make lock UPGRADE=--upgrade            the newest versions

The hashes are those of all files that the package index lists for a version, so that one lock fits every platform and
every Python from 3.11 on. No address of an index is written. The runtime and the fuzzer take their versions from the
lock for development, so that what is tested is what runs.
"""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from venv import create

ROOT = Path(__file__).resolve().parent.parent
_HOME = ROOT / ".venv" / "lock"
_UV = "uv==0.13.9"
_DEV = "requirements/dev.txt"
_BOTH = ("pyproject.toml", "testkit/pyproject.toml", "--no-emit-package", "game-operator")
#: Each lock, and what it holds. All but the fuzzer's hold what builds the package, too: it is installed from here.
_LOCKS: dict[str, Sequence[str]] = {
    _DEV: (*_BOTH, "--extra", "all", "--group", "dev", "--group", "build"),
    "requirements/runtime.txt": (*_BOTH, "--extra", "serve", "--group", "build", "--constraints", _DEV),
    "requirements/fuzz.txt": ("--group", "fuzz", "--constraints", _DEV),
    "requirements/release.txt": ("--group", "release", "--group", "build", "--constraints", _DEV),
}


def main(options: Sequence[str]) -> None:
    """Write all locks; *options* go to ``uv pip compile``."""
    create(_HOME, with_pip=True)
    _run(str(_HOME / "bin" / "python"), "-m", "pip", "install", "--quiet", _UV)
    always = ("--universal", "--python-version", "3.11", "--generate-hashes", "--no-config", "--quiet")
    for lock, contents in _LOCKS.items():
        header = ("--custom-compile-command", "make lock", "--output-file", lock)
        _run(str(_HOME / "bin" / "uv"), "pip", "compile", *always, *header, *contents, *options)


def _run(*command: str) -> None:
    subprocess.run(command, cwd=ROOT, check=True)  # noqa: S603


if __name__ == "__main__":
    main(sys.argv[1:])
