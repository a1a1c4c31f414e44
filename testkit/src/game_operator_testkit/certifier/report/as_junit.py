"""A report as JUnit XML, which CI systems show: a suite for each group, a case for each scenario."""

from xml.etree.ElementTree import Element, SubElement, tostring

from game_operator.protocol.http import HeaderPairs
from game_operator.text import body, clean, headers, iso_time
from game_operator_testkit.certifier.report.comparison import Comparison
from game_operator_testkit.certifier.report.extent import Extent, fitting, shown_notes
from game_operator_testkit.certifier.report.report import Report
from game_operator_testkit.certifier.report.summary import Summary
from game_operator_testkit.certifier.report.verdicts import GROUPS, Outcome, Verdict

__all__ = ["junit"]


def junit(report: Report, comparison: Comparison | None = None) -> str:
    """
    Return *report*, with its *comparison* if there is one, as a document of XML, to be written in UTF-8.

    Advice is a case that passed, with what could be better as its output. What was not tried because something that was
    supplied did not work, or because somebody stopped the run, is an error, and is never taken for passed.
    """
    return fitting(lambda extent: _document(report, comparison, extent))[1]


def _document(report: Report, comparison: Comparison | None, extent: Extent) -> str:
    document = Element("testsuites", name="game-operator certify")
    for group in Summary(report).groups:
        suite = SubElement(document, "testsuite", name=clean(f"{group.letter} {GROUPS.get(group.letter, '')}".rstrip()))
        suite.set("timestamp", iso_time(report.began_millis))
        properties = SubElement(suite, "properties")
        told = {} if comparison is None else {"comparison": comparison.summary_line}
        for name, value in ({"url": report.url, "run_id": report.run_id, "version": report.version} | told).items():
            SubElement(properties, "property", name=name, value=clean(value))
        suite.extend(_case(verdict, extent) for verdict in report.of_group(group.letter))
        _count(suite)
    _count(document)
    written: str = tostring(document, encoding="unicode")
    return written


def _case(verdict: Verdict, extent: Extent) -> Element:
    case = Element("testcase", name=clean(verdict.name), classname=clean(f"certify.{verdict.group}"))
    case.set("time", str(verdict.duration_ms / 1_000))
    reason = _cut(verdict.reason, extent)
    if verdict.failed:
        SubElement(case, "failure", message=reason, type=verdict.weight.value).text = _told(verdict, extent)
    elif verdict.is_undone or verdict.is_stopped:
        SubElement(case, "error", message=reason)
    elif verdict.outcome is Outcome.SKIPPED:
        SubElement(case, "skipped", message=reason)
    elif verdict.is_advice:
        SubElement(case, "system-out").text = f"Advice: {reason}\n\n{_told(verdict, extent)}"
    return case


def _count(element: Element) -> None:
    """Give *element* the numbers that CI systems read without its cases."""
    cases = list(element.iter("testcase"))
    element.set("tests", str(len(cases)))
    for name, kind in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        element.set(name, str(sum(case.find(kind) is not None for case in cases)))
    element.set("time", str(round(sum(float(case.get("time", 0)) for case in cases), 3)))


def _told(verdict: Verdict, extent: Extent) -> str:
    notes = shown_notes(verdict, extent)
    paragraphs = [
        *(f"Also: {_cut(note.reason, extent)}" for note in notes[1:]),
        *([f"… and {left_out} more"] if (left_out := len(verdict.notes) - len(notes)) else []),
        f"What it means: {_cut(verdict.means, extent)}",
        f"How to fix it: {_cut(verdict.fix, extent)}",
        f"It rests on: {clean(', '.join(verdict.rests_on))}{' (assumed)' if verdict.is_assumed else ''}",
    ]
    exchange = verdict.decisive
    if exchange is not None:
        request = f"> {exchange.method} {exchange.path}"
        paragraphs.append(f"The exchange that decided: {clean(exchange.title)}: {clean(exchange.told)}")
        paragraphs.append(_message(request, exchange.request_headers, exchange.request_body, extent))
        if exchange.status:
            answered = _message(f"< {exchange.status}", exchange.answer_headers, exchange.answer_body, extent)
            paragraphs.append(answered)
    return "\n\n".join(paragraphs)


def _message(first: str, pairs: HeaderPairs, data: bytes, extent: Extent) -> str:
    head = headers(pairs[: extent.headers], longest=extent.header_bytes)
    return f"{clean(first)}\n{head}\n\n{body(data, longest=extent.body_bytes)}".rstrip()


def _cut(text: str, extent: Extent) -> str:
    return clean(text if len(text) <= extent.text else f"{text[: extent.text]}…")
