"""
What people do about findings and lost bets: list them, resolve them, pay what is owed, and refund a bet.

``Reconciler`` has methods of the same names, which say what is raised.
"""

import time
from collections.abc import Collection, Iterator
from datetime import timedelta
from functools import partial

from game_operator.backoffice.journal import Journal
from game_operator.backoffice.reconcile.evidence import Evidence, TryLaterError, bet_in, look_up_bet
from game_operator.backoffice.reconcile.judge import Limits, judge
from game_operator.backoffice.reconcile.population import looks_of, ours_of
from game_operator.client.sync import OperatorClient
from game_operator.codes import BetState
from game_operator.errors import FindingError, NoAnswerError, RepairRefusedError, shown
from game_operator.ledger.api import BetRecord, Outcome
from game_operator.ledger.engine.dialects import SqlDialect
from game_operator.ledger.office import Office
from game_operator.ledger.rules.book import NewFinding
from game_operator.ledger.sql import SqlLedger
from game_operator.ledger.staff.findings import (
    LATE_KINDS,
    Finding,
    check_person,
    finding,
    page_of_findings,
    resolve_finding,
)
from game_operator.ledger.staff.repairs import Payment, Repair
from game_operator.ledger.steps import Steps
from game_operator.models import BetNotFound
from game_operator.models.webhooks import RollbackCall
from game_operator.protocol.http import service_name
from game_operator.wallet import JoinedWallet, Wallet

_PAGE = 100
_NAP_SECONDS = 0.2


def findings_of(
    ledger: SqlLedger, *, source: str = "", resolved: bool = False, bet_id: str | None = None
) -> Iterator[Finding]:
    """Yield the findings of a source, the oldest first: the open ones, or with *resolved* all."""
    after = 0
    while True:
        script = partial(page_of_findings, after=after, most=_PAGE, resolved=resolved, source=source, subject=bet_id)
        found = Office(ledger).survey(script, "listing")
        yield from found
        if len(found) < _PAGE:
            return
        after = found[-1].id


def resolve(ledger: SqlLedger, finding_id: int, *, source: str = "", actor: str, reason: str) -> Finding:
    """Mark a finding as looked after, without paying; return it."""
    check_person(actor, reason)

    def script(dialect: SqlDialect) -> Steps[Finding]:
        _check_source((yield from finding(finding_id, dialect)), source)
        return (yield from resolve_finding(finding_id, actor, reason, dialect))

    return Office(ledger).write(script)


def pay(
    wallet: Wallet | JoinedWallet, finding_id: int, *, actor: str, reason: str, counting_claims: Collection[str] = ()
) -> Finding:
    """Post what is owed for a finding, once, and resolve it; return it, with ``paid_cents``."""
    check_person(actor, reason)
    ledger = _ledger_of(wallet)
    found = Office(ledger).read(partial(finding, finding_id))
    _check_source(found, wallet.terms.source)
    due_cents = _due_cents(found, ledger)
    return wallet.pay(Payment(finding_id, actor, reason, frozenset(counting_claims), due_cents))[0]


def _due_cents(found: Finding, ledger: SqlLedger) -> int | None:
    """Return what the account should have got, also where a claim keeps a finding from saying what is owed."""
    if found.owed_cents is not None or found.kind in LATE_KINDS:
        return found.at_stake_cents
    there = bet_in(found.evidence or b"", found.subject)
    ours = Office(ledger).read(partial(ours_of, {found.subject}, found.source))[found.subject]
    judged = judge(ours._replace(claim=None), Evidence(found.subject, there, b""), Limits(0, 0, None))
    return None if judged.owed_cents is None or judged.verdict != found.kind else judged.at_stake_cents


