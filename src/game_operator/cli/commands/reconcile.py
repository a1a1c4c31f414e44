"""``game-operator reconcile``: compare bets with the provider's, settle what was lost, and work on findings."""

import signal
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from game_operator.cli.database import LedgerOptions, check_source
from game_operator.cli.errors import ExitCode, StoppedError, stopping_gently
from game_operator.cli.files import HtmlFile, check_page, is_written
from game_operator.cli.options import (
    Commands,
    Limit,
    ProfileFile,
    ServiceOptions,
    Source,
    amount_in,
    checked_values,
    read_profile,
    span_in,
)
from game_operator.cli.output import answer, answer_list, remark, say, show_kinds, waiting
from game_operator.errors import ConfigurationError, RunError
from game_operator.money import amount_from_cents

if TYPE_CHECKING:
    from game_operator.backoffice import Reconciler, ReconcileReport
    from game_operator.backoffice.journal_records import Run
    from game_operator.ledger import SqlLedger
    from game_operator.wallet import Wallet


reconciliations: Commands = Commands(
    name="reconcile",
    help="Compare your bets with the provider's, settle those whose calls were lost, and work on findings.",
)

Person = Annotated[str, typer.Option("--actor", metavar="NAME")]
Why = Annotated[str, typer.Option("--reason", metavar="TEXT")]
_REPORT: Final = {
    "": (
        "run state why repaired open settled_before other_findings service "
        "source actor reason began_at_millis ended_at_millis unseen"
    ),
    "verdicts": "verdict bets total_cents",
}
_FINDINGS: Final = (
    "id kind bet_id player_id at_stake_cents owed_cents seen first_at_millis detail paid_cents resolved_by resolution"
)
_STOPPING: Final = "It stops after the calls under way."
_OWN_CODE: Final = (
    "If your wallet has `after`, or `transaction`, settle in a program, or your own rows are not written "
    "(docs/how-to/reconcile.md)."
)
_HOW_TO_GO_ON: Final = "`game-operator reconcile run --seconds 60` goes on with it, and `reconcile stop` ends it."


