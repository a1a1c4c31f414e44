"""Every verdict, both sides of every limit, and what no answer whatever may lead to (spec §2.4, §8)."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from game_operator.backoffice.reconcile.evidence import Evidence
from game_operator.backoffice.reconcile.judge import DAY_MILLIS, Limits, Ours, Verdict, is_test_bet, judge
from game_operator.codes import BetState
from game_operator.protocol.operations import AnyBet
from tests.support.judgement_table import HOUR, JUDGE, MAX_WIN, NOW, STATES, WAGER, WON, answer, bet, judged, written

V = Verdict
OPEN, SPENT, CLOSED, ROLLED_BACK = BetState.OPEN, BetState.SPENT, BetState.CLOSED, BetState.ROLLED_BACK
TOMBSTONE, DECLINED = BetState.TOMBSTONE, BetState.DECLINED


def test_the_docstring_has_the_table_that_judge_follows() -> None:
    """`python -m tests.support.judgement_table` writes it."""
    text = JUDGE.read_text(encoding="utf-8")
    assert written(text) == text


@pytest.mark.parametrize(
    ("age", "there", "verdict"),
    [
        (2 * HOUR - 1, "CLOSED", V.WAIT),
        (2 * HOUR, "CLOSED", V.SETTLE),
        (2 * HOUR - 1, "ROLLED_BACK", V.WAIT),
        (2 * HOUR, "ROLLED_BACK", V.REFUND),
        (0, "CLOSED", V.WAIT),
        # A wrong clock's: its age says nothing.
        (-1, "CLOSED", V.SETTLE),
        (-1, "ROLLED_BACK", V.REFUND),
        (-1, "OPEN", V.WAIT),
        (80 * DAY_MILLIS - 1, "OPEN", V.WAIT),
        (80 * DAY_MILLIS, "OPEN", V.NEARS_THE_END),
        (80 * DAY_MILLIS, "CLOSED", V.SETTLE),
        (400 * DAY_MILLIS, "OPEN", V.NEARS_THE_END),
        (0, "NOT_FOUND", V.MISSING_THERE),
        (89 * DAY_MILLIS, "NOT_FOUND", V.MISSING_THERE),
        (89 * DAY_MILLIS + 1, "NOT_FOUND", V.TOO_OLD),
    ],
)
def test_both_sides_of_each_age(age: int, there: str, verdict: Verdict) -> None:
    """A young bet is left to its own calls; a service forgets bets after 90 days."""
    assert judged(Ours(bet(OPEN, age)), answer(there)).verdict is verdict


@pytest.mark.parametrize("state", [SPENT, CLOSED])
@pytest.mark.parametrize(("days", "verdict"), [(89, V.MISSING_THERE), (90, V.TOO_OLD)])
def test_a_settled_bet_that_the_service_has_forgotten(state: BetState, days: int, verdict: Verdict) -> None:
    """After 90 days that says nothing."""
    assert judged(Ours(bet(state, days * DAY_MILLIS)), answer("NOT_FOUND")).verdict is verdict


@pytest.mark.parametrize(
    ("won", "limit", "verdict"),
    [
        (MAX_WIN, MAX_WIN, V.SETTLE),
        (MAX_WIN + 1, MAX_WIN, V.WIN_TOO_HIGH),
        (1, None, V.LIMIT_UNKNOWN),
        (0, None, V.SETTLE),
        (0, 0, V.SETTLE),
        (1, 0, V.WIN_TOO_HIGH),
    ],
)
def test_a_win_within_the_limit_of_its_game(won: int, limit: int | None, verdict: Verdict) -> None:
    """What no bet of its game instance can win is not credited, nor is anything where the limit is not known."""
    assert judged(Ours(bet(OPEN)), answer("CLOSED", won=won), max_win=limit).verdict is verdict


OF_ANOTHER = [
    pytest.param({"reference_id": "b2"}, V.BET_DIFFERS, id="bet"),
    pytest.param({"player_id": "p2"}, V.PLAYER_DIFFERS, id="player"),
    pytest.param({"wager": WAGER + 1}, V.AMOUNT_DIFFERS, id="wager"),
    pytest.param({"instance_id": "i2"}, V.GAME_DIFFERS, id="instance"),
    pytest.param({"game": "g2"}, V.GAME_DIFFERS, id="game"),
    pytest.param({"round_id": "r2"}, V.GAME_DIFFERS, id="round"),
    # The worst of several.
    pytest.param({"reference_id": "b2", "player_id": "p2", "wager": 1}, V.BET_DIFFERS, id="all"),
]


@pytest.mark.parametrize(("changes", "verdict"), OF_ANOTHER)
@pytest.mark.parametrize("there", ["OPEN", "CLOSED", "ROLLED_BACK"])
@pytest.mark.parametrize("state", [OPEN, SPENT, CLOSED, ROLLED_BACK, DECLINED])
def test_an_answer_about_something_else(state: BetState, there: str, changes: dict[str, Any], verdict: Verdict) -> None:
    """Whatever it says, and however young or old the bet is."""
    for age in (-HOUR, HOUR, 3 * HOUR, 85 * DAY_MILLIS):
        found = judged(Ours(bet(state, age), claim="claim"), answer(there, **changes))
        assert (found.verdict, found.owed_cents) == (verdict, None)


@pytest.mark.parametrize("there", ["OPEN", "CLOSED", "ROLLED_BACK"])
def test_an_answer_about_another_bet_closes_no_finding(there: str) -> None:
    """Also where we know no such bet: a bet that was rolled back elsewhere says nothing of this one."""
    assert judged(Ours(None), answer(there, reference_id="b2")).verdict is V.BET_DIFFERS


def test_what_we_do_not_know_is_not_compared() -> None:
    """An older ledger has no round, and a tombstone neither wager nor game; but whose it is it knows."""
    there = answer("CLOSED", round_id="r9", instance_id="i9", game="g9")
    nowhere = bet(OPEN, round_id=None, instance_id=None, game=None)
    assert judged(Ours(nowhere), there).verdict is V.SETTLE
    assert judged(Ours(bet(TOMBSTONE)), answer("ROLLED_BACK", wager=9, game="g9")).verdict is V.AGREES
    assert judged(Ours(bet(TOMBSTONE)), answer("ROLLED_BACK", player_id="p2")).verdict is V.PLAYER_DIFFERS


@pytest.mark.parametrize("state", STATES)
def test_no_answer_and_one_that_cannot_be_read(state: BetState | None) -> None:
    """Both are findings, with the wager at stake and the problem."""
    stake = WAGER if state not in (None, TOMBSTONE) else 0
    unread = judged(Ours(bet(state)), None, problem="garbage")
    assert (unread.verdict, unread.detail, unread.at_stake_cents) == (V.UNREADABLE, "garbage", stake)
    unanswered = judged(Ours(bet(state)), None, problem="no route", answered=False)
    assert (unanswered.verdict, unanswered.detail, unanswered.at_stake_cents) == (V.NO_ANSWER, "no route", stake)


@pytest.mark.parametrize("there", ["CLOSED", "ROLLED_BACK"])
def test_a_claim_that_names_the_bet(there: str) -> None:
    """It may have paid what the answer reports as won."""
    found = judged(Ours(bet(OPEN), claim="claim-7"), answer(there))
    assert (found.verdict, found.owed_cents) == (V.CLAIMED, None)
    assert "claim-7" in found.detail
    assert judged(Ours(bet(OPEN, HOUR), claim="claim-7"), answer(there)).verdict is V.WAIT
    assert judged(Ours(bet(OPEN), claim="claim-7"), answer("OPEN")).verdict is V.WAIT


OWED = [
    (CLOSED, answer("CLOSED", won=WON + 70), 0, V.AMOUNT_DIFFERS, 70),
    (CLOSED, answer("CLOSED", won=WON - 70), 0, V.AMOUNT_DIFFERS, -70),
    (CLOSED, answer("CLOSED", won=WON + 70), 69, V.AMOUNT_DIFFERS, 1),
    (CLOSED, answer("CLOSED", won=WON + 70), 70, V.AGREES, None),
    (CLOSED, answer("CLOSED", won=WON - 70), -70, V.AGREES, None),
    (CLOSED, answer("CLOSED"), 70, V.AMOUNT_DIFFERS, -70),
    (CLOSED, answer("ROLLED_BACK"), 0, V.STATE_DIFFERS, WAGER - WON),
    (CLOSED, answer("ROLLED_BACK"), WAGER - WON, V.AGREES, None),
    (ROLLED_BACK, answer("CLOSED"), 0, V.STATE_DIFFERS, WON - WAGER),
    (ROLLED_BACK, answer("CLOSED"), WON - WAGER, V.AGREES, None),
    (ROLLED_BACK, answer("CLOSED", won=0), 0, V.STATE_DIFFERS, -WAGER),
    # The money is right, and the state is not.
    (ROLLED_BACK, answer("CLOSED", won=WAGER), 0, V.STATE_DIFFERS, 0),
    # A rollback may still refund it, so nothing is paid by hand.
    (SPENT, answer("CLOSED", won=9), 0, V.AMOUNT_DIFFERS, None),
]


@pytest.mark.parametrize(("state", "there", "paid", "verdict", "owed"), OWED)
def test_what_is_owed(state: BetState, there: AnyBet, paid: int, verdict: Verdict, owed: int | None) -> None:
    """What is due less what the account got, payments for earlier findings included."""
    found = judged(Ours(bet(state), paid_cents=paid), there)
    assert (found.verdict, found.owed_cents) == (verdict, owed)


@pytest.mark.parametrize("there", [answer("CLOSED", won=WON + 70), answer("ROLLED_BACK")])
def test_nothing_is_said_to_be_owed_where_a_claim_may_have_paid_it(there: AnyBet) -> None:
    """Else a jackpot would be paid twice by `resolve --pay`."""
    found = judged(Ours(bet(CLOSED), claim="claim-7"), there)
    assert found.verdict in (V.AMOUNT_DIFFERS, V.STATE_DIFFERS)
    assert found.owed_cents is None
    assert "claim-7" in found.detail


@pytest.mark.parametrize("there", ["ROLLED_BACK", "NOT_FOUND"])
@pytest.mark.parametrize(("by", "verdict"), [("reconcile", V.CLAIMED), ("refund", V.CLAIMED), (None, V.AGREES)])
def test_a_claim_that_came_after_a_refund(there: str, by: str | None, verdict: Verdict) -> None:
    """The wager was given back without a call, and the claim says that there was a bet."""
    ours = Ours(bet(ROLLED_BACK, settled_by=by), claim="claim-7")
    assert judged(ours, answer(there)).verdict is verdict


@pytest.mark.parametrize(
    ("paid", "counted", "claim", "won", "found"),
    [
        (70, 0, "claim-7", WON + 70, (V.CLAIMED, None)),
        (0, 70, "claim-7", WON + 70, (V.CLAIMED, None)),
        (0, 70, None, WON + 70, (V.AGREES, None)),
        (0, 500, None, WON + 70, (V.AGREES, None)),
        (0, 69, None, WON + 70, (V.AMOUNT_DIFFERS, 1)),
        (30, 30, None, WON + 70, (V.AMOUNT_DIFFERS, 10)),
        # A claim is never taken back.
        (0, 500, None, WON, (V.AGREES, None)),
        (0, 500, None, WON - 1, (V.AMOUNT_DIFFERS, -1)),
    ],
)
def test_claims_that_a_person_has_counted(
    paid: int, counted: int, claim: str | None, won: int, found: tuple[Verdict, int | None]
) -> None:
    """They fill what is missing; one that came later is reported."""
    judgement = judged(Ours(bet(CLOSED), claim, paid, counted_cents=counted), answer("CLOSED", won=won))
    assert (judgement.verdict, judgement.owed_cents) == found


@pytest.mark.parametrize(
    ("changes", "claim", "verdict"),
    [
        ({"settled_by": "reconcile"}, "claim-7", V.CLAIMED),
        ({"settled_by": "reconcile"}, None, V.AGREES),
        ({"settled_by": "reconcile", "deposit_tx_id": "deposit-1"}, "claim-7", V.AGREES),
        ({"settled_by": None}, "claim-7", V.AGREES),
    ],
    ids=["after a repair", "no claim", "the deposit came, too", "settled by a call"],
)
def test_a_claim_that_came_after_a_repair(changes: dict[str, Any], claim: str | None, verdict: Verdict) -> None:
    """The repair may have paid what the claim pays; the bet's own deposit says that it has not."""
    found = judged(Ours(bet(CLOSED, **changes), claim=claim), answer("CLOSED"))
    assert (found.verdict, found.owed_cents) == (verdict, None)