def refund(
    client: OperatorClient,
    wallet: Wallet | JoinedWallet,
    bet_id: str,
    *,
    actor: str,
    reason: str,
    journal: Journal,
    min_age_millis: int,
    second_look_millis: int,
) -> Outcome:
    """
    Refund a bet that the provider does not know, as a person decides; ask the provider twice first.

    Its age and the two looks are as for a run; the *journal* has the looks of runs.
    """
    check_person(actor, reason)
    evidence, source = _not_found(client, bet_id), wallet.terms.source
    ledger, now = _ledger_of(wallet), journal.now_millis()
    bet = ledger.bet(bet_id, source=source)
    if bet is None:
        raise RepairRefusedError(f"There is no bet {shown(bet_id)} in the ledger. Nothing was moved.")
    # A time in the future is a wrong clock's: its age says nothing.
    if bet.state is BetState.OPEN and 0 <= now - bet.opened_at_millis < min_age_millis:
        raise RepairRefusedError(
            f"The bet {shown(bet_id)} is not {timedelta(milliseconds=min_age_millis)} old yet: its calls may "
            "still come. Nothing was moved."
        )
    if bet.state is BetState.OPEN:  # Any other is refused at once.
        service = service_name(client.base_url, client.operator_id)
        looks = Office(ledger).read(partial(looks_of, {bet_id}, source, service))
        since_millis, digest = looks.get(bet_id, (now, evidence.digest))
        # Nobody waits if a run has had the same answer for so long.
        ready_millis = (since_millis if digest == evidence.digest else now) + second_look_millis
        while (left_millis := ready_millis - journal.now_millis()) > 0:
            time.sleep(min(left_millis / 1_000, _NAP_SECONDS))
        evidence = _not_found(client, bet_id)
    call = RollbackCall(
        player_id=bet.player_id,
        bet_id=bet_id,
        action=bet.action,
        tx_id=bet.withdraw_tx_id,
        amount_cents=bet.wager_cents,
    )
    return wallet.repair(Repair(call, "refund", partial(_refunded, bet, evidence, source, actor, reason)))


def _not_found(client: OperatorClient, bet_id: str) -> Evidence:
    """Ask the provider; raise RepairRefusedError unless it does not know the bet."""
    try:
        evidence = look_up_bet(client, bet_id)
    except TryLaterError as failed:
        cause = failed.__cause__
        raise cause if cause is not None else NoAnswerError(str(failed)) from None
    if not isinstance(evidence.bet, BetNotFound):
        there = f"The provider has it as {evidence.bet.status}." if evidence.bet else evidence.problem
        raise RepairRefusedError(
            f"The bet {shown(bet_id)} is refunded only if the provider does not know it. {there} Nothing was moved."
        )
    return evidence


def _ledger_of(wallet: Wallet | JoinedWallet) -> SqlLedger:
    ledger: object = wallet.ledger
    if not isinstance(ledger, SqlLedger):
        raise TypeError(f"the wallet's ledger must be a SqlLedger, not {type(ledger).__name__}: it keeps the findings")
    return ledger


def _check_source(found: Finding, source: str) -> None:
    if found.source != source:
        raise FindingError(
            f"The finding {found.id} is of the source {shown(found.source)}, not of {shown(source)}. Nothing was "
            "changed."
        )


def _refunded(
    bet: BetRecord,
    evidence: Evidence,
    source: str,
    actor: str,
    reason: str,
    _outcome: Outcome,
    dialect: SqlDialect,
) -> Steps[None]:
    """Beside a refund: keep it as a finding that is resolved at once, and resolve the others about the bet."""
    found = NewFinding(
        "refunded",
        bet.bet_id,
        reason,
        player_id=bet.player_id,
        account=bet.account,
        at_stake_cents=bet.wager_cents,
        evidence=evidence.body,
    )
    yield from dialect.store_findings(source, [found])
    open_ones = yield from page_of_findings(
        dialect, after=0, most=1_000, resolved=False, source=source, subject=bet.bet_id
    )
    for each in open_ones:
        yield from resolve_finding(each.id, actor, reason, dialect)
