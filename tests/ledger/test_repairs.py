"""
Bets that are settled without a call of the provider, and the calls that come after all (decision 14; spec §3).

What a late call says is owed is paid once, and is worked out anew each time (docs/decisions/0040).
"""

from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any

import pytest

from game_operator.codes import BetState
from game_operator.errors import FindingError, RepairRefusedError, UnknownSourceError
from game_operator.ledger import SqlLedger, Terms
from game_operator.ledger.api import MAX_BALANCE_CENTS
from game_operator.models.webhooks import DepositCall, MovingCall, RollbackCall
from game_operator.wallet import Wallet
from tests.support.calls import deposit, rollback, withdraw
from tests.support.ledgers import AsyncInDatabase, InDatabase
from tests.support.raw_sql import rows, run
from tests.support.repairs import findings, lost, pay, repair, won
from tests.support.retention import drop

pytestmark = pytest.mark.outside

OPENING = 10_000


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


# --- payments ---------------------------------------------------------------------------------------------------------


def late(cents: int) -> DepositCall:
    """Return a deposit of another amount, whose identity is its own."""
    return deposit("b1", amount_cents=cents, tx_id=f"late {cents}")


def owed_for(ledger: SqlLedger, first: DepositCall | RollbackCall, *calls: MovingCall) -> list[int]:
    """Settle b1, let the calls come late, and return the ids of the findings."""
    repair(ledger, first)
    for call in calls:
        assert not ledger.apply(call).applied
    return [found.id for found in findings(ledger)]


@pytest.mark.parametrize(
    ("first", "call", "owed_cents", "due_cents"),
    [
        pytest.param(won(300), late(1_250), 950, 1_250, id="it pays more"),
        pytest.param(won(0), late(1), 1, 1, id="a cent"),
        pytest.param(won(300), late(100), -200, 100, id="it pays less"),
        pytest.param(won(300), rollback("b1"), 200, 500, id="a rollback of a settled bet"),
        pytest.param(won(800), rollback("b1"), -300, 500, id="a rollback of a bet that won"),
        pytest.param(lost(), late(800), 300, 800, id="a deposit of a refunded bet"),
        pytest.param(lost(), late(0), -500, 0, id="a loss of a refunded bet"),
    ],
)
@pytest.mark.drawn(5)
def test_what_is_owed_is_posted(
    ledger: SqlLedger, first: DepositCall | RollbackCall, call: MovingCall, owed_cents: int, due_cents: int
) -> None:
    """The account ends with what the late call says is due, and the finding is resolved by who paid, and why."""
    (number,) = owed_for(ledger, first, call)
    before = findings(ledger)[0]
    assert (before.owed_cents, before.at_stake_cents, before.paid_cents) == (owed_cents, due_cents, None)
    seen: list[Any] = []
    found, outcome = pay(ledger, number, after=lambda *given: seen.append(given[:2]))
    assert (outcome.code, outcome.applied, outcome.balance_cents) == (None, True, OPENING + due_cents)
    assert (found.paid_cents, found.resolved_by, found.resolution) == (owed_cents, "ann", "the provider owes it")
    assert found.resolved_at_millis is not None
    assert findings(ledger) == [found]
    assert ledger.balance("p1") == OPENING + due_cents
    assert ledger.verify().findings == ()
    # The operator's own code runs where money comes, with a deposit that stands for the payment.
    if owed_cents < 0:
        assert seen == []
        return
    ((stands, its_outcome),) = seen
    assert (stands.operation, stands.bet_id, stands.player_id) == ("deposit", "b1", "p1")
    assert (stands.amount_cents, stands.tx_id, its_outcome) == (owed_cents, f"finding:{number}", outcome)


def _new_finding(database_url: str, *, owed_cents: int | None = 200, subject: str = "b1", source: str = "") -> None:
    """Leave a finding as a reconciliation might."""
    run(
        database_url,
        "INSERT INTO {p}findings (id, kind, source, subject, tx_id, detail, at_stake_cents, owed_cents, "
        "first_at_millis, last_at_millis, seen) VALUES (7, 'amount_differs', ?, ?, '', '', 700, ?, 1, 1, 1)",
        source,
        subject,
        owed_cents,
    )


@pytest.mark.parametrize(
    ("finding", "problem"),
    [
        pytest.param(
            {"owed_cents": None}, "what is owed.* never will, .*by hand: .* own table", id="nothing is owed by it"
        ),
        pytest.param({"subject": "b9"}, "does not say what is owed", id="of an unknown bet"),
        pytest.param({"source": "other"}, "is of the source 'other', not ''", id="of another source"),
        pytest.param({}, "'b1' is OPEN, so what is owed for it is not known", id="of a bet that a call may settle"),
        pytest.param({"subject": "spent"}, "'spent' is SPENT", id="of a bet that a rollback may refund"),
        pytest.param({"subject": "tomb"}, "'tomb' is TOMBSTONE", id="of a tombstone"),
        pytest.param({"subject": "declined"}, "'declined' is DECLINED", id="of a declined bet"),
    ],
)
@pytest.mark.drawn(5)
def test_what_is_not_paid(ledger: SqlLedger, database_url: str, finding: dict[str, Any], problem: str) -> None:
    """It is refused with the reason; nothing is moved or resolved."""
    ledger.apply(withdraw("spent", amount_cents=0, action="RAIN"))
    ledger.apply(rollback("tomb", tx_id="withdraw:bet:tomb"))
    ledger.apply(withdraw("declined", amount_cents=10**7))
    _new_finding(database_url, **finding)
    with pytest.raises(FindingError, match=problem):
        pay(ledger, 7)
    assert ledger.balance("p1") == OPENING
    assert rows(database_url, "SELECT resolved_at_millis, paid_cents FROM {p}findings") == [(None, None)]


