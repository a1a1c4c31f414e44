"""
Every cell of the table of repeats and order, written out by hand from what was chosen (docs/decisions/0014).

The specification names the three calls and what each must do, and leaves open repeats, order and transitions (spec §3,
§4.1, §6).
"""

from dataclasses import replace
from typing import Any

import pytest

from game_operator.codes import BetState
from game_operator.ledger.api import MAX_BALANCE_CENTS, Account, BetRecord, CallRecord, Terms
from game_operator.ledger.rules.book import Book
from game_operator.ledger.rules.decide import Decision, decide, identity_of
from game_operator.models.webhooks import MovingCall, WebhookCall
from game_operator.profile import Profile
from tests.support.calls import WAGER_CENTS, WON_CENTS, ask_balance, claim, deposit, rollback, withdraw
from tests.support.decision_table import (
    DECIDE,
    NOTE,
    OPENING_CENTS,
    STATES,
    TOO_MUCH_CENTS,
    Effect,
    book_in,
    effect_of,
    written_decide,
    written_note,
)

_STATES = {state.name: state for state in STATES}
OPEN, SPENT, CLOSED, ROLLED_BACK = BetState.OPEN, BetState.SPENT, BetState.CLOSED, BetState.ROLLED_BACK
TOMBSTONE, DECLINED = BetState.TOMBSTONE, BetState.DECLINED

DUPLICATE, NO_PLAYER, NO_BET = "DUPLICATE_TRANSACTION", "PLAYER_NOT_FOUND", "BET_NOT_FOUND"
ALREADY_CLOSED, CANCELLED, TOO_LITTLE = "BET_ALREADY_CLOSED", "BET_ROLLED_BACK", "INSUFFICIENT_BALANCE"

LENIENT = Profile(unknown_rollback="success")
OWN = Profile(rollback_tx_id="own")
VERBATIM = Profile(duplicate_reply="verbatim")
PATIENT = Profile(early_deposit_code="SYSTEM_ERROR")

RAIN = withdraw(action="RAIN", tx_id="withdraw:bet:b1")
TOO_MUCH = withdraw(amount_cents=TOO_MUCH_CENTS)
STRANGERS = withdraw(player_id="p3")
#: Calls about b2 by the tx_ids of b1.
WITHDRAW_2, DEPOSIT_2 = withdraw("b2", tx_id=withdraw().tx_id), deposit("b2", tx_id=deposit().tx_id)
#: The anomalies that several cells leave.
CONFLICTING, LATE, DISAGREES = "conflicting_withdraw", "deposit_after_rollback", "rollback_disagrees"
OTHERS, UNDEBITED = "deposit_by_other_player", "rollback_of_undebited_bet"
SECOND, EARLY, PAID = "second_deposit", "early_rollback", "rollback_after_deposit"


def row(
    state: str,
    call: MovingCall,
    code: str | None,
    *,
    delta: int = 0,
    to: BetState | None = None,
    anomaly: str = "",
    owed: int | None = None,
    again: bool = False,
    why: str,
) -> Any:  # Any: what pytest.param returns has no public name.
    """
    Return a cell of the table: *call* on a bet in *state*.

    *to* is its state afterwards if that changes, and *again* whether the call is known.
    """
    did = Effect(code, delta, None, to, anomaly, owed, applied=bool(delta) or to is CLOSED, replayed=again)
    return pytest.param(state, call, did, id=f"{state}: {call.operation}: {why}")


WITHDRAWS = [
    row("unseen", withdraw(), None, delta=-WAGER_CENTS, to=OPEN, why="debited"),
    row("unseen", withdraw(amount_cents=OPENING_CENTS), None, delta=-OPENING_CENTS, to=OPEN, why="all there is"),
    row("unseen", withdraw(amount_cents=OPENING_CENTS + 1), TOO_LITTLE, to=DECLINED, why="a cent too much"),
    row("unseen", RAIN, None, delta=-WAGER_CENTS, to=SPENT, why="a rain is spent"),
    row("unseen", withdraw(player_id="nobody"), NO_PLAYER, to=DECLINED, why="unknown player"),
    row("OPEN", withdraw(), None, again=True, why="the same"),
    row("OPEN", withdraw(game="g", round_id="r", instance_id="i"), None, again=True, why="the same, told otherwise"),
    row("OPEN", withdraw(tx_id="t"), DUPLICATE, anomaly="second_withdraw", why="other tx_id"),
    row("OPEN", withdraw(amount_cents=1), DUPLICATE, anomaly=CONFLICTING, why="other amount"),
    row("OPEN", withdraw(player_id="p2"), DUPLICATE, anomaly=CONFLICTING, why="other player"),
    row("OPEN", RAIN, DUPLICATE, anomaly=CONFLICTING, why="other action"),
    row("OPEN", WITHDRAW_2, DUPLICATE, anomaly=CONFLICTING, why="its tx_id for another bet"),
    row("OPEN", withdraw(player_id="nobody", tx_id="t"), NO_PLAYER, why="unknown player"),
    row("OPEN", withdraw(player_id="nobody"), DUPLICATE, anomaly=CONFLICTING, why="unknown player, after check 2"),
    row("SPENT", RAIN, None, again=True, why="the same"),
    row("SPENT", withdraw(tx_id="t"), DUPLICATE, anomaly="second_withdraw", why="other tx_id"),
    row("CLOSED", withdraw(), None, again=True, why="the same"),
    row("CLOSED", withdraw(tx_id="t"), DUPLICATE, anomaly="second_withdraw", why="other tx_id"),
    row("CLOSED", withdraw(amount_cents=1), DUPLICATE, anomaly=CONFLICTING, why="other amount"),
    row("ROLLED_BACK", withdraw(), CANCELLED, again=True, why="the same"),
    row("ROLLED_BACK", withdraw(tx_id="t"), CANCELLED, why="other tx_id"),
    row("ROLLED_BACK", withdraw(amount_cents=1), DUPLICATE, anomaly=CONFLICTING, why="other amount, after check 2"),
    row("TOMBSTONE", withdraw(), CANCELLED, why="late"),
    row("TOMBSTONE", withdraw(tx_id="t"), CANCELLED, why="late, other tx_id"),
    row("TOMBSTONE", withdraw(player_id="p2"), CANCELLED, why="late, other player"),
    row("TOMBSTONE", withdraw(amount_cents=1), CANCELLED, why="late, other amount"),
    row("TOMBSTONE", RAIN, CANCELLED, why="late, other action"),
    row("TOMBSTONE", withdraw(player_id="nobody"), NO_PLAYER, why="unknown player"),
    row("TOMBSTONE", WITHDRAW_2, DUPLICATE, anomaly=CONFLICTING, why="the tx_id that it keeps, for another bet"),
    row("DECLINED", TOO_MUCH, TOO_LITTLE, again=True, why="the same"),
    row("DECLINED", withdraw(tx_id="t"), DUPLICATE, anomaly="second_withdraw", why="other tx_id, with enough money"),
    row("DECLINED", withdraw(), DUPLICATE, anomaly=CONFLICTING, why="other amount"),
    row("DECLINED", withdraw(player_id="nobody", tx_id="t"), NO_PLAYER, why="unknown player"),
]

