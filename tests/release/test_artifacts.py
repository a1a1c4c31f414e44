"""The wheels and the sdists: what is in them, what is not, and that they come out the same anywhere and work alone."""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from email.message import Message
from email.parser import HeaderParser
from importlib.metadata import Distribution, distribution
from pathlib import Path
from typing import NamedTuple, Self
from venv import EnvBuilder

import pytest
from packaging.requirements import Requirement

from game_operator import __version__
from game_operator.cli.app import TESTKIT_NAMES
from tests.support.documents import ROOT


class EmptyEnvironment:
    """
    A fresh virtual environment in *home* without pip.

    What is required is not downloaded: the files of the versions that are tested here are linked into it.
    """

    def __init__(self, home: Path) -> None:
        EnvBuilder(symlinks=True).create(home)
        self.bin: Path = home / "bin"
        (self._packages,) = home.glob("lib/python*/site-packages")

    def install(self, wheel: Path, extra: str = "") -> Self:
        """Unpack *wheel*, and link what it requires, with one of its extras perhaps."""
        with zipfile.ZipFile(wheel) as files:
            files.extractall(self._packages)
        name, version, *_ = wheel.name.split("-")
        about = Distribution.at(self._packages / f"{name}-{version}.dist-info")
        for found in {each for name in {"", extra} for each in _required(about, name, set())}:
            for top in {file.parts[0] for file in found.files or () if file.parts[0] not in ("..", "__pycache__")}:
                link = self._packages / top
                if not link.exists():
                    link.symlink_to(Path(str(found.locate_file(top))).resolve())
        return self

    def run(self, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
        """Run Python with *arguments* and nothing of this process's environment."""
        command = [str(self.bin / "python"), "-W", "error", "-I", *arguments]
        return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=55, check=False)


def _required(about: Distribution, extra: str, seen: set[str]) -> Iterator[Distribution]:
    """Yield what *about* requires with *extra*, and what that requires."""
    for requirement in map(Requirement, about.requires or ()):
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": extra}):
            continue
        found = distribution(requirement.name)
        if not requirement.name.startswith("game-operator"):
            yield found
        for each in ("", *sorted(requirement.extras)):
            key = f"{requirement.name}[{each}]"
            if key not in seen:
                seen.add(key)
                yield from _required(found, each, seen)


pytestmark = pytest.mark.outside

_SDK, _TESTKIT = "game_operator", "game_operator_testkit"
#: Where the project of each distribution is.
_FOLDERS = {_SDK: ROOT, _TESTKIT: ROOT / "testkit"}


class Built(NamedTuple):
    """Both files of a distribution."""

    package: str
    sdist: Path
    wheel: Path

    @property
    def name(self) -> str:
        """The package with the version, with which names in both begin."""
        return f"{self.package}-{__version__}"


def _build(source: Path, out: Path, *targets: str, **differently: object) -> None:
    """Build with the locked hatchling, which needs no network."""
    command = [sys.executable, "-m", "hatchling", "build", *targets, "--directory", str(out)]
    environment = os.environ | {"SOURCE_DATE_EPOCH": "1700000000"}
    subprocess.run(command, cwd=source, env=environment, check=True, capture_output=True, timeout=50, **differently)  # type: ignore[call-overload]


@pytest.fixture(scope="session")
def both(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Built]:
    """The files of both distributions as they are now."""
    out = tmp_path_factory.mktemp("dist")
    for folder in _FOLDERS.values():
        _build(folder, out)
    names = {package: f"{package}-{__version__}" for package in _FOLDERS}
    return {
        package: Built(package, out / f"{name}.tar.gz", out / f"{name}-py3-none-any.whl")
        for package, name in names.items()
    }


@pytest.fixture(params=_FOLDERS)
def built(request: pytest.FixtureRequest, both: dict[str, Built]) -> Built:
    """The files of each distribution."""
    return both[request.param]


