"""
A report as JUnit XML, which CI systems show.

The first suite has the failures in the order in which to fix them. Then comes a suite for each group with its other
scenarios.
"""

from collections.abc import Iterable
from xml.etree.ElementTree import Element, SubElement, tostring

from game_operator.text import clean, iso_time
from game_operator_testkit.certifier.report.report import Report
from game_operator_testkit.certifier.report.shown import cut
from game_operator_testkit.certifier.report.summary import Summary, shown_calls
from game_operator_testkit.certifier.report.verdicts import Outcome, Verdict

__all__ = ["junit"]


def junit(report: Report) -> str:
    """
    Return *report* as a document of XML, to be written in UTF-8.

    A failure's message begins with the id of its cause. Advice is a case that passed, with what could be better as its
    output. What was not tried because something that was supplied did not work, or because somebody stopped the run, is
    an error, and is never taken for passed.
    """
    document, summary = Element("testsuites", name="game-operator certify"), Summary(report)
    failures = [each for cause in summary.causes for each in (cause.verdict, *cause.others) if each.failed]
    suites: dict[str, Iterable[Verdict]] = {"What to fix, in this order": failures} if failures else {}
    for group in summary.groups:
        if others := [each for each in group.verdicts if each not in failures]:
            suites[f"{group.letter} {group.name.lower()}"] = others
    for name, verdicts in suites.items():
        suite = SubElement(document, "testsuite", name=clean(name), timestamp=iso_time(report.began_millis))
        properties = SubElement(suite, "properties")
        for key, value in {"url": report.url, "run_id": report.run_id, "version": report.version}.items():
            SubElement(properties, "property", name=key, value=clean(value))
        suite.extend(_case(verdict, summary) for verdict in verdicts)
        _count(suite)
    _count(document)
    written: str = tostring(document, encoding="unicode")
    return written


def _case(verdict: Verdict, summary: Summary) -> Element:
    case = Element("testcase", name=clean(verdict.name), classname=clean(f"certify.{verdict.group}"))
    case.set("time", str(verdict.duration_ms / 1_000))
    reason = _cut(verdict.reason)
    if verdict.failed:
        failure = SubElement(case, "failure", message=_cut(summary.failure(verdict)), type=verdict.weight.value)
        failure.text = _told(verdict, summary)
    elif verdict.is_undone or verdict.is_stopped:
        SubElement(case, "error", message=reason)
    elif verdict.outcome is Outcome.SKIPPED:
        SubElement(case, "skipped", message=reason)
    elif verdict.is_advice:
        SubElement(case, "system-out").text = f"Advice: {reason}\n\n{_told(verdict, summary)}"
    return case


def _count(element: Element) -> None:
    """Give *element* the numbers that CI systems read without its cases."""
    cases = list(element.iter("testcase"))
    element.set("tests", str(len(cases)))
    for name, kind in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        element.set(name, str(sum(case.find(kind) is not None for case in cases)))
    element.set("time", str(round(sum(float(case.get("time", 0)) for case in cases), 3)))


def _told(verdict: Verdict, summary: Summary) -> str:
    return clean("\n\n".join([*summary.explanation(verdict), *shown_calls(verdict)]))


def _cut(text: str) -> str:
    return clean(cut(text))
