"""The run: what becomes of what a scenario finds, of balances, of silence and of time."""

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
from wallet_by_hand import Case, PlainWallet

from game_operator.errors import ConfigurationError
from game_operator.models.webhooks import BalanceCall
from game_operator.protocol.http import HttpReply
from game_operator_testkit.certifier import Outcome, Supplies, Weight
from game_operator_testkit.certifier.engine.scenario import Scenario
from game_operator_testkit.certifier.engine.stage import Stage
from game_operator_testkit.certifier.engine.steps import Found, NotTried
from game_operator_testkit.certifier.report.verdicts import Verdict
from game_operator_testkit.provider.requests import Manner
from testkit.tests.certifier.harness import (
    OTHER,
    PLAYER,
    certified_by,
    delivered_to,
    found,
    opened,
    run_on,
    supplies_of,
)

Play = Callable[[Stage], object]


def scenario(play: Play, weight: Weight = Weight.MONEY_LOST, needs: tuple[str, ...] = ()) -> Scenario:
    return Scenario("A99", "a test", weight, ("spec §4.1",), "means", "fix", play, needs)


@pytest.fixture
def wallet() -> PlainWallet:
    return opened()


def played(wallet: PlainWallet, play: Play, weight: Weight = Weight.MONEY_LOST) -> Verdict:
    return run_on(delivered_to(wallet)).play(scenario(play, weight))


def test_all_is_well(wallet: PlainWallet) -> None:
    """A scenario that finds nothing passes, with all its exchanges."""

    def play(at: Stage) -> None:
        at.accepts(at.bet().withdraw(), "a withdraw", moves=-at.unit_cents)

    verdict = played(wallet, play)
    assert (verdict.outcome, verdict.reason, verdict.notes) == (Outcome.PASSED, "", ())
    assert [each.title for each in verdict.exchanges] == [
        f"the balance of {PLAYER}",
        f"the balance of {OTHER}",
        "a withdraw",
        f"the balance of {PLAYER}",
        f"the balance of {OTHER}",
    ]
    assert verdict.exchanges[2].told == "SUCCESS 995.00"


@pytest.mark.parametrize("off", [-1, 1], ids=["a cent too little", "a cent too much"])
def test_the_balance_afterwards_is_looked_at(wallet: PlainWallet, off: int) -> None:
    """Whatever a scenario itself looks at, each ends with the balances of both players."""

    def play(at: Stage) -> None:
        at.other.due_cents -= off

    verdict = played(wallet, play)
    assert verdict.outcome is Outcome.FAILED
    assert verdict.weight is Weight.MONEY_LOST
    assert verdict.reason.endswith(f"0.01 too {'much' if off > 0 else 'little'}")
    assert OTHER in verdict.reason


@pytest.mark.parametrize(
    ("at_once", "title"),
    [
        pytest.param(False, "a withdraw", id="the last call that may have moved money"),
        pytest.param(True, f"the balance of {PLAYER}", id="of many at once none: the balance itself"),
    ],
)
def test_what_shows_that_a_balance_is_off(wallet: PlainWallet, at_once: bool, title: str) -> None:
    """A report shows the exchange that decided, where there is one."""

    def play(at: Stage) -> None:
        requests = [at.request(at.bet().withdraw(), "a withdraw") for _ in range(2)]
        at.send(requests[0])
        if at_once:
            at.together(requests)

    verdict = played(wallet, play)
    assert verdict.decisive is not None
    assert verdict.decisive.title == title


@pytest.mark.parametrize(
    ("raised", "weight", "told"),
    [
        pytest.param(Found("wrong"), Weight.MONEY_DOUBLED, "wrong", id="the scenario's weight"),
        pytest.param(Found("wrong", weight=Weight.CONTRACT_BROKEN), Weight.CONTRACT_BROKEN, "wrong", id="its own"),
        pytest.param(Found("wrong", weight=Weight.ADVICE), Weight.ADVICE, "wrong", id="advice"),
        pytest.param(TypeError("unsupported operand"), Weight.CONTRACT_BROKEN, "stumbled", id="an unforeseen answer"),
    ],
)
def test_what_is_found_has_a_weight(wallet: PlainWallet, raised: Exception, weight: Weight, told: str) -> None:
    """A finding costs what its scenario says, unless it says itself; a scenario that stumbles says so."""

    def play(at: Stage) -> None:
        raise raised

    verdict = played(wallet, play, Weight.MONEY_DOUBLED)
    assert (verdict.outcome, verdict.weight) == (Outcome.FAILED, weight)
    assert told in verdict.reason
    assert verdict.failed is (weight is not Weight.ADVICE)


