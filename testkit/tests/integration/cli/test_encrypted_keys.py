"""An encrypted key of the operator: its passphrase is asked for, or comes from the environment."""

import fcntl
import os
import pty
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

from tests.support.command_line import Run, clean_environment
from tests.support.keys import encrypted

PASSPHRASE = "GAME_OPERATOR_PRIVATE_KEY_PASSPHRASE"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def at_a_terminal(args: list[str], typed: list[str], **environ: str) -> tuple[int, str]:
    """Run ``game-operator`` at a terminal of its own, answer each question, and return all that was shown."""
    person, terminal = pty.openpty()

    def take_terminal() -> None:
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    with subprocess.Popen(
        [sys.executable, "-m", "game_operator.cli", *args],
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        env=clean_environment(environ | {"TERM": "dumb"}),
        preexec_fn=take_terminal,
    ) as process:
        os.close(terminal)
        shown = ""
        for line in typed:
            asked = shown.count(":")
            while shown.count(":") == asked:
                shown += os.read(person, 1024).decode()
            # Echo is off only once the prompt waits for its answer.
            while termios.tcgetattr(person)[3] & termios.ECHO:
                time.sleep(0.01)
            os.write(person, f"{line}\n".encode())
        try:
            while piece := os.read(person, 1024):
                shown += piece.decode()
        except OSError:
            pass  # Linux says so when the terminal is closed.
        code = process.wait(30)
    os.close(person)
    return code, shown


def test_at_a_terminal_the_passphrase_is_asked_for_and_not_shown(here: Path, settings: dict[str, str]) -> None:
    """Once, and it is never echoed."""
    made = encrypted(here / "operator.pem", b"planted secret")
    url = settings["GAME_OPERATOR_BASE_URL"]
    code, shown = at_a_terminal(
        ["games", "--base-url", url, "--operator-id", "acme", "--private-key", str(made)], ["planted secret"]
    )
    # The key opened, signed, and is not the registered one.
    assert (code, "HTTP 401" in shown, "planted" in shown) == (1, True, False), shown


def test_an_encrypted_key_without_passphrase_and_terminal_is_2(run: Run, here: Path, settings: dict[str, str]) -> None:
    """The message names the variable."""
    told = run("games", "--private-key", encrypted(here / "operator.pem", b"planted secret"))
    assert (told.code, told.out) == (2, "")
    assert f"operator.pem is encrypted. Set {PASSPHRASE}" in told.err