@dataclass(frozen=True, kw_only=True)
class RepairOptions:
    """Whether bets are settled, within which brakes, and who asks for it."""

    repair: bool = False
    max_bets: Annotated[int | None, typer.Option(min=0, metavar="N")] = None
    max_total: Annotated[Decimal | None, typer.Option(parser=amount_in, metavar="AMOUNT")] = None
    actor: Annotated[str | None, typer.Option(metavar="NAME")] = None
    reason: Annotated[str | None, typer.Option(metavar="TEXT")] = None

    def __post_init__(self) -> None:
        """Raise BadParameter if the options do not go together."""
        given = {f"--{name.replace('_', '-')}": value for name, value in vars(self).items() if name != "repair"}
        if not self.repair and (named := [name for name, value in given.items() if value is not None]):
            raise typer.BadParameter(f"Leave out {', '.join(named)} without --repair: a dry run moves no money.")
        if self.repair and (missing := [name for name, value in given.items() if value is None]):
            raise typer.BadParameter(
                f"Missing: {', '.join(missing)}. --repair needs how many bets it may settle at most, how much money in "
                "currency units (such as 25.00), who asks for it, and why."
            )

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of ``Reconciler.run``."""
        most = None if self.max_total is None else int(self.max_total * 100)
        values = {"max_bets": self.max_bets, "actor": self.actor, "reason": self.reason}
        return {"repair": self.repair, "max_total_cents": most, **values}


@dataclass(frozen=True, kw_only=True)
class PatienceOptions:
    """How old a bet must be, and how far apart two looks are."""

    min_age: Annotated[timedelta, typer.Option(parser=span_in, show_default="2h")] = timedelta(hours=2)
    second_look: Annotated[timedelta, typer.Option(parser=span_in, show_default="60s")] = timedelta(seconds=60)


@dataclass(frozen=True, kw_only=True)
class SettlingOptions:
    """What the wallet that settles bets and pays findings goes by."""

    source: Source = ""
    profile: ProfileFile = None

    @contextmanager
    def wallet(self, place: LedgerOptions, *, moves_money: bool) -> "Iterator[Wallet]":
        """Yield a plain wallet over the ledger; raise ConfigurationError if the balances are elsewhere."""
        from game_operator.ledger.office import Office
        from game_operator.wallet import Wallet

        accounts = place.accounts()
        with _ledger(place, self.source) as ledger:
            if accounts is None and Office(ledger).are_balances_elsewhere():
                raise ConfigurationError(
                    "The balances of this ledger are in your own table. Pass the table as --accounts-table, "
                    f"--accounts-key and --accounts-balance. {_OWN_CODE}"
                )
            if moves_money and accounts is not None:
                remark(f"This settles by a plain wallet. {_OWN_CODE}", style="yellow")
            yield Wallet(ledger, source=self.source, profile=read_profile(self.profile))


@reconciliations.command()
def run(
    *,
    seconds: Annotated[float | None, typer.Option(min=0, max=86_400, metavar="N")] = None,
    repair: RepairOptions,
    patience: PatienceOptions,
    sample: float = 0.001,
    rate: float = 20.0,
    concurrency: Annotated[int, typer.Option(min=1, max=100)] = 4,
    html: HtmlFile = None,
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
    if repair.repair and seconds is not None:
        raise typer.BadParameter(
            "--seconds never begins a run that repairs. Begin it without --seconds, which then goes on with it."
        )
    check_page(html)
    with settling.wallet(place, moves_money=repair.repair) as wallet, service.client() as client:
        from game_operator.backoffice import Reconciler

        reconciler = Reconciler(client, wallet, **vars(patience), rate_per_second=rate, sample=sample)
        try:
            report = _run(reconciler, seconds, repair.arguments, concurrency)
        except RunError as refused:
            advice = _HOW_TO_GO_ON if seconds is None else refused.remedy
            raise StoppedError(ExitCode.SAID_NO, refused.what, advice=advice, name="RunError") from None
        return _reported(report, html)


def _run(
    reconciler: "Reconciler", seconds: float | None, arguments: dict[str, Any], concurrency: int
) -> "ReconcileReport":
    """Run until the end, until the time is over, or until a signal; then the run is kept."""
    signals = list[int]()
    try:
        with stopping_gently(reconciler.leave, _STOPPING) as signals, waiting("Looking up the bets …"):
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
    advice = "" if kept is None else _how_to_go_on(kept)
    name = "" if kept is None else f" Run {kept.id} is kept, and every repair so far is complete."
    code = 128 + next(iter(signals), signal.SIGINT)
    raise StoppedError(code, f"Interrupted.{name}", advice=advice, run=kept and kept.id)


def _reported(report: "ReconcileReport", html: Path | None) -> int:
    """Write the page that is wanted, show the report, and return the exit code."""
    written = html is None or is_written(html, report.to_html(), "report")
    show_report(report)
    if report.run.state == "paused":
        return ExitCode.UNREACHABLE
    if report.verdicts and set(report.verdicts) == {"no_answer"}:
        remark("The service has answered nothing.", style="red")
        return ExitCode.UNREACHABLE
    if not report.is_fine or report.run.state == "stopped":
        return ExitCode.SAID_NO
    return ExitCode.FINE if written else ExitCode.UNWRITABLE


def show_report(report: "ReconcileReport") -> None:
    """Show what a run has found."""
    run, document = report.run, report.document()
    sentences = [f"The run {'repairs' if run.options.get('repair') else 'is dry: it moves no money'}."]
    if not report.verdicts:
        sentences.append("No bet is due: OPEN bets are looked up when they are older than --min-age.")
    if report.is_fine and report.is_whole:
        sentences.append("Nothing waits for a person.")
    answer(document, *sentences, view=_REPORT)
    show_kinds(document["findings"], "id")
    _show_advice(each["kind"] for each in document["findings"])
    if report.open.bets and not run.is_under_way:
        before = report.settled_before  # The brakes count it too.
        bets = report.open.bets + run.moved_count + before.bets
        most = amount_from_cents(report.open.total_cents + run.moved_cents + before.total_cents)
        say(
            f"To settle them: game-operator reconcile run --repair --max-bets {bets} --max-total {most} --actor NAME "
            "--reason TEXT, and the same --min-age and --accounts-… as in this run."
        )
    if run.is_under_way:
        say(_how_to_go_on(run))


def _show_advice(kinds: Iterable[str]) -> None:
    from game_operator.backoffice.reconcile.report import advices

    for kind in dict.fromkeys(kinds):
        if kind in advices():
            say(f"{kind}: {advices()[kind].todo}")


def _how_to_go_on(run: "Run") -> str:
    if not run.options.get("repair"):
        return _HOW_TO_GO_ON
    return f"{_HOW_TO_GO_ON} It repairs for a day from its beginning, by the brakes that it began with."


@reconciliations.command()
def status(*, source: Source = "", place: LedgerOptions) -> None:
    """Show where the latest run stands."""
    with _ledger(place, source) as ledger:
        from game_operator.backoffice.journal import Journal
        from game_operator.backoffice.reconcile.report import latest_run, report_of

        latest = latest_run(ledger, source)
        if latest is None:
            answer({"run": None}, "There was no reconciliation yet.")
            return
        show_report(report_of(Journal(ledger), latest))


@reconciliations.command()
def stop(
    *,
    run_id: Annotated[int | None, typer.Argument(min=1, max=2**62, metavar="[RUN]")] = None,
    source: Source = "",
    place: LedgerOptions,
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
    limit: Limit = 50,
    source: Source = "",
    place: LedgerOptions,
) -> int:
    """
    List what a person should look into, the oldest first, and by kind with the first ids.

    The exit code is 1 if a finding is open.
    """
    with _ledger(place, source) as ledger:
        from game_operator.backoffice.reconcile.by_hand import findings_of
        from game_operator.backoffice.reconcile.report import finding_document

        found = list(islice(findings_of(ledger, source=source, resolved=every, bet_id=bet_id), limit + 1))
    listed = list(map(finding_document, found))
    answer_list("findings", listed, limit, _FINDINGS)
    unresolved = [each for each in listed[:limit] if each["resolved_at_millis"] is None]
    show_kinds(unresolved, "id")
    _show_advice(each["kind"] for each in unresolved)
    return ExitCode.SAID_NO if unresolved else ExitCode.FINE


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
        with settling.wallet(place, moves_money=True) as wallet:
            done = by_hand.pay(wallet, finding_id, actor=actor, reason=reason, counting_claims=counting_claim or ())
    elif counting_claim:
        raise typer.BadParameter("--counting-claim says nothing without --pay. Leave it out.")
    else:
        with _ledger(place, settling.source) as ledger:
            done = by_hand.resolve(ledger, finding_id, source=settling.source, actor=actor, reason=reason)
    paid = "" if done.paid_cents is None else f"{amount_from_cents(done.paid_cents)} was posted to {done.account}. "
    answer(finding_document(done), f"{paid}The finding {done.id} is resolved.")


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

    with settling.wallet(place, moves_money=True) as wallet, service.client() as client:
        remark("It asks the provider twice, as far apart as --second-look says.")
        with checked_values():
            outcome = Reconciler(client, wallet, **vars(patience)).refund(bet_id, actor=actor, reason=reason)
    document = {"bet_id": bet_id, "refunded": outcome.applied, "balance_cents": outcome.balance_cents}
    answer(document, f"The wager was given back; the balance is {outcome.balance_amount}.")


@reconciliations.command()
def report(
    *,
    run_id: Annotated[int | None, typer.Argument(min=1, max=2**62, metavar="[RUN]")] = None,
    html: HtmlFile = None,
    source: Source = "",
    place: LedgerOptions,
) -> int:
    """Show the report of the latest run, or of one with a number. Exit code 1 if something waits for a person."""
    check_page(html)
    with _ledger(place, source) as ledger:
        from game_operator.backoffice.reconcile.report import report_in

        return _reported(report_in(ledger, run_id, source=source), html)


@contextmanager
def _ledger(place: LedgerOptions, source: str) -> "Iterator[SqlLedger]":
    with place.opened() as ledger:
        check_source(ledger, source)
        yield ledger
