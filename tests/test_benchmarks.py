"""The benchmarks run; how fast anything is, no test says."""

import gc
import itertools
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks import growth
from benchmarks.__main__ import SUITES
from benchmarks.races import Comparison, Finding, Race, Turn, as_table, run, summary

ROOT = Path(__file__).parent.parent


@pytest.fixture(autouse=True, scope="module")
def _only_what_is_new_is_collected() -> None:
    """Races collect garbage before each turn, and this process holds all tests, which are frozen already."""
    gc.collect()
    gc.freeze()


def _goals(*names: str) -> dict[tuple[str, str], float | None]:
    """Run suites with their smallest sizes, and return the goal of each comparison."""
    command = [sys.executable, "-m", "benchmarks", "--quick", "--json", *names]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    found: list[dict[str, Any]] = json.loads(done.stdout)  # Any: JSON
    return {(each["what"], each["peer"]): each["goal"] for each in found}


@pytest.mark.artefact
@pytest.mark.outside
def test_a_benchmark_runs() -> None:
    """Once, beside its peer, against the service of the benchmarks; the findings come out as JSON."""
    peer = "httpx.Client, signed by hand, .json()"
    assert _goals("client") == {("fetch_bet", peer): 1.00, ("fetch_bet, same bet again", peer): 0.50}


@pytest.mark.torture
@pytest.mark.timeout(400)
@pytest.mark.parametrize("suite", [name for name in SUITES if name != "client"])
def test_every_benchmark_runs(suite: str) -> None:
    """Small, with sound books, and as many withdraws stored as answered; all but one have a goal."""
    goals = _goals(suite)
    assert goals
    assert any(goals.values()) is (suite != "reconcile")


@pytest.mark.outside
@pytest.mark.torture
@pytest.mark.timeout(400)
@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_the_benchmark_of_growth_runs(database: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Small: a table with a line for each call, look-up and piece of work, and sound books."""
    growth.main(["100", "--calls", "2", "--database", database])
    heading, *lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("|")]
    assert heading == "| bets | 100 | goal |"
    found = {line.split("|")[1].strip() for line in lines}
    looks = (f"{what}, p50" for what in growth.LOOKS)
    assert found >= {"withdraw, p50", "verify --full", "memory of maintain", *looks}


def test_growth_is_compared_with_its_goals() -> None:
    """At the largest size: a value, and a ratio to the size nearest to 10,000; both sides of each goal."""
    sizes = [100, 9_000, 50_000]
    rows = [
        growth.Row("bytes", dict(zip(sizes, [1.0, 2.0, 1_200.0], strict=True)), "{:,.0f}", most=1_200),
        growth.Row("much", dict(zip(sizes, [1.0, 2.0, 1_201.0], strict=True)), "{:,.0f}", most=1_200),
        growth.Row("call", dict(zip(sizes, [1.0, 2.0, 2.6], strict=True)), "{:.1f}", most_times=1.3),
        growth.Row("slow", dict(zip(sizes, [1.0, 2.0, 2.7], strict=True)), "{:.1f}", most_times=1.3),
    ]
    head, _, *lines = growth.as_growth_table(rows).splitlines()
    assert head == "| bets | 100 | 9,000 | 50,000 | goal |"
    assert lines == [
        "| bytes | 1 | 2 | 1,200 | ≤ 1,200, met |",
        "| much | 1 | 2 | 1,201 | ≤ 1,200, MISSED |",
        "| call | 1.0 (0.50) | 2.0 (1.00) | 2.6 (1.30) | ≤ 1.30 times, met |",
        "| slow | 1.0 (0.50) | 2.0 (1.00) | 2.7 (1.35) | ≤ 1.30 times, MISSED |",
    ]


@pytest.mark.parametrize(
    ("ours", "goal", "is_rate", "verdict", "last_words"),
    [
        pytest.param(0.9, 0.9, False, "met", "Every goal is met.", id="as little as the goal"),
        pytest.param(0.91, 0.9, False, "MISSED", "Missed: ours, beside peer.", id="a little more than the goal"),
        pytest.param(1.1, 1.1, True, "met", "Every goal is met.", id="as fast as the goal"),
        pytest.param(1.09, 1.1, True, "MISSED", "Missed: ours, beside peer.", id="a little slower than the goal"),
        pytest.param(5.0, None, False, "", "Nothing here has a goal.", id="without a goal"),
    ],
)
def test_a_missed_goal_is_said_plainly(
    ours: float, goal: float | None, is_rate: bool, verdict: str, last_words: str
) -> None:
    """The ratio of costs, or of rates, decides, the goal itself included."""
    finding = _raced(lambda _: ours, lambda _: 1.0, goal=goal, is_rate=is_rate)
    assert finding.verdict == verdict
    assert finding.ratio == pytest.approx(ours)
    assert ("MISSED" in as_table([finding])) is (verdict == "MISSED")
    assert summary([finding]) == last_words


def test_ratios_are_taken_round_by_round() -> None:
    """A round that is slow for both sides, on a busy machine, changes no ratio."""

    def twice_as_slow_each_time(seconds: float) -> Turn:
        costs = (seconds * 2**number for number in itertools.count())
        return lambda _: next(costs)

    finding = _raced(twice_as_slow_each_time(1.0), twice_as_slow_each_time(2.0))
    assert (finding.ratio, finding.low, finding.high) == (0.5, 0.5, 0.5)


def test_a_turn_that_does_nothing_is_an_error() -> None:
    """A server that answers nothing is no runner a hundred times slower."""
    with pytest.raises(RuntimeError, match="ours did nothing in"):
        _raced(lambda _: 0.0, lambda _: 1.0, is_rate=True)


def _raced(ours: Turn, peer: Turn, *, goal: float | None = None, is_rate: bool = False) -> Finding:
    race = Race({"ours": ours, "peer": peer}, [Comparison("ours", "peer", goal)], 1, rounds=5, is_rate=is_rate)
    (finding,) = run(race)
    return finding
