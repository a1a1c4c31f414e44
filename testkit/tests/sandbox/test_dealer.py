"""
The dealer against wallets in process: what is laid over deliveries, what is repeated and when, and who is to blame.

The wallet is the real one over a ledger in memory, behind the real receiver; only the network is played.
"""

import asyncio
import json
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable
from random import Random
from typing import Any

import pytest

from game_operator.models.webhooks import MAX_AMOUNT_CENTS, DepositCall, WithdrawCall
from game_operator.profile import Profile
from game_operator.webhooks import error, success
from game_operator_testkit.provider.delivery import Answer, Post
from game_operator_testkit.provider.faults import API_FAULTS, LASTING_FAULTS, Fault, FaultPlan, FaultSwitches
from game_operator_testkit.sandbox.dealing.carrying import play
from game_operator_testkit.sandbox.dealing.dealer import Dealer
from game_operator_testkit.sandbox.dealing.dealt import Dealt, DealtBet, PendingCall, ServiceState
from game_operator_testkit.sandbox.dealing.deliveries import retry_preset
from game_operator_testkit.sandbox.dealing.plan import BetEnd, Plan, PlannedItem
from game_operator_testkit.sandbox.service.seed import catalogue
from testkit.tests.sandbox.dealing import (
    OPENING_CENTS,
    START_MILLIS,
    InProcess,
    Listened,
    bet,
    claim,
    deal,
    disagreements,
    faults,
    problems,
    round_of,
)


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the receiver refuse thousands of calls without a word: writing them down takes longer than all else."""
    monkeypatch.setattr(logging.getLogger("game_operator.webhooks"), "disabled", True)


HOUR = 3_600_000
#: But for those after which service and wallet differ on purpose.
OF_WEBHOOKS = tuple(fault for fault in Fault if fault not in (*API_FAULTS, *LASTING_FAULTS))

CLOSED = round_of(bet())
LOST = round_of(bet(won_cents=0))
CANCELLED = round_of(bet(end=BetEnd.ROLLED_BACK))
OPEN = round_of(bet(end=BetEnd.OPEN))
JACKPOT = round_of(bet(jackpot_cents=7_000))
ITEMS: dict[str, PlannedItem] = {
    "closed": CLOSED, "lost": LOST, "cancelled": CANCELLED, "open": OPEN, "jackpot": JACKPOT, "claim": claim(),
}  # fmt: skip
END = {
    "closed": (ServiceState.CLOSED, 750),
    "lost": (ServiceState.CLOSED, -500),
    "cancelled": (ServiceState.ROLLED_BACK, 0),
    "open": (ServiceState.OPEN, -500),
    "jackpot": (ServiceState.CLOSED, 7_750),
    "claim": (ServiceState.PAID, 375),
}


def genuine(courier: InProcess) -> list[Post]:
    return [post for post, _, _ in courier.posts if post.extra is None]


def operations(posts: Iterable[Post]) -> list[str]:
    return [post.call.operation for post in posts]


def only(dealer: Dealer) -> Dealt:
    (dealt,) = dealer.dealt
    return dealt


def the_bet(dealer: Dealer) -> DealtBet:
    dealt = only(dealer)
    assert isinstance(dealt, DealtBet)
    return dealt


def answered(
    code: str | None, which: Callable[[Post], bool], balance_cents: int = 100
) -> Callable[[Post, bytes], bytes | None]:
    """Return what answers those posts with *code*, in place of the wallet; None is a SUCCESS."""

    def replace(post: Post, _body: bytes) -> bytes | None:
        if not which(post):
            return None
        said = {"type": "SUCCESS"} if code is None else {"type": "ERROR", "code": code}
        return json.dumps(said | {"balance": balance_cents / 100, "timestamp": 7}).encode()

    return replace


def answering(
    code: str | None, operation: str, deliveries: int = 1_000, **options: int
) -> Callable[[Post, bytes], bytes | None]:
    """Return what answers the first *deliveries* of an operation with *code*."""

    def which(post: Post) -> bool:
        return post.call.operation == operation and post.extra is None and post.attempt <= deliveries

    return answered(code, which, **options)


# --- a fault is laid over a delivery, never in its place --------------------------------------------------------------


@pytest.mark.parametrize("name", ITEMS)
def test_without_faults_each_call_is_posted_once(name: str) -> None:
    """Withdraw, then deposit or rollback (spec §3); a jackpot and a claim are deposits besides."""
    courier = InProcess()
    dealer = deal(courier, ITEMS[name])
    told = {
        "closed": ["withdraw", "deposit"],
        "lost": ["withdraw", "deposit"],
        "cancelled": ["withdraw", "rollback"],
        "open": ["withdraw"],
        "jackpot": ["withdraw", "deposit", "deposit"],
        "claim": ["deposit"],
    }
    assert operations(genuine(courier)) == told[name]
    assert len(courier.posts) == len(told[name]) == dealer.faults.calls == courier.arrived.total()
    assert (only(dealer).state, only(dealer).moved_cents) == END[name]
    assert not problems(dealer) + disagreements(dealer, courier)
    assert not dealer.faults.struck


@pytest.mark.parametrize("name", ITEMS)
@pytest.mark.parametrize("fault", OF_WEBHOOKS, ids=str)
def test_each_fault_at_full_rate_leaves_both_sides_agreeing(fault: Fault, name: str) -> None:
    """Whatever strikes, and however often, each call reaches the wallet, and service and wallet agree in the end."""
    courier = InProcess()
    dealer = deal(courier, ITEMS[name], plan=faults(fault))
    assert (only(dealer).state, only(dealer).moved_cents) == END[name]
    assert not problems(dealer) + disagreements(dealer, courier)
    assert not only(dealer).lost
    assert {post.call for post in genuine(courier)} <= {
        post.call for post in genuine(courier) if courier.arrivals(post.call)
    }
    late = {"closed", "lost", "jackpot"}
    where = {Fault.EARLY_ROLLBACK: {"cancelled"}, Fault.EARLY_DEPOSIT: late, Fault.LATE_DEPOSIT: late}
    assert bool(dealer.faults.struck[fault]) is (name in where.get(fault, set(ITEMS)))


@pytest.mark.parametrize(
    ("fault", "deliveries", "arrivals"),
    [
        pytest.param(Fault.REQUEST_LOST, 6, 1, id="request-lost"),
        pytest.param(Fault.REPLY_LOST, 6, 6, id="reply-lost"),
        pytest.param(Fault.TIMEOUT, 6, 6, id="timeout"),
        pytest.param(Fault.RESET, 6, 6, id="reset"),
        pytest.param(Fault.SLOW, 1, 1, id="slow"),
        pytest.param(Fault.DUPLICATE, 1, 2, id="duplicate"),
        pytest.param(Fault.OTHER_CONTENT, 1, 1, id="other-content"),
        pytest.param(Fault.FORGED, 1, 2, id="forged, which has the same bytes"),
        pytest.param(Fault.OLD_KEY, 1, 2, id="old-key, which has the same bytes"),
        pytest.param(Fault.RESERIALISED, 1, 1, id="reserialised, which has other bytes"),
        pytest.param(Fault.LATE_DEPOSIT, 1, 1, id="late-deposit"),
    ],
)
def test_what_a_fault_does_to_a_call(fault: Fault, deliveries: int, arrivals: int) -> None:
    """At full rate a fault strikes the first five deliveries; then the network is calm (docs/decisions/0017)."""
    courier = InProcess()
    dealer = deal(courier, CLOSED, plan=faults(fault))
    for call in (the_bet(dealer).planned.withdraw(), the_bet(dealer).planned.deposit(CLOSED.bets[0].won_cents)):
        assert sum(post.call == call for post in genuine(courier)) == deliveries
        assert courier.arrivals(call) == arrivals


@pytest.mark.parametrize("rate", [1.0, 0.3])
def test_all_faults_at_once(rate: float) -> None:
    """They do not get in each other's way. Where each request is lost at first, none overtakes another."""
    hidden = {Fault.RESET, Fault.SLOW, Fault.TIMEOUT, Fault.REPLY_LOST}
    hidden |= {Fault.EARLY_ROLLBACK, Fault.EARLY_DEPOSIT} if rate == 1.0 else set()
    courier = InProcess(random=Random(5))
    dealer = deal(courier, *ITEMS_OF_MANY, plan=faults(*OF_WEBHOOKS, rate=rate), concurrency=4)
    assert not problems(dealer) + disagreements(dealer, courier)
    assert not [dealt.key for dealt in dealer.dealt if dealt.lost]
    assert set(dealer.faults.struck) >= set(OF_WEBHOOKS) - hidden


