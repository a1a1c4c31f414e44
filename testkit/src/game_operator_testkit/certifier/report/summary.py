"""What every form of a report says first: how it ended, what to change, and what was not tried."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from game_operator_testkit.certifier.report.report import Cause, Report
from game_operator_testkit.certifier.report.verdicts import GROUPS, Outcome, Verdict, Weight


@dataclass(frozen=True, slots=True)
class Group:
    """A group of scenarios: letter and name, verdicts (failures first), and how many have which outcome, or advice."""

    letter: str
    name: str
    verdicts: Sequence[Verdict]
    counts: Counter[str]


@dataclass(frozen=True)
class Summary:
    """The summary of *report*; terminal, HTML, JSON, JUnit and pytest render it."""

    report: Report

    @cached_property
    def counts(self) -> Mapping[str, int]:
        """How many scenarios ended in which way."""
        return {
            "passed": sum(verdict.outcome is Outcome.PASSED for verdict in self.report.verdicts),
            "failed": len(self.report.failures),
            "advice": len(self.report.advice),
            "not tried": len(self.report.skipped),
        }

    @cached_property
    def undone(self) -> list[Verdict]:
        """What was not tried because what was supplied for it did not work."""
        return [verdict for verdict in self.report.skipped if verdict.is_undone]

    @cached_property
    def stopped(self) -> list[Verdict]:
        """What was not tried, or not to its end, because somebody stopped the run."""
        return [verdict for verdict in self.report.verdicts if verdict.is_stopped]

    @cached_property
    def is_fine(self) -> bool:
        """Whether something was tried, nothing failed, all that was supplied worked, and the run was not stopped."""
        return self.report.passed and self.is_complete

    @cached_property
    def is_complete(self) -> bool:
        """Whether something was tried, all that was supplied worked, and the run was not stopped."""
        return self.report.tried and not self.undone and not self.report.was_stopped

    @cached_property
    def state(self) -> str:
        """``Passed``, ``Failed``, ``Stopped`` or ``Not finished``."""
        if not self.report.passed:
            return "Failed"
        return "Passed" if self.is_fine else "Stopped" if self.report.was_stopped else "Not finished"

    @cached_property
    def causes(self) -> list[Cause]:
        """The causes that make the wallet fail, the most urgent first."""
        return [cause for cause in self.report.causes if cause.verdict.failed]

    @cached_property
    def headline(self) -> str:
        """How it ended, in one sentence."""
        report, skipped = self.report, len(self.report.skipped)
        if not report.tried:
            return "Stopped before anything was tried to its end." if report.was_stopped else "Nothing was tried."
        if not report.passed:
            return f"Failed: {self._what_failed()}."
        if report.was_stopped:
            return f"Stopped: nothing is wrong so far, and {_scenarios(skipped, 'was', 'were')} not tried."
        if self.undone:
            undone = _scenarios(len(self.undone))
            return f"Not finished: what was supplied did not work, and {undone} could not be tried."
        rest = f"; {_scenarios(skipped, 'was', 'were')} not tried" if skipped else ""
        return f"Passed: no money was lost or doubled, and the contract was kept{rest}."

    @cached_property
    def line(self) -> str:
        """How it ended and the numbers, in one line, which keeps its form from version to version."""
        return f"{self.state.upper()}: {', '.join(f'{count} {what}' for what, count in self.counts.items())}"

    @cached_property
    def urgency(self) -> str:
        """How many mistakes there are, what they cost and where to begin, in two sentences; "" if nothing failed."""
        if not self.causes:
            return ""
        costs = Counter(cause.verdict.cost for cause in self.causes)
        counted = "1 mistake" if len(self.causes) == 1 else f"{len(self.causes)} mistakes"
        said = ", ".join(f"{count} {cost}" for cost, count in costs.items())
        return f"{counted}: {said}. Fix the first one first, and run this again."

    def meaning(self, cause: Cause) -> str:
        """Return what *cause* means, and first what is known of the money unless the cause's weight says it."""
        if cause.verdict.weight.is_money:
            return cause.means
        if cause.verdict.is_unjudged:
            return f"This run cannot say whether the money is right. {cause.means}"
        is_about_money = self.report.unjudged or self.report.money_at_risk
        return cause.means if is_about_money else f"No money was lost or doubled in this run. {cause.means}"

    @cached_property
    def groups(self) -> list[Group]:
        """The groups of scenarios, by their letters."""
        groups = []
        for letter in sorted({verdict.group for verdict in self.report.verdicts}):
            verdicts = sorted(self.report.of_group(letter), key=_heaviest)
            counts = Counter("advice" if each.is_advice else each.outcome.value for each in verdicts)
            groups.append(Group(letter, GROUPS.get(letter, "").capitalize(), verdicts, counts))
        return groups

    @cached_property
    def _causes(self) -> Mapping[str, Cause]:
        return {each: cause for cause in self.report.causes for each in cause.ids}

    def cause_of(self, verdict: Verdict) -> Cause:
        """Return the cause by which *verdict* failed."""
        return self._causes.get(verdict.id) or Cause(verdict)

    def failure(self, verdict: Verdict) -> str:
        """Return why *verdict* failed, after the id of its cause: of the scenario that shows the mistake best."""
        return f"{self.cause_of(verdict).verdict.id}: {verdict.reason}"

    def _what_failed(self) -> str:
        weights = {cause.verdict.weight for cause in self.causes}
        money = {Weight.MONEY_LOST: "loses money", Weight.MONEY_DOUBLED: "doubles money"}
        if told := [what for weight, what in money.items() if weight in weights]:
            return f"this wallet {', and '.join(told)}"
        if unjudged := len(self.report.unjudged):
            return f"{_scenarios(unjudged)} could not be judged, and nobody knows what became of the money"
        return "this wallet breaks the contract with the service"


def by_reason(verdicts: Iterable[Verdict]) -> Mapping[str, Sequence[Verdict]]:
    """Return *verdicts*, such as those of scenarios that were not tried, by their reasons."""
    reasons: defaultdict[str, list[Verdict]] = defaultdict(list)
    for verdict in verdicts:
        reasons[verdict.reason].append(verdict)
    return reasons


def _heaviest(verdict: Verdict) -> tuple[int, str]:
    if verdict.outcome is Outcome.FAILED:
        return verdict.weight.rank, verdict.id
    return (4 if verdict.outcome is Outcome.SKIPPED else 5), verdict.id


def _scenarios(number: int, one: str = "", many: str = "") -> str:
    return (f"1 scenario {one}" if number == 1 else f"{number} scenarios {many}").rstrip()
