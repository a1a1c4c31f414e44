"""What a report says, for tests of single groups."""

from game_operator_testkit.certifier import Outcome, Report, Verdict, scenarios

__all__ = ["found", "ids_of", "only", "skipped"]


def found(report: Report) -> dict[str, str]:
    """Return why each scenario failed, advice too."""
    return {each.id: each.reason for each in report.verdicts if each.outcome is Outcome.FAILED}


def skipped(report: Report) -> dict[str, str]:
    """Return why each scenario was skipped."""
    return {each.id: each.reason for each in report.skipped}


def only(report: Report) -> Verdict:
    """Return the one verdict that there is."""
    (verdict,) = report.verdicts
    return verdict


def ids_of(group: str) -> set[str]:
    """Return the ids of all scenarios of *group*."""
    return {each.id for each in scenarios() if each.id.startswith(group)}