def bets_of_each_end(number: int) -> PlannedItem:
    at_millis = START_MILLIS + number
    return round_of(*(bet(10 * number + each, end, at_millis=at_millis) for each, end in enumerate(BetEnd)))


ITEMS_OF_MANY = tuple(map(bets_of_each_end, range(20)))


@pytest.mark.parametrize("number", range(1, 6))
def test_the_nth_call_is_struck_and_no_other(number: int) -> None:
    """Calls are counted as they are planned: withdraw, its deposit, the next withdraw … (docs/decisions/0017)."""
    rounds = [round_of(bet(1), bet(2, jackpot_cents=100))]
    courier = InProcess()
    dealer = deal(courier, *rounds, plan=faults(nth={Fault.REPLY_LOST: number}))
    planned = ["b1 withdraw BET", "b1 deposit BET", "b2 withdraw BET", "b2 deposit BET", "b2 deposit JACKPOT"]
    struck = [post for post in genuine(courier) if post.manner is Fault.REPLY_LOST]
    assert [f"{post.call.bet_id} {post.call.operation} {post.call.action}" for post in struck] == [planned[number - 1]]
    assert dealer.faults.calls == 5


# --- when a call is sent again ----------------------------------------------------------------------------------------


def times_of(courier: InProcess, item: PlannedItem, operation: str, retries: str) -> list[int]:
    """Return when the deliveries of an operation were sent, in simulated ms since the first of them."""
    at: list[int] = []
    dealer = Dealer([item], retries=retry_preset(retries))

    async def carry(post: Post) -> Answer:
        if post.call.operation == operation:
            at.append(dealer.now_millis)
        return await courier.post(post)

    asyncio.run(play(dealer, carry))
    return [millis - at[0] for millis in at]


