"""Ctrl-C and SIGTERM in a certification: the first one lets it end in a report, another one ends it at once."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Event

from game_operator.cli.output import say
from game_operator.cli.stopping import STOP_SIGNALS, on_signals

__all__ = ["Stop"]


class Stop(Event):
    """
    Set by the first signal; a run that is given it puts money back and ends.

    Attributes:
        number: The signal that came first; 0 if none did.
        is_played: Set by whoever has the run's report and goes on to tell it.
    """

    def __init__(self, run_id: str) -> None:
        super().__init__()
        self.number = 0
        self.is_played = False
        self._run_id = run_id

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Take both signals for as long as this lasts."""
        try:
            with on_signals(STOP_SIGNALS, self._heard):
                yield
        except (KeyboardInterrupt, asyncio.CancelledError):
            say("No report was made, or not all of it.", error=True)
            say(f"Money may have moved, and bets be open: their ids begin with {self._run_id}.", error=True)
            raise KeyboardInterrupt from None

    def _heard(self, number: int, _: object) -> None:
        if self.number:
            _leave()
            return
        self.number = number
        self.set()
        first = "the report is told" if self.is_played else "money is put back"
        with suppress(RuntimeError):  # It came in the middle of a line to the same stream.
            say(f"Stopping: {first} first. Ctrl-C once more leaves at once.", error=True)


def _leave() -> None:
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        raise KeyboardInterrupt from None
    # Raised among the callbacks of an event loop, it would lose whoever waits for one of them, and then all would wait.
    loop.call_soon_threadsafe(_cancel_all, loop)


def _cancel_all(loop: asyncio.AbstractEventLoop) -> None:
    for task in asyncio.all_tasks(loop):
        task.cancel()