DEPOSITS = [
    row("unseen", deposit(), NO_BET, anomaly="early_deposit", why="early"),
    row("unseen", deposit(player_id="nobody"), NO_PLAYER, anomaly="early_deposit", why="unknown player"),
    row("OPEN", deposit(), None, delta=WON_CENTS, to=CLOSED, why="won"),
    row("OPEN", deposit(amount_cents=0), None, to=CLOSED, why="lost"),
    row("OPEN", deposit(won_cents=1), None, delta=WON_CENTS, to=CLOSED, anomaly="won_differs", why="says another"),
    row("OPEN", deposit(won_cents=WON_CENTS), None, delta=WON_CENTS, to=CLOSED, why="says it was won"),
    row("OPEN", deposit(player_id="p2"), NO_BET, anomaly=OTHERS, why="other player"),
    row("OPEN", deposit(player_id="nobody"), NO_PLAYER, anomaly="unknown_player", why="unknown player"),
    row("SPENT", deposit(), ALREADY_CLOSED, anomaly="deposit_of_spent_bet", why="no deposit settles it"),
    row("SPENT", deposit(player_id="p2"), ALREADY_CLOSED, anomaly="deposit_of_spent_bet", why="other player"),
    row("CLOSED", deposit(), None, again=True, why="the same"),
    row("CLOSED", deposit(round_id="r", won_cents=1), None, again=True, why="the same, told otherwise"),
    row("CLOSED", deposit(tx_id="t"), ALREADY_CLOSED, anomaly=SECOND, why="other tx_id"),
    row("CLOSED", deposit(amount_cents=1), DUPLICATE, anomaly="conflicting_deposit", why="other amount"),
    row("CLOSED", deposit(player_id="p2"), DUPLICATE, anomaly="conflicting_deposit", why="its tx_id, p2"),
    row("CLOSED", DEPOSIT_2, DUPLICATE, anomaly="conflicting_deposit", why="its tx_id for another bet"),
    row("CLOSED", deposit(player_id="p2", tx_id="t"), NO_BET, anomaly=OTHERS, why="other player"),
    row("CLOSED, by us", deposit(tx_id="t"), None, why="the first of the same amount"),
    row("CLOSED, by us", deposit(won_cents=1), None, anomaly="won_differs", why="the first, which says another"),
    row("CLOSED, by us", deposit(amount_cents=1), ALREADY_CLOSED, anomaly=SECOND, owed=1 - WON_CENTS, why="less"),
    row("CLOSED, by us", deposit(amount_cents=WON_CENTS + 1), ALREADY_CLOSED, anomaly=SECOND, owed=1, why="more"),
    row("CLOSED, by us", deposit(player_id="p2"), NO_BET, anomaly=OTHERS, why="other player"),
    row("ROLLED_BACK", deposit(), CANCELLED, anomaly=LATE, why="late"),
    row("ROLLED_BACK", deposit(player_id="p2"), NO_BET, anomaly=OTHERS, why="other player"),
    row("ROLLED_BACK, by us", deposit(), CANCELLED, anomaly=LATE, owed=WON_CENTS - WAGER_CENTS, why="late"),
    row("ROLLED_BACK, by us", deposit(amount_cents=WAGER_CENTS), CANCELLED, anomaly=LATE, owed=0, why="as refunded"),
    row("ROLLED_BACK, by us", deposit(player_id="p2"), NO_BET, anomaly=OTHERS, why="other player"),
    row("TOMBSTONE", deposit(), CANCELLED, anomaly=LATE, why="late"),
    row("TOMBSTONE", deposit(player_id="p2"), CANCELLED, anomaly=LATE, why="other player"),
    row("DECLINED", deposit(), NO_BET, anomaly="deposit_of_declined_bet", why="never debited"),
    row("DECLINED", deposit(player_id="p2"), NO_BET, anomaly="deposit_of_declined_bet", why="other player"),
    row("DECLINED", deposit(player_id="nobody"), NO_PLAYER, anomaly="unknown_player", why="unknown player"),
]

