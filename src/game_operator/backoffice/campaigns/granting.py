"""
The work of a campaign: one thread that takes chunks, sends their grants one after another, and commits each answer.

Before each call it is committed that the call is sent. Whatever kills the process then, the grant is in doubt, and is
asked for again under the same reference id. Nothing else in here can grant twice: the service keeps reference ids
(spec §2.2), and an attempt is made again only with the same values.

A campaign that is planned is paused until somebody runs it. All chunks but the first are held back until the first one,
the canary, is granted.
"""

import json
import os
import socket
import time
from collections import deque
from contextlib import suppress
from functools import partial
from itertools import zip_longest
from threading import Event, get_ident
from typing import TYPE_CHECKING, Final

from game_operator.backoffice.campaigns.answers import IN_DOUBT, SETTLED, Answer, GrantState, answer_of
from game_operator.backoffice.campaigns.grants import grant_in
from game_operator.backoffice.journal import MOST_FAILURES, Journal
from game_operator.backoffice.journal_records import Chunk, Item, ItemResult, Run
from game_operator.errors import GameOperatorError, LeaseLostError, one_line
from game_operator.ledger.engine.dialects import SqlDialect
from game_operator.ledger.engine.tables import sql_texts
from game_operator.ledger.office import Office
from game_operator.ledger.staff.findings import Finding
from game_operator.ledger.steps import Execute, Steps

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
#: A grant whose turn is so near is begun in the transaction that keeps the answer before it.
_NEAR_SECONDS: Final = 0.1
_LONGEST_REASON: Final = 300
#: How often the lease of a chunk is renewed while the service lets us wait.
_RENEWAL_SECONDS: Final = 10.0
#: Why a campaign is paused that was never run.
PLANNED: Final = "planned"
#: Chunks are held back to these times: until the canary is granted; and until somebody resumes.
BEHIND_CANARY: Final = 2**62
PARKED: Final = 2**61


class Granting:
    """
    One thread's work at a run.

    Args:
        journal: The journal.
        run: The run.
        client: Asks the service.
        stopping: Set, it lets the thread finish what is under way, and begin nothing more.
    """

    def __init__(self, journal: Journal, run: Run, client: "OperatorClient", *, stopping: Event) -> None:
        self._journal, self._run_id, self._name = journal, run.id, run.name
        # One attempt a call: what became of each is known, and is written down before the next.
        self._client = client.with_options(retries=0, deadline=_ATTEMPT_SECONDS)
        self._stopping = stopping
        #: When the next calls may be made, by ``time.monotonic``.
        self._turns = deque[float]()

    def work(self) -> None:
        """
        Work until the run ends or pauses, or this process stops.

        Raises:
            LedgerError: The database cannot be used.
        """
        worker = f"{socket.gethostname()}:{os.getpid()}:{get_ident()}"
        while not self._stopping.is_set():
            chunk = self._journal.claim(self._run_id, worker)
            if chunk is None:
                if not self._waits_for_others():
                    return
                continue
            with suppress(LeaseLostError), self._journal.giving_back(chunk):
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

    def _visit(self, chunk: Chunk) -> None:
        """Make one attempt at each grant of *chunk* that is not settled."""
        is_canary = chunk.number == CANARY_CHUNK
        left = [item for item in chunk.items if item.state not in SETTLED]
        unsettled, is_begun = list[int](), False
        for item, following in zip_longest(left, left[1:]):
            if not is_begun and not self._begins(chunk, item):  # This process stops, or the run does.
                self._journal.save(chunk, (), again_millis=0)
                return
            answer = self._asked(item)
            stops = answer.stops
            if answer.refused and is_canary:
                stops = stops or f"one of the first grants: {_said(answer)}"
            is_begun = self._save(chunk, item, answer, following, stops)
            if stops:
                return
            if answer.state not in SETTLED:
                unsettled.append(item.attempts + 1)
                if is_canary:  # One at a time: first what became of that one.
                    break
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

    def _begins(self, chunk: Chunk, item: Item) -> bool:
        """Wait for a turn, and commit that a grant is asked for; return False if nothing is sent any more."""
        # Turns were taken in advance, and a pause of the run counts at once.
        return self._has_turn(chunk) and self._journal.begin_item(chunk, item.key, GrantState.SENDING)

    def _asked(self, item: Item) -> Answer:
        """Ask for a grant that is begun, and return what the answer means."""
        grant = grant_in(item)
        request = grant.request(self._name)
        in_doubt = item.state in IN_DOUBT
        try:
            accepted = self._client.grant_free_bet(**request.model_dump())
        except GameOperatorError as failed:
            return answer_of(failed, grant, request.reference_id, in_doubt=in_doubt)
        return answer_of(accepted, grant, request.reference_id, in_doubt=in_doubt)

    def _save(self, chunk: Chunk, item: Item, answer: Answer, following: Item | None, stops: str) -> bool:
        """
        Commit what became of a grant, and pause the run if it *stops*.

        If the turn of the *following* grant is near, commit with it that this one is asked for, wait for its turn, and
        return True.
        """
        is_begun, turns = False, self._turns

        def beside(dialect: SqlDialect) -> Steps[None]:
            nonlocal is_begun, turns
            if stops:
                yield from pause_script(self._journal, dialect, self._run_id, stops)
            elif answer.paced.failed:
                yield from explain_script(dialect, self._run_id, _said(answer))
            elif following is not None and answer.state is GrantState.GRANTED:
                # A transaction may be repeated: nothing of this one is known before its commit.
                turns = self._turns or (yield from self._turns_script(dialect))
                is_begun = yield from self._next_script(dialect, chunk, following, turns)

        state = "" if answer.state is GrantState.PLANNED else answer.state
        data = {"terms": item.values["terms"], **answer.facts}
        self._journal.save(
            chunk,
            [ItemResult(item.key, state, data, item.at_stake_cents, answer.evidence)],
            findings=() if answer.finding is None else (answer.finding,),
            paced=answer.paced,
            again_millis=0 if stops else None,
            beside=beside,
        )
        self._turns = turns
        if answer.paced.refused:
            self._turns.clear()  # They were taken at a rate that the service refuses.
        if is_begun:
            time.sleep(max(0.0, self._turns.popleft() - time.monotonic()))
        return is_begun

    def _next_script(self, dialect: SqlDialect, chunk: Chunk, item: Item, turns: deque[float]) -> Steps[bool]:
        """Begin a grant whose turn is near; return False if it is not, or nothing is begun any more."""
        if not turns or turns[0] - time.monotonic() > _NEAR_SECONDS or self._stopping.is_set():
            return False
        return (yield from self._journal.begin_item_script(dialect, chunk, item.key, GrantState.SENDING))

    def _has_turn(self, chunk: Chunk) -> bool:
        """Wait for the next turn; return False if this process stops meanwhile, or the run is not running any more."""
        if self._stopping.is_set():
            return False
        if not self._turns:
            self._turns = Office(self._journal.ledger).write(self._turns_script)
        if not self._turns:
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

    def _turns_script(self, dialect: SqlDialect) -> Steps[deque[float]]:
        turns = yield from self._journal.turns_script(dialect, self._run_id, _MOST_AHEAD, _AHEAD_SECONDS)
        now = time.monotonic()
        return deque(now + seconds for seconds in turns)


