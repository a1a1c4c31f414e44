"""A certification as a whole: its verdicts, its figures, and what to change first."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from game_operator.certify.report.mistakes import Mistake
from game_operator.certify.report.verdicts import Outcome, Verdict

__all__ = ["Cause", "Latency", "Moved", "Report"]


@dataclass(frozen=True, slots=True)
class Latency:
    """
    How long answers took in the load phase.

    Attributes:
        samples_ms: Of each call, in the order of sending.
        seconds: How long the phase took.
        concurrency: How many calls were under way at once.
    """

    samples_ms: tuple[float, ...] = field(repr=False)
    seconds: float
    concurrency: int

    def percentile_ms(self, percent: float) -> float:
        """Return the time within which *percent* of the calls were answered; 0.0 if there were none."""
        if not self.samples_ms:
            return 0.0
        ordered = sorted(self.samples_ms)
        # The nearest rank: the smallest sample that has at least so many at or below it.
        return ordered[max(0, -(-int(percent * len(ordered)) // 100) - 1)]


@dataclass(frozen=True, slots=True)
class Moved:
    """What the run left of a player's balance, in cents; None where it could not be read."""

    player_id: str
    before_cents: int | None
    after_cents: int | None

    @property
    def difference_cents(self) -> int | None:
        """How much more there is than before."""
        if self.before_cents is None or self.after_cents is None:
            return None
        return self.after_cents - self.before_cents


@dataclass(frozen=True, slots=True)
class Cause:
    """
    One mistake, wherever it shows.

    Attributes:
        verdict: The scenario that shows it best.
        others: The other failed scenarios that it explains.
        mistake: It in words, if it shows alike in many scenarios; None if the scenario has the words.
    """

    verdict: Verdict
    others: tuple[Verdict, ...] = ()
    mistake: Mistake | None = None

    @property
    def title(self) -> str:
        """What goes wrong, in a few words."""
        return self.mistake.title if self.mistake else self.verdict.title

    @property
    def means(self) -> str:
        """What it means: who loses money, if anybody does."""
        return self.mistake.means if self.mistake else self.verdict.means

    @property
    def mend(self) -> str:
        """How it is usually mended."""
        return self.mistake.mend if self.mistake else self.verdict.mend

    @property
    def ids(self) -> tuple[str, ...]:
        """Of all scenarios that it made fail, the best first."""
        return self.verdict.id, *(other.id for other in self.others)


@dataclass(frozen=True, slots=True)
class Report:
    """
    What a certification found.

    Attributes:
        url: The wallet's address; "" for one in this process.
        verdicts: Of all scenarios, in the order of their ids; skipped ones too.
        causes: What is wrong, what costs most first; a mistake that shows in several scenarios is one cause.
        latency: Of the load phase; None if there was none.
        moved: What the run left of the players' balances.
        began_millis: When it began, in Unix milliseconds.
        seconds: How long it took.
        calls: How many requests were sent.
        run_id: What all ids of this run begin with.
        stages_seconds: How long each stage took, by its name.
        version: Of this package.
        with_signatures: Whether it holds the signatures of the calls: with them, others can send the calls again.
    """

    url: str
    verdicts: tuple[Verdict, ...]
    causes: tuple[Cause, ...]
    latency: Latency | None
    moved: tuple[Moved, ...]
    began_millis: int
    seconds: float
    calls: int
    run_id: str
    version: str
    stages_seconds: Mapping[str, float] = field(default_factory=dict)
    with_signatures: bool = False

    @property
    def passed(self) -> bool:
        """Whether no verdict failed, advice apart."""
        return not any(verdict.failed for verdict in self.verdicts)

    @property
    def tried(self) -> bool:
        """Whether anything was tried at all: a run that skipped everything has passed, and says nothing."""
        return any(verdict.outcome is not Outcome.SKIPPED for verdict in self.verdicts)

    @property
    def was_stopped(self) -> bool:
        """Whether somebody stopped it before its end."""
        return any(verdict.is_stopped for verdict in self.verdicts)

    @property
    def failures(self) -> tuple[Verdict, ...]:
        """The verdicts that make the wallet fail."""
        return tuple(verdict for verdict in self.verdicts if verdict.failed)

    @property
    def advice(self) -> tuple[Verdict, ...]:
        """What could be better."""
        return tuple(verdict for verdict in self.verdicts if verdict.is_advice)

    @property
    def skipped(self) -> tuple[Verdict, ...]:
        """What was not tried."""
        return tuple(verdict for verdict in self.verdicts if verdict.outcome is Outcome.SKIPPED)

    @property
    def unjudged(self) -> tuple[Verdict, ...]:
        """The failures behind which nobody knows what became of the money: what hides it is to be mended first."""
        return tuple(verdict for verdict in self.verdicts if verdict.is_unjudged)

    @property
    def money_at_risk(self) -> tuple[Cause, ...]:
        """The causes by which money is lost or doubled."""
        return tuple(cause for cause in self.causes if cause.verdict.weight.is_money)

    def verdict(self, scenario_id: str) -> Verdict:
        """
        Return the verdict of one scenario.

        Raises:
            KeyError: No scenario has this id.
        """
        for verdict in self.verdicts:
            if verdict.id == scenario_id:
                return verdict
        raise KeyError(scenario_id)

    def of_group(self, group: str) -> Iterator[Verdict]:
        """Yield the verdicts of the group with this letter."""
        return (verdict for verdict in self.verdicts if verdict.group == group)
