"""What a late call says is owed is paid once, whoever pays, and is worked out anew each time (docs/decisions/0040)."""

from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any

import pytest

from game_operator.errors import FindingError, UnknownSourceError
from game_operator.ledger import SqlLedger
from game_operator.models.webhooks import DepositCall, MovingCall, RollbackCall
from game_operator.wallet import Wallet
from tests.support.calls import deposit, rollback, withdraw
from tests.support.raw_sql import rows, run
from tests.support.repairs import findings, lost, pay, repair, won

pytestmark = pytest.mark.outside

OPENING = 10_000


@pytest.fixture
def ledger(url: str) -> Iterator[SqlLedger]:
    """A ledger in which p1 has 100.00 and the bet b1 of 5.00 is OPEN."""
    with SqlLedger(url) as ledger:
        ledger.open_account("p1", Decimal("105.00"))
        assert ledger.apply(withdraw("b1", amount_cents=500)).applied
        yield ledger


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


def _new_finding(url: str, *, owed_cents: int | None = 200, subject: str = "b1", source: str = "") -> None:
    """Leave a finding as a reconciliation might."""
    run(
        url,
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
def test_what_is_not_paid(ledger: SqlLedger, url: str, finding: dict[str, Any], problem: str) -> None:
    """It is refused with the reason; nothing is moved or resolved."""
    ledger.apply(withdraw("spent", amount_cents=0, action="RAIN"))
    ledger.apply(rollback("tomb", tx_id="withdraw:bet:tomb"))
    ledger.apply(withdraw("declined", amount_cents=10**7))
    _new_finding(url, **finding)
    with pytest.raises(FindingError, match=problem):
        pay(ledger, 7)
    assert ledger.balance("p1") == OPENING
    assert rows(url, "SELECT resolved_at_millis, paid_cents FROM {p}findings") == [(None, None)]


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
