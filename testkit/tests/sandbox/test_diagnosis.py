"""Which mistake a difference comes from: gaps of all kinds, what fits several, and wrong wallets and their bets."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from game_operator.models.webhooks import DepositCall, MovingCall, Reply, WithdrawCall
from game_operator.money import Cents
from game_operator_testkit.certifier import scenarios
from game_operator_testkit.provider.delivery import Answer, Post, Sent
from game_operator_testkit.provider.diagnosis import MoneyMistake, text_of
from game_operator_testkit.provider.faults import Fault
from game_operator_testkit.sandbox.dealing.balances import PlayerBalance, ReportedBalance
from game_operator_testkit.sandbox.dealing.dealt import Dealt, DealtBet, DealtClaim, ServiceState
from game_operator_testkit.sandbox.dealing.plan import BetEnd
from game_operator_testkit.sandbox.storm.audit import Closing, Difference, audit
from game_operator_testkit.sandbox.storm.diagnosis import Diagnosis
from game_operator_testkit.sandbox.storm.guesses import of_gap, of_problem
from testkit.tests.sandbox.dealing import bet, claim
from testkit.tests.sandbox.storming import AUDITS, slips_of, storm
from testkit.tests.sandbox.wrong_wallets import (
    AnswersWithoutCrediting,
    CreditsWhatIsChanged,
    KeepsAPart,
    KeyedOnTxIdAlone,
    LeavesLossesOpen,
    NoTombstone,
    PaysRepeatsTwice,
    RefundsTwice,
    RefusesJackpots,
    RightWallet,
    TakesACentMore,
    TellsWhatWasBefore,
)

S, M = ServiceState, MoneyMistake
BEFORE, WAGER, WON = 100_000, 500, 1_250
OK, LOST = "SUCCESS", "reply lost"


@pytest.fixture(autouse=True)
def settled_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("game_operator_testkit.sandbox.storm.storm._SETTLING_SECONDS", 0.0)


def _answer(told: str) -> Answer:
    if told == LOST:
        return Answer(None, None, told)
    return Answer(Reply(code=None if told == OK else told, balance_cents=Cents(1)), 200)


def dealt(
    state: ServiceState,
    *sent: tuple[str, str],
    name: str = "b1",
    wager: int = WAGER,
    won: int = WON,
    first: int = 1,
    extra: Fault | None = None,
    **fields: Any,  # Any: of DealtBet.
) -> DealtBet:
    """Return a bet after calls were *sent*, the last of them with the fault *extra*."""
    planned = replace(bet(end=BetEnd.CLOSED), bet_id=name, wager_cents=wager, won_cents=won, jackpot_cents=0)
    made = DealtBet(planned=planned, state=state, **fields)
    for place, (operation, told) in enumerate(sent):
        call: MovingCall = getattr(planned, operation)(*((planned.won_cents,) if operation == "deposit" else ()))
        is_last = place == len(sent) - 1
        if extra is Fault.OTHER_CONTENT and is_last:
            assert isinstance(call, WithdrawCall | DepositCall)
            call = replace(call, amount_cents=call.amount_cents + 1)
        made.history.append(
            Sent(Post((call,), first + place, 1, None, extra if is_last else None), _answer(told), call)
        )
    return made


def settled(*sent: tuple[str, str], **settings: Any) -> DealtBet:  # Any: as of ``dealt``.
    return dealt(S.CLOSED, *(sent or (("withdraw", OK), ("deposit", OK))), accepted=True, paid=True, **settings)


def cancelled(*sent: tuple[str, str], **settings: Any) -> DealtBet:  # Any: as of ``dealt``.
    return dealt(S.ROLLED_BACK, *sent, **settings)


def found(gap_cents: int, *each: Dealt, suspects: Sequence[Dealt] = ()) -> Difference:
    """Return what the audit finds of a player's balance that is wrong by *gap_cents*."""
    due = BEFORE + sum(one.fates()[0].cents for one in each)
    wrong = ReportedBalance(0, 1, 2)
    player = each[0].player_id
    told = {player: PlayerBalance(player, wrong, None, wrong, 1, 0, tuple(suspects))} if suspects else {}
    differences = audit(each, {player: BEFORE}, Closing({player: due + gap_cents}), told)
    (difference,) = [one for one in differences if one.subject == f"player {player}"]
    return difference


