"""
The work of a campaign: one thread that takes chunks, sends their grants one after another, and commits each answer.

Before each call it is committed that the call is sent. Whatever kills the process then, the grant is in doubt, and is
asked for again under the same reference id. Nothing else in here can grant twice: the service keeps reference ids
(spec §2.2), and an attempt is made again only with the same values.
"""

import os
import socket
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from threading import Event, get_ident
from typing import TYPE_CHECKING, Final, NamedTuple

from game_operator.backoffice.campaigns.answers import IN_DOUBT, SETTLED, Answer, GrantState, answer_of
from game_operator.backoffice.campaigns.grants import grant_in
from game_operator.backoffice.campaigns.run_states import PARKED, explain_script, open_gate_script, pause_script
from game_operator.backoffice.journal.journal import Journal
from game_operator.backoffice.journal.records import Chunk, Item, ItemResult, Run
from game_operator.errors import GameOperatorError, LeaseLostError, LedgerError, one_line
from game_operator.ledger.engine.dialects import SqlDialect
from game_operator.ledger.engine.script import Script

if TYPE_CHECKING:
    from game_operator.client.sync import OperatorClient

#: The first chunk: its grants are made one at a time, before all others, and any refusal stops the campaign.
CANARY_CHUNK: Final = 1
CANARY_GRANTS: Final = 10
#: So many attempts at a grant without a definite answer are enough; then a person resumes.
MOST_ATTEMPTS: Final = 20
#: One attempt takes less than a lease, under any bounds of the client.
_ATTEMPT_SECONDS: Final = 30.0
#: After how long a chunk with unanswered grants is taken again, doubled each time.
AGAIN_MILLIS: Final = 1_000
LONGEST_AGAIN_MILLIS: Final = 60_000
_POLL_SECONDS: Final = 0.5
#: Turns are taken in advance for so long at most, and so many.
_AHEAD_SECONDS: Final = 0.25
_MOST_AHEAD: Final = 10
_LONGEST_REASON: Final = 300
#: How often the lease of a chunk is renewed while the service lets us wait.
_RENEWAL_SECONDS: Final = 10.0


class Counted(NamedTuple):
    """
    How far a campaign is.

    Attributes:
        settled: How many grants were granted or refused, by all processes.
        total: How many there are.
        granted: How many were granted, by all processes.
    """

    settled: int
    total: int
    granted: int


class Stopping:
    """Whether this process stops, and why; shared by its threads, and safe to set from a signal handler."""

    def __init__(self) -> None:
        self._event = Event()

    def __call__(self) -> None:
        """Ask the threads to finish what is under way, and to begin nothing more."""
        self._event.set()

    def wait(self, seconds: float) -> bool:
        """Wait, unless it stops; return whether it does."""
        return self._event.wait(max(0.0, seconds))

    @property
    def is_asked(self) -> bool:
        """Whether the threads were asked to stop."""
        return self._event.is_set()


