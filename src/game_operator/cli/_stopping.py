"""How a command that runs until it is stopped notices that whoever started it has gone."""

import os
import threading
from collections.abc import Callable

__all__ = ["when_stdin_ends"]


def when_stdin_ends(stop: Callable[[], object]) -> None:
    """Call *stop*, in a thread, once the other end of stdin is closed, as it is however its holder ends."""
    threading.Thread(target=_wait_for_end_of_stdin, args=(stop,), daemon=True).start()


def _wait_for_end_of_stdin(stop: Callable[[], object]) -> None:
    # Not sys.stdin.read(): a thread inside it holds a lock that the interpreter needs to end.
    while os.read(0, 1024):
        pass
    stop()