def diagnosed(gap_cents: int, *each: Dealt, suspects: Sequence[Dealt] = ()) -> Diagnosis | None:
    return found(gap_cents, *each, suspects=suspects).diagnosis


W, D, R = ("withdraw", OK), ("deposit", OK), ("rollback", OK)
_UNSEEN = ("rollback", "BET_NOT_FOUND")
#: What was sent, the gap, and the mistake that is named.
_GAPS: list[Any] = [
    pytest.param(settled(W, W, D), -WAGER, M.DEBITED_AGAIN, "sent 2 times", id="debited again"),
    pytest.param(settled(W, W, W, D), -2 * WAGER, M.DEBITED_AGAIN, "2 times the wager", id="debited twice again"),
    pytest.param(settled(("withdraw", LOST), W, D), -WAGER, M.DEBITED_AGAIN, "sent 2", id="the first reply was lost"),
    pytest.param(settled(W, D, D), WON, M.CREDITED_AGAIN, "the win of bet b1, whose deposit was", id="paid again"),
    pytest.param(settled(), -WON, M.NOT_BOOKED, "as if its deposit had paid nothing", id="not paid"),
    pytest.param(settled(), WAGER, M.NOT_BOOKED, "as if its withdraw had taken nothing", id="not debited"),
    pytest.param(
        settled(("deposit", "BET_NOT_FOUND"), W, D, hurried=True), WON, M.EARLY_DEPOSIT, "came before", id="paid early"
    ),
    pytest.param(
        settled(("deposit", "BET_NOT_FOUND"), W, D, hurried=True), -WON, M.EARLY_DEPOSIT, "came before", id="remembered"
    ),
    pytest.param(
        cancelled(_UNSEEN, W, accepted=True, cancelled_unseen=True),
        -WAGER, M.LATE_WITHDRAW, "answered BET_NOT_FOUND, balance 0.01; the withdraw then SUCCESS", id="late withdraw",
    ),
    pytest.param(
        cancelled(_UNSEEN, ("withdraw", "BET_ROLLED_BACK"), cancelled_unseen=True),
        -WAGER, M.LATE_WITHDRAW, "the withdraw then BET_ROLLED_BACK", id="debited, and answered that it is not",
    ),
    pytest.param(cancelled(_UNSEEN), WAGER, M.REFUNDED_UNSEEN, "which was never taken", id="refund of an unseen bet"),
    pytest.param(cancelled(W, R, R, accepted=True), WAGER, M.CREDITED_AGAIN, "rollback was", id="refunded again"),
    pytest.param(cancelled(W, R, accepted=True), -WAGER, M.NOT_REFUNDED, "given nothing back", id="not refunded"),
    pytest.param(
        dealt(S.REFUSED, ("withdraw", "INSUFFICIENT_BALANCE"), ("withdraw", "INSUFFICIENT_BALANCE")),
        -WAGER, M.REFUSED_AND_DEBITED, "which was refused and sent 2 times", id="refused and debited",
    ),
    pytest.param(settled(W, D, extra=Fault.FORGED), WON, M.FORGED, "with the fault forged", id="forged"),
    pytest.param(
        settled(W, D, D, extra=Fault.OTHER_CONTENT), WON + 1, M.OTHER_CONTENT, "the 12.51 of", id="other content"
    ),
    pytest.param(
        settled(W, D, D, extra=Fault.OTHER_CONTENT), 1, M.OTHER_CONTENT, "the difference to another", id="a cent more"
    ),
]  # fmt: skip


@pytest.mark.parametrize(("each", "gap_cents", "mistake", "words"), _GAPS)
def test_a_gap_is_matched_with_a_bet(each: DealtBet, gap_cents: int, mistake: MoneyMistake, words: str) -> None:
    """By its amount and by what happened to its calls; a bet beside it with other amounts is not named."""
    beside = settled(name="b2", wager=7_777, won=3_333, first=50)
    diagnosis = diagnosed(gap_cents, each, beside)
    assert diagnosis is not None
    assert (diagnosis.mistake, diagnosis.bets, diagnosis.is_ambiguous) == (mistake, ("bet b1",), False)
    assert words in diagnosis.sentence
    how_much = f"{abs(gap_cents) / 100:.2f} too {'much' if gap_cents > 0 else 'little'}: it equals "
    assert diagnosis.sentence.startswith(how_much)
    assert "b2" not in "".join(diagnosis.calls)