ROLLBACKS = [
    row("unseen", rollback(), NO_BET, to=TOMBSTONE, anomaly=EARLY, why="early"),
    row("unseen", rollback(tx_id=None), NO_BET, to=TOMBSTONE, anomaly=EARLY, why="no tx_id"),
    row("unseen", rollback(player_id="nobody"), NO_PLAYER, to=TOMBSTONE, anomaly=EARLY, why="unknown player"),
    row("OPEN", rollback(), None, delta=WAGER_CENTS, to=ROLLED_BACK, why="agrees"),
    row("OPEN", rollback(tx_id=None), None, delta=WAGER_CENTS, to=ROLLED_BACK, why="no tx_id agrees"),
    row("OPEN", rollback(action="RAIN"), None, delta=WAGER_CENTS, to=ROLLED_BACK, why="action is no content"),
    row(
        "OPEN", rollback(amount_cents=1), None, delta=WAGER_CENTS, to=ROLLED_BACK, anomaly="amount_differs", why="less"
    ),
    row("OPEN", rollback(amount_cents=WAGER_CENTS), None, delta=WAGER_CENTS, to=ROLLED_BACK, why="says the wager"),
    row("OPEN", rollback(tx_id="t"), NO_BET, anomaly=DISAGREES, why="other tx_id"),
    row("OPEN", rollback(player_id="p2"), NO_BET, anomaly=DISAGREES, why="other player"),
    row("OPEN", rollback(player_id="nobody"), NO_PLAYER, anomaly="unknown_player", why="unknown player"),
    row("SPENT", rollback(), None, delta=WAGER_CENTS, to=ROLLED_BACK, why="agrees"),
    row("SPENT", rollback(tx_id="t"), NO_BET, anomaly=DISAGREES, why="other tx_id"),
    row("CLOSED", rollback(), ALREADY_CLOSED, anomaly=PAID, why="agrees"),
    row("CLOSED", rollback(tx_id="t"), NO_BET, anomaly=DISAGREES, why="other tx_id"),
    row("CLOSED", rollback(player_id="p2"), NO_BET, anomaly=DISAGREES, why="other player"),
    row("CLOSED, by us", rollback(), ALREADY_CLOSED, anomaly=PAID, owed=WAGER_CENTS - WON_CENTS, why="agrees"),
    row("CLOSED, by us", rollback(tx_id="t"), NO_BET, anomaly=DISAGREES, why="other tx_id"),
    row("ROLLED_BACK, by us", rollback(), None, again=True, why="the first"),
    row("ROLLED_BACK, by us", rollback(tx_id=None), None, again=True, why="the first, no tx_id"),
    row("ROLLED_BACK, by us", rollback(tx_id="t"), NO_BET, anomaly=DISAGREES, why="other tx_id"),
    row("ROLLED_BACK, by us", rollback(player_id="p2"), NO_BET, anomaly=DISAGREES, why="player"),
    row("ROLLED_BACK", rollback(), None, again=True, why="the same"),
    row("ROLLED_BACK", rollback(tx_id=None), None, again=True, why="the same, no tx_id"),
    row("ROLLED_BACK", rollback(amount_cents=1, round_id="r"), None, again=True, why="the same, told otherwise"),
    row("ROLLED_BACK", rollback(tx_id="t"), NO_BET, anomaly=DISAGREES, why="other tx_id"),
    row("ROLLED_BACK", rollback(player_id="p2"), DUPLICATE, anomaly="conflicting_rollback", why="other player"),
    row("ROLLED_BACK", rollback("b2"), DUPLICATE, anomaly="conflicting_rollback", why="its tx_id for another bet"),
    row("TOMBSTONE", rollback(), NO_BET, anomaly=UNDEBITED, again=True, why="the same"),
    row("TOMBSTONE", rollback(tx_id="t"), NO_BET, anomaly=UNDEBITED, why="other tx_id"),
    row("TOMBSTONE", rollback(player_id="p2"), DUPLICATE, anomaly="conflicting_rollback", why="other player"),
    row("TOMBSTONE", rollback(player_id="p2", tx_id="t"), NO_BET, anomaly=UNDEBITED, why="other player and tx_id"),
    row("TOMBSTONE", rollback("b2"), DUPLICATE, anomaly="conflicting_rollback", why="its tx_id for another bet"),
    row("DECLINED", rollback(), NO_BET, anomaly=UNDEBITED, why="never debited"),
    row("DECLINED", rollback(tx_id="t"), NO_BET, anomaly=UNDEBITED, why="other tx_id"),
    row("DECLINED", rollback(player_id="p2"), NO_BET, anomaly=UNDEBITED, why="other player"),
    row("DECLINED", rollback(player_id="nobody"), NO_PLAYER, anomaly=UNDEBITED, why="unknown player"),
]


def after(*calls: WebhookCall, rules: Profile | None = None) -> Book:
    """Return a book of p1 and p2 after *calls*."""
    book = book_in(_STATES["unseen"])
    for call in calls:
        book.apply(call, Terms(rules=rules or Profile()), clock_millis=1_000)
    return book


@pytest.mark.parametrize(("state", "call", "did"), WITHDRAWS + DEPOSITS + ROLLBACKS)
def test_every_cell(state: str, call: MovingCall, did: Effect) -> None:
    """A withdraw deducts, a deposit credits, a rollback reverses, once each and in any order (spec §3)."""
    book = book_in(_STATES[state])
    before = book.bets["b1"].state if "b1" in book.bets else None
    assert effect_of(book, call) == did._replace(before=before, after=did.after or before)


@pytest.mark.parametrize("written", [written_decide, written_note], ids=["docstring", "decision note"])
def test_the_drawn_tables_are_true(written: Any) -> None:
    """The tables that people read are those that the code gives."""
    text = (DECIDE if written is written_decide else NOTE).read_text()
    assert written(text) == text


# --- the profile's switches, each both ways -------------------------------------------------------------------------


@pytest.mark.parametrize("state", ["unseen", "TOMBSTONE", "DECLINED"])
@pytest.mark.parametrize("tx_id", [withdraw().tx_id, "t", None])
def test_unknown_rollback(state: str, tx_id: str | None) -> None:
    """Of a bet that was never debited a rollback is SUCCESS if the profile says so; no money moves either way."""
    call = rollback(tx_id=tx_id)
    strict, lenient = effect_of(book_in(_STATES[state]), call), effect_of(book_in(_STATES[state]), call, LENIENT)
    assert (strict.code, lenient.code) == ("BET_NOT_FOUND", None)
    assert (strict.delta_cents, lenient.delta_cents) == (0, 0)
    assert strict.after == lenient.after
    assert (bool(strict.anomaly), lenient.anomaly) == (True, "")


@pytest.mark.parametrize(
    ("state", "code", "delta"),
    [("OPEN", None, WAGER_CENTS), ("CLOSED", "BET_ALREADY_CLOSED", 0), ("ROLLED_BACK", None, 0)],
)
def test_a_rollback_with_a_tx_id_of_its_own(state: str, code: str | None, delta: int) -> None:
    """With ``own`` a rollback's tx_id is not compared with its withdraw's; by default it is."""
    call = rollback(tx_id="its own")
    effect = effect_of(book_in(_STATES[state], OWN), call, OWN)
    assert (effect.code, effect.delta_cents) == (code, delta)
    assert effect_of(book_in(_STATES[state]), call).code == "BET_NOT_FOUND"


