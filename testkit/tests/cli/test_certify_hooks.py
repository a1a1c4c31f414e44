"""The commands of `certify --hook`: run without a shell, bounded, and each failure a reason to skip a scenario."""

import shlex
import sys
import time
from pathlib import Path

import pytest

from game_operator.errors import ConfigurationError
from game_operator_testkit.certifier.engine.steps import Undone
from game_operator_testkit.cli.hooks import hooks_of

pytestmark = pytest.mark.outside


def _writing(path: Path, *words: str) -> str:
    """Return a command that writes its arguments to *path*, a line each."""
    program = f"import sys; open({str(path)!r}, 'w').write('\\n'.join(sys.argv[1:]))"
    return shlex.join([sys.executable, "-c", program, *words])


@pytest.mark.parametrize(
    ("name", "arguments", "written"),
    [
        pytest.param("block", ["ann"], ["ann"], id="a player"),
        pytest.param("open_account", ["new", 1050], ["new", "10.50"], id="an amount in units"),
        pytest.param("later", [89], ["89"], id="days"),
        pytest.param("block", ["$HOME a;b $(x) *\n'"], ["$HOME a;b $(x) *", "'"], id="an odd id"),
    ],
)
def test_what_a_command_is_told(name: str, arguments: list[object], written: list[str], tmp_path: Path) -> None:
    """Its arguments follow its own words, and nothing is read by a shell."""
    deeds = hooks_of([f"{name}={_writing(tmp_path / 'told', '$HOME', 'a;b')}"])
    assert deeds[name](*arguments) is None
    assert (tmp_path / "told").read_text().split("\n") == ["$HOME", "a;b", *written]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        pytest.param(["unblok=x"], "There are block, unblock,", id="a close match"),
        pytest.param(["dance=x"], "There are block, unblock,", id="none like it"),
        pytest.param(["restart"], "There are block, unblock,", id="no command"),
        pytest.param(["restart= "], "There are block, unblock,", id="an empty command"),
        pytest.param(["restart='x"], "No closing quotation", id="an open quote"),
    ],
)
def test_a_hook_that_cannot_work(given: list[str], says: str) -> None:
    """Told before anything is sent; a command may hold a password and is not shown."""
    with pytest.raises(ConfigurationError) as refused:
        hooks_of(each.replace("=x", "=true c2VjcmV0") for each in given)
    assert says in str(refused.value)
    assert "c2VjcmV0" not in str(refused.value)


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        pytest.param("sh -c 'exit 3'", "the hook restart ended with exit code 3", id="silent"),
        pytest.param(
            shlex.join([sys.executable, "-c", r"import sys; sys.exit('one\ntwo\x1b[31m\n ')"]),
            r"the hook restart ended with exit code 1: 'two\x1b[31m'",
            id="the last line, escaped",
        ),
        pytest.param("sh -c 'kill -9 $$'", "the hook restart ended with exit code -9", id="killed"),
    ],
)
def test_a_command_that_fails(command: str, reason: str) -> None:
    """Is the reason for which a scenario is not tried."""
    with pytest.raises(Undone) as failed:
        hooks_of([f"restart={command}"])["restart"]()
    assert str(failed.value) == reason


def test_a_command_that_hangs_is_killed() -> None:
    """Within its time limit."""
    began = time.monotonic()
    with pytest.raises(Undone, match=r"not done within 0\.3 s"):
        hooks_of(["restart=sleep 60"], seconds=0.3)["restart"]()
    assert time.monotonic() - began < 20


@pytest.mark.parametrize(
    ("written", "cents"),
    [
        pytest.param("10000", 10_000, id="cents"),
        pytest.param(" -5\n", -5, id="below zero, with blanks"),
        pytest.param("0", 0, id="nothing"),
    ],
)
def test_stored_cents_are_what_the_command_writes(written: str, cents: int) -> None:
    """A whole number, whatever stands around it."""
    assert hooks_of([f"stored_cents=printf %s%.0s {shlex.quote(written)}"])["stored_cents"]("ann") == cents