def test_a_claim_is_matched() -> None:
    """Paid again, or not at all."""
    planned = claim()
    made = DealtClaim(planned=planned, state=S.PAID)
    for serial in (1, 2):
        call = planned.deposit()
        made.history.append(Sent(Post((call,), serial), _answer(OK), call))
    again, not_paid = diagnosed(planned.won_cents, made), diagnosed(-planned.won_cents, made)
    assert again is not None
    assert not_paid is not None
    assert (again.mistake, not_paid.mistake) == (M.CREDITED_AGAIN, M.NOT_BOOKED)
    assert again.bets == (f"claim {planned.free_bet_id}",)


@pytest.mark.parametrize("gap_cents", [1, -1, WAGER - 1, WAGER + WON, 10**9])
def test_a_gap_that_fits_nothing_has_no_reason(gap_cents: int) -> None:
    """Nothing is made up."""
    assert diagnosed(gap_cents, settled()) is None


def test_what_was_repeated_is_more_likely_than_what_was_not() -> None:
    """Of two bets with the same wager."""
    diagnosis = diagnosed(-WAGER, settled(name="b2", first=9), settled(W, W, D))
    assert diagnosis is not None
    assert (diagnosis.bets, diagnosis.is_ambiguous) == (("bet b1",), False)


def test_several_that_fit_are_all_named() -> None:
    """Up to three of them, and that the numbers do not tell which."""
    several = [settled(W, W, D, name=f"b{number}", first=number * 10) for number in range(1, 6)]
    diagnosis = diagnosed(-WAGER, *several)
    assert diagnosis is not None
    assert (diagnosis.mistake, diagnosis.is_ambiguous, len(diagnosis.bets)) == (M.DEBITED_AGAIN, True, 5)
    assert "; or 2 others. The numbers do not tell which." in diagnosis.sentence
    assert diagnosis.sentence.count("the wager of bet b") == 3


def test_a_suspect_is_more_likely_than_another_bet() -> None:
    """The balance was first wrong after it."""
    first, second = settled(W, W, D), settled(W, W, D, name="b2", first=9)
    diagnosis = diagnosed(-WAGER, first, second, suspects=[second])
    assert diagnosis is not None
    assert (diagnosis.bets, diagnosis.is_ambiguous) == (("bet b2",), False)


@pytest.mark.parametrize(
    ("wagers", "counted"),
    [
        pytest.param((500, 700), "the sum of all 2: ", id="all that could"),
        pytest.param((500, 700, 90), "the sum of the wager of bet b0", id="two of three"),
        pytest.param((500, 300, 400, 90), "the sum of the wager of bet b0", id="three of four"),
    ],
)
def test_sums_of_a_few_are_tried(wagers: Sequence[int], counted: str) -> None:
    """Two mistakes of one player add up."""
    several = [settled(W, W, D, name=f"b{n}", wager=cents, first=n * 10 + 1) for n, cents in enumerate(wagers)]
    diagnosis = diagnosed(-1_200, *several)
    assert diagnosis is not None
    assert diagnosis.mistake is M.DEBITED_AGAIN
    assert counted in diagnosis.sentence
    assert "b3" not in diagnosis.sentence


@pytest.mark.parametrize(
    ("several", "gap_cents"),
    [
        pytest.param(
            [settled(W, W, D), cancelled(W, R, R, accepted=True, name="b2", wager=496, first=9)], -4, id="signs"
        ),
        pytest.param(
            [
                settled(W, W, D),
                dealt(
                    S.REFUSED,
                    *[("withdraw", "INSUFFICIENT_BALANCE")] * 2,
                    name="b2",
                    wager=300,
                    first=9,
                ),
            ],
            -800, id="two mistakes",
        ),
        pytest.param(
            [settled(W, W, D, name=f"b{n}", wager=100 + n * n, won=0, first=n * 10) for n in range(12)],
            -(101 + 104), id="many suspects",
        ),
    ],
)  # fmt: skip
def test_a_sum_that_may_fit_by_chance_is_not_named(several: Sequence[DealtBet], gap_cents: int) -> None:
    """Sums of both signs, of different mistakes, and so many sums that one fits any gap."""
    diagnosis = diagnosed(gap_cents, *several)
    assert diagnosis is None or (diagnosis.is_ambiguous and "the sum of" not in diagnosis.sentence)