def test_a_tombstone_of_an_own_tx_id_keeps_no_withdraw() -> None:
    """With ``own`` a rollback's tx_id says nothing of withdraws: another bet may have it, and its own is late."""
    early = rollback(tx_id="its own")
    book = after(early, rules=OWN)
    assert ("withdraw", "its own") not in book.calls
    assert book.bets["b1"].withdraw_tx_id is None
    assert effect_of(book, withdraw("b2", tx_id="its own"), OWN).delta_cents == -WAGER_CENTS
    assert effect_of(book, withdraw(), OWN).code == "BET_ROLLED_BACK"
    assert effect_of(after(early), withdraw("b2", tx_id="its own")).code == "DUPLICATE_TRANSACTION"
    # Nor is the tx_id of another bet's withdraw a reason to leave a tombstone out.
    other = withdraw("b2", tx_id="t")
    assert effect_of(after(other, rules=OWN), rollback(tx_id="t"), OWN).after is TOMBSTONE
    assert effect_of(after(other), rollback(tx_id="t")).after is None


@pytest.mark.parametrize("player_id", ["p1", "nobody"])
def test_early_deposit_code(player_id: str) -> None:
    """A deposit before its withdraw is answered as the profile says; nothing is stored, and nothing is told."""
    book = after()
    outcome = book.apply(deposit(player_id=player_id), Terms(rules=PATIENT), clock_millis=1_000)
    assert (outcome.code, outcome.balance_cents, outcome.anomaly) == ("SYSTEM_ERROR", None, "early_deposit")
    assert not book.calls
    assert not book.bets


def test_the_withdraws_bytes_are_no_rollback() -> None:
    """
    The signature covers the body and not the path: a losing bet's withdraw must not become its refund.

    A service whose two bodies coincide says so in the profile.
    """
    body = b'{"the": "bytes"}'
    first = replace(withdraw(), body=body)
    copied = replace(rollback(), body=body)
    book = after(first)
    outcome = book.apply(copied, Terms(), clock_millis=1_000)
    assert (outcome.code, outcome.anomaly) == ("INVALID_REQUEST", "withdraw_bytes_on_rollback")
    assert outcome.balance_cents == OPENING_CENTS - WAGER_CENTS
    assert effect_of(book, replace(rollback(), body=b"{}")).after is ROLLED_BACK
    assert effect_of(book, copied).code == "INVALID_REQUEST"
    assert effect_of(after(first), copied, Profile(rollback_may_equal_withdraw=True)).after is ROLLED_BACK


@pytest.mark.parametrize("state", ["DECLINED", "TOMBSTONE"])
def test_undebited_bets_keep_no_digest(state: str) -> None:
    """Only the body that took money is compared."""
    book = after(*(replace(call, body=b"{}") for call in _STATES[state].calls))
    assert book.bets["b1"].withdraw_digest is None
    assert effect_of(book, replace(rollback(), body=b"{}")).code == "BET_NOT_FOUND"


def test_spent_actions() -> None:
    """Which actions no deposit settles is the profile's."""
    rules = Profile(spent_actions=())
    book = after(withdraw(action="RAIN"), rules=rules)
    assert book.bets["b1"].state is OPEN
    assert effect_of(book, deposit(), rules).after is CLOSED


# --- questions 2 and 3 ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rules", [Profile(), LENIENT], ids=["error", "success"])
def test_a_rollback_of_another_bets_withdraw_stores_nothing(rules: Profile) -> None:
    """A tombstone would keep the tx_id from its own bet's refund."""
    book = after(withdraw("b2", tx_id="t"))
    calls = dict(book.calls)
    effect = effect_of(book, rollback(tx_id="t"), rules)
    assert effect.code == (None if rules is LENIENT else "BET_NOT_FOUND")
    assert (effect.after, effect.anomaly) == (None, "rollback_of_another_bets_withdraw")
    assert book.calls == calls
    assert effect_of(book, rollback("b2", tx_id="t"), rules).delta_cents == WAGER_CENTS


def test_a_decline_of_an_unknown_player_stands() -> None:
    """When the account is opened later, the same withdraw is refused alike, and told no balance."""
    book = after()
    del book.accounts["p1"]
    assert effect_of(book, withdraw()).code == "PLAYER_NOT_FOUND"
    assert effect_of(book, deposit()).code == "PLAYER_NOT_FOUND"
    book.accounts["p1"] = Account("p1", OPENING_CENTS)
    outcome = book.apply(withdraw(), Terms(), clock_millis=1_000)
    assert (outcome.code, outcome.balance_cents, outcome.replayed) == ("PLAYER_NOT_FOUND", None, True)
    assert effect_of(book, withdraw(tx_id="t")).code == "DUPLICATE_TRANSACTION"


@pytest.mark.parametrize("state", ["OPEN", "SPENT", "CLOSED", "ROLLED_BACK", "TOMBSTONE", "DECLINED"])
@pytest.mark.parametrize("operation", ["withdraw", "deposit", "rollback"])
def test_a_bet_without_its_account(state: str, operation: str) -> None:
    """One that was debited is an alarm, and the call is for us to repeat; of any other the player is unknown."""
    is_debited = state not in ("TOMBSTONE", "DECLINED")
    calls: dict[str, MovingCall] = {
        "withdraw": _STATES[state].first if is_debited else withdraw(tx_id="t"),
        "deposit": deposit(tx_id="t"),
        "rollback": rollback() if is_debited else rollback(tx_id=None),
    }
    book = book_in(_STATES[state])
    del book.accounts["p1"]
    effect = effect_of(book, calls[operation])
    if (state, operation) == ("ROLLED_BACK", "withdraw"):
        assert (effect.code, effect.anomaly) == ("BET_ROLLED_BACK", "")
    elif is_debited:
        assert (effect.code, effect.anomaly) == ("SYSTEM_ERROR", "damaged_books")
    else:
        assert effect.code == "PLAYER_NOT_FOUND"
    assert effect.before is effect.after


