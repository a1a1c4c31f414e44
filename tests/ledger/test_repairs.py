"""Bets that are settled without a call of the provider, and the calls that come after all (decision 14; spec §3)."""

from collections.abc import Iterator
from decimal import Decimal

import pytest

from game_operator.codes import BetState
from game_operator.errors import FindingError, RepairRefusedError
from game_operator.ledger import SqlLedger, Terms
from game_operator.models.webhooks import DepositCall, RollbackCall
from tests.support.calls import deposit, rollback, withdraw
from tests.support.ledgers import AsyncInDatabase, InDatabase
from tests.support.repairs import findings, lost, pay, repair, won
from tests.support.retention import drop

pytestmark = pytest.mark.outside


@pytest.fixture
def ledger(database_url: str) -> Iterator[SqlLedger]:
    """A ledger in which p1 has 100.00 and the bet b1 of 5.00 is OPEN."""
    with SqlLedger(database_url) as ledger:
        ledger.open_account("p1", Decimal("105.00"))
        assert ledger.apply(withdraw("b1", amount_cents=500)).applied
        yield ledger


@pytest.mark.parametrize("cents", [0, 1, 1_250, None])
def test_a_lost_call(ledger: SqlLedger, cents: int | None) -> None:
    """A deposit is credited once, and by a rollback the stored wager refunded; the call that comes later is that."""
    call: DepositCall | RollbackCall = RollbackCall(player_id="p1", bet_id="b1", amount_cents=7)
    late: DepositCall | RollbackCall = rollback("b1")
    state, balance_cents = BetState.ROLLED_BACK, 10_500
    if cents is not None:
        call, late, state, balance_cents = (
            won(cents),
            deposit("b1", amount_cents=cents),
            BetState.CLOSED,
            10_000 + cents,
        )
    outcome = repair(ledger, call)
    assert (outcome.applied, outcome.code, outcome.balance_cents) == (True, None, balance_cents)
    bet = ledger.bet("b1")
    assert bet is not None
    assert (bet.state, bet.won_cents, bet.deposit_tx_id, bet.settled_by) == (state, cents, None, "reconcile")
    assert ledger.verify().findings == ()
    with pytest.raises(RepairRefusedError, match=f"is {state}, and only an OPEN bet"):
        repair(ledger, call)
    for replayed in (False, True):
        outcome = ledger.apply(late)
        assert (outcome.code, outcome.applied, outcome.balance_cents) == (None, False, balance_cents)
        assert outcome.replayed is (replayed or cents is None)
    assert findings(ledger) == []
    assert ledger.verify().findings == ()


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        pytest.param(won(5, bet_id="b9"), "There is no bet 'b9'", id="unknown"),
        pytest.param(won(5, player_id="p2"), "is of 'p1', not of 'p2'", id="another player's"),
        # What the provider reports as won may hold the jackpot that was paid by the claim.
        pytest.param(won(900, bet_id="b2"), "The claim 'j' names the bet 'b2'", id="named by a claim"),
    ],
)
def test_what_is_not_repaired(ledger: SqlLedger, call: DepositCall, problem: str) -> None:
    """It is refused with the reason, and nothing moves."""
    ledger.apply(withdraw("b2", amount_cents=500))
    ledger.apply(deposit("b2", action="JACKPOT", amount_cents=900, tx_id="j"))
    with pytest.raises(RepairRefusedError, match=problem):
        repair(ledger, call)
    assert ledger.balance("p1") == 10_400


@pytest.mark.parametrize(
    ("cents", "is_resolved"), [pytest.param(700, True, id="the same"), pytest.param(900, False, id="another amount")]
)
def test_an_early_deposit_that_waits(ledger: SqlLedger, cents: int, is_resolved: bool) -> None:
    """``ledger retry`` after the repair moves nothing: it is taken for the lost one, or leaves what is owed."""
    assert ledger.apply(deposit("b2", amount_cents=cents)).code == "BET_NOT_FOUND"
    ledger.apply(withdraw("b2"))
    balance = repair(ledger, won(700, "b2")).balance_cents
    (early,) = ledger.anomalies(kind="early_deposit")
    assert ledger.retry(early.id).applied is False
    assert ledger.balance("p1") == balance
    assert [each.id for each in ledger.anomalies(kind="early_deposit")] == ([] if is_resolved else [early.id])
    assert [found.owed_cents for found in findings(ledger)] == ([] if is_resolved else [200])
    assert ledger.verify().findings == ()


def test_dropped_repairs_and_payments(ledger: SqlLedger) -> None:
    """What is folded adds up, and late calls are known as before: nothing is paid or settled twice."""
    for bet_id in ("b2", "b3"):
        ledger.apply(withdraw(bet_id))
    repair(ledger, won(700))
    repair(ledger, lost("b2"))
    repair(ledger, won(100, "b3"))
    ledger.apply(deposit("b3", amount_cents=900))
    (found,) = findings(ledger)
    paid, outcome = pay(ledger, found.id)
    assert drop(ledger, outcome.at_millis + 91 * 86_400_000) == 8
    assert ledger.verify().findings == ()
    balance = ledger.balance("p1")
    assert ledger.apply(deposit("b1", amount_cents=700)).code is None
    assert ledger.apply(rollback("b2", tx_id=None)).code is None
    assert ledger.apply(deposit("b3", amount_cents=900)).code == "BET_ALREADY_CLOSED"
    with pytest.raises(FindingError):
        pay(ledger, found.id)
    assert findings(ledger) == [paid._replace(seen=2, last_at_millis=findings(ledger)[0].last_at_millis)]
    assert ledger.balance("p1") == balance
    assert ledger.verify().findings == ()


@pytest.mark.parametrize("kind", ["sqlite", "async sqlite", "postgres", "async postgres"])
def test_late_calls_on_every_ledger(kind: str, request: pytest.FixtureRequest, sqlite_url: str) -> None:
    """What is owed is found out however the call comes: alone, or in a batch with others."""
    url = sqlite_url if "sqlite" in kind else request.getfixturevalue("postgres_url")
    made = AsyncInDatabase(url) if "async" in kind else InDatabase(url)
    try:
        made.open_account("p1", Decimal("100.00"))
        for number in range(6):
            made.apply(withdraw(f"b{number}"))
        with SqlLedger(url) as ledger:
            for number in range(5):
                repair(ledger, won(100, f"b{number}"))
            made.at_once([(deposit(f"b{number}", amount_cents=100 * number), Terms()) for number in range(6)])
            owed = {found.subject: found.owed_cents for found in findings(ledger)}
            assert owed == {"b0": -100, "b2": 100, "b3": 200, "b4": 300}
            assert ledger.balance("p1") == 10_000 - 6 * 500 + 5 * 100 + 500
            assert ledger.verify().findings == ()
    finally:
        made.close()
