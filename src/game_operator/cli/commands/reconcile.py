"""``game-operator reconcile``: compare bets with the provider's, settle what was lost, and work on findings."""

import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from itertools import islice
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from game_operator.cli.database import LedgerOptions
from game_operator.cli.errors import STOP_SIGNALS, ExitCode, StoppedError, on_signals
from game_operator.cli.options import Commands, ServiceOptions, amount_in, check_extra, span_in
from game_operator.cli.output import answer, is_written, progress, remark, say
from game_operator.cli.own_wallet import SettlingOptions, check_source
from game_operator.cli.reports.ledger import MORE
from game_operator.cli.reports.reconcile import how_to_go_on, show_findings, show_kinds, show_report, show_status
from game_operator.errors import ConfigurationError, GameOperatorError, RunError, shown
from game_operator.money import amount_from_cents

if TYPE_CHECKING:
    from game_operator.backoffice import Reconciler, ReconcileReport
    from game_operator.ledger import SqlLedger

reconciliations: Commands = Commands(
    name="reconcile",
    help="Compare your bets with the provider's, settle those whose calls were lost, and work on findings.",
)

Person = Annotated[str, typer.Option("--actor", metavar="NAME")]
Why = Annotated[str, typer.Option("--reason", metavar="TEXT")]
_LOOK_SECONDS = 0.5


@dataclass(frozen=True, kw_only=True)
class RepairOptions:
    """Whether bets are settled, within which brakes, and who asks for it."""

    repair: bool = False
    max_bets: Annotated[int | None, typer.Option(min=0, metavar="N")] = None
    max_total: Annotated[Decimal | None, typer.Option(parser=amount_in, metavar="AMOUNT")] = None
    actor: Annotated[str | None, typer.Option(metavar="NAME")] = None
    reason: Annotated[str | None, typer.Option(metavar="TEXT")] = None

    def check(self, *, seconds: float | None) -> None:
        """Raise BadParameter if the options do not go together."""
        given = {f"--{name.replace('_', '-')}": value for name, value in vars(self).items() if name != "repair"}
        if not self.repair:
            if named := [name for name, value in given.items() if value is not None]:
                raise typer.BadParameter(f"Leave out {', '.join(named)} without --repair: a dry run moves no money.")
            return
        if missing := [name for name, value in given.items() if value is None]:
            raise typer.BadParameter(
                f"Missing: {', '.join(missing)}. Repairing needs all of --max-bets, --max-total, --actor and --reason: "
                "how much it may settle at most, who asks for it, and why."
            )
        if seconds is not None:
            raise typer.BadParameter(
                "--seconds never begins a run that repairs. Begin it without --seconds, which then goes on with it."
            )

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of ``Reconciler.run``; raise BadParameter for an amount that no brake can have."""
        if not self.repair:
            return {}
        assert self.max_total is not None
        if self.max_total < 0:
            raise typer.BadParameter("--max-total is below 0. Pass the most that may be credited, such as 100.00.")
        values = {"max_bets": self.max_bets, "actor": self.actor, "reason": self.reason}
        return {"repair": True, "max_total_cents": int(self.max_total * 100), **values}


@dataclass(frozen=True, kw_only=True)
class PatienceOptions:
    """How old a bet must be, and how far apart two looks are."""

    min_age: Annotated[timedelta, typer.Option(parser=span_in, show_default="2h")] = timedelta(hours=2)
    second_look: Annotated[timedelta, typer.Option(parser=span_in, show_default="60s")] = timedelta(seconds=60)


@dataclass(frozen=True, kw_only=True)
class LooksOptions:
    """Which bets are looked up, and how fast."""

    sample: float = 0.001
    rate: float = 20.0
    concurrency: Annotated[int, typer.Option(min=1, max=100)] = 4

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of ``Reconciler``."""
        return {"rate_per_second": self.rate, "sample": self.sample}


@dataclass(frozen=True, kw_only=True)
class PagesOptions:
    """Files to which the report is written."""

    html: Annotated[Path | None, typer.Option(metavar="FILE")] = None
    csv: Annotated[Path | None, typer.Option(metavar="FILE")] = None

    def check(self) -> None:
        """Raise ConfigurationError if a file cannot be written, before the run and not after it."""
        if self.html is not None:
            check_extra("--html", "cli", ["jinja2"])
        for option, path in (("--html", self.html), ("--csv", self.csv)):
            if path == Path("-"):
                raise ConfigurationError(f"{option} - would write a file named '-'. Pass the name of a file.")
            if path is not None and (path.is_dir() or not path.parent.is_dir()):
                raise ConfigurationError(f"{option} {shown(str(path))} cannot be written: pass a file in a folder.")

    def are_written(self, report: "ReconcileReport") -> bool:
        """Write the files that are wanted; return whether all could be written."""
        written = True
        if self.html is not None:
            written = is_written(self.html, report.to_html(), "report")
        if self.csv is not None:
            written = is_written(self.csv, report.to_csv(), "report") and written
        return written