def test_a_decline_of_an_account_that_is_gone() -> None:
    """The stored code again; INSUFFICIENT_BALANCE with the balance and the time of then, for it needs one."""
    book = after(TOO_MUCH)
    first = book.calls["withdraw", TOO_MUCH.tx_id]
    del book.accounts["p1"]
    outcome = book.apply(TOO_MUCH, Terms(), clock_millis=9_000)
    assert (outcome.code, outcome.balance_cents, outcome.at_millis) == ("INSUFFICIENT_BALANCE", OPENING_CENTS, 1_000)
    assert (first.balance_cents, first.at_millis) == (OPENING_CENTS, 1_000)
    # A blocking is told without a balance, at the time of now.
    book = after()
    book.apply(withdraw(), Terms(), clock_millis=1_000, refusal="PLAYER_BLOCKED")
    del book.accounts["p1"]
    outcome = book.apply(withdraw(), Terms(), clock_millis=9_000)
    assert (outcome.code, outcome.balance_cents, outcome.at_millis) == ("PLAYER_BLOCKED", None, 9_000)


@pytest.mark.parametrize("gone", ["bets", "accounts"])
def test_books_that_contradict_themselves(gone: str) -> None:
    """A known call whose bet or account is missing moves nothing and is an alarm."""
    for calls in ((withdraw(),), (withdraw(), rollback())):
        book = after(*calls)
        getattr(book, gone).clear()
        effect = effect_of(book, calls[-1])
        assert (effect.code, effect.anomaly) == ("SYSTEM_ERROR", "damaged_books")


@pytest.mark.parametrize("known", [withdraw(), rollback()], ids=["known", "kept"])
def test_a_withdraw_kept_for_a_bet_that_is_missing(known: MovingCall) -> None:
    """A rollback of an unseen bet whose own withdraw is known, or kept: damaged, and no second tombstone."""
    book = after(known)
    book.bets.clear()
    book.calls.pop(("rollback", withdraw().tx_id), None)
    assert effect_of(book, rollback()).anomaly == effect_of(book, withdraw()).anomaly == "damaged_books"


# --- check 5 ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", [state.name for state in STATES])
def test_only_a_withdraw_about_to_debit_is_asked(state: str) -> None:
    """``may_bet`` is asked about an unseen bet of a known player, and about nothing else."""
    book, terms = book_in(_STATES[state]), Terms(may_bet=lambda *_: None)
    first = _STATES[state].first
    assert (book.asks_may_bet(first, terms) is not None) == (state == "unseen")
    for call in (replace(first, tx_id="t"), replace(first, player_id="p2")):
        assert (book.asks_may_bet(call, terms) is not None) == (state == "unseen")
    assert book.asks_may_bet(replace(first, player_id="nobody"), terms) is None
    for other in (deposit(), rollback(), claim(), ask_balance()):
        assert book.asks_may_bet(other, terms) is None


def test_a_kept_tx_id_is_not_asked_about() -> None:
    """Check 2 comes before check 5."""
    book, terms = after(rollback()), Terms(may_bet=lambda *_: None)
    assert book.asks_may_bet(withdraw("b2", tx_id=withdraw().tx_id), terms) is None
    assert book.asks_may_bet(withdraw("b2"), terms) == book.accounts["p1"]
    assert book.asks_may_bet(withdraw("b2"), Terms()) is None


@pytest.mark.parametrize("code", ["PLAYER_BLOCKED", "LIMIT_EXCEEDED", "PLAYER_NOT_FOUND", "MY_OWN_7"])
def test_what_refuses_is_stored(code: str) -> None:
    """A refusal is final for that withdraw (C13), and comes before the question of money."""
    book = after()
    outcome = book.apply(TOO_MUCH, Terms(), clock_millis=1_000, refusal=code)
    told = None if code == "PLAYER_NOT_FOUND" else OPENING_CENTS
    assert (outcome.code, outcome.balance_cents, outcome.replayed, outcome.applied) == (code, told, False, False)
    assert book.bets["b1"].state is DECLINED
    repeated = book.apply(TOO_MUCH, Terms(), clock_millis=1_000)
    assert (repeated.code, repeated.balance_cents, repeated.replayed) == (code, told, True)


@pytest.mark.parametrize(
    ("balance_cents", "wager_cents", "code"),
    [
        pytest.param(0, 0, None, id="nothing of nothing"),
        pytest.param(-1, 0, "INSUFFICIENT_BALANCE", id="nothing of less than nothing"),
        pytest.param(-1, 1, "INSUFFICIENT_BALANCE", id="a cent of less than nothing"),
        pytest.param(1, 1, None, id="a cent of a cent"),
        pytest.param(1, 2, "INSUFFICIENT_BALANCE", id="two cents of a cent"),
        pytest.param(MAX_BALANCE_CENTS, 10**15, None, id="much of all"),
    ],
)
def test_funds(balance_cents: int, wager_cents: int, code: str | None) -> None:
    """A balance below zero refuses every withdraw, also one of 0, and is told as it is."""
    book = after()
    book.accounts["p1"] = Account("p1", balance_cents)
    outcome = book.apply(withdraw(amount_cents=wager_cents), Terms(), clock_millis=1_000)
    assert outcome.code == code
    assert outcome.balance_cents == balance_cents - (0 if code else wager_cents)


