"""
The steps of a release, which .github/workflows/release.yml runs on GitHub and `make dist` here.

    python tools/release.py tag v0.1.0     version, changelog and tag agree, or say what does not
    python tools/release.py build          dist/: sdist and wheel of both distributions, built twice and compared
    python tools/release.py check          each installed into a fresh venv: the SDK alone, the testkit beside it
    python tools/release.py sbom           sbom/: what the SDK with its extras brings, and under which licences
    python tools/release.py names OWNER INDEX   both names belong to OWNER at the index with that address

`build` and `sbom` need what requirements/release.txt locks. docs/maintainers/releasing.md says when to do what.
"""

import hashlib
import io
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Any, NamedTuple
from urllib.error import HTTPError
from urllib.request import urlopen
from venv import create


class Command(NamedTuple):
    """What is run to try a file, what its output contains, and how it ends."""

    name: str
    expected: str
    arguments: Sequence[str]
    exit_code: int = 0


ROOT = Path(__file__).resolve().parent.parent
DIST = ROOT / "dist"
SBOM = ROOT / "sbom" / "game-operator.cdx.json"
LICENCES = SBOM.with_name("licences.md")
#: Parts of the names of licences that may come in; those of certifi and psycopg ask for more than their text.
ALLOWED = "Apache;BSD;ISC;MIT;MPL-2.0;Mozilla Public License 2.0;LGPL-3.0-only;PSF-2.0"
SDK, TESTKIT = "game_operator", "game_operator_testkit"
#: A second machine, as it were: what could leak into a build differs.
_OTHERWISE = {"TZ": "Asia/Kathmandu", "LC_ALL": "C", "PYTHONHASHSEED": "1"}


def main(arguments: Sequence[str]) -> str | None:
    """Run the step of that name, and return what is wrong."""
    match arguments:
        case ["names", owner, index]:
            return "\n".join(filter(None, (problem_of_name(name, owner, index) for name in (SDK, TESTKIT)))) or None
        case ["tag", tag]:
            return disagreement(tag, version(), (ROOT / "CHANGELOG.md").read_text())
        case [("build" | "check" | "sbom") as step]:
            return _STEPS[step]()
        case _:
            return __doc__


def version() -> str:
    """Return the version that this commit has."""
    found = re.search(r'^__version__ = "(.+)"$', (ROOT / "src/game_operator/_version.py").read_text(), re.MULTILINE)
    assert found
    return found[1]


def disagreement(tag: str, version: str, changelog: str) -> str | None:
    """Return what keeps *version* from being released under *tag*, or None."""
    if tag != f"v{version}":
        return f"The tag {tag} does not fit the version {version}. Tag v{version}, or change _version.py."
    if not re.search(rf"^## \[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d$", changelog, re.MULTILINE):
        return f"CHANGELOG.md has no line '## [{version}] - YYYY-MM-DD'. Write the date of the release."
    return None


def build() -> str | None:
    """Build this commit in two folders under different settings, and keep the result if both are the same."""
    with tempfile.TemporaryDirectory() as place:
        one, other = Path(place, "one"), Path(place, "a-longer-name", "other")
        sums = [_built(one, umask=0o022, settings={}), _built(other, umask=0o077, settings=_OTHERWISE)]
        if sums[0] != sums[1]:
            return f"The build is not reproducible: {sums[0]} and {sums[1]}."
        _keep(one / "out")
    print(*(f"{digest}  {name}" for name, digest in sums[0].items()), sep="\n")  # noqa: T201
    return None


def _built(folder: Path, *, umask: int, settings: dict[str, str]) -> dict[str, str]:
    """Build what is committed, and nothing else that lies about, in *folder*; return the digest of each file."""
    folder.mkdir(parents=True)
    with tarfile.open(fileobj=io.BytesIO(_git("archive", "--format=tar", "HEAD"))) as archive:
        archive.extractall(folder, filter="data")
    times = {"SOURCE_DATE_EPOCH": _git("log", "-1", "--format=%ct").decode().strip()}
    for project in (".", "testkit"):
        command = (sys.executable, "-m", "build", "--no-isolation", "--outdir", "out", project)
        subprocess.run(  # noqa: S603
            command, cwd=folder, env=os.environ | times | settings, umask=umask, check=True, stdout=subprocess.DEVNULL
        )
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in sorted((folder / "out").iterdir())}


def _keep(built: Path) -> None:
    DIST.mkdir(exist_ok=True)
    for old in DIST.iterdir():
        old.unlink()
    for file in built.iterdir():
        (DIST / file.name).write_bytes(file.read_bytes())


def check() -> str | None:
    """Try each wheel and sdist as users install it, each in a fresh venv, away from this folder."""
    files = {file.name: file for file in sorted(DIST.iterdir())}
    if set(files) != set(_names(SDK) + _names(TESTKIT)):
        return f"dist/ holds {[*files]}, not one sdist and one wheel of {version()} of each distribution."
    of_sdk = [tried([files[name]], _sdk_commands) for name in _names(SDK)]
    wheel = files[_names(SDK)[0]]
    of_testkit = [tried([wheel, files[name]], _testkit_commands) for name in _names(TESTKIT)]
    return "\n".join(filter(None, of_sdk + of_testkit)) or None


def _names(package: str) -> list[str]:
    return [f"{package}-{version()}-py3-none-any.whl", f"{package}-{version()}.tar.gz"]


