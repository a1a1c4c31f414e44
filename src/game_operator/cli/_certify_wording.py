"""Why a scenario was not tried, in the words of the command line: options, where a program has arguments."""

from typing import Final

from game_operator.certify.supplies import needs_told
from game_operator.cli._certify_hooks import HOOKS

__all__ = ["by_options"]

_OPTIONS: Final = {
    "second_url": "--second-url URL",
    "old_key": "--old-key FILE",
    "retired_key": "--retired-key FILE",
    "elsewhere": "--elsewhere ADDRESS",
    "foreign_instance_id": "--foreign-instance ID",
    "random_operations": "--random-operations N",
} | {name: f"--hook {name}=COMMAND" for name in HOOKS}


def by_options(missing: tuple[str, ...]) -> str:
    """Return what a scenario needs that has not got *missing*, with the options that supply it."""
    options = [_OPTIONS[name] for name in missing if name in _OPTIONS]
    return needs_told(missing) + (f": pass {' '.join(options)}" if options else "")
