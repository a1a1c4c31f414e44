"""What came of a storm, as tables for people or as one document."""

import shlex
from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from game_operator.cli.errors import ExitCode, StoppedError
from game_operator.cli.output import answer, counted, say, show_details
from game_operator.errors import GameOperatorError, one_line
from game_operator.money import amount_from_cents
from game_operator_testkit.cli.fix_first import show_fix_first

if TYPE_CHECKING:
    from game_operator_testkit.provider.faults import Fault
    from game_operator_testkit.sandbox.storm.audit import Difference
    from game_operator_testkit.sandbox.storm.diagnosis import Diagnosis
    from game_operator_testkit.sandbox.storm.report import StormReport
    from game_operator_testkit.sandbox.storm.trace import Timeline, TimelineEntry

_PERCENTILES: Final = {"p50": 50, "p90": 90, "p95": 95, "p99": 99, "max": 100}
#: Upper ends of the histogram's bars, in ms; the last bar has no end.
_BARS_MS: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000)
_BARS: Final = (*(f"< {end}" for end in _BARS_MS), f">= {_BARS_MS[-1]}")
_WIDTH: Final = 40
_MOST_LISTED: Final = 20
#: Of what the numbers show: ids are long.
_MOST_LINES: Final = 5


def show_report(
    report: "StormReport", trace: Path | None, environment: Mapping[str, str] = MappingProxyType({})
) -> None:
    """Print the report, where the trace was written, and the *environment* of a client if the bets can be looked up."""
    answer(_document(report, trace) | ({"environment": dict(environment)} if environment else {}))
    _show(report, trace)
    if environment:
        say("The Operator API answers for these bets until Ctrl-C. Paste this where your client runs:")
        for name, value in environment.items():
            say(f"export {name}={shlex.quote(value)}")
        say(f"The control room is at {environment['GAME_OPERATOR_BASE_URL']}/. Its page Faults sends held calls.")


def _show(report: "StormReport", trace: Path | None) -> None:
    _show_figures(report)
    bars = _histogram(report)
    if bars:
        say("How long answers took, in ms:")
    most = max((count for _, count in bars), default=0)
    for label, count in bars:
        width = round(_WIDTH * count / most)
        say(f"  {label:>7} {'█' * width or ('▏' if count else ''):<{_WIDTH}} {count}")
    if report.expected:
        say(f"{len(report.expected)} expected differences: the service gave up a call of each and never repeated it.")
        _show_list(report.expected)
    _show_lasting(report)
    if report.mostly_invalid and not report.all_refused:
        say(f"{_counts(report.refusals)}. {report.refusal_advice}", style="yellow")
    if never := ", ".join(report.never_struck):
        by_name = f"Requested, but never occurred: {never}. Play more --bets, or pass a higher rate, or a lower @N."
        say(f"Never occurred: {never}. More --bets make it likely." if report.all_asked else by_name, style="yellow")
    if report.passed:
        claims = counted(report.claims, "claim")
        apart = ", except for the expected differences" if report.expected or report.lasting else ""
        say(f"Service and wallet agree on all {counted(report.bets, 'bet')} and {claims}{apart}.", style="green")
        return
    _show_differences(report)
    if trace is not None:
        say(
            f"The trace is in {trace}. --replay {trace} sends it again in its order: against a fresh ledger, or with "
            "--players-file against the wallet as it was before, with the same balances and none of these bets."
        )


def _show_lasting(report: "StormReport") -> None:
    if report.left_open:
        kept = _counts(Counter(str(one.fault) for one in report.left_open))
        owed = amount_from_cents(report.owed_cents)
        say(f"Left open: {counted(len(report.left_open), 'bet')}, {owed} owed to players, as requested by {kept}.")
        _show_list(report.left_open)
    if report.other_won:
        say(f"{counted(len(report.other_won), 'bet')} with another win at the service than was paid, as requested.")
        _show_list(report.other_won)


def _show_figures(report: "StormReport") -> None:
    seconds = max(report.seconds, 1e-9)
    percentiles = ", ".join(f"{name} {report.percentile_ms(percent):.1f}" for name, percent in _PERCENTILES.items())
    show_details(
        [
            ("seed", report.head.seed),
            ("bets", f"{report.bets}, and {counted(report.claims, 'claim')} of free bets"),
            ("ended", _counts(report.states)),
            ("refused", _counts(report.refusals) or "none"),
            ("calls", f"{report.posts} in {report.seconds:.1f} s, repeats and extras included"),
            ("throughput", f"{report.bets / seconds:.0f} bets/s, {report.posts / seconds:.0f} calls/s"),
            ("latency in ms", percentiles),
            ("faults", _counts(report.faults) or "none"),
            ("repeats", report.head.retries),
        ]
    )


def _counts(counts: "Mapping[str, int] | Mapping[Fault, int]") -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))


def _histogram(report: "StormReport") -> list[tuple[str, int]]:
    """Return (label, count) for each bar up to the last one that is not empty."""
    counts = Counter(bisect_right(_BARS_MS, latency) for latency in report.latencies_ms)
    return [(_BARS[bar], counts[bar]) for bar in range(max(counts, default=-1) + 1)]


