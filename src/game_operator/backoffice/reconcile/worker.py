"""
Works on the chunks of a reconciliation: judges what was looked up, commits, and settles what two equal looks agree on.

Any number of workers share a run, in one process or in many. What the ledger knows of a bet is read before the provider
is asked: a call that comes in between makes a repair be refused, and never a wrong finding.
"""

import logging
import os
import socket
from collections import Counter
from collections.abc import Callable, Mapping, Sequence, Set
from functools import partial
from typing import TYPE_CHECKING, Final

from game_operator.backoffice.journal import Journal
from game_operator.backoffice.journal_records import Chunk, ItemResult, Paced, Run
from game_operator.backoffice.reconcile.batch import (
    Batch,
    Judged,
    Looked,
    call_of,
    finding_of,
    result_of,
    settled_before,
    tally_since,
)
from game_operator.backoffice.reconcile.judge import DAY_MILLIS, Judgement, Limits, Ours, Verdict, judge
from game_operator.backoffice.reconcile.look_ups import LookUps, NotNowError
from game_operator.backoffice.reconcile.population import lately_settled, looks_of, ours_of
from game_operator.codes import BetState
from game_operator.errors import (
    ApiError,
    LeaseLostError,
    LedgerUnavailableError,
    RepairRefusedError,
    TransportError,
    one_line,
)
from game_operator.ledger.api import Outcome
from game_operator.ledger.engine.dialects import SqlDialect
from game_operator.ledger.office import Office
from game_operator.ledger.rules.book import NewFinding
from game_operator.ledger.staff.repairs import Repair
from game_operator.ledger.steps import Steps
from game_operator.models import ClosedBet
from game_operator.money import cents_rounded_down

if TYPE_CHECKING:
    from game_operator.client.sync import OperatorClient
    from game_operator.telemetry import Telemetry
    from game_operator.wallet import JoinedWallet, Wallet

_LOG = logging.getLogger("game_operator.backoffice")

#: A repair is committed while its second look is no older than this.
_FRESH_MILLIS: Final = 5 * 60_000
#: A run that is older settles nothing any more.
_REPAIRING_MILLIS: Final = DAY_MILLIS
#: Before its first repair a worker looks up so many bets that calls have settled; of those two may not disagree.
_LATELY: Final = 20
_LATELY_MILLIS: Final = 60_000
_MOST_DISAGREEING: Final = 1


class _BrakeError(RepairRefusedError):
    """The brakes of the run let nothing more through."""