@reconciliations.command()
def run(
    *,
    seconds: Annotated[float | None, typer.Option(min=0, max=86_400, metavar="N")] = None,
    repair: RepairOptions,
    patience: PatienceOptions,
    looks: LooksOptions,
    pages: PagesOptions,
    settling: SettlingOptions,
    place: LedgerOptions,
    service: ServiceOptions,
) -> int:
    """
    Look up bets that wait for long, a sample of the others, and report what differs.

    A dry run is the default, and moves no money. With --repair it looks twice and then settles OPEN bets that the
    provider has CLOSED or ROLLED_BACK. The exit code is 1 if something waits for a person: findings, or bets that can
    be settled. Ctrl-C keeps the run: it can go on.
    """
    repair.check(seconds=seconds)
    arguments = repair.arguments
    pages.check()
    with settling.asked(place, service, moves_money=repair.repair) as (client, wallet):
        from game_operator.backoffice import Reconciler

        reconciler = Reconciler(client, wallet, **vars(patience), **looks.arguments)
        try:
            report = _run(reconciler, seconds, arguments, looks.concurrency)
        except RunError as refused:
            raise StoppedError(
                ExitCode.SAID_NO,
                refused.what,
                advice="`game-operator reconcile run --seconds 60` goes on with it, and `reconcile stop` ends it.",
                name="RunError",
            ) from None
        show_report(report)
        return _code(report, pages)


def _run(
    reconciler: "Reconciler", seconds: float | None, arguments: dict[str, Any], concurrency: int
) -> "ReconcileReport":
    """Run until the end, until the time is over, or until a signal; then the run is kept."""
    signals: list[int] = []

    def stop(number: int, _frame: FrameType | None) -> None:
        signals.append(number)
        reconciler.leave()
        if len(signals) > 1:
            raise KeyboardInterrupt
        remark("It stops after the calls under way.")

    try:
        with on_signals(STOP_SIGNALS, stop), _shown_progress(reconciler):
            if seconds is not None:
                report = reconciler.run_some(seconds)
            else:
                with ThreadPoolExecutor(concurrency) as threads:
                    report = reconciler.run(executor=threads, **arguments)
    except KeyboardInterrupt:
        pass
    else:
        if not (signals and report.run.is_under_way):
            return report
    kept = reconciler.status()
    advice = "" if kept is None else how_to_go_on(kept)
    name = "" if kept is None else f" Run {kept.id} is kept, and every repair so far is complete."
    code = 128 + signals[0] if signals and signals[0] != signal.SIGINT else ExitCode.INTERRUPTED
    raise StoppedError(code, f"Interrupted.{name}", advice=advice, run=kept and kept.id)


