"""What came of a storm, in lines for people or as one document."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from game_operator.cli.errors import ExitCode, StoppedError
from game_operator.cli.output import answer, say, show_details
from game_operator.errors import GameOperatorError, one_line

if TYPE_CHECKING:
    from game_operator_testkit.sandbox.storm.audit import Difference
    from game_operator_testkit.sandbox.storm.report import StormReport

_MOST_LISTED: Final = 20


def show_report(report: "StormReport", trace: Path | None) -> None:
    """Print the report, and where the trace was written."""
    from game_operator_testkit.sandbox.storm.report import counted

    answer(_document(report, trace))
    show_details(report.figures)
    # If every bet was refused, what differs only follows from that.
    found = () if report.all_refused and not report.broken_off else report.differences
    if found:
        say(f"{counted(len(found), 'difference')} between service and wallet:", style="bold red")
    for difference in found[:_MOST_LISTED]:
        say(f"  {difference}")
    if len(found) > _MOST_LISTED:
        say(f"  … and {len(found) - _MOST_LISTED} more")
    _show_a_history(found)
    for line in report.remarks:
        say(line, style="yellow")
    if trace is not None:
        say(f"The trace is in {trace}: each call with its body, its faults and its answer.")
    say(report.headline, style="green" if report.passed else "red")


def _show_a_history(differences: "Sequence[Difference]") -> None:
    """Print the shortest history: it has the fewest bets in question."""
    known = [difference for difference in differences if difference.history]
    if not known:
        return
    shortest = min(known, key=lambda difference: len(difference.history))
    say(f"What was sent and answered, of {shortest.subject}:", style="bold")
    for line in shortest.history:
        say(line)
    say("With --json or --html each difference comes with its history.")


def _document(report: "StormReport", trace: Path | None) -> dict[str, object]:
    from game_operator_testkit.sandbox.storm.report import PERCENTILES

    plain = ("passed", "headline", "bets", "claims", "states", "refusals", "faults", "least_of_each", "too_seldom")
    return {name: getattr(report, name) for name in (*plain, "broken_off", "in_doubt")} | {
        "seed": report.head.seed,
        "calls": report.posts,
        "seconds": round(report.seconds, 3),
        "latency_ms": {name: round(report.percentile_ms(percent), 3) for name, percent in PERCENTILES.items()},
        "retries": report.head.retries,
        "differences": list(map(_difference_in_json, report.differences)),
        "trace": None if trace is None else str(trace),
    }


def _difference_in_json(difference: "Difference") -> dict[str, object]:
    names = ("subject", "service", "wallet", "gap_cents", "faults", "history")
    return {name: getattr(difference, name) for name in names}


def broken_off(gone: GameOperatorError, calls_sent: int, trace: Path | None) -> StoppedError:
    """Return how to report a storm that ended before its audit."""
    # A ledger that cannot be read has neither, and was not waited for.
    reason, waited = getattr(gone, "reason", gone.what), getattr(gone, "elapsed_seconds", 0.0)
    said = f"{one_line(reason).rstrip('.')}. "
    said += f"It was waited for {waited:.1f} s. " if waited else ""
    said += f"Money may have moved, and bets may be open: {calls_sent} calls were sent."
    said += f" What was sent until now is in {one_line(str(trace))}." if trace is not None else ""
    return StoppedError(
        ExitCode.UNREACHABLE,
        said,
        name="StormBrokenOffError",
        elapsed_seconds=waited,
        calls_sent=calls_sent,
        trace=None if trace is None else str(trace),
    )