def with_balances(each: DealtBet, *cents: int) -> DealtBet:
    """Return *each* after its calls were answered with these balances."""
    for place, (sent, balance) in enumerate(zip(each.history, cents, strict=True)):
        answer = Answer(Reply(code=sent.answer.code, balance_cents=Cents(balance)), 200)
        each.history[place] = replace(sent, answer=answer)
    return each


@pytest.mark.parametrize(
    ("balances", "mistake"),
    [
        pytest.param((99_500, 100_750, 100_250), M.DEBITED_AGAIN, id="the repeat moved it"),
        pytest.param((99_500, 100_250, 100_250), None, id="it was wrong before the repeat"),
        pytest.param((99_500, 100_249, 100_250), M.DEBITED_AGAIN, id="the balance before was another"),
    ],
)
def test_a_repeat_at_the_end_that_moved_nothing_is_no_cause(
    balances: tuple[int, ...], mistake: MoneyMistake | None
) -> None:
    """The balance before it is that of the end; the gap is that of a withdraw that is debited again."""
    diagnosis = diagnosed(-WAGER, with_balances(settled(W, D, W), *balances))
    assert (None if diagnosis is None else diagnosis.mistake) is mistake


def test_only_the_first_of_the_last_repeats_may_have_moved_something() -> None:
    """Its answer shows the balance of the end."""
    each = with_balances(settled(W, D, W, W), 99_500, 100_750, 100_250, 100_250)
    once, twice = diagnosed(-WAGER, each), diagnosed(-2 * WAGER, each)
    assert once is not None
    assert "sent 2 times" in once.sentence
    assert twice is not None
    assert twice.mistake is M.DEBITED_AGAIN


# --- amounts that are rounded -----------------------------------------------------------------------------------------


def of_players(*gaps: int, sent: Sequence[Sequence[tuple[str, str]]] = ()) -> list[MoneyMistake | None]:
    """Return the mistakes named for players of a bet each, whose balances are wrong by these *gaps*, after *sent*."""
    every, balances, told = [], {}, {}
    for number, gap_cents in enumerate(gaps):
        each = settled(*(sent[number] if sent else ()), name=f"b{number}", first=number * 10 + 1)
        each.planned = replace(each.planned, player_id=f"p{number}")
        wrong = ReportedBalance(0, 1, 2)
        balances[each.player_id] = BEFORE + each.fates()[0].cents + gap_cents
        told[each.player_id] = PlayerBalance(each.player_id, wrong, None, wrong, 1, 0, (each,))
        every.append(each)
    differences = audit(every, dict.fromkeys(balances, BEFORE), Closing(balances), told)
    return [None if one.diagnosis is None else one.diagnosis.mistake for one in differences]


_CALM, _AGAIN = (W, D), (W, D, D)


@pytest.mark.parametrize(
    ("gaps", "named"),
    [
        pytest.param((-1,), [None], id="one player"),
        pytest.param((-1, 1), [M.ROUNDING] * 2, id="a cent each"),
        pytest.param((-3, 2, -30), [M.ROUNDING] * 3, id="a few cents, and more of one"),
        pytest.param((-4, -30), [M.ROUNDING] * 2, id="a part of what was moved"),
        pytest.param((-4, 30), [None] * 2, id="in both directions"),
        pytest.param((-4, -36), [None] * 2, id="too much for a part"),
        pytest.param((-4, -30, -WON, -WON), [None, None, M.NOT_BOOKED, M.NOT_BOOKED], id="others fit as many"),
        pytest.param((-4, -30, -WON), [M.ROUNDING, M.ROUNDING, M.NOT_BOOKED], id="fewer fit"),
    ],
)
def test_amounts_that_are_rounded(gaps: tuple[int, ...], named: list[MoneyMistake | None]) -> None:
    """Small gaps of several players that fit no amount; one alone, or gaps of all sizes, say nothing."""
    assert of_players(*gaps) == named