@pytest.mark.parametrize("step_cents", [1, 100])
@pytest.mark.parametrize("cents", [100, 101, 199, 200, 0])
def test_an_amount_fits_the_step_of_a_balance_or_moves_nothing(step_cents: int, cents: int) -> None:
    """Assumptions §E: a withdraw is declined before anybody is asked; a credit is ours to fail, and can be repeated."""
    fits = cents % step_cents == 0
    book = Book(step_cents=step_cents)
    book.accounts["p1"] = Account("p1", 1_000)
    terms = Terms(may_bet=lambda *_: None)
    asked = book.asks_may_bet(withdraw("b0", amount_cents=cents), terms)
    assert asked == (book.accounts["p1"] if fits else None)
    for refusal in (None, "PLAYER_BLOCKED"):
        bet_id = f"b {refusal}"
        outcome = book.apply(withdraw(bet_id, amount_cents=cents), terms, clock_millis=1_000, refusal=refusal)
        assert (outcome.code, outcome.anomaly) == (refusal if fits else "INVALID_REQUEST", "")
        state = (OPEN if refusal is None else DECLINED) if fits else DECLINED
        assert (book.bets[bet_id].state, book.bets[bet_id].wager_cents) == (state, cents)
    book.apply(withdraw("b1", amount_cents=200), terms, clock_millis=1_000)
    held = book.accounts["p1"].balance_cents
    settled = Book(step_cents=step_cents)
    settled.accounts, settled.bets = dict(book.accounts), dict(book.bets)
    repair = settled.settle(deposit("b1", amount_cents=cents), terms, settled_by="reconcile", clock_millis=1_000)
    outcomes = [
        book.apply(call, terms, clock_millis=1_000)
        for call in (claim(amount_cents=cents), deposit("b1", amount_cents=cents))
    ]
    for outcome in (repair, *outcomes):
        assert (outcome.code, outcome.anomaly) == ((None, "") if fits else ("SYSTEM_ERROR", "unit_does_not_fit"))
        assert outcome.delta_cents == (cents if fits else 0)
    assert book.accounts["p1"].balance_cents == held + (2 * cents if fits else 0)
    assert book.bets["b1"].state is (CLOSED if fits else OPEN)
    assert settled.bets["b1"].state is (CLOSED if fits else OPEN)


@pytest.mark.parametrize("room", [0, 1])
@pytest.mark.parametrize("call", [deposit(amount_cents=300), rollback(), claim()], ids=["deposit", "rollback", "claim"])
def test_a_credit_beyond_64_bits_moves_nothing(call: MovingCall, room: int) -> None:
    """The most that fits is credited; a cent more is SYSTEM_ERROR, stores nothing, and can be repeated."""
    amount = WAGER_CENTS if call.operation == "rollback" else 300
    book = after(withdraw())
    book.accounts["p1"] = Account("p1", MAX_BALANCE_CENTS - amount + 1 - room)
    calls = dict(book.calls)
    outcome = book.apply(call, Terms(), clock_millis=1_000)
    if room:
        assert (outcome.code, outcome.balance_cents) == (None, MAX_BALANCE_CENTS)
        return
    assert (outcome.code, outcome.balance_cents, outcome.anomaly) == ("SYSTEM_ERROR", None, "balance_overflow")
    assert book.calls == calls
    assert book.bets["b1"].state is OPEN
    book.accounts["p1"] = Account("p1", 0)
    assert effect_of(book, call).delta_cents == amount


# --- claims -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("action", ["FREE_BET_CLAIM", "JACKPOT"])
@pytest.mark.parametrize("state", [state.name for state in STATES])
def test_a_claim_touches_no_bet(state: str, action: str) -> None:
    """It is credited once whatever the bet's state is, even of the bet that it names (B16)."""
    book = book_in(_STATES[state])
    bets = dict(book.bets)
    call = claim("", bet_id="b1", action=action)
    first, again = effect_of(book, call), effect_of(book, call)
    assert (first.delta_cents, first.applied, first.replayed) == (300, True, False)
    assert (again.code, again.delta_cents, again.replayed) == (None, 0, True)
    assert book.bets == bets
    assert call.tx_id == f"deposit:{action.lower()}:b1"


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(claim(player_id="p2"), id="other player"),
        pytest.param(claim(action="JACKPOT"), id="other action"),
        pytest.param(claim(amount_cents=301), id="other amount"),
        pytest.param(deposit(tx_id="claim-1", amount_cents=300), id="the deposit of a bet"),
    ],
)
def test_a_claim_with_other_content(other: MovingCall) -> None:
    """One tx_id is one claim."""
    book = after(withdraw(), claim())
    outcome = book.apply(other, Terms(), clock_millis=1_000)
    assert (outcome.code, outcome.anomaly) == ("DUPLICATE_TRANSACTION", "conflicting_deposit")
    own = {"p1": OPENING_CENTS - WAGER_CENTS + 300, "p2": OPENING_CENTS}
    assert outcome.balance_cents == own[other.player_id]


def test_the_bet_of_a_claim_is_no_content() -> None:
    """The same claim naming another bet, or none, is the same."""
    book = after(claim(bet_id="b1"))
    for bet_id in ("b2", None):
        assert effect_of(book, claim(bet_id=bet_id))[:2] == (None, 0)


def test_a_claim_of_an_unknown_player_can_still_be_paid() -> None:
    """PLAYER_NOT_FOUND to a deposit is not remembered."""
    book = after()
    assert effect_of(book, claim(player_id="p3")) == Effect(
        "PLAYER_NOT_FOUND", 0, None, None, "claim_of_unknown_player"
    )
    book.accounts["p3"] = Account("p3", 0)
    assert effect_of(book, claim(player_id="p3")).delta_cents == 300


@pytest.mark.parametrize(
    ("won", "anomaly"),
    [
        pytest.param((100, 200), "", id="adds up"),
        pytest.param((100, 201), "sum_differs", id="a cent more"),
        pytest.param((300, 0), "", id="one lost"),
        pytest.param((100, None), "", id="one unreadable"),
        pytest.param((), "", id="none told"),
        pytest.param((0,), "sum_differs", id="all lost, and yet an amount"),
    ],
)
def test_the_sum_of_a_claims_free_bets(won: tuple[int | None, ...], anomaly: str) -> None:
    """The amount is credited; free bets that do not add up to it are for somebody to look at."""
    from game_operator.models.webhooks import FreeBet

    call = claim(free_bets=tuple(FreeBet(won_cents=cents) for cents in won))
    assert effect_of(after(), call) == Effect(None, 300, None, None, anomaly, applied=True)


# --- what is told: balance and time -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("player_id", "code", "balance_cents"),
    [("p1", None, OPENING_CENTS - WAGER_CENTS), ("p2", None, OPENING_CENTS), ("p9", NO_PLAYER, None)],
)
def test_a_balance_is_asked_for(player_id: str, code: str | None, balance_cents: int | None) -> None:
    """It is the player's own after the last movement, and asking moves nothing (spec §3)."""
    asked = after(withdraw()).apply(ask_balance(player_id), Terms(), clock_millis=1_000)
    assert (asked.code, asked.balance_cents, asked.applied) == (code, balance_cents, False)


