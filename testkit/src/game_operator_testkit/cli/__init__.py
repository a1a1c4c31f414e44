"""The commands of the testkit: ``game-operator`` finds them by the entry-point group ``game_operator.commands``."""

import tomllib
from collections.abc import Callable
from importlib.resources import files
from typing import Any, Final

from game_operator.cli.options import TEXTS, with_options

__all__ = ["command"]

_TEXTS: Final = TEXTS | tomllib.loads(files(__package__).joinpath("options.toml").read_text("utf-8"))


# Any: the parameters of a command are its options, whatever they are.
def command(run: Callable[..., Any]) -> Callable[..., Any]:
    """Return *run* as a command of ``game-operator``: with the texts of its options, and with ``--json``."""
    return with_options(run, run.__name__, _TEXTS)
