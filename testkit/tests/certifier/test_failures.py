"""The scenarios of time and failure: outages, lost answers, slow answers and odd clocks."""

import contextlib
import time
from collections.abc import Sequence
from typing import Any

import pytest
from wallet_by_hand import Call, Case, PlainWallet, Reply

from game_operator_testkit.certifier import Supplies, Weight
from game_operator_testkit.certifier.engine.scenario import Scenario
from game_operator_testkit.certifier.engine.stage import Stage
from game_operator_testkit.certifier.engine.steps import Found, NotTried
from game_operator_testkit.certifier.report.summary import Summary
from game_operator_testkit.certifier.scenarios import h_time
from game_operator_testkit.provider.delivery import Carried
from game_operator_testkit.provider.requests import Request
from testkit.tests.certifier.harness import (
    INSTANCE,
    OTHER,
    PLAYER,
    certified,
    delivered_to,
    found,
    only,
    opened,
    run_on,
    skipped,
    supplies_of,
)

LOST = Weight.MONEY_LOST


@pytest.mark.parametrize("instance_id", [None, "another"])
@pytest.mark.parametrize("scenarios", [("A02", "C02", "D01", "D10", "H05"), ("D01",), ("H05",)], ids=" ".join)
def test_a_wallet_that_takes_no_call_loses_no_money(scenarios: tuple[str, ...], instance_id: str | None) -> None:
    """One that accepts its own instances only, and is called with another: no repeat is refused, no race is lost."""
    report = certified(only=scenarios, instance_id=instance_id)
    assert {each.cost for each in report.failures} == {"not judged"}
    assert [cause.ids[0] for cause in report.causes] == list(scenarios[:1])
    assert report.money_at_risk == ()
    headline = Summary(report).headline
    assert "the wallet refused every bet with INVALID_REQUEST" in headline
    assert "look at --instance and --game first" in headline


class NamesForeignInstances(PlainWallet):
    """Refuses another operator's instance with a code of its own."""

    def _carry_out(self, call: Call) -> Reply:
        return Reply("INSTANCE_UNKNOWN") if self._is_foreign(call) else super()._carry_out(call)


class LetsNobodyBet(PlainWallet):
    """Has blocked both players, or everybody."""

    def _may_bet(self, case: Case) -> bool:
        return False


class FindsNoBets(PlainWallet):
    """Looks for the bet that a withdraw is to place."""

    def _withdraw(self, case: Case) -> str:
        return "BET_NOT_FOUND"


@pytest.mark.parametrize(
    ("kind", "look"),
    [
        pytest.param(NamesForeignInstances, "; look at --instance and --game first", id="a code that nobody knows"),
        pytest.param(LetsNobodyBet, "; look at the two players first", id="a code of players"),
        pytest.param(FindsNoBets, "", id="another code"),
    ],
)
def test_the_headline_says_where_to_look_first(kind: type[PlainWallet], look: str) -> None:
    """By the code that refuses each bet."""
    report = certified(kind, only=["A02"], instance_id="another" if kind is NamesForeignInstances else INSTANCE)
    assert Summary(report).headline.endswith(f"so 1 scenario could not be judged{look}.")


@pytest.mark.parametrize(
    "ends",
    [
        pytest.param(Found("wrong"), id="a finding"),
        pytest.param(NotTried("not here"), id="nothing to try"),
        pytest.param(TypeError("unsupported operand"), id="a stumble"),
        pytest.param(KeyboardInterrupt(), id="Ctrl-C"),
    ],
)
def test_an_outage_ends_with_its_scenario(ends: BaseException) -> None:
    """Whatever becomes of the scenario: nobody's wallet is left out of order, nor a player blocked."""
    wallet = opened()

    def play(at: Stage) -> None:
        check, carry = at.balance_request("a balance check"), at.carry

        def broken_off(_: Sequence[Request]) -> list[Carried]:
            at.carry = carry
            raise ends

        at.carry = broken_off
        try:
            at.during("block", "unblock", [check], at.player.id)
        finally:
            at.carry = broken_off
            at.during("fail", "recover", [check])

    run = run_on(delivered_to(wallet), supplies=supplies_of(wallet))
    with contextlib.suppress(KeyboardInterrupt):
        run.play(Scenario("H99", "a test", LOST, ("spec §4.1",), "means", "fix", play))
    assert not wallet.broken
    assert [wallet._find_account(each).blocked for each in (PLAYER, OTHER)] == [0, 0]  # type: ignore[union-attr]
    wallet.close()


class NeedsATryToRecover(PlainWallet):
    """Its first call after an outage finds a connection that is gone."""

    is_stale = False

    def _answer(self, path: str, headers: list[tuple[str, str]], body: bytes) -> tuple[int, str]:
        was_stale, self.is_stale = self.is_stale, self.broken
        if was_stale and not self.broken:
            raise ConnectionError("the connection is gone")
        return super()._answer(path, headers, body)


def test_the_first_call_after_an_outage_may_fail() -> None:
    """It is sent again, as the service would, and nobody has to do anything."""
    report = certified(NeedsATryToRecover, only=["H02"])
    assert found(report) == {}


class AnswersAnOutageWith503(PlainWallet):
    """As a gateway does."""

    def _status(self, reply: Reply) -> int:
        return 503 if reply.outcome == "SYSTEM_ERROR" else 200


def test_an_outage_that_a_gateway_tells_is_advice() -> None:
    """The service repeats what it gets no reply to; SYSTEM_ERROR with HTTP 200 would be the answer (spec §4.1)."""
    report = certified(AnswersAnOutageWith503, only=["H02"])
    assert report.passed
    assert "answered with HTTP 503; expected SYSTEM_ERROR" in only(report).reason


def test_an_outage_that_is_none_is_not_judged() -> None:
    """A fail() that does nothing is no fault of the wallet's."""
    wallet = opened()
    supplies = supplies_of(wallet)
    idle = Supplies(fail=lambda: None, recover=supplies.recover)
    report = certified(only=["H02"], supplies=idle)
    assert skipped(report) == {"H02": "the wallet went on working after fail()"}
    assert [each.difference_cents for each in report.moved] == [0, 0]
    wallet.close()


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        pytest.param(0.015, "10 ms is a better aim", id="beyond the aim"),
        pytest.param(0.105, "a service gives up after about 100 ms", id="beyond the mark"),
    ],
)
@pytest.mark.slow
def test_slow_answers_are_advice(seconds: float, told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No money moves wrongly by them; here the marks are lower, for the test's sake (docs/decisions/0014)."""

    class Slow(PlainWallet):
        def _carry_out(self, call: Call) -> Reply:
            time.sleep(seconds)
            return super()._carry_out(call)

    monkeypatch.setattr(h_time, "_AIM_MS", 10)
    monkeypatch.setattr(h_time, "_LIMIT_MS", 100)
    report = certified(Slow, only=["H01"])
    assert report.passed
    assert told in only(report).reason


class TenMinutesAhead(PlainWallet):
    """Nobody sets its clock."""

    off_millis = 600_000

    def __init__(self, *arguments: Any, **settings: Any) -> None:  # Any: as for PlainWallet
        super().__init__(*arguments, clock_millis=self._clock, **settings)

    def _clock(self) -> int:
        return time.time_ns() // 1_000_000 + self.off_millis


def test_a_clock_that_is_off_is_advice() -> None:
    """Flows work all the same (spec §2.1)."""
    report = certified(TenMinutesAhead, only=["A02", "D07", "H"])
    assert report.passed
    assert "600 s ahead of the certifier's" in report.verdict("H04").reason
    assert {each.id for each in report.advice} == {"H04"}
