"""Why a scenario was not tried, in the words of the command line: options, where a program has arguments."""

import re
from typing import Final

from game_operator.cli._certify_hooks import HOOKS

__all__ = ["by_options"]

_SUPPLY: Final = re.compile(r": supply ([a-z_]+(?:, [a-z_]+)*)\Z")
_OPTIONS: Final = {
    "second_url": "--second-url URL",
    "old_key": "--old-key FILE",
    "retired_key": "--retired-key FILE",
    "elsewhere": "--elsewhere ADDRESS",
    "foreign_instance_id": "--foreign-instance ID",
    "random_operations": "--random-operations N",
} | {name: f"--hook {name}=COMMAND" for name in HOOKS}


def by_options(reason: str) -> str:
    """Return *reason* with the options that supply what is missing, if it says what to supply."""
    found = _SUPPLY.search(reason)
    if not found:
        return reason
    options = [_OPTIONS.get(name, name) for name in found[1].split(", ")]
    return f"{reason[: found.start()]}: pass {' '.join(options)}"
