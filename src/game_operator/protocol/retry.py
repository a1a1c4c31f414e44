"""How often a call is repeated, and how long it waits in between. Not in the specification: assumed."""

from dataclasses import dataclass
from typing import Final

from game_operator.errors import ConfigurationError, shown

__all__ = ["LONGEST_SECONDS", "RetryPolicy"]

#: Longer waits and timeouts are mistakes, and clocks and sockets refuse them later with errors of their own.
LONGEST_SECONDS: Final = 1_000_000.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """
    How a client repeats a call that failed for a passing reason.

    Waits double from *base_delay_seconds* to *max_delay_seconds*, each cut by up to half at random so that clients
    do not return in step. A longer Retry-After is honoured, unless it exceeds *max_retry_after_seconds* or what
    remains of the deadline: then the call ends at once.

    Attributes:
        max_attempts: Attempts in all; 1 means that nothing is repeated.
    """

    max_attempts: int = 3
    base_delay_seconds: float = 0.2
    max_delay_seconds: float = 5.0
    max_retry_after_seconds: float = 60.0

    def __post_init__(self) -> None:
        if type(self.max_attempts) is not int:
            raise TypeError(f"max_attempts must be an int, not {type(self.max_attempts).__name__}")
        if self.max_attempts < 1:
            raise ConfigurationError(f"max_attempts is {self.max_attempts}, but a call needs at least 1 attempt")
        for name in ("base_delay_seconds", "max_delay_seconds", "max_retry_after_seconds"):
            seconds = getattr(self, name)
            if isinstance(seconds, bool) or not isinstance(seconds, int | float):
                raise TypeError(f"{name} must be a number of seconds, not {type(seconds).__name__}")
            if not 0 <= seconds <= LONGEST_SECONDS:
                raise ConfigurationError(f"{name} is {shown(seconds)}, but must be from 0 to a million seconds")

    def delay_seconds(self, attempts: int, jitter: float) -> float:
        """Return the wait after *attempts* attempts; *jitter* is from 0 to 1."""
        # The exponent is bounded: 2.0 ** 1024 is an OverflowError.
        longest = min(self.max_delay_seconds, self.base_delay_seconds * 2.0 ** min(attempts - 1, 64))
        return longest * (1 - jitter / 2)
