"""What a run is allowed: how long it may take, and whether somebody has stopped it."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event

from game_operator.certify.engine.scenario import Found, Stopped
from game_operator.certify.report.mistakes import OUT_OF_TIME
from game_operator.certify.report.verdicts import Weight

__all__ = ["Allowance"]


class Allowance:
    """
    A run's time, and the word that ends it.

    Args:
        seconds: How long the run may take in all.
        stopping: Set by whoever wants it to end.
    """

    def __init__(self, seconds: float, stopping: Event | None = None) -> None:
        self._seconds = seconds
        self._until = time.monotonic() + seconds
        self._stopping = stopping or Event()

    @property
    def is_stopping(self) -> bool:
        """Whether somebody wants it to end."""
        return self._stopping.is_set()

    def check(self, cut: str) -> None:
        """
        Hold that the run may go on.

        Args:
            cut: What becomes of the scenario otherwise, such as ``not begun``.

        Raises:
            Stopped: Somebody stopped it.
            Found: Its time is used up.
        """
        if self.is_stopping:
            raise Stopped(f"{cut}: the run was stopped")
        if time.monotonic() > self._until:
            raise Found(f"{cut}: the run's {self._seconds:g} s were used up", Weight.CONTRACT_BROKEN, OUT_OF_TIME)

    @contextmanager
    def grace(self, seconds: float) -> Iterator[None]:
        """Let *seconds* be used whatever is left, and whoever wants it to end: money has to be brought back."""
        until, stopping = self._until, self._stopping
        self._until, self._stopping = max(until, time.monotonic() + seconds), Event()
        try:
            yield
        finally:
            self._until, self._stopping = until, stopping
