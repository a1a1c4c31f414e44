"""Commands that do something to the wallet under test, for the scenarios that need it: ``--hook NAME=COMMAND``."""

import re
import shlex
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from game_operator.errors import ConfigurationError, shown
from game_operator.money import amount_from_cents
from game_operator_testkit.certifier.engine.steps import Undone

#: The arguments of each hook, in this order; each must stand in its command. An amount is in units, with two decimals.
HOOKS: Final[Mapping[str, tuple[str, ...]]] = {
    "block": ("player",),
    "unblock": ("player",),
    "open_account": ("player", "amount"),
    "fail": (),
    "recover": (),
    "restart": (),
    "distrust": (),
    "trust": (),
    "later": ("days",),
    "stored_cents": ("player",),
}
_ASKED: Final = "stored_cents"
_CENTS: Final = re.compile(rb"\s*(-?[0-9]{1,18})\s*\Z")
_PLACE: Final = re.compile(r"\{(player|amount|days)\}")


def hooks_of(given: Iterable[str], *, seconds: float = 30.0) -> dict[str, Callable[..., object]]:
    """
    Return what *given* defines as ``NAME=COMMAND``, by name; each may take at most *seconds*.

    Raises:
        ConfigurationError: A name is unknown, or its command cannot work.
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
        found[name] = _hook(name, _words(name, command), seconds)
    return found


def _words(name: str, command: str) -> list[str]:
    try:
        words = shlex.split(command)
    except ValueError as wrong:
        raise ConfigurationError(
            f"The command of --hook {name} cannot be read: {wrong}. Quote it as in a shell."
        ) from None
    there = {place for word in words for place in _PLACE.findall(word)}
    if there != set(HOOKS[name]):
        places = " and ".join(f"{{{place}}}" for place in HOOKS[name]) or "no {place}"
        raise ConfigurationError(f"The command of --hook {name} must have {places}.")
    return words


def _hook(name: str, words: Sequence[str], seconds: float) -> Callable[..., object]:
    def hook(*arguments: object) -> object:
        values = dict(zip(HOOKS[name], map(str, arguments), strict=True))
        if "amount" in values:
            values["amount"] = f"{amount_from_cents(int(values['amount'])):.2f}"
        # In one pass: an id that itself has braces is data.
        written = _run(name, [_PLACE.sub(lambda place: values[place[1]], word) for word in words], seconds)
        if name != _ASKED:
            return None
        if found := _CENTS.match(written):
            return int(found[1])
        problem = shown(written.decode(errors="backslashreplace"))
        raise Undone(f"the hook {_ASKED} must write a number of whole cents, and wrote {problem}")

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
