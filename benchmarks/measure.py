"""
Side by side: contenders take turns, in shuffled order, and are compared round by round.

A busy machine slows neighbours in time alike, so the ratio of two turns of one round means something where seconds
do not. What counts is processor time; the wall clock is reported beside it.
"""

import gc
import random
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Self

__all__ = ["Contender", "Cost", "Finding", "Race", "Spread", "Turn", "run", "timed"]


@dataclass(frozen=True, slots=True)
class Cost:
    """What a turn took, in seconds; of the processor, and of the clock on the wall."""

    cpu: float
    wall: float


#: Does the work so many times and says what it took.
Turn = Callable[[int], Cost]


@dataclass(frozen=True, slots=True)
class Contender:
    """One way to do the work; *bar* is the highest ratio to the peer that meets the goal, None without a goal."""

    name: str
    turn: Turn
    bar: float | None = None


@dataclass(frozen=True, slots=True)
class Race:
    """A *peer* and the contenders measured against it, *calls* to a turn."""

    name: str
    peer: Contender
    contenders: tuple[Contender, ...]
    calls: int
    rounds: int


@dataclass(frozen=True, slots=True)
class Spread:
    """The median of the rounds, and the lowest and highest of them."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: list[float]) -> Self:
        """Return the spread of *values*."""
        return cls(statistics.median(values), min(values), max(values))


@dataclass(frozen=True, slots=True)
class Finding:
    """How a contender did beside its peer; seconds are for one call, by the median of the rounds."""

    race: str
    what: str
    peer: str
    bar: float | None
    rounds: int
    cpu_ratio: Spread
    wall_ratio: Spread
    cpu_seconds: float
    peer_cpu_seconds: float

    @property
    def verdict(self) -> str:
        """Whether the goal was met; "" without a goal."""
        if self.bar is None:
            return ""
        return "met" if self.cpu_ratio.median <= self.bar else "MISSED"


def timed(work: Callable[[int], object]) -> Turn:
    """Return *work*, measured in this process, all threads included."""

    def turn(calls: int) -> Cost:
        cpu, wall = time.process_time(), time.perf_counter()
        work(calls)
        ended = time.perf_counter()
        return Cost(time.process_time() - cpu, ended - wall)

    return turn


def run(race: Race, *, quick: bool = False) -> Iterator[Finding]:
    """Run *race*, in full or, *quick*, one round of one call each, and yield a finding for each contender."""
    rounds, calls = (1, 1) if quick else (race.rounds, race.calls)
    runners = [race.peer, *race.contenders]
    if not quick:
        for runner in runners:
            runner.turn(1)  # Connections, caches and byte code are nobody's handicap.
    costs: dict[str, list[Cost]] = {runner.name: [] for runner in runners}
    for _ in range(rounds):
        random.shuffle(runners)
        for runner in runners:
            gc.collect()
            costs[runner.name].append(runner.turn(calls))
    for contender in race.contenders:
        yield _finding(race, contender, costs[contender.name], costs[race.peer.name], calls)


def _finding(race: Race, contender: Contender, ours: list[Cost], theirs: list[Cost], calls: int) -> Finding:
    pairs = list(zip(ours, theirs, strict=True))
    return Finding(
        race=race.name,
        what=contender.name,
        peer=race.peer.name,
        bar=contender.bar,
        rounds=len(pairs),
        cpu_ratio=Spread.of([our.cpu / their.cpu for our, their in pairs]),
        wall_ratio=Spread.of([our.wall / their.wall for our, their in pairs]),
        cpu_seconds=statistics.median(cost.cpu for cost in ours) / calls,
        peer_cpu_seconds=statistics.median(cost.cpu for cost in theirs) / calls,
    )
