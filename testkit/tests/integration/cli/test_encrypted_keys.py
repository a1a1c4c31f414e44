"""An encrypted key of the operator: its passphrase comes from the environment."""

from pathlib import Path

import pytest

from tests.support.command_line import Run
from tests.support.keys import encrypted

PASSPHRASE = "GAME_OPERATOR_PRIVATE_KEY_PASSPHRASE"


def test_an_encrypted_key_without_passphrase_is_2(run: Run, tmp_path: Path, settings: dict[str, str]) -> None:
    """The message names the variable."""
    told = run("games", "--private-key", encrypted(tmp_path / "operator.pem", b"planted secret"))
    assert (told.code, told.out) == (2, "")
    assert f"operator.pem' is encrypted. Pass its passphrase ({PASSPHRASE}" in told.err


def test_the_passphrase_of_the_environment_opens_it(
    run: Run, tmp_path: Path, settings: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The key opens, signs, and is not the registered one."""
    monkeypatch.setenv(PASSPHRASE, "planted secret")
    told = run("games", "--private-key", encrypted(tmp_path / "operator.pem", b"planted secret"))
    assert (told.code, "HTTP 401" in told.err, "planted" in told.err) == (1, True, False)
