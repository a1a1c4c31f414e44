"""The scenarios of many calls at once: right wallets pass, and racing ones are told what money they move."""

import itertools
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from wallet_by_hand import Call, Case, PlainWallet, Reply

from game_operator.profile import Profile
from game_operator_testkit.certifier import Outcome, Weight
from game_operator_testkit.certifier.engine import stage
from game_operator_testkit.certifier.report.verdicts import KnownCause
from testkit.tests.certifier.harness import certified, found, only
from testkit.tests.certifier.test_second_looks import TellsWholeSeconds
from testkit.tests.certifier.wrong_wallets.overlooked import SharesTheAnswerOfEachCall
from testkit.tests.certifier.wrong_wallets.registry import is_alone

pytestmark = pytest.mark.slow

LOST, BROKEN = Weight.MONEY_LOST, Weight.CONTRACT_BROKEN


class LimitsByACoreCode(PlainWallet):
    """Its limit of 500.00 has the code that a wallet with core codes has for it."""

    def _place(self, case: Case) -> str:
        return "INVALID_REQUEST" if case.call.cents > 50_000 else super()._place(case)


def test_funds_are_there_only_where_that_is_said() -> None:
    """A cause does not contradict the code that the answers had; a profile with core codes explains them."""
    report = certified(LimitsByACoreCode, only=["A06", "D10"])
    assert not any("lack of money" in cause.title for cause in report.causes), [each.title for each in report.causes]
    assert found(certified(LimitsByACoreCode, profile=Profile(codes="core"), only=["A06", "D10"])) == {}


def test_wallets_by_hand_on_one_file_pass(tmp_path: Path) -> None:
    """Two of them keep calls apart by their database (spec §3)."""
    assert found(certified(only=["D06", "D07"], file=tmp_path / "wallet.db")) == {}


class RefusesHalf(PlainWallet):
    """Refuses for no reason that anybody could give."""

    def _has_funds(self, case: Case) -> bool:
        return super()._has_funds(case) and not str(case.call.bet_id).endswith(("1", "3", "5", "7", "9"))


def test_fewer_bets_than_the_balance_pays_for_are_told() -> None:
    """Whoever has the money may bet (spec §4.1)."""
    verdict = only(certified(RefusesHalf, only=["D01"]))
    assert (verdict.outcome, verdict.weight) == (Outcome.FAILED, LOST)
    assert verdict.reason.startswith("32 of 64 withdraws at once were accepted, and the balance paid for 33")


class BusyWhenManyCall(PlainWallet):
    """Fails if another call has the lock."""

    def _carry_out(self, call: Call) -> Reply:
        if self._lock.locked():
            raise TimeoutError("the lock is taken")
        return super()._carry_out(call)


def test_a_wallet_that_asks_for_repeats_is_advised() -> None:
    """SYSTEM_ERROR moves nothing and is sent again, as the service would: slow, and no lost money (decision 0013)."""
    report = certified(BusyWhenManyCall, only=["D02", "D03", "D04", "D08", "D09"])
    assert report.passed
    assert any("were sent again" in each.reason for each in report.advice)


def test_equal_timestamps_of_different_balances_are_advice() -> None:
    """They put nothing into the wrong order, and nothing into the right one (docs/decisions/0012)."""
    report = certified(TellsWholeSeconds, only=["D07"])
    assert report.passed
    assert "have the same timestamp" in only(report).reason


class TellsAnEarlierSecondAtTimes(TellsWholeSeconds):
    """Its clock ticks once a second, and one answer has the time of the second before: in the seventh round."""

    _answers = 0

    def _time_of_read(self, now: int, last_millis: int) -> int:
        self._answers += 1
        return super()._time_of_read(now, last_millis) - 1_000 * (self._answers == 183)


def test_more_rounds_are_played_where_times_are_shared() -> None:
    """A time that puts an old balance last may be seldom; a wallet with a time for each balance is asked no more."""
    report = certified(TellsAnEarlierSecondAtTimes, only=["D07"])
    assert (only(report).weight, len(only(report).notes)) == (BROKEN, 1)
    assert "is older than" in only(report).reason
    assert certified(TellsWholeSeconds, only=["D07"]).calls > 4 * certified(only=["D07"]).calls


class HasAClockOfItsOwn(PlainWallet):
    """Of two processes, every other one is ten minutes behind; and a read takes longer than a tick of the clock."""

    _made = itertools.count()

    def __init__(self, *arguments: Any, **settings: Any) -> None:  # Any: as for PlainWallet
        behind_millis = 600_000 * (next(self._made) % 2)
        super().__init__(*arguments, clock_millis=lambda: time.time_ns() // 1_000_000 - behind_millis, **settings)

    def _carry_out(self, call: Call) -> Reply:
        if call.operation == "player-balance":
            time.sleep(0.03)  # The last movement may be told some milliseconds ahead of the clock.
        return super()._carry_out(call)


def test_reads_by_two_clocks_are_advice(tmp_path: Path) -> None:
    """A read leaves no trace, so a process whose clock is behind cannot know of it (docs/decisions/0014)."""
    report = certified(HasAClockOfItsOwn, only=["D07"], file=tmp_path / "wallet.db")
    assert report.passed
    assert "and its timestamp is" in only(report).reason


class TellsTheBalanceBefore(PlainWallet):
    """Tells a withdraw's balance without its wager."""

    def _told_cents(self, case: Case, account: Any) -> int:
        taken = case.call.cents if case.call.operation == "withdraw" else 0
        return super()._told_cents(case, account) + taken


@pytest.mark.parametrize("scenario", ["D01", "D02"])
def test_a_balance_that_a_withdraw_did_not_leave_is_no_lost_money(scenario: str) -> None:
    """What an answer tells and what there is are two things: the first breaks the contract (spec §2.1)."""
    verdict = only(certified(TellsTheBalanceBefore, only=[scenario]))
    assert (verdict.outcome, verdict.weight) == (Outcome.FAILED, BROKEN)
    assert "returned a balance of" in verdict.reason


class NeedsTwoConnections(PlainWallet):
    """Takes a second connection of its pool inside each withdraw, and gives up after a while."""

    pool_size, seconds = 8, 0.15

    def _carry_out(self, call: Call) -> Reply:
        pool: threading.BoundedSemaphore = self.__dict__.setdefault("_pool", threading.BoundedSemaphore(self.pool_size))
        if call.operation != "withdraw":
            return super()._carry_out(call)
        with pool:
            if not is_alone():
                time.sleep(0.05)
            if not pool.acquire(timeout=self.seconds):
                raise TimeoutError("the pool is empty")
            pool.release()
            return super()._carry_out(call)


def test_calls_that_wait_for_each_other_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Alone each is quick; at once they fail by a timeout, and are accepted when they are sent again."""
    monkeypatch.setattr(stage, "_STARVED_MS", 100.0)
    report = certified(NeedsTwoConnections, only=["D01"])
    assert report.passed
    (cause,) = report.causes
    assert cause.title == "many calls at once wait for each other, and time out"
    assert "may_bet" in cause.fix


def test_one_answer_to_a_deposit_and_a_rollback_at_once() -> None:
    """One was carried out, as the balance shows, and its caller got the other's refusal."""
    verdict = only(certified(SharesTheAnswerOfEachCall, only=["D04"]))
    assert verdict.notes[0].cause == KnownCause.SAME_REPLY
    assert "neither was accepted" in verdict.reason
