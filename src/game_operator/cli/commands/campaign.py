"""``game-operator campaign``: free bets for many players, planned once and granted once."""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from game_operator.cli.database import LedgerOptions
from game_operator.cli.errors import ExitCode, StoppedError, stopping_gently
from game_operator.cli.files import check_writable, is_written
from game_operator.cli.options import Commands, ServiceOptions, Source
from game_operator.cli.output import answer, remark, show_kinds, waiting
from game_operator.errors import CampaignRefusedError

if TYPE_CHECKING:
    from game_operator.backoffice import Campaign, CampaignReport, CampaignStatus


campaigns: Commands = Commands(name="campaign", help="Grant free bets to many players, each of them once.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="The campaign: up to 40 letters, digits, '.', '_', '-'.")]
_STOPPING: Final = "Stopping: the calls under way are finished first. Ctrl-C once more ends at once."
_PLAN: Final = {"": "name grants exposure_cents currency players_checked digest"}
_STATUS: Final = {
    "": (
        "name state why total exposure_cents currency rate_per_second at_work service touched_at_millis ended_at_millis"
    ),
    "by_state": "state grants",
}


@dataclass(frozen=True, kw_only=True)
class TermsOptions:
    """What a player gets whose row says nothing else."""

    instance_id: Annotated[str | None, typer.Option("--instance")] = None
    count: int | None = None
    wager_amount_cents: Annotated[int | None, typer.Option("--wager-cents")] = None
    expire_duration_millis: Annotated[int | None, typer.Option("--expire-millis")] = None


@dataclass(frozen=True, kw_only=True)
class GrantingOptions:
    """How grants are made."""

    rate: float | None = None
    concurrency: Annotated[int, typer.Option(min=1, max=64)] = 4
    confirm: bool = False


@campaigns.command()
def plan(
    *,
    name: Name,
    players: Path,
    terms: TermsOptions,
    max_exposure_cents: Annotated[int | None, typer.Option(min=0)] = None,
    source: Source = "",
    no_player_check: bool = False,
    service: ServiceOptions,
    place: LedgerOptions,
) -> None:
    """
    Check all players, show the exposure, and freeze the plan. Nothing is sent to anybody.

    The exposure is what is staked for the players, and not the most that they can win. The file is CSV in UTF-8. Its
    first line names its columns: player_id, and if you like instance_id, count, wager_amount_cents and
    expire_duration_millis, which stand for --instance, --count, --wager-cents and --expire-millis.
    """
    from game_operator.backoffice import Campaign

    with place.opened() as ledger, service.client() as client:
        made = Campaign(client, ledger, name, **vars(terms), source=source)
        try:
            with waiting("Checking the players …"):
                drawn = made.plan(players, max_exposure_cents=max_exposure_cents, check_players=not no_player_check)
        except CampaignRefusedError as refused:
            for line, text in refused.problems:
                remark(f"line {line}: {text}")
            raise
    to_do = f"Nothing was sent. To make the grants: game-operator campaign run {name}"
    answer(asdict(drawn), to_do if drawn.is_new else "This plan was there already.", view=_PLAN)


@campaigns.command()
def run(*, name: Name, how: GrantingOptions, service: ServiceOptions, place: LedgerOptions) -> int:
    """
    Make the grants of a campaign that is planned. Several processes may run one campaign.

    The first ten are made one at a time, and any refusal of them pauses the campaign. Ctrl-C finishes what is under
    way. Exit code 1 if it is paused, or if grants were refused.
    """
    return _granted(name, how, service, place, again=False)


@campaigns.command()
def resume(*, name: Name, how: GrantingOptions, service: ServiceOptions, place: LedgerOptions) -> int:
    """
    Go on with a campaign that is paused, as run does, and try again what was given up.

    What is in doubt is asked for under the same reference ids, so that nobody is granted twice.
    """
    return _granted(name, how, service, place, again=True)


@campaigns.command()
def status(*, name: Name, place: LedgerOptions) -> None:
    """Show how far a campaign is."""
    with _looked_at(name, place) as made:
        _show_status(made.status())


@campaigns.command()
def stop(*, name: Name, reason: str = "stopped", place: LedgerOptions) -> None:
    """Pause a campaign that any process runs: the calls under way are finished, and nothing more is begun."""
    with _looked_at(name, place) as made:
        _show_status(made.stop(reason))


@campaigns.command()
def report(
    *,
    name: Name,
    results: Annotated[Path | None, typer.Option(metavar="FILE")] = None,
    place: LedgerOptions,
) -> int:
    """
    Report what became of a campaign. Exit code 1 with findings or refusals.

    What players won with free bets is in the totals: a claim names no grant.
    """
    from game_operator.backoffice.campaigns.report import results_csv

    if results is not None:
        check_writable("--results", results, ".csv")
    with _looked_at(name, place) as made:
        is_fine = results is None or is_written(results, "".join(results_csv(made.results())), "results")
        found = made.report()
    _show_report(found)
    return _exit_code(found) if is_fine else ExitCode.UNWRITABLE


@contextmanager
def _looked_at(name: str, place: LedgerOptions) -> "Iterator[Campaign]":
    """Yield a campaign that is not run; the operator's key is of no use for that."""
    from game_operator.backoffice import Campaign

    with place.opened() as ledger:
        yield Campaign(None, ledger, name)


def _granted(
    name: str,
    how: GrantingOptions,
    service: ServiceOptions,
    place: LedgerOptions,
    *,
    again: bool,
) -> int:
    from game_operator.backoffice import Campaign

    signals = list[int]()
    with place.opened() as ledger, service.client() as client:
        made = Campaign(client, ledger, name)
        work = made.resume if again else made.run
        try:
            with stopping_gently(made.interrupt, _STOPPING) as signals, waiting("Granting …"):
                found = work(rate_per_second=how.rate, confirm=how.confirm, concurrency=how.concurrency)
        except KeyboardInterrupt:
            stopped = StoppedError(
                128 + next(iter(signals), signal.SIGINT),
                "Interrupted. Grants that were under way may have been made.",
                advice=f"To ask for them again by the same reference ids: game-operator campaign run {name}",
            )
            code = stopped.show(as_json=False)
            sys.stderr.flush()
            os._exit(code)  # The threads may wait for an answer for half a minute.
    _show_report(found)
    if signals:
        raise StoppedError(128 + signals[0])
    return _exit_code(found)


def _show_status(found: "CampaignStatus") -> None:
    answer(asdict(found), *_how_to_go_on(found), view=_STATUS)


def _show_report(found: "CampaignReport") -> None:
    answer(
        asdict(found) | {"findings": [_finding(each) for each in found.findings]},
        *_how_to_go_on(found),
        view=_STATUS,
    )
    show_kinds(found.findings, "subject", "player_id")


def _how_to_go_on(found: "CampaignStatus") -> list[str]:
    if found.state == "paused":
        return [f"When that is settled: game-operator campaign resume {found.name}"]
    is_left = found.state != "finished" and not found.at_work
    return [f"To make the grants: game-operator campaign run {found.name}"] if is_left else []


def _finding(finding: Any) -> dict[str, object]:  # Any: a Finding, whose evidence is bytes.
    document = dict(finding._asdict())
    evidence = document.pop("evidence")
    return document | {"evidence": None if evidence is None else evidence.decode(errors="replace")}


def _exit_code(found: "CampaignReport") -> int:
    from game_operator.backoffice.campaigns import GrantState

    refused = found.count(GrantState.REFUSED)
    return ExitCode.SAID_NO if found.state == "paused" or refused or found.findings else ExitCode.FINE
