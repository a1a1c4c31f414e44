"""A report as JUnit XML, which CI systems show: a suite for each group, a case for each scenario."""

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import TYPE_CHECKING, Final

from game_operator.certify.report.report import Report
from game_operator.certify.report.verdicts import GROUPS, Exchange, Outcome, Verdict
from game_operator.errors import ConfigurationError
from game_operator.provider.text import body, clean, headers, iso_time

if TYPE_CHECKING:
    from junitparser import TestCase, TestSuite

__all__ = ["junit"]

_NAME: Final = "game-operator certify"
#: Of a body, and of the value of a header: CI systems show the text of a failure whole.
_SHOWN_BYTES: Final = 4_000


def junit(report: Report) -> str:
    """
    Return *report* as a document of XML, to be written in UTF-8.

    Advice is a case that passed, with what could be better as its output. What was not tried because something that was
    supplied did not work, or because somebody stopped the run, is an error, so that nobody takes it for passed.

    Raises:
        ConfigurationError: The extra ``certify`` is not installed.
    """
    try:
        from junitparser import JUnitXml
    except ImportError:
        raise ConfigurationError(
            'A report as JUnit needs the package junitparser. Install the extra: pip install "game-operator[certify]"'
        ) from None
    document = JUnitXml(_NAME)
    for group, verdicts in groupby(sorted(report.verdicts, key=lambda each: each.group), key=lambda each: each.group):
        document.add_testsuite(_suite(group, verdicts, report))
    # Neither has types, though the package says that it is typed.
    document.update_statistics()  # type: ignore[no-untyped-call]
    written: bytes = document.tostring()  # type: ignore[no-untyped-call]
    return written.decode()


def _suite(group: str, verdicts: Iterable[Verdict], report: Report) -> "TestSuite":
    from junitparser import TestSuite

    suite = TestSuite(clean(f"{group} {GROUPS.get(group, '')}".rstrip()))
    suite.timestamp = iso_time(report.began_millis)
    for name, value in (("url", report.url), ("run_id", report.run_id), ("version", report.version)):
        suite.add_property(name, clean(value))
    suite.add_testcases([_case(verdict) for verdict in verdicts])
    return suite


def _case(verdict: Verdict) -> "TestCase":
    from junitparser import Error, Failure, Skipped, TestCase

    case = TestCase(clean(verdict.name), clean(f"certify.{verdict.group}"), verdict.duration_ms / 1_000)
    reason = clean(verdict.reason)
    if verdict.failed:
        failure = Failure(reason, verdict.weight.value)
        failure.text = _told(verdict)
        case.result = failure
    elif verdict.is_undone or verdict.is_stopped:
        case.result = Error(reason)
    elif verdict.outcome is Outcome.SKIPPED:
        case.result = Skipped(reason)
    elif verdict.is_advice:
        case.system_out = f"Advice: {reason}\n\n{_told(verdict)}"
    return case


def _told(verdict: Verdict) -> str:
    return "\n\n".join(_paragraphs(verdict))


def _paragraphs(verdict: Verdict) -> Iterator[str]:
    for note in verdict.notes[1:]:
        yield f"Also: {clean(note.reason)}"
    yield f"What it means: {clean(verdict.means)}"
    yield f"How it is usually mended: {clean(verdict.mend)}"
    yield f"It rests on: {clean(', '.join(verdict.rests_on))}{' (assumed)' if verdict.is_assumed else ''}"
    if verdict.decisive is not None:
        yield from _exchange(verdict.decisive)


def _exchange(exchange: Exchange) -> Iterator[str]:
    yield f"The exchange that decided: {clean(exchange.title)}: {clean(exchange.told)}"
    yield _message(
        f"> {exchange.method} {exchange.path}",
        headers(exchange.request_headers, longest=_SHOWN_BYTES),
        exchange.request_body,
    )
    if exchange.status:
        yield _message(
            f"< {exchange.status}", headers(exchange.answer_headers, longest=_SHOWN_BYTES), exchange.answer_body
        )


def _message(first: str, head: str, data: bytes) -> str:
    return f"{clean(first)}\n{head}\n\n{body(data, longest=_SHOWN_BYTES)}".rstrip()