@pytest.mark.parametrize(
    ("changes", "ours", "verdict"),
    [
        ({}, Ours(None), V.UNKNOWN_HERE),
        ({}, Ours(None, claim="claim"), V.AGREES),
        ({"timestamp": NOW - 2 * HOUR}, Ours(None), V.UNKNOWN_HERE),
        ({"timestamp": NOW - 2 * HOUR + 1}, Ours(None), V.AGREES),
        ({"timestamp": NOW + 2 * HOUR - 1}, Ours(None), V.AGREES),
        ({"timestamp": NOW + 2 * HOUR}, Ours(None), V.UNKNOWN_HERE),
    ],
)
@pytest.mark.parametrize("there", ["OPEN", "CLOSED"])
def test_a_bet_that_we_never_heard_of(there: str, changes: dict[str, Any], ours: Ours, verdict: Verdict) -> None:
    """Free bets have no withdraw, and a withdraw may still be on its way."""
    assert judged(ours, answer(there, **changes)).verdict is verdict


def test_what_is_a_finding() -> None:
    """All but what is in order, and what is done about it."""
    assert {verdict for verdict in Verdict if not verdict.is_finding} == {
        *(V.AGREES, V.WAIT, V.SETTLE, V.REFUND, V.SETTLED, V.REFUNDED, V.TEST_BET)
    }
    assert {verdict for verdict in Verdict if verdict.is_repair} == {V.SETTLE, V.REFUND}


