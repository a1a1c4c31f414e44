"""
Since when the service signs with its key, and whether the wallet has accepted it.

A wallet that answers INVALID_SIGNATURE after a rotation is not broken: it may not know the new key yet. The pages say
which of the two it is.
"""

from dataclasses import dataclass, replace
from threading import Lock


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
    """The key of a running service, from any thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        #: The time that began with the latest rotation, or with the start.
        self.now: KeyPeriod = KeyPeriod(None)

    def switched(self, at_millis: int) -> None:
        """Let a new time begin."""
        with self._lock:
            self.now = KeyPeriod(at_millis)

    def answered(self, *, accepted: bool) -> None:
        """Note whether the wallet *accepted* a call that the present key has signed; once accepted, it stays so."""
        with self._lock:
            self.now = replace(self.now, accepted=self.now.accepted or accepted)
