"""Commands that do something to the wallet under test, for the scenarios that need it: ``--hook NAME=COMMAND``."""

import shlex
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from typing import Final

from game_operator.errors import ConfigurationError, shown
from game_operator.money import amount_from_cents
from game_operator_testkit.certifier.engine.steps import Undone
from game_operator_testkit.certifier.engine.supplies import Deed, Supplies

#: docs/how-to/certify.md says which arguments each gets at the end of its command.
HOOKS: Final = tuple(each.name for each in fields(Supplies) if each.type == Deed | None)
_OPENS: Final = "open_account"
_ASKED: Final = "stored_cents"


def hooks_of(given: Iterable[str], *, seconds: float = 30.0) -> dict[str, Callable[..., object]]:
    """
    Return what *given* defines as ``NAME=COMMAND``, by name; each may take at most *seconds*.

    Raises:
        ConfigurationError: A name is unknown, or its command cannot be read.
    """
    found: dict[str, Callable[..., object]] = {}
    for each in given:
        name, _, command = each.partition("=")
        if name not in HOOKS or not command.strip():
            # What stands behind the name may be a password.
            raise ConfigurationError(
                f"--hook takes NAME=COMMAND, and {shown(name)} is not one of its names, or has no command. There are "
                f"{', '.join(HOOKS)}."
            )
        try:
            words = shlex.split(command)
        except ValueError as wrong:
            raise ConfigurationError(
                f"The command of --hook {name} cannot be read: {wrong}. Quote it as in a shell."
            ) from None
        found[name] = _hook(name, words, seconds)
    return found


def _hook(name: str, words: Sequence[str], seconds: float) -> Callable[..., object]:
    def hook(*arguments: object) -> object:
        given = list(map(str, arguments))
        if name == _OPENS:
            given[1] = f"{amount_from_cents(int(given[1])):.2f}"
        written = _run(name, [*words, *given], seconds)
        if name != _ASKED:
            return None
        try:
            return int(written)
        except ValueError:
            problem = shown(written.decode(errors="backslashreplace"))
            raise Undone(f"the hook {_ASKED} must write a number of whole cents, and wrote {problem}") from None

    return hook


def _run(name: str, command: Sequence[str], seconds: float) -> bytes:
    """Run *command*, and return what it wrote."""
    # Files, and no pipes: a restart leaves a server behind that holds on to what it was given.
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        try:
            # In its own session: a Ctrl-C that is meant for us does not stop it.
            done = subprocess.run(  # noqa: S603 - the user of this command gave it, and no shell reads it
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                timeout=seconds,
                start_new_session=True,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise Undone(f"the hook {name} was not done within {seconds:g} s") from None
        except OSError as failed:
            raise Undone(f"the hook {name} could not be run: {failed.strerror}") from None
        out.seek(0)
        err.seek(0)
        if done.returncode:
            last_line = err.read().decode(errors="backslashreplace").strip().rpartition("\n")[2].strip()
            reason = f": {shown(last_line)}" if last_line else ""
            raise Undone(f"the hook {name} ended with exit code {done.returncode}{reason}")
        return out.read()
