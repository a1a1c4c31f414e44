"""What `game-operator certify` tells at a terminal, of reports made by hand."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from game_operator_testkit.certifier.report.report import Cause, Report, causes_of
from game_operator_testkit.certifier.report.summary import Summary
from game_operator_testkit.certifier.report.verdicts import KnownCause, Note, Verdict, Weight
from game_operator_testkit.cli.certify_report import show_report
from testkit.tests.certifier.reports import (
    advised,
    exchange,
    failed,
    failing_report,
    hidden,
    hostile_report,
    large_report,
    out_of_time,
    passed,
    passing_report,
    report,
    skipped,
    undone,
    unjudged,
)

pytestmark = pytest.mark.slow

_LEFT = ("C01", "C02")

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
    lines = told(made()).splitlines()
    first = "\n".join(lines[:24])
    assert max(map(len, lines)) <= 100
    assert lines[0].startswith("FAILED: ")
    assert "\nWhat to fix, in this order:\n1. B" in first
    assert "\n   What it means: " in first
    assert "\n   How to fix it: " in first
    assert "\n   > POST /" in first
    assert "\n   < " in first


def test_all_causes_stand_in_order(told: Told) -> None:
    """Each begins with its id, and names what it costs and the scenarios that it fails besides."""
    whole = told(failing_report())
    assert re.findall(r"^(\d)\. ([A-H]\d\d): ", whole, re.MULTILINE) == [("1", "B01"), ("2", "C06"), ("3", "E11")]
    assert "and should be 95.00. (money doubled)" in " ".join(whole.split())
    assert "\n   The same mistake fails B02 too.\n" in whole
    many = [_failed(f"C{number:02}") for number in range(40)]
    whole = told(report(*many, causes=(Cause(many[0], tuple(many[1:])),)))
    assert re.search(r" The same mistake fails C01, C02, .*, C12 and 27 more too\. ", " ".join(whole.split()))


def test_a_broken_contract_alone_says_that_no_money_went_wrong(told: Told) -> None:
    """Beside a mistake that costs money, it does not."""
    broken = replace(_failed("F01", Weight.CONTRACT_BROKEN), means="The service is not told.")
    clear = "What it means: No money was lost or doubled in this run. The service is not told."
    assert clear in told(report(broken, causes=(Cause(broken),)))
    assert clear not in told(report(_failed("B01"), broken, causes=(Cause(_failed("B01")), Cause(broken))))


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


def test_a_time_limit_that_was_used_up_is_nothing_to_fix(told: Told) -> None:
    """The headline names it, and no sentence says to begin with the wallet."""
    whole = told(out_of_time("B01", "B02"))
    assert whole.startswith("FAILED: the run's own time limit (deadline) was used up before 2 scenarios could be")
    assert "\nWhy not all was judged:\n1. B01: not begun: " in whole
    assert "Fix the first one" not in whole


def test_what_a_run_leaves_is_told(told: Told) -> None:
    """Beside balances that are as before: bets stay open, and their ids show whose they are."""
    assert "All ids of this run begin with c7k2m9. Some scenarios leave bets open on purpose." in told(passing_report())


def test_what_was_supplied_and_failed_stands_on_the_first_screen(told: Told) -> None:
    """With the reason, whether anything failed or not."""
    whole = told(report(passed("A01"), undone("A09"), undone("B14")))
    assert whole.startswith("NOT FINISHED: what was supplied did not work, and 2 scenarios could not be tried.")
    reason = "What was supplied did not work, so A09, B14 could not be tried: the hook block ended with exit code 7:"
    assert reason in " ".join(whole.split())
    lines = told(report(_failed("B01"), undone(), causes=(Cause(_failed("B01")),))).splitlines()
    assert "the hook block ended with exit code 7" in "\n".join(lines[:6])


def test_groups_stand_by_their_letters(told: Told) -> None:
    """Wherever something failed."""
    assert re.findall(r"^│ ([A-H]) ", told(failing_report()), re.MULTILINE) == ["A", "B", "C", "D", "E", "F"]


def test_no_header_is_told(told: Told) -> None:
    """They are long, and they are in the files."""
    for made in (failing_report(), hostile_report(), large_report(wrong=True)):
        assert not re.search("[Ss]ignature:", told(made))


def test_nothing_hides(told: Told) -> None:
    """Whatever a wallet, or somebody who names players, can choose is shown as its escape."""
    whole = told(hostile_report())
    assert not set("\x00\x1b\u202e\ufffe\r") & set(whole)
    assert r"\x1b" in whole
    assert whole.encode()


def test_a_passing_report(told: Told) -> None:
    """Advice, what was not tried and the load phase follow; nothing is called a failure."""
    whole = told(replace(passing_report(), load_ms=(1.0,) * 99 + (450.0,)))
    assert whole.startswith("PASSED: ")
    assert "FAILED" not in whole
    assert "Load: 100 calls: p50 1 ms, p95 1 ms, p99 1 ms; 1 over 100 ms." in whole
    assert "; none over 100 ms." in told(replace(passing_report(), load_ms=(1.0, 100.0)))
    assert "Advice: F06 a key stands twice in one object: A withdraw with two amounts" in whole


def test_advice_that_has_one_mistake_is_one_line(told: Told) -> None:
    """A difference of the profile is named by its field, once, with the scenarios that show it."""
    note = Note("a rollback of nothing: returned SUCCESS", Weight.ADVICE, KnownCause.UNKNOWN_ROLLBACK)
    shown = [replace(advised(), id=each, reason=note.reason, notes=(note,)) for each in ("C01", "C06")]
    made = report(*shown, causes=causes_of(shown, {}))
    _, line = " ".join(told(made).split()).split("Advice: ")
    assert line.startswith("the profile's unknown_rollback is not what the wallet does (C01, C06). a rollback of")
    assert 'the other value of unknown_rollback: "success", or "error"' in line


@pytest.mark.parametrize(
    ("verdicts", "said"),
    [
        pytest.param([passed("A01")], "", id="none"),
        pytest.param([skipped()], "1 scenario not tried. A report file says why.", id="no option helps"),
        pytest.param(
            [
                replace(skipped("A09"), missing=("block", "unblock")),
                replace(skipped("B07"), missing=("fail", "recover")),
                replace(skipped("D06"), missing=("second_url",)),
            ],
            "3 scenarios not tried. Options that try more: --hook, --second-url.",
            id="options",
        ),
        pytest.param(
            [replace(skipped("A09"), missing=("block",)), *(replace(skipped(each), is_stopped=True) for each in _LEFT)],
            "3 scenarios not tried, 2 of them because the run was stopped. Options that try more: --hook.",
            id="some by a stop",
        ),
        pytest.param(
            [replace(skipped(each), is_stopped=True) for each in _LEFT],
            "2 scenarios not tried, 2 of them because the run was stopped.",
            id="all by a stop",
        ),
    ],
)
def test_how_many_were_not_tried_is_one_line(verdicts: list[Verdict], said: str, told: Told) -> None:
    """With the options that would try them."""
    lines = [
        line for line in told(report(*verdicts)).splitlines() if "scenarios not tried" in line or "scenario not" in line
    ]
    assert lines == ([said] if said else [])


def test_money_that_was_not_put_back_is_told(told: Told) -> None:
    """With what to do before the next run, which would begin with what is there."""
    lines = " ".join(told(report(passed("A01"))).split())
    assert "p1 had 100.00 and has 95.00: the wallet did not let the run put it back. Set it right before" in lines
    assert "p2 has 100.00, as before." in lines
    assert "gone had 100.00 and has unknown. Look into the account before the next run" in lines


def test_what_a_stop_left_is_told(told: Told) -> None:
    """Whether anything failed or not; what was supplied and did not work is another thing."""
    left = [replace(skipped(each), reason="not begun: the run was stopped", is_stopped=True) for each in ("C01", "C02")]
    whole = told(report(passed("A01"), *left))
    assert whole.startswith("STOPPED: nothing is wrong so far, and 2 scenarios were not tried.")
    assert "The run was stopped, so C01, C02 were not tried to the end." in whole
    both = told(report(_failed("B01"), undone(), *left[:1], causes=(Cause(_failed("B01")),)))
    assert both.startswith("FAILED: this wallet loses money.")
    assert "The run was stopped, so C01 was not tried to the end." in both
    assert "What was supplied did not work, so A09 could not be tried: " in " ".join(both.split())


def test_the_last_call_stands_for_a_balance_that_is_wrong(told: Told) -> None:
    """Where no single answer was wrong, the call before the balance is shown, and not the balance."""
    verdict = _failed("C01")
    calls = (exchange(body=b'{"sent":"first"}'), exchange(path="/rollback"), exchange(path="/player-balance"))
    unplaced = replace(verdict, exchanges=calls, notes=(Note("too much", verdict.weight),))
    whole = told(report(unplaced, causes=(Cause(unplaced),)))
    assert "> POST /rollback {" in whole
    assert "/player-balance" not in whole


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


def test_files_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    """Without a page, a failing wallet is told how to get one."""
    show_report(failing_report(), {"--html": Path("r.html"), "--junit": Path("r.xml"), "--json-file": Path("r.json")})
    out = capsys.readouterr().out
    assert out.splitlines()[-1] == "Written: r.html, r.xml, r.json."
    assert "Pass --html" not in out
    show_report(failing_report(), {})
    assert "Pass --html report.html" in capsys.readouterr().out
