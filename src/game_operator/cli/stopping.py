"""How a command notices that it is to stop: by a signal, or because whoever started it has gone."""

import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["STOP_SIGNALS", "on_signals", "when_stdin_ends"]

#: Ctrl-C, and what a supervisor sends.
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def on_signals(numbers: Iterable[signal.Signals], handler: Callable[[int, FrameType | None], object]) -> Iterator[None]:
    """Let *handler* take signals, and whoever took them before take them again afterwards."""
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)


def when_stdin_ends(stop: Callable[[], object]) -> None:
    """Call *stop*, in a thread, once the other end of stdin is closed, as it is however its holder ends."""
    threading.Thread(target=_wait_for_end_of_stdin, args=(stop,), daemon=True).start()


def _wait_for_end_of_stdin(stop: Callable[[], object]) -> None:
    # Not sys.stdin.read(): a thread inside it holds a lock that the interpreter needs to end.
    while os.read(0, 1024):
        pass
    stop()
