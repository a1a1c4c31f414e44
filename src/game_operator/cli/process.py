"""
The process of a command: streams, signals, and the end of stdin.

The service decides what a command did. If its result cannot be written, because the reader has gone or the disk is
full, the command must not look undone: a script would grant again. So a lost stream raises nothing, and the exit code
reports it.
"""

import errno
import io
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, TextIO, cast

#: Ctrl-C, and what a supervisor sends.
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Outlet:
    """
    Stands for *stream*; None if the process was started without one.

    Attributes:
        lost: Why what was written went nowhere; None as long as all of it was taken.
    """

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = io.StringIO() if stream is None else stream
        self._absent = stream is None
        self.lost: OSError | None = None

    def write(self, text: str) -> int:
        """Write *text*, or take note that it cannot be written."""
        if self._absent:
            self.lost = OSError(errno.EBADF, "it is closed")
        if self.lost is None:
            try:
                return self._stream.write(text)
            except OSError as failed:
                self._lose(failed)
        return len(text)

    def flush(self) -> None:
        """Hand on what is buffered, or take note that it cannot be written."""
        if self.lost is None:
            try:
                self._stream.flush()
            except OSError as failed:
                self._lose(failed)

    def _lose(self, failed: OSError) -> None:
        self.lost = failed
        # What is still buffered goes nowhere, without a complaint at exit.
        with suppress(OSError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._stream.fileno())
            os.close(nowhere)

    # Any: these are the stream's own attributes, of whatever kind it is.
    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def lasting_streams() -> Iterator[Outlet]:
    """Put outlets in the place of stdout and stderr, and yield that of stdout."""
    before = sys.stdout, sys.stderr
    out = Outlet(sys.stdout)
    # cast: an outlet has every attribute of its stream.
    sys.stdout, sys.stderr = cast("TextIO", out), cast("TextIO", Outlet(sys.stderr))
    try:
        yield out
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        sys.stdout, sys.stderr = before


@contextmanager
def on_signals(numbers: Iterable[signal.Signals], handler: Callable[[int, FrameType | None], object]) -> Iterator[None]:
    """Let *handler* take signals, and restore the earlier handlers afterwards."""
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)


def when_stdin_ends(stop: Callable[[], object]) -> None:
    """Call *stop*, in a thread, when the other end of stdin is closed, which happens even if its holder is killed."""

    def wait() -> None:
        # Not sys.stdin.read(): a thread inside it holds a lock that the interpreter needs to end.
        while os.read(0, 1024):
            pass
        stop()

    threading.Thread(target=wait, daemon=True).start()