S, M = 1_000, 60_000
SCHEDULES = {
    "none": [0],
    "three": [0, 1 * S, 3 * S, 7 * S, 7 * S + 10 * M, 7 * S + 20 * M, 7 * S + 30 * M],
    "ten": [0, *(number * S for number in range(1, 11)), 10 * S + M, 10 * S + 2 * M],
    "exponential": [(2**number - 1) * S for number in range(18)]
    + [(2**17 - 1) * S + 24 * HOUR, (2**17 - 1) * S + 48 * HOUR],
}


@pytest.mark.parametrize("operation", ["withdraw", "deposit", "rollback"])
@pytest.mark.parametrize("preset", SCHEDULES)
def test_when_a_call_is_sent_again(preset: str, operation: str) -> None:
    """Each redelivery comes when the preset says, to the millisecond, and hours of it take no time."""
    schedule = SCHEDULES[preset]
    item = CANCELLED if operation == "rollback" else CLOSED
    courier = InProcess(replace=answering("SYSTEM_ERROR", operation, len(schedule) - 1 if preset != "none" else 9))
    began = time.monotonic()
    assert times_of(courier, item, operation, preset) == schedule
    assert time.monotonic() - began < 15


@pytest.mark.parametrize(
    "how",
    [
        Fault.REQUEST_LOST,
        Fault.REPLY_LOST,
        Fault.TIMEOUT,
        Fault.RESET,
        "SYSTEM_ERROR",
        "INVALID_SIGNATURE",
        "<html>",
        "",
    ],
    ids=str,
)
@pytest.mark.parametrize("name", ["closed", "cancelled", "claim"])
def test_a_call_is_repeated_until_it_is_answered_definitely(name: str, how: str) -> None:
    """Lost requests and replies, timeouts, SYSTEM_ERROR, what asks for the call again, and what is no reply."""
    item, operation = ITEMS[name], {"closed": "deposit", "cancelled": "rollback", "claim": "deposit"}[name]
    if isinstance(how, Fault):
        courier = InProcess()
        number = 1 if name == "claim" else 2
        dealer = deal(courier, item, plan=faults(nth={how: number}))
        told = 2
    else:
        spoilt = answering(how, operation, 3)
        courier = InProcess(replace=spoilt if how.isupper() else lambda p, b: spoilt(p, b) and how.encode())
        dealer = deal(courier, item)
        told = 4
    assert operations(genuine(courier)).count(operation) == told
    assert [post.attempt for post in genuine(courier) if post.call.operation == operation] == [*range(1, told + 1)]
    assert (only(dealer).state, only(dealer).moved_cents) == END[name]
    assert not problems(dealer) + disagreements(dealer, courier)


