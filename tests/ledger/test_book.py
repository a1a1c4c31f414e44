"""A page of the books: calls of one batch see each other, and what is to be written is exactly what has changed."""

import logging
import re
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from game_operator.codes import BetState
from game_operator.errors import LedgerError
from game_operator.ledger import MemoryLedger, Outcome, Terms
from game_operator.ledger.api import Account, account_of_parts
from game_operator.ledger.rules.book import (
    Anomaly,
    Book,
    Changes,
    Needs,
    Posting,
    asks_operator,
    named_account,
)
from game_operator.ledger.rules.decide import identity_of
from game_operator.models.webhooks import BalanceCall, FreeBet, MovingCall, WebhookCall
from game_operator.profile import Profile
from game_operator.protocol.webhook import encode_call
from tests.support.calls import ask_balance, claim, deposit, rollback, withdraw
from tests.support.ledgers import store_of

TERMS = Terms()


def book_of(**cents: int) -> Book:
    """Return a book with these accounts."""
    book = Book()
    book.accounts = {key: Account(key, balance) for key, balance in cents.items()}
    return book


def applied(book: Book, *calls: WebhookCall, terms: Terms = TERMS) -> list[Outcome]:
    """Apply *calls* one after another at the second second."""
    return [book.apply(call, terms, clock_millis=2_000) for call in calls]


def codes(outcomes: list[Outcome]) -> list[str | None]:
    """Return their codes."""
    return [outcome.code for outcome in outcomes]


# --- two of one batch -------------------------------------------------------------------------------------------------


def test_the_same_twice() -> None:
    """The second is a repeat, as if the first had been committed (D09)."""
    book = book_of(p1=700)
    first, second = applied(book, withdraw(), withdraw())
    assert (first.applied, second.applied, second.replayed) == (True, False, True)
    assert len(book.changes.calls) == len(book.changes.postings) == len(book.changes.new_bets) == 1
    assert book.changes.accounts == {"p1": Account("p1", 200, 2_000)}


def test_a_bet_opened_and_closed() -> None:
    """It is written once, as it stands in the end; its two movements are both written, at two times."""
    book = book_of(p1=700)
    applied(book, withdraw(), deposit())
    assert book.changes.changed_bets == {}
    assert book.changes.new_bets["b1"].state is BetState.CLOSED
    assert [(each.amount_cents, each.at_millis) for each in book.changes.postings] == [(500, 2_000), (1250, 2_001)]
    assert book.changes.accounts == {"p1": Account("p1", 1_450, 2_001)}


# --- what is kept to look at ------------------------------------------------------------------------------------------


def test_an_anomaly_of_a_call_made_by_hand() -> None:
    """Its body is what the service would have written, and a rollback's tx_id is its withdraw's."""
    book = book_of(p1=700)
    applied(book, withdraw(tx_id="t"), deposit(tx_id="d"))
    call = rollback(tx_id=None)
    applied(book, call)
    kept = book.changes.anomalies[-1]
    named = ("rollback", "t", "b1", "p1", encode_call(call))
    assert kept == Anomaly("rollback_after_deposit", kept.code, *named, kept.at_millis)


def test_anomalies_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    """One line each; what cannot fix itself is an error, and no id forges a line."""
    with caplog.at_level(logging.INFO, "game_operator.ledger"):
        book = book_of(p1=700)
        applied(book, deposit("b\n1", body=b"{}"))
        applied(book, withdraw())
        applied(book, claim(bet_id="b2", free_bets=(FreeBet(won_cents=1),)))
        book.accounts.clear()
        applied(book, deposit())
    told = [(record.levelno, record.getMessage()) for record in caplog.records]
    assert told == [
        (logging.INFO, r"early_deposit: a deposit of bet 'b\n1' was answered BET_NOT_FOUND; it is kept to look at"),
        (logging.INFO, "sum_differs: a deposit of bet 'b2' was answered SUCCESS; it is kept to look at"),
        (logging.ERROR, "damaged_books: a deposit of bet 'b1' was answered SYSTEM_ERROR; it is kept to look at"),
    ]
    for_programs = {"event": "ledger.anomaly", "anomaly": "early_deposit", "operation": "deposit"}
    assert vars(caplog.records[0]).items() >= (for_programs | {"code": "BET_NOT_FOUND"}).items()


