"""Keys and addresses in unusual shape: pipes, passphrases that are no UTF-8, hosts that no machine can have."""

import subprocess
from pathlib import Path

import pytest

from tests.support.command_line import COMMAND, clean_environment, command
from tests.support.keys import encrypted

PASSPHRASE = "GAME_OPERATOR_PRIVATE_KEY_PASSPHRASE"
BUILD = ("token", "build", "--instance=i", "--player=p", "--operator-id=acme")


@pytest.mark.parametrize("name", [("games",), BUILD, ("doctor",)], ids=" ".join)
@pytest.mark.drawn(1)
def test_a_key_comes_through_a_pipe(settings: dict[str, str], key_file: Path, name: tuple[str, ...]) -> None:
    """`--private-key <(cat operator.pem)`: it is read once (spec §5)."""
    script = 'exec "$@" --private-key <(cat "$KEY")'
    ran = subprocess.run(
        ["bash", "-c", script, "bash", *COMMAND, *name],
        capture_output=True,
        text=True,
        env=clean_environment(settings | {"KEY": str(key_file)}),
        timeout=50,
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (0, "")


@pytest.mark.outside
def test_a_passphrase_comes_out_of_a_file(tmp_path: Path) -> None:
    """Each command that signs reads the file that the variable names."""
    key, secret = encrypted(tmp_path / "operator.pem", b"planted secret"), tmp_path / "secret"
    secret.write_text("planted secret\n")
    assert command(*BUILD, "--private-key", str(key), **{f"{PASSPHRASE}_FILE": str(secret)}).code == 0
    told = command(*BUILD, "--private-key", str(key), **{f"{PASSPHRASE}_FILE": str(secret), PASSPHRASE: "x"})
    assert (told.code, "are both set" in told.err) == (2, True)