def _show_differences(report: "StormReport") -> None:
    if report.broken_off:
        say(f"It broke off before all bets were played and audited. {report.broken_off}", style="red")
    if report.all_refused:
        refused = f"The wallet refused every bet, so nothing was tried: {_counts(report.refusals)}."
        say(f"{refused} {report.refusal_advice}".rstrip(), style="red")
    if report.not_200:
        say(f"{report.not_200} answers had another HTTP status than 200 (spec §4.1).", style="red")
    if not report.differences:
        return
    say(f"{counted(len(report.differences), 'difference')} between service and wallet:", style="bold red")
    _show_list(report.differences)
    if report.none_kept:
        say(
            "The ledger has none of the bets that the wallet accepted. If the wallet keeps them under a name of its "
            "own, pass that as --source; or its tables' as --table-prefix.",
            style="red",
        )
    _show_first(report)


def _show_first(report: "StormReport") -> None:
    """Say what to fix first, with the calls that show it; without a known reason, print the first history."""
    shown = report.fix_first
    if shown is not None and shown.diagnosis is not None:
        diagnosis = shown.diagnosis
        text = diagnosis.text
        say("")
        seen = f"{shown.subject}: {diagnosis.sentence}"
        show_fix_first(risk=text.risk, means=text.means, fix=text.fix, seen=seen, most=_MOST_LINES)
        for line in diagnosis.calls:
            say(f"  {line}")
        if len(report.differences) > 1:
            of_all = f"{report.alike(diagnosis)} of the {len(report.differences)} differences"
            say(f"Most likely it is the reason of {of_all}. Fix it, and storm again.")
        say("")
    elif first := next((difference for difference in report.differences if difference.history), None):
        say(f"The first bad history, of {first.subject}:", style="bold")
        for line in first.history:
            say(line)
    if any(difference.history for difference in report.differences):
        say("With --json each difference comes with its whole history.")


def _show_list(differences: "tuple[Difference, ...]") -> None:
    for difference in differences[:_MOST_LISTED]:
        say(f"  {difference}")
    if len(differences) > _MOST_LISTED:
        say(f"  … and {len(differences) - _MOST_LISTED} more")


def _document(report: "StormReport", trace: Path | None) -> dict[str, object]:
    plain = ("passed", "bets", "claims", "states", "refusals", "faults", "never_struck", "none_kept", "not_200")
    return {name: getattr(report, name) for name in (*plain, "broken_off")} | {
        "seed": report.head.seed,
        "calls": report.posts,
        "seconds": round(report.seconds, 3),
        "latency_ms": {name: round(report.percentile_ms(percent), 3) for name, percent in _PERCENTILES.items()},
        "histogram": [{"ms": label, "count": count} for label, count in _histogram(report)],
        "retries": report.head.retries,
        "differences": list(map(_difference_in_json, report.differences)),
        "expected_differences": list(map(_difference_in_json, report.expected)),
        "left_open": {"bets": len(report.left_open), "owed_cents": report.owed_cents},
        "lasting_differences": [
            _difference_in_json(one) | {"fault": one.fault, "owed_cents": one.owed_cents} for one in report.lasting
        ],
        "trace": None if trace is None else str(trace),
    }


def _difference_in_json(difference: "Difference") -> dict[str, object]:
    diagnosis = difference.diagnosis
    return {name: getattr(difference, name) for name in ("subject", "service", "wallet", "history", "gap_cents")} | {
        "diagnosis": None if diagnosis is None else _diagnosis_in_json(diagnosis)
    }


def _diagnosis_in_json(diagnosis: "Diagnosis") -> dict[str, object]:
    text = diagnosis.text
    names = ("mistake", "sentence", "bets", "is_ambiguous", "calls")
    return {name: getattr(diagnosis, name) for name in names} | {
        name: getattr(text, name) for name in ("title", "means", "fix", "risk")
    }


def broken_off(gone: GameOperatorError, timeline: "Timeline", trace: Path | None) -> StoppedError:
    """Return how to report a storm that ended before its audit, and of which nothing else is known to be wrong."""
    # A ledger that cannot be read has neither, and nobody waited for it.
    reason, waited = getattr(gone, "reason", gone.what), getattr(gone, "elapsed_seconds", 0.0)
    answered, unanswered = timeline.last_answered, timeline.unanswered
    said = [f"{one_line(reason).rstrip('.')}."]
    if waited:
        said.append(f"It was waited for {waited:.1f} s.")
    said.append(f"Money may have moved, and bets may be open: {timeline.posts} calls were sent.")
    said.append(f"The last one answered is {one_line(str(answered))}." if answered else "None was answered.")
    if unanswered:
        last = f", the last one {one_line(str(unanswered[-1]))}" if len(unanswered) > 1 else ""
        said.append(f"The first one without a definite answer is {one_line(str(unanswered[0]))}{last}.")
    if trace is not None:
        said.append(f"What was sent until now is in {one_line(str(trace))}.")
    return StoppedError(
        ExitCode.UNREACHABLE,
        " ".join(said),
        name="StormBrokenOffError",
        attempts=getattr(gone, "attempts", 1),
        elapsed_seconds=waited,
        timed_out=getattr(gone, "timed_out", False),
        calls_sent=timeline.posts,
        last_answered=_facts(answered),
        first_unanswered=_facts(unanswered[0] if unanswered else None),
        last_unanswered=_facts(unanswered[-1] if unanswered else None),
        trace=None if trace is None else str(trace),
    )


def _facts(entry: "TimelineEntry | None") -> dict[str, object] | None:
    if entry is None:
        return None
    named = {name: getattr(entry.call, name) for name in ("operation", "bet_id", "tx_id", "player_id")}
    return {"serial": entry.post.serial, **named, "heard": entry.answer}
