"""
Side by side: runners take turns, in shuffled order, and are compared round by round.

A busy machine slows neighbours in time alike, so the ratio of two turns of one round means something where seconds
do not. A turn returns the seconds of the processor that a call takes, or how many calls a second are done.
"""

import gc
import json
import random
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

__all__ = ["Comparison", "Finding", "Race", "Turn", "as_json", "as_table", "cpu", "run", "summary"]

#: Does the work so many times, or for so many seconds, and returns what a call costs or how many were done a second.
Turn = Callable[[float], float]
#: How long a turn is in a quick run, and before the first round: connections, plans and caches are nobody's handicap.
_QUICK = {True: 0.05, False: 1}


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two runners by name; *goal* is the highest ratio of costs, or the lowest of rates, that meets it."""

    ours: str
    peer: str
    goal: float | None = None


@dataclass(frozen=True, slots=True)
class Race:
    """Runners by name, what is compared, and the calls or, of rates, the seconds of a turn."""

    turns: Mapping[str, Turn]
    comparisons: Sequence[Comparison]
    amount: float
    rounds: int
    is_rate: bool = False


@dataclass(frozen=True, slots=True)
class Finding:
    """How a runner did beside its peer: the median ratio with the lowest and highest round, and both medians."""

    what: str
    peer: str
    goal: float | None
    is_rate: bool
    ratio: float
    low: float
    high: float
    ours: float
    theirs: float

    @property
    def verdict(self) -> str:
        """Whether the goal was met; "" without a goal."""
        if self.goal is None:
            return ""
        return "met" if (self.ratio >= self.goal if self.is_rate else self.ratio <= self.goal) else "MISSED"


def cpu(work: Callable[[], object]) -> Turn:
    """Return a turn that repeats *work* in this process, all threads included."""

    def turn(calls: float) -> float:
        began = time.process_time()
        for _ in range(int(calls)):
            work()
        return (time.process_time() - began) / calls

    return turn


def run(race: Race, *, quick: bool = False) -> Iterator[Finding]:
    """
    Run *race*, in full or, *quick*, one short round, and yield a finding for each comparison.

    Raises:
        RuntimeError: A runner did nothing in its turn.
    """
    short = _QUICK[race.is_rate]
    names = list(race.turns)
    if not quick:
        for name in names:
            _taken(race, name, 10 * short if race.is_rate else short)
    results: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(1 if quick else race.rounds):
        random.shuffle(names)
        for name in names:
            gc.collect()
            results[name].append(_taken(race, name, short if quick else race.amount))
    for each in race.comparisons:
        ours, theirs = results[each.ours], results[each.peer]
        ratios = [our / their for our, their in zip(ours, theirs, strict=True)]
        spread = (statistics.median(ratios), min(ratios), max(ratios), statistics.median(ours))
        yield Finding(each.ours, each.peer, each.goal, race.is_rate, *spread, statistics.median(theirs))


def _taken(race: Race, name: str, amount: float) -> float:
    taken = race.turns[name](amount)
    if race.is_rate and taken <= 0:
        raise RuntimeError(f"{name} did nothing in {amount} seconds")
    return taken


def as_table(findings: Sequence[Finding]) -> str:
    """Return a Markdown table: ratios are medians of the rounds, with the lowest and the highest round."""
    head = ["| what | beside | ratio | goal | ours | theirs |", "|---|---|---|---|---|---|"]
    return "\n".join([*head, *map(_row, findings)])


def _row(finding: Finding) -> str:
    sign = "≥" if finding.is_rate else "≤"
    goal = "" if finding.goal is None else f"{sign} {finding.goal:.2f}, {finding.verdict}"
    ratio = f"{finding.ratio:.2f} ({finding.low:.2f} to {finding.high:.2f})"
    ours, theirs = (_value(each, is_rate=finding.is_rate) for each in (finding.ours, finding.theirs))
    return f"| {finding.what} | {finding.peer} | {ratio} | {goal} | {ours} | {theirs} |"


def _value(value: float, *, is_rate: bool) -> str:
    if is_rate:
        return f"{value:,.0f}/s"
    return f"{value * 1e3:.1f} ms" if value >= 0.01 else f"{value * 1e6:.0f} µs"


def summary(findings: Sequence[Finding]) -> str:
    """Return in a sentence whether the goals were met."""
    missed = [f"{finding.what}, beside {finding.peer}" for finding in findings if finding.verdict == "MISSED"]
    if missed:
        return f"Missed: {'; '.join(missed)}."
    return "Every goal is met." if any(finding.verdict for finding in findings) else "Nothing here has a goal."


def as_json(findings: Sequence[Finding]) -> str:
    """Return the findings as one JSON document."""
    return json.dumps([asdict(finding) | {"verdict": finding.verdict} for finding in findings], indent=2)
