"""Bets that are settled without a call of the provider, and the calls that come after all (decision 14; spec §3)."""

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest

from game_operator.codes import BetState
from game_operator.errors import RepairRefusedError
from game_operator.ledger import SqlLedger
from game_operator.ledger.api import Outcome
from game_operator.ledger.engine.dialects import SqlDialect
from game_operator.ledger.engine.script import Script
from game_operator.ledger.staff.repairs import Repair
from game_operator.models.webhooks import DepositCall, RollbackCall
from game_operator.wallet import Wallet
from tests.support.calls import deposit, rollback, withdraw
from tests.support.repairs import findings, repair, won

pytestmark = [pytest.mark.outside]


@pytest.fixture
def ledger(database_url: str) -> Iterator[SqlLedger]:
    """A ledger in which p1 has 100.00 and the bet b1 of 5.00 is OPEN."""
    with SqlLedger(database_url) as ledger:
        ledger.open_account("p1", Decimal("105.00"))
        assert ledger.apply(withdraw("b1", amount_cents=500)).applied
        yield ledger


@pytest.mark.parametrize("cents", [0, 1, 1_250])
def test_a_lost_deposit(ledger: SqlLedger, cents: int) -> None:
    """It is credited once; the deposit that comes later moves nothing and is taken for it."""
    outcome = repair(ledger, won(cents))
    assert (outcome.applied, outcome.code, outcome.balance_cents) == (True, None, 10_000 + cents)
    bet = ledger.bet("b1")
    assert bet is not None
    assert (bet.state, bet.won_cents, bet.deposit_tx_id, bet.settled_by) == (BetState.CLOSED, cents, None, "reconcile")
    assert ledger.verify().findings == ()
    with pytest.raises(RepairRefusedError, match="is CLOSED, and only an OPEN bet"):
        repair(ledger, won(cents))
    late = ledger.apply(deposit("b1", amount_cents=cents))
    assert (late.code, late.applied, late.balance_cents) == (None, False, 10_000 + cents)
    bet = ledger.bet("b1")
    assert bet is not None
    assert bet.deposit_tx_id == "deposit:bet:b1"
    assert ledger.apply(deposit("b1", amount_cents=cents)).replayed
    assert ledger.balance("p1") == 10_000 + cents
    assert findings(ledger) == []
    assert ledger.verify().findings == ()


def test_a_lost_rollback(ledger: SqlLedger) -> None:
    """The stored wager is refunded once; the rollback that comes later moves nothing."""
    assert repair(ledger, RollbackCall(player_id="p1", bet_id="b1", amount_cents=7)).balance_cents == 10_500
    bet = ledger.bet("b1")
    assert bet is not None
    assert (bet.state, bet.settled_by) == (BetState.ROLLED_BACK, "reconcile")
    late = ledger.apply(rollback("b1"))
    assert (late.code, late.applied, late.balance_cents) == (None, False, 10_500)
    assert findings(ledger) == []
    assert ledger.verify().findings == ()


@pytest.mark.parametrize(
    ("first", "late", "code", "owed_cents"),
    [
        pytest.param(won(300), deposit("b1", amount_cents=1_250), "BET_ALREADY_CLOSED", 950, id="it pays more"),
        pytest.param(won(300), deposit("b1", amount_cents=100), "BET_ALREADY_CLOSED", -200, id="it pays less"),
        pytest.param(won(300), rollback("b1"), "BET_ALREADY_CLOSED", 200, id="a rollback of a settled bet"),
        pytest.param(
            RollbackCall(player_id="p1", bet_id="b1"),
            deposit("b1", amount_cents=800),
            "BET_ROLLED_BACK",
            300,
            id="a deposit of a refunded bet",
        ),
    ],
)
def test_a_late_call_that_says_something_else(
    ledger: SqlLedger, first: DepositCall | RollbackCall, late: Any, code: str, owed_cents: int
) -> None:
    """It moves nothing, and what is owed by it is one finding, however often it comes."""
    balance_cents = repair(ledger, first).balance_cents
    for _ in range(3):
        outcome = ledger.apply(late)
        assert (outcome.code, outcome.applied, outcome.balance_cents) == (code, False, balance_cents)
    (found,) = findings(ledger)
    assert (found.kind, found.subject, found.owed_cents) == (f"late_{late.operation}", "b1", owed_cents)
    assert (found.seen, found.player_id, found.account, found.run_id) == (3, "p1", "p1", None)
    assert ledger.verify().findings == ()


def test_a_late_call_of_a_bet_that_a_call_has_settled(ledger: SqlLedger) -> None:
    """It is an anomaly as ever, and no finding."""
    ledger.apply(deposit("b1", amount_cents=300))
    assert ledger.apply(deposit("b1", tx_id="other", amount_cents=900)).code == "BET_ALREADY_CLOSED"
    assert ledger.apply(rollback("b1")).code == "BET_ALREADY_CLOSED"
    assert findings(ledger) == []


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        pytest.param(won(5, bet_id="b9"), "There is no bet 'b9'", id="unknown"),
        pytest.param(won(5, player_id="p2"), "is of 'p1', not of 'p2'", id="another player's"),
    ],
)
def test_what_is_not_repaired(ledger: SqlLedger, call: DepositCall, problem: str) -> None:
    """It is refused with the reason, and nothing moves."""
    with pytest.raises(RepairRefusedError, match=problem):
        repair(ledger, call)
    assert ledger.balance("p1") == 10_000


def test_a_bet_that_a_claim_names(ledger: SqlLedger) -> None:
    """What the provider reports as won may hold the jackpot that was paid by the claim."""
    ledger.apply(deposit("b1", action="JACKPOT", amount_cents=900, tx_id="j"))
    with pytest.raises(RepairRefusedError, match="The claim 'j' names the bet 'b1'"):
        repair(ledger, won(900))
    assert ledger.balance("p1") == 10_900


def test_within_runs_in_the_same_transaction(ledger: SqlLedger) -> None:
    """It gets the call that never came and applied=True; what it raises undoes the repair."""
    seen: list[Any] = []

    def within(call: Any, outcome: Outcome, _connection: Any) -> None:
        seen.append((call.operation, call.amount_cents, outcome.applied))
        if len(seen) == 1:
            raise ValueError("not now")

    with pytest.raises(ValueError, match="not now"):
        repair(ledger, won(700), within=within)
    bet = ledger.bet("b1")
    assert bet is not None
    assert (bet.state, ledger.balance("p1")) == (BetState.OPEN, 10_000)
    assert repair(ledger, won(700), within=within).applied
    assert seen == [("deposit", 700, True)] * 2
    assert ledger.balance("p1") == 10_700


def test_what_is_done_beside_undoes_it(ledger: SqlLedger) -> None:
    """The journal refuses, for a lost lease say: nothing moves."""

    def refused(_outcome: Outcome, _dialect: SqlDialect) -> Script[None]:
        yield from ()
        raise RepairRefusedError("No.")

    with pytest.raises(RepairRefusedError):
        Wallet(ledger).repair(Repair(won(700), "reconcile", refused))
    assert ledger.balance("p1") == 10_000
    assert ledger.verify().findings == ()
