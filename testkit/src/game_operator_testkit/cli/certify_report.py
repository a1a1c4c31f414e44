"""
What a certification would play, and what came of it, for people at a terminal.

A report begins for somebody who has never seen this project: which money is at risk, and what to fix, in which order.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import groupby
from pathlib import Path
from typing import Final

from game_operator.cli.output import answer, counted, say, say_wrapped, show_rows
from game_operator.profile import Profile
from game_operator.text import money
from game_operator_testkit.certifier.engine.scenario import Scenario
from game_operator_testkit.certifier.engine.supplies import (
    Supplies,
    at_hand,
    missing_by_options,
    missing_told,
    options_for,
)
from game_operator_testkit.certifier.report.comparison import Comparison
from game_operator_testkit.certifier.report.report import Cause, Moved, Report
from game_operator_testkit.certifier.report.shown import shown_notes
from game_operator_testkit.certifier.report.summary import Summary, by_reason
from game_operator_testkit.certifier.report.verdicts import GROUPS, Verdict
from game_operator_testkit.certifier.selection import in_playing_order, selected
from game_operator_testkit.provider.latency import MARKS_MS

#: Ids that are named in a line.
_IDS: Final = 12
#: Of a body, in bytes; two lines of it are shown.
_BODY: Final = 400
_BALANCE: Final = "/player-balance"
_PERCENTS: Final = (50, 95, 99)
_FILES: Final = {
    "--html": "{file}: a page with the calls that matter, each with a command that sends it again.",
    "--json-file": "{file}: the same for programs.",
    "--junit": "{file}: the same for a CI system.",
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
    _show_summary(summary)
    if comparison is not None:
        _show_comparison(comparison)
    if summary.causes:
        say("")
        say("What to fix, in this order:", style="bold")
    for number, cause in enumerate(summary.causes, start=1):
        _show_cause(number, cause, summary)
    say("")
    headings = ("group", "passed", "failed", "advice", "not tried")
    outcomes = ("passed", "failed", "advice", "skipped")
    rows = [[f"{each.letter} {each.name}", *(each.counts[name] or "-" for name in outcomes)] for each in summary.groups]
    show_rows("", headings, rows, numbers=headings[1:])
    for verdict in report.advice:
        for note in shown_notes(verdict):
            say_wrapped(f"Advice: {verdict.name}: {note.reason}", indent="  ")
    if report.skipped:
        say_wrapped(_not_tried(report), indent="  ")
    _show_figures(report)
    for option, path in files.items():
        say_wrapped(_FILES[option].format(file=path))
    if "--html" not in files and not summary.is_fine:
        say_wrapped("Pass --html report.html for a page with the calls, each with a command that sends it again.")


def _show_summary(summary: Summary) -> None:
    report = summary.report
    first, colon, rest = summary.headline.partition(":")
    headline = f"{first.upper()}{colon}{rest}" if colon else first
    ended = ", ".join(f"{count} {what}" for what, count in summary.counts.items() if count)
    calls = f"{report.calls:,} calls in {report.seconds:.1f} s"
    say_wrapped(headline, style="bold green" if summary.is_fine else "bold red", most=2)
    say_wrapped(f"{report.url}: of {counted(len(report.verdicts), 'scenario')}, {ended}; {calls}.", most=2)
    if summary.urgency:
        say_wrapped(summary.urgency, most=2)
    if stopped := summary.stopped:
        was = "was" if len(stopped) == 1 else "were"
        say_wrapped(f"The run was stopped, so {_ids(stopped)} {was} not tried to the end.", style="bold red", most=2)
    for reason, undone in by_reason(summary.undone).items():  # What it hides has not passed.
        text = f"What you supplied did not work, so {_ids(undone)} could not be tried: {reason}"
        say_wrapped(text, style="bold red", most=2)


def _show_comparison(comparison: Comparison) -> None:
    style = "bold green" if comparison.passed else "bold red"
    say_wrapped(comparison.headline, style=style, most=2)
    for kind, changes in comparison.groups.items():
        for change in changes:
            was = "" if change.before == change.now else f"{change.before}, now "
            say_wrapped(f"{kind}: {change.name} ({was}{change.now})", first="  ", indent="    ", most=2)
    for remark in comparison.remarks:
        say_wrapped(remark, first="  ", indent="    ")


def _show_cause(number: int, cause: Cause, summary: Summary) -> None:
    """Say what is wrong, by which exchange it is known, what it means and how to fix it."""
    verdict, indent = cause.verdict, "   "
    say_wrapped(f"{number}. {summary.failure(verdict)} ({verdict.cost})", indent=indent, style="bold")
    for note in shown_notes(verdict)[1:]:
        say_wrapped(f"Also: {note.reason}", first=indent, indent=indent)
    _show_exchange(verdict)
    say_wrapped(f"What it means: {summary.meaning(cause)}", first=indent, indent=indent, style="red")
    say_wrapped(f"How to fix it: {cause.fix}", first=indent, indent=indent, style="bold")
    assumed = " (assumed)" if verdict.is_assumed else ""
    say_wrapped(f"It rests on {', '.join(verdict.rests_on)}{assumed}.", first=indent, indent=indent, style="dim")
    if others := [each for each in cause.others if each.failed]:
        say_wrapped(f"The same mistake fails {_ids(others)} too.", first=indent, indent=indent)


def _show_exchange(verdict: Verdict) -> None:
    """Print what was sent and answered, in two lines each; no headers, for a signature is among them."""
    exchange = verdict.decisive
    if exchange is None:  # The last call before the balance that was found wrong.
        exchange = next((each for each in reversed(verdict.exchanges) if each.path != _BALANCE), None)
    if exchange is None:
        return
    sent = _shortened(exchange.request_body, exchange.request_bytes)
    say_wrapped(f"{exchange.method} {exchange.path} {sent}", first="   > ", indent="     ", most=2, anywhere=True)
    text = exchange.problem
    if exchange.status:
        answered = _shortened(exchange.answer_body, len(exchange.answer_body))
        text = f"HTTP {exchange.status}, {exchange.elapsed_ms:.0f} ms: {answered}"
    say_wrapped(text, first="   < ", indent="     ", most=2, anywhere=True)


def _shortened(body: bytes, length: int) -> str:
    text = body[:_BODY].decode(errors="backslashreplace")
    return text if length <= _BODY else f"{text} … ({length:,} bytes)"


def _not_tried(report: Report) -> str:
    """Return how many scenarios were not tried, and the options that would try them."""
    missing = {name for verdict in report.skipped for name in verdict.missing}
    options = sorted({option.partition(" ")[0] for name in missing if (option := options_for((name,)))})
    remedy = f"Options that try more: {', '.join(options)} (see --plan)." if options else "A report file says why."
    return f"{counted(len(report.skipped), 'scenario')} not tried. {remedy}"


def _show_figures(report: Report) -> None:
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


def _ids(verdicts: Iterable[Verdict]) -> str:
    """Return ids, of many the first ones and how many more there are."""
    ids = [verdict.id for verdict in verdicts]
    more = f" and {len(ids) - _IDS} more" if len(ids) > _IDS else ""
    return f"{', '.join(ids[:_IDS])}{more}"