def _package_files(package: str) -> set[str]:
    """Return the files of the package that git knows, or would take."""
    folder = _FOLDERS[package]
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--deduplicate", f"src/{package}"]
    listed = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout.splitlines()
    return {name.removeprefix("src/") for name in listed if (folder / name).exists()}


def _texts(built: Built) -> dict[str, bytes]:
    """Return all members of both files."""
    with zipfile.ZipFile(built.wheel) as wheel:
        found = {f"wheel:{name}": wheel.read(name) for name in wheel.namelist()}
    with tarfile.open(built.sdist) as sdist:
        files = [(member.name, sdist.extractfile(member)) for member in sdist.getmembers()]
        return found | {f"sdist:{name}": file.read() for name, file in files if file is not None}


def test_the_wheel_has_the_package_and_nothing_else(built: Built) -> None:
    """Every file of the package, templates, SQL and pictures too, and the marker that it has types."""
    with zipfile.ZipFile(built.wheel) as wheel:
        names = set(wheel.namelist())
    about = {f"{built.name}.dist-info/{each}" for each in ("METADATA", "RECORD", "WHEEL", "entry_points.txt")}
    assert names == _package_files(built.package) | about | {f"{built.name}.dist-info/licenses/LICENSE"}
    assert f"{built.package}/py.typed" in names
    data = {_SDK: {".html", ".sql", ".toml"}, _TESTKIT: {".css", ".html", ".js", ".json", ".svg", ".toml"}}
    assert data[built.package] <= {Path(name).suffix for name in names}


def test_the_sdk_is_light(both: dict[str, Built]) -> None:
    """An auditor reads what runs in production: nothing that forges, lies or delays is in it."""
    assert both[_SDK].wheel.stat().st_size <= 780_000
    assert [name for name in _package_files(_SDK) if "testkit" in name] == []


@pytest.mark.artefact
def test_the_sdist_has_what_the_wheel_is_built_from(built: Built) -> None:
    """No tests, whose keys are for tests alone; no file that lies about in a folder of work."""
    with tarfile.open(built.sdist) as sdist:
        names = {member.name.removeprefix(f"{built.name}/") for member in sdist.getmembers() if member.isfile()}
        modes = {member.mode for member in sdist.getmembers() if member.isfile()}
        owners = {(member.uid, member.gid, member.uname, member.gname) for member in sdist.getmembers()}
    beside = {".gitignore", "LICENSE", "PKG-INFO", "README.md", "pyproject.toml"}
    beside |= {"CHANGELOG.md", "SECURITY.md"} if built.package == _SDK else set()
    assert names == {f"src/{name}" for name in _package_files(built.package)} | beside
    assert modes == {0o644}
    assert owners == {(0, 0, "", "")}


@pytest.mark.artefact
def test_no_key_and_no_folder_of_ours_is_in_them(built: Built) -> None:
    """A private key begins with a line that only the code that looks for it has, and never a whole one."""
    found = _texts(built)
    assert len(found) > 300
    key = re.compile(rb"-----BEGIN [A-Z ]*PRIVATE KEY-----\s+[A-Za-z0-9+/]{40}")
    assert key.search((ROOT / "tests" / "vectors" / "TEST-ONLY-private-key.pem").read_bytes())
    assert [name for name, text in found.items() if key.search(text)] == []
    assert [name for name, text in found.items() if os.fsencode(ROOT) in text] == []


@pytest.mark.artefact
def test_the_same_wheel_comes_out_of_the_sdist(built: Built, tmp_path: Path) -> None:
    """In another folder, with another umask and time zone: the build can be repeated, and the sdist is complete."""
    with tarfile.open(built.sdist) as sdist:
        sdist.extractall(tmp_path, filter="data")
    _build(tmp_path / built.name, tmp_path, "--target", "wheel", umask=0o077)
    again = tmp_path / built.wheel.name
    assert hashlib.sha256(again.read_bytes()).digest() == hashlib.sha256(built.wheel.read_bytes()).digest()


