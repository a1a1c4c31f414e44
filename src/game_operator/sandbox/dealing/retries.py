"""
When a service sends a webhook again that was not answered definitely (assumed, docs/decisions/0017).

The specification shows no retries (spec §6). These are the habits of services there are, from none at all to endless.
"""

from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from game_operator.errors import ConfigurationError, shown

__all__ = ["DEFAULT_RETRIES", "RETRY_PRESETS", "RetryPreset", "retry_preset"]

_SECOND: Final = 1_000
_MINUTE: Final = 60 * _SECOND
_DAY: Final = 24 * 60 * _MINUTE


@dataclass(frozen=True, slots=True)
class RetryPreset:
    """
    The waits between one delivery of a call and the next.

    Attributes:
        name: What it is chosen by.
        title: What it does, for people.
        waits_millis: The first waits.
        then_millis: The wait after those, for ever; None gives up.
    """

    name: str
    title: str
    waits_millis: tuple[int, ...]
    then_millis: int | None

    def wait_millis(self, attempts: int) -> int | None:
        """Return how long to wait after *attempts* deliveries; None if there is no further one."""
        return self.waits_millis[attempts - 1] if attempts <= len(self.waits_millis) else self.then_millis


#: By name.
RETRY_PRESETS: Final = MappingProxyType(
    {
        preset.name: preset
        for preset in (
            RetryPreset("none", "never again", (), None),
            RetryPreset(
                "three", "3 times after 1, 2 and 4 s, then every 10 minutes", (_SECOND, 2 * _SECOND, 4 * _SECOND),
                10 * _MINUTE,
            ),
            RetryPreset("ten", "10 times, 1 s apart, then every 60 s", (_SECOND,) * 10, _MINUTE),
            RetryPreset(
                "exponential", "after 1, 2, 4 s and so on, up to every 24 h",
                tuple(_SECOND << doubled for doubled in range(17)), _DAY,
            ),
        )
    }
)  # fmt: skip
DEFAULT_RETRIES: Final = "three"


def retry_preset(name: str) -> RetryPreset:
    """Return the preset called *name*; raise ConfigurationError if there is none."""
    try:
        return RETRY_PRESETS[name]
    except KeyError:
        known = ", ".join(RETRY_PRESETS)
        raise ConfigurationError(f"There are no retries {shown(name)}. Pass one of {known}.") from None