class Granting:
    """One thread's work at a run."""

    def __init__(
        self,
        journal: Journal,
        run: Run,
        client: "OperatorClient",
        *,
        stopping: Stopping,
        on_settled: Callable[[GrantState], None],
    ) -> None:
        self._journal, self._run_id, self._name = journal, run.id, run.name
        # One attempt a call: what became of each is known, and is written down before the next.
        self._client = client.with_options(retries=0, deadline=_ATTEMPT_SECONDS)
        self._stopping, self._on_settled = stopping, on_settled
        self._worker = f"{socket.gethostname()}:{os.getpid()}:{get_ident()}"
        self._turns = deque[float]()
        self._clock_ahead_millis = self._sent_at_millis = 0

    def work(self) -> None:
        """
        Work until the run ends or pauses, or this process stops.

        Raises:
            LedgerError: The database cannot be used.
        """
        while not self._stopping.is_asked:
            chunk = self._journal.claim(self._run_id, self._worker)
            if chunk is None:
                if not self._waits_for_others():
                    return
                continue
            with suppress(LeaseLostError), self._given_back(chunk):
                self._visit(chunk)

    def _waits_for_others(self) -> bool:
        """Wait for a chunk; return False if there is nothing more to do. The last one to see it ends the run."""
        if self._journal.run(self._run_id).state != "running":
            return False
        waiting = self._journal.waiting(self._run_id)
        if waiting is None:
            self._journal.set_state(self._run_id, "finished")
            return False
        at_millis, _ = waiting
        if at_millis >= PARKED:
            why = f"some grants had no definite answer in {MOST_ATTEMPTS} attempts"
            self._journal.set_state(self._run_id, "paused", why)
            return False
        self._stopping.wait(min(_POLL_SECONDS, max(0.01, (at_millis - self._journal.now_millis()) / 1_000)))
        return True

    @contextmanager
    def _given_back(self, chunk: Chunk) -> Iterator[None]:
        """Give *chunk* back if the block raises: the next worker need not wait for the lease to end."""
        try:
            yield
        except LeaseLostError:
            raise
        except BaseException:  # Ctrl-C, too: the chunk is given back, and the error goes on.
            with suppress(LedgerError):
                self._journal.save(chunk, (), again_millis=0)
            raise

    def _visit(self, chunk: Chunk) -> None:
        """Make one attempt at each grant of *chunk* that is not settled."""
        self._clock_ahead_millis = self._journal.now_millis() - time.monotonic_ns() // 1_000_000
        unsettled, is_canary = list[int](), chunk.number == CANARY_CHUNK
        for item in chunk.items:
            if item.state in SETTLED:
                continue
            if unsettled and is_canary:  # One at a time: first what became of that one.
                break
            answer = self._attempt(chunk, item) if self._has_turn(chunk) else None
            if answer is None:  # This process stops, or the run does.
                self._journal.save(chunk, (), again_millis=0)
                return
            if stops := answer.stops or (answer.refused and is_canary and f"one of the first grants: {_said(answer)}"):
                self._save(chunk, item, answer, again_millis=0, beside=self._pausing(str(stops)))
                return
            self._save(chunk, item, answer)
            if answer.state in SETTLED:
                self._on_settled(answer.state)
            else:
                unsettled.append(item.attempts + 1)
        self._leave(chunk, unsettled, is_canary=is_canary)

    def _leave(self, chunk: Chunk, unsettled: list[int], *, is_canary: bool) -> None:
        """End the visit of *chunk*, some of whose grants are *unsettled* after so many attempts."""
        if not unsettled:
            gate = partial(open_gate_script, run_id=self._run_id) if is_canary else None
            self._journal.save(chunk, (), done=True, beside=gate)
        elif min(unsettled) >= MOST_ATTEMPTS:
            self._journal.save(chunk, (), again_millis=PARKED)
        else:
            wait_millis = min(AGAIN_MILLIS * 2 ** min(chunk.attempt - 1, 10), LONGEST_AGAIN_MILLIS)
            self._journal.save(chunk, (), again_millis=self._journal.now_millis() + wait_millis)

    def _attempt(self, chunk: Chunk, item: Item) -> Answer | None:
        """Commit that a grant is asked for, ask, and return what the answer means; None if the run was paused."""
        grant = grant_in(item)
        request = grant.request(self._name)
        in_doubt = item.state in IN_DOUBT
        self._sent_at_millis = self._now_millis()
        # Turns were taken in advance, and a pause of the run counts at once.
        if not self._journal.begin_items(chunk, [item.key], GrantState.SENDING):
            return None
        try:
            accepted = self._client.grant_free_bet(**request.model_dump())
        except GameOperatorError as failed:
            return answer_of(failed, grant, request.reference_id, in_doubt=in_doubt)
        return answer_of(accepted, grant, request.reference_id, in_doubt=in_doubt)

    def _save(
        self,
        chunk: Chunk,
        item: Item,
        answer: Answer,
        *,
        again_millis: int | None = None,
        beside: Callable[[SqlDialect], Script[None]] | None = None,
    ) -> None:
        state = "" if answer.state is GrantState.PLANNED else answer.state
        values = item.values
        # Of a process that was killed, what it was about to send has the time at which it began.
        begun_at_millis = item.at_millis if item.state in IN_DOUBT else self._sent_at_millis
        sent_at_millis = values.get("sent_at_millis", begun_at_millis)
        data = {"terms": values["terms"], "sent_at_millis": sent_at_millis, **answer.facts}
        self._journal.save(
            chunk,
            [ItemResult(item.key, state, data, item.at_stake_cents, answer.evidence)],
            findings=() if answer.finding is None else (answer.finding,),
            paced=answer.paced,
            again_millis=again_millis,
            beside=beside or (self._explaining(answer) if answer.paced.failed else None),
        )
        if answer.paced.refused:
            self._turns.clear()  # They were taken at a rate that the service refuses.

    def _explaining(self, answer: Answer) -> Callable[[SqlDialect], Script[None]]:
        return lambda dialect: explain_script(dialect, self._run_id, _said(answer))

    def _pausing(self, why: str) -> Callable[[SqlDialect], Script[None]]:
        return lambda dialect: pause_script(self._journal, dialect, self._run_id, why)

    def _has_turn(self, chunk: Chunk) -> bool:
        """Wait for the next turn; return False if this process stops meanwhile, or the run is not running any more."""
        if self._stopping.is_asked:
            return False
        if not self._turns and not self._take_turns():
            return False
        turn, renewed = self._turns.popleft(), time.monotonic()
        while (left := turn - time.monotonic()) > 0:
            if self._stopping.wait(min(left, 1)):
                return False
            if left > 1 and self._journal.run(self._run_id).state != "running":
                return False
            # Others would take the chunk, and wait for a later turn.
            if time.monotonic() - renewed > _RENEWAL_SECONDS:
                self._journal.save(chunk, ())
                renewed = time.monotonic()
        return True

    def _take_turns(self) -> bool:
        turns = self._journal.turns(self._run_id, _MOST_AHEAD, within_seconds=_AHEAD_SECONDS)
        now = time.monotonic()
        self._turns.extend(now + seconds for seconds in turns)
        return bool(turns)

    def _now_millis(self) -> int:
        """Return the time of the journal's clock, as it was when the chunk was taken, and what has passed since."""
        return self._clock_ahead_millis + time.monotonic_ns() // 1_000_000


def _said(answer: Answer) -> str:
    """Return what the service said, as one line that any database takes."""
    code, message = answer.facts.get("error_code"), answer.facts["message"]
    return one_line(f"{code}, {message}" if code else str(message), _LONGEST_REASON)
