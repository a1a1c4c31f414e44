"""The audit: which states agree, and what a difference is worth."""

from dataclasses import replace
from typing import Any

import pytest

from game_operator.codes import BetState
from game_operator.ledger.api import BetRecord
from game_operator.models.webhooks import MovingCall, Reply
from game_operator.money import Cents
from game_operator_testkit.provider.delivery import Answer, Post
from game_operator_testkit.provider.faults import Fault
from game_operator_testkit.sandbox.dealing.balances import PlayerBalance, ReportedBalance
from game_operator_testkit.sandbox.dealing.dealt import Dealt, DealtBet, ServiceState
from game_operator_testkit.sandbox.dealing.plan import BetEnd
from game_operator_testkit.sandbox.storm.audit import Closing, Difference, audit
from testkit.tests.sandbox.dealing import bet

WAGER, WON, JACKPOT = 500, 1_250, 70_000
BEFORE = 10_000
LOST = Answer(None, None, "reply lost")


def ok(code: str | None = None, status: int = 200) -> Answer:
    return Answer(Reply(code=code, balance_cents=Cents(1)), status)


def dealt_bet(state: ServiceState, *sent: tuple[str, Answer], end: BetEnd = BetEnd.CLOSED, **fields: Any) -> DealtBet:
    """Return a bet of p1 that stands at *state* after calls were *sent*: their names, and what was heard."""
    planned = replace(bet(end=end), jackpot_cents=JACKPOT if end is BetEnd.CLOSED else 0)
    dealt = DealtBet(planned=planned, state=state, **fields)
    for serial, (name, answer) in enumerate(sent, 1):
        cents = {"deposit": (planned.won_cents,), "jackpot": (planned.jackpot_cents,)}.get(name, ())
        call: MovingCall = getattr(planned, name)(*cents)
        dealt.history.append((Post(call, serial), answer))
    return dealt


def record(state: BetState | None, wager: int = WAGER, won: int | None = None) -> BetRecord | None:
    if state is None:
        return None
    return BetRecord(
        bet_id="b1", player_id="p1", account="p1", instance_id="i1", game="crash", round_id="r1", wager_cents=wager,
        won_cents=won, state=state, opened_at_millis=1, settled_at_millis=None,
    )  # fmt: skip


def differences(
    dealt: Dealt | list[Dealt], kept: BetRecord | None, balance: int | None, wrong: PlayerBalance | None = None
) -> list[Difference]:
    """Audit by the wallet's ledger."""
    closing = Closing({"p1": balance}, {} if kept is None else {kept.bet_id: kept})
    return audit(dealt if isinstance(dealt, list) else [dealt], {"p1": BEFORE}, closing, {"p1": wrong} if wrong else {})


def wrong_since(*suspects: Dealt) -> PlayerBalance:
    """Return a player for whom the wallet reported 0.01 in place of 0.02."""
    told = ReportedBalance(1, 2)
    return PlayerBalance("p1", 1, None, (told,), 0, suspects)


S, B = ServiceState, BetState
_AGREE: dict[ServiceState, set[BetState | None]] = {
    S.OPEN: {B.OPEN},
    S.CLOSED: {B.CLOSED},
    S.ROLLED_BACK: {B.ROLLED_BACK, B.TOMBSTONE, B.DECLINED, None},
    S.REFUSED: {B.DECLINED, None},
}
_EFFECT = {S.OPEN: -WAGER, S.CLOSED: WON - WAGER, S.ROLLED_BACK: 0, S.REFUSED: 0}


@pytest.mark.parametrize("kept", [*BetState, None])
@pytest.mark.parametrize("state", list(_AGREE))
def test_which_states_agree(state: ServiceState, kept: BetState | None) -> None:
    """All pairs of what the service believes and what the wallet has."""
    dealt = dealt_bet(state)
    found = differences(dealt, record(kept, won=WON if kept is B.CLOSED else None), BEFORE + _EFFECT[state])
    assert [one.subject for one in found] == ([] if kept in _AGREE[state] else ["bet b1"])


@pytest.mark.parametrize(
    ("state", "kept"),
    [
        pytest.param(S.CLOSED, record(B.CLOSED, won=WON + 1), id="another credit"),
        pytest.param(S.CLOSED, record(B.CLOSED, won=None), id="no credit"),
        pytest.param(S.CLOSED, record(B.CLOSED, WAGER - 1, WON), id="another wager"),
    ],
)
def test_amounts_are_part_of_a_state(state: ServiceState, kept: BetRecord) -> None:
    """CLOSED is CLOSED with that credit."""
    (found,) = differences(dealt_bet(state), kept, BEFORE + _EFFECT[state])
    assert found.subject == "bet b1"


