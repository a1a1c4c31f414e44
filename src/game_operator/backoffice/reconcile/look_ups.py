"""
Asks the provider about bets, at the rate that all processes of a run share.

A call that is not answered slows the run down, and waits for another turn.
"""

import threading
import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from itertools import islice
from typing import TYPE_CHECKING, Final

from game_operator.backoffice.journal import Journal
from game_operator.backoffice.journal_records import Chunk, Item, Paced
from game_operator.backoffice.reconcile.batch import Looked
from game_operator.backoffice.reconcile.evidence import (
    Evidence,
    TryLaterError,
    look_up_anywhere,
    look_up_bet,
    whom,
)
from game_operator.backoffice.reconcile.judge import Ours

if TYPE_CHECKING:
    from game_operator.client.sync import OperatorClient

#: How often one bet is asked for before it counts as unanswered.
_MOST_TRIES: Final = 3
#: What was found is committed about so often, which renews the lease.
_COMMIT_SECONDS: Final = 5.0
_MOST_IN_A_BATCH: Final = 25


class NotNowError(Exception):
    """The run does not go on, or its next call is far away: what is left of a chunk is given back."""

    def __init__(self, ready_millis: int = 0) -> None:
        super().__init__("The chunk is given back.")
        self.ready_millis: int = ready_millis


class LookUps:
    """
    The look-ups of one process.

    Attributes:
        is_leaving: Set, it lets this process end its work after the calls under way, and give its parts of runs back.
        executor: Shares the look-ups; None makes them one after another in the thread that works.
    """

    def __init__(self, client: "OperatorClient", journal: Journal) -> None:
        # A repeat is an item's next try: it waits for its turn, as every call of the run does.
        self._client, self._journal = client.with_options(retries=0), journal
        self._whom = whom(self._client)
        self._commit_seconds = min(_COMMIT_SECONDS, journal.lease_millis / 2_000)
        self.is_leaving: threading.Event = threading.Event()
        self.executor: Executor | None = None

    def is_over(self, until: float | None) -> bool:
        """Return whether it is time to leave: a time of ``time.monotonic``, or because somebody has said so."""
        return self.is_leaving.is_set() or (until is not None and time.monotonic() >= until)

    def bet(self, chunk: Chunk, bet_id: str) -> Evidence | None:
        """Look up one bet; return None if the service does not answer."""
        for _ in range(_MOST_TRIES):
            self._wait(time.monotonic() + self._turns(chunk.run_id, 1)[0])
            try:
                evidence = look_up_bet(self._client, bet_id)
            except TryLaterError as failed:
                self._report(chunk, 0, failed)
                continue
            self._give_up_turns(chunk, evidence.asked)
            self._journal.save(chunk, [], paced=Paced(answered=1))
            return evidence
        return None

    def _turns(self, run_id: int, most: int, until: float | None = None) -> list[float]:
        """Return for how long to wait before each of the next calls; or give the chunk back if that is too long."""
        soon = self._journal.lease_millis / 2_000  # A service may ask for more patience than a lease has.
        if until is not None:
            soon = min(soon, until - time.monotonic())
        turns: list[float] = []
        if not self.is_over(until):
            turns = self._journal.turns(run_id, most, within_seconds=self._commit_seconds, soon_seconds=soon)
        if not turns:
            raise NotNowError(self._journal.run(run_id).next_call_micros // 1_000)
        return turns

    def bets(
        self,
        chunk: Chunk,
        waiting: Sequence[Item],
        known: Mapping[str, Ours],
        tries: Counter[str],
        until: float | None,
    ) -> tuple[list[Looked], Paced | None]:
        """
        Look up as many as there are turns now; return what was answered, and what it means for the rate.

        After one that is not answered no more are begun, because their turns are too early. What is not answered is
        left for another turn, but not for ever.
        """
        looked: list[Looked] = []
        left = iter(self._turns(chunk.run_id, min(_MOST_IN_A_BATCH, len(waiting)), until))
        began, now, answered = time.monotonic(), self._journal.now_millis(), 0
        for item, look in self._looks(waiting, left, began):
            try:
                evidence = look.result()
            except TryLaterError as failed:
                self._report(chunk, answered, failed, left)
                answered = 0
                deque(left, maxlen=0)
                tries[item.key] += not failed.is_refusal
                if tries[item.key] < _MOST_TRIES:
                    continue
                evidence = Evidence(item.key, None, b"", str(failed), answered=False)
            else:
                answered += 1
                self._give_up_turns(chunk, evidence.asked, left)
            at_millis = now + round(1_000 * (time.monotonic() - began))
            first = item.digest if item.state else None
            looked.append(Looked(item.key, known[item.key], evidence, at_millis, first))
        return looked, Paced(answered=answered) if answered else None

    def _looks(
        self, waiting: Sequence[Item], turns: Iterable[float], began: float
    ) -> Iterator[tuple[Item, "Future[Evidence]"]]:
        """Begin a look-up at each turn, and yield each with its item, in their order."""
        under_way: deque[tuple[Item, Future[Evidence]]] = deque()
        for item, turn in zip(waiting, turns, strict=False):
            if time.monotonic() - began > 2 * self._commit_seconds:
                break  # The service is slow: what was found is committed first, or the lease runs out.
            self._wait(began + turn)
            if self.is_leaving.is_set():
                break
            under_way.append((item, self._begun(item.key)))
            while under_way and under_way[0][1].done():
                yield under_way.popleft()
        yield from under_way

    def _begun(self, bet_id: str) -> "Future[Evidence]":
        if self.executor is not None:
            return self.executor.submit(look_up_anywhere, self._whom, bet_id)
        done: Future[Evidence] = Future()
        try:
            done.set_result(look_up_bet(self._client, bet_id))
        except Exception as failed:  # It is raised where the result is asked for.
            done.set_exception(failed)
        return done

    def _give_up_turns(self, chunk: Chunk, asked: int, left: Iterable[float] = ()) -> None:
        """For each request after the first, skip one of the turns that are *left*, or a later one of the run."""
        further = max(asked - 1, 0)  # None was sent where the deadline passed before.
        owed = further - len([*islice(left, further)])
        if owed > 0:
            self._journal.turns(chunk.run_id, owed)

    def _report(self, chunk: Chunk, answered: int, failed: TryLaterError, left: Iterable[float] = ()) -> None:
        """Report calls that were answered, and the one after them that was not."""
        self._give_up_turns(chunk, failed.asked, left)
        wait_millis = round(1_000 * (failed.wait_seconds or 0))
        if answered:
            self._journal.save(chunk, [], paced=Paced(answered=answered))
        paced = Paced(failed=1, refused=failed.is_refusal, wait_millis=wait_millis)
        self._journal.save(chunk, [], paced=paced)

    def _wait(self, until: float) -> None:
        seconds = until - time.monotonic()
        if seconds > 0:
            self.is_leaving.wait(seconds)