IDS = st.sampled_from(["b1", "b2", "B1", "b1 ", ""])
PLAYERS = st.sampled_from(["p1", "p2", "P1", "p1 ", ""])
WAGERS = st.sampled_from([0, 1, WAGER - 1, WAGER, WAGER + 1, 10**15])
THERE = st.builds(
    answer,
    st.sampled_from(["OPEN", "CLOSED", "ROLLED_BACK"]),
    reference_id=IDS,
    player_id=PLAYERS,
    wager=WAGERS,
    instance_id=st.sampled_from(["i1", "i2"]),
    timestamp=st.integers(0, 2 * NOW),
)


@given(
    state=st.sampled_from(STATES),
    age=st.integers(-DAY_MILLIS, 100 * DAY_MILLIS),
    there=st.one_of(st.none(), st.just(answer("NOT_FOUND")), THERE),
    claim=st.sampled_from([None, "claim"]),
    paid=st.integers(-2_000, 2_000),
    max_win=st.sampled_from([None, 0, WON, MAX_WIN]),
    min_age=st.sampled_from([0, HOUR]),
)
def test_nothing_but_an_answer_about_this_open_bet_moves_money(
    state: BetState | None,
    age: int,
    there: AnyBet | None,
    claim: str | None,
    paid: int,
    max_win: int | None,
    min_age: int,
) -> None:
    """A repair is for an OPEN bet that is old enough, that no claim names, and whose answer is about it alone."""
    ours = Ours(bet(state, age), claim, paid)
    found = judge(ours, Evidence("b1", there, b""), Limits(NOW, min_age, max_win))
    if not found.verdict.is_repair:
        return
    assert there is not None
    assert (ours.bet is not None, state, claim) == (True, OPEN, None)
    assert not 0 <= age < min_age
    fields = there.model_dump()
    assert (fields["reference_id"], fields["player_id"], fields["wager"]) == ("b1", "p1", WAGER)
    assert fields["instance_id"] == "i1"
    assert fields["status"] == {V.SETTLE: "CLOSED", V.REFUND: "ROLLED_BACK"}[found.verdict]
    assert fields.get("won", 0) <= (max_win or 0)