def tried(files: Sequence[Path], commands: Callable[[Path], Sequence[Command]]) -> str | None:
    """Install *files* on the locked dependencies of the first one, and run *commands*; return what is wrong."""
    with tempfile.TemporaryDirectory() as place:
        home = Path(place, "venv")
        create(home, with_pip=True)
        _pip(home, "--require-hashes", "--requirement", str(ROOT / "requirements/runtime.txt"))
        # An sdist is built here, with the locked hatchling.
        _pip(home, "--no-deps", "--no-build-isolation", *map(str, files))
        return next(filter(None, (_problem(home, *command) for command in commands(home))), None)


def _sdk_commands(home: Path) -> Sequence[Command]:
    python, script = str(home / "bin/python"), str(home / "bin/game-operator")
    origin = "import game_operator; print(game_operator.__version__, game_operator.__file__)"
    return [
        Command("pip check", "No broken requirements", [python, "-m", "pip", "check"]),
        Command("the import", f"{version()} {home}", [python, "-I", "-c", origin]),
        Command("--version", version(), [script, "--version"]),
        Command("demo without the testkit", "pip install 'game-operator-testkit", [script, "demo"], exit_code=2),
    ]


def _testkit_commands(home: Path) -> Sequence[Command]:
    python, script = str(home / "bin/python"), str(home / "bin/game-operator")
    return [
        Command("pip check", "No broken requirements", [python, "-m", "pip", "check"]),
        Command("the demo", "All of it worked", [script, "demo"]),
    ]


def _problem(home: Path, name: str, expected: str, arguments: Sequence[str], exit_code: int) -> str | None:
    done = subprocess.run(arguments, cwd=home, capture_output=True, text=True, check=False, timeout=120)  # noqa: S603
    if done.returncode == exit_code and expected in done.stdout + done.stderr:
        return None
    return f"{name} of {home}: exit code {done.returncode}, without {expected!r}:\n{done.stdout}{done.stderr}"


def problem_of_name(package: str, owner: str, index: str) -> str | None:
    """Return why *package* must not be uploaded to the index at the address *index*, or None: *owner* has its name."""
    name = package.replace("_", "-")
    # One name alone would be an invitation: who takes the other is installed by everybody who follows our docs.
    try:
        with urlopen(f"{index}/pypi/{name}/json", timeout=30) as answer:  # noqa: S310 - the address is the caller's
            ownership = json.load(answer)["ownership"]
    except HTTPError as refused:
        if refused.code != HTTPStatus.NOT_FOUND:
            raise
        return f"The index has no project {name}. Register the name before the release."
    if owner in (ownership["organization"], *(role["user"] for role in ownership["roles"])):
        return None
    return f"{name} does not belong to {owner}, but to {ownership}. Nothing may be uploaded."


def sbom() -> str | None:
    """Write what the wheel with all its extras brings, in the locked versions, as CycloneDX, and the licences of it."""
    SBOM.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        create(place, with_pip=False, symlinks=True)
        python = str(Path(place, "bin/python"))
        # From outside, so that pip is not on the list.
        install = (sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps")
        _run(*install, "--no-compile", "--require-hashes", "--requirement", str(ROOT / "requirements/production.txt"))
        _run(*install, str(DIST / _names(SDK)[0]))
        return problem_of_sbom(_described(python)) or problem_of_licences(python, ALLOWED)


def problem_of_licences(python: str, allowed: str) -> str | None:
    """Write the licences of what is installed for *python*; return which package has one that is not *allowed*."""
    command = (sys.executable, "-m", "piplicenses", "--python", python, "--from", "mixed", "--partial-match")
    _run(*command, "--format", "markdown", "--output-file", str(LICENCES))
    done = subprocess.run((*command, "--allow-only", allowed), capture_output=True, text=True, check=False)  # noqa: S603
    return done.stderr or None


# Any: JSON.
def _described(python: str) -> dict[str, Any]:
    """Write the list of what is installed for *python*, and return it."""
    options = ("--output-reproducible", "--output-format", "JSON", "--output-file", str(SBOM))
    root = ("--pyproject", str(ROOT / "pyproject.toml"), "--mc-type", "library")
    _run(sys.executable, "-m", "cyclonedx_py", "environment", *root, *options, python)
    bom: dict[str, Any] = json.loads(SBOM.read_text())
    # pyproject.toml leads to the version and does not have it.
    bom["metadata"]["component"] |= {"version": version(), "purl": f"pkg:pypi/game-operator@{version()}"}
    SBOM.write_text(json.dumps(bom, indent=2))
    return bom


def problem_of_sbom(bom: dict[str, Any]) -> str | None:
    """Return what the list lacks, or what does not belong into it."""
    names = {component["name"] for component in bom["components"]}
    missing, foreign = {"httpx", "cryptography", "psycopg"} - names, {"pip", "pytest", "hatchling"} & names
    return f"{SBOM.name} lacks {missing} and holds {foreign}." if missing or foreign else None


def _pip(home: Path, *arguments: str) -> None:
    # Most modules are never imported here, so they need not be compiled.
    quick = ("--quiet", "--no-compile", "--disable-pip-version-check")
    _run(str(home / "bin/python"), "-m", "pip", "install", *quick, *arguments)


def _git(*arguments: str) -> bytes:
    return _run("git", *arguments)


def _run(*command: str) -> bytes:
    return subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout  # noqa: S603


_STEPS: Mapping[str, Callable[[], str | None]] = {"build": build, "check": check, "sbom": sbom}

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
