"""Repairs and payments in few words, from this process and from others."""

from collections.abc import Callable
from typing import Any

from game_operator.errors import FindingError, RepairRefusedError
from game_operator.ledger import Outcome, SqlLedger
from game_operator.ledger.engine.dialects import SqlDialect
from game_operator.ledger.office import Office
from game_operator.ledger.staff.findings import Finding, page_of_findings
from game_operator.ledger.staff.repairs import Payment, Repair
from game_operator.ledger.steps import Steps
from game_operator.models.webhooks import DepositCall, RollbackCall
from game_operator.wallet import Wallet
from tests.support.crowds import PATIENCE_SECONDS, meet


def nothing(_outcome: Outcome, _dialect: SqlDialect) -> Steps[None]:
    """Do nothing beside."""
    yield from ()


def won(cents: int, bet_id: str = "b1", player_id: str = "p1") -> DepositCall:
    """Return the deposit that the evidence stands for."""
    return DepositCall(player_id=player_id, bet_id=bet_id, amount_cents=cents, tx_id=f"reconcile:{bet_id}")


def lost(bet_id: str = "b1", player_id: str = "p1") -> RollbackCall:
    """Return the rollback that the evidence stands for."""
    return RollbackCall(player_id=player_id, bet_id=bet_id)


def repair(ledger: SqlLedger, call: DepositCall | RollbackCall, **terms: Any) -> Outcome:
    """Settle a bet without a call."""
    return Wallet(ledger, **terms).repair(Repair(call, "reconcile", nothing))


def payment(finding_id: int) -> Payment:
    """Return the payment of a finding by somebody."""
    return Payment(finding_id, "ann", "the provider owes it")


def pay(ledger: SqlLedger, finding_id: int, **terms: Any) -> tuple[Finding, Outcome]:
    """Pay what is owed for a finding."""
    return Wallet(ledger, **terms).pay(payment(finding_id))


def findings(ledger: SqlLedger, source: str = "") -> list[Finding]:
    """Return all findings of a source, the resolved ones too."""
    return Office(ledger).read(
        lambda dialect: page_of_findings(dialect, after=0, most=999, resolved=True, source=source, subject=None),
    )


def repair_there(url: str, call: DepositCall | RollbackCall) -> str:
    """Open a ledger, wait for the other processes, and return why this one has not settled the bet; "" if it has."""
    return _there(url, lambda ledger: repair(ledger, call))


def pay_there(url: str, finding_id: int) -> str:
    """Open a ledger, wait for the other processes, and return why this one has not paid; "" if it has."""
    return _there(url, lambda ledger: pay(ledger, finding_id)[1])


def _there(url: str, does: Callable[[SqlLedger], Outcome]) -> str:
    with SqlLedger(url, migrate=False, patience_seconds=PATIENCE_SECONDS) as ledger:
        meet()
        try:
            return "" if does(ledger).applied else "not applied"
        except (FindingError, RepairRefusedError) as refused:
            return str(refused)