def test_the_heaviest_note_decides(wallet: PlainWallet) -> None:
    """Notes do not end a scenario, and the heaviest of them is the reason, with the exchange that it is about."""

    def play(at: Stage) -> None:
        heard = at.ask(BalanceCall(player_id=at.player.id), "first")
        at.advise("could be better", heard)
        heard = at.ask(BalanceCall(player_id=at.player.id), "second")
        at.note("is wrong", Weight.CONTRACT_BROKEN, "", heard)

    verdict = played(wallet, play)
    assert [note.reason for note in verdict.notes] == ["second: is wrong", "first: could be better"]
    assert (verdict.weight, verdict.reason) == (Weight.CONTRACT_BROKEN, "second: is wrong")
    assert verdict.decisive is not None
    assert verdict.decisive.title == "second"


def test_what_cannot_be_tried_is_skipped(wallet: PlainWallet) -> None:
    """With its reason; a scenario that needs a supply is skipped without one, and nothing is sent."""

    def play(at: Stage) -> None:
        raise NotTried("not here")

    run = run_on(delivered_to(wallet))
    assert (verdict := run.play(scenario(play))).outcome is Outcome.SKIPPED
    assert (verdict.reason, verdict.missing) == ("not here", ())
    assert (verdict.is_undone, verdict.is_stopped) == (False, False)
    sent = run.calls
    verdict = run.play(scenario(play, needs=("block", "wire")))
    assert verdict.outcome is Outcome.SKIPPED
    assert verdict.reason == "needs block and real HTTP, and this wallet is in process (--hook)"
    assert verdict.missing == ("block", "wire")
    assert run.calls == sent


def test_a_supply_that_fails_is_told(wallet: PlainWallet) -> None:
    """What whoever certifies could not do is no fault of the wallet's."""

    def play(at: Stage) -> None:
        at.act("block", at.player.id)

    def block(player_id: str) -> None:
        raise OSError("no such door")

    run = run_on(delivered_to(wallet), supplies=Supplies(block=block))
    verdict = run.play(scenario(play, needs=("block",)))
    assert (verdict.outcome, verdict.is_undone, verdict.is_stopped) == (Outcome.SKIPPED, True, False)
    assert verdict.reason == "block could not be done: OSError: no such door"


class PaysNoJackpots(PlainWallet):
    """Refuses them all."""

    def _claim(self, case: Case) -> str:
        return "BET_NOT_FOUND"


@pytest.mark.parametrize(
    ("kind", "drift"),
    [
        pytest.param(PlainWallet, -20_001, id="lost"),
        pytest.param(PlainWallet, 20_001, id="won"),
        pytest.param(PaysNoJackpots, -20_001, id="lost, where the shortest way is refused"),
    ],
)
def test_balances_are_put_back(kind: type[PlainWallet], drift: int) -> None:
    """After a scenario that moved more than forty wagers, both players have what they had, and the next begins so."""

    def play(at: Stage) -> None:
        bet = at.bet(wager_cents=30_000)
        at.accepts(bet.withdraw(), "a withdraw", moves=-30_000)
        at.accepts(bet.deposit(30_000 + drift), "its deposit", moves=30_000 + drift)

    wallet = opened(kind)
    before = wallet.balance_cents(PLAYER)
    run = run_on(delivered_to(wallet))
    assert run.play(scenario(play)).outcome is Outcome.PASSED
    assert wallet.balance_cents(PLAYER) == before
    assert run.play(scenario(play)).outcome is Outcome.FAILED, "the same ids again are no new bets"
    assert wallet.balance_cents(PLAYER) == before


