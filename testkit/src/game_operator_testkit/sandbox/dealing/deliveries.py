"""
When a call is sent again.

The specification shows no retries (spec §6). The presets are the habits of existing services, from none at all to
endless (assumed, docs/decisions/0017).
"""

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

from game_operator.errors import ConfigurationError, shown


@dataclass(frozen=True, slots=True)
class RetryPreset:
    """
    The waits between one delivery of a call and the next.

    Attributes:
        name: What it is chosen by.
        title: What it does, for people.
        brief: The same in a few words.
        waits_millis: The first waits.
        then_millis: The wait after those, for ever; None gives up.
        repeats_withdraws: Whether a withdraw is sent again at all; otherwise it is cancelled by a rollback.
    """

    name: str
    title: str
    brief: str
    waits_millis: Sequence[int]
    then_millis: int | None = None
    repeats_withdraws: bool = True

    def wait_millis(self, attempts: int) -> int | None:
        """Return how long to wait after *attempts* deliveries; None if there is no further one."""
        return self.waits_millis[attempts - 1] if attempts <= len(self.waits_millis) else self.then_millis


#: By name; retries.toml has them.
RETRY_PRESETS: Final = MappingProxyType(
    {
        name: RetryPreset(name, **entry)
        for name, entry in tomllib.loads(Path(__file__).with_name("retries.toml").read_text(encoding="utf-8")).items()
    }
)
DEFAULT_RETRIES: Final = "three"


def retry_preset(name: str) -> RetryPreset:
    """Return the preset called *name*; raise ConfigurationError if it is unknown."""
    try:
        return RETRY_PRESETS[name]
    except KeyError:
        known = ", ".join(RETRY_PRESETS)
        raise ConfigurationError(f"The retries {shown(name)} are unknown. Pass one of {known}.") from None
