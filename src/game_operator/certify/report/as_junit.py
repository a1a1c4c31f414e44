"""A report as JUnit XML, which CI systems show: a suite for each group, a case for each scenario."""

from typing import Final
from xml.etree.ElementTree import Element, SubElement, tostring

from game_operator.certify.report.report import Report
from game_operator.certify.report.summary import Summary
from game_operator.certify.report.verdicts import GROUPS, Outcome, Verdict
from game_operator.protocol.http import HeaderPairs
from game_operator.provider.text import body, clean, headers, iso_time

__all__ = ["junit"]

#: Of a body, and of the value of a header: CI systems show the text of a failure whole.
_SHOWN_BYTES: Final = 4_000


def junit(report: Report) -> str:
    """
    Return *report* as a document of XML, to be written in UTF-8.

    Advice is a case that passed, with what could be better as its output. What was not tried because something that was
    supplied did not work, or because somebody stopped the run, is an error, and is never taken for passed.
    """
    document = Element("testsuites", name="game-operator certify")
    for group in Summary(report).groups:
        suite = SubElement(document, "testsuite", name=clean(f"{group.letter} {GROUPS.get(group.letter, '')}".rstrip()))
        suite.set("timestamp", iso_time(report.began_millis))
        properties = SubElement(suite, "properties")
        for name, value in (("url", report.url), ("run_id", report.run_id), ("version", report.version)):
            SubElement(properties, "property", name=name, value=clean(value))
        suite.extend(map(_case, report.of_group(group.letter)))
        _count(suite)
    _count(document)
    written: str = tostring(document, encoding="unicode")
    return written


def _case(verdict: Verdict) -> Element:
    case = Element("testcase", name=clean(verdict.name), classname=clean(f"certify.{verdict.group}"))
    case.set("time", str(verdict.duration_ms / 1_000))
    reason = clean(verdict.reason)
    if verdict.failed:
        SubElement(case, "failure", message=reason, type=verdict.weight.value).text = _told(verdict)
    elif verdict.is_undone or verdict.is_stopped:
        SubElement(case, "error", message=reason)
    elif verdict.outcome is Outcome.SKIPPED:
        SubElement(case, "skipped", message=reason)
    elif verdict.is_advice:
        SubElement(case, "system-out").text = f"Advice: {reason}\n\n{_told(verdict)}"
    return case


def _count(element: Element) -> None:
    """Give *element* the numbers that CI systems read without its cases."""
    cases = list(element.iter("testcase"))
    element.set("tests", str(len(cases)))
    for name, kind in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        element.set(name, str(sum(case.find(kind) is not None for case in cases)))
    element.set("time", str(round(sum(float(case.get("time", 0)) for case in cases), 3)))


def _told(verdict: Verdict) -> str:
    paragraphs = [
        *(f"Also: {clean(note.reason)}" for note in verdict.notes[1:]),
        f"What it means: {clean(verdict.means)}",
        f"How to fix it: {clean(verdict.mend)}",
        f"It rests on: {clean(', '.join(verdict.rests_on))}{' (assumed)' if verdict.is_assumed else ''}",
    ]
    exchange = verdict.decisive
    if exchange is not None:
        request = f"> {exchange.method} {exchange.path}"
        paragraphs.append(f"The exchange that decided: {clean(exchange.title)}: {clean(exchange.told)}")
        paragraphs.append(_message(request, exchange.request_headers, exchange.request_body))
        if exchange.status:
            paragraphs.append(_message(f"< {exchange.status}", exchange.answer_headers, exchange.answer_body))
    return "\n\n".join(paragraphs)


def _message(first: str, pairs: HeaderPairs, data: bytes) -> str:
    head = headers(pairs, longest=_SHOWN_BYTES)
    return f"{clean(first)}\n{head}\n\n{body(data, longest=_SHOWN_BYTES)}".rstrip()