def test_calls_outside_scenarios_never_share_an_id(wallet: PlainWallet) -> None:
    """A bet that puts money back would else be a repeat of one that showed a balance."""
    run, ids = run_on(delivered_to(wallet)), []
    for _ in range(2):
        with run.outside() as at:
            ids += [at.bet().bet_id, at.bet().bet_id]
    assert len(set(ids)) == 4


def test_a_silent_wallet_is_given_up(wallet: PlainWallet) -> None:
    """After three scenarios without an answer nothing more is sent, and each verdict says why."""
    answering = delivered_to(wallet)
    is_silent = False

    def deliver(path: str, headers: Mapping[str, str], body: bytes) -> HttpReply:
        if is_silent:
            raise TimeoutError("hung up")
        return answering(path, headers, body)

    def play(at: Stage) -> None:
        at.ask(BalanceCall(player_id=at.player.id), "a balance check")

    run = run_on(deliver)
    assert run.play(scenario(play)).outcome is Outcome.PASSED
    is_silent = True
    for _ in range(3):
        verdict = run.play(scenario(play))
        assert (verdict.outcome, verdict.weight) == (Outcome.FAILED, Weight.CONTRACT_BROKEN)
        assert "TimeoutError: hung up" in verdict.reason
    sent = run.calls
    assert run.play(scenario(play)).reason == "not begun: the wallet gave no answer in the last 3 scenarios"
    assert run.calls == sent


def test_a_crowd_without_answers_is_no_wallet_that_is_gone(wallet: PlainWallet) -> None:
    """Calls at once may be lost while the wallet is there: what it took is put back, and the run goes on."""
    answering, lost = delivered_to(wallet), [False]

    def deliver(path: str, headers: Mapping[str, str], body: bytes) -> HttpReply:
        answer = answering(path, headers, body)
        if path == "/withdraw" and lost[0]:
            raise ConnectionResetError("the queue is full")
        return answer

    def play(at: Stage) -> None:
        lost[0] = True
        for heard in at.together([at.request(at.bet().withdraw(), "a withdraw") for _ in range(3)]):
            lost[0] = False
            at.check_reply(heard)

    before, run = wallet.balance_cents(PLAYER), run_on(deliver)
    for number in range(5):
        verdict = run.play(replace(scenario(play), id=f"A9{number}"))
        assert "the queue is full" in verdict.reason
        assert verdict.is_unjudged
        assert wallet.balance_cents(PLAYER) == before


def test_what_weighs_less_is_told_beside_what_weighs_more(wallet: PlainWallet) -> None:
    """Two notes of one cause and two weights are two: advice says nothing of money, and money is no advice."""

    def play(at: Stage) -> None:
        at.note("an odd code", Weight.ADVICE, "codes")
        at.note("a wrong code", Weight.CONTRACT_BROKEN, "codes")
        at.note("another odd code", Weight.ADVICE, "codes")

    verdict = played(wallet, play)
    assert (verdict.weight, verdict.reason) == (Weight.CONTRACT_BROKEN, "a wrong code")
    assert [(note.weight, note.reason) for note in verdict.notes] == [
        (Weight.CONTRACT_BROKEN, "a wrong code"),
        (Weight.ADVICE, "an odd code (and 1 more like it)"),
    ]


def test_a_run_has_an_end(wallet: PlainWallet) -> None:
    """When its time is used up a scenario is broken off, the rest fails, and the wallet has not passed."""

    def play(at: Stage) -> None:
        while True:
            at.ask(BalanceCall(player_id=at.player.id), "a balance check")

    run, began = run_on(delivered_to(wallet), deadline=0.2), time.monotonic()
    verdict = run.play(scenario(play))
    assert (verdict.outcome, verdict.weight) == (Outcome.FAILED, Weight.CONTRACT_BROKEN)
    assert verdict.reason == "broken off: the run's 0.2 s were used up"
    assert run.play(scenario(play)).reason == "not begun: the run's 0.2 s were used up"
    assert time.monotonic() - began < 5