@pytest.mark.artefact
def test_what_an_index_shows(built: Built) -> None:
    """Version, licence, and no address that does not exist."""
    about = _metadata(built)
    name = built.package.replace("_", "-")
    assert (about["Name"], about["Version"], about["License-Expression"]) == (name, __version__, "MIT")
    assert about["Requires-Python"] == ">=3.11"
    assert "Typing :: Typed" in about.get_all("Classifier", [])
    assert about.get_all("Project-URL") is None


def test_what_each_brings_and_requires(both: dict[str, Built]) -> None:
    """One command; the plugin of pytest comes with the testkit, which requires the SDK of its version and no pytest."""
    sdk, testkit = (_about(both[package], "entry_points.txt") for package in (_SDK, _TESTKIT))
    assert sdk == "[console_scripts]\ngame-operator = game_operator.cli:main\n"
    assert re.findall(r"^(\w+) = game_operator_testkit\.cli\.\1:\1$", testkit, re.MULTILINE) == sorted(TESTKIT_NAMES)
    assert "game_operator_testkit = game_operator_testkit.plugin.fixtures" in testkit
    required = _metadata(both[_TESTKIT]).get_all("Requires-Dist", [])
    assert f"game-operator[cli]=={__version__}" in required
    assert [each for each in required if "pytest" in each] == []
    of_sdk = _metadata(both[_SDK])
    extras = of_sdk.get_all("Provides-Extra", [])
    assert sorted(extras) == ["all", "aws", "cli", "httpx2", "otel", "postgres", "serve", "socks", "testkit"]
    (testkit,) = [each for each in of_sdk.get_all("Requires-Dist", []) if "testkit" in each]
    assert testkit == f"game-operator-testkit=={__version__}; extra == 'testkit'"


def _about(built: Built, file: str) -> str:
    return _texts(built)[f"wheel:{built.name}.dist-info/{file}"].decode()


def _metadata(built: Built) -> Message:
    return HeaderParser().parsestr(_about(built, "METADATA"))


#: Imports all public names, and answers a webhook from a ledger.
_SDK_ALONE = """
import importlib.util, pathlib
import game_operator
from game_operator import backoffice, ledger, signers, wallet, webhooks
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa
import base64, decimal

for package in (game_operator, backoffice, ledger, signers):
    for name in package.__all__:
        getattr(package, name)
for name in ("game_operator_testkit", "jinja2", "psycopg", "pytest", "starlette", "typer", "uvicorn"):
    assert importlib.util.find_spec(name) is None, name
key = rsa.generate_private_key(65537, 2048)
body = b'{"player_id":"p1","amount":500,"action":"BET","action_id":"b1","tx_id":"w1","game":"g","instance_id":"i"}'
signature = base64.urlsafe_b64encode(key.sign(body, padding.PKCS1v15(), hashes.SHA256())).rstrip(b"=").decode()
receiver = webhooks.WebhookReceiver(authenticator=webhooks.RsaSignature([key.public_key()]))
with ledger.SqlLedger("sqlite:///wallet.db") as books:
    books.open_account("p1", decimal.Decimal("20.00"))
    reply = receiver.handle("/withdraw", {"signature": signature}, body, wallet.Wallet(books))
    assert books.verify().sound
print(reply.status, reply.body.decode())
"""

#: Certifies a wallet, and asks the sandbox for its games.
_TESTKIT_ALONE = """
import importlib.util
from game_operator import Cents
from game_operator.ledger import MemoryLedger
from game_operator.wallet import Wallet
from game_operator.webhooks import RsaSignature, WebhookReceiver
from game_operator_testkit import Sandbox, certify_in_process
from game_operator_testkit.provider.keys import new_key

assert importlib.util.find_spec("pytest") is None
key = new_key()
receiver = WebhookReceiver(authenticator=RsaSignature([key.public_key()]))
wallet = Wallet(MemoryLedger({name: Cents(100_000) for name in ("p1", "p2")}))
options = dict(signing_key=key, player_id="p1", other_player_id="p2", only=("A02", "B01"))
sound = certify_in_process(lambda *request: receiver.handle(*request, wallet), **options)
with Sandbox() as sandbox, sandbox.client() as client:
    games = client.fetch_games()
print(sound.passed, len(sound.verdicts), len(games) > 10)
"""


