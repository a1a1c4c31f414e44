"""The latest test runs of one kind: one at work at a time, the older ones kept as long as they fit in memory."""

from collections.abc import Callable, Collection
from functools import partial
from threading import Lock
from typing import Final, Generic, Protocol, TypeVar

from game_operator_testkit.control_room.jobs import Job, JobSlot, PlayersInUse

#: Runs that are kept, and the bytes that they may take together. The newest one stays, however large it is.
MOST_RUNS: Final = 10
MOST_BYTES: Final = 64 * 1024 * 1024


class KeptRun(Protocol):
    """
    A run that is kept.

    Attributes:
        number: Counts up from 1.
        job: Its work in a thread; set before anybody sees the run.
    """

    number: int
    job: Job

    @property
    def size(self) -> int:
        """About how many bytes it takes."""


R = TypeVar("R", bound=KeptRun)


class BusyError(Exception):
    """A run cannot begin now; the message says why, for people."""


class Shelf(Generic[R]):
    """
    The runs of one kind, from any thread.

    Args:
        kind: What a run of this kind is called: ``certification``.
        in_use: The players of all runs, of each kind.
    """

    def __init__(self, kind: str, in_use: PlayersInUse) -> None:
        self._kind, self._in_use = kind, in_use
        self._slot, self._lock = JobSlot(kind), Lock()
        self._runs: dict[int, R] = {}
        self._count = 0

    def begin(self, make: Callable[[int], R], work: Callable[[R, Job], str], players: Collection[str]) -> R:
        """
        Begin the run that *make* makes of its number, done by *work*, with *players*; return it.

        Raises:
            BusyError: One of this kind is at work, or a run of another kind plays with one of the players.
        """
        with self._lock:
            if self._slot.job is not None and self._slot.job.is_running:
                raise BusyError(f"A {self._kind} is at work already. Wait for its end, or stop it.")
            if taken := self._in_use.take(self._kind, self._count + 1, players):
                raise BusyError(f"Another run plays with {', '.join(taken)} just now. Wait for its end, or stop it.")
            run = make(self._count + 1)
            job = self._slot.begin(f"{self._kind} {run.number}", partial(self._do, run, work))
            # Nothing else uses the slot, and it was free.
            assert job is not None
            run.job = job
            self._count = run.number
            self._runs[run.number] = run
            self._forget()
        return run

    def latest(self) -> list[R]:
        """Return the runs that are kept, the newest first."""
        with self._lock:
            return list(self._runs.values())[::-1]

    def run(self, number: int) -> R | None:
        """Return the run with *number*, or None if there is none, or it is not kept any more."""
        with self._lock:
            return self._runs.get(number)

    def interrupt(self) -> None:
        """Let the run that is at work end early."""
        self._slot.interrupt()

    def _do(self, run: R, work: Callable[[R, Job], str], job: Job) -> str:
        try:
            return work(run, job)
        finally:
            self._in_use.give_back(self._kind)
            with self._lock:
                self._forget()

    def _forget(self) -> None:
        """Forget the oldest runs of what is too much."""
        while len(self._runs) > MOST_RUNS or (
            len(self._runs) > 1 and sum(run.size for run in self._runs.values()) > MOST_BYTES
        ):
            del self._runs[next(iter(self._runs))]