@pytest.mark.parametrize("extra", [Fault.FORGED, Fault.OLD_KEY, Fault.RESERIALISED], ids=str)
@pytest.mark.parametrize("code", ["INVALID_REQUEST", None], ids=["refused", "accepted"])
def test_what_is_answered_to_an_extra_does_not_answer_the_call(extra: Fault, code: str | None) -> None:
    """The call's own reply was lost, so it is sent again; a wallet that accepts a forged one is blamed for that."""
    courier = InProcess(replace=answered(code, lambda post: post.extra is extra))
    dealer = deal(courier, CLOSED, plan=faults(nth={extra: 1, Fault.REPLY_LOST: 1}))
    assert operations(genuine(courier)) == ["withdraw", "withdraw", "deposit"]
    assert not disagreements(dealer, courier)
    assert only(dealer).problems == ([] if code else [f"withdraw with the fault {extra} was accepted"])


@pytest.mark.parametrize(("deliveries", "complaints"), [(4, 0), (5, 1)])
@pytest.mark.parametrize("operation", ["withdraw", "deposit", "rollback"])
def test_a_wallet_that_never_answers_is_given_up(operation: str, deliveries: int, complaints: int) -> None:
    """After most_attempts deliveries, and not one before: the last may still be answered."""
    courier = InProcess(replace=answering("SYSTEM_ERROR", operation, deliveries))
    dealer = deal(courier, CANCELLED if operation == "rollback" else CLOSED, most_attempts=5)
    assert operations(genuine(courier)).count(operation) == 5
    assert len(only(dealer).problems) == complaints
    assert only(dealer).lost is bool(complaints)
    if complaints:
        assert only(dealer).problems == [f"{operation} had no definite answer in 5 tries: SYSTEM_ERROR, balance 1.00"]
    if complaints and operation == "withdraw":
        assert operations(genuine(courier))[-1] == "rollback", "nobody knows whether it was placed, so it is cancelled"


@pytest.mark.parametrize("retries", ["none", "cancel"])
@pytest.mark.parametrize("fault", [Fault.REQUEST_LOST, Fault.REPLY_LOST, Fault.TIMEOUT, Fault.RESET], ids=str)
@pytest.mark.parametrize("name", ["closed", "cancelled", "open"])
def test_without_retries_a_withdraw_in_doubt_is_cancelled(fault: Fault, name: str, retries: str) -> None:
    """Lost once is lost; the rollback undoes it, or leaves a tombstone, and nobody is blamed (docs/decisions/0017)."""
    courier = InProcess()
    dealer = deal(courier, ITEMS[name], plan=faults(nth={fault: 1}), retries=retries)
    assert operations(genuine(courier)) == ["withdraw", "rollback"]
    assert the_bet(dealer).state is ServiceState.ROLLED_BACK
    assert the_bet(dealer).lost
    assert courier.code_of("b1") == ("TOMBSTONE" if fault is Fault.REQUEST_LOST else "ROLLED_BACK")
    assert not problems(dealer) + disagreements(dealer, courier)
    assert courier.ledger.balance("p1") == OPENING_CENTS


@pytest.mark.parametrize("arrives", [False, True])
@pytest.mark.parametrize("name", ["closed", "cancelled", "claim"])
def test_without_retries_what_was_lost_may_differ_and_is_named(name: str, arrives: bool) -> None:
    """A deposit, rollback or claim that is lost is given up at once, and the bet says so."""
    courier = InProcess()
    fault = Fault.REPLY_LOST if arrives else Fault.REQUEST_LOST
    number = 1 if name == "claim" else 2
    dealer = deal(courier, ITEMS[name], plan=faults(nth={fault: number}), retries="none")
    assert len(genuine(courier)) == number
    assert only(dealer).lost
    assert not problems(dealer)
    moved = courier.ledger.balance("p1") - OPENING_CENTS
    # The service holds a bet for settled once it said so, and a claim for paid once it heard so.
    assert (moved == only(dealer).moved_cents) is (arrives is (name != "claim"))


# --- reordering -------------------------------------------------------------------------------------------------------


def test_a_rollback_that_comes_first_leaves_a_tombstone() -> None:
    """The late withdraw is refused by it, and the player keeps the money (docs/decisions/0014)."""
    courier = InProcess()
    dealer = deal(courier, CANCELLED, plan=faults(nth={Fault.EARLY_ROLLBACK: 1}))
    assert [(post.call.operation, str(answer.code)) for post, answer in the_bet(dealer).history] == [
        ("rollback", "BET_NOT_FOUND"),
        ("withdraw", "BET_ROLLED_BACK"),
    ]
    assert courier.code_of("b1") == "TOMBSTONE"
    assert the_bet(dealer).state is ServiceState.ROLLED_BACK
    assert not problems(dealer) + disagreements(dealer, courier)


