"""
`game-operator ledger maintain` killed at each of its steps, and the database server under it, beside calls.

Partitions are made, postings sealed and read again, and days archived and dropped. After each kill the next run goes
on. In the end nothing is lost or doubled, and what has left the tables is in the files.
"""

import time
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from tests.support.aged_books import AgedBooks, Played, played_beside
from tests.support.leftovers import assert_idle
from tests.support.maintain_process import Ended, Maintainer
from tests.support.postgres import PostgresServer
from tests.support.seeds import random_of

pytestmark = pytest.mark.outside

Figures = Callable[[str, object], None]
#: A call may be in the way of a partition, and the next run makes up for it.
_MOST_RUNS = 10
#: About how many steps a run has; ``test_killed_200_times`` counts them.
_SOME_STEPS = 450


@pytest.fixture
def maintainer() -> Maintainer:
    """What runs the command."""
    return Maintainer()


@pytest.fixture
def books(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> AgedBooks:
    """Books that nobody has maintained for a hundred days, on the disk unless the server is the quick one."""
    if kind == "sqlite":
        return AgedBooks(f"sqlite:///{tmp_path / 'wallet.db'}", 500)
    server: PostgresServer = request.getfixturevalue(kind)
    return AgedBooks(server.create_database(), 500, server)


class Trial:
    """Copies of books, each maintained with kills and then to the end; *kills* in all."""

    def __init__(self, books: AgedBooks, folder: Path, random: Random) -> None:
        self._books, self._folder, self.random = books, folder, random
        self.kills = self.copies = self.steps = self.left = self.calls = 0

    def begun(self) -> tuple[str, Path]:
        """Return a copy, and the folder that gets what leaves it."""
        self.copies += 1
        url = self._books.copied()
        folder = self._folder / f"archive-{self.copies}"
        folder.mkdir()
        return url, folder

    def all_steps(self, maintainer: Maintainer) -> int:
        """Return how many steps a run has that nobody disturbs."""
        url, archive = self.begun()
        steps = finished(maintainer, url, archive).steps
        assert steps is not None
        self.left += self._books.check(url, Played([], []), archive, self.random)
        self.steps = steps
        return steps

    def ended(self, maintainer: Maintainer, url: str, archive: Path, since: Played) -> None:
        """Maintain the copy to its end, and assert that nothing is lost or doubled."""
        finished(maintainer, url, archive)
        self.left += self._books.check(url, since, archive, self.random)
        self.calls += len(since.log)
        assert_idle(url)
        self._books.forget(url)

    def figures(self, what: str) -> str:
        return (
            f"{what}: {self.kills} kills in {self.copies} copies, a run has {self.steps} steps; {self.left} postings "
            f"left the tables, {self.calls} calls beside"
        )


def finished(maintainer: Maintainer, url: str, archive: Path) -> Ended:
    """Run until all is done."""
    for _ in range(_MOST_RUNS):
        ended = maintainer.run(url, archive)
        assert ended.document is not None, ended
        if ended.status == 0 and ended.document["finished"]:
            assert ended.document["sound"]
            return ended
        # Only a lock that calls held at the time may be in the way.
        assert ended.document.get("error", {}).get("type") == "LedgerUnavailableError", ended
    raise AssertionError(f"{_MOST_RUNS} runs did not come to an end: {ended}")


def _killed(trial: Trial, maintainer: Maintainer, copies: int, steps: int, *, seed: int) -> None:
    """Kill a run at a step of its own in each copy, and two runs after it at any; some of them amid the step."""
    first = trial.random.randrange(steps)
    for number in range(copies):
        url, archive = trial.begun()
        with played_beside(url, seed + number) as since:
            for die_at in ((first + number * steps // copies) % steps + 1, *trial.random.choices(range(1, steps), k=2)):
                delay = trial.random.choice((None, trial.random.uniform(0, 0.004)))
                ended = maintainer.run(url, archive, die_at=die_at, delay=delay)
                trial.kills += ended.status == -9
                assert ended.status in (-9, 0, 3), ended
        trial.ended(maintainer, url, archive, since)


@pytest.mark.parametrize("kind", ["sqlite", pytest.param("postgres", marks=pytest.mark.torture)])
@pytest.mark.timeout(120)
def test_killed(books: AgedBooks, maintainer: Maintainer, tmp_path: Path) -> None:
    """Three kills at steps that the seed draws."""
    trial = Trial(books, tmp_path, random_of(1))
    _killed(trial, maintainer, 1, _SOME_STEPS, seed=1)
    assert trial.kills


@pytest.mark.parametrize("kind", ["sqlite", "durable"])
@pytest.mark.torture
@pytest.mark.timeout(3600)
def test_killed_200_times(
    kind: str, books: AgedBooks, maintainer: Maintainer, tmp_path: Path, record_property: Figures
) -> None:
    """Two hundred kills or more, spread over all steps."""
    trial = Trial(books, tmp_path, random_of(2))
    _killed(trial, maintainer, 100, trial.all_steps(maintainer), seed=2)
    record_property("figures", trial.figures(kind))
    assert trial.kills >= 200


@pytest.mark.parametrize("kind", ["sqlite", "durable"])
@pytest.mark.torture
@pytest.mark.timeout(3600)
def test_one_of_two_killed(
    kind: str, books: AgedBooks, maintainer: Maintainer, tmp_path: Path, record_property: Figures
) -> None:
    """Two runs at once, one of which is killed: the other does not mind."""
    trial = Trial(books, tmp_path, random_of(3))
    steps = trial.all_steps(maintainer)
    for number in range(20):
        url, archive = trial.begun()
        with played_beside(url, 1_000 + number) as since:
            maintainer.begin(url, archive, die_at=trial.random.randint(1, steps))
            beside = Maintainer().run(url, archive)
            trial.kills += maintainer.end().status == -9
        assert beside.status in (0, 3), beside
        trial.ended(maintainer, url, archive, since)
    record_property("figures", trial.figures(f"{kind}, two at once"))


@pytest.mark.parametrize("kind", ["durable"])
@pytest.mark.torture
@pytest.mark.timeout(3600)
def test_the_server_is_killed_200_times(
    books: AgedBooks, durable: PostgresServer, maintainer: Maintainer, tmp_path: Path, record_property: Figures
) -> None:
    """H02: all processes of PostgreSQL, at steps of all of a run, as by a power failure."""
    trial = Trial(books, tmp_path, random_of(4))
    steps = trial.all_steps(maintainer)
    while trial.kills < 200:
        url, archive = trial.begun()
        with played_beside(url, 2_000 + trial.kills) as since:
            for tell_at in (trial.kills * steps // 200 + 1, *trial.random.choices(range(1, steps), k=4)):
                maintainer.begin(url, archive, tell_at=tell_at)
                if maintainer.told():
                    time.sleep(trial.random.uniform(0, 0.004))
                    durable.kill()
                    trial.kills += 1
                    durable.start()
                ended = maintainer.end()
                assert ended.status in (0, 3), ended
        trial.ended(maintainer, url, archive, since)
    record_property("figures", trial.figures("PostgreSQL killed"))
