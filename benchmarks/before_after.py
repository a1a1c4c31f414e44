"""
``python -m benchmarks.before_after OLD_CHECKOUT`` compares the package of another checkout with this one's.

Both are loaded into one process, each with its own benchmarks: two processes that run the same code differ by a
third, by the chance of their memory and of their processor. A round is some short turns of each, old and new by turns.
The ratio is new to old: above 1 the new one takes longer.
"""

import argparse
import gc
import importlib
import os
import statistics
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

__all__ = ["main"]

_ROOT = Path(__file__).parent.parent
_TURNS = 6  # of each side in a round
_LOADED_TWICE = ("game_operator", "benchmarks")


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.before_after", description=__doc__)
    parser.add_argument("old", type=Path, help="the other checkout")
    parser.add_argument("suites", nargs="*", help="benchmarks by name; all but growth if left out")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=0.2, help="of a turn that counts calls a second")
    arguments = parser.parse_args()
    if not (arguments.old / "src" / "game_operator").is_dir():
        # Imports would find the installed package instead, and compare it with itself.
        parser.error(f"{arguments.old} is not a checkout: it has no src/game_operator")
    sides = [_Side(checkout) for checkout in (arguments.old.resolve(), _ROOT)]
    known = sides[0].suites()
    if unknown := [name for name in arguments.suites if name not in known]:
        parser.error(f"there is no benchmark {', '.join(unknown)}; there are {', '.join(known)}")
    print("| what | new / old, median | lowest to highest round | old | new |\n|---|---|---|---|---|")
    for suite in arguments.suites or [name for name in known if name != "growth"]:
        for row in _compared(suite, sides, arguments.rounds, arguments.seconds):
            print(row, flush=True)


class _Side:
    """One checkout's package, and the benchmarks that import it."""

    def __init__(self, checkout: Path) -> None:
        self._paths = [str(checkout / "src"), str(checkout)]
        self._modules: dict[str, ModuleType] = {}

    @contextmanager
    def loaded(self) -> Iterator[None]:
        """Let ``import`` find this side's modules, here and in processes started meanwhile."""
        others = _taken_out()
        path, environment = list(sys.path), os.environ.get("PYTHONPATH")
        sys.modules.update(self._modules)
        sys.path[:0] = self._paths
        os.environ["PYTHONPATH"] = os.pathsep.join(self._paths)
        try:
            yield
        finally:
            self._modules = _taken_out()
            sys.modules.update(others)
            sys.path[:] = path
            os.environ.pop("PYTHONPATH")
            if environment is not None:
                os.environ["PYTHONPATH"] = environment

    def suites(self) -> list[str]:
        """Return the names of the benchmarks."""
        with self.loaded():
            return list(importlib.import_module("benchmarks.__main__").SUITES)

    def turns(self, suite: str, seconds: float) -> Iterator[tuple[str, Callable[[], float]]]:
        """Yield what *suite* measures, and what takes a turn at it and returns the seconds of one call."""
        with ExitStack() as closing:
            with self.loaded():
                stage = closing.enter_context(importlib.import_module("benchmarks.stage").set_stage())
                races = importlib.import_module("benchmarks.__main__").SUITES[suite](stage)
            while True:
                with self.loaded():
                    if (race := next(races, None)) is None:
                        return
                for name, turn in _turns_of(race, seconds):
                    yield name, self._within(turn)

    def _within(self, turn: Callable[[], float]) -> Callable[[], float]:
        def loaded_turn() -> float:
            with self.loaded():
                return turn()

        return loaded_turn


def _taken_out() -> dict[str, ModuleType]:
    names = [name for name in sys.modules if name.partition(".")[0] in _LOADED_TWICE]
    return {name: sys.modules.pop(name) for name in names}


def _turns_of(race: Any, seconds: float) -> Iterator[tuple[str, Callable[[], float]]]:
    # Each side has classes of its own for races.
    if hasattr(race, "contenders"):
        for contender in race.contenders:
            yield contender.name, lambda turn=contender.turn: turn(race.calls).cpu / race.calls
    else:
        for name in dict.fromkeys(comparison.ours for comparison in race.comparisons):
            yield name, lambda turn=race.runners[name]: 1 / turn(seconds)


def _compared(suite: str, sides: list[_Side], rounds: int, seconds: float) -> Iterator[str]:
    old, new = (side.turns(suite, seconds) for side in sides)
    for (what, old_turn), (same, new_turn) in zip(old, new, strict=True):
        if what != same:
            raise RuntimeError(f"the two checkouts do not measure the same: {what}, {same}")
        turns = [old_turn, new_turn]
        _round(turns)  # Connections, plans and byte code count for neither side.
        gc.freeze()  # Nor do collections that go over everything that is loaded, here twice.
        yield _row(what, [_round(turns) for _ in range(rounds)])


def _round(turns: list[Callable[[], float]]) -> list[float]:
    costs = [0.0, 0.0]
    gc.collect()
    for number in range(_TURNS):
        for index in (0, 1) if number % 2 else (1, 0):
            costs[index] += turns[index]() / _TURNS
    return costs


def _row(what: str, costs: list[list[float]]) -> str:
    ratios = [new / old for old, new in costs]
    times = " | ".join(f"{statistics.median(each[index] for each in costs) * 1e6:.0f} µs" for index in (0, 1))
    return f"| {what} | **{statistics.median(ratios):.3f}** | {min(ratios):.2f} to {max(ratios):.2f} | {times} |"


if __name__ == "__main__":
    main()
