"""Which runs are at work, and which are kept, without a wallet."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Barrier, Event

import pytest

from game_operator_testkit.control_room.jobs import Job, PlayersInUse
from game_operator_testkit.control_room.runs import shelf
from game_operator_testkit.control_room.runs.shelf import BusyError, Shelf


@dataclass
class _Run:
    number: int
    size: int = 0
    job: Job = field(init=False)


@pytest.fixture
def gate() -> Event:
    """Lets runs end once it is set."""
    return Event()


def begun(runs: "Shelf[_Run]", gate: Event, *players: str, size: int = 0) -> _Run:
    """Begin a run that waits for the gate."""

    def work(_run: _Run, _job: Job) -> str:
        gate.wait(20)
        return "done"

    return runs.begin(lambda number: _Run(number, size), work, players)


def test_of_many_starts_at_once_one_begins(gate: Event) -> None:
    """The others are refused, whichever thread they come from, and numbers are not skipped."""
    runs, barrier = Shelf[_Run]("storm", PlayersInUse()), Barrier(8)

    def start(_: int) -> bool:
        barrier.wait()
        try:
            begun(runs, gate)
        except BusyError:
            return False
        return True

    with ThreadPoolExecutor(8) as threads:
        assert sum(threads.map(start, range(8))) == 1
    gate.set()
    (run,) = runs.latest()
    run.job.wait(20)
    assert (run.number, run.job.said) == (1, "done")
    assert begun(runs, gate).number == 2


def test_a_player_is_in_one_run(gate: Event) -> None:
    """Of another kind, while it is at work; afterwards, and for other players, nothing is in the way."""
    in_use = PlayersInUse()
    storms, certifications = Shelf[_Run]("storm", in_use), Shelf[_Run]("certification", in_use)
    storm = begun(storms, gate, "ann", "bob")
    with pytest.raises(BusyError, match="Another run plays with ann, bob just now"):
        begun(certifications, gate, "bob", "ann", "cleo")
    assert certifications.latest() == []
    assert [in_use.run_with(each) for each in ("ann", "bob", "cleo")] == ["storm 1", "storm 1", ""]
    other = begun(certifications, gate, "cleo")
    assert in_use.run_with("cleo") == "certification 1"
    gate.set()
    storm.job.wait(20)
    other.job.wait(20)
    assert in_use.run_with("bob") == in_use.run_with("cleo") == ""
    assert begun(certifications, gate, "ann").number == 2


def test_a_run_that_raises_gives_its_players_back() -> None:
    """And the next one can begin."""
    runs = Shelf[_Run]("storm", in_use := PlayersInUse())

    def work(_run: _Run, _job: Job) -> str:
        raise ZeroDivisionError

    run = runs.begin(_Run, work, ["ann"])
    run.job.wait(20)
    assert isinstance(run.job.failed, ZeroDivisionError)
    assert in_use.take("certification", 1, ["ann"]) == []


@pytest.mark.parametrize(
    ("sizes", "kept"),
    [
        pytest.param([0] * 10, list(range(10, 0, -1)), id="ten"),
        pytest.param([0] * 11, list(range(11, 1, -1)), id="eleven"),
        pytest.param([shelf.MOST_BYTES - 1, 1], [2, 1], id="as many bytes"),
        pytest.param([shelf.MOST_BYTES, 1], [2], id="a byte more"),
        pytest.param([1, shelf.MOST_BYTES * 2], [2], id="the newest is too large"),
    ],
)
def test_what_is_kept(gate: Event, sizes: list[int], kept: list[int]) -> None:
    """The newest runs, up to a number and a size; an older one is not found any more."""
    gate.set()
    runs = Shelf[_Run]("storm", PlayersInUse())
    for size in sizes:
        begun(runs, gate, size=size).job.wait(20)
    assert [run.number for run in runs.latest()] == kept
    assert runs.run(min(kept) - 1) is None
    assert runs.run(min(kept)) is not None
