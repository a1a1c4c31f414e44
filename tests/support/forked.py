"""
Processes of ``game-operator`` that begin with everything loaded: they are forked from one that has imported it.

They have an exit code, signals, pipes and an environment of their own like any other, for the processor time of their
work alone: an interpreter that starts and imports takes up to a second of it. A test of how the interpreter starts or
ends, of a stdout that is closed, or of the variables of Python needs one of its own (``COMMAND``).
"""

import atexit
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Final, Self

#: ``game-operator``, as an interpreter of its own.
COMMAND: Final = (sys.executable, "-W", "error", "-m", "game_operator.cli")

#: Loads the command, then forks for each request. The child returns from _asked() and runs as the module's main would.
_LOADED: Final = """
import atexit, contextlib, gc, importlib, json, os, pkgutil, resource, signal, socket, sys, tempfile, time

code = None


def end():
    gc.collect()  # It warns of what was left open.
    if isinstance(code, int):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


# Registered first, it is called last, when all threads have ended. The interpreter's own clean-up takes longer than
# most commands.
atexit.register(end)
# Ctrl-C is for the commands; this process ends with the tests.
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})

import game_operator.cli.app, game_operator.cli.commands, game_operator_testkit.sandbox, game_operator.ledger.sql
import h11, httpcore, httptools, httpx, jinja2, jwt, psycopg, trio, uvicorn, uvloop

for package in (game_operator.cli, game_operator.cli.commands, game_operator_testkit.sandbox):
    for module in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)

requests = socket.socket(fileno=int(sys.argv[1]))
of_children = {signal.SIGCHLD}
reports = {}


def bury(*_):
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if not pid:
            return
        report = reports.pop(pid)
        with contextlib.suppress(BrokenPipeError):  # Nobody waits for it.
            os.write(report, b"%d\\n" % os.waitstatus_to_exitcode(status))
        os.close(report)


def asked():
    while True:
        text, fds, *_ = socket.recv_fds(requests, 1_000_000, 4)
        if not text:
            for child in list(reports):
                os.kill(child, signal.SIGKILL)
            os._exit(0)
        signal.pthread_sigmask(signal.SIG_BLOCK, of_children)
        pid = os.fork()
        if not pid:
            break
        reports[pid] = os.dup(fds[3])
        os.write(fds[3], b"%d\\n" % pid)
        for fd in fds:
            os.close(fd)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, of_children)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {*of_children, signal.SIGINT})
    requests.close()
    for report in reports.values():
        os.close(report)
    for number, fd in enumerate(fds[:3]):
        os.dup2(fd, number)
    for fd in fds:
        os.close(fd)
    return json.loads(text)


gc.collect()
gc.freeze()
signal.signal(signal.SIGCHLD, bury)
request = asked()
os.chdir(request["folder"])
os.environ.clear()
os.environ.update(request["environ"])
time.tzset()
tempfile.tempdir = None
sys.path[0] = request["folder"]
sys.argv = ["game-operator", *request["args"]]
sys.orig_argv = request["command"]
if request["open_files"]:
    resource.setrlimit(resource.RLIMIT_NOFILE, (request["open_files"], request["open_files"]))
sys.stdin = sys.__stdin__ = open(0, closefd=False)
sys.stdout = sys.__stdout__ = open(1, "w", closefd=False)
sys.stderr = sys.__stderr__ = open(2, "w", closefd=False, errors="backslashreplace", buffering=1)
try:
    code = game_operator.cli.main()
except SystemExit as ended:
    code = ended.code
sys.exit(code)
"""


def clean_environment(settings: Mapping[str, str]) -> dict[str, str]:
    """Return *settings* on top of what any process needs."""
    needed = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return needed | dict(settings)


class _Loader:
    """The process that has loaded the command; when this one ends, even if killed, it ends with all that it forked."""

    def __init__(self) -> None:
        self._requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-W", "error", "-c", _LOADED, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                env=clean_environment({}),
            )
        atexit.register(self._end)

    def ask(self, request: Mapping[str, object], fds: Sequence[int]) -> None:
        socket.send_fds(self._requests, [json.dumps(request).encode()], list(fds))

    def _end(self) -> None:
        self._requests.close()
        self._process.wait()


_loaders: list[_Loader] = []


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
        command = [*COMMAND, *args]
        sys.audit("subprocess.Popen", COMMAND[0], command, None, None)  # The fast lane refuses it like any process.
        if not _loaders:
            _loaders.append(_Loader())
        self.returncode: int | None = None
        self.stdout, out = _opened(stdout)
        self.stderr, err = _opened(stderr)
        reading, report = os.pipe()
        self._report = os.fdopen(reading, encoding="ascii")
        nothing = os.open(os.devnull, os.O_RDONLY)
        request = {"args": list(args), "command": command, "folder": str(Path.cwd()), "open_files": open_files}
        _loaders[0].ask(request | {"environ": clean_environment(environ)}, [nothing, out, err, report])
        ours = [nothing, report, *([out] if self.stdout else []), *([err] if self.stderr else [])]
        for fd in ours:
            os.close(fd)
        self.pid = int(self._report.readline())

    def poll(self) -> int | None:
        """Return the exit code, or None while it runs."""
        return self._ended(0)

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit code once it has ended."""
        code = self._ended(timeout)
        if code is None:
            raise subprocess.TimeoutExpired("game-operator", timeout or 0)
        return code

    def send_signal(self, number: int) -> None:
        """Send the signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Send SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.send_signal(signal.SIGKILL)

    def communicate(self, timeout: float = 60) -> tuple[str, str]:
        """Return what is left on stdout and stderr, once it has ended."""
        told = ["", ""]
        until = time.monotonic() + timeout

        def read(number: int, stream: IO[str] | None) -> None:
            if stream is not None and not stream.closed:
                told[number] = stream.read()

        reading = [
            threading.Thread(target=read, args=each, daemon=True) for each in enumerate((self.stdout, self.stderr))
        ]
        for thread in reading:
            thread.start()
        for thread in reading:
            thread.join(max(0.0, until - time.monotonic()))
            if thread.is_alive():
                raise subprocess.TimeoutExpired("game-operator", timeout)
        self._close()
        self.wait(max(0.0, until - time.monotonic()))
        return told[0], told[1]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()
        self.wait()

    def _close(self) -> None:
        for stream in (self.stdout, self.stderr):
            if stream is not None:
                stream.close()

    def _ended(self, timeout: float | None) -> int | None:
        if self.returncode is None:
            with selectors.DefaultSelector() as selector:
                selector.register(self._report, selectors.EVENT_READ)
                if selector.select(timeout):
                    self.returncode = int(self._report.readline())
                    self._report.close()
        return self.returncode


def _opened(stream: int) -> tuple[IO[str] | None, int]:
    if stream != subprocess.PIPE:
        return None, stream
    reading, writing = os.pipe()
    return os.fdopen(reading, encoding="utf-8"), writing
