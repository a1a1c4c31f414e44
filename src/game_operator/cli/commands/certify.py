"""``game-operator certify``: everything that a wallet must survive, sent to one, and what is wrong with it."""

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from game_operator.cli.commands.profile import read_profile
from game_operator.cli.database import PREFIX
from game_operator.cli.errors import ExitCode, StoppedError
from game_operator.cli.options import AsJson
from game_operator.cli.output import error_console, say, visible, write_document
from game_operator.errors import ConfigurationError, RequestNotSentError

if TYPE_CHECKING:
    from game_operator.certify.engine.supplies import Supplies
    from game_operator.certify.report.report import Report
    from game_operator.certify.report.verdicts import Verdict
    from game_operator.cli.certifying.clean_up import LeftAnomalies

__all__ = ["certify"]

_WHO = "Who plays, and as whom"
_WHAT = "What is played"
_MORE = "What more scenarios need"
_REPORTS = "Reports"


def certify(
    url: Annotated[
        str | None, typer.Argument(metavar="URL", help="The wallet: what /withdraw and the others are below.")
    ] = None,
    service_key: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The service's private key, whose public half the wallet has.",
            rich_help_panel=_WHO,
        ),
    ] = None,
    player: Annotated[
        str | None,
        typer.Option(
            metavar="ID", help="A test player with 10.00 or more, whom nobody else plays.", rich_help_panel=_WHO
        ),
    ] = None,
    other_player: Annotated[str | None, typer.Option(metavar="ID", help="Another one.", rich_help_panel=_WHO)] = None,
    instance: Annotated[
        str | None,
        typer.Option(
            metavar="ID", help="The instance that is played, if the wallet knows its own.", rich_help_panel=_WHO
        ),
    ] = None,
    header: Annotated[
        list[str] | None,
        typer.Option(metavar="'NAME: VALUE'", help="One more header for each request.", rich_help_panel=_WHO),
    ] = None,
    ca: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Over https: the authority to trust, and no other.", rich_help_panel=_WHO),
    ] = None,
    allow_insecure_http: Annotated[
        bool,
        typer.Option("--allow-insecure-http", help="Plain http to another machine.", rich_help_panel=_WHO),
    ] = False,
    moves_money: Annotated[
        bool,
        typer.Option(
            "--moves-money",
            help="Needed for a wallet on another machine: its players' money moves.",
            rich_help_panel=_WHO,
        ),
    ] = False,
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="A,B05", help="Groups or ids to play, and no others.", rich_help_panel=_WHAT),
    ] = None,
    skip: Annotated[
        list[str] | None, typer.Option(metavar="A,B05", help="Groups or ids to leave out.", rich_help_panel=_WHAT)
    ] = None,
    profile: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="What is assumed about the service, as TOML.", rich_help_panel=_WHAT),
    ] = None,
    timeout: Annotated[float, typer.Option(min=0.01, help="Seconds for one request.", rich_help_panel=_WHAT)] = 5.0,
    deadline: Annotated[
        float,
        typer.Option(min=1, help="Seconds for the whole run; what is left by then failed.", rich_help_panel=_WHAT),
    ] = 600.0,
    plan: Annotated[
        bool,
        typer.Option("--plan", help="List what would be played, and send nothing.", rich_help_panel=_WHAT),
    ] = False,
    hook: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=COMMAND",
            help="A command that does something to the wallet: block, unblock, open_account, fail, recover, restart, "
            "distrust, trust, later, stored_cents; {player}, {cents}, {amount} and {days} stand for what it is told.",
            rich_help_panel=_MORE,
        ),
    ] = None,
    second_url: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Another process of the wallet, on the same database.", rich_help_panel=_MORE),
    ] = None,
    old_key: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A private key that the wallet still accepts.", rich_help_panel=_MORE),
    ] = None,
    retired_key: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="One that it accepts no more.", rich_help_panel=_MORE),
    ] = None,
    foreign_instance: Annotated[
        str | None,
        typer.Option(metavar="ID", help="An instance of another operator's.", rich_help_panel=_MORE),
    ] = None,
    elsewhere: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="An address of this machine from which the wallet answers nobody, such as 127.0.0.2.",
            rich_help_panel=_MORE,
        ),
    ] = None,
    random_operations: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="How many random operations are tried.", rich_help_panel=_MORE),
    ] = None,
    clean_up: Annotated[
        str | None,
        typer.Option(
            metavar="LEDGER_URL",
            help="The wallet's ledger, if it is one of ours: the anomalies that this run leaves there are resolved.",
            rich_help_panel=_REPORTS,
        ),
    ] = None,
    table_prefix: Annotated[
        str,
        typer.Option(
            metavar="TEXT", help="With --clean-up: how the names of its tables begin.", rich_help_panel=_REPORTS
        ),
    ] = PREFIX,
    json_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the report as JSON.", rich_help_panel=_REPORTS)
    ] = None,
    junit: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write it as JUnit XML, for CI systems.", rich_help_panel=_REPORTS),
    ] = None,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write it as one page of HTML.", rich_help_panel=_REPORTS)
    ] = None,
    with_signatures: Annotated[
        bool,
        typer.Option(
            "--with-signatures",
            help="Keep signatures in the reports. A reader can send such calls to wallets that trust the key.",
            rich_help_panel=_REPORTS,
        ),
    ] = False,
    as_json: AsJson = False,
) -> int:
    """
    Certify any wallet: send it what a wallet must survive, and say what is wrong, what it costs, and what to change.

    It moves the money of two test players and puts it back where it can. Exit code 1 if there are findings, if nothing
    could be tried, or if what was supplied for a scenario did not work.
    """
    from game_operator.cli.certifying.files import check_extra
    from game_operator.cli.certifying.settings import check_files, headers_of, key_in, names_in, trusting
    from game_operator.cli.certifying.stop import Stop

    wanted, unwanted = names_in("--only", only or []), names_in("--skip", skip or [])
    supplies = _supplies(hook or [], second_url, old_key, retired_key, foreign_instance, elsewhere, random_operations)
    assumed = read_profile(profile)
    if plan:
        from game_operator.cli.certifying.plan import tell_plan

        tell_plan(wanted, unwanted, supplies, assumed, as_json=as_json)
        return ExitCode.FINE
    url, service_key, player, other_player = _given(url, service_key, player, other_player)
    asked = {"--json-file": json_file, "--junit": junit, "--html": html}
    files = {option: path for option, path in asked.items() if path is not None}
    check_files(files, (service_key, old_key, retired_key, profile, ca))
    check_extra(files)
    left = None if clean_up is None else _left_in(clean_up, table_prefix)
    run_id = f"certify-{secrets.token_hex(4)}"
    from game_operator.certify.certifying import certify as certify_wallet

    if not as_json:
        say(
            "A wallet over a ledger of this package registers its source with the first call, for good, if the ledger "
            "knows none yet: let it be the one that goes live.",
            error=True,
        )
    stop = Stop(run_id)
    with stop.listening():
        with _in_our_words(), _progress() as on_verdict:
            report = certify_wallet(
                url,
                signing_key=key_in(service_key),
                player_id=player,
                other_player_id=other_player,
                profile=assumed,
                only=wanted,
                skip=unwanted,
                supplies=supplies,
                instance_id=instance,
                headers=headers_of(header or [], assumed),
                ssl_context=trusting(ca),
                timeout=timeout,
                deadline=deadline,
                moves_money=moves_money,
                allow_insecure_http=allow_insecure_http,
                on_verdict=on_verdict,
                run_id=run_id,
                stopping=stop,
                with_signatures=with_signatures,
            )
        stop.is_played = True
        code = _ended(report, files, left, as_json=as_json)
    if report.was_stopped:
        raise StoppedError(stop.number)
    return code


