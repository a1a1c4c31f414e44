"""
Work that a page begins and does not wait for: each piece runs in a thread, one of a kind at a time.

It calls the wallet, or this same server, so nothing of it may be done on the server's event loop.
"""

import logging
from collections.abc import Callable, Collection
from threading import Event, Lock, Thread
from typing import Final

from game_operator.errors import GameOperatorError

_LOG: Final = logging.getLogger("game_operator_testkit.control_room")


class Job:
    """
    Some work in a thread.

    Attributes:
        title: What it is.
        said: What came of it.
        problem: Why it failed, or "".
        failed: The error by which it failed, or None.
    """

    def __init__(self, title: str) -> None:
        self.title: str = title
        self.said: str = ""
        self.problem: str = ""
        self.failed: Exception | None = None
        self._ended, self._lock = Event(), Lock()
        self._is_interrupted, self._interrupts = False, list[Callable[[], None]]()

    @property
    def is_running(self) -> bool:
        """Whether it is not over."""
        return not self._ended.is_set()

    @property
    def is_interrupted(self) -> bool:
        """Whether somebody has asked it to end early."""
        return self._is_interrupted

    def wait(self, seconds: float) -> None:
        """Wait until it is over, but not longer."""
        self._ended.wait(seconds)

    def interrupt(self) -> None:
        """Let it finish what is under way, and end."""
        with self._lock:
            self._is_interrupted, calls = True, list(self._interrupts)
        for call in calls:
            call()

    def on_interrupt(self, call: Callable[[], None]) -> None:
        """Have *call* made when somebody interrupts; at once if somebody did."""
        with self._lock:
            self._interrupts.append(call)
            late = self._is_interrupted
        if late:
            call()

    def do(self, work: "Callable[[Job], str]") -> None:
        """Do *work*; what it raises is shown on the page."""
        try:
            self.said = work(self)
        except GameOperatorError as failed:
            self.problem, self.failed = str(failed), failed
        except Exception as failed:
            _LOG.exception("%s failed", self.title, extra={"event": "control_room.job_failed"})
            self.problem, self.failed = f"{type(failed).__name__}: {failed}", failed
        finally:
            self._ended.set()


class JobSlot:
    """
    A place for one job at a time.

    Args:
        kind: What its threads are called.

    Attributes:
        job: What is at work, or was last; None if nothing was.
    """

    def __init__(self, kind: str) -> None:
        self._kind, self._lock = kind, Lock()
        self.job: Job | None = None

    def begin(self, title: str, work: Callable[[Job], str]) -> Job | None:
        """Begin *work*, and return it; return None if something is at work already."""
        with self._lock:
            if self.job is not None and self.job.is_running:
                return None
            self.job = job = Job(title)
        # As a daemon, it does not keep a process alive whose ledger is closed.
        Thread(target=job.do, args=(work,), name=f"{self._kind}: {title}", daemon=True).start()
        return job

    def interrupt(self) -> None:
        """Let what is at work finish what is under way, and end."""
        if self.job is not None:
            self.job.interrupt()


class PlayersInUse:
    """The players whose money a test run moves just now, by the kind of run; from any thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._players: dict[str, frozenset[str]] = {}
        self._numbers: dict[str, int] = {}

    def take(self, kind: str, number: int, players: Collection[str]) -> list[str]:
        """Take *players* for a run, and return an empty list; or return those that runs of another kind have."""
        with self._lock:
            others = frozenset[str]().union(*(each for other, each in self._players.items() if other != kind))
            taken = sorted(others.intersection(players))
            if not taken:
                self._players[kind], self._numbers[kind] = frozenset(players), number
            return taken

    def run_with(self, player_id: str) -> str:
        """Return the run that has *player_id*, such as ``storm 2``; "" if none has."""
        with self._lock:
            kind = next((kind for kind, players in self._players.items() if player_id in players), "")
            return f"{kind} {self._numbers[kind]}" if kind else ""

    def give_back(self, kind: str) -> None:
        """Let the players of the run of this kind be used again."""
        with self._lock:
            self._players.pop(kind, None)
