"""
Run what takes too long for `make check`: more generated examples, the long tests, the whole suite on newer Pythons, the
fast tests with the oldest and the newest versions that pyproject.toml allows, and the ledger's on other PostgreSQLs.

Tests with random choices take a seed of this run, which is printed; pytest's `--seed=NUMBER` repeats them. A Python
that this machine does not have is named and left out; everything else must pass.
"""

import importlib.util
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.support.postgres_binaries import BINARIES_VARIABLE, binary_folders

ROOT = Path(__file__).resolve().parent.parent
NEWER = ("3.12", "3.13", "3.14")
#: How uv chooses the versions of dependencies: the oldest that pyproject.toml allows, and the newest.
RESOLUTIONS = ("lowest-direct", "highest")
FUZZ_SECONDS = 600
UV = "uv==0.13.9"
#: Both distributions.
EDITABLE = ("--editable", ".", "--editable", "./testkit")
#: What shows within minutes that a version lacks something: all but the browser, the storms and the certified wallets.
FAST = (
    *("tests/cli", "tests/client", "tests/ledger", "tests/models", "tests/protocol", "tests/signers", "tests/webhooks"),
    *("testkit/tests/integration", "testkit/tests/plugin"),
    *("testkit/tests/certifier/test_our_wallets.py", "testkit/tests/certifier/test_over_http.py"),
    *("testkit/tests/sandbox/test_calls.py", "testkit/tests/sandbox/test_http.py"),
    *(str(file.relative_to(ROOT)) for file in sorted((ROOT / "tests").glob("test_*.py"))),
)
SEED = random.randrange(2**32)  # noqa: S311 - for tests


def main() -> int:
    """Run all parts and return the number of those that failed."""
    print(f"torture: the seed of this run is {SEED}")  # noqa: T201
    parts = (_here(), *map(_on, NEWER), *map(_with_dependencies, RESOLUTIONS), _on_other_servers(), _fuzzed())
    failed = [name for name, passed in parts if not passed]
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
    _run(*install, "--no-deps", "--no-build-isolation", *EDITABLE)
    return version, _pytest(interpreter, "-m", "not torture")


def _with_dependencies(resolution: str) -> tuple[str, bool]:
    """
    Run the fast tests with the lowest or the newest versions of all that pyproject.toml names.

    They differ in psycopg, httpx2 and pydantic among others, so both ends of these ranges are tested.
    """
    home = ROOT / ".venv" / "torture" / resolution
    interpreter, uv = str(home / "bin" / "python"), str(home / "bin" / "uv")
    versions = str(home / "versions.txt")
    _run(sys.executable, "-m", "venv", "--clear", str(home))
    _run(interpreter, "-m", "pip", "install", "--quiet", UV)
    what = ("pyproject.toml", "testkit/pyproject.toml", "--extra", "all", "--group", "dev", "--group", "build")
    options = ("--resolution", resolution, "--no-config", "--no-emit-package", "game-operator", "--quiet")
    _run(uv, "pip", "compile", *what, *options, "--output-file", versions)
    _run(uv, "pip", "install", "--python", interpreter, "--no-config", "--quiet", "--requirement", versions)
    build = ("--no-deps", "--no-build-isolation", *EDITABLE)
    _run(uv, "pip", "install", "--python", interpreter, "--no-config", "--quiet", *build)
    return f"the versions of {resolution}", _pytest(Path(interpreter), "-m", "not torture", *FAST)


def _on_other_servers() -> tuple[str, bool]:
    """Run the ledger's tests on each PostgreSQL of this machine but the first, which has run all tests."""
    _, *others = binary_folders()
    if not others:
        print("torture: this machine has no other PostgreSQL server; left out")  # noqa: T201
    only_postgres = ("-m", "not torture", "-k", "postgres or psycopg or asyncpg", "tests/ledger")
    passed = [_pytest(Path(sys.executable), *only_postgres, environ={BINARIES_VARIABLE: str(each)}) for each in others]
    return f"{len(others)} other PostgreSQL servers", all(passed)


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


def _pytest(interpreter: Path, *options: str, environ: Mapping[str, str] = MappingProxyType({})) -> bool:
    command = [str(interpreter), "tools/run_tests.py", "2", "-q", "--timeout", "600", *options, f"--seed={SEED}"]
    return subprocess.run(command, cwd=ROOT, env=os.environ | environ, check=False).returncode == 0  # noqa: S603


def _run(*command: str) -> None:
    subprocess.run(command, cwd=ROOT, check=True)  # noqa: S603


if __name__ == "__main__":
    sys.exit(main())