def test_a_rollback_of_a_bet_whose_withdraw_never_came_has_the_derived_tx_id() -> None:
    """And so the withdraw that comes too late has the tx_id that is taken (assumed)."""
    tombstone = after(rollback(tx_id=None)).bets["b1"]._replace(withdraw_tx_id=None)
    assert identity_of(rollback(tx_id=None), tombstone, Profile()) == ("rollback", "withdraw:bet:b1")


@pytest.mark.parametrize(
    ("clock_millis", "moved_at", "read_at"),
    [
        pytest.param(1_001, 1_001, 1_001, id="the clock runs"),
        pytest.param(1_000, 1_001, 1_000, id="the same millisecond"),
        pytest.param(900, 1_001, 1_000, id="the clock was set back"),
    ],
)
def test_times(clock_millis: int, moved_at: int, read_at: int) -> None:
    """A movement is later than the one before, a read never earlier: a later time has no older balance."""
    book = after(withdraw())
    assert book.accounts["p1"].at_millis == 1_000
    assert book.apply(ask_balance(), Terms(), clock_millis=clock_millis).at_millis == read_at
    assert book.apply(withdraw(), Terms(), clock_millis=clock_millis).at_millis == read_at
    assert book.apply(deposit(tx_id="early", bet_id="b9"), Terms(), clock_millis=clock_millis).at_millis == read_at
    declined = book.apply(withdraw("b2", amount_cents=TOO_MUCH_CENTS), Terms(), clock_millis=clock_millis)
    assert (declined.at_millis, book.accounts["p1"].at_millis) == (read_at, 1_000)
    assert book.apply(deposit(), Terms(), clock_millis=clock_millis).at_millis == moved_at
    assert book.accounts["p1"].at_millis == moved_at
    assert book.bets["b1"].settled_at_millis == moved_at


def test_a_loss_moves_the_time_and_no_money() -> None:
    """A deposit of 0 closes the bet (A03; spec §3), without a posting."""
    book = after(withdraw())
    book.changes.postings.clear()
    outcome = book.apply(deposit(amount_cents=0), Terms(), clock_millis=1_000)
    assert (outcome.applied, outcome.at_millis) == (True, 1_001)
    assert book.changes.accounts == {"p1": Account("p1", OPENING_CENTS - WAGER_CENTS, 1_001)}
    assert book.bets["b1"].won_cents == 0
    assert book.changes.postings == []


@pytest.mark.parametrize(
    ("first", "between", "code"),
    [
        pytest.param(withdraw(), claim(), None, id="withdraw"),
        pytest.param(TOO_MUCH, claim(), "INSUFFICIENT_BALANCE", id="declined withdraw"),
        pytest.param(claim("c"), claim(), None, id="claim"),
        pytest.param(rollback(), claim(), "BET_NOT_FOUND", id="early rollback"),
    ],
)
def test_a_repeat_by_now_or_word_for_word(first: MovingCall, between: MovingCall, code: str | None) -> None:
    """Today's balance with today's time, or the old with the old: never one of each (B03)."""
    book = after(first)
    then = book.calls[identity_of(first, book.bets.get(first.bet_id or ""), Profile())]
    after_between = book.apply(between, Terms(), clock_millis=2_000)
    now = book.apply(first, Terms(), clock_millis=3_000)
    assert (now.code, now.balance_cents, now.at_millis) == (code, after_between.balance_cents, 3_000)
    old = book.apply(first, Terms(rules=VERBATIM), clock_millis=3_000)
    assert (old.code, old.balance_cents, old.at_millis) == (code, then.balance_cents, then.at_millis)
    assert then.balance_cents != after_between.balance_cents
    assert then.at_millis == 1_000
    assert (now.replayed, old.replayed) == (True, True)
    assert now.anomaly == old.anomaly == ("rollback_of_undebited_bet" if first.operation == "rollback" else "")


LENIENT_TOO = replace(LENIENT, duplicate_reply="verbatim")
OWN_TOO = replace(OWN, duplicate_reply="verbatim")
SETTLED_CENTS = OPENING_CENTS - WAGER_CENTS + WON_CENTS
#: What came before, a repeat, the rules, and what it is told.
REPEATS: dict[str, tuple[list[WebhookCall], MovingCall, Profile, tuple[str | None, int | None, int]]] = {
    "a deposit": ([withdraw(), deposit(), claim()], deposit(), VERBATIM, (None, SETTLED_CENTS, 1_001)),
    "a rollback": ([withdraw(), rollback(), claim()], rollback(), VERBATIM, (None, OPENING_CENTS, 1_001)),
    "a lenient success": ([rollback(), claim()], rollback(), LENIENT_TOO, (None, OPENING_CENTS, 1_000)),
    # A rollback of a bet rolled back is told today's balance, also word for word.
    "own": (
        [withdraw(), rollback(tx_id="r"), claim()],
        rollback(tx_id="s"),
        OWN_TOO,
        (None, OPENING_CENTS + 300, 3_000),
    ),
    # PLAYER_NOT_FOUND carries no balance, of then or of now.
    "an unknown player, then": ([STRANGERS], STRANGERS, VERBATIM, (NO_PLAYER, None, 1_000)),
    "an unknown player, now": ([STRANGERS], STRANGERS, Profile(), (NO_PLAYER, None, 3_000)),
}


@pytest.mark.parametrize(("calls", "repeat", "rules", "told"), REPEATS.values(), ids=REPEATS)
def test_what_a_repeat_is_told(calls: list[WebhookCall], repeat: MovingCall, rules: Profile, told: Any) -> None:
    """Word for word, or by today's balance, after all that came between."""
    book = after(*calls, rules=rules)
    book.accounts["p3"] = Account("p3", 7)
    outcome = book.apply(repeat, Terms(rules=rules), clock_millis=3_000)
    assert (outcome.code, outcome.balance_cents, outcome.at_millis) == told
    assert (outcome.replayed, outcome.anomaly) == (True, "")


