"""``game-operator certify``: everything that a wallet must survive, sent to one, and what is wrong with it."""

import os
from contextlib import suppress
from itertools import count
from threading import Event
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from game_operator.cli.errors import STOP_SIGNALS, ExitCode, StoppedError, on_signals
from game_operator.cli.options import read_profile
from game_operator.cli.output import answer, say
from game_operator_testkit.cli import command
from game_operator_testkit.cli.certify_options import (
    ReportOptions,
    RouteOptions,
    ScenarioOptions,
    SupplyOptions,
    WalletOptions,
    key_in,
)
from game_operator_testkit.cli.progress import progress

if TYPE_CHECKING:
    from game_operator_testkit.certifier.report.comparison import Baseline
    from game_operator_testkit.certifier.report.report import Report


@command
def certify(
    *,
    url: Annotated[str, typer.Argument()],
    wallet: WalletOptions,
    route: RouteOptions,
    played: ScenarioOptions,
    supplied: SupplyOptions,
    reports: ReportOptions,
) -> int:
    """
    Certify any wallet: send it what a wallet must survive, and say what is wrong, what it costs, and what to change.

    It moves the money of two test players and puts it back where it can. Exit code 1 if there are findings, if nothing
    could be tried, or if what was supplied for a scenario did not work. With --baseline only findings that are new, or
    cost more, count.
    """
    supplies, assumed = supplied.supplies(), read_profile(played.profile)
    reports.check_files(wallet.service_private_key, supplied.old_key, supplied.retired_key, played.profile)
    baseline = reports.read_baseline()
    from game_operator_testkit.certifier.certifying import certify as certify_wallet
    from game_operator_testkit.certifier.engine.certification import new_run_id

    run_id = new_run_id()
    stop, number = Stop(run_id), count(1)
    with on_signals(STOP_SIGNALS, stop.on_signal):
        with progress() as show:
            report = certify_wallet(
                url,
                signing_key=key_in("--service-private-key", wallet.service_private_key),
                player_id=wallet.player,
                other_player_id=wallet.other_player,
                profile=assumed,
                only=played.only or [],
                skip=played.skip or [],
                supplies=supplies,
                instance_id=wallet.instance,
                game=wallet.game,
                headers=route.headers(assumed),
                timeout=played.timeout,
                deadline=played.deadline,
                moves_money=route.moves_money,
                allow_insecure_http=route.allow_insecure_http,
                on_verdict=lambda each, total: show(
                    f"{each.id} {'advice' if each.is_advice else each.outcome}: {each.title}", next(number), total
                ),
                run_id=run_id,
                stopping=stop,
            )
        code = _ended(report, reports, baseline)
    if report.was_stopped:
        raise StoppedError(128 + stop.number)
    return code


def _ended(report: "Report", reports: ReportOptions, baseline: "Baseline | None") -> int:
    """Write the files, print what came of the run, and return the exit code."""
    from game_operator_testkit.certifier.report.as_json import document
    from game_operator_testkit.certifier.report.comparison import compared
    from game_operator_testkit.certifier.report.summary import Summary
    from game_operator_testkit.cli.certify_report import show_report

    comparison = None if baseline is None else compared(baseline, report)
    written = reports.write(report, comparison)
    show_report(report, written, comparison)
    answer(document(report, comparison))
    summary = Summary(report)
    # The last line, where a script looks for it.
    say(summary.line if comparison is None else f"{summary.line}; {comparison.summary_line}")
    if not (summary.is_fine if comparison is None else summary.is_complete and comparison.passed):
        return ExitCode.SAID_NO
    return ExitCode.FINE if written.keys() == reports.files.keys() else ExitCode.UNWRITABLE


class Stop(Event):
    """
    Set by the first Ctrl-C or SIGTERM: the run puts money back and ends in a report. Another one ends it at once.

    Attributes:
        number: The signal that came first; 0 if none did.
    """

    def __init__(self, run_id: str) -> None:
        super().__init__()
        self.number: int = 0
        self._run_id = run_id

    def on_signal(self, number: int, _: object) -> None:
        """Ask the run to end; the second time, end the process."""
        if self.number:
            # No exception: raised among the callbacks of an event loop, it would leave tasks that nobody wakes.
            os._exit(128 + number)
        self.number = number
        self.set()
        with suppress(RuntimeError):  # It came in the middle of a line to the same stream.
            say(
                "Stopping: money is put back and the report is printed first. Ctrl-C once more leaves at once; then "
                f"money may have moved, and bets be open: their ids begin with {self._run_id}.",
                error=True,
            )
            # The bar of a progress hides it.
            Console(stderr=True).show_cursor()
