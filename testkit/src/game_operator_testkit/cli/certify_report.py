"""
What a certification would play, and what came of it, for people at a terminal.

A report's first screen is for somebody who has never seen this project: which money is at risk, and what to change.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Final

from game_operator.cli.output import answer, counted, say, say_wrapped, show_rows
from game_operator.profile import Profile
from game_operator.text import money
from game_operator_testkit.certifier.engine.scenario import Scenario
from game_operator_testkit.certifier.engine.supplies import Supplies, at_hand, missing_by_options, missing_told
from game_operator_testkit.certifier.report.comparison import Change, Comparison
from game_operator_testkit.certifier.report.report import Cause, Moved, Report
from game_operator_testkit.certifier.report.summary import Summary, by_reason
from game_operator_testkit.certifier.report.verdicts import GROUPS, Verdict
from game_operator_testkit.certifier.selection import in_playing_order, selected
from game_operator_testkit.cli.fix_first import show_fix_first
from game_operator_testkit.provider.latency import MARKS_MS

#: On the first screen, so that it is one: lines of a sentence, and mistakes that have a line of their own.
_LINES: Final = 3
_CAUSES: Final = 4
#: Lines of the summary; where it has more, fewer mistakes have a line.
_SUMMARY: Final = 4
#: Ids that are named before a meaning, or as the whole of a line.
_FEW, _MANY = 3, 12
#: Of a body, in bytes; a line or two of it are shown.
_BODY: Final = 400
_BALANCE: Final = "/player-balance"
_PERCENTS: Final = (50, 95, 99)
#: Where what a scenario rests on can be read, for somebody who has only what is printed.
_GROUNDS: Final = (
    "spec: a section of the provider's specification. decision: a note in docs/decisions of game-operator, on what the "
    "specification leaves open; it is assumed, so ask your provider."
)
_FILES: Final = {
    "--html": "{file}: a page with the calls that matter, each with a command that sends it again.",
    "--json-file": "{file}: the same for programs.",
    "--junit": "{file}: the same for a CI system.",
    "--badge": "{file}: a badge.",
    "--summary": "{file}: a summary in Markdown, appended.",
}


def show_plan(only: Iterable[str], skip: Iterable[str], supplies: Supplies, profile: Profile) -> None:
    """Print the chosen scenarios by stage and group, and which of them could not be tried."""
    chosen = in_playing_order(selected(only, skip))
    there = at_hand(supplies, profile, on_wire=True)
    missing = {each.id: tuple(name for name in each.needs if name not in there) for each in chosen}
    not_tried = sum(map(bool, missing.values()))
    counts = {"scenarios": len(chosen), "played": len(chosen) - not_tried, "not_tried": not_tried}
    weights = Counter(str(each.weight) for each in sorted(chosen, key=lambda each: each.weight.rank))
    names = ("id", "group", "stage", "title", "weight", "rests_on", "means", "fix", "needs")
    planned = [
        {name: getattr(each, name) for name in names}
        | {"missing": missing[each.id], "reason": missing_told(missing[each.id]) if missing[each.id] else ""}
        for each in chosen
    ]
    answer({"counts": {**counts, "weights": weights}, "scenarios": planned})
    for stage, staged in groupby(chosen, key=lambda each: each.stage):
        say(f"{stage.capitalize()}:", style="bold")
        for group, grouped in groupby(staged, key=lambda each: each.group):
            say(f"  {group} {GROUPS[group]}")
            for each in grouped:
                _show_planned(each, missing[each.id])
    say_wrapped(
        f"{counted(len(chosen), 'scenario')}: {counts['played']} can be played, {not_tried} "
        f"cannot. What a failure costs: {', '.join(f'{count} {weight}' for weight, count in weights.items())}. "
        "Nothing was sent."
    )
    say_wrapped(_GROUNDS, style="dim")
    say_wrapped(
        "A few learn only from the wallet's answers that they cannot be tried on it; they are then skipped as well."
    )


def _show_planned(scenario: Scenario, missing: tuple[str, ...]) -> None:
    indent = " " * 9
    about = f"{scenario.title} ({scenario.weight}; {', '.join(scenario.rests_on)})"
    say_wrapped(about, first=f"    {scenario.id}  ", indent=indent)
    if missing:
        say_wrapped(f"not tried: {missing_by_options(missing)}", indent=indent, first=indent, style="yellow")
    elif scenario.needs:
        say_wrapped(f"with {', '.join(scenario.needs)}", indent=indent, first=indent, style="dim")


def show_report(report: Report, files: Mapping[str, Path], comparison: Comparison | None = None) -> None:
    """Print *report* and its *comparison*; *files* are those that it was written to, by their options."""
    summary = Summary(report)
    lines = _show_summary(summary) + _show_comparison(comparison)
    if summary.causes:
        _show_first(summary)
        _show_others(summary.causes[1:], rows=max(1, _CAUSES - max(0, lines - _SUMMARY)))
    say("")
    headings = ("group", "passed", "failed", "advice", "not tried")
    outcomes = ("passed", "failed", "advice", "skipped")
    rows = [[f"{each.letter} {each.name}", *(each.counts[name] or "-" for name in outcomes)] for each in summary.groups]
    show_rows("", headings, rows, numbers=headings[1:])
    if report.failures:
        _show_failures(summary.causes)
        say_wrapped(_GROUNDS, style="dim")
    if report.advice:
        _show_heading("Could be better; none of it makes a wallet fail:")
    for verdict in report.advice:
        for note in verdict.notes:
            say_wrapped(f"{verdict.name}: {note.reason}", first="  ", indent="      ")
    reasons = by_reason(report.skipped)
    if reasons:
        _show_heading("Not tried:")
    for reason, skipped in reasons.items():
        text = missing_by_options(skipped[0].missing) if skipped[0].missing else reason
        say_wrapped(f"{_ids(skipped, _MANY)}: {text}", first="  ", indent="      ", most=_LINES)
    if comparison is not None:
        _show_changes(comparison)
    _show_figures(report)
    for option, path in files.items():
        say_wrapped(_FILES[option].format(file=path))
    if "--html" not in files and not summary.is_fine:
        say_wrapped("Pass --html report.html for a page with the calls, each with a command that sends it again.")


def _show_heading(text: str, style: str = "bold") -> None:
    say("")
    say(text, style=style)


# The first screen.


def _show_summary(summary: Summary) -> int:
    """Print how it ended, in so many lines as are returned."""
    report = summary.report
    first, colon, rest = summary.headline.partition(":")
    headline = f"{first.upper()}{colon}{rest}" if colon else first
    counts = {
        "passed": summary.passed,
        "failed": len(report.failures),
        "could be better": len(report.advice),
        "not tried": len(report.skipped),
    }
    ended = ", ".join(f"{count} {what}" for what, count in counts.items() if count)
    calls = f"{report.calls:,} calls in {report.seconds:.1f} s"
    sentences = [
        (headline, "bold green" if summary.is_fine else "bold red"),
        (f"{report.url}: of {counted(len(report.verdicts), 'scenario')}, {ended}; {calls}.", ""),
        (summary.urgency, ""),
    ]
    if stopped := summary.stopped:
        was = "was" if len(stopped) == 1 else "were"
        text = f"The run was stopped, so {_ids(stopped, _FEW)} {was} not tried to the end."
        sentences.append((text, "bold red"))
    if undone := summary.undone:  # What it hides has not passed.
        reason, *others = by_reason(undone)
        more = f" (and {len(others)} more)" if others else ""
        text = f"What you supplied did not work, so {_ids(undone, _FEW)} could not be tried{more}: {reason}"
        sentences.append((text, "bold red"))
    return sum(say_wrapped(sentence, style=style, most=2) for sentence, style in sentences if sentence)


def _show_comparison(comparison: Comparison | None) -> int:
    """Print what the comparison comes to, in so many lines as are returned."""
    if comparison is None:
        return 0
    style = "bold green" if comparison.passed else "bold red"
    return say_wrapped(f"{comparison.headline} ({comparison.summary_line})", style=style, most=2)


def _show_first(summary: Summary) -> None:
    """Say what is at risk by the first cause, how to fix it, and by which exchange it is known."""
    first = summary.causes[0]
    verdict = first.verdict
    say("")
    show_fix_first(
        risk=verdict.weight if verdict.weight.is_money else "",
        means=summary.meaning(first),
        fix=first.fix,
        seen=f"{verdict.name}: {verdict.reason}",
    )
    _show_exchange(verdict, most=2)
    if first.others:
        say_wrapped(f"The same mistake fails {_ids(first.others, _MANY)} too.", first="  ", indent="  ", most=1)


def _show_others(causes: Sequence[Cause], *, rows: int) -> None:
    if not causes:
        return
    say("Then:")
    shown = causes if len(causes) <= rows else causes[: rows - 1]
    for cause in shown:
        text = f"{_ids((cause.verdict, *cause.others), _FEW)} ({cause.verdict.cost}): {cause.means}"
        say_wrapped(text, first="  ", indent="      ", most=1)
    if left := causes[len(shown) :]:
        at_risk = sum(cause.verdict.weight.is_money for cause in left)
        risk = f" ({at_risk} with money at risk)" if at_risk else ""
        text = f"and {len(left)} more{risk}: {_ids([each.verdict for each in left], _MANY)}"
        say_wrapped(text, first="  ", most=1)


def _show_exchange(verdict: Verdict, *, most: int) -> None:
    """Print what was sent and answered, in *most* lines each; no headers, for a signature is among them."""
    exchange = verdict.decisive
    if exchange is None:  # The last call before the balance that was found wrong.
        exchange = next((each for each in reversed(verdict.exchanges) if each.path != _BALANCE), None)
    if exchange is None:
        return
    sent = _shortened(exchange.request_body, exchange.request_bytes)
    say_wrapped(f"{exchange.method} {exchange.path} {sent}", first="    > ", indent="      ", most=most, anywhere=True)
    text = exchange.problem
    if exchange.status:
        answered = _shortened(exchange.answer_body, len(exchange.answer_body))
        text = f"HTTP {exchange.status}, {exchange.elapsed_ms:.0f} ms: {answered}"
    say_wrapped(text, first="    < ", indent="      ", most=most, anywhere=True)


def _shortened(body: bytes, length: int) -> str:
    text = body[:_BODY].decode(errors="backslashreplace")
    return text if length <= _BODY else f"{text} … ({length:,} bytes)"


# What follows it.


def _show_failures(causes: Iterable[Cause]) -> None:
    """Print each failure, those of one mistake together."""
    _show_heading("Failed:", style="bold red")
    for cause in causes:
        # Of one that says no more than the first, the id is enough.
        alike = [each for each in cause.others if cause.verdict.is_unjudged and each.is_unjudged and not each.notes[1:]]
        for verdict in (cause.verdict, *cause.others):
            if verdict.failed and verdict not in alike:
                _show_failure(verdict, is_first=verdict is cause.verdict)
        if alike:
            say_wrapped(f"For the same reason {_ids(alike)} could not be judged.", first="  ", indent="  ")


def _show_failure(verdict: Verdict, *, is_first: bool) -> None:
    say_wrapped(f"{verdict.name} ({verdict.cost})", indent="  ", style="bold")
    say_wrapped(verdict.reason, first="  ", indent="  ")
    for note in verdict.notes[1:]:
        say_wrapped(f"Also: {note.reason}", first="  ", indent="  ")
    _show_exchange(verdict, most=4)
    if is_first:
        say_wrapped(f"What it means: {verdict.means}", first="  ", indent="  ")
        say_wrapped(f"How to fix it: {verdict.fix}", first="  ", indent="  ")
    assumed = " (assumed)" if verdict.is_assumed else ""
    say_wrapped(f"It rests on {', '.join(verdict.rests_on)}{assumed}.", first="  ", indent="  ", style="dim")


def _show_changes(comparison: Comparison) -> None:
    _show_heading("Compared with the baseline:")
    for kind, changes in comparison.groups.items():
        for change in () if changes is comparison.not_compared else changes:
            say_wrapped(f"{kind}: {change.name} ({change.weight})", first="  ", indent="      ", most=_LINES)
    alike: defaultdict[tuple[str, str], list[Change]] = defaultdict(list)
    for change in comparison.not_compared:
        alike[change.was, change.reason].append(change)
    for (was, reason), several in alike.items():
        names = several[0].name if len(several) == 1 else _ids(several, _MANY)
        say_wrapped(f"not compared: {names} ({was} before): {reason}", first="  ", indent="      ", most=_LINES)
    for remark in comparison.remarks:
        say_wrapped(remark, first="  ", indent="      ")


def _show_figures(report: Report) -> None:
    say("")
    if (latency := report.latency) is not None and latency.samples_ms:
        percentiles = ", ".join(f"p{percent} {latency.percentile_ms(percent):.0f} ms" for percent in _PERCENTS)
        late = " and ".join(f"{count} over {mark} ms" for mark, count in latency.late) or f"none over {MARKS_MS[0]} ms"
        text = f"Load: {len(latency.samples_ms):,} calls, {latency.concurrency} at once: {percentiles}; {late}."
        say_wrapped(text, indent="  ")
    for moved in report.moved:
        say_wrapped(_moved(moved), indent="  ")
    say_wrapped(f"All ids of this run begin with {report.run_id}.")


def _moved(moved: Moved) -> str:
    before, after = ("unknown" if cents is None else money(cents) for cents in (moved.before_cents, moved.after_cents))
    if moved.difference_cents == 0:
        return f"{moved.player_id} has {after}, as before."
    text = f"{moved.player_id} had {before} and has {after}"
    if moved.difference_cents is None:
        return f"{text}. Look into the account before the next run: by the ids below, what was moved can be found."
    return f"{text}: the wallet did not let the run put it back. Set it right before the next run."


def _ids(verdicts: Iterable[Verdict | Change], most: int | None = None) -> str:
    """Return ids, of many the first *most*; one more is named where its place would be taken by how many there are."""
    ids = [verdict.id for verdict in verdicts]
    if most is None or len(ids) <= most + 1:
        return ", ".join(ids)
    return f"{', '.join(ids[:most])} and {len(ids) - most} more"
