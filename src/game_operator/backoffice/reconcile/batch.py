"""
Bets that were looked up and judged: what is kept of each, and what is committed of several at once.

The brakes of a repairing run also count the repairs of the same person in the last 20 hours. So the same command, begun
again after its run has ended, lets nothing more through.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from game_operator.backoffice.journal import Journal, move_items_script
from game_operator.backoffice.journal_records import ItemResult, Run
from game_operator.backoffice.reconcile.evidence import Evidence
from game_operator.backoffice.reconcile.judge import Judgement, Ours, Verdict
from game_operator.backoffice.reconcile.population import close_findings, judge_late_again, keep_looks
from game_operator.codes import BetState
from game_operator.errors import one_line
from game_operator.ledger.api import BetRecord
from game_operator.ledger.engine.dialects import SqlDialect
from game_operator.ledger.rules.book import NewFinding
from game_operator.ledger.steps import Steps
from game_operator.models import ClosedBet, OpenBet, RolledBackBet
from game_operator.models.webhooks import DepositCall, RollbackCall, problem_of_id

_LONGEST_ID: Final = 256
#: Less than a day, so that a command at the same hour of each day begins anew.
_COUNTED_MILLIS: Final = 20 * 3_600_000
#: What a look that agrees resolves. What a late call has left is judged again, and resolved by a person alone.
_BY_A_LOOK: Final = tuple(str(verdict) for verdict in Verdict if verdict.is_finding)
_MAY_BE_SETTLED: Final = (BetState.OPEN, BetState.SPENT)
_BY_AN_ANSWER: Final = (str(Verdict.UNREADABLE), str(Verdict.NO_ANSWER))


class Looked(NamedTuple):
    """
    A bet, what the ledger knows of it, and the answer about it.

    Attributes:
        key: The bet's id.
        ours: What the ledger knew before the provider was asked.
        evidence: The answer.
        at_millis: When it came.
        first: The digest of the first answer, where this is the second.
    """

    key: str
    ours: Ours
    evidence: Evidence
    at_millis: int
    first: bytes | None = None


class Judged(NamedTuple):
    """A bet and its judgement; with *again* it is looked at a second time."""

    looked: Looked
    judgement: Judgement
    again: bool = False


class Batch:
    """What is to be committed of some bets that were looked up, and those that may be settled after that."""

    def __init__(self) -> None:
        self.judged: list[Judged] = []
        self.repairs: list[tuple[Looked, Judgement]] = []

    @property
    def results(self) -> list[ItemResult]:
        """What became of the bets."""
        return [result_of(looked, judgement, again=again) for looked, judgement, again in self.judged]

    @property
    def findings(self) -> list[NewFinding]:
        """What a person should look into."""
        return [finding_of(looked, judgement) for looked, judgement, _ in self.judged if judgement.verdict.is_finding]

    def beside(self, run: Run, journal: Journal, dialect: SqlDialect) -> Steps[None]:
        """Keep the looks, close the findings that agree now, and put off what is looked at again."""
        now = yield from journal.now_script(dialect)
        yield from keep_looks(self._looks(), run.source, run.service, dialect)
        why = f"a look of run {run.id} agrees"
        agree = [each.looked.key for each in self.judged if _agrees(each)]
        others = [each for each in self.judged if each.looked.evidence.bet is not None and not _agrees(each)]
        yield from close_findings(agree, run.source, why, now, _BY_A_LOOK, dialect)
        yield from close_findings([each.looked.key for each in others], run.source, why, now, _BY_AN_ANSWER, dialect)
        yield from judge_late_again([each.looked.ours for each in self.judged], run.source, dialect)
        again = [each.looked.key for each in self.judged if each.again]
        if again:
            ready = now + int(run.options["second_look_millis"])
            yield from move_items_script(dialect, run.id, again, ready_at_millis=ready)

    def _looks(self) -> dict[str, tuple[int, bytes]]:
        """Return the answers about bets that may still be settled."""
        looked = [each.looked for each in self.judged if each.looked.evidence.answered]
        open_ones = [each for each in looked if each.ours.bet is not None and each.ours.bet.state in _MAY_BE_SETTLED]
        return {each.key: (each.at_millis, each.evidence.digest) for each in open_ones}


def _agrees(judged: Judged) -> bool:
    verdict = judged.judgement.verdict
    is_open_there = verdict is Verdict.WAIT and isinstance(judged.looked.evidence.bet, OpenBet)
    return verdict in (Verdict.AGREES, Verdict.TEST_BET) or is_open_there


def result_of(looked: Looked, judgement: Judgement, *, again: bool = False) -> ItemResult:
    """Return what is kept of a bet that was judged."""
    bet, there = looked.ours.bet, looked.evidence.bet
    data: dict[str, object] = {
        "detail": judgement.detail,
        "here": None if bet is None else bet.state.value,
        "there": None if there is None else there.status,
        "opened_at_millis": None if bet is None else bet.opened_at_millis,
        "player_id": bet.player_id if bet is not None else getattr(there, "player_id", None),
    }
    if judgement.owed_cents is not None:
        data["owed_cents"] = judgement.owed_cents
    if again:
        data["again"] = True
    verdict, evidence = str(judgement.verdict), looked.evidence
    return ItemResult(looked.key, verdict, data, judgement.at_stake_cents, evidence.body, evidence.digest)


def finding_of(looked: Looked, judgement: Judgement) -> NewFinding:
    """Return what a person should look into."""
    bet, verdict = looked.ours.bet, judgement.verdict
    is_ended = bet is not None and bet.state is not BetState.OPEN
    player_id = bet.player_id if bet is not None else getattr(looked.evidence.bet, "player_id", None)
    if player_id is not None and problem_of_id(player_id, _LONGEST_ID):  # It could not be stored.
        player_id = one_line(player_id, _LONGEST_ID)
    return NewFinding(
        str(verdict),
        looked.key,
        judgement.detail,
        # Resolved by a person, a claim that came after a repair or a payment is not reported again.
        tx_id=looked.ours.claim or "" if verdict is Verdict.CLAIMED and is_ended else "",
        player_id=player_id,
        account=None if bet is None else bet.account,
        at_stake_cents=judgement.at_stake_cents,
        owed_cents=judgement.owed_cents,
        evidence=looked.evidence.body,
    )


def call_of(bet: BetRecord, evidence: Evidence, run: Run) -> DepositCall | RollbackCall:
    """Return the call that *evidence* stands for, as it should have come."""
    there = evidence.bet
    if isinstance(there, ClosedBet):
        return DepositCall(
            player_id=bet.player_id,
            bet_id=bet.bet_id,
            action=bet.action,
            amount_cents=there.won,
            tx_id=f"reconcile:{run.id}:{bet.bet_id}",
            is_claim=False,
            wager_cents=there.wager,
            won_cents=there.won,
            round_id=there.round_id,
            instance_id=there.instance_id,
            game=there.game,
        )
    assert isinstance(there, RolledBackBet)
    return RollbackCall(
        player_id=bet.player_id,
        bet_id=bet.bet_id,
        action=bet.action,
        tx_id=bet.withdraw_tx_id,
        amount_cents=bet.wager_cents,
        round_id=there.round_id,
        instance_id=there.instance_id,
        game=there.game,
    )


class Tally(NamedTuple):
    """How many bets there are, and the money at stake in all."""

    bets: int
    total_cents: int


def settled_before(journal: Journal, run: Run, now_millis: int) -> list[tuple[int, int]]:
    """Return when, and for how many cents, the actor of *run* settled each bet lately, in earlier runs of the kind."""
    return journal.moved_before(run, now_millis - _COUNTED_MILLIS, (Verdict.SETTLED, Verdict.REFUNDED))


def tally_since(now_millis: int, settled: Iterable[tuple[int, int]]) -> Tally:
    """Return how much of what was *settled* counts now."""
    counted = [cents for at_millis, cents in settled if at_millis > now_millis - _COUNTED_MILLIS]
    return Tally(len(counted), sum(counted))