@pytest.mark.parametrize(
    ("opening", "calls"), [(500, ["deposit", "withdraw", "deposit"]), (499, ["deposit", "withdraw"])]
)
def test_a_deposit_that_came_first_is_dropped_when_its_bet_is_refused(opening: int, calls: list[str]) -> None:
    """There is nothing to be paid for a bet that was never placed."""
    courier = InProcess(opening={"p1": opening})
    listened = Listened()
    plan = faults(nth={Fault.EARLY_DEPOSIT: 1})
    dealer = deal(courier, round_of(bet(jackpot_cents=100)), plan=plan, balances=listened)
    assert operations(genuine(courier))[:3] == calls
    assert courier.ledger.balance("p1") == (opening + 850 if opening >= 500 else opening)
    assert not problems(dealer) + disagreements(dealer, courier)
    assert len(listened.begun) == len(listened.ended)


def test_a_deposit_may_come_hours_late() -> None:
    """Nine hours of simulated time pass at once; what is due before is played before."""
    courier = InProcess()
    soon = bet(2, at_millis=START_MILLIS + HOUR, ends_at_millis=START_MILLIS + 2 * HOUR)
    began = time.monotonic()
    dealer = deal(courier, CLOSED, round_of(soon, number=2), plan=faults(nth={Fault.LATE_DEPOSIT: 2}))
    assert [post.call.bet_id for post in genuine(courier)] == ["b1", "b2", "b2", "b1"]
    assert dealer.now_millis == START_MILLIS + 2_000 + 9 * HOUR
    assert time.monotonic() - began < 2
    assert not problems(dealer) + disagreements(dealer, courier)


# --- determinism ------------------------------------------------------------------------------------------------------


def a_plan(bets: int = 120, seed: int = 3, players: int = 12) -> Plan:
    names = [f"p{number}" for number in range(players)]
    return Plan(seed=seed, start_millis=START_MILLIS, games=catalogue(seed), players=names, bets=bets)


def opening(players: int = 12) -> dict[str, int]:
    """Every tenth has next to nothing, and soon cannot bet."""
    return {f"p{number}": 500 if number % 10 == 9 else 100_000 for number in range(players)}


@pytest.mark.slow
def test_which_call_gets_which_fault_does_not_depend_on_concurrency() -> None:
    """With many calls under way the interleaving is the network's; the plan and the faults are the seed's."""
    plan = faults(*OF_WEBHOOKS, rate=0.1, nth={Fault.RESET: 17, Fault.OTHER_CONTENT: 60, Fault.EARLY_ROLLBACK: 5})

    def struck(concurrency: int, random: Random | None) -> tuple[set[Any], list[str]]:
        courier = InProcess(opening=dict.fromkeys(opening(), 10**9), random=random)
        dealer = deal(courier, *a_plan(), plan=plan, concurrency=concurrency, seed=3)
        assert not problems(dealer) + disagreements(dealer, courier)
        ends = sorted(f"{dealt.key} {dealt.state} {dealt.moved_cents}" for dealt in dealer.dealt)
        first = {(post.call, post.manner, post.extra) for post, _, _ in courier.posts if post.attempt == 1}
        return first, ends

    alone = struck(1, None)
    assert struck(8, Random(1)) == alone == struck(8, Random(2)) == struck(16, Random(3))
    assert len(alone[0]) > 300


# --- jackpots, claims -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("won", [(300, 0, 75), (0, 0), (1,)], ids=str)
def test_a_claim_pays_the_sum_of_its_free_bets_once(won: tuple[int, ...]) -> None:
    """One deposit of action FREE_BET_CLAIM names each of them; nothing is withdrawn."""
    courier = InProcess()
    dealer = deal(courier, claim(won=won), plan=faults(Fault.REPLY_LOST, Fault.DUPLICATE))
    (call,) = {post.call for post in genuine(courier)}
    assert isinstance(call, DepositCall)
    assert (call.action, call.amount_cents) == ("FREE_BET_CLAIM", sum(won))
    assert [(each.wager_cents, each.won_cents) for each in call.free_bets] == [(100, cents) for cents in won]
    assert courier.arrivals(call) > 1
    assert courier.ledger.balance("p1") == OPENING_CENTS + sum(won)
    assert not problems(dealer)


# --- who is to blame --------------------------------------------------------------------------------------------------


def is_extra(fault: Fault) -> Callable[[Post], bool]:
    return lambda post: post.extra is fault


