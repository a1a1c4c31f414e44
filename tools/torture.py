"""
Run what takes too long for `make check`: more generated examples, the long tests, and the whole suite on newer Pythons.

A Python that this machine does not have is named and left out; everything else must pass.
"""

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NEWER = ("3.12", "3.13")
FUZZ_SECONDS = 600


def main() -> int:
    """Run all parts and return the number of those that failed."""
    failed = [name for name, passed in (_here(), *map(_on, NEWER), _fuzzed()) if not passed]
    print(f"torture: {'failed on ' + ', '.join(failed) if failed else 'all passed'}")  # noqa: T201
    return len(failed)


def _here() -> tuple[str, bool]:
    return "this Python", _pytest(Path(sys.executable), "--hypothesis-profile=torture")


def _on(version: str) -> tuple[str, bool]:
    python = _find(version)
    if python is None:
        print(f"torture: this machine has no Python {version}; left out")  # noqa: T201
        return version, True
    home = ROOT / ".venv" / "torture" / version
    interpreter = home / "bin" / "python"
    constraints = ("--constraint", str(ROOT / "constraints.txt"))
    _run(python, "-m", "venv", str(home))
    _run(str(interpreter), "-m", "pip", "install", "--quiet", "pip>=25.1")
    _run(str(interpreter), "-m", "pip", "install", "--quiet", *constraints, "--editable", ".[all]", "--group", "dev")
    return version, _pytest(interpreter, "-m", "not torture")


def _fuzzed() -> tuple[str, bool]:
    """Feed the receiver with made-up bytes for a while."""
    if importlib.util.find_spec("atheris") is None:
        print("torture: atheris is not installed, so the receiver is not fuzzed: pip install --group fuzz")  # noqa: T201
        return "fuzzing", False
    command = [sys.executable, str(ROOT / "tools" / "fuzz_receiver.py"), str(FUZZ_SECONDS)]
    return "fuzzing", subprocess.run(command, cwd=ROOT, check=False).returncode == 0  # noqa: S603


def _find(version: str) -> str | None:
    """Return a Python of *version* that really starts: a version manager's stub may only pretend to."""
    managed = Path.home().glob(f".pyenv/versions/{version}.*/bin/python")
    for candidate in filter(None, (shutil.which(f"python{version}"), *map(str, managed))):
        probe = subprocess.run([candidate, "-c", "import venv"], capture_output=True, check=False)  # noqa: S603
        if probe.returncode == 0:
            return candidate
    return None


def _pytest(interpreter: Path, *options: str) -> bool:
    command = [str(interpreter), "-m", "pytest", "-q", "-n", "2", "--dist", "loadfile", "--timeout", "600", *options]
    return subprocess.run(command, cwd=ROOT, check=False).returncode == 0  # noqa: S603


def _run(*command: str) -> None:
    subprocess.run(command, cwd=ROOT, check=True)  # noqa: S603


if __name__ == "__main__":
    sys.exit(main())