@pytest.mark.parametrize(
    ("sent", "mistake"),
    [
        pytest.param((_AGAIN, _AGAIN, _AGAIN), M.MOVED_BY_A_REPEAT, id="a call came again each time"),
        pytest.param((_AGAIN, _AGAIN, _CALM), M.ROUNDING, id="once there were first calls only"),
    ],
)
def test_a_repeat_is_not_blamed_for_what_a_first_call_does(
    sent: Sequence[Sequence[tuple[str, str]]], mistake: MoneyMistake
) -> None:
    """All players miss a cent."""
    assert of_players(1, 1, 1, sent=sent) == [mistake] * 3


def test_a_repeat_after_the_first_wrong_balance_is_no_cause() -> None:
    """Of the suspect's calls one came again, and the balance was wrong before."""
    early, late = with_balances(settled(W, D, D), 7, 8, 1), with_balances(settled(W, D, D), 7, 1, 8)
    before, after = diagnosed(1, early, suspects=[early]), diagnosed(1, late, suspects=[late])
    assert before is not None
    assert (before.mistake, after) == (M.MOVED_BY_A_REPEAT, None)


def test_a_few_cents_are_not_a_lost_movement() -> None:
    """Though many calls ran together."""
    many = [settled(name=f"b{n}", wager=100 * n + 100, won=0, first=n * 10) for n in range(5)]
    few, more = diagnosed(-3, *many, suspects=many), diagnosed(-4, *many, suspects=many)
    assert few is not None
    assert more is not None
    assert (few.mistake, more.mistake) == (M.ROUNDING, M.LOST_UPDATE)


@pytest.mark.parametrize("wallet", [KeepsAPart, TakesACentMore])
@pytest.mark.parametrize("concurrency", [1, 8])
@pytest.mark.drawn(2)
def test_a_storm_names_rounding(wallet: type[RightWallet], concurrency: int) -> None:
    """Whatever came again beside; the difference with the fewest suspects is shown."""
    faults = "duplicate=0.1,reply-lost=0.1,early-rollback=0.5"
    report, _ = storm(wallet, audit="balances", faults=faults, concurrency=concurrency, players=10)
    first = report.fix_first
    assert first is not None
    assert first.diagnosis is not None
    assert first.diagnosis.mistake is M.ROUNDING
    assert report.alike(first.diagnosis) * 2 > len(report.differences) > 2
    known = [one.diagnosis for one in report.differences if one.diagnosis is not None]
    assert len(first.diagnosis.bets) == min(len(one.bets) for one in known if one.mistake is M.ROUNDING)


def test_sums_are_bounded() -> None:
    """A thousand bets of one player take no time that anybody notices, and nothing is claimed."""
    several = [settled(W, W, D, D, name=f"b{n}", wager=2 * n + 2, won=2 * n + 4, first=n * 10) for n in range(1_000)]
    assert of_gap(-(10**7) - 1, several) == ()


def test_a_repeat_that_moves_something_else() -> None:
    """A cent fits no bet; of the suspects only one had a call that came again."""
    first, second = settled(W, D, D), settled(name="b2", first=9)
    diagnosis = diagnosed(1, first, second, suspects=[first, second])
    assert diagnosis is not None
    assert (diagnosis.mistake, diagnosis.bets, diagnosis.is_ambiguous) == (M.MOVED_BY_A_REPEAT, ("bet b1",), False)
    both = diagnosed(1, settled(W, W, D, D), suspects=[settled(W, W, D, D)])
    assert both is not None
    assert both.is_ambiguous
    assert both.sentence.endswith("came again. The numbers do not tell which.")


