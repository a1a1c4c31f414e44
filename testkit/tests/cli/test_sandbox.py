"""`game-operator sandbox`: serves until it is stopped, with keys that are its owner's alone."""

import json
import shlex
import signal
import socket
import subprocess
from pathlib import Path
from typing import Any

import httpx
import pytest

from game_operator import OperatorClient
from testkit.tests.support.command_fixtures import served
from tests.support.command_line import Told, command, mode_of, started, stopped

pytestmark = [pytest.mark.outside, pytest.mark.drawn(13)]


def client_of(document: dict[str, Any]) -> OperatorClient:
    """Return a client set up by what the sandbox prints."""
    return OperatorClient(
        document["base_url"], document["operator_id"], Path(document["private_key_file"]), trust_env=False
    )


def test_lines_to_paste_set_a_client_up(tmp_path: Path) -> None:
    """What it prints, pasted into a shell, makes every other command work; Ctrl-C ends it well."""
    keys = tmp_path / "a directory's keys"
    with started("sandbox", "--directory", str(keys), "--operator-id", "my-casino") as process:
        assert process.stdout is not None
        printed = [process.stdout.readline()]
        while not printed[-1].startswith("bet EXPIRED"):
            printed.append(process.stdout.readline())
        exports = [line for line in printed if line.startswith("export ")]
        pasted = dict(shlex.split(line)[1].split("=", 1) for line in exports)
        assert pasted.keys() == {"GAME_OPERATOR_BASE_URL", "GAME_OPERATOR_ID", "GAME_OPERATOR_PRIVATE_KEY_FILE"}
        assert pasted["GAME_OPERATOR_ID"] == "my-casino"
        assert pasted["GAME_OPERATOR_BASE_URL"] in printed[0]
        shell = subprocess.run(
            ["sh", "-c", f"{''.join(exports)}\nenv"], capture_output=True, text=True, check=True, env={"PATH": "/bin"}
        )
        assert {f"{name}={value}" for name, value in pasted.items()} <= set(shell.stdout.splitlines())
        assert command("doctor", "--json", **pasted).code == 0
        told = stopped(process, signal.SIGINT)
    assert (told.code, told.out, told.err) == (0, "", "The sandbox has stopped.\n")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: signal.Signals(number).name)
def test_a_signal_ends_it_and_takes_the_keys_away(tmp_path: Path, number: int) -> None:
    """Exit code 0, nothing more printed, and the directory it made for its keys is gone."""
    with served(TMPDIR=str(tmp_path)) as (document, process):
        private = Path(document["private_key_file"])
        assert private.is_relative_to(tmp_path)
        with client_of(document) as client:
            assert client.fetch_games()
        told = stopped(process, number)
    assert told == Told(0, "", "")
    assert list(tmp_path.iterdir()) == []


def test_a_restart_keeps_keys_port_and_world(tmp_path: Path) -> None:
    """
    A client goes on working over a restart; the same seed makes the same ids, another does not.

    The pages are where it says; the keys of the service lie beside the operator's.
    """
    keys = ("--directory", str(tmp_path / "keys"))
    with served(*keys, "--seed", "7") as (first, process):
        private, public, service = (
            Path(first[f"{name}_key_file"]) for name in ("private", "public", "service_private")
        )
        before = {path: path.read_bytes() for path in (tmp_path / "keys").iterdir()}
        # Its owner's alone, and not printed.
        assert (mode_of(private), mode_of(private.parent), mode_of(public)) == (0o600, 0o700, 0o644)
        assert (mode_of(service), service.parent) == (0o600, tmp_path / "keys")
        assert before[private].decode().splitlines()[1] not in json.dumps(first)
        page = httpx.get(first["control_room"], trust_env=False)
        assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
        assert "Lobby" in page.text
        told = httpx.get(first["control_room"] + "keys", trust_env=False).text
        assert Path(first["service_public_key_file"]).read_text().splitlines()[1] in told
        stopped(process, signal.SIGTERM)
    port = first["base_url"].rpartition(":")[2]
    with served(*keys, "--seed", "7", "--port", port) as (again, process):
        assert again | {"pid": 0} == first | {"pid": 0}
        assert {path: path.read_bytes() for path in (tmp_path / "keys").iterdir()} == before
        stopped(process, signal.SIGTERM)
    with served(*keys, "--seed", "8") as (other, _), client_of(other) as client:
        assert other["bet_ids"]["OPEN"] != first["bet_ids"]["OPEN"]
        assert client.fetch_bet(other["bet_ids"]["OPEN"]).status == "OPEN"


def test_another_machine_is_let_in_by_name_alone() -> None:
    """Loopback is the default; --host 0.0.0.0 is refused, and served with --allow-remote."""
    refused = command("sandbox", "--host", "0.0.0.0", "--json").error
    assert refused["exit_code"] == 2
    assert "--allow-remote" in refused["message"]
    with served("--host", "0.0.0.0", "--allow-remote") as (document, _):
        port = document["base_url"].rpartition(":")[2]
        assert document["control_room"] == f"http://127.0.0.1:{port}/"
        assert httpx.get(document["control_room"], trust_env=False).status_code == 200
        stranger = httpx.get(f"http://127.0.0.1:{port}/", headers={"Host": "evil.example"}, trust_env=False)
        assert stranger.status_code == 421


def test_a_port_that_is_taken_is_2(tmp_path: Path) -> None:
    """A sentence, no traceback, and no keys left in a temporary directory."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        told = command("sandbox", "--port", port, TMPDIR=str(tmp_path))
        assert (told.code, told.out) == (2, "")
        assert f"cannot listen on port {port}" in told.err
        assert "Traceback" not in told.err
    assert list(tmp_path.iterdir()) == []