@contextmanager
def _shown_progress(reconciler: "Reconciler") -> Iterator[None]:
    """Show on stderr, if that is a terminal, how many parts of the run are done."""
    ended = threading.Event()
    with progress() as show:

        def look() -> None:
            while not ended.wait(_LOOK_SECONDS):
                with suppress(GameOperatorError):  # The run itself reports what is wrong with the database.
                    done, parts = reconciler.progress()
                    show("parts of up to 25 bets", done, parts)

        thread = threading.Thread(target=look, daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()


def _code(report: "ReconcileReport", pages: PagesOptions) -> int:
    written = pages.are_written(report)
    if report.run.state == "paused":
        remark(f"The run is paused: {report.run.why}. {how_to_go_on(report.run)}", style="red")
        return ExitCode.UNREACHABLE
    if report.verdicts and set(report.verdicts) == {"no_answer"}:
        remark("The service has answered nothing.", style="red")
        return ExitCode.UNREACHABLE
    if not report.is_fine or report.run.state == "stopped":
        return ExitCode.SAID_NO
    return ExitCode.FINE if written else ExitCode.UNWRITABLE


@reconciliations.command()
def status(*, source: str = "", place: LedgerOptions) -> None:
    """Show where the latest run stands."""
    with _ledger(place, source) as ledger:
        from game_operator.backoffice.journal.journal import Journal
        from game_operator.backoffice.reconcile.report import latest_run, report_of

        latest = latest_run(ledger, source)
        if latest is None:
            answer({"run": None}, "There was no reconciliation yet.")
            return
        journal = Journal(ledger)
        show_status(report_of(journal, latest), journal.progress(latest.id))


@reconciliations.command()
def stop(
    *, run_id: Annotated[int | None, typer.Argument(metavar="[RUN]")] = None, source: str = "", place: LedgerOptions
) -> None:
    """End the run that is under way, for good. What it has settled stays settled."""
    with _ledger(place, source) as ledger:
        from game_operator.backoffice.reconcile.report import stop_run

        ended = stop_run(ledger, run_id, source=source)
        answer({"run": ended.id, "state": ended.state}, f"Run {ended.id} is stopped.")


@reconciliations.command()
def findings(
    *,
    every: Annotated[bool, typer.Option("--all")] = False,
    bet_id: Annotated[str | None, typer.Option("--bet", metavar="ID")] = None,
    limit: Annotated[int | None, typer.Option(min=1)] = None,
    source: str = "",
    place: LedgerOptions,
) -> int:
    """
    List what a person should look into, by kind with the first ids. The exit code is 1 if a finding is open.

    With --bet, --all or --limit, list the findings one by one, the oldest first.
    """
    with _ledger(place, source) as ledger:
        from game_operator.backoffice.journal.journal import Journal
        from game_operator.backoffice.reconcile.by_hand import findings_of
        from game_operator.backoffice.reconcile.report import finding_document

        now = Journal(ledger).now_millis()
        listed = findings_of(ledger, source=source, resolved=every, bet_id=bet_id)
        found = list(islice(listed, limit and limit + 1))
    records, more = found[:limit], limit is not None and len(found) > limit
    answer({"findings": [finding_document(each, now) for each in records], "more": more})
    show_kinds([each for each in records if each.resolved_at_millis is None])
    if every or bet_id is not None or limit is not None:
        show_findings(records)
    if more:
        say(MORE.format(limit))
    if not records:
        say("There are no findings.")
    return ExitCode.SAID_NO if any(each.resolved_at_millis is None for each in records) else ExitCode.FINE


@reconciliations.command()
def resolve(
    *,
    finding_id: Annotated[int, typer.Argument(metavar="ID", min=1)],
    actor: Person,
    reason: Why,
    pay: bool = False,
    counting_claim: Annotated[list[str] | None, typer.Option(metavar="TX_ID")] = None,
    settling: SettlingOptions,
    place: LedgerOptions,
) -> None:
    """
    Mark a finding as looked after.

    With --pay what is owed is posted first, once: it is worked out at this moment, and taken back if it is below zero.
    A claim that names the bet may have paid it: count each such claim with --counting-claim, and only the rest is paid.
    """
    from game_operator.backoffice.reconcile import by_hand
    from game_operator.backoffice.reconcile.report import finding_document

    if pay:
        with settling.opened(place, moves_money=True) as (wallet, _):
            done = by_hand.pay(wallet, finding_id, actor=actor, reason=reason, counting_claims=counting_claim or ())
    elif counting_claim:
        raise typer.BadParameter("--counting-claim says nothing without --pay. Leave it out.")
    elif settling.wallet is not None or place.are_given:
        raise typer.BadParameter("--wallet and --accounts-… say nothing without --pay. Leave them out.")
    else:
        with _ledger(place, settling.source) as ledger:
            done = by_hand.resolve(ledger, finding_id, source=settling.source, actor=actor, reason=reason)
    paid = "" if done.paid_cents is None else f"{amount_from_cents(done.paid_cents)} was posted to {done.account}. "
    now = done.resolved_at_millis or 0
    answer(finding_document(done, now), f"{paid}The finding {done.id} is resolved.")


@reconciliations.command()
def refund(
    *,
    bet_id: Annotated[str, typer.Argument(metavar="BET_ID")],
    actor: Person,
    reason: Why,
    patience: PatienceOptions,
    settling: SettlingOptions,
    place: LedgerOptions,
    service: ServiceOptions,
) -> None:
    """
    Give the wager of an OPEN bet back that the provider does not know: a person's decision.

    It asks the provider twice first, and moves nothing unless both answers are NOT_FOUND.
    """
    from game_operator.backoffice import Reconciler

    with settling.asked(place, service, moves_money=True) as (client, wallet):
        remark("It asks the provider twice, as far apart as --second-look says.")
        try:
            outcome = Reconciler(client, wallet, **vars(patience)).refund(bet_id, actor=actor, reason=reason)
        except ValueError as wrong:  # An id that no bet can have.
            raise typer.BadParameter(f"{wrong}.") from None
    document = {"bet_id": bet_id, "refunded": outcome.applied, "balance_cents": outcome.balance_cents}
    answer(document, f"The wager was given back; the balance is {outcome.balance_amount}.")


@reconciliations.command()
def report(
    *,
    run_id: Annotated[int | None, typer.Argument(metavar="[RUN]")] = None,
    pages: PagesOptions,
    source: str = "",
    place: LedgerOptions,
) -> int:
    """Show the report of the latest run, or of one with a number. The exit code is that of the run."""
    pages.check()
    with _ledger(place, source) as ledger:
        from game_operator.backoffice.reconcile.report import report_in

        found = report_in(ledger, run_id, source=source)
        show_report(found)
        return _code(found, pages)


@contextmanager
def _ledger(place: LedgerOptions, source: str) -> "Iterator[SqlLedger]":
    with place.opened() as ledger:
        check_source(ledger, source)
        yield ledger
