"""
Several processes of ``serve`` behind one port: they are started, replaced one after another, and stopped.

The supervisor listens, and its workers inherit the listening socket. So connections that wait in its queue survive
the end of each worker, which they would not with SO_REUSEPORT. A worker is the same command line run again, with the
program and the settings as they are on the disk at that time.

Supervisor and worker share a pair of sockets, the link. The worker reports on it that it takes calls. When the
supervisor closes its half of it, or dies in any way, the worker answers its calls and ends.
"""

import asyncio
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from game_operator.cli.errors import STOP_SIGNALS, ExitCode, StoppedError

_LOG = logging.getLogger("game_operator.serve")
_KILLED: Final = {"event": "serve.worker_killed"}
_NOT_STARTED: Final = {"event": "serve.worker_not_started"}
_RESTART: Final = {"event": "serve.restart"}
#: The file numbers that a worker inherits, and whether it may begin without its database.
_VARIABLE: Final = "GAME_OPERATOR_SERVE_WORKER"
_READY, _DRAIN = b"r", b"d"
#: How long a worker may take to become ready; it opens the ledger meanwhile.
_START_SECONDS: Final = 60.0
#: A worker that ends sooner is likely to do so again: the next one waits.
_SOON_SECONDS: Final = 10.0
_LEAST_PAUSE, _MOST_PAUSE = 0.5, 30.0
#: How many are tried if none becomes ready.
_MOST_FIRST: Final = 4
#: For what is left of an interpreter when its server has ended, or of a worker that hangs.
_GRACE_SECONDS: Final = 3.0


@dataclass(eq=False)
class WorkerLink:
    """
    A worker's end of the link to its supervisor.

    Attributes:
        listener: The socket that all workers accept from.
        may_lack_database: Whether to begin without a database that cannot be reached: the worker takes the place of
            one that served.
    """

    listener: socket.socket
    may_lack_database: bool
    _link: socket.socket

    @classmethod
    def inherited(cls) -> "WorkerLink | None":
        """Return the link of this process to its supervisor, or None if it has none."""
        text = os.environ.pop(_VARIABLE, None)
        if text is None:
            return None
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # Some send it to all processes of a service.
        listener, link, flag = map(int, text.split(","))
        for number in (listener, link):
            os.set_inheritable(number, False)
        return cls(socket.socket(fileno=listener), bool(flag), socket.socket(fileno=link))

    def report_ready(self) -> None:
        """Report that calls are taken."""
        with suppress(OSError):  # The supervisor is gone, so this worker is about to stop.
            self._link.sendall(_READY)

    def follow(self, drain: Callable[[], object], stop: Callable[[], object], *, stop_seconds: float) -> None:
        """
        Call *drain* and *stop*, in a thread, when the supervisor says so, or *stop* when it is gone.

        A process that still runs *stop_seconds* later is ended by force. Otherwise a supervisor that is started again
        would run beside it.
        """

        def watch() -> None:
            with suppress(OSError):
                while self._link.recv(1) == _DRAIN:
                    drain()
            stop()
            time.sleep(stop_seconds)
            _LOG.error("This worker did not stop within %g s, so it is ended by force.", stop_seconds, extra=_KILLED)
            os._exit(ExitCode.SAID_NO)

        threading.Thread(target=watch, daemon=True, name="game-operator-supervisor-link").start()


class _Worker:
    """A process that was started, as its supervisor sees it."""

    def __init__(self, listener: socket.socket, *, may_lack_database: bool) -> None:
        self.link, theirs = socket.socketpair()
        self.link.setblocking(False)
        files = (listener.fileno(), theirs.fileno())
        with theirs:
            self.process = subprocess.Popen(  # noqa: S603 - our own command line
                [sys.executable, *sys.orig_argv[1:]],
                env=os.environ | {_VARIABLE: ",".join(map(str, (*files, int(may_lack_database))))},
                pass_fds=files,
                stdin=subprocess.DEVNULL,
                stdout=2,  # Our own stdout holds one document at most.
                process_group=0,  # Ctrl-C and the end of a terminal are the supervisor's.
            )
        self.began = time.monotonic()
        self.ready: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self.ended = asyncio.create_task(self._followed())

    async def _followed(self) -> None:
        with suppress(OSError):
            while await asyncio.get_running_loop().sock_recv(self.link, 1):
                if not self.ready.done():
                    self.ready.set_result(True)
        await asyncio.to_thread(self.process.wait)
        self.link.close()
        if not self.ready.done():
            self.ready.set_result(False)

    async def becomes_ready(self) -> bool:
        """Return whether it takes calls; one that takes too long is killed."""
        with suppress(TimeoutError):
            return await asyncio.wait_for(asyncio.shield(self.ready), _START_SECONDS)
        self.process.kill()
        return False

    def drain(self) -> None:
        """Let it report that it is about to stop."""
        with suppress(OSError):
            self.link.send(_DRAIN)

    async def stop(self, seconds: float) -> None:
        """Let it answer its calls and end; kill it if that takes longer."""
        with suppress(OSError):
            self.link.shutdown(socket.SHUT_WR)
        if not (await asyncio.wait([self.ended], timeout=seconds))[0]:
            text = "Worker %d did not stop within %g s, so it is killed."
            _LOG.error(text, self.process.pid, seconds, extra=_KILLED)
            self.process.kill()
            await asyncio.wait([self.ended])


