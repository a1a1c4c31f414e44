"""
Streams: those a command can write to whatever has become of them, and pipes that are read once.

What a command did is decided by the service. That nobody reads its result, or that the disk is full, must not make it
look undone: a script would grant again. So a lost stream raises nothing; it is remembered, and told by the exit code.
"""

import errno
import io
import os
import select
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TextIO, cast

__all__ = ["Outlet", "is_stream", "lasting_streams", "lost_output", "read_stream"]

_WRITER_SECONDS = 5.0


class Outlet:
    """
    Stands for *stream*, or for none where the process was started without one.

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


def lost_output() -> OSError | None:
    """Return why what was written to stdout so far went nowhere, or None."""
    sys.stdout.flush()
    return getattr(sys.stdout, "lost", None)


def is_stream(path: Path) -> bool:
    """Return whether *path* is a readable pipe or device, which gives what it holds once."""
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):
        return False
    return (stat.S_ISFIFO(mode) or stat.S_ISCHR(mode)) and os.access(path, os.R_OK) and hasattr(os, "O_NONBLOCK")


def read_stream(path: Path, limit: int) -> bytes:
    """Return up to *limit* bytes of the pipe *path*; b"" if nobody writes to it for five seconds, or it is closed."""
    data = b""
    try:
        pipe = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return data
    try:
        while len(data) < limit and select.select([pipe], [], [], _WRITER_SECONDS)[0]:
            piece = os.read(pipe, limit - len(data))
            if not piece:
                break
            data += piece
    except OSError:
        return b""
    finally:
        os.close(pipe)
    return data