@pytest.mark.parametrize(
    ("state", "kept", "gap_cents", "in_words"),
    [
        pytest.param(S.CLOSED, record(B.OPEN), -WON, "12.50 too little", id="not paid"),
        pytest.param(S.CLOSED, record(B.CLOSED, won=2 * WON), WON, "12.50 too much", id="paid twice"),
        pytest.param(S.CLOSED, None, WAGER - WON, "7.50 too little", id="not there"),
        pytest.param(S.ROLLED_BACK, record(B.OPEN), -WAGER, "5.00 too little", id="not refunded"),
        pytest.param(S.OPEN, record(B.ROLLED_BACK), WAGER, "5.00 too much", id="never debited"),
        pytest.param(S.OPEN, record(B.CLOSED, won=WAGER), WAGER, "5.00 too much", id="settled by itself"),
    ],
)
def test_what_a_wrong_state_is_worth(
    state: ServiceState, kept: BetRecord | None, gap_cents: int, in_words: str
) -> None:
    """To the player, in cents, whatever its jackpot paid; with the faults that the bet met."""
    for is_paid in (False, True):
        dealt = dealt_bet(state, jackpot_paid=is_paid, faults={Fault.DUPLICATE: None, Fault.EARLY_ROLLBACK: None})
        found = differences(dealt, kept, BEFORE + _EFFECT[state] + JACKPOT * (is_paid and state is S.CLOSED))[0]
        assert (found.gap_cents, found.gap) == (gap_cents, in_words)
        assert found.faults == (Fault.DUPLICATE, Fault.EARLY_ROLLBACK)
        assert str(found).endswith(f"; {in_words}; faults: duplicate, early-rollback")


def test_a_loss_that_is_open_is_worth_nothing() -> None:
    """No money moved wrongly, and no words are made of it; without faults there are none either."""
    dealt = dealt_bet(S.CLOSED)
    dealt.planned = replace(dealt.planned, won_cents=0)
    (found,) = differences(dealt, record(B.OPEN), BEFORE - WAGER)
    assert (found.gap_cents, found.gap, found.faults) == (0, "", ())
    assert str(found) == "bet b1: the service has it CLOSED with 0.00 won; the wallet has it OPEN, wager 5.00"


OK, GONE = ("withdraw", ok()), ("withdraw", LOST)


def test_a_bet_that_nobody_placed() -> None:
    """A wallet that makes bets up."""
    made_up = record(B.OPEN)
    assert made_up is not None
    found = differences([], made_up, BEFORE)
    assert [one.service for one in found] == ["the service never placed it"]


@pytest.mark.parametrize(
    ("extra", "named"),
    [
        pytest.param(None, True, id="the call itself"),
        pytest.param(Fault.DUPLICATE, True, id="its duplicate"),
        pytest.param(Fault.FORGED, False, id="a stranger's"),
    ],
)
def test_another_status_than_200_is_a_difference(extra: Fault | None, named: bool) -> None:
    """Spec §4.1: HTTP 200 always; to a stranger one may answer otherwise (docs/decisions/0011)."""
    dealt = dealt_bet(S.OPEN, OK, end=BetEnd.OPEN, accepted=True)
    call = dealt.planned.withdraw()
    dealt.history.append((Post(call, 2, 1, None, extra), ok(status=401)))
    found = differences(dealt, record(B.OPEN), BEFORE - WAGER)
    assert [one.wallet for one in found] == [
        "a call was answered with HTTP 401, which must be 200 always (spec §4.1)"
    ] * named


@pytest.mark.parametrize(("now", "gap_cents"), [(BEFORE + 7, 7), (BEFORE - 3, -3), (None, 0)], ids=str)
def test_what_a_wrong_balance_is_worth(now: int | None, gap_cents: int) -> None:
    """To the player, in cents; one that cannot be read is not 0."""
    (found,) = audit([], {"p1": BEFORE}, Closing({"p1": now}), {})
    assert (found.subject, found.gap_cents) == ("player p1", gap_cents)


def test_a_balance_told_wrongly_on_the_way() -> None:
    """That the last one is right does not fix it."""
    dealt = dealt_bet(S.OPEN, OK, end=BetEnd.OPEN, accepted=True)
    wrong = wrong_since(dealt)
    (found,) = differences(dealt, record(B.OPEN), BEFORE - WAGER, wrong)
    assert (found.service, found.wallet) == (
        "0.02 was due on the way",
        "the wallet reported 0.01, first wrong after bet b1",
    )
    assert found.history[0].startswith("bet b1 of p1, wager 5.00")