def test_balances_at_the_end_may_stay_unknown(wallet: PlainWallet, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a wallet that answers no balance in the time that is left, the report says that it is not known."""
    monkeypatch.setattr("game_operator_testkit.certifier.engine.run._GRACE_SECONDS", -1.0)
    run = run_on(delivered_to(wallet), deadline=0)
    time.sleep(0.001)
    assert run.balances() == [None, None]


def test_of_many_exchanges_the_first_and_the_last_are_kept(wallet: PlainWallet) -> None:
    """A note about one that is not kept has no exchange, and one that is kept has the right one."""

    def play(at: Stage) -> None:
        for number in range(300):
            heard = at.ask(BalanceCall(player_id=at.player.id), f"number {number}")
            if number in (10, 100, 299):
                at.note(f"note {number}", Weight.CONTRACT_BROKEN, "", heard)

    verdict = played(wallet, play)
    assert len(verdict.exchanges) == 160
    assert [note.exchange is None for note in verdict.notes] == [False, True, False]
    first, _, last = verdict.notes
    assert first.exchange is not None
    assert last.exchange is not None
    assert verdict.exchanges[first.exchange].title == "number 10"
    assert verdict.exchanges[last.exchange].title == "number 299"


def test_a_player_with_too_little_is_told_before(wallet: PlainWallet) -> None:
    """A cent less than ten units: the caller's mistake, and no verdict."""
    wallet.open_account("poor", 999)
    with pytest.raises(ConfigurationError, match=r"has 9\.99"):
        certified_by(delivered_to(wallet), other_player_id="poor")


@pytest.mark.slow
def test_ten_units_are_enough() -> None:
    """Scenarios scale to what there is."""
    wallet = opened(cents=1_000)
    report = certified_by(delivered_to(wallet), supplies=supplies_of(wallet))
    assert found(report) == {}
    assert wallet.balance_cents(PLAYER) == wallet.balance_cents(OTHER) == 1_000


def test_money_is_brought_back_whatever_the_time(wallet: PlainWallet) -> None:
    """A scenario that is broken off while nearly all is wagered leaves nobody without money."""

    def play(at: Stage) -> None:
        at.accepts(at.bet(wager_cents=at.player.due_cents).withdraw(), "all", moves=-at.player.due_cents)
        while True:
            at.ask(BalanceCall(player_id=at.other.id), "a balance check")

    before = wallet.balance_cents(PLAYER)
    verdict = run_on(delivered_to(wallet), deadline=0.2).play(scenario(play))
    assert "broken off" in verdict.reason
    assert wallet.balance_cents(PLAYER) == before


def test_what_was_found_before_a_skip_is_kept(wallet: PlainWallet) -> None:
    """A note is a finding, whatever cannot be tried afterwards."""

    def play(at: Stage) -> None:
        at.note("is wrong", Weight.CONTRACT_BROKEN)
        raise NotTried("not here")

    verdict = played(wallet, play)
    assert (verdict.outcome, verdict.reason) == (Outcome.FAILED, "is wrong")


def test_an_answer_that_is_cut_is_dropped(wallet: PlainWallet) -> None:
    """In process the wallet is called all the same, and nobody hears it."""

    def play(at: Stage) -> None:
        request = at.request(at.bet().withdraw(), "a withdraw")
        heard = at.send(replace(request, manner=Manner.CUT))
        assert (heard.status, heard.reply) == (0, None)
        at.player.due_cents -= at.unit_cents

    assert played(wallet, play).outcome is Outcome.PASSED


class CannotBeTold(Exception):  # noqa: N818 - the point is that it has no words
    """Whoever wrote it did not try it."""

    def __str__(self) -> str:
        raise ValueError("no words")


def raising(error: BaseException) -> Any:
    raise error


@pytest.mark.parametrize(
    ("error", "told"),
    [
        pytest.param(CannotBeTold(), "raised CannotBeTold: …", id="no words"),
        pytest.param(asyncio.CancelledError(), "raised CancelledError", id="cancelled"),
    ],
)
def test_whatever_a_wallet_in_process_raises_is_an_answer(error: BaseException, told: str) -> None:
    """It ends in a verdict."""
    verdict = run_on(lambda path, headers, body: raising(error)).play(scenario(lambda at: at.check_balances()))
    assert verdict.outcome is Outcome.FAILED
    assert told in verdict.reason