def test_the_sdk_works_alone(both: dict[str, Built], tmp_path: Path) -> None:
    """Without the testkit and without any extra."""
    environment = EmptyEnvironment(tmp_path / "venv").install(both[_SDK].wheel)
    done = environment.run("-c", _SDK_ALONE, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    assert re.match(r'200 \{"type":"SUCCESS","balance":15\.00,"timestamp":\d+\}', done.stdout), done.stdout


def test_the_testkit_works_alone(both: dict[str, Built], tmp_path: Path) -> None:
    """With the SDK that it requires, and without pytest: it certifies a wallet, and its commands are there."""
    environment = EmptyEnvironment(tmp_path / "venv").install(both[_SDK].wheel).install(both[_TESTKIT].wheel)
    done = environment.run("-c", _TESTKIT_ALONE, cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "True 2 True\n", ""), done.stderr
    shown = environment.run("-m", "game_operator.cli", "certify", "--help", cwd=tmp_path)
    assert (shown.returncode, shown.stderr) == (0, ""), shown.stderr


def test_the_commands_of_the_testkit_without_it(both: dict[str, Built], tmp_path: Path) -> None:
    """One line with what to install, exit code 2; the others work, and the help lists them with that line."""
    environment = EmptyEnvironment(tmp_path / "venv").install(both[_SDK].wheel, extra="cli")
    for name in TESTKIT_NAMES:
        told = environment.run("-m", "game_operator.cli", name, "--help", cwd=tmp_path)
        assert (told.returncode, told.stdout) == (2, "")
        assert told.stderr == (
            f"Error: The command {name} comes with game-operator-testkit, which is not installed. "
            f"Run: pip install 'game-operator-testkit=={__version__}'\n"
        )
    shown = environment.run("-m", "game_operator.cli", "--help", cwd=tmp_path)
    assert (shown.returncode, shown.stdout.count("comes with")) == (0, len(TESTKIT_NAMES))
    made = environment.run("-m", "game_operator.cli", "keygen", "key.pem", cwd=tmp_path)
    assert (made.returncode, made.stderr) == (0, "")


@pytest.mark.artefact
@pytest.mark.timeout(600)
def test_every_name_has_a_type(both: dict[str, Built], tmp_path: Path) -> None:
    """All of the package, and not only what is public, in the wheel that users install."""
    with zipfile.ZipFile(both[_SDK].wheel) as wheel:
        wheel.extractall(tmp_path)
    (tmp_path / "pyrefly.toml").touch()  # Else it looks for settings in the folders above.
    pyrefly = str(Path(sys.executable).with_name("pyrefly"))
    where = ("--search-path", str(tmp_path), "--python-interpreter-path", sys.executable)
    command = [pyrefly, "coverage", "check", "--fail-under", "100", *where, "--output-format", "min-text", _SDK]
    checked = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=280, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "100.00%" in checked.stdout + checked.stderr


@pytest.mark.artefact
@pytest.mark.torture
@pytest.mark.timeout(1800)
def test_make_dist_in_a_fresh_clone(tmp_path: Path) -> None:
    """Built twice and compared, each file installed into a fresh venv, the demo run, the SBOM written."""
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
    done = subprocess.run(
        ["make", "dist", f"PYTHON={sys.executable}"], cwd=clone, capture_output=True, text=True, timeout=1750
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for file in sorted((clone / "dist").iterdir()):
        assert f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}" in done.stdout
    assert {file.name for file in (clone / "sbom").iterdir()} == {"game-operator.cdx.json", "licences.md"}
    shutil.rmtree(clone)
