"""
`game-operator ledger maintain` killed at each of its steps, and the database server under it, beside calls.

Partitions are made, postings sealed and read again, and days archived and dropped. After each kill the next run goes
on. In the end nothing is lost or doubled, and what has left the tables is in the files.
"""

import time
from collections.abc import Callable
from pathlib import Path

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


class Trial:
    """Copies of books, each maintained with kills and then to the end; *kills* in all."""

    def __init__(self, books: AgedBooks, folder: Path) -> None:
        self._books, self._folder, self.random = books, folder, random_of(1)
        self.maintainer = Maintainer()
        self.kills = self.copies = self.left = self.calls = 0
        self.steps = _SOME_STEPS

    def begun(self) -> tuple[str, Path]:
        """Return a copy, and the folder that gets what leaves it."""
        self.copies += 1
        folder = self._folder / f"archive-{self.copies}"
        folder.mkdir()
        return self._books.copied(), folder

    def count_steps(self) -> None:
        """Learn how many steps a run has that nobody disturbs."""
        url, archive = self.begun()
        steps = self._finished(url, archive).steps
        assert steps is not None
        self.left += self._books.check(url, Played([], []), archive, self.random)
        self.steps = steps

    def ended(self, url: str, archive: Path, since: Played) -> None:
        """Maintain the copy to its end, and assert that nothing is lost or doubled."""
        self._finished(url, archive)
        self.left += self._books.check(url, since, archive, self.random)
        self.calls += len(since.log)
        assert_idle(url)
        self._books.forget(url)

    def _finished(self, url: str, archive: Path) -> Ended:
        """Run until all is done."""
        for _ in range(_MOST_RUNS):
            ended = self.maintainer.run(url, archive)
            assert ended.document is not None, ended
            if ended.status == 0 and ended.document["finished"]:
                assert ended.document["sound"]
                return ended
            # Only a lock that calls held at the time may be in the way.
            assert ended.document.get("error", {}).get("type") == "LedgerUnavailableError", ended
        raise AssertionError(f"{_MOST_RUNS} runs did not come to an end: {ended}")

    def killed(self, copies: int) -> None:
        """Kill a run at a step of its own in each copy, and two runs after it at any; some of them amid the step."""
        first = self.random.randrange(self.steps)
        for number in range(copies):
            url, archive = self.begun()
            with played_beside(url, copies + number) as since:
                step = (first + number * self.steps // copies) % self.steps + 1
                for die_at in (step, *self.random.choices(range(1, self.steps), k=2)):
                    delay = self.random.choice((None, self.random.uniform(0, 0.004)))
                    ended = self.maintainer.run(url, archive, die_at=die_at, delay=delay)
                    self.kills += ended.status == -9
                    assert ended.status in (-9, 0, 3), ended
            self.ended(url, archive, since)

    def figures(self, what: str) -> str:
        return (
            f"{what}: {self.kills} kills in {self.copies} copies, a run has {self.steps} steps; {self.left} postings "
            f"left the tables, {self.calls} calls beside"
        )


@pytest.fixture
def trial(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> Trial:
    """Books that nobody has maintained for a hundred days, on the disk unless the server is the quick one."""
    if kind == "sqlite":
        return Trial(AgedBooks(f"sqlite:///{tmp_path / 'wallet.db'}", 500), tmp_path)
    server: PostgresServer = request.getfixturevalue(kind)
    return Trial(AgedBooks(server.create_database(), 500, server), tmp_path)


_SQLITE, _DURABLE = (
    pytest.param(kind, marks=[pytest.mark.torture, pytest.mark.timeout(3600)]) for kind in ("sqlite", "durable")
)


@pytest.mark.parametrize("kind", ["sqlite", pytest.param("postgres", marks=pytest.mark.torture)])
@pytest.mark.timeout(120)
def test_killed(trial: Trial) -> None:
    """Three kills at steps that the seed draws."""
    trial.killed(1)
    assert trial.kills


@pytest.mark.parametrize("kind", [_SQLITE, _DURABLE])
def test_killed_200_times(kind: str, trial: Trial, record_property: Figures) -> None:
    """Two hundred kills or more, spread over all steps."""
    trial.count_steps()
    trial.killed(100)
    record_property("figures", trial.figures(kind))
    assert trial.kills >= 200


@pytest.mark.parametrize("kind", [_SQLITE, _DURABLE])
def test_one_of_two_killed(kind: str, trial: Trial, record_property: Figures) -> None:
    """Two runs at once, one of which is killed: the other does not mind."""
    trial.count_steps()
    for number in range(20):
        url, archive = trial.begun()
        with played_beside(url, 1_000 + number) as since:
            trial.maintainer.begin(url, archive, die_at=trial.random.randint(1, trial.steps))
            beside = Maintainer().run(url, archive)
            trial.kills += trial.maintainer.end().status == -9
        assert beside.status in (0, 3), beside
        trial.ended(url, archive, since)
    record_property("figures", trial.figures(f"{kind}, two at once"))


@pytest.mark.parametrize("kind", [_DURABLE])
def test_the_server_is_killed_200_times(trial: Trial, durable: PostgresServer, record_property: Figures) -> None:
    """H02: all processes of PostgreSQL, at steps of all of a run, as by a power failure."""
    trial.count_steps()
    while trial.kills < 200:
        url, archive = trial.begun()
        with played_beside(url, 2_000 + trial.kills) as since:
            for tell_at in (trial.kills * trial.steps // 200 + 1, *trial.random.choices(range(1, trial.steps), k=4)):
                trial.maintainer.begin(url, archive, tell_at=tell_at)
                if trial.maintainer.told():
                    time.sleep(trial.random.uniform(0, 0.004))
                    durable.kill()
                    trial.kills += 1
                    durable.start()
                ended = trial.maintainer.end()
                assert ended.status in (0, 3), ended
        trial.ended(url, archive, since)
    record_property("figures", trial.figures("PostgreSQL killed"))
