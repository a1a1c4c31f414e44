"""The threads of one process that work at a campaign, and how far they report it to be."""

import time
from collections.abc import Callable
from threading import Lock, Thread
from typing import TYPE_CHECKING, Final, TypeAlias

from game_operator.backoffice.campaigns.answers import SETTLED, GrantState
from game_operator.backoffice.campaigns.granting import Counted, Granting, Stopping
from game_operator.backoffice.journal.journal import Journal
from game_operator.backoffice.journal.records import Run

if TYPE_CHECKING:
    from game_operator.client.sync import OperatorClient

#: Called after each grant.
ShowCounted: TypeAlias = Callable[[Counted], object]

#: Of the time, this share at most is spent on counting what other processes have done.
_COUNTING_SHARE: Final = 0.05
_COUNT_EVERY_SECONDS: Final = 2.0
_JOIN_SECONDS: Final = 0.2


class WorkerThreads:
    """
    The threads of this process.

    Attributes:
        stopping: Asks them to finish what is under way.
    """

    def __init__(self, journal: Journal, run: Run, client: "OperatorClient", progress: ShowCounted | None) -> None:
        self._journal, self._run, self._client, self._progress = journal, run, client, progress
        self.stopping: Stopping = Stopping()
        self._errors: list[BaseException] = []
        self._lock = Lock()
        self._counted, self._count_at = Counted(0, run.options["grants"], 0), 0.0

    def work(self, threads: int) -> None:
        """Work with so many threads until the run ends or pauses; raise what one of them raised."""
        if threads == 1:
            self._granting().work()
            return
        workers = [Thread(target=self._work, name=f"campaign-{number}", daemon=True) for number in range(threads)]
        for thread in workers:
            thread.start()
        try:
            _join(workers)
        except BaseException:  # It goes on, once the threads have ended.
            # Ctrl-C without its own handler. The second one does not wait for what is under way.
            if not self.stopping.is_asked:
                self.stopping()
                _join(workers)
            raise
        if self._errors:
            raise self._errors[0]

    def _granting(self) -> Granting:
        return Granting(self._journal, self._run, self._client, stopping=self.stopping, on_settled=self._note_settled)

    def _work(self) -> None:
        try:
            self._granting().work()
        except BaseException as failed:  # It is raised where the threads were started.
            self._errors.append(failed)
            self.stopping()

    def _note_settled(self, state: GrantState) -> None:
        if self._progress is None:
            return
        with self._lock:
            settled, total, granted = self._counted
            self._counted = Counted(settled + 1, total, granted + (state is GrantState.GRANTED))
            if time.monotonic() >= self._count_at:
                self._count()
            self._progress(self._counted)

    def _count(self) -> None:
        """Count what all processes have done."""
        began = time.monotonic()
        counts = self._journal.counts(self._run.id)
        settled = sum(counts[state][0] for state in SETTLED if state in counts)
        granted = counts.get(GrantState.GRANTED, (0, 0))[0]
        self._counted = self._counted._replace(settled=settled, granted=granted)
        ended = time.monotonic()
        self._count_at = ended + max(_COUNT_EVERY_SECONDS, (ended - began) / _COUNTING_SHARE)


def _join(threads: list[Thread]) -> None:
    for thread in threads:
        while thread.is_alive():
            thread.join(_JOIN_SECONDS)  # Signals are handled in between.