class Supervisor:
    """
    Keeps so many workers at *listener* until SIGTERM or SIGINT, and replaces them one after another on SIGHUP.

    Args:
        count: How many workers.
        listener: It listens; the supervisor closes it when it stops.
        announce: Called when the first worker takes calls.
        drain_seconds: How long workers report that they are about to stop, and take calls, before they stop.
        stop_seconds: How long a worker may take to answer its calls before it is killed.
    """

    def __init__(
        self,
        count: int,
        listener: socket.socket,
        announce: Callable[[], object],
        *,
        drain_seconds: float,
        stop_seconds: float,
    ) -> None:
        self._count, self._listener, self._announce = count, listener, announce
        self._drain_seconds, self._stop_seconds = drain_seconds, stop_seconds + _GRACE_SECONDS
        self._workers: list[_Worker | None] = [None] * count
        self._alive: set[_Worker] = set()

    async def run(self) -> None:
        """
        Keep workers until a signal says to stop.

        Raises:
            StoppedError: No worker became ready.
        """
        loop = asyncio.get_running_loop()
        self._stopping, self._in_haste, self._restart = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._changing = [asyncio.Lock() for _ in range(self._count)]
        for number in STOP_SIGNALS:
            loop.add_signal_handler(number, self._stop)
        loop.add_signal_handler(signal.SIGHUP, self._restart.set)
        working, stopping = asyncio.create_task(self._work()), asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait([working, stopping], return_when=asyncio.FIRST_COMPLETED)
            if working.done():
                working.result()
        finally:
            stopping.cancel()
            working.cancel()
            await asyncio.wait([working, stopping])
            await self._stop_all()

    def _stop(self) -> None:
        if self._stopping.is_set():  # Asked a second time, nobody wants to wait.
            self._in_haste.set()
            for worker in self._alive:
                worker.process.kill()
        self._stopping.set()

    async def _work(self) -> None:
        await self._begin_first()
        self._announce()
        async with asyncio.TaskGroup() as group:
            for slot in range(self._count):
                group.create_task(self._keep(slot))
            group.create_task(self._replace_on_request())

    async def _begin_first(self) -> None:
        """Start one worker: the others begin after it, because it may find or make what they need."""
        for number in range(_MOST_FIRST):
            self._workers[0] = await self._started()
            if self._workers[0] is not None:
                return
            await asyncio.sleep(_LEAST_PAUSE * 2**number)
        what = f"{_MOST_FIRST} workers were started, and each ended before it took calls. What they wrote says why."
        raise StoppedError(ExitCode.UNREACHABLE, what, name="WorkersEnded")

    async def _started(self, *, may_lack_database: bool = False) -> _Worker | None:
        """Return a new worker that takes calls; None, and a line in the log, if it does not come so far."""
        try:
            worker = _Worker(self._listener, may_lack_database=may_lack_database)
        except OSError as failed:  # The system has no process or memory left for it.
            _LOG.error("No worker can be started: %s.", failed.strerror, extra=_NOT_STARTED)
            return None
        self._alive.add(worker)
        worker.ended.add_done_callback(lambda _: self._alive.discard(worker))
        if await worker.becomes_ready():
            return worker
        await asyncio.wait([worker.ended])
        _LOG.error("Worker %s before it took calls.", _end_of(worker), extra=_NOT_STARTED)
        return None

    async def _keep(self, slot: int) -> None:
        """Start another worker each time *slot* is empty, or its worker ends without being replaced."""
        pause, tried = 0.0, time.monotonic()
        while True:
            worker = self._workers[slot]
            if worker is not None:
                await asyncio.wait([worker.ended])
            async with self._changing[slot]:
                if self._workers[slot] is not worker:
                    continue
                if worker is not None:
                    extra = {"event": "serve.worker_ended"}
                    _LOG.error("Worker %s. Another one takes its place.", _end_of(worker), extra=extra)
                    self._workers[slot] = None
                await asyncio.sleep(pause)
                pause = (
                    0.0 if time.monotonic() - tried > _SOON_SECONDS else min(_MOST_PAUSE, max(_LEAST_PAUSE, 2 * pause))
                )
                tried = time.monotonic()
                self._workers[slot] = await self._started(may_lack_database=True)

    async def _replace_on_request(self) -> None:
        while True:
            await self._restart.wait()
            self._restart.clear()
            _LOG.info("A rolling restart of %d workers begins.", self._count, extra=_RESTART)
            if await self._replaced():
                _LOG.info("The rolling restart has ended: all workers are new.", extra=_RESTART)

    async def _replaced(self) -> bool:
        """Replace each worker when its successor takes calls; return False, and keep the others, if one does not."""
        for slot in range(self._count):
            fresh = await self._started()
            if fresh is None:
                _LOG.error("The rolling restart ends here: the workers that are left go on.", extra=_RESTART)
                return False
            async with self._changing[slot]:
                old, self._workers[slot] = self._workers[slot], fresh
            if old is not None:
                await old.stop(self._stop_seconds)
        return True

    async def _stop_all(self) -> None:
        if self._drain_seconds and self._alive:
            for worker in self._alive:
                worker.drain()
            # Some send SIGTERM to all processes of a service: without a worker, callers are better refused at once.
            await _first(self._drain_seconds, self._in_haste.wait(), asyncio.wait([each.ended for each in self._alive]))
        self._listener.close()
        await asyncio.gather(*(worker.stop(self._stop_seconds) for worker in set(self._alive)))


async def _first(seconds: float, *events: Coroutine[Any, Any, object]) -> None:
    """Wait for the first of *events*, for so many seconds at most."""
    tasks = [asyncio.create_task(event) for event in events]
    await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()


def _end_of(worker: _Worker) -> str:
    code = worker.process.returncode
    how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
    return f"{worker.process.pid} {how}"
