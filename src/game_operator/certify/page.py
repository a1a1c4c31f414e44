"""What a page about a report says first, and what it leaves out: from the report to what a template needs."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from game_operator.certify.report import Cause, Report
from game_operator.certify.scenario import GROUPS
from game_operator.certify.verdicts import Exchange, Outcome, Verdict, Weight

__all__ = ["Group", "Shown", "causes_that_fail", "groups", "headline", "shown_exchanges", "untried", "urgency"]

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
    weights = {verdict.weight for verdict in report.failures}
    if not report.verdicts or all(verdict.outcome is Outcome.SKIPPED for verdict in report.verdicts):
        return "Nothing was tried."
    if not weights:
        return "Passed: no money was lost or doubled, and the contract was kept."
    if weights >= {Weight.MONEY_LOST, Weight.MONEY_DOUBLED}:
        return "Failed: this wallet loses money, and doubles money."
    if Weight.MONEY_LOST in weights:
        return "Failed: this wallet loses money."
    if Weight.MONEY_DOUBLED in weights:
        return "Failed: this wallet doubles money."
    return "Failed: this wallet breaks the contract with the service."


def urgency(report: Report) -> str:
    """Return in a sentence how much money hangs on what was found, and where to begin; "" if nothing failed."""
    causes = causes_that_fail(report)
    if not causes:
        return ""
    at_risk = sum(cause.verdict.weight.is_money for cause in causes)
    others = len(causes) - at_risk
    said = []
    if at_risk:
        said.append(f"{_counted(at_risk, 'mistake puts', 'mistakes put')} money at risk")
    if others:
        noun = "" if at_risk else " mistake" if others == 1 else " mistakes"
        said.append(f"{others}{noun} {'breaks' if others == 1 else 'break'} the contract")
    begin = "Mend it, and run this again." if len(causes) == 1 else "Mend the first one first, and run this again."
    return f"{', '.join(said)}. {begin}"


def causes_that_fail(report: Report) -> list[Cause]:
    """Return what makes the wallet fail, what costs most first: what advice is about is left out."""
    return [cause for cause in report.causes if cause.verdict.failed]


def groups(report: Report) -> list[Group]:
    """Return the groups, those first in which something failed."""
    verdicts: defaultdict[str, list[Verdict]] = defaultdict(list)
    for verdict in report.verdicts:
        verdicts[verdict.group].append(verdict)
    made = [
        Group(letter, GROUPS.get(letter, "").capitalize(), sorted(each, key=_heaviest))
        for letter, each in verdicts.items()
    ]
    return sorted(made, key=lambda group: (_heaviest(group.verdicts[0])[0] if group.failed else 9, group.letter))


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
