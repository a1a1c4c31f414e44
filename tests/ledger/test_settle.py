"""What a repair stores and refuses, and what a call that comes after it leaves (docs/decisions/0014, 0040)."""

from dataclasses import replace
from typing import Any

import pytest

from game_operator.codes import BetState
from game_operator.ledger.api import MAX_BALANCE_CENTS, CallRecord, Outcome, Terms
from game_operator.ledger.rules.book import Book, NewFinding, Posting
from game_operator.models.webhooks import MovingCall, WebhookCall
from game_operator.money import Cents
from tests.support.calls import WON_CENTS, deposit, rollback, withdraw
from tests.support.decision_table import STATES, book_in, effect_of

_STATES = {state.name: state for state in STATES}
OPEN, CLOSED, ROLLED_BACK = BetState.OPEN, BetState.CLOSED, BetState.ROLLED_BACK

CLOSING = deposit(amount_cents=700, round_id="r1", instance_id="i", game="g")


def after(*calls: WebhookCall) -> Book:
    """Return a book of p1 and p2 after *calls*."""
    book = book_in(_STATES["unseen"])
    for call in calls:
        book.apply(call, Terms(), clock_millis=1_000)
    return book


@pytest.mark.parametrize(
    ("call", "state", "won_cents", "delta_cents"),
    [
        pytest.param(CLOSING, CLOSED, 700, 700, id="a win"),
        pytest.param(replace(CLOSING, amount_cents=0), CLOSED, 0, 0, id="a loss"),
        pytest.param(
            rollback(amount_cents=7, round_id="r1", instance_id="i", game="g"), ROLLED_BACK, None, 500, id="a refund"
        ),
    ],
)
def test_what_a_repair_stores(call: Any, state: BetState, won_cents: int | None, delta_cents: int) -> None:
    """A call ``reconcile`` with the bet as its identity, and what was credited; the bet has no deposit yet."""
    book = after(withdraw(round_id="r0"))
    bet, before_cents = book.bets["b1"], book.accounts["p1"].balance_cents
    book.changes.postings.clear()
    outcome = book.settle(call, Terms(currency_of=lambda _: "EUR"), settled_by="refund", clock_millis=9_000)
    balance_cents = before_cents + delta_cents
    assert outcome == Outcome(code=None, balance_cents=Cents(balance_cents), at_millis=9_000, applied=True)
    assert book.bets["b1"] == bet._replace(
        state=state, won_cents=won_cents, settled_at_millis=9_000, round_id="r1", settled_by="refund"
    )
    assert book.calls["reconcile", "b1"] == CallRecord(
        *("reconcile", "b1", "p1", "p1", "b1", "BET", delta_cents, None, balance_cents, 9_000), "i", "g", "EUR"
    )
    expected = [Posting(None, "p1", delta_cents, "", "reconcile", "b1", 9_000)] if delta_cents else []
    assert book.changes.postings == expected
    assert (book.changes.anomalies, book.changes.findings) == ([], [])


@pytest.mark.parametrize(
    ("name", "call", "code"),
    [
        *((state.name, CLOSING, "BET_ALREADY_CLOSED") for state in STATES if state.name not in ("unseen", "OPEN")),
        pytest.param("OPEN", replace(CLOSING, player_id="p2"), "BET_ALREADY_CLOSED", id="another player's"),
    ],
)
def test_what_a_repair_refuses(name: str, call: Any, code: str) -> None:
    """Only an OPEN bet of this very player is settled; nothing is noted."""
    book = book_in(_STATES[name])
    bets, accounts, calls = dict(book.bets), dict(book.accounts), dict(book.calls)
    for each in (call, replace(rollback(), player_id=call.player_id)):
        outcome = book.settle(each, Terms(), settled_by="reconcile", clock_millis=9_000)
        assert (outcome.code, outcome.applied) == (code, False)
    assert (book.bets, book.accounts, book.calls) == (bets, accounts, calls)


def test_a_repair_of_an_account_that_is_gone_or_full() -> None:
    """It is refused by what a call would be."""
    book = after(withdraw())
    full = book.accounts["p1"]._replace(balance_cents=MAX_BALANCE_CENTS - 699)
    book.accounts["p1"] = full
    assert book.settle(CLOSING, Terms(), settled_by="reconcile", clock_millis=9_000).code == "SYSTEM_ERROR"
    assert book.bets["b1"].state is OPEN
    assert book.changes.anomalies == []
    book.accounts["p1"] = full._replace(balance_cents=MAX_BALANCE_CENTS - 700)
    assert book.settle(CLOSING, Terms(), settled_by="reconcile", clock_millis=9_000).applied
    book = after(withdraw())
    del book.accounts["p1"]
    assert book.settle(CLOSING, Terms(), settled_by="reconcile", clock_millis=9_000).code == "PLAYER_NOT_FOUND"


def test_a_repair_by_a_clock_in_the_past() -> None:
    """Its time is after that of the movement before, as every call's is; the withdraw's round is better than none."""
    book = after(withdraw(round_id="r0"))
    assert book.settle(rollback(), Terms(), settled_by="reconcile", clock_millis=3).at_millis == 1_001
    assert (book.bets["b1"].settled_at_millis, book.bets["b1"].round_id) == (1_001, "r0")


@pytest.mark.parametrize(
    ("name", "call", "kind", "tx_id", "due_cents"),
    [
        ("CLOSED, by us", deposit(tx_id="t", amount_cents=2_000, body=b"{ }"), "late_deposit", "t", 2_000),
        ("CLOSED, by us", rollback(tx_id=None, body=b"{ }"), "late_rollback", withdraw().tx_id, 500),
        ("ROLLED_BACK, by us", deposit(amount_cents=0, body=b"{ }"), "late_deposit", deposit().tx_id, 0),
    ],
    ids=["another win", "a refund, which names its withdraw by the bet alone", "a loss"],
)
def test_what_a_late_call_leaves(name: str, call: MovingCall, kind: str, tx_id: str, due_cents: int) -> None:
    """All that a person needs to decide, and the bytes that say so."""
    book = book_in(_STATES[name])
    got_cents = 500 if name.startswith("ROLLED_BACK") else WON_CENTS
    book.apply(call, Terms(), clock_millis=2_000)
    (found,) = book.changes.findings
    assert found == NewFinding(kind, "b1", found.detail, tx_id, "p1", "p1", due_cents, due_cents - got_cents, b"{ }")
    assert f"{tx_id}' of the bet 'b1'" in found.detail
    assert f"{due_cents / 100:.2f}" in found.detail


@pytest.mark.parametrize("amount_cents", [1, WON_CENTS])
def test_a_late_call_after_the_deposit_that_was_stood_in_for(amount_cents: int) -> None:
    """The provider has confirmed the repair: what comes after that is an anomaly as ever, and nothing is owed."""
    book = book_in(_STATES["CLOSED, by us"])
    book.apply(deposit(), Terms(), clock_millis=2_000)
    effect = effect_of(book, deposit(tx_id="t", amount_cents=amount_cents))
    assert (effect.code, effect.anomaly, effect.owed_cents) == ("BET_ALREADY_CLOSED", "second_deposit", None)
    assert effect_of(book, rollback()).owed_cents is None
