"""What `game-operator certify` tells at a terminal, of reports made by hand."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from game_operator_testkit.certifier.report.report import Cause, Report
from game_operator_testkit.certifier.report.summary import Summary
from game_operator_testkit.certifier.report.verdicts import Verdict, Weight
from game_operator_testkit.cli.certify_report import show_report
from testkit.tests.certifier.reports import (
    failed,
    failing_report,
    hidden,
    hostile_report,
    passed,
    passing_report,
    report,
    skipped,
    undone,
    unjudged,
)

pytestmark = pytest.mark.slow


Told = Callable[[Report], str]


@pytest.fixture
def told(capsys: pytest.CaptureFixture[str]) -> Told:
    """Returns what is printed of a report."""

    def told(report: Report) -> str:
        show_report(report, {})
        out, err = capsys.readouterr()
        assert err == ""
        return out

    return told


def _failed(scenario_id: str, weight: Weight = Weight.MONEY_LOST) -> Verdict:
    return failed(scenario_id, "what happens", weight, "what is wrong", means="It is lost.", fix="Keep it.")


@pytest.mark.parametrize(
    "made",
    [
        pytest.param(failing_report, id="three mistakes"),
        pytest.param(hostile_report, id="hostile"),
    ],
)
def test_the_first_screen_is_one(made: Callable[[], Report], told: Told) -> None:
    """Within 24 lines of 100 columns: that it failed, what to fix first, what shows it and what it means."""
    whole = told(made())
    lines = whole.splitlines()
    first = "\n".join(lines[:24])
    assert max(map(len, lines)) <= 100
    assert lines[0].startswith("FAILED: ")
    assert "\nWhat to fix, in this order:\n1. B" in first
    assert "\n   What it means: " in first
    assert "\n   How to fix it: " in first
    assert "\n   > POST /" in first
    assert "\n   < " in first
    # What a wallet answers, or a player is called, commands no terminal.
    assert not set("\x1b\x07\u202e\x00") & set(whole)


def test_what_could_not_be_judged_is_no_all_clear(told: Told) -> None:
    """Nobody says that no money went wrong where no answer could be read; nor beside one that was."""
    lines = told(hidden(51)).splitlines()
    assert lines[0] == "FAILED: 51 scenarios could not be judged, and nobody knows what became of the money."
    assert lines[2] == "1 mistake: 1 not judged. Fix the first one first, and run this again."
    assert "This run cannot say whether the money is right. The service cannot read the answer" in " ".join(
        " ".join(lines).split()
    )
    for made in (hidden(51), hidden(1), hidden(6, Cause(_failed("F01", Weight.CONTRACT_BROKEN)))):
        assert "No money was lost or doubled in this run" not in told(made)
    broken = _failed("F01", Weight.CONTRACT_BROKEN)
    both = report(broken, unjudged(), causes=(Cause(broken), Cause(unjudged())))
    assert "No money was lost or doubled in this run" not in told(both)


def test_a_passing_report(told: Told) -> None:
    """Advice, what was not tried and the load phase follow; nothing is called a failure."""
    whole = told(replace(passing_report(), load_ms=(1.0,) * 99 + (450.0,)))
    assert whole.startswith("PASSED: ")
    assert "FAILED" not in whole
    assert "Load: 100 calls: p50 1 ms, p95 1 ms, p99 1 ms; 1 over 100 ms." in whole
    assert "; none over 100 ms." in told(replace(passing_report(), load_ms=(1.0, 100.0)))
    assert "Advice: F06 a key stands twice in one object: A withdraw with two amounts" in whole


def test_money_that_was_not_put_back_is_told(told: Told) -> None:
    """With what to do before the next run, which would begin with what is there."""
    lines = " ".join(told(report(passed("A01"))).split())
    assert "p1 had 100.00 and has 95.00: the wallet did not let the run put it back. Set it right before" in lines
    assert "p2 has 100.00, as before." in lines
    assert "gone had 100.00 and has unknown. Look into the account before the next run" in lines


@pytest.mark.parametrize(
    ("verdicts", "fine"),
    [
        pytest.param((passed("A01"),), True, id="passed"),
        pytest.param((passed("A01"), skipped()), True, id="some not tried"),
        pytest.param((skipped(),), False, id="nothing tried"),
        pytest.param((passed("A01"), _failed("A02")), False, id="failed"),
        pytest.param((passed("A01"), undone()), False, id="what was supplied did not work"),
        pytest.param((passed("A01"), replace(skipped(), is_stopped=True)), False, id="stopped"),
    ],
)
def test_when_a_run_is_fine(verdicts: tuple[object, ...], fine: bool) -> None:
    """Something was tried, nothing failed, and what was supplied did what it should."""
    assert Summary(report(*verdicts)).is_fine is fine  # type: ignore[arg-type] # verdicts, which a table types as objects
