"""What `game-operator certify` tells at a terminal, of reports made by hand."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from game_operator_testkit.certifier.report.report import Cause, Latency, Report
from game_operator_testkit.certifier.report.summary import Summary
from game_operator_testkit.certifier.report.verdicts import Note, Verdict, Weight
from game_operator_testkit.cli.certify_report import show_report
from testkit.tests.certifier.reports import (
    exchange,
    failed,
    failing_report,
    hidden,
    hostile_report,
    large_report,
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


def _rambling() -> Report:
    """Return the report of a wallet with twelve mistakes, of each of which much is to be said."""
    verdicts = []
    for number in range(12):
        weight = (Weight.MONEY_LOST, Weight.MONEY_DOUBLED, Weight.CONTRACT_BROKEN)[number % 3]
        verdict = _failed(f"B{number + 1:02}", weight)
        long = " ".join(["word"] * 100)
        sent = exchange(body=b"x" * 5_000, answer=b"y" * 5_000)
        verdict = replace(verdict, exchanges=(sent,), title=long, reason=long, means=long, fix=long)
        verdicts.append(verdict)
    return report(*verdicts, causes=tuple(Cause(each, tuple(verdicts)) for each in verdicts))


@pytest.mark.parametrize(
    "made",
    [
        pytest.param(failing_report, id="three mistakes"),
        pytest.param(_rambling, id="twelve mistakes and long words"),
        pytest.param(hostile_report, id="hostile"),
    ],
)
def test_the_first_screen_is_one(made: Callable[[], Report], told: Told) -> None:
    """Within 24 lines of 100 columns: that it failed, what is at risk, what to change first, what else is wrong."""
    whole = told(made())
    lines = whole.splitlines()
    first, blank = "\n".join(lines[:24]), lines.index("", 5)
    assert max(map(len, lines)) <= 100
    assert blank <= 24
    assert lines[0].startswith("FAILED: ")
    assert "\nWhat it means (money " in first
    assert "\nHow to fix it: " in first
    assert "    > POST /" in first
    assert "    < " in first


def test_what_costs_money_comes_before_what_does_not(told: Told) -> None:
    """The heaviest mistake is the one to change first; a broken contract alone says that no money went wrong."""
    whole = told(failing_report())
    assert whole.index("What it means (money doubled): ") < whole.index("How to fix it: ") < whole.index("Then:")
    assert whole.index("Then:") < whole.index("Failed:")
    broken = replace(_failed("F01", Weight.CONTRACT_BROKEN), means="The service is not told.")
    whole = told(report(broken, causes=(Cause(broken),)))
    assert "\nWhat it means: No money was lost or doubled in this run. The service is not told." in whole
    assert "What it means (" not in whole


def test_what_could_not_be_judged_is_no_all_clear(told: Told) -> None:
    """Nobody says that no money went wrong where no answer could be read; nor beside one that was."""
    lines = told(hidden(51)).splitlines()
    assert lines[0] == "FAILED: 51 scenarios could not be judged, and nobody knows what became of the money."
    assert lines[2] == "1 mistake hides what happens to the money. Fix it, and run this again."
    assert lines[4].startswith(
        "What it means: This run cannot say whether the money is right. The service cannot read the answer"
    )
    for made in (hidden(51), hidden(1), hidden(6, Cause(_failed("F01", Weight.CONTRACT_BROKEN)))):
        assert "No money was lost or doubled in this run" not in told(made)
    broken = _failed("F01", Weight.CONTRACT_BROKEN)
    both = report(broken, unjudged(), causes=(Cause(broken), Cause(unjudged())))
    assert "No money was lost or doubled in this run" not in told(both)


def test_a_mistake_that_shows_everywhere_has_room_for_its_meaning(told: Told) -> None:
    """Its weight and what it means stand behind the first ids, and how many more there are."""
    many = [_failed(f"C{number:02}") for number in range(40)]
    whole = told(hidden(6, Cause(many[0], tuple(many[1:])), Cause(_failed("D01"), (_failed("D02"),))))
    assert "\n  C00, C01, C02 and 37 more (money lost): It is lost.\n  D01, D02 (money lost): It is lost.\n" in whole
    whole = told(report(*many, causes=(Cause(many[0], tuple(many[1:])),)))
    assert re.search(r"^  The same mistake fails C01, C02, .*, C12 and 27 more too\.$", whole, re.MULTILINE)


def test_what_was_supplied_and_failed_stands_on_the_first_screen(told: Told) -> None:
    """With the reason, whether anything failed or not."""
    whole = told(report(passed("A01"), undone("A09"), undone("B14")))
    assert whole.startswith("NOT FINISHED: what was supplied did not work, and 2 scenarios could not be tried.")
    reason = "What you supplied did not work, so A09, B14 could not be tried: the hook block ended with exit code 7:"
    assert reason in " ".join(whole.split())
    rambling, blind = _rambling(), unjudged("E01")
    causes = (*rambling.causes, Cause(blind))
    long = replace(rambling, verdicts=(*rambling.verdicts, blind, undone()), causes=causes, url="http://" + "x" * 60)
    lines = told(long).splitlines()
    assert "the hook block ended with exit code 7" in "\n".join(lines[:8])
    assert lines.index("", 8) <= 24
    assert "\nThen:\n  and 12 more (7 with money at risk): B02, " in "\n".join(lines[:24])


def test_groups_stand_by_their_letters(told: Told) -> None:
    """Wherever something failed."""
    assert re.findall(r"^│ ([A-H]) ", told(failing_report()), re.MULTILINE) == ["A", "B", "C", "D", "E", "F"]


def test_where_the_grounds_can_be_read_is_told_once(told: Told) -> None:
    """Below the failures that name them; a report without failures names none."""
    assert " ".join(told(failing_report()).split()).count("a note in docs/decisions of game-operator") == 1
    assert "docs/decisions" not in told(passing_report())


def test_no_signature_is_told(told: Told) -> None:
    """They are long, and they are in the files."""
    for made in (failing_report(), hostile_report(), large_report(wrong=True)):
        assert not re.search("Zx9Zx9", told(made))


def test_nothing_hides(told: Told) -> None:
    """Whatever a wallet, or somebody who names players, can choose is shown as its escape."""
    whole = told(hostile_report())
    assert not set("\x00\x1b\u202e\ufffe\r") & set(whole)
    assert r"\x1b" in whole
    assert whole.encode()


def test_a_passing_report(told: Told) -> None:
    """Advice, what was not tried and the load phase follow; nothing is called a failure."""
    whole = told(replace(passing_report(), latency=Latency((1.0,) * 99 + (450.0,), 1.0, 8)))
    assert whole.startswith("PASSED: ")
    assert "FAILED" not in whole
    assert "Load: 100 calls, 8 at once: p50 1 ms, p95 1 ms, p99 1 ms; 1 over 100 ms." in whole
    assert "; none over 100 ms." in told(replace(passing_report(), latency=Latency((1.0, 100.0), 1.0, 8)))
    assert "Not tried:" in whole


def test_what_cannot_be_judged_is_told_once(told: Told) -> None:
    """Sixty scenarios that see the same answer are named, and one is shown; but for those that say more."""
    hiding = hidden(60)
    cause = hiding.causes[0]
    also = replace(cause.others[0], notes=(*cause.others[0].notes, Note("and this too", Weight.ADVICE)))
    verdicts = [also if each.id == also.id else each for each in hiding.verdicts]
    whole = told(report(*verdicts, causes=(replace(cause, others=(also, *cause.others[1:])),)))
    assert re.findall(r"^(B\d\d) a withdraw sent again \(not judged\)$", whole, re.MULTILINE) == ["B01", "B02"]
    assert "Also: and this too" in whole
    assert "For the same reason B03, B04, B05, " in whole
    assert "B60 could not be judged." in whole


def test_a_reason_is_told_however_many_it_keeps_away(told: Told) -> None:
    """Of many that were not tried some ids are enough."""
    away = [replace(skipped(f"C{number:02}"), reason="the run was stopped", missing=()) for number in range(1, 61)]
    assert re.search(r"C01, .*, C12 and 48 more: the run was\s+stopped$", told(report(*away)), re.MULTILINE)


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
    assert "What you supplied did not work, so A09 could not be tried: " in " ".join(both.split())


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
    """Each with what it is for; without a page, a failing wallet is told how to get one."""
    show_report(failing_report(), {"--html": Path("r.html"), "--junit": Path("r.xml"), "--json-file": Path("r.json")})
    out = capsys.readouterr().out
    assert [line.partition(":")[0] for line in out.splitlines()[-3:]] == ["r.html", "r.xml", "r.json"]
    assert "Pass --html" not in out
    show_report(failing_report(), {})
    assert "Pass --html report.html" in capsys.readouterr().out