def _given(
    url: str | None, service_key: Path | None, player: str | None, other_player: str | None
) -> tuple[str, Path, str, str]:
    """Return what only a plan does without."""
    named = {"URL": url, "--service-key": service_key, "--player": player, "--other-player": other_player}
    if url is None or service_key is None or player is None or other_player is None:
        missing = ", ".join(name for name, value in named.items() if value is None)
        raise ConfigurationError(
            f"There is no {missing}. Pass the wallet's address, the service's private key and two players who have "
            "money; or --plan, which sends nothing."
        )
    if player == other_player:
        raise ConfigurationError("--player and --other-player are the same. Pass two players, each with money.")
    return url, service_key, player, other_player


def _supplies(
    hooks: list[str],
    second_url: str | None,
    old_key: Path | None,
    retired_key: Path | None,
    foreign_instance: str | None,
    elsewhere: str | None,
    random_operations: int | None,
) -> "Supplies":
    from game_operator.certify.engine.supplies import Supplies
    from game_operator.cli.certifying.hooks import hooks_of
    from game_operator.cli.certifying.settings import key_in

    return Supplies(
        **hooks_of(hooks),
        second_url=second_url,
        old_key=None if old_key is None else key_in(old_key),
        retired_key=None if retired_key is None else key_in(retired_key),
        foreign_instance_id=foreign_instance,
        elsewhere=elsewhere,
        random_operations=random_operations,
    )


@contextmanager
def _in_our_words() -> "Iterator[None]":
    """Let an error name the options of this command, where others have none or their own."""
    from game_operator.cli.certifying.wording import in_options, without_tls

    try:
        yield
    except ConfigurationError as wrong:
        raise in_options(wrong) from None
    except RequestNotSentError as failed:
        raise without_tls(failed) or failed from None


@contextmanager
def _progress() -> "Iterator[Callable[[Verdict, int], object] | None]":
    """Show on stderr, if that is a terminal, how far the run is, and its last verdict."""
    console = error_console()
    if not console.is_terminal:
        yield None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
    from rich.table import Column

    told = TextColumn("{task.description}", markup=False, table_column=Column(ratio=1, no_wrap=True))
    columns = (BarColumn(bar_width=20), MofNCompleteColumn(), told)
    with Progress(*columns, console=console, transient=True, expand=True) as bar:
        task = bar.add_task("…", total=None)

        def show(verdict: "Verdict", total: int) -> None:
            outcome = "advice" if verdict.is_advice else verdict.outcome
            bar.update(task, advance=1, total=total, description=f"{verdict.id} {outcome}: {visible(verdict.title)}")

        yield show


def _left_in(ledger: str, table_prefix: str) -> "LeftAnomalies":
    from game_operator.cli.certifying.clean_up import LeftAnomalies

    return LeftAnomalies(ledger, table_prefix)


def _ended(report: "Report", files: "dict[str, Path]", left: "LeftAnomalies | None", *, as_json: bool) -> int:
    """Write the files, tell what came of it, and return the exit code."""
    from game_operator.certify.report.summary import Summary
    from game_operator.cli.certifying.files import write_reports
    from game_operator.cli.reports.certify import tell_report

    written = write_reports(report, files)
    if not as_json:
        tell_report(report, written)
    resolved = {} if left is None else left.resolved(report.run_id, as_json=as_json)
    if as_json:
        from game_operator.certify.report.as_json import document

        write_document(document(report) | resolved)
    if not Summary(report).is_fine:
        return ExitCode.SAID_NO
    if left is not None and left.failed:
        return ExitCode.UNREACHABLE
    return ExitCode.FINE if written.keys() == files.keys() else ExitCode.UNWRITABLE
