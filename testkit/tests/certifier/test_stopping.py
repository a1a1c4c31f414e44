"""A run that somebody stops: money is put back, and what was not tried is said, and taken for nothing else."""

from collections.abc import Iterable, Mapping
from threading import Event
from typing import Any
from xml.etree import ElementTree

import pytest
from wallet_by_hand import PlainWallet, Reply

from game_operator.profile import Profile
from game_operator.protocol.http import HttpReply
from game_operator_testkit.certifier import Outcome, Report, Weight
from game_operator_testkit.certifier.engine.steps import Allowance, Found, Stopped
from game_operator_testkit.certifier.report.as_html import html
from game_operator_testkit.certifier.report.as_json import document
from game_operator_testkit.certifier.report.as_junit import junit
from game_operator_testkit.certifier.report.summary import Summary
from testkit.tests.certifier.harness import PLAYER, certified, certified_by, delivered_to, opened
from testkit.tests.certifier.wrong_wallets.flows import TellsSeconds
from testkit.tests.certifier.wrong_wallets.repeats import DebitsEachTime


def stopped_at(
    wallet: PlainWallet, withdraws: int, only: Iterable[str] = ("A01", "A02", "B01", "C01"), **settings: Any
) -> Report:
    """Return the report of a run that is stopped while the wallet answers so many withdraws."""
    answering, stopping, left = delivered_to(wallet), Event(), withdraws

    def deliver(path: str, headers: Mapping[str, str], body: bytes) -> HttpReply:
        nonlocal left
        left -= path == "/withdraw"
        if not left:
            stopping.set()
        return answering(path, headers, body)

    return certified_by(deliver, only=only, stopping=stopping, **settings)


def test_money_is_put_back() -> None:
    """The call under way is waited for; the bet that it placed is not left open at the player's cost."""
    wallet = opened()
    before = wallet.balance_cents(PLAYER)
    report = stopped_at(wallet, 1)
    assert wallet.balance_cents(PLAYER) == before
    assert [moved.difference_cents for moved in report.moved] == [0, 0]
    broken_off = report.verdict("A02")
    assert [each.path for each in broken_off.exchanges][-1] == "/withdraw"
    assert (broken_off.outcome, broken_off.reason) == (Outcome.SKIPPED, "broken off: the run was stopped")


def test_what_was_not_tried_is_no_fault_of_the_wallet() -> None:
    """Nothing that is left fails, and nothing of it passes."""
    report = stopped_at(opened(), 1)
    assert {each.id: each.outcome for each in report.verdicts} == {
        "A01": Outcome.PASSED,
        "A02": Outcome.SKIPPED,
        "B01": Outcome.SKIPPED,
        "C01": Outcome.SKIPPED,
    }
    assert report.verdict("C01").reason == "not begun: the run was stopped"
    assert [each.id for each in report.verdicts if each.is_stopped] == ["A02", "B01", "C01"]
    assert not any(each.is_undone for each in report.verdicts)
    assert (report.was_stopped, report.passed, Summary(report).is_fine) == (True, True, False)
    assert Summary(report).headline == "Stopped: nothing is wrong so far, and 3 scenarios were not tried."


@pytest.mark.parametrize(
    "profile",
    [pytest.param(Profile(), id="by a jackpot"), pytest.param(Profile(claim_types=()), id="where there is none")],
)
def test_a_whole_balance_is_put_back(profile: Profile) -> None:
    """Whoever has nothing left can place no bet that is won: the one that is open is cancelled."""
    wallet = opened()
    before = wallet.balance_cents(PLAYER)
    report = stopped_at(wallet, 1, ["A06"], profile=profile)
    assert report.verdict("A06").is_stopped
    assert wallet.balance_cents(PLAYER) == before


def test_advice_does_not_hide_that_it_was_broken_off() -> None:
    """What a scenario found by then may be no more than advice: it is not tried, and the run no pass."""
    report = stopped_at(opened(TellsSeconds), 1, ["D07"])
    assert report.verdict("D07").outcome is Outcome.SKIPPED
    assert report.was_stopped
    assert Summary(report).headline == "Stopped before anything was tried to its end."


def test_a_failure_stands_though_it_was_broken_off() -> None:
    """With another status than 200 a bet is placed, and the scenario goes on; so it fails, and was stopped."""

    class Created(PlainWallet):
        def _status(self, reply: Reply) -> int:
            return 201

    report = stopped_at(opened(Created), 1, ["A02"])
    verdict = report.verdict("A02")
    assert (verdict.outcome, verdict.is_stopped, report.was_stopped) == (Outcome.FAILED, True, True)
    assert "and it must be 200" in verdict.reason


def test_what_was_wrong_by_then_is_told() -> None:
    """A finding stays one, and the first thing that is said; with it, that not all was tried."""
    report = stopped_at(opened(DebitsEachTime), 3, ["B01", "B02"])
    assert report.verdict("B01").weight is Weight.MONEY_DOUBLED
    assert report.verdict("B02").is_stopped
    assert Summary(report).headline == "Failed: this wallet doubles money."
    assert "The run was stopped, so " in html(report)


def test_stopped_after_its_end_it_was_not_stopped() -> None:
    """Whatever the last scenario was told, all of it was tried."""
    stopping = Event()
    report = certified(only=["A01"], on_verdict=lambda *_: stopping.set(), stopping=stopping)
    assert (report.was_stopped, Summary(report).is_fine) == (False, True)


def test_programs_are_told() -> None:
    """In JSON by the run and the scenario; in JUnit as an error, for a CI system takes what is skipped for fine."""
    report = stopped_at(opened(), 1)
    written = document(report)
    assert written["was_stopped"] is True
    verdicts = written["verdicts"]
    assert isinstance(verdicts, list)
    assert [each["is_stopped"] for each in verdicts] == [False, True, True, True]
    errors = ElementTree.fromstring(junit(report)).iter("error")
    assert [each.get("message") for each in errors] == [
        "broken off: the run was stopped",
        "not begun: the run was stopped",
        "not begun: the run was stopped",
    ]


def test_an_allowance_on_both_sides() -> None:
    """It is checked for the word that ends it, then for its time; in grace for neither, and then again."""
    stopping = Event()
    allowance = Allowance(60, stopping)
    allowance.check("not begun")
    stopping.set()
    with allowance.grace(10):
        allowance.check("broken off")
    with pytest.raises(Stopped, match="not begun: the run was stopped"):
        allowance.check("not begun")
    used_up = Allowance(0)
    with pytest.raises(Found, match="broken off: the run's 0 s were used up"):
        used_up.check("broken off")
    with used_up.grace(10):
        used_up.check("broken off")
    with used_up.grace(-1), pytest.raises(Found, match="used up"):
        used_up.check("broken off")