@pytest.mark.parametrize(("rules", "player_id"), [(Profile(), "nobody"), (LENIENT, "p1"), (Profile(), "p1")])
def test_an_early_rollback_is_a_repeat_the_second_time(rules: Profile, player_id: str) -> None:
    """The first is none, and neither is one of another tx_id."""
    book = after()
    calls = [rollback(player_id=player_id, tx_id=tx_id) for tx_id in ("r", "r", "t")]
    outcomes = [book.apply(call, Terms(rules=rules), clock_millis=1_000) for call in calls]
    assert [each.replayed for each in outcomes] == [False, True, False]


def test_a_rollback_without_tx_id_is_known_by_its_withdraws() -> None:
    """It is one call with the rollback that names it, and keeps the tx_id from another bet's."""
    book = after(withdraw(tx_id="t"), rollback(tx_id=None))
    assert ("rollback", "t") in book.calls
    assert book.apply(rollback(tx_id="t"), Terms(), clock_millis=1_000).replayed
    assert effect_of(book, rollback("b2", tx_id="t")).code == "DUPLICATE_TRANSACTION"
    assert effect_of(book, rollback(player_id="p2", tx_id=None)).code == "DUPLICATE_TRANSACTION"


# --- what is stored ---------------------------------------------------------------------------------------------------


def test_the_record_of_a_bet() -> None:
    """What the withdraw told, then what settled it (spec §3, §6)."""
    first = withdraw(instance_id="i", game="g", round_id="r0", tx_id="t", body=b"{}")
    book = after(first)
    bet = BetRecord("b1", "p1", "p1", "i", "g", "r0", 500, None, OPEN, 1_000, None, "BET", "t", None, first.body_digest)
    assert book.bets["b1"] == bet
    assert book.calls["withdraw", "t"].balance_cents == OPENING_CENTS - 500
    book.apply(deposit(round_id="r1", tx_id="d"), Terms(), clock_millis=2_000)
    closed = bet._replace(state=CLOSED, won_cents=1250, deposit_tx_id="d", round_id="r1", settled_at_millis=2_000)
    assert book.bets["b1"] == closed


@pytest.mark.parametrize(("told", "kept"), [("r1", "r1"), (None, "r0")])
@pytest.mark.parametrize("settles", [deposit, rollback])
def test_the_round_of_whoever_settles(settles: Any, told: str | None, kept: str) -> None:
    """Deposit and rollback carry the round that can be looked up (spec §6); a withdraw's is better than none."""
    book = after(withdraw(round_id="r0"), settles(round_id=told))
    assert book.bets["b1"].round_id == kept


def test_the_record_of_an_adopted_bet() -> None:
    """Only the tx_id and the round join it: it was settled before."""
    book = book_in(_STATES["CLOSED, by us"])
    bet = book.bets["b1"]
    balance_cents = book.accounts["p1"].balance_cents
    outcome = book.apply(deposit(tx_id="d", round_id="r"), Terms(), clock_millis=9_000)
    assert (outcome.balance_cents, outcome.at_millis, outcome.applied) == (balance_cents, 9_000, False)
    assert book.bets["b1"] == bet._replace(deposit_tx_id="d", round_id="r")
    assert book.calls["deposit", "d"] == CallRecord(
        "deposit", "d", "p1", "p1", "b1", "BET", WON_CENTS, None, balance_cents, 9_000
    )
    assert effect_of(book, deposit(tx_id="d"))[:2] == (None, 0)
    assert effect_of(book, deposit(tx_id="e")).code == "BET_ALREADY_CLOSED"


def test_the_record_of_a_tombstone() -> None:
    """It keeps the withdraw's identity beside the rollback's, and takes no money for it."""
    book = after(rollback(tx_id="t", instance_id="i", game="g", round_id="r", amount_cents=7))
    assert book.bets["b1"] == BetRecord(
        "b1", "p1", "p1", "i", "g", "r", 0, None, TOMBSTONE, 1_000, 1_000, "BET", "t", None, None
    )
    kept, known = book.calls["withdraw", "t"], book.calls["rollback", "t"]
    assert (kept.held, known.held) == (True, False)
    expected = CallRecord(
        *("rollback", "t", "p1", "p1", "b1", "BET", 0, "BET_NOT_FOUND", OPENING_CENTS, 1_000), instance_id="i", game="g"
    )
    assert known == expected
    assert kept == known._replace(operation="withdraw", action="")


def test_the_record_of_a_decline() -> None:
    """What was asked, and nothing taken."""
    book = after(TOO_MUCH)
    assert book.bets["b1"].wager_cents == TOO_MUCH_CENTS
    assert book.bets["b1"] == BetRecord(
        "b1", "p1", "p1", None, None, None, TOO_MUCH_CENTS, None, DECLINED, 1_000, None, "BET", TOO_MUCH.tx_id
    )
    assert book.calls["withdraw", TOO_MUCH.tx_id].code == "INSUFFICIENT_BALANCE"
    assert book.accounts["p1"] == Account("p1", OPENING_CENTS)


def test_decide_is_pure_and_needs_no_book() -> None:
    """Everything it rests on is handed in; the key of an account that there is not, too."""
    declined = decide(
        withdraw(), known=None, bet=None, tx_owner=None, account=None, rules=Profile(), account_key="wallet-7"
    )
    assert isinstance(declined, Decision)
    assert declined.record is not None
    assert declined.bet is not None
    assert (declined.record.account, declined.bet.account, declined.at_millis) == ("wallet-7", "wallet-7", 0)
    wallet = Account("wallet-7", 0)
    bet = withdraw(amount_cents=101)
    without_key = decide(bet, known=None, bet=None, tx_owner=None, account=wallet, rules=Profile())
    assert without_key.code == "INSUFFICIENT_BALANCE"
    assert without_key.bet is not None
    assert without_key.bet.account == "wallet-7"
    plain = decide(rollback(), known=None, bet=None, tx_owner=None, account=None, rules=Profile())
    assert plain.bet is not None
    assert plain.bet.account == "p1"


def test_spec_states_are_states() -> None:
    """OPEN, CLOSED and ROLLED_BACK are the specification's states, and the others ours; NOT_FOUND is none (spec §3)."""
    assert [state.value for state in BetState] == ["OPEN", "SPENT", "CLOSED", "ROLLED_BACK", "TOMBSTONE", "DECLINED"]