class Worker:
    """Works on runs of one service and one source."""

    def __init__(
        self,
        client: "OperatorClient",
        wallet: "Wallet | JoinedWallet",
        journal: Journal,
        *,
        telemetry: "Telemetry | None" = None,
    ) -> None:
        self._client, self._wallet, self._journal = client, wallet, journal
        self._telemetry = telemetry
        #: Asks the provider; it can be told to leave.
        self.look_ups: LookUps = LookUps(client, journal)
        self._name = f"{socket.gethostname()}:{os.getpid()}"
        self._max_wins: dict[str, int] | None = None
        #: The runs whose service knows what calls have settled lately.
        self._fresh: set[int] = set()
        #: Of each run what its actor has settled in earlier ones.
        self._before: dict[int, list[tuple[int, int]]] = {}

    def work(self, run_id: int, *, until: float | None = None) -> None:
        """Work on chunks until none can be taken now, or until a time of ``time.monotonic``."""
        run = self._journal.run(run_id)  # What it was begun with, and when, never changes.
        self._max_wins = None  # Limits change, and a reconciler may live for long.
        while not self.look_ups.is_over(until):
            chunk = self._journal.claim(run_id, self._name)
            if chunk is None:
                return
            try:
                with self._journal.giving_back(chunk):
                    self._work_on(chunk, run, until)
            except LeaseLostError as lost:
                _LOG.info("%s", lost, extra={"event": "reconcile.lease_lost", "run_id": run_id})
            except ApiError as failed:  # Only a refusal of the operator gets here.
                self._journal.set_state(run_id, "paused", one_line(str(failed), 300))
                raise

    # --- looking up

    def _work_on(self, chunk: Chunk, run: Run, until: float | None) -> None:
        try:
            if not self._looked_through(chunk, run, until):
                self._journal.save(chunk, [], done=True)
        except NotNowError as later:
            self._journal.save(chunk, [], again_millis=later.ready_millis)

    def _looked_through(self, chunk: Chunk, run: Run, until: float | None) -> bool:
        """Look up and judge what is left of a chunk; return whether that is committed as done."""
        waiting = [item for item in chunk.items if item.state == "" or item.values.get("again")]
        keys = {item.key for item in waiting}
        known, before = Office(self._journal.ledger).read(partial(_known_of, keys, run))
        if before:
            self._check_service(chunk, run)
        tries: Counter[str] = Counter()
        is_done = False
        while waiting:
            looked, paced = self.look_ups.bets(chunk, waiting, known, tries, until)
            done = {each.key for each in looked}
            waiting = [item for item in waiting if item.key not in done]
            is_done = self._commit(chunk, run, looked, before, paced, is_last=not waiting)
        return is_done

    def _count(self, findings: Sequence[NewFinding]) -> None:
        """Count findings that are committed."""
        if self._telemetry is not None:
            for each in findings:
                self._telemetry.instruments.findings.add(1, each.kind)

    # --- judging

    def _judged(self, looked: Looked, run: Run) -> Judgement:
        there = looked.evidence.bet
        max_win = self._max_win_cents(there.instance_id) if isinstance(there, ClosedBet) and there.won else None
        limits = Limits(looked.at_millis, int(run.options["min_age_millis"]), max_win)
        judgement = judge(looked.ours, looked.evidence, limits)
        bet = looked.ours.bet
        is_open = bet is not None and bet.state is BetState.OPEN
        if looked.first in (None, looked.evidence.digest) or not looked.evidence.answered or not is_open:
            return judgement
        detail = f"The provider's second answer differs from its first. {judgement.detail}".strip()
        return Judgement(Verdict.ANSWERS_DIFFER, detail, judgement.at_stake_cents)

    def _max_win_cents(self, instance_id: str) -> int | None:
        """Return the most that a bet of a game instance can win, or None if that is unknown."""
        if self._max_wins is None:
            self._max_wins = {}
            try:
                games = self._client.fetch_games()
            except (ApiError, TransportError) as failed:
                _LOG.warning("The limits of the games are unknown: %s", failed, extra={"event": "reconcile.no_limits"})
                return None
            instances = [instance for game in games for instance in game.instances]
            self._max_wins = {each.id: cents_rounded_down(each.bet_config.max_win) for each in instances}
        return self._max_wins.get(instance_id)

    # --- committing

    def _commit(
        self,
        chunk: Chunk,
        run: Run,
        looked: Sequence[Looked],
        before: Mapping[str, tuple[int, bytes]],
        paced: Paced | None,
        *,
        is_last: bool,
    ) -> bool:
        """
        Commit what was found of some bets, then settle those that may be, each in a separate transaction.

        Return whether the chunk is done, which it is with its last bets if none of them has to be settled.
        """
        batch = Batch()
        for each in looked:
            judgement = self._judged(each, run)
            if not (judgement.verdict.is_repair and _is_repairing(run, each.at_millis)):
                batch.judged.append(Judged(each, judgement))
            elif self._has_first_look(each, before.get(each.key), run):
                batch.repairs.append((each, judgement))
            else:
                batch.judged.append(Judged(each, judgement, again=True))
        is_done = is_last and not batch.repairs
        self._journal.save(
            chunk,
            batch.results,
            findings=batch.findings,
            paced=paced,
            done=is_done,
            beside=partial(batch.beside, run, self._journal),
        )
        self._count(batch.findings)
        for each, judgement in batch.repairs:
            self._settle(chunk, run, each, judgement)
        return is_done

    def _has_first_look(self, looked: Looked, before: tuple[int, bytes] | None, run: Run) -> bool:
        if looked.first is not None:
            return True  # It is equal, or the verdict would be another.
        second_look_millis = int(run.options["second_look_millis"])
        return (
            before is not None
            and before[1] == looked.evidence.digest
            and looked.at_millis - before[0] >= second_look_millis
        )

    # --- repairing

    def _settle(self, chunk: Chunk, run: Run, looked: Looked, judgement: Judgement) -> None:
        """Settle a bet; what keeps it from being settled is its result, and holds up no other."""
        assert looked.ours.bet is not None
        if run.id not in self._before:  # Outside the transactions that lock accounts; it changes no more.
            self._before[run.id] = settled_before(self._journal, run, self._now())
        repair = Repair(
            call_of(looked.ours.bet, looked.evidence, run),
            "reconcile",
            partial(self._moved, chunk, run, looked, judgement),
        )
        try:
            self._wallet.repair(repair)
        except (LeaseLostError, LedgerUnavailableError):
            raise
        except _BrakeError:
            if self._journal.run(run.id).state != "running":
                raise NotNowError from None  # Another worker has paused or stopped it.
            self._journal.save(chunk, [result_of(looked, judgement)])
        except RepairRefusedError as refused:
            self._judge_again(chunk, run, looked, refused)
        except Exception as failed:  # The operator's own statements may raise anything.
            extra = {"event": "reconcile.repair_failed", "run_id": run.id}
            _LOG.exception("The bet %r was not settled", looked.key, extra=extra)
            self._fail(chunk, looked, judgement, failed)

    def _moved(
        self, chunk: Chunk, run: Run, looked: Looked, judgement: Judgement, _outcome: Outcome, dialect: SqlDialect
    ) -> Steps[None]:
        """Beside a repair: the fence, the brakes and the result, in the repair's own transaction."""
        yield from self._journal.fence_script(dialect, chunk)
        now = yield from self._journal.now_script(dialect)
        if now - looked.at_millis > _FRESH_MILLIS or now - run.began_at_millis >= _REPAIRING_MILLIS:
            raise RepairRefusedError("The second look, or the run, is too old. Nothing was moved.")
        options = run.options
        bets, cents = tally_since(now, self._before[run.id])
        fits = yield from self._journal.count_moved_script(
            dialect,
            run.id,
            judgement.at_stake_cents,
            most=int(options["max_bets"]) - bets,
            most_cents=int(options["max_total_cents"]) - cents,
        )
        if not fits:
            raise _BrakeError("The brakes of the run let nothing more through. Nothing was moved.")
        verdict = Verdict.SETTLED if judgement.verdict is Verdict.SETTLE else Verdict.REFUNDED
        result = result_of(looked, judgement._replace(verdict=verdict))
        yield from self._journal.results_script(dialect, run.id, [result])

    def _judge_again(self, chunk: Chunk, run: Run, looked: Looked, refused: RepairRefusedError) -> None:
        """Judge by what the ledger knows now: a call may have come in between."""
        known = Office(self._journal.ledger).read(lambda dialect: ours_of({looked.key}, run.source, dialect))
        now = looked._replace(ours=known[looked.key])
        judgement = self._judged(now, run)
        if judgement.verdict.is_repair:
            self._fail(chunk, looked, judgement, refused)
            return
        batch = Batch()
        batch.judged.append(Judged(now, judgement))
        self._save_unless_settled(
            chunk, looked.key, batch.results, batch.findings, partial(batch.beside, run, self._journal)
        )

    def _fail(self, chunk: Chunk, looked: Looked, judgement: Judgement, failed: Exception) -> None:
        detail = f"The bet was not settled: {one_line(f'{type(failed).__name__}: {failed}', 300)}"
        failure = Judgement(Verdict.FAILED, detail, judgement.at_stake_cents)
        self._save_unless_settled(chunk, looked.key, [result_of(looked, failure)], [finding_of(looked, failure)])

    def _save_unless_settled(
        self,
        chunk: Chunk,
        key: str,
        results: Sequence[ItemResult],
        findings: Sequence[NewFinding],
        beside: Callable[[SqlDialect], Steps[None]] | None = None,
    ) -> None:
        """Save why a bet was not settled; nothing if it was: what raised may have done so after the commit."""
        saved: list[NewFinding] = []

        def save(dialect: SqlDialect) -> Steps[None]:
            # Behind the fence, which waits for a commit of the repair that is still under way.
            item = yield from self._journal.item_script(dialect, chunk.run_id, key)
            if item is not None and item.state in (Verdict.SETTLED, Verdict.REFUNDED):
                return
            yield from self._journal.results_script(dialect, chunk.run_id, results, findings)
            saved[:] = findings
            if beside is not None:
                yield from beside(dialect)

        self._journal.save(chunk, [], beside=save)
        self._count(saved)

    def _check_service(self, chunk: Chunk, run: Run) -> None:
        """Before a chunk may settle bets: stop the run if the service may be answering from an old copy."""
        now = self._now()
        if run.id in self._fresh or not _is_repairing(run, now):
            return
        script = partial(lately_settled, run.source, now - _LATELY_MILLIS, _LATELY)
        lately = Office(self._journal.ledger).read(script)
        differences = [found for ours in lately if (found := self._difference(chunk, ours)) is not None]
        if len(differences) <= _MOST_DISAGREEING:
            # The service is believed, so this is a difference like any other.
            self._journal.save(chunk, [], findings=differences)
            self._count(differences)
            self._fresh.add(run.id)
            return
        why = (
            f"{len(differences)} of the {len(lately)} bets that were settled last disagree with the service: it may be "
            "answering from an old copy, so nothing is repaired"
        )
        self._journal.set_state(run.id, "stopped", why)
        raise NotNowError

    def _difference(self, chunk: Chunk, ours: Ours) -> NewFinding | None:
        """Return how the service differs about a bet that a call has settled; no answer says nothing of its data."""
        assert ours.bet is not None
        evidence = self.look_ups.bet(chunk, ours.bet.bet_id)
        if evidence is None:
            return None
        now = self._now()
        judgement = judge(ours, evidence, Limits(now, 0, None))
        looked = Looked(ours.bet.bet_id, ours, evidence, now)
        return finding_of(looked, judgement) if judgement.verdict.is_finding else None

    def _now(self) -> int:
        return self._journal.now_millis()


def _known_of(
    keys: Set[str], run: Run, dialect: SqlDialect
) -> Steps[tuple[dict[str, Ours], dict[str, tuple[int, bytes]]]]:
    ours = yield from ours_of(keys, run.source, dialect)
    return ours, (yield from looks_of(keys, run.source, run.service, dialect))


def _is_repairing(run: Run, now_millis: int) -> bool:
    return bool(run.options.get("repair")) and now_millis - run.began_at_millis < _REPAIRING_MILLIS
