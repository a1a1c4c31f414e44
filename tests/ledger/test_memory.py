"""What a MemoryLedger does beside the contract: clocks, threads, callbacks, anomalies, and outcomes as replies."""

from decimal import Decimal
from threading import Thread
from typing import Any

import pytest

from game_operator.errors import LedgerError
from game_operator.ledger import MemoryLedger, Outcome, Terms
from game_operator.ledger.api import Ledger
from game_operator.models.webhooks import BalanceCall, MovingCall, Reply
from game_operator.money import Cents
from game_operator.profile import Profile
from tests.support.calls import ask_balance, claim, deposit, rollback, withdraw
from tests.support.ledgers import postings_of, store_of
from tests.support.times import StoppedClock


def test_it_is_a_ledger() -> None:
    """It meets the Protocol, and can be opened like the others."""
    with MemoryLedger({"p1": Cents(1_000)}) as opened:
        ledger: Ledger = opened
        assert ledger.balance("p1") == 1_000


def test_opening_balances_are_postings() -> None:
    """Money that is there from the start came from somewhere."""
    ledger = MemoryLedger({"p1": 1_000, "p2": 0})
    assert [(each.to_account, each.amount_cents, each.operation) for each in postings_of(ledger)] == [
        ("p1", 1_000, "open")
    ]
    with pytest.raises(ValueError, match="opened"):
        MemoryLedger({"p1": -1})


def test_a_clock_that_is_set_back() -> None:
    """Times of movements only rise, whatever the clock does (D07)."""
    clock = StoppedClock(5_000)
    ledger = MemoryLedger({"p1": 1_000}, clock_millis=clock)
    assert ledger.apply(withdraw()).at_millis == 5_001
    clock.now_millis = 10
    assert ledger.apply(ask_balance()).at_millis == 5_001
    assert ledger.apply(deposit()).at_millis == 5_002
    ledger.adjust("p1", Decimal(1), reference="a")
    assert ledger.apply(ask_balance()).at_millis == 5_003
    clock.now_millis = 9_000
    assert ledger.apply(ask_balance()).at_millis == 9_000


@pytest.mark.parametrize("days", [1, 89, 365])
def test_b11_a_repeat_days_later(days: int) -> None:
    """Calls are known for ever (E07)."""
    clock = StoppedClock(1_000)
    ledger = MemoryLedger({"p1": 1_000}, clock_millis=clock)
    calls: list[MovingCall] = [withdraw(), deposit(), claim()]
    for call in calls:
        ledger.apply(call)
    clock.now_millis += days * 86_400_000
    for call in calls:
        outcome = ledger.apply(call)
        assert (outcome.code, outcome.applied, outcome.balance_cents) == (None, False, 2_050)
        assert outcome.at_millis == clock.now_millis


def test_what_within_raises_undoes_the_call() -> None:
    """Also what it would have kept to look at; and nothing of it comes with the next call."""

    def after(call: Any, outcome: Outcome, connection: None) -> None:
        assert connection is None
        raise RuntimeError(outcome.code or "SUCCESS")

    ledger = MemoryLedger({"p1": 1_000})
    for call, told in ((withdraw(), "SUCCESS"), (deposit(), "BET_NOT_FOUND"), (rollback(), "BET_NOT_FOUND")):
        with pytest.raises(RuntimeError, match=told):
            ledger.apply(call, terms=Terms(after=after))
    assert list(ledger.anomalies()) == []
    assert ledger.apply(claim()).balance_cents == 1_300
    assert list(ledger.bets()) == []
    assert [each.operation for each in postings_of(ledger)] == ["open", "deposit"]


