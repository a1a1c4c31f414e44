"""
``python -m benchmarks.before_after OLD_CHECKOUT`` compares the package of another checkout with this one's.

Each runs in a process of its own, with the benchmarks of this checkout. They take turns, in an order that changes with
each round, so that a busy machine slows both alike. The ratio is new to old: above 1 the new one takes longer.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmarks.__main__ import SUITES
from benchmarks.measure import Race
from benchmarks.rates import RateRace
from benchmarks.stage import Stage, set_stage

__all__ = ["main"]

_ROOT = Path(__file__).parent.parent
_QUESTION = "game-operator-benchmark "


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.before_after", description=__doc__)
    parser.add_argument("old", type=Path, help="the other checkout")
    parser.add_argument("suites", nargs="*", help=f"some of {', '.join(SUITES)}")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=0.5, help="of a turn that counts calls a second")
    parser.add_argument("--runner", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    suites = arguments.suites or [name for name in SUITES if name != "growth"]
    if arguments.runner:
        _serve(suites, arguments.seconds)
        return
    print("| what | new / old, median | lowest to highest round | old | new |\n|---|---|---|---|---|")
    for suite in suites:
        for row in _compared(suite, arguments.old.resolve(), arguments.rounds, arguments.seconds):
            print(row, flush=True)


def _compared(suite: str, old: Path, rounds: int, seconds: float) -> Iterator[str]:
    with ExitStack() as stack:
        sides = [_Side(stack, checkout, suite, seconds) for checkout in (old, _ROOT)]
        while (what := sides[0].next_contender()) is not None:
            if sides[1].next_contender() != what:
                raise RuntimeError(f"the two checkouts do not measure the same: {what}")
            yield _row(what, [_round(sides, number) for number in range(rounds)])
        sides[1].next_contender()


def _round(sides: "list[_Side]", number: int) -> list[float]:
    costs = [0.0, 0.0]
    for index in (0, 1) if number % 2 else (1, 0):
        costs[index] = sides[index].turn()
    return costs


def _row(what: str, costs: list[list[float]]) -> str:
    ratios = [new / old for old, new in costs]
    times = " | ".join(f"{statistics.median(each[index] for each in costs) * 1e6:.0f} µs" for index in (0, 1))
    return f"| {what} | **{statistics.median(ratios):.3f}** | {min(ratios):.2f} to {max(ratios):.2f} | {times} |"


class _Side:
    """The process that measures one checkout."""

    def __init__(self, stack: ExitStack, checkout: Path, suite: str, seconds: float) -> None:
        command = [sys.executable, "-m", "benchmarks.before_after", ".", suite, "--runner", "--seconds", str(seconds)]
        environment = os.environ | {"PYTHONPATH": str(checkout / "src")}
        self._process = stack.enter_context(
            subprocess.Popen(
                command, cwd=_ROOT, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
            )
        )

    def next_contender(self) -> str | None:
        """Return what is measured next; None at the end."""
        name = self._ask("next")
        return None if name is None else str(name)

    def turn(self) -> float:
        """Return the seconds that one call takes in one more turn."""
        return float(self._ask("turn"))

    def _ask(self, question: str) -> Any:  # Any: what JSON holds
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(question, file=self._process.stdin, flush=True)
        for line in self._process.stdout:
            if line.startswith(_QUESTION):
                return json.loads(line.removeprefix(_QUESTION))
        raise RuntimeError("a side of the comparison ended; its message stands above")


def _serve(suites: list[str], seconds: float) -> None:
    questions = map(str.strip, sys.stdin)
    next(questions)
    with set_stage() as stage:
        for name, turn in _turns(suites, stage, seconds):
            turn()  # Connections, plans and byte code count for neither side.
            _answer(name)
            while next(questions) == "turn":
                _answer(turn())
        _answer(None)


def _answer(value: object) -> None:
    print(f"{_QUESTION}{json.dumps(value)}", flush=True)


def _turns(suites: list[str], stage: Stage, seconds: float) -> Iterator[tuple[str, Callable[[], float]]]:
    for suite in suites:
        for race in SUITES[suite](stage):
            yield from _of_race(race) if isinstance(race, Race) else _of_rates(race, seconds)


def _of_race(race: Race) -> Iterator[tuple[str, Callable[[], float]]]:
    for contender in race.contenders:
        yield contender.name, lambda turn=contender.turn: turn(race.calls).cpu / race.calls  # type: ignore[misc]


def _of_rates(race: RateRace, seconds: float) -> Iterator[tuple[str, Callable[[], float]]]:
    ours = dict.fromkeys(comparison.ours for comparison in race.comparisons)
    for name in ours:
        yield name, lambda turn=race.runners[name]: 1 / turn(seconds)  # type: ignore[misc]


if __name__ == "__main__":
    main()
