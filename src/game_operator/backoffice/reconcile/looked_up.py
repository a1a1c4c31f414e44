"""Bets that were looked up and judged: what is kept of each, and what is committed of several at once."""

from typing import Final, NamedTuple

from game_operator.backoffice.journal.journal import Journal, move_items_script
from game_operator.backoffice.journal.records import ItemResult, Run
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
#: What a look that agrees resolves. What a late call has left is judged again, and resolved by a person alone.
_BY_A_LOOK: Final = tuple(str(verdict) for verdict in Verdict if verdict.is_finding)
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


class Batch:
    """What is to be committed of some bets that were looked up."""

    def __init__(self) -> None:
        self.results: list[ItemResult] = []
        self.findings: list[NewFinding] = []
        self.repairs: list[tuple[Looked, Judgement]] = []
        self.again: list[str] = []
        self.looks: dict[str, tuple[int, bytes]] = {}
        self.agree: list[str] = []
        self.answered: list[str] = []
        self.ours: list[Ours] = []

    def add(self, looked: Looked, judgement: Judgement, *, again: bool = False) -> None:
        """Add a bet and its verdict; with *again* it is looked at a second time."""
        self.results.append(result_of(looked, judgement, again=again))
        self.ours.append(looked.ours)
        if again:
            self.again.append(looked.key)
        if judgement.verdict.is_finding:
            self.findings.append(finding_of(looked, judgement))
        there, bet = looked.evidence.bet, looked.ours.bet
        if bet is not None and bet.state in (BetState.OPEN, BetState.SPENT) and looked.evidence.answered:
            self.looks[looked.key] = (looked.at_millis, looked.evidence.digest)
        if judgement.verdict in (Verdict.AGREES, Verdict.TEST_BET) or (
            judgement.verdict is Verdict.WAIT and isinstance(there, OpenBet)
        ):
            self.agree.append(looked.key)
        elif there is not None:
            self.answered.append(looked.key)

    def beside(self, run: Run, journal: Journal, dialect: SqlDialect) -> Steps[None]:
        """Keep the looks, close the findings that agree now, and put off what is looked at again."""
        now = yield from journal.now_script(dialect)
        yield from keep_looks(self.looks, run.source, run.service, dialect)
        why = f"a look of run {run.id} agrees"
        yield from close_findings(self.agree, run.source, why, now, _BY_A_LOOK, dialect)
        yield from close_findings(self.answered, run.source, why, now, _BY_AN_ANSWER, dialect)
        yield from judge_late_again(self.ours, run.source, dialect)
        if self.again:
            ready = now + int(run.options["second_look_millis"])
            yield from move_items_script(dialect, run.id, self.again, ready_at_millis=ready)


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
