"""
Throughput side by side: runners take turns of some seconds, in shuffled order, and are compared round by round.

Where ``measure`` asks what a call costs, this asks how many of them a second are done and committed.
"""

import gc
import random
import statistics
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from benchmarks.measure import Spread

__all__ = ["Comparison", "RateFinding", "RateRace", "RateTurn", "run_rates"]

#: Does work for about so many seconds and says how many calls a second were done.
RateTurn = Callable[[float], float]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two runners by name; *at_least* is the lowest ratio that meets the goal, None without a goal."""

    ours: str
    peer: str
    at_least: float | None = None


@dataclass(frozen=True, slots=True)
class RateRace:
    """Runners by name, *seconds* to a turn, and what is compared."""

    name: str
    runners: Mapping[str, RateTurn]
    comparisons: tuple[Comparison, ...]
    seconds: float = 2.0
    rounds: int = 3


@dataclass(frozen=True, slots=True)
class RateFinding:
    """How one runner did beside another; rates are calls a second, by the median of the rounds."""

    race: str
    what: str
    peer: str
    at_least: float | None
    rounds: int
    ratio: Spread
    rate: float
    peer_rate: float

    @property
    def verdict(self) -> str:
        """Whether the goal was met; "" without a goal."""
        if self.at_least is None:
            return ""
        return "met" if self.ratio.median >= self.at_least else "MISSED"


def run_rates(race: RateRace, *, quick: bool = False) -> Iterator[RateFinding]:
    """
    Run *race*, in full or, *quick*, one short round, and yield a finding for each comparison.

    Raises:
        RuntimeError: A runner did nothing in its turn.
    """
    rounds, seconds = (1, 0.05) if quick else (race.rounds, race.seconds)
    if not quick:
        for turn in race.runners.values():
            turn(0.5)  # Plans, connections and caches are nobody's handicap.
    rates: dict[str, list[float]] = {name: [] for name in race.runners}
    for _ in range(rounds):
        names = list(race.runners)
        random.shuffle(names)
        for name in names:
            gc.collect()
            rates[name].append(_rate(name, race.runners[name], seconds))
    for comparison in race.comparisons:
        yield _finding(race.name, comparison, rates[comparison.ours], rates[comparison.peer])


def _rate(name: str, turn: RateTurn, seconds: float) -> float:
    rate = turn(seconds)
    if rate <= 0:
        raise RuntimeError(f"{name} did nothing in {seconds} seconds")
    return rate


def _finding(race: str, comparison: Comparison, ours: list[float], theirs: list[float]) -> RateFinding:
    return RateFinding(
        race=race,
        what=comparison.ours,
        peer=comparison.peer,
        at_least=comparison.at_least,
        rounds=len(ours),
        ratio=Spread.of([our / their for our, their in zip(ours, theirs, strict=True)]),
        rate=statistics.median(ours),
        peer_rate=statistics.median(theirs),
    )
