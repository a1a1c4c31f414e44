"""
Processes of ``game-operator`` that begin with everything loaded: they are forked from one that has imported it.

They have an exit code, signals, pipes and an environment of their own like any other, for the processor time of their
work alone: an interpreter that starts and imports takes up to a second of it. A test of how the interpreter starts or
ends, of a stdout that is closed, or of the variables of Python needs one of its own (``COMMAND``).
"""

import atexit
import ctypes
import gc
import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from pathlib import Path
from types import ModuleType
from typing import IO, Final, Self

from game_operator.cli import main
from tests.support.crowds import worker_context

#: ``game-operator``, as an interpreter of its own.
COMMAND: Final = (sys.executable, "-W", "error", "-m", "game_operator.cli")
#: Of prctl(2): the process ends when the one that it was forked from does.
_SET_DEATH_SIGNAL: Final = 1


def clean_environment(settings: Mapping[str, str]) -> dict[str, str]:
    """Return *settings* on top of what any process needs."""
    needed = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return needed | dict(settings)


def _become(args: Sequence[str], environ: Mapping[str, str], open_files: int | None, *streams: Connection) -> None:
    """Run the command in this process, with *streams* as its standard streams, and without what it was forked with."""
    gc.freeze()
    multiprocessing.current_process().daemon = False  # It may have children.
    for number, stream in enumerate(streams):
        os.dup2(stream.fileno(), number)
        stream.close()
    os.closerange(len(streams), 256)
    vars(resource_tracker)["_resource_tracker"]._fd = None
    ctypes.CDLL(None).prctl(_SET_DEATH_SIGNAL, signal.SIGKILL)
    os.environ.clear()
    os.environ.update(environ)
    time.tzset()
    tempfile.tempdir = None
    sys.path.insert(0, str(Path.cwd()))
    sys.argv = ["game-operator", *args]
    sys.orig_argv = [*COMMAND, *args]
    sys.modules["__main__"] = ModuleType("__main__")  # Its own children need not import pytest.
    sys.warnoptions[:] = ["error"]
    warnings.simplefilter("error")
    if open_files:
        resource.setrlimit(resource.RLIMIT_NOFILE, (open_files, open_files))
    sys.stdin = os.fdopen(0, closefd=False)
    sys.stdout = os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", closefd=False, errors="backslashreplace", buffering=1)
    try:
        sys.exit(main())
    finally:
        atexit._run_exitfuncs()
        gc.collect()  # It warns of what was left open.


class Forked:
    """
    ``game-operator`` with *args* in a process, which has what tests use of `subprocess.Popen`.

    *open_files* is what ``ulimit -n`` sets.
    """

    def __init__(
        self,
        args: Sequence[str],
        *,
        environ: Mapping[str, str],
        stdout: int = subprocess.PIPE,
        stderr: int = subprocess.PIPE,
        open_files: int | None = None,
    ) -> None:
        sys.audit("subprocess.Popen", COMMAND[0], [*COMMAND, *args], None, None)  # The fast lane refuses it, too.
        self.stdout, out = _opened(stdout)
        self.stderr, err = _opened(stderr)
        streams = (Connection(os.open(os.devnull, os.O_RDONLY), writable=False), out, err)
        arguments = (list(args), clean_environment(environ), open_files, *streams)
        self._process = worker_context().Process(target=_become, args=arguments, daemon=True)
        self._process.start()
        for stream in streams:
            stream.close()
        self.pid = int(self._process.pid or 0)

    @property
    def returncode(self) -> int | None:
        """The exit code, or None while it runs."""
        return self._process.exitcode

    def poll(self) -> int | None:
        """Return the exit code, or None while it runs."""
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit code once it has ended."""
        self._process.join(timeout)
        if self.returncode is None:
            raise subprocess.TimeoutExpired("game-operator", timeout or 0)
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send the signal, unless it has ended."""
        if self.returncode is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Send SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.send_signal(signal.SIGKILL)

    def communicate(self, timeout: float = 60) -> tuple[str, str]:
        """Return what is left on stdout and stderr, once it has ended."""
        with ThreadPoolExecutor(2) as threads:
            told = [threads.submit(_rest, each) for each in (self.stdout, self.stderr)]
            try:
                self.wait(timeout)
            except subprocess.TimeoutExpired:
                self.kill()  # Else its streams would not end.
                raise
        self._close()
        return told[0].result(), told[1].result()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()
        self.wait()

    def _close(self) -> None:
        for stream in (self.stdout, self.stderr):
            if stream is not None:
                stream.close()


def _opened(stream: int) -> tuple[IO[str] | None, Connection]:
    if stream != subprocess.PIPE:
        return None, Connection(os.dup(stream), readable=False)
    reading, writing = os.pipe()
    return os.fdopen(reading, encoding="utf-8"), Connection(writing, readable=False)


def _rest(stream: IO[str] | None) -> str:
    return "" if stream is None or stream.closed else stream.read()