def _said(answer: Answer) -> str:
    """Return what the service said, as one line that any database takes."""
    code, message = answer.facts.get("error_code"), answer.facts["message"]
    return one_line(f"{code}, {message}" if code else str(message), _LONGEST_REASON)


def sql_of(dialect: SqlDialect) -> dict[str, str]:
    """Return the statements of campaign.sql."""
    return sql_texts(
        __package__,
        "campaign.sql",
        prefix=dialect.prefix,
        finding_columns=", ".join(Finding._fields),
    )


def set_planned(journal: Journal, run: Run, grants: int) -> bool:
    """Say that all *grants* of a run are there; return False if it is not so, or was said before."""

    def script(dialect: SqlDialect) -> Steps[bool]:
        now = yield from journal.now_script(dialect)
        return bool((yield Execute(sql_of(dialect)["planned"], (PLANNED, now, run.id, run.id, grants))))

    return Office(journal.ledger).write(script)


def go_on(journal: Journal, run: Run, interval_micros: int, *, again: bool) -> bool:
    """
    Let a run go on at a rate; return False if it has ended meanwhile.

    With *again*, what was given up is tried again.
    """

    def script(dialect: SqlDialect) -> Steps[bool]:
        sql, now = sql_of(dialect), (yield from journal.now_script(dialect))
        parameters = json.dumps(run.options | {"interval_micros": interval_micros}, sort_keys=True)
        if not (yield Execute(sql["go_on"], (now, interval_micros, parameters, run.id))):
            return False
        if again:
            yield Execute(sql["let_go"], (run.id, PARKED))
        return True

    return Office(journal.ledger).write(script)


def stop(journal: Journal, run_id: int, why: str) -> None:
    """Pause a run that is running, or say another reason for its pause."""

    def script(dialect: SqlDialect) -> Steps[None]:
        yield Execute(sql_of(dialect)["stop"], (why, run_id))

    Office(journal.ledger).write(script)


def pause_script(journal: Journal, dialect: SqlDialect, run_id: int, why: str) -> Steps[None]:
    """Pause a run that is running."""
    now = yield from journal.now_script(dialect)
    yield Execute(sql_of(dialect)["pause"], (why, now, run_id))


def explain_script(dialect: SqlDialect, run_id: int, last: str) -> Steps[None]:
    """Say why the last call failed, if it has just paused the run."""
    yield Execute(sql_of(dialect)["explain"], (last, run_id, MOST_FAILURES))


def open_gate_script(dialect: SqlDialect, run_id: int) -> Steps[None]:
    """Let all chunks be taken that waited for the canary."""
    yield Execute(sql_of(dialect)["let_go"], (run_id, BEHIND_CANARY))
