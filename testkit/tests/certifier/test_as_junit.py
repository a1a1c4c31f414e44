"""The report as JUnit XML, read by two parsers: what a CI system shows of each scenario."""

from dataclasses import replace
from xml.etree import ElementTree

import pytest
from junitparser import Error, Failure, JUnitXml, Skipped, TestCase, TestSuite

from game_operator_testkit.certifier.report.as_junit import junit
from game_operator_testkit.certifier.report.report import Report
from game_operator_testkit.certifier.report.verdicts import Note, Weight
from testkit.tests.certifier.reports import (
    URL,
    advised,
    failing_report,
    hostile_report,
    passing_report,
    report,
    skipped,
    undone,
)


def suites(given: Report) -> dict[str, TestSuite]:
    """Return the suites that a CI system reads, by their names."""
    # As bytes, as they lie in the file that it reads.
    return {str(suite.name): suite for suite in JUnitXml.fromstring(junit(given).encode())}


def cases(given: Report) -> dict[str, TestCase]:
    """Return all cases by the id of their scenario."""
    return {str(case.name).split()[0]: case for suite in suites(given).values() for case in suite}


def test_the_failures_come_first_and_then_each_group() -> None:
    """In the order in which to fix them, each once; a group without other scenarios is not there."""
    read = suites(failing_report())
    counted = {name: (each.tests, each.failures, each.skipped, each.errors) for name, each in read.items()}
    assert counted == {
        "What to fix, in this order": (4, 4, 0, 0),
        "A flows": (3, 0, 1, 0),
        "D many at once": (1, 0, 0, 0),
        "F hostile input": (1, 0, 0, 0),
    }
    first = read["What to fix, in this order"]
    assert [str(case.name).split()[0] for case in first] == ["B01", "B02", "C06", "E11"]
    assert [str(case.result[0].message).partition(": ")[0] for case in first] == ["B01", "B01", "C06", "E11"]
    assert first.time == 0.124
    assert first.timestamp == "2026-11-21T14:03:59.120Z"
    assert [each for each in suites(passing_report()) if each.startswith("What")] == []
    root = ElementTree.fromstring(junit(failing_report()).encode())
    properties = {each.get("name"): each.get("value") for each in root.iterfind("testsuite[1]/properties/property")}
    assert properties == {"url": URL, "run_id": "c7k2m9", "version": "1.0.0"}


def test_a_failure_says_what_it_costs_and_what_decided() -> None:
    """Weight and reason for the list; meaning, fix and the exchange for whoever opens it."""
    case = cases(failing_report())["B01"]
    (failure,) = case.result
    assert isinstance(failure, Failure)
    assert failure.type == "money doubled"
    assert str(failure.message).startswith("B01: The same withdraw of 5.00 was sent twice")
    text = failure.text or ""
    for part in (
        "What it means: Whenever an answer is lost",
        "How to fix it: Keep (operation, tx_id)",
        "It rests on: spec §3, decision 0014 (assumed)",
        "The exchange that decided: the same withdraw again: SUCCESS 90.00",
        "> POST /withdraw",
        "signature: [left out]",
        '"amount":500',
        "< 200",
        '"balance":90.00',
    ):
        assert part in text
    assert case.name == "B01 the same withdraw again"
    assert case.classname == "certify.B"
    assert case.time == 0.031


def test_a_failure_without_an_answer_shows_none() -> None:
    """Only what was sent, and of a long body the beginning."""
    (failure,) = cases(failing_report())["C06"].result
    assert "< 500" in (failure.text or "")
    lost = next(verdict for verdict in failing_report().verdicts if verdict.id == "E11")
    lost = replace(lost, notes=(replace(lost.notes[0], exchange=0), Note("It hangs twice.", Weight.CONTRACT_BROKEN)))
    (failure,) = cases(report(lost))["E11"].result
    text = failure.text or ""
    assert "\n< " not in text
    assert "Also: It hangs twice." in text
    assert "x" * 1_000 + "\n… and 64,536 more bytes" in text
    assert "x" * 1_001 not in text


def test_advice_passes_and_is_told() -> None:
    """A build must not break for it."""
    case = cases(passing_report())["F06"]
    assert case.is_passed
    assert "Advice: A withdraw with two amounts was answered SUCCESS 95.00." in (case.system_out or "")
    assert cases(passing_report())["A01"].system_out is None
    assert not cases(report(replace(advised(), weight=Weight.CONTRACT_BROKEN)))["F06"].is_passed


def test_a_skipped_scenario_says_why() -> None:
    """It has neither passed nor failed."""
    (skipped,) = cases(failing_report())["A09"].result
    assert isinstance(skipped, Skipped)
    assert skipped.message == "It needs a way to block a player: pass block=."


def test_what_was_supplied_and_failed_is_an_error() -> None:
    """Green would hide that a scenario which somebody wanted to be tried was not."""
    (error,) = cases(report(undone()))["A09"].result
    assert isinstance(error, Error)
    assert error.message == "the hook block ended with exit code 7: 'ann is unknown here'"
    (suite,) = suites(report(undone(), skipped("A11"))).values()
    assert (suite.errors, suite.skipped, suite.failures) == (1, 1, 0)


def test_hostile_bytes_are_data() -> None:
    """Every parser reads it, and no element comes from a wallet."""
    written = junit(hostile_report())
    root = ElementTree.fromstring(written.encode())
    tags = {"testsuites", "testsuite", "properties", "property", "testcase", "failure"}
    assert {element.tag for element in root.iter()} == tags
    (case,) = root.iter("testcase")
    assert "<script>window.ran = 1</script>" in (case.get("name") or "")
    text = root.findtext(".//failure") or ""
    assert "]]>" in text
    assert r"\x00\x1b[31m\u202e\ud800\ufffe" in text
    assert r"\xff\xfe" in text
    assert "\x1b" not in written


@pytest.mark.parametrize("letter", [chr(code) for code in (0, 8, 11, 27, 127, 133, 0xD800, 0xFFFE, 0xFFFF)])
def test_what_xml_may_not_hold_is_escaped(letter: str) -> None:
    """In a message, which is an attribute, and in a text."""
    verdict = advised()
    note = replace(verdict.notes[0], reason=letter, weight=Weight.MONEY_LOST)
    given = report(replace(verdict, reason=f"<{letter}>", means=letter, weight=Weight.MONEY_LOST, notes=(note,)))
    (failure,) = cases(given)["F06"].result
    assert failure.message == f"F06: <{letter.encode('unicode_escape').decode()}>"
