"""
Run what takes too long for `make check`: more generated examples, the long tests, the whole suite on newer Pythons, and
the fast tests with the oldest versions that pyproject.toml allows.

Tests with random choices take a seed of this run, which is printed; pytest's `--seed=NUMBER` repeats them. A Python
that this machine does not have is named and left out; everything else must pass.
"""

import importlib.util
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NEWER = ("3.12", "3.13")
FUZZ_SECONDS = 600
UV = "uv==0.13.9"
#: What shows within minutes that a version lacks something: all but the browser, the storms and the certified wallets.
FAST = (
    *("tests/cli", "tests/client", "tests/ledger", "tests/models", "tests/protocol", "tests/signers", "tests/testing"),
    *("tests/webhooks", "tests/certify/test_our_wallets.py", "tests/certify/test_over_http.py"),
    *("tests/sandbox/test_fetch_games.py", "tests/sandbox/test_http.py"),
    *(str(file.relative_to(ROOT)) for file in sorted((ROOT / "tests").glob("test_*.py"))),
)
SEED = random.randrange(2**32)  # noqa: S311 - for tests


def main() -> int:
    """Run all parts and return the number of those that failed."""
    print(f"torture: the seed of this run is {SEED}")  # noqa: T201
    failed = [name for name, passed in (_here(), *map(_on, NEWER), _lowest(), _fuzzed()) if not passed]
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
    install = (str(interpreter), "-m", "pip", "install", "--quiet")
    _run(python, "-m", "venv", str(home))
    _run(*install, "--require-hashes", "--requirement", "requirements/dev.txt")
    _run(*install, "--no-deps", "--no-build-isolation", "--editable", ".")
    return version, _pytest(interpreter, "-m", "not torture")


def _lowest() -> tuple[str, bool]:
    """Run the fast tests with the lowest versions of all that we name ourselves."""
    home = ROOT / ".venv" / "torture" / "lowest"
    interpreter, uv = str(home / "bin" / "python"), str(home / "bin" / "uv")
    lowest = str(home / "lowest.txt")
    _run(sys.executable, "-m", "venv", str(home))
    _run(interpreter, "-m", "pip", "install", "--quiet", UV)
    what = ("pyproject.toml", "--all-extras", "--group", "dev", "--group", "build")
    _run(
        uv, "pip", "compile", *what, "--resolution", "lowest-direct", "--no-config", "--quiet", "--output-file", lowest
    )
    _run(uv, "pip", "install", "--python", interpreter, "--no-config", "--quiet", "--requirement", lowest)
    build = ("--no-deps", "--no-build-isolation", "--editable", ".")
    _run(uv, "pip", "install", "--python", interpreter, "--no-config", "--quiet", *build)
    return "the lowest versions", _pytest(Path(interpreter), "-m", "not torture", *FAST)


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
    command.append(f"--seed={SEED}")
    # A language that is missing is no reason to skip its wallet's tests here.
    environ = os.environ | {"TORTURE": "1"}
    return subprocess.run(command, cwd=ROOT, env=environ, check=False).returncode == 0  # noqa: S603


def _run(*command: str) -> None:
    subprocess.run(command, cwd=ROOT, check=True)  # noqa: S603


if __name__ == "__main__":
    sys.exit(main())