PLACED = withdraw(round_id="r1", game="g1", instance_id="i1")


@pytest.mark.parametrize(
    ("calls", "told"),
    [
        pytest.param([PLACED, PLACED], [], id="the same"),
        pytest.param([PLACED, withdraw()], [], id="nothing told"),
        pytest.param([withdraw(), PLACED], [], id="nothing kept"),
        pytest.param([PLACED, replace(PLACED, round_id="r2")], ["round_id 'r2', not 'r1'"], id="round"),
        pytest.param([PLACED, replace(PLACED, game="g\n2")], [r"game 'g\n2', not 'g1'"], id="game"),
        pytest.param([PLACED, replace(PLACED, instance_id="i2")], ["instance_id 'i2', not 'i1'"], id="instance"),
        pytest.param([PLACED, deposit(), deposit(wager_cents=501)], ["wager 501, not 500"], id="wager"),
        pytest.param([PLACED, deposit(), deposit(won_cents=1)], ["won 1, not 1250"], id="won"),
        pytest.param([PLACED, deposit(), deposit(wager_cents=500, won_cents=1250)], [], id="wager and won"),
        pytest.param([PLACED, rollback(), rollback(amount_cents=1)], ["amount 1, not 500"], id="amount"),
        pytest.param([PLACED, rollback(), rollback(amount_cents=500)], [], id="the wager"),
        pytest.param([PLACED, claim(bet_id="b1"), claim(bet_id="b1", round_id="r9")], [], id="a claim reads no bet"),
        pytest.param([rollback(round_id="r1"), rollback(round_id="r2")], [], id="a tombstone"),
    ],
)
def test_differences_beside_the_content(
    calls: list[WebhookCall], told: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    """A repeat that tells another round, game, instance or amount is a repeat, and is logged."""
    with caplog.at_level(logging.WARNING, "game_operator.ledger"):
        outcomes = applied(book_of(p1=700), *calls)
    assert outcomes[-1].replayed
    lines = [record.getMessage() for record in caplog.records]
    assert [line.partition(" has ")[2] for line in lines] == [f"{each}: it changes nothing" for each in told]
    assert all(line.startswith(f"a repeated {calls[-1].operation} of bet 'b1'") for line in lines)


def test_the_body_of_a_claim_is_kept() -> None:
    """Totals read its free bets; no other body is kept where all is well."""
    book = book_of(p1=700)
    applied(book, withdraw(), deposit(), claim(), claim("claim-2", body=b"{ }"))
    assert book.changes.claims == {"claim-1": encode_call(claim()), "claim-2": b"{ }"}


@pytest.mark.parametrize("field", ["calls", "new_bets", "changed_bets", "anomalies"])
def test_whatever_is_to_be_written_is_a_change(field: str) -> None:
    """Each of these alone: a batch that leaves only an anomaly is committed too."""
    changes = Changes()
    assert not changes
    setattr(changes, field, ["something"])
    assert changes


def test_a_call_that_cannot_be_noted_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """What fails while it is noted fails before anything is."""

    def fails(call: WebhookCall) -> bytes:
        raise RuntimeError("cannot be written")

    monkeypatch.setattr("game_operator.ledger.rules.book.encode_call", fails)
    book = book_of(p1=700)
    for call in (claim(), deposit(), rollback()):
        with pytest.raises(RuntimeError):
            book.apply(call, TERMS, clock_millis=2_000)
    assert not book.changes
    assert (book.calls, book.bets, book.accounts) == ({}, {}, {"p1": Account("p1", 700)})
    # Where no body is kept, none is made.
    assert book.apply(withdraw(), TERMS, clock_millis=2_000).applied


# --- what a batch needs -----------------------------------------------------------------------------------------------


def test_a_claim_needs_no_bet() -> None:
    """Not the one that it names, either."""
    needs = Needs("")
    needs.add(claim(bet_id="b1"), TERMS)
    assert (needs.bets, needs.calls, needs.accounts) == (set(), {("deposit", "claim-1")}, {"p1"})


def test_a_rollback_needs_the_withdraw_of_its_tx_id() -> None:
    """It may be another bet's."""
    needs = Needs("")
    needs.add(rollback(tx_id="t"), TERMS)
    assert (needs.bets, needs.calls) == ({"b1"}, {("rollback", "t"), ("withdraw", "t")})


@pytest.mark.parametrize(
    ("call", "with_may_bet", "with_after"),
    [(withdraw(), True, True), (deposit(), False, True), (rollback(), False, True), (ask_balance(), False, False)],
)
def test_whose_calls_the_operator_is_asked_about(call: WebhookCall, with_may_bet: bool, with_after: bool) -> None:
    """``may_bet`` about withdraws, and ``after`` about all that may move money."""
    asked = [asks_operator(call, terms) for terms in (Terms(), Terms(may_bet=_no_answer), Terms(after=_no_answer))]
    assert asked == [False, with_may_bet, with_after]


def _no_answer(*_: object) -> None:
    """Answer nothing."""


def test_a_bet_binds_its_account() -> None:
    """Once debited, and for its player alone, as a claim does; a tombstone binds none."""
    mapped = Terms(account_of=lambda call: "wallet")
    book = book_of(p1=0, p2=0, wallet=5_000)
    applied(book, withdraw(), terms=mapped)
    assert book.account_key(deposit(), TERMS) == book.account_key(rollback(), TERMS) == "wallet"
    assert book.account_key(withdraw(), TERMS) == "wallet"
    assert book.account_key(deposit(player_id="p2"), mapped) == "p2"
    assert book.account_key(withdraw(player_id="p2"), mapped) == "wallet"
    applied(book, rollback("b2", tx_id=None), terms=mapped)
    assert book.account_key(withdraw("b2"), mapped) == "wallet"
    assert book.account_key(withdraw("b2"), TERMS) == "p1"
    applied(book, claim(), terms=mapped)
    assert (book.account_key(claim(), TERMS), book.account_key(claim(player_id="p2"), TERMS)) == ("wallet", "p2")


@pytest.mark.parametrize(
    ("call", "rules", "told"),
    [
        pytest.param(rollback(tx_id=None), Profile(), {("rollback", "t"), ("withdraw", "t")}, id="told by the bet"),
        pytest.param(rollback(tx_id="u"), Profile(), set(), id="told by the call"),
        pytest.param(withdraw(), Profile(), set(), id="a withdraw"),
        pytest.param(ask_balance(), Profile(), set(), id="a balance"),
        pytest.param(
            rollback(tx_id=None),
            Profile(rollback_tx_id="own"),
            {("rollback", "withdraw:bet:b1"), ("withdraw", "withdraw:bet:b1")},
            id="own",
        ),
    ],
)
def test_what_a_bet_tells_of_its_rollback(call: WebhookCall, rules: Profile, told: set[tuple[str, str]]) -> None:
    """A rollback without tx_id is known by its withdraw's, which only the bet can tell."""
    book = book_of(p1=700)
    applied(book, withdraw(tx_id="t"))
    assert book.identities_named_by_bet(call, Terms(rules=rules)) == told


# --- sources and accounts ---------------------------------------------------------------------------------------------


def test_the_source_of_a_bet() -> None:
    """A bet carries the name of its source, and so does what it moves."""
    book = Book("staging")
    book.accounts = {"p1": Account("p1", 700)}
    applied(book, withdraw())
    assert book.bets["b1"].source == book.changes.new_bets["b1"].source == "staging"
    assert book.changes.postings == [Posting("p1", None, 500, "staging", "withdraw", "withdraw:bet:b1", 2_000)]


@pytest.mark.parametrize("call", [deposit(), claim(), rollback(), withdraw()], ids=str)
def test_a_call_of_an_unknown_source(call: MovingCall) -> None:
    """A deposit or rollback is an anomaly, with what names it and its body; a withdraw leaves nothing."""
    book = book_of(p1=700)
    book.note_unknown_source(call, TERMS, 3_000)
    operation, tx_id = identity_of(call, None, TERMS.rules)
    kept = Anomaly("unknown_source", "SYSTEM_ERROR", operation, tx_id, call.bet_id, "p1", encode_call(call), 3_000)
    assert book.changes.anomalies == ([] if operation == "withdraw" else [kept])
    assert bool(book.changes) == (operation != "withdraw")


TWO_PARTS = account_of_parts(["p1", "EUR"])


@pytest.mark.parametrize(
    ("call", "answer", "key_parts", "account"),
    [
        pytest.param(withdraw(), None, 1, "p1", id="the player"),
        pytest.param(withdraw(), "a1", 1, "a1", id="what account_of answers"),
        pytest.param(claim(), "a1", 1, "a1", id="of a claim too"),
        pytest.param(deposit(), "a1", 1, "p1", id="but not of a deposit, which its bet binds"),
        pytest.param(rollback(), "a1", 1, "p1", id="nor of a rollback"),
        pytest.param(withdraw(), ("p1", "EUR"), 2, TWO_PARTS, id="a key of two parts"),
        pytest.param(rollback(player_id=TWO_PARTS), None, 2, account_of_parts([TWO_PARTS]), id="an id like such a key"),
        pytest.param(rollback(player_id=TWO_PARTS), None, 1, TWO_PARTS, id="which is a player where keys have one"),
        pytest.param(rollback(), None, 2, "p1", id="a player of a rollback where keys have two"),
    ],
)
def test_the_account_of_a_call(call: WebhookCall, answer: Any, key_parts: int, account: str) -> None:
    """It is the player's, or the one that account_of names."""
    terms = TERMS if answer is None else Terms(account_of=lambda asked: answer if asked is call else "")
    assert named_account(call, terms, key_parts) == account


def test_a_decline_is_of_the_account_that_was_named() -> None:
    """Also where there is none."""
    book = book_of()
    applied(book, withdraw(), terms=Terms(account_of=lambda _: "wallet-7"))
    assert [call.account for call in book.changes.calls] == [book.bets["b1"].account] == ["wallet-7"]


@pytest.mark.parametrize(
    ("answer", "key_parts", "problem"),
    [
        (7, 1, "answered 7; it must answer the key of an account, a text"),
        ("", 1, "answered ''; it must answer the key of an account, a text"),
        ("a" * 257, 1, "a text"),
        (("p1", "EUR"), 1, "a text"),
        ("p1", 2, "answered 'p1'; it must answer the key of an account, a tuple of 2 texts"),
        (("p1", "EUR", "x"), 2, "a tuple of 2 texts"),
        (("p1", 1), 2, "a tuple of 2 texts"),
        (["p1", "EUR"], 2, "a tuple of 2 texts"),
        (None, 2, "The key of an account has 2 columns, and the call names a player alone: pass account_of="),
    ],
)
def test_an_answer_that_is_not_a_key(answer: Any, key_parts: int, problem: str) -> None:
    """Taken for an unknown player, it would refuse the bet for good."""
    terms = TERMS if answer is None else Terms(account_of=lambda _: answer)
    with pytest.raises(LedgerError, match=re.escape(problem)):
        named_account(withdraw(), terms, key_parts)
    assert named_account(withdraw(), Terms(account_of=lambda _: "a" * 256)) == "a" * 256


# --- outcomes, and adjustments, by a ledger in memory ----------------------------------------------------------------


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
        assert outcome.balance_amount == outcome.reply().balance
        if new_balance_cents is not None:
            assert outcome.new_balance_cents == outcome.balance_cents == new_balance_cents
            return
        with pytest.raises(LedgerError, match=f"The call {problem}, so there is no new balance. Ask outcome.applied"):
            _ = outcome.new_balance_cents
        assert (outcome.balance_amount is None) == (call.player_id == "p9")


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
