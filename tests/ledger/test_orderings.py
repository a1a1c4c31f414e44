"""
All orders of withdraws, deposits and rollbacks, repeated and varied, up to a length of six: by brute force.

The specification shows neither order nor repeats (spec §3, §6); docs/decisions/0014 says what a caller may rely on.
The answers are held against a model of their own, and the money against its postings. Histories that have led to the
same books and the same promises are followed once: what comes after them is the same.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import pytest

from game_operator.codes import BetState
from game_operator.ledger import Terms
from game_operator.ledger.api import Account
from game_operator.ledger.rules.book import Book
from game_operator.models.webhooks import MovingCall
from game_operator.profile import Profile
from tests.support.calls import claim, deposit, rollback, withdraw
from tests.support.wallet_model import WalletModel, is_final

pytestmark = pytest.mark.slow

LONGEST = 6
OPENING = {"p1": 1_000, "p2": 1_000}

#: Each name once; two calls of one history that have one name are a repeat.
HONEST: Mapping[str, MovingCall] = {
    "W": withdraw(tx_id="t"),
    "D": deposit(),
    "R": rollback(tx_id="t"),
}
WITHDRAWS: Mapping[str, MovingCall] = {
    **HONEST,
    "W of another amount": withdraw(tx_id="t", amount_cents=501),
    "W of another tx_id": withdraw(tx_id="u"),
    "W of another player": withdraw(player_id="p2", tx_id="v"),
    "W too much": withdraw(tx_id="w", amount_cents=1_001),
    "W of nobody": withdraw(player_id="p9", tx_id="x"),
    "W of a rain": withdraw(tx_id="y", action="RAIN"),
}
DEPOSITS: Mapping[str, MovingCall] = {
    **HONEST,
    "D of a loss, its tx_id": deposit(amount_cents=0),
    "D of another tx_id": deposit(tx_id="e"),
    "D of another player": deposit(player_id="p2", tx_id="f"),
    "D of nobody": deposit(player_id="p9", tx_id="g"),
    "a jackpot": claim("j", bet_id="b1", action="JACKPOT"),
    "a claim of D's tx_id": claim(deposit().tx_id, amount_cents=1250),
}
ROLLBACKS: Mapping[str, MovingCall] = {
    **HONEST,
    "R without tx_id": rollback(tx_id=None),
    "R of another tx_id": rollback(tx_id="u"),
    "R of another player": rollback(player_id="p2", tx_id="t"),
    "R of nobody": rollback(player_id="p9", tx_id="x"),
    "W of another tx_id": withdraw(tx_id="u"),
    "D of a loss": deposit(tx_id="l", amount_cents=0),
}
TWO_BETS: Mapping[str, MovingCall] = {
    **HONEST,
    "W of b2": withdraw("b2", tx_id="u"),
    "W of b2, b1's tx_id": withdraw("b2", tx_id="t"),
    "R of b2": rollback("b2", tx_id="u"),
    "R of b2, b1's tx_id": rollback("b2", tx_id="t"),
    "R of b1, b2's tx_id": rollback("b1", tx_id="u"),
    "D of b2, b1's tx_id": deposit("b2", tx_id=deposit().tx_id),
}
RAIN: Mapping[str, MovingCall] = {
    "W": withdraw(tx_id="t", action="RAIN"),
    "D": deposit(),
    "R": rollback(tx_id="t", action="RAIN"),
    "R without tx_id": rollback(tx_id=None, action="RAIN"),
    "W as a bet": withdraw(tx_id="t"),
    "D of another player": deposit(player_id="p2", tx_id="f"),
    "a claim": claim(),
}
WORLDS = {
    "withdraws": WITHDRAWS,
    "deposits": DEPOSITS,
    "rollbacks": ROLLBACKS,
    "two bets": TWO_BETS,
    "rain": RAIN,
}
PROFILES = {
    "default": Profile(),
    "lenient": Profile(unknown_rollback="success"),
    "own tx_ids": Profile(rollback_tx_id="own"),
    "verbatim": Profile(duplicate_reply="verbatim"),
}


class Place(NamedTuple):
    """Where some histories have led: the books, the model, and what has been promised about each call by name."""

    book: Book
    model: WalletModel
    promised: frozenset[tuple[str, str]]
    histories: int


def _key(place: Place) -> Any:  # Any: only to be hashed.
    book = place.book
    bets = frozenset((bet.bet_id, bet.state, bet.player_id, bet.withdraw_tx_id) for bet in book.bets.values())
    calls = frozenset(
        (call.operation, call.tx_id, call.player_id, call.bet_id, call.action, call.amount_cents, call.code)
        for call in book.calls.values()
    )
    money = tuple(account.balance_cents for account in book.accounts.values())
    return bets, calls, money, place.promised, tuple(map(len, _movements(book).values()))


def _movements(book: Book) -> dict[str, list[str]]:
    """Return by bet, or by claim, the operations that moved its money, in order."""
    moved: dict[str, list[str]] = {"b1": [], "b2": [], "claims": []}
    for each in book.changes.postings:
        call = book.calls[each.operation, each.tx_id]
        is_claim = call.operation == "deposit" and call.action != "BET"
        moved["claims" if is_claim else call.bet_id or ""].append(each.operation)
    return moved


def _follow(place: Place, name: str, call: MovingCall, rules: Profile) -> Place:
    """Apply *call*, hold all that must hold, and return where it leads."""
    book = Book()
    book.accounts, book.bets, book.calls = dict(place.book.accounts), dict(place.book.bets), dict(place.book.calls)
    book.changes.postings = list(place.book.changes.postings)
    model = place.model.copy()
    outcome = book.apply(call, Terms(rules=rules), clock_millis=1_000)
    assert outcome.code == model.answer(call)
    assert {key: account.balance_cents for key, account in book.accounts.items()} == model.money
    _check_money(book, outcome.applied, len(book.changes.postings) - len(place.book.changes.postings))
    lenient = rules.unknown_rollback == "success"
    _check_promises(place.promised, name, call, outcome.code, outcome.applied, lenient=lenient)
    promised = set(place.promised)
    if outcome.code is None:
        promised.add((name, "SUCCESS"))
    elif is_final(call, outcome.code):
        promised.add((name, "final"))
    return Place(book, model, frozenset(promised), place.histories)


def _check_money(book: Book, applied: bool, new_postings: int) -> None:
    assert new_postings <= applied
    money = dict(OPENING)
    for each in book.changes.postings:
        if each.from_account:
            money[each.from_account] -= each.amount_cents
        if each.to_account:
            money[each.to_account] += each.amount_cents
    assert {key: account.balance_cents for key, account in book.accounts.items()} == money
    assert min(money.values()) >= 0
    for bet_id, operations in _movements(book).items():
        if bet_id != "claims":
            assert operations in ([], ["withdraw"], ["withdraw", "deposit"], ["withdraw", "rollback"])
            bet = book.bets.get(bet_id)
            assert not (operations and bet and bet.state in (BetState.TOMBSTONE, BetState.DECLINED))


def _check_promises(
    promised: frozenset[tuple[str, str]],
    name: str,
    call: MovingCall,
    code: str | None,
    applied: bool,
    *,
    lenient: bool = False,
) -> None:
    if (name, "SUCCESS") in promised:
        assert not applied
        # A lenient SUCCESS may be for nothing at all, where the tx_id was another bet's.
        if not (lenient and call.operation == "rollback"):
            assert code is None or (call.operation == "withdraw" and code == "BET_ROLLED_BACK")
    if (name, "final") in promised:
        assert code is not None
        assert not applied


def _everywhere(letters: Mapping[str, MovingCall], rules: Profile, longest: int) -> tuple[int, int]:
    """Follow all histories of *letters* up to *longest*; return how many there are, and how many steps were taken."""
    book = Book()
    book.accounts = {key: Account(key, cents) for key, cents in OPENING.items()}
    lenient, own = rules.unknown_rollback == "success", rules.rollback_tx_id == "own"
    model = WalletModel(dict(OPENING), lenient=lenient, own_tx_ids=own)
    places, histories, steps = [Place(book, model, frozenset(), 1)], 0, 0
    for _ in range(longest):
        reached: dict[Any, Place] = {}
        for place in places:
            for name, call in letters.items():
                led = _follow(place, name, call, rules)
                key = _key(led)
                known = reached.get(key)
                reached[key] = led._replace(histories=led.histories + (known.histories if known else 0))
                steps += 1
        places = list(reached.values())
        histories += sum(place.histories for place in places)
    return histories, steps


@pytest.mark.parametrize("rules", PROFILES.values(), ids=PROFILES)
@pytest.mark.parametrize("letters", WORLDS.values(), ids=WORLDS)
@pytest.mark.drawn(5)
def test_c09_all_histories(
    letters: Mapping[str, MovingCall], rules: Profile, record_property: Callable[[str, object], None]
) -> None:
    """No order and no repeat loses or doubles money, or breaks a promise (spec §3)."""
    longest = LONGEST if rules is PROFILES["default"] else 3
    histories, steps = _everywhere(letters, rules, longest)
    assert histories == sum(len(letters) ** length for length in range(1, longest + 1))
    record_property("histories", histories)
    record_property("steps", steps)