@pytest.mark.parametrize(
    ("gap_cents", "is_named"),
    [
        pytest.param(-(100 + 200 + 400 + 800), True, id="a sum of four"),
        pytest.param(-3_100, True, id="of all, and that fits"),
        pytest.param(-3_101, False, id="more than all"),
        pytest.param(1_500, False, id="in the other direction"),
    ],
)
def test_a_sum_of_many_is_open(gap_cents: int, is_named: bool) -> None:
    """Sums of four and more are not tried, but what could add up to the gap is named, and what could not is not."""
    several = [settled(W, W, D, name=f"b{n}", wager=100 * 2**n, won=0, first=n * 10 + 1) for n in range(5)]
    diagnosis = diagnosed(gap_cents, *several, suspects=several)
    assert diagnosis is not None
    assert diagnosis.mistake is (M.DEBITED_AGAIN if is_named else M.LOST_UPDATE)
    if gap_cents == -1_500:
        assert diagnosis.is_ambiguous
        assert "perhaps that of more: of 5 bets and claims it may be a part" in diagnosis.sentence


def test_a_crowd_that_lost_a_movement() -> None:
    """Many calls ran together: one may have overwritten what another had stored; with few it is not claimed."""
    many = [settled(name=f"b{n}", wager=100 * n + 100, won=0, first=n * 10) for n in range(5)]
    lost, none = diagnosed(17, *many, suspects=many), diagnosed(17, *many, suspects=many[:3])
    assert lost is not None
    assert lost.mistake is M.LOST_UPDATE
    assert "5 bets and claims ran together when it went wrong" in lost.sentence
    assert none is None
    single = diagnosed(100, *many, suspects=many)
    assert single is not None
    assert (single.mistake, single.bets) == (M.LOST_UPDATE, ("bet b0",))


def test_what_only_an_answer_said() -> None:
    """The account is right at the end."""
    each = settled()
    diagnosis = diagnosed(0, each, suspects=[each])
    assert diagnosis is not None
    assert diagnosis.mistake is M.WRONG_BALANCE_SHOWN


@pytest.mark.parametrize(
    ("problem", "mistake"),
    [
        ("its withdraw was accepted after its rollback had been answered", M.LATE_WITHDRAW),
        ("its rollback was answered BET_NOT_FOUND, and its withdraw SUCCESS", M.LATE_WITHDRAW),
        ("its rollback was refused with SYSTEM_ERROR, and the bet was never settled", M.NOT_REFUNDED),
        ("its deposit was accepted before its withdraw was sent", M.EARLY_DEPOSIT),
        ("its deposit was accepted, and its withdraw refused", M.PAID_AFTER_REFUND),
        ("its JACKPOT deposit was refused with BET_ALREADY_CLOSED", M.PAYMENT_REFUSED),
        ("one withdraw, sent again, was answered SUCCESS and BET_NOT_FOUND", M.ANSWERED_OTHERWISE),
        ("deposit with the fault forged was accepted", M.FORGED),
        ("deposit with the fault old-key was accepted", M.OLD_KEY),
        ("withdraw with the fault reserialised was accepted", M.RESERIALISED),
        ("its withdraw was accepted, and left -1.00, below zero", M.FUNDS),
        ("its withdraw of 1.00 was refused with INSUFFICIENT_BALANCE, and the balance reported is 9.00", M.FUNDS),
        ("a call was answered with HTTP 500, which must be 200 always (spec §4.1)", None),
    ],
)
def test_what_an_answer_shows(problem: str, mistake: MoneyMistake | None) -> None:
    """By the words of each problem."""
    assert [guess.mistake for guess in of_problem(settled(), problem)] == ([] if mistake is None else [mistake])


# --- the calls that matter --------------------------------------------------------------------------------------------


def test_only_the_calls_that_matter_are_shown() -> None:
    """Those of the bet, repeats as one line; what was sent for the player meanwhile; and how many more there are."""
    slow = settled(("withdraw", LOST), ("withdraw", LOST), ("withdraw", LOST), W, first=10)
    meanwhile = settled(name="b2", first=11, wager=7_777)
    others = [settled(name=f"b{n}", first=n * 100, wager=7_777) for n in range(3, 10)]
    diagnosis = diagnosed(-WAGER, slow, meanwhile, *others)
    assert diagnosis is not None
    told = "SUCCESS, balance 0.01"
    assert [line.split(" {")[0] for line in diagnosis.calls] == [
        f"bet b1 of {slow.player_id}, wager 5.00, planned to end CLOSED",
        "  #10 to #12 withdraw × 3: reply lost",
        "      POST /withdraw",
        f"  #13 withdraw: {told}",
        f"  meanwhile bet b2, wager 77.77, planned to end CLOSED: #11 withdraw: {told}, #12 deposit: {told}",
        "  7 more bets and claims of the player are not shown",
    ]


