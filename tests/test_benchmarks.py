"""The benchmarks run; how fast anything is, no test says."""

import itertools
import json
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.measure import Contender, Cost, Finding, Race, Spread, Turn, run
from benchmarks.report import as_table, summary

ROOT = Path(__file__).parent.parent


def test_every_benchmark_runs() -> None:
    """Once each, beside its peer, against the service of the benchmarks; the findings come out as JSON."""
    command = [sys.executable, "-m", "benchmarks", "--quick", "--json"]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    found = {finding["what"]: finding["bar"] for finding in json.loads(done.stdout)}
    assert found.items() >= {
        ("fetch_bet", 0.90),
        ("fetch_bet, same bet again", 0.45),
        ("fetch_games, 2,000 games", 1.9),
        ("import game_operator", 0.10),
        ("from game_operator import OperatorClient", 1.35),
        ("fetch_bet, 64 in flight, over aiohttp", 0.30),
        ("grant_free_bet", None),
    }


@pytest.mark.parametrize(
    ("ours", "bar", "verdict", "last_words"),
    [
        pytest.param(0.9, 0.90, "met", "Every goal is met.", id="as fast as the goal"),
        pytest.param(0.91, 0.90, "MISSED", "Missed: ours.", id="a little slower than the goal"),
        pytest.param(5.0, None, "", "Nothing here has a goal.", id="without a goal"),
    ],
)
def test_a_missed_goal_is_said_plainly(ours: float, bar: float | None, verdict: str, last_words: str) -> None:
    """The ratio of the processor time to the peer's decides, the goal itself included."""
    (finding,) = _race(ours, bar)
    assert finding.verdict == verdict
    assert finding.cpu_ratio.median == pytest.approx(ours)
    assert ("MISSED" in as_table([finding])) is (verdict == "MISSED")
    assert summary([finding]) == last_words


def test_ratios_are_taken_round_by_round() -> None:
    """A round that is slow for both sides, on a busy machine, changes no ratio."""

    def twice_as_slow_each_time(seconds: float) -> Turn:
        costs = (Cost(cpu=seconds * 2**number, wall=1.0) for number in itertools.count())
        return lambda calls: next(costs)

    race = Race(
        "race",
        Contender("peer", twice_as_slow_each_time(2.0)),
        (Contender("ours", twice_as_slow_each_time(1.0)),),
        calls=1,
        rounds=5,
    )
    (finding,) = run(race)
    assert finding.cpu_ratio == Spread(0.5, 0.5, 0.5)


def _race(ours: float, bar: float | None) -> list[Finding]:
    race = Race(
        "race",
        Contender("peer", lambda calls: Cost(cpu=2.0 * calls, wall=1.0)),
        (Contender("ours", lambda calls: Cost(cpu=2.0 * ours * calls, wall=1.0), bar),),
        calls=10,
        rounds=1,
    )
    return list(run(race))