@pytest.mark.parametrize(
    ("item", "plan", "wrong", "told"),
    [
        pytest.param(
            CLOSED, faults(Fault.OTHER_CONTENT), answered(None, is_extra(Fault.OTHER_CONTENT)),
            "withdraw with the fault other-content was accepted", id="another wager",
        ),
        pytest.param(
            claim(), faults(Fault.OTHER_CONTENT), answered(None, is_extra(Fault.OTHER_CONTENT)),
            "deposit with the fault other-content was accepted", id="another claim",
        ),
        pytest.param(
            CLOSED, faults(Fault.DUPLICATE), answered("DUPLICATE_TRANSACTION", is_extra(Fault.DUPLICATE)),
            "one withdraw, sent again, was answered SUCCESS, balance 9995.00 and DUPLICATE_TRANSACTION",
            id="a repeat refused",
        ),
        pytest.param(
            CLOSED, faults(Fault.DUPLICATE), answered("BET_ROLLED_BACK", is_extra(Fault.DUPLICATE)),
            "one withdraw, sent again", id="a repeat refused as cancelled, and nobody cancelled",
        ),
        pytest.param(
            CLOSED, faults(nth={Fault.REPLY_LOST: 1}),
            answered("DUPLICATE_TRANSACTION", lambda post: post.attempt == 2),
            "its withdraw was refused with DUPLICATE_TRANSACTION", id="a repeat refused, the first reply lost",
        ),
        pytest.param(
            CLOSED, FaultPlan(), answering("BET_ROLLED_BACK", "deposit"),
            "its BET deposit was refused with BET_ROLLED_BACK", id="winnings refused",
        ),
        pytest.param(
            JACKPOT, FaultPlan(), answered("LIMIT_EXCEEDED", lambda post: post.call.action == "JACKPOT"),
            "its JACKPOT deposit was refused with LIMIT_EXCEEDED", id="a jackpot refused",
        ),
        pytest.param(
            claim(), FaultPlan(), answering("INVALID_REQUEST", "deposit"),
            "its FREE_BET_CLAIM deposit was refused with INVALID_REQUEST", id="a claim refused",
        ),
        pytest.param(
            CANCELLED, FaultPlan(), answering("BET_ALREADY_CLOSED", "rollback"),
            "its rollback was refused with BET_ALREADY_CLOSED, and the bet was never settled", id="a rollback refused",
        ),
        pytest.param(
            CANCELLED, FaultPlan(), answering("BET_NOT_FOUND", "rollback"),
            "its rollback was answered BET_NOT_FOUND, and its withdraw SUCCESS", id="a bet forgotten",
        ),
        pytest.param(
            CANCELLED, faults(nth={Fault.EARLY_ROLLBACK: 1}), answering(None, "withdraw"),
            "its withdraw was accepted after its rollback had been answered", id="no tombstone",
        ),
        pytest.param(
            CLOSED, faults(nth={Fault.EARLY_DEPOSIT: 1}), answering(None, "deposit"),
            "its deposit was accepted before its withdraw was sent", id="winnings of no bet",
        ),
        pytest.param(
            CLOSED, FaultPlan(), answering(None, "withdraw", balance_cents=-1),
            "below zero", id="a bet without money",
        ),
        pytest.param(
            CLOSED, FaultPlan(), answering("INSUFFICIENT_BALANCE", "withdraw", balance_cents=500),
            "refused with INSUFFICIENT_BALANCE, and the balance reported is", id="a bet refused with money",
        ),
    ],
)  # fmt: skip
def test_what_no_sound_wallet_answers_is_a_problem(
    item: PlannedItem, plan: FaultPlan, wrong: Callable[[Post, bytes], bytes | None], told: str
) -> None:
    """Each wrong answer is found out by the fault made for it; a right wallet is not blamed for the same."""
    blamed = deal(InProcess(replace=wrong), item, plan=plan, retries="ten")
    assert any(told in problem for problem in only(blamed).problems), only(blamed).problems
    right = InProcess()
    dealer = deal(right, item, plan=plan, retries="ten")
    assert not problems(dealer) + disagreements(dealer, right)


