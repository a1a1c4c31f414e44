"""What a page about a report says first, and what it leaves out: from the report to what a template needs."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from game_operator.certify.report.report import Cause, Report
from game_operator.certify.report.verdicts import GROUPS, Exchange, Outcome, Verdict, Weight

__all__ = ["NOTES", "Group", "Shown", "causes_that_fail", "grounds", "groups", "headline", "is_fine", "meaning"]
__all__ += ["shown_exchanges", "stopped_of", "undone_of", "untried", "urgency"]

#: The decision notes that scenarios rest on, by their names there, and what each is about.
NOTES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "decision 0010": "The bodies of webhooks",
        "decision 0011": "Who may call",
        "decision 0012": "Replies",
        "decision 0013": "Error codes of webhooks",
        "decision 0014": "What a repeated, late or early call does",
    }
)

#: Of a scenario's exchanges, beside those that show what is wrong; JSON has them all.
_SHOWN_PASSED: Final = 12
_SHOWN_FAILED: Final = 20


@dataclass(frozen=True, slots=True)
class Group:
    """A group of scenarios: its letter and name, and its verdicts, what failed first."""

    letter: str
    name: str
    verdicts: Sequence[Verdict]

    @property
    def failed(self) -> int:
        """How many make the wallet fail."""
        return sum(verdict.failed for verdict in self.verdicts)

    @property
    def advice(self) -> int:
        """How many could be better."""
        return sum(verdict.is_advice for verdict in self.verdicts)

    @property
    def skipped(self) -> int:
        """How many were not tried."""
        return sum(verdict.outcome is Outcome.SKIPPED for verdict in self.verdicts)

    @property
    def passed(self) -> int:
        """How many passed."""
        return sum(verdict.outcome is Outcome.PASSED for verdict in self.verdicts)

    @property
    def duration_ms(self) -> float:
        """How long all of them took."""
        return sum(verdict.duration_ms for verdict in self.verdicts)


@dataclass(frozen=True, slots=True)
class Shown:
    """
    One exchange on the page.

    Attributes:
        number: Its place among the scenario's exchanges, from 1.
        exchange: The exchange.
        decided: Whether it decided.
        reasons: What else it shows to be wrong.
    """

    number: int
    exchange: Exchange
    decided: bool
    reasons: Sequence[str]


def headline(report: Report) -> str:
    """Return in one sentence how it ended."""
    if not report.tried:
        return "Stopped before anything was tried to its end." if report.was_stopped else "Nothing was tried."
    if report.passed:
        return _passed(report)
    weights = {cause.verdict.weight for cause in causes_that_fail(report)}
    if weights >= {Weight.MONEY_LOST, Weight.MONEY_DOUBLED}:
        return "Failed: this wallet loses money, and doubles money."
    if Weight.MONEY_LOST in weights:
        return "Failed: this wallet loses money."
    if Weight.MONEY_DOUBLED in weights:
        return "Failed: this wallet doubles money."
    if report.unjudged:
        return f"Failed: {_unjudged(report)}, and nobody knows what became of the money."
    return "Failed: this wallet breaks the contract with the service."


def _passed(report: Report) -> str:
    undone, skipped = len(undone_of(report)), len(report.skipped)
    if report.was_stopped:
        return f"Stopped: nothing is wrong so far, and {_scenarios(skipped, 'was', 'were')} not tried."
    if undone:
        return f"Not finished: what was supplied did not work, and {_scenarios(undone)} could not be tried."
    rest = f"; {_scenarios(skipped, 'was', 'were')} not tried" if skipped else ""
    return f"Passed: no money was lost or doubled, and the contract was kept{rest}."


def urgency(report: Report) -> str:
    """Return in a sentence or two how much money hangs on what was found, and where to begin; "" if nothing failed."""
    causes = causes_that_fail(report)
    if not causes:
        return ""
    at_risk = sum(cause.verdict.weight.is_money for cause in causes)
    hiding = sum(cause.verdict.is_unjudged for cause in causes)
    counted = (
        (at_risk, "puts money at risk", "put money at risk"),
        (hiding, "hides what became of it", "hide what became of it"),
        (len(causes) - at_risk - hiding, "breaks the contract", "break the contract"),
    )
    said = [f"{number} {one if number == 1 else many}" for number, one, many in counted if number]
    number, _, rest = said[0].partition(" ")
    said[0] = f"{number} {'mistake' if number == '1' else 'mistakes'} {rest}"
    told = f"{', '.join(said)}."
    if at_risk and report.unjudged:
        told += f" {_unjudged(report)}: nobody knows what became of the money there."
    begin = "Mend it, and run this again." if len(causes) == 1 else "Mend the first one first, and run this again."
    return f"{told} {begin}"


def _unjudged(report: Report) -> str:
    return f"{_scenarios(len(report.unjudged))} could not be judged"


def _scenarios(number: int, one: str = "", many: str = "") -> str:
    return f"{_counted(number, f'scenario {one}', f'scenarios {many}')}".rstrip()


def is_fine(report: Report) -> bool:
    """Return whether something was tried, nothing failed, all that was supplied did its work, and nobody stopped it."""
    return report.passed and report.tried and not undone_of(report) and not report.was_stopped


def undone_of(report: Report) -> list[Verdict]:
    """Return what was not tried because what was supplied for it did not work."""
    return [verdict for verdict in report.skipped if verdict.is_undone]


def stopped_of(report: Report) -> list[Verdict]:
    """Return what was not tried, or not to its end, because somebody stopped the run."""
    return [verdict for verdict in report.verdicts if verdict.is_stopped]


def meaning(cause: Cause, report: Report) -> str:
    """Return what *cause* means, and before it what is known of the money, if that is not said by its weight."""
    if cause.verdict.weight.is_money:
        return cause.means
    if cause.verdict.is_unjudged:
        return f"Nobody knows what became of the money. {cause.means}"
    return cause.means if report.unjudged or report.money_at_risk else f"No money went wrong. {cause.means}"


def grounds(report: Report) -> list[tuple[str, str]]:
    """Return the decision notes that scenarios of *report* rest on, by their names, with their titles."""
    named = {each for verdict in report.verdicts for each in verdict.rests_on}
    return [(name, title) for name, title in NOTES.items() if name in named]


def causes_that_fail(report: Report) -> list[Cause]:
    """Return what makes the wallet fail, what costs most first: what advice is about is left out."""
    return [cause for cause in report.causes if cause.verdict.failed]


def groups(report: Report) -> list[Group]:
    """Return the groups in the order of their letters, and in each what failed first."""
    verdicts: defaultdict[str, list[Verdict]] = defaultdict(list)
    for verdict in report.verdicts:
        verdicts[verdict.group].append(verdict)
    return [
        Group(letter, GROUPS.get(letter, "").capitalize(), sorted(each, key=_heaviest))
        for letter, each in sorted(verdicts.items())
    ]


def _heaviest(verdict: Verdict) -> tuple[int, str]:
    if verdict.outcome is Outcome.FAILED:
        return verdict.weight.rank, verdict.id
    return (4 if verdict.outcome is Outcome.SKIPPED else 5), verdict.id


def shown_exchanges(verdict: Verdict) -> list[Shown]:
    """Return the exchanges that are worth a place on the page: the first ones, and all that show what is wrong."""
    reasons: defaultdict[int, list[str]] = defaultdict(list)
    for note in verdict.notes:
        if note.exchange is not None:
            reasons[note.exchange].append(note.reason)
    decisive = verdict.notes[0].exchange if verdict.notes else None
    most = _SHOWN_FAILED if verdict.outcome is Outcome.FAILED else _SHOWN_PASSED
    return [
        Shown(place + 1, exchange, place == decisive, reasons[place][place == decisive :])
        for place, exchange in enumerate(verdict.exchanges)
        if place < most or place in reasons
    ]


def untried(skipped: Iterable[Verdict]) -> Mapping[str, Sequence[Verdict]]:
    """Return the scenarios that were not tried, by the reason."""
    by_reason: defaultdict[str, list[Verdict]] = defaultdict(list)
    for verdict in skipped:
        by_reason[verdict.reason].append(verdict)
    return by_reason


def _counted(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"