@pytest.mark.parametrize(("left_cents", "is_paid"), [(200, True), (199, False)])
def test_taking_back_more_than_there_is(ledger: SqlLedger, left_cents: int, is_paid: bool) -> None:
    """An account does not go below zero; the finding stays open until there is enough."""
    (number,) = owed_for(ledger, won(300), late(100))
    ledger.adjust("p1", Decimal(left_cents - OPENING - 300) / 100, reference="cash-out")
    if is_paid:
        assert pay(ledger, number)[1].balance_cents == 0
        return
    with pytest.raises(FindingError, match=r"holds 1\.99, and the finding 1 takes 2\.00 back"):
        pay(ledger, number)
    ledger.adjust("p1", Decimal("0.01"), reference="pay-in")
    assert pay(ledger, number)[1].balance_cents == 0


def test_an_account_below_zero_is_paid(ledger: SqlLedger, database_url: str) -> None:
    """As the operator's own table may have it."""
    (number,) = owed_for(ledger, won(300), late(500))
    run(database_url, "UPDATE {p}accounts SET balance_cents = -1000")
    assert pay(ledger, number)[1].balance_cents == -800


def test_paying_more_than_an_account_can_hold(ledger: SqlLedger) -> None:
    """It is refused; what reaches the limit is paid."""
    (number,) = owed_for(ledger, won(300), late(500))
    ledger.adjust("p1", Decimal(MAX_BALANCE_CENTS - 199 - ledger.balance("p1")) / 100, reference="pay-in")
    with pytest.raises(FindingError, match="more than it can hold"):
        pay(ledger, number)
    ledger.adjust("p1", Decimal("-0.01"), reference="cash-out")
    assert pay(ledger, number)[1].balance_cents == MAX_BALANCE_CENTS


def test_findings_of_a_source(sqlite_url: str) -> None:
    """A wallet pays for its own source; another's does not see the bet of the same name."""
    with SqlLedger(sqlite_url) as ledger:
        for source in ("eu", "uk"):
            ledger.add_source(source)
        ledger.open_account("p1", Decimal("100.00"))
        wallet = Wallet(ledger, source="eu")
        wallet.withdraw(withdraw("b1"))
        Wallet(ledger, source="uk").withdraw(withdraw("b1"))
        repair(ledger, won(0), source="eu")
        wallet.deposit(deposit("b1", amount_cents=700))
        (found,) = findings(ledger, "eu")
        assert findings(ledger, "uk") == []
        with pytest.raises(FindingError, match="of the source 'eu', not 'uk'"):
            pay(ledger, found.id, source="uk")
        assert pay(ledger, found.id, source="eu")[1].balance_cents == 9_700
        # What was paid for one of the two bets is not taken for paid for the other.
        repair(ledger, won(0), source="uk")
        Wallet(ledger, source="uk").deposit(deposit("b1", amount_cents=300))
        (other,) = findings(ledger, "uk")
        assert pay(ledger, other.id, source="uk")[0].paid_cents == 300
        with pytest.raises(UnknownSourceError):
            Wallet(ledger, source="us")
        assert ledger.verify().findings == ()


@pytest.mark.parametrize(
    ("amounts", "order", "paid"),
    [
        pytest.param([1_250, 800], [0, 1], [950, -450], id="the second says less than the first has paid"),
        pytest.param([1_250, 800], [1, 0], [500, 450], id="the other way round"),
        pytest.param([100, 1_250], [0, 1], [-200, 1_150], id="taken back, and paid after all"),
        pytest.param([100, 0], [0, 1], [-200, -100], id="taken back twice"),
        pytest.param([1, 2, 3], [2, 1, 0], [-297, -1, -1], id="three of them"),
    ],
)
@pytest.mark.drawn(4)
def test_two_late_calls_do_not_pay_twice(
    ledger: SqlLedger, amounts: Sequence[int], order: Sequence[int], paid: Sequence[int]
) -> None:
    """After each payment the account has what that call says is due, and not what both say."""
    numbers = owed_for(ledger, won(300), *map(late, amounts))
    for index, cents in zip(order, paid, strict=True):
        found, outcome = pay(ledger, numbers[index])
        assert (found.paid_cents, outcome.balance_cents) == (cents, OPENING + amounts[index])
    for number in numbers:
        with pytest.raises(FindingError, match=f"finding {number} was resolved by ann already"):
            pay(ledger, number)
    assert ledger.balance("p1") == OPENING + amounts[order[-1]]
    assert ledger.verify().findings == ()


def test_the_same_amount_by_two_calls_is_paid_once(ledger: SqlLedger) -> None:
    """Nothing is owed for the second any more: it is resolved without paying."""
    first, second = owed_for(ledger, lost(), late(800), deposit("b1", amount_cents=800, tx_id="again"))
    pay(ledger, first)
    with pytest.raises(FindingError, match=f"Nothing is owed for the finding {second} any more"):
        pay(ledger, second)
    assert ledger.balance("p1") == OPENING + 800