def test_a_bet_refused_with_money_is_blamed_only_if_nothing_else_moved_it() -> None:
    """Beside another call of the player, or in a repeat, the balance may be another moment's."""
    refused = Answer(error("INSUFFICIENT_BALANCE", balance_cents=500), 200)
    dealer = Dealer([round_of(bet(1), bet(2))])
    first, second = dealer.next(), dealer.next()
    assert first is not None
    assert second is not None
    dealer.answered(first, [refused])
    dealer.answered(second, [refused])
    assert not problems(dealer)
    second_time = answered("INSUFFICIENT_BALANCE", lambda post: post.attempt == 2, balance_cents=500)
    assert not problems(deal(InProcess(replace=second_time), CLOSED, plan=faults(nth={Fault.REPLY_LOST: 1})))


@pytest.mark.parametrize("code", ["BET_ROLLED_BACK", "BET_ALREADY_CLOSED"])
@pytest.mark.parametrize("order", [1, -1], ids=["accepted first", "refused first"])
def test_a_withdraw_that_was_doubled_and_cancelled_in_between(code: str, order: int) -> None:
    """One delivery debits, a rollback refunds, the other is refused: whichever is heard first, nobody is blamed."""
    listened = Listened()
    plan = faults(nth={Fault.EARLY_ROLLBACK: 1, Fault.DUPLICATE: 1})
    dealer = Dealer([CANCELLED], faults=FaultSwitches(plan), balances=listened)
    done, refused = Answer(success(balance_cents=1), 200), Answer(error(code, balance_cents=1), 200)
    lost = Answer(None, None, "reply lost")
    heard = iter([[lost], [done, refused][::order], [done]])
    told = []
    while (now := dealer.next()) is not None:
        told.append([post.call.operation for post in now.posts])
        dealer.answered(now, next(heard))
    assert told == [["rollback"], ["withdraw", "withdraw"], ["rollback"]]
    assert listened.ended == [("b1", -500), ("b1", 500)]
    assert the_bet(dealer).accepted
    assert not problems(dealer)


PROFILES = {
    "as assumed": Profile(),
    "few codes, and SUCCESS to unknown rollbacks": Profile(codes="core", unknown_rollback="success"),
    "replies repeated": Profile(duplicate_reply="verbatim", early_deposit_code="SYSTEM_ERROR"),
}


@pytest.mark.slow
@pytest.mark.parametrize("profile", PROFILES.values(), ids=PROFILES)
@pytest.mark.parametrize("retries", ["three", "cancel", "ten", "exponential", "none"])
@pytest.mark.parametrize(
    ("bets", "seed"), [(100, 11), *(pytest.param(2_000, seed, marks=pytest.mark.torture) for seed in range(3))]
)
@pytest.mark.drawn(6)
def test_a_right_wallet_is_never_blamed(bets: int, seed: int, retries: str, profile: Profile) -> None:
    """Eight calls at once: every bet agrees, and every balance; without retries all but what was lost."""
    players = max(12, bets // 20)
    courier = InProcess(opening=opening(players), random=Random(seed), profile=profile)
    listened = Listened()
    dealer = deal(
        courier,
        *a_plan(bets, seed, players),
        plan=faults(*OF_WEBHOOKS, rate=0.1),
        retries=retries,
        concurrency=8,
        seed=seed,
        balances=listened,
    )
    assert not problems(dealer)
    assert sorted(key for key, _ in listened.begun) == sorted(key for key, _ in listened.ended)
    states = Counter(dealt.state for dealt in dealer.dealt)
    assert min(states[state] for state in (ServiceState.CLOSED, ServiceState.ROLLED_BACK, ServiceState.PAID)) > 0
    lost = {dealt.key for dealt in dealer.dealt if dealt.lost}
    # A withdraw that is cancelled was lost, and its bet is not: what is due is certain.
    assert bool(lost) is (retries in {"cancel", "none"})
    if retries != "none":
        assert not disagreements(dealer, courier)
        return
    # Without retries only bets whose calls the service itself lost may differ, and each is named.
    of_bets = {line.partition(":")[0] for line in disagreements(dealer, courier) if line.startswith("storm-bet-")}
    assert of_bets <= lost


# --- what is told on the way ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "opening_cents", "states"),
    [
        pytest.param("closed", 500, ["OPEN", "CLOSED"], id="closed"),
        pytest.param("cancelled", 500, ["OPEN", "ROLLED_BACK"], id="cancelled"),
        pytest.param("open", 500, ["OPEN"], id="left open"),
        pytest.param("closed", 499, ["REFUSED"], id="refused"),
        pytest.param("claim", 0, ["PAID"], id="claimed"),
    ],
)
def test_states_on_the_way(name: str, opening_cents: int, states: list[str]) -> None:
    """A bet is OPEN once its withdraw succeeded, and ends as soon as the service says so (spec §3)."""
    told: list[str] = []
    deal(InProcess(opening={"p1": opening_cents}), ITEMS[name], on_change=lambda dealt: told.append(str(dealt.state)))
    assert told == states