def test_the_whole_history_stays() -> None:
    """For programs, and for whom the few calls are not enough."""
    difference = found(-WAGER, settled(W, W, D), settled(name="b2", first=9, wager=7_777))
    assert "bet b2 of " in "\n".join(difference.history)
    assert difference.gap_cents == -WAGER


# --- whole storms -----------------------------------------------------------------------------------------------------

_FAULTS = "duplicate=0.1,early-rollback=0.5,other-content=0.1"
_WRONG: list[Any] = [
    pytest.param(PaysRepeatsTwice, M.CREDITED_AGAIN, AUDITS, id="paid again by a repeat"),
    pytest.param(NoTombstone, M.LATE_WITHDRAW, AUDITS, id="no tombstone"),
    pytest.param(KeyedOnTxIdAlone, M.NOT_REFUNDED, AUDITS, id="not refunded"),
    pytest.param(AnswersWithoutCrediting, M.NOT_BOOKED, AUDITS, id="SUCCESS without a credit"),
    pytest.param(RefundsTwice, M.CREDITED_AGAIN, AUDITS, id="refunded twice"),
    pytest.param(RefusesJackpots, M.PAYMENT_REFUSED, AUDITS, id="jackpots refused"),
    pytest.param(CreditsWhatIsChanged, M.OTHER_CONTENT, AUDITS, id="other content"),
    pytest.param(LeavesLossesOpen, M.LOSS_LEFT_OPEN, ("ledger",), id="losses left open"),
    pytest.param(TellsWhatWasBefore, M.WRONG_BALANCE_SHOWN, AUDITS, id="a balance from before"),
]


@pytest.mark.parametrize(("wallet", "mistake", "audits"), _WRONG)
@pytest.mark.drawn(3)
def test_a_wrong_wallet_is_diagnosed(wallet: type[RightWallet], mistake: MoneyMistake, audits: Sequence[str]) -> None:
    """What to fix first is its mistake, and where one bet is named for a balance, the bug has touched it."""
    for audited in audits:
        faults = "none" if wallet is LeavesLossesOpen else _FAULTS
        report, courier = storm(wallet, audit=audited, faults=faults)
        first = report.fix_first
        assert first is not None
        assert first.diagnosis is not None
        assert first.diagnosis.mistake is mistake
        assert first.diagnosis.calls
        slips = slips_of(courier)
        of_balances = [one.diagnosis for one in report.differences if one.gap_cents and one.diagnosis]
        named = [each.bets[0].partition(" ")[2] for each in of_balances if len(each.bets) == 1]
        assert set(named) <= slips


def test_the_certifier_and_the_storm_use_the_same_words() -> None:
    """Scenarios about a mistake that the storm names have its meaning and its fix."""
    by_id = {each.id: (each.means, each.fix) for each in scenarios()}
    shared = {"B01": M.DEBITED_AGAIN, "B02": M.CREDITED_AGAIN, "C01": M.REFUNDED_UNSEEN, "C02": M.LATE_WITHDRAW}
    for scenario_id, mistake in shared.items():
        text = text_of(mistake)
        assert by_id[scenario_id] == (text.means, text.fix)


def test_each_mistake_has_words() -> None:
    """And what is at risk by it, if anything is."""
    for mistake in M:
        text = text_of(mistake)
        assert all((text.title, text.means, text.fix))
        assert text.risk in {"", "money lost", "money doubled"}
    with pytest.raises(KeyError):
        text_of("another")


def test_a_right_wallet_needs_nothing() -> None:
    """Nor do differences that the service is to blame for."""
    assert storm(faults=_FAULTS)[0].fix_first is None
    report, _ = storm(faults="request-lost=0.2", retries="none")
    assert report.expected
    assert report.fix_first is None
    assert all(one.diagnosis is None for one in report.expected)