def test_threads() -> None:
    """Threads that share it lose nothing."""
    ledger = MemoryLedger({"p1": 0})

    def pay(thread: int) -> None:
        for n in range(50):
            ledger.apply(claim(f"{thread}-{n}", amount_cents=1))

    threads = [Thread(target=pay, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ledger.balance("p1") == 400
    assert len(postings_of(ledger)) == 400


def test_anomalies_are_kept_once_for_each_body() -> None:
    """A body that comes again and again is one anomaly; by another source or of another kind it is another."""
    ledger = MemoryLedger({"p1": 1_000})
    for body in (b"1", b"1", b"2"):
        ledger.apply(deposit(body=body))
    ledger.add_source("s")
    ledger.apply(deposit(body=b"1"), terms=Terms(source="s"))
    assert [(each.kind, each.body) for each in ledger.anomalies()] == [
        ("early_deposit", b"1"),
        ("early_deposit", b"2"),
        ("early_deposit", b"1"),
    ]


def test_genuine_calls_that_never_became_one() -> None:
    """What the receiver refused is kept beside what the ledger refused."""
    ledger = MemoryLedger(clock_millis=StoppedClock(7))
    ledger.keep_anomaly("deposit", "unreadable", b"{")
    ledger.keep_anomaly("deposit", "unreadable", b"{")
    ledger.keep_anomaly("deposit", "unreadable", b"{", source="s")
    [first, second] = ledger.anomalies()
    assert (first.source, first.seen, second.source, second.seen) == ("", 2, "s", 1)
    assert (first.kind, first.code, first.operation, first.body, first.first_at_millis) == (
        "unreadable",
        "INVALID_REQUEST",
        "deposit",
        b"{",
        7,
    )


def test_bets_in_order() -> None:
    """By the time of the first call about them, then by id."""
    clock = StoppedClock(100)
    ledger = MemoryLedger({"p1": 1_000}, clock_millis=clock)
    assert list(ledger.bets()) == []
    for bet_id, at_millis in (("b3", 200), ("b2", 300), ("b1", 300)):
        clock.now_millis = at_millis
        ledger.apply(rollback(bet_id, tx_id=None))
    assert [bet.bet_id for bet in ledger.bets()] == ["b3", "b1", "b2"]
    assert [bet.bet_id for bet in ledger.bets(since_millis=200, until_millis=300)] == ["b3"]
    assert [bet.bet_id for bet in ledger.bets(since_millis=201)] == ["b1", "b2"]
    assert list(ledger.bets(source="s")) == []
    assert ledger.bet("b1", source="s") is None


@pytest.mark.parametrize(
    ("outcome", "reply", "refused"),
    [
        pytest.param(
            Outcome(code=None, balance_cents=Cents(5), at_millis=7),
            Reply(balance_cents=Cents(5), timestamp=7),
            False,
            id="success",
        ),
        pytest.param(
            Outcome(code="BET_NOT_FOUND", balance_cents=None, at_millis=7),
            Reply(code="BET_NOT_FOUND", timestamp=7),
            True,
            id="error",
        ),
    ],
)
def test_an_outcome_as_a_reply(outcome: Outcome, reply: Reply, refused: bool) -> None:
    """Code, balance and time go into the reply (spec §2.1)."""
    assert (outcome.reply(), outcome.refused) == (reply, refused)
    assert outcome.balance_amount == reply.balance


@pytest.mark.parametrize(
    ("call", "new_balance_cents", "problem"),
    [
        pytest.param(withdraw("b2", amount_cents=1_000), 0, "", id="all that there was"),
        pytest.param(deposit("b1", amount_cents=0), 1_000, "", id="a loss closes a bet"),
        pytest.param(withdraw("b2", amount_cents=1_001), None, "was refused with INSUFFICIENT_BALANCE", id="refused"),
        pytest.param(withdraw("b2", player_id="p9"), None, "was refused with PLAYER_NOT_FOUND", id="nobody"),
        pytest.param(withdraw("b1"), None, "is a repeat", id="repeated"),
        pytest.param(ask_balance("p1"), None, "moved nothing", id="only asked"),
    ],
)
def test_a_new_balance_is_a_number_or_an_error(
    call: MovingCall | BalanceCall, new_balance_cents: int | None, problem: str
) -> None:
    """Whoever reads it after a call that moved nothing has forgotten a case (docs/decisions/0014)."""
    with MemoryLedger({"p1": 1_500}) as ledger:
        ledger.apply(withdraw("b1"))
        outcome = ledger.apply(call)
        if new_balance_cents is not None:
            assert outcome.new_balance_cents == outcome.balance_cents == new_balance_cents
            return
        with pytest.raises(LedgerError, match=f"The call {problem}, so there is no new balance. Ask outcome.applied"):
            _ = outcome.new_balance_cents
        assert (outcome.balance_amount is None) == (call.player_id == "p9")


@pytest.mark.parametrize(
    ("player_id", "error"), [("", ValueError), (" ", ValueError), ("x" * 257, ValueError), (7, TypeError)]
)
def test_ids_that_no_account_can_have(player_id: Any, error: type[Exception]) -> None:
    """An account is opened under an id that a call can name; 256 code points are such."""
    ledger = MemoryLedger()
    with pytest.raises(error, match="player id"):
        ledger.open_account(player_id)
    assert ledger.open_account("x" * 256) == 0


@pytest.mark.parametrize("reference", ["", " ", "x" * 321])
def test_references_that_no_adjustment_can_have(reference: str) -> None:
    """A reference is a text of 1 to 320 characters."""
    ledger = MemoryLedger({"p1": 0})
    with pytest.raises(ValueError, match="reference"):
        ledger.adjust("p1", Decimal(1), reference=reference)
    assert ledger.adjust("p1", Decimal(1), reference="x" * 320) == 100


def test_an_adjustment_below_zero_of_a_negative_balance() -> None:
    """Only what takes money is refused below zero: paying in is not. An adjustment of nothing is recorded."""
    ledger = MemoryLedger({"p1": 0})
    store_of(ledger)._connection.execute("UPDATE game_operator_accounts SET balance_cents = -500")
    assert ledger.adjust("p1", Decimal("1.00"), reference="a") == -400
    with pytest.raises(LedgerError, match="below zero"):
        ledger.adjust("p1", Decimal("-0.01"), reference="b")
    assert ledger.adjust("p1", Decimal(0), reference="c") == -400
    with pytest.raises(LedgerError, match="belongs to"):
        ledger.adjust("p1", Decimal("0.01"), reference="c")


def test_rules_belong_to_the_call() -> None:
    """One ledger can serve several services, each by its own profile."""
    ledger = MemoryLedger({"p1": 1_000})
    lenient = Terms(rules=Profile(unknown_rollback="success"), source="lenient")
    assert ledger.apply(rollback()).code == "BET_NOT_FOUND"
    ledger.add_source("lenient")
    assert ledger.apply(rollback(), terms=lenient).code is None