def test_the_board_gets_which_balances_are_of_a_repeat() -> None:
    """The first definite answer is new. The balance of a duplicate may be old, and that of an extra is left out."""
    listened = Listened()
    plan = faults(Fault.DUPLICATE, Fault.FORGED, Fault.OTHER_CONTENT)
    deal(InProcess(replace=answering("SYSTEM_ERROR", "withdraw", 1)), OPEN, plan=plan, balances=listened)
    # Indefinite at first; then the duplicate, which is answered.
    assert listened.heard == [("p1", 100, False), ("p1", OPENING_CENTS - 500, False)]
    listened = Listened()
    deal(InProcess(), OPEN, plan=plan, balances=listened)
    assert listened.heard == [("p1", OPENING_CENTS - 500, False), ("p1", OPENING_CENTS - 500, True)]


def test_what_nobody_can_carry_any_more_is_abandoned() -> None:
    """The call under way is lost, and ends once."""
    listened = Listened()
    dealer = Dealer([CLOSED], balances=listened)
    dealer.abandon()
    assert listened.ended == []
    assert dealer.next() is not None
    dealer.abandon()
    dealer.abandon()
    assert listened.ended == [("b1", None)]
    assert the_bet(dealer).lost


@pytest.mark.parametrize("amount", [1, MAX_AMOUNT_CENTS - 1, MAX_AMOUNT_CENTS], ids=["least", "below most", "most"])
def test_other_content_can_be_made_of_any_amount(amount: int) -> None:
    """It has the identity of the call and another amount, which a call can have."""
    dealt = DealtBet(planned=bet(wager_cents=amount, won_cents=amount))
    for call in (
        dealt.planned.withdraw(),
        dealt.planned.deposit(amount),
        claim(won=(amount,)).deposit(),
    ):
        other = PendingCall(dealt, call, "1").changed().call
        assert isinstance(other, WithdrawCall | DepositCall)
        assert abs(other.amount_cents - amount) == 1
        assert (other.tx_id, other.bet_id, other.player_id, other.action) == (
            call.tx_id, call.bet_id, call.player_id, call.action,
        )  # fmt: skip


#: A service whose bodies have other names, whose rollbacks have their own tx_id, and which knows no claims.
OTHER_NAMES = Profile(
    fields={
        "player_id": ("user",),
        "bet_id": ("bet.id",),
        "tx_id": ("bet.tx",),
        "amount_cents": ("cents",),
        "amount_cents.withdraw": ("stake",),
        "amount_cents.deposit": ("win",),
        "action.deposit": (),
    },
    rollback_tx_id="own",
    early_deposit_code="SYSTEM_ERROR",
)


@pytest.mark.parametrize("plan", [FaultPlan(), FaultPlan.parse("all")], ids=["no faults", "all faults"])
def test_a_provider_with_other_names_is_played(plan: FaultPlan) -> None:
    """Bodies and tx_ids are those of the profile, and the wallet of that profile agrees on every bet."""
    items = list(Plan(seed=3, start_millis=START_MILLIS, games=catalogue(3), players=("p1",), bets=150))
    courier = InProcess(opening={"p1": 10**9}, profile=OTHER_NAMES)
    dealer = deal(courier, *items, plan=plan, profile=OTHER_NAMES)
    assert (problems(dealer), disagreements(dealer, courier)) == ([], [])
    assert all(isinstance(dealt, DealtBet) for dealt in dealer.dealt)
    bodies = [post.signed for post, _, _ in courier.posts]
    assert any(b'"stake":' in body for body in bodies)
    assert not any(b"player_id" in body or b"JACKPOT" in body for body in bodies)


@pytest.mark.parametrize(("early_code", "is_final"), [("BET_NOT_FOUND", False), ("SYSTEM_ERROR", True)])
def test_an_early_deposit_is_repeated_as_the_profile_says(early_code: Any, is_final: bool) -> None:
    """A service whose wallets answer otherwise to an early deposit gives up one that is BET_NOT_FOUND."""
    courier = InProcess(replace=answering("BET_NOT_FOUND", "deposit"))
    deal(courier, CLOSED, profile=Profile(early_deposit_code=early_code), most_attempts=3)
    assert operations(genuine(courier)).count("deposit") == (1 if is_final else 3)