STORM = "storm-bet-0123456789abcdef-0-12"
CERTIFY = "certify-3af39e24-C01-bet-1"


@pytest.mark.parametrize(
    "bet_id",
    [
        STORM,
        CERTIFY,
        "certify-00000000-F07-Bet-12",
        f"{CERTIFY}-x\n' OR 1=1",
        f"{CERTIFY}-".ljust(256, "x"),
        CERTIFY.swapcase(),
        "certify-3af39e24-B01-within-limits-bet-1",
        "certify-3af39e24-end-bet-1",
    ],
)
def test_what_our_tools_make(bet_id: str) -> None:
    """The run, where in it, a word and a number; a certification also tries odd ends (docs/how-to/reconcile.md)."""
    assert is_test_bet(bet_id)


@pytest.mark.parametrize(
    "bet_id",
    [
        "",
        "bet-1",
        "bet-0123456789ab-1",
        "certify-3af39e24-C01",
        "certify-3af39e24-C01-bet-",
        "certify-3af39e2-C01-bet-1",
        "certify-3af39e241-C01-bet-1",
        "certify-3AF39E24-C01-bet-1",
        "certify-3af39e2g-C01-bet-1",
        "certify-3af39e24-C1-bet-1",
        "certify-3af39e24-c01-bet-1",
        "certify-3af39e24-C01-bet-x",
        "certify-3af39e24-other-bet-1",
        f"x{CERTIFY}",
        "storm-0123456789abcdef-0-12",
        "storm-bet-0123456789abcdef-0",
        "storm-bet-0123456789abcde-0-12",
        "storm-bet-0123456789abcdef0-0-12",
        "storm-bet-0123456789abcdeg-0-12",
        f"{STORM}\n",
        f"{STORM}-1",
        "storm-bet-0123456789abcdef--12",
        "storm-bet-0123456789abcdef-0-12".upper(),
    ],
)
def test_what_is_only_like_it(bet_id: str) -> None:
    """A genuine provider may call its bets so."""
    assert not is_test_bet(bet_id)
