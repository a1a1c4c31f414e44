"""
Which key the service signed with at what time, and whether the wallet has accepted it.

A wallet that answers INVALID_SIGNATURE after a rotation is not broken: it may not know the new key yet. The pages say
which of the two it is.
"""

from collections import deque
from dataclasses import dataclass, replace
from threading import Lock
from typing import Final

#: Rotations that are remembered, the newest.
_KEPT: Final = 100


@dataclass(frozen=True, slots=True)
class KeyPeriod:
    """
    A time in which the service signed with one key.

    Attributes:
        began_millis: When it began, by the machine's clock; None for the key of the start.
        accepted: Whether the wallet has accepted the key once; None if it has not answered yet.
    """

    began_millis: int | None
    accepted: bool | None = None

    @property
    def is_doubtful(self) -> bool:
        """Whether it began with a rotation, and the wallet has not accepted the key."""
        return self.began_millis is not None and not self.accepted


class KeyHistory:
    """The keys of a running service, from any thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._periods: deque[KeyPeriod] = deque([KeyPeriod(None)], maxlen=_KEPT)

    @property
    def now(self) -> KeyPeriod:
        """The time that began with the latest rotation, or with the start."""
        return self._periods[-1]

    def at(self, at_millis: int) -> KeyPeriod:
        """Return the time in which *at_millis* lies; the oldest one that is remembered for an earlier time."""
        with self._lock:
            begun = [each for each in self._periods if each.began_millis is None or each.began_millis <= at_millis]
            return begun[-1] if begun else self._periods[0]

    def is_now(self, period: KeyPeriod) -> bool:
        """Return whether *period* has not ended."""
        return period.began_millis == self.now.began_millis

    def switched(self, at_millis: int) -> None:
        """Let a new time begin."""
        with self._lock:
            self._periods.append(KeyPeriod(at_millis))

    def answered(self, *, accepted: bool) -> None:
        """Note whether the wallet *accepted* a call that the present key has signed; once accepted, it stays so."""
        with self._lock:
            now = self._periods[-1]
            self._periods[-1] = replace(now, accepted=now.accepted or accepted)
