"""How campaigns look: for people as tables, for programs as JSON."""

from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Final

from game_operator.cli.output import answer, counted, remark, say, show_details, show_rows, when
from game_operator.errors import CampaignRefusedError
from game_operator.money import amount_from_cents

if TYPE_CHECKING:
    from game_operator.backoffice import CampaignPlan, CampaignReport, CampaignStatus

_STAKED: Final = "That is what is staked for the players, and not the most that they can win."
_MOST_FINDINGS: Final = 20
_HEADINGS: Final = ("Kind", "Reference id", "Player", "Detail")


def _document(record: Any) -> dict[str, object]:  # One of the dataclasses of campaigns.
    return {each.name: getattr(record, each.name) for each in fields(record)}


def _money(by_currency: Mapping[str, int]) -> str:
    return ", ".join(f"{amount_from_cents(cents)} {currency}" for currency, cents in by_currency.items()) or "none"


def show_problems(refused: CampaignRefusedError) -> None:
    """Print what is wrong with the rows of the players, a line each, for people."""
    for line, text in refused.problems:
        remark(f"line {line}: {text}")
    if refused.problem_count > len(refused.problems) > 0:
        remark(f"… and {refused.problem_count - len(refused.problems)} more")


def show_plan(plan: "CampaignPlan") -> None:
    """Print a plan."""
    answer(_document(plan))
    checked = "known to the ledger" if plan.players_checked else "not checked: the ledger was not asked, or cannot tell"
    show_details(
        [
            ("campaign", plan.name),
            ("grants", plan.grants),
            ("exposure", _money(plan.exposure_cents)),
            ("players", checked),
            ("digest", plan.digest),
        ]
    )
    say(_STAKED)
    for each in plan.remarks:
        say(each, style="yellow")
    if plan.is_new:
        say(f"Nothing was sent. To make the grants: game-operator campaign run {plan.name}", style="green")
    else:
        say("This plan was there already.")


def show_status(status: "CampaignStatus") -> None:
    """Print how far a campaign is."""
    answer(_document(status))
    show_details(_standing(status))
    if status.state == "paused":
        _say_how_to_resume(status)
    elif status.state != "finished" and not status.at_work:
        say(f"No process is at work on it. To make the grants: game-operator campaign run {status.name}")


def _say_how_to_resume(status: "CampaignStatus") -> None:
    say(f"When that is settled: game-operator campaign resume {status.name}", style="yellow")


def _standing(status: "CampaignStatus") -> list[tuple[str, object]]:
    by_state = ", ".join(f"{tally.grants} {state}" for state, tally in sorted(status.by_state.items()))
    lines: list[tuple[str, object]] = [
        ("campaign", status.name),
        ("state", f"{status.state}: {status.why}" if status.why else status.state),
        ("grants", f"{status.total}: {by_state}"),
        ("exposure", _money(status.exposure_cents)),
        ("rate", f"{status.rate_per_second:g} calls/s at most, {counted(status.at_work, 'thread')} at work"),
        ("service", status.service),
        ("last active (UTC)", when(status.touched_at_millis)),
    ]
    if status.in_doubt:
        lines.append(("in doubt", f"{counted(status.in_doubt, 'grant')}, asked for again by the same reference id"))
    return lines


def show_report(report: "CampaignReport") -> None:
    """Print what became of a campaign."""
    answer(_document(report) | {"findings": [_finding(each) for each in report.findings]})
    show_details([*_standing(report), ("granted", _money(report.granted_exposure_cents))])
    rows = [(each.kind, each.subject, each.player_id or "–", each.detail) for each in report.findings[:_MOST_FINDINGS]]
    if rows:
        show_rows("Findings", _HEADINGS, rows, numbers=())
    if len(report.findings) > _MOST_FINDINGS:
        say(f"… and {len(report.findings) - _MOST_FINDINGS} more; --json lists them.")
    if report.state == "paused":
        _say_how_to_resume(report)


def _finding(finding: Any) -> dict[str, object]:  # A Finding, whose evidence is bytes.
    document = dict(finding._asdict())
    evidence = document.pop("evidence")
    return document | {"evidence": None if evidence is None else evidence.decode(errors="replace")}
