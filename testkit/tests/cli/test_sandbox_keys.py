"""The directory of `game-operator sandbox`: what is made, what is refused, and what a rotation leaves there."""

import errno
import itertools
import re
import signal
from pathlib import Path

import httpx
import pytest

from game_operator.cli.files import write_privately
from game_operator.cli.keys import write_pair
from game_operator.client.sync import OperatorClient
from game_operator.errors import AuthenticationError, ConfigurationError
from game_operator_testkit.cli.key_directory import key_directory
from game_operator_testkit.provider.keys import ServiceKeys, new_key, private_pem
from game_operator_testkit.sandbox import Sandbox
from testkit.tests.support.command_fixtures import served
from tests.support.command_line import mode_of, stopped
from tests.support.keys import encrypted
from tests.support.leaks import everything_told

pytestmark = [pytest.mark.slow, pytest.mark.drawn(8)]


def public_pem_of(private: Path) -> str:
    """Return the public half of the key in *private*."""
    return ServiceKeys(private).current.public_key_pem().decode()


def files_of(place: Path) -> dict[str, bytes]:
    """Return what lies in *place*."""
    return {path.name: path.read_bytes() for path in place.iterdir() if path.is_file()}


def test_a_rotation_outlives_a_restart(tmp_path: Path) -> None:
    """The new key signs after it, the one before is the old one, and all files are as they must be."""
    keys = tmp_path / "keys"
    with served("--directory", str(keys)) as (first, process):
        before = files_of(keys)
        with httpx.Client(base_url=first["base_url"], trust_env=False, timeout=20) as http:
            page = http.get("/keys").text
            assert str(keys) in page
            token = re.search(r'name="form_token" value="([^"]+)"', page)
            assert token is not None
            assert http.post("/keys/prepare", data={"form_token": token[1]}).status_code == 303
            new_pem = http.get("/keys/service-new.pub.pem").text
            assert files_of(keys) == before
            assert http.post("/keys/rotate", data={"form_token": token[1]}).status_code == 303
        stopped(process, signal.SIGTERM)
    after = files_of(keys)
    assert after.keys() == before.keys() | {"service.old.pem"}
    assert after["service.old.pem"] == before["service.pem"]
    assert after["operator.pem"] == before["operator.pem"]
    assert after["service.pub.pem"].decode() == new_pem == public_pem_of(keys / "service.pem")
    assert {name: mode_of(keys / name) for name in after} == {
        name: 0o644 if name.endswith(".pub.pem") else 0o600 for name in after
    }
    with served("--directory", str(keys)) as (again, process):
        assert new_pem.splitlines()[1] in httpx.get(f"{again['base_url']}/keys", trust_env=False).text
        stopped(process, signal.SIGTERM)
    assert files_of(keys) == after


def test_the_key_before_is_given_as_the_old_one(tmp_path: Path) -> None:
    """So that the fault old-key signs with what the wallet was told to forget; and with the newest such."""
    with key_directory(tmp_path) as keys:
        made_up = keys.service_old
        assert made_up is None
        first = keys.service_public.read_text()
        keys.keep(new_key())
    with key_directory(tmp_path) as keys:
        assert keys.service_old is not None
        assert public_pem_of(keys.service_old) == first
        second = keys.service_public.read_text()
        keys.keep(new_key())
    with key_directory(tmp_path) as keys:
        assert keys.service_old is not None
        assert public_pem_of(keys.service_old) == second != first


@pytest.mark.parametrize(
    "written", [None, 0, 1, 2], ids=["a folder in the way", "disk full", "at the 2nd", "at the 3rd"]
)
def test_a_rotation_that_cannot_be_kept(written: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is switched, nothing is changed, and no key is told."""
    with key_directory(tmp_path) as keys:
        if written is None:
            (tmp_path / "service.old.pem").mkdir()
        else:
            _fill_the_disk(monkeypatch, after=written)
        before = files_of(tmp_path)
        sandbox = Sandbox(service_private_key=keys.service_private, key_keeper=keys)
        sandbox.prepare_service_key()
        following = sandbox.service.keys.prepared()
        with pytest.raises(ConfigurationError, match=r"cannot be kept in .* Nothing was switched") as refused:
            sandbox.rotate_service_key()
        assert files_of(tmp_path) == before
        assert sandbox.service_public_key_pem == keys.service_public.read_bytes()
    told = everything_told(refused.value)
    for key in (before["service.pem"], private_pem(following)):
        assert not any(line in told for line in key.decode().splitlines()[1:-1])


def _fill_the_disk(monkeypatch: pytest.MonkeyPatch, *, after: int) -> None:
    """Let only so many files be written."""
    writes = itertools.count()

    def write(path: Path, content: bytes, mode: int) -> None:
        if next(writes) == after:
            raise OSError(errno.ENOSPC, "No space left on device")
        write_privately(path, content, mode)

    monkeypatch.setattr("game_operator_testkit.cli.key_directory.write_privately", write)


def test_an_encrypted_key_of_the_operator(tmp_path: Path) -> None:
    """Its public half is enough: its client asks for the passphrase."""
    mine = write_pair(tmp_path / "operator.pem", bits=2048)
    encrypted(mine.private, b"secret")
    with key_directory(tmp_path) as keys:
        assert keys.public.read_text() == mine.public_pem


@pytest.mark.parametrize("given", [True, False], ids=["a directory", "none"])
def test_a_public_key_alone(tmp_path: Path, given: bool) -> None:
    """The client signs with its private half, which the sandbox never sees; no pair of the operator is made."""
    mine = write_pair(tmp_path / "mine.pem", bits=2048)
    keys = tmp_path / "keys"
    directory = ("--directory", str(keys)) if given else ()
    with served("--public-key", str(mine.public), *directory) as (document, process):
        assert document["private_key_file"] is None
        assert document["public_key_file"] == str(mine.public)
        assert "GAME_OPERATOR_PRIVATE_KEY_FILE" not in document["environment"]
        with OperatorClient(document["base_url"], "acme", mine.private, trust_env=False) as client:
            assert client.fetch_games()
        stranger = OperatorClient(document["base_url"], "acme", new_key(), trust_env=False)
        with stranger, pytest.raises(AuthenticationError):
            stranger.fetch_games()
        stopped(process, signal.SIGTERM)
    if given:
        assert files_of(keys).keys() == {"service.pem", "service.pub.pem"}
    with Sandbox(operator_public_key=mine.public) as sandbox, pytest.raises(ConfigurationError, match="key is yours"):
        sandbox.client()
