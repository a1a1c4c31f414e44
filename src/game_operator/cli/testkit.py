"""
The commands that ``game-operator-testkit`` brings, by the entry-point group ``game_operator.commands``.

Only these five names are looked up, and only when one of them is typed or the help lists all commands. So every other
command works whatever is installed, and imports nothing of the testkit.
"""

from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, distribution
from typing import Any, Final, TypeAlias

from game_operator._version import __version__
from game_operator.errors import ConfigurationError

NAMES: Final = ("sandbox", "storm", "certify", "call", "demo")

_DISTRIBUTION: Final = "game-operator-testkit"
_GROUP: Final = "game_operator.commands"
_INSTALL: Final = f"pip install '{_DISTRIBUTION}=={__version__}'"

# Any: Typer reads the parameters of a command, whatever they are.
Command: TypeAlias = Callable[..., Any]


def command_of(name: str) -> Command:
    """
    Return the command *name* of the testkit.

    Raises:
        ConfigurationError: The testkit is missing, has another version, or cannot be imported; it says what to install.
    """
    try:
        testkit = distribution(_DISTRIBUTION)
    except PackageNotFoundError:
        raise ConfigurationError(
            f"The command {name} comes with {_DISTRIBUTION}, which is not installed. Run: {_INSTALL}"
        ) from None
    if testkit.version != __version__:
        raise ConfigurationError(
            f"{_DISTRIBUTION} {testkit.version} is installed, and game-operator {__version__} needs the same version "
            f"for the command {name}. Run: {_INSTALL}"
        )
    try:
        (entry,) = testkit.entry_points.select(group=_GROUP, name=name)
        command: Command = entry.load()
    except Exception as failed:  # Whatever a module of it, or of what it needs, raises when it is imported.
        raise ConfigurationError(
            f"{_DISTRIBUTION} cannot be imported for the command {name} ({type(failed).__name__}: {failed}). "
            f"Run: pip install --force-reinstall '{_DISTRIBUTION}=={__version__}'"
        ) from None
    return command


def command_for(name: str, typed: str | None) -> Command:
    """Return what stands for *name* where *typed* is the command, or None for the help of all."""
    if typed is not None:
        return command_of(name) if name == typed else _not_read
    try:
        return command_of(name)
    except ConfigurationError as missing:

        def unusable() -> None:
            """Return nothing: its text is for the help alone."""

        unusable.__doc__ = str(missing)
        return unusable


def _not_read() -> None:
    """Stand for a command, so that a misspelt one is answered with its name."""
