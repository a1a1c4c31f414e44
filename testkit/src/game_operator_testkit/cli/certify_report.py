"""
What came of a certification, for people at a terminal.

It begins for somebody who has never seen this project: which money is at risk, and what to fix, in which order.
"""

import shutil
from collections.abc import Mapping
from pathlib import Path
from textwrap import wrap

from game_operator.cli.output import counted, say, show_rows, visible
from game_operator_testkit.certifier.engine.supplies import options_for
from game_operator_testkit.certifier.report.comparison import Comparison
from game_operator_testkit.certifier.report.report import Cause, Report
from game_operator_testkit.certifier.report.shown import shown_notes
from game_operator_testkit.certifier.report.summary import Summary, balance_in_words, deciding_exchange, ids_in_words
from game_operator_testkit.certifier.report.verdicts import Verdict

#: The columns of sentences.
_LEAST, _MOST = 40, 100


def show_report(report: Report, files: Mapping[str, Path], comparison: Comparison | None = None) -> None:
    """Print *report* and its *comparison*; *files* are those that it was written to, by their options."""
    summary = Summary(report)
    _show_summary(summary)
    if comparison is not None:
        _show_comparison(comparison)
    if summary.causes:
        say("")
        say(f"{summary.heading}:", style="bold")
    for number, cause in enumerate(summary.causes, start=1):
        _show_cause(number, cause, summary)
    say("")
    headings = ("group", "passed", "failed", "advice", "not tried")
    outcomes = ("passed", "failed", "advice", "skipped")
    rows = [[f"{each.letter} {each.name}", *(each.counts[name] or "-" for name in outcomes)] for each in summary.groups]
    show_rows("", headings, rows, numbers=headings[1:])
    for cause in report.causes:
        if cause.verdict.is_advice:
            _show_advice(cause)
    if report.skipped:
        _tell(_not_tried(report), indent="  ")
    if summary.load:
        _tell(summary.load, indent="  ")
    for moved in report.moved:
        _tell(balance_in_words(moved), indent="  ")
    _tell(summary.left)
    if files:
        _tell(f"Written: {', '.join(map(str, files.values()))}.")
    if "--html" not in files and not summary.is_fine:
        _tell("Pass --html report.html for a page with the calls, each with a command that sends it again.")


def _show_summary(summary: Summary) -> None:
    report = summary.report
    first, colon, rest = summary.headline.partition(":")
    headline = f"{first.upper()}{colon}{rest}" if colon else first
    ended = ", ".join(f"{count} {what}" for what, count in summary.counts.items() if count)
    calls = f"{report.calls:,} calls in {report.seconds:.1f} s"
    _tell(headline, style="bold green" if summary.is_fine else "bold red", most=2)
    _tell(f"{report.url}: of {counted(len(report.verdicts), 'scenario')}, {ended}; {calls}.", most=2)
    if summary.urgency:
        _tell(summary.urgency, most=2)
    for remark in summary.remarks:  # What they hide has not passed.
        _tell(remark, style="bold red", most=2)


def _show_comparison(comparison: Comparison) -> None:
    style = "bold green" if comparison.passed else "bold red"
    _tell(f"Compared with the baseline: {comparison.summary_line}.", style=style)
    for change in comparison.changes:
        name = f"{change.id} {change.title}".rstrip()
        was = "" if change.before == change.now else f"{change.before}, now "
        _tell(f"{change.kind}: {name} ({was}{change.now})", first="  ", indent="    ", most=2)
    for remark in comparison.remarks:
        _tell(remark, first="  ", indent="    ")


def _show_cause(number: int, cause: Cause, summary: Summary) -> None:
    """Say what is wrong, by which exchange it is known, what it means and how to fix it."""
    verdict, indent = cause.verdict, "   "
    _tell(f"{number}. {summary.failure(verdict)} ({verdict.cost})", indent=indent, style="bold")
    _show_exchange(verdict)
    for paragraph in summary.explanation(verdict):
        _tell(paragraph, first=indent, indent=indent)
    if others := [each for each in cause.others if each.failed]:
        _tell(f"The same mistake fails {ids_in_words(others)} too.", first=indent, indent=indent)


def _show_advice(cause: Cause) -> None:
    """Say what could be better: one mistake wherever it shows, or each thing that a scenario notes."""
    if cause.mistake is None:
        for note in shown_notes(cause.verdict):
            _tell(f"Advice: {cause.verdict.name}: {note.reason}", indent="  ")
        return
    where = ids_in_words((cause.verdict, *cause.others))
    _tell(f"Advice: {cause.title} ({where}). {cause.verdict.reason}. {cause.fix}", indent="  ")


def _show_exchange(verdict: Verdict) -> None:
    """Print what was sent and answered, in two lines each; no headers."""
    exchange = deciding_exchange(verdict)
    if exchange is None:
        return
    sent = f"{exchange.method} {exchange.path} {_text(exchange.request_body)}"
    answered = f"HTTP {exchange.status}, {exchange.elapsed_ms:.0f} ms: {_text(exchange.answer_body)}"
    room = _columns() - 6
    for mark, text in ((">", sent), ("<", answered if exchange.status else exchange.problem)):
        line = visible(text)
        say(f"   {mark} {line[:room]}")
        if len(line) > room:
            say(f"     {line[room : 2 * room]}{'…' if len(line) > 2 * room else ''}")


def _text(body: bytes) -> str:
    return body[: 2 * _MOST].decode(errors="backslashreplace")


def _not_tried(report: Report) -> str:
    """Return how many scenarios were not tried, how many of these a stop is the reason for, and what tries others."""
    stopped = sum(verdict.is_stopped for verdict in report.skipped)
    told = counted(len(report.skipped), "scenario") + " not tried"
    told += f", {stopped} of them because the run was stopped" if stopped else ""
    if options := options_for([name for verdict in report.skipped for name in verdict.missing]):
        return f"{told}. Options that try more: {', '.join(options)}."
    return f"{told}." if stopped else f"{told}. A report file says why."


def _columns() -> int:
    return max(_LEAST, min(_MOST, shutil.get_terminal_size((_MOST, 24)).columns))


def _tell(text: str, *, first: str = "", indent: str = "", style: str = "", most: int | None = None) -> None:
    """Print *text* in lines, the first of them behind *first* and the others behind *indent*, at *most* so many."""
    lines = wrap(
        visible(text),
        _columns(),
        initial_indent=first,
        subsequent_indent=indent,
        max_lines=most,
        placeholder=" …",
        break_on_hyphens=False,
    )
    for line in lines:
        say(line, style=style)
