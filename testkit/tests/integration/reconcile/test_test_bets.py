"""Bets of a certification or a storm are left out of a reconciliation, and nothing else is (decision 41)."""

from datetime import timedelta
from typing import Any

import pytest

from game_operator.models import ClosedBet, OpenBet
from game_operator.models.webhooks import RollbackCall, WithdrawCall
from game_operator_testkit.sandbox.dealing.plan import storm_bet_id
from testkit.tests.support.reconciling import REPAIR, WAGER, WON, Desk, TickingClock, verdicts
from tests.support.raw_sql import run

pytestmark = pytest.mark.outside

HOUR = timedelta(hours=1)
TEST_BET = storm_bet_id("0123456789abcdef", 1, 0)


def hour_later(desk: Desk, **options: Any) -> Any:
    """Return a reconciler an hour later, when the bets of now count as lately settled."""
    return desk.reconciler(clock_millis=TickingClock(ahead=HOUR), **options)


def placed(desk: Desk, bet_id: str, state: str = "OPEN") -> str:
    """Let the calls of a bet come that the service does not know, and return its id."""
    wager = WithdrawCall(
        player_id="p1", bet_id=bet_id, amount_cents=WAGER, action="RAIN" if state == "SPENT" else "BET"
    )
    assert desk.wallet.withdraw(wager).code is None
    if state == "CLOSED":
        desk.deposit(bet_id)
    if state == "ROLLED_BACK":
        assert desk.wallet.rollback(RollbackCall(player_id="p1", bet_id=bet_id)).code is None
    assert desk.state(bet_id) == state
    return bet_id


def genuine(desk: Desk, bet_id: str, **state: Any) -> Any:
    """Return what a provider answers that knows a bet."""
    bet = desk.ledger.bet(bet_id)
    assert bet is not None
    of = {
        "reference_id": bet_id,
        "player_id": "p1",
        "round_id": "r",
        "instance_id": desk.sandbox.instance_id,
        "game": "g",
    }
    model = ClosedBet if state else OpenBet
    return model.model_validate(of | {"wager": WAGER, "timestamp": bet.opened_at_millis} | state)


@pytest.mark.parametrize("state", ["OPEN", "CLOSED", "SPENT", "ROLLED_BACK"])
def test_a_test_bet_is_left_out_if_nobody_knows_it(desk: Desk, state: str) -> None:
    """The shape of its id alone is not enough, nor is NOT_FOUND: one that is found is compared as usual."""
    tests, other = placed(desk, TEST_BET, state), placed(desk, f"{TEST_BET}x", state)
    found = verdicts(hour_later(desk).run())
    expected = ("agrees", "agrees") if state == "ROLLED_BACK" else ("test_bet", "missing_there")
    assert (found[tests], found[other]) == expected
    desk.sandbox.lies.about_bet(tests, genuine(desk, tests, status="CLOSED", won=WON + 1))
    differs = {"OPEN": "settle", "ROLLED_BACK": "state_differs"}.get(state, "amount_differs")
    run(desk.url, "DELETE FROM {p}looks")  # A SPENT bet is looked up once.
    assert verdicts(hour_later(desk).run(**REPAIR))[tests] == differs.replace("settle", "settled")


# --- the look at whether the service answers from an old copy --------------------------------------------------------


@pytest.mark.parametrize(
    ("differ", "state", "repaired"), [("tests", "stopped", 0), ("none", "finished", 1), ("others", "stopped", 0)]
)
def test_the_guard_compares_what_the_provider_knows(desk: Desk, differ: str, state: str, repaired: int) -> None:
    """Bets that look like a test's count if the provider knows them; if nobody does, they hide no others."""
    desk.play("lose")
    others = [placed(desk, f"b{number}", "CLOSED") for number in range(2)]
    tests = [placed(desk, storm_bet_id("0123456789abcdef", number, 0), "CLOSED") for number in range(25)]
    for bet in others:
        won = 0 if differ == "others" else WON
        desk.sandbox.lies.about_bet(bet, genuine(desk, bet, status="CLOSED", won=won))
    for bet in tests if differ == "tests" else ():
        desk.sandbox.lies.about_bet(bet, genuine(desk, bet, status="CLOSED", won=0))
    report = hour_later(desk, sample=0.0).run(**REPAIR)
    assert (report.run.state, report.repaired.bets) == (state, repaired)
