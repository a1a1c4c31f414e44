"""
Deals test files out to the processes of one run, so that each file is collected once, by who runs it.

``--hand 2/3`` runs the second of three hands; tools/run_tests.py starts them. ``tests/seconds.txt`` has the files that
take long in a lane, by the seconds of an earlier run; ``--record-seconds`` writes it. The longest file is dealt first,
and always to who has the least.
"""

import fcntl
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO, Final

import pytest

ROOT: Final = Path(__file__).resolve().parents[2]
_RECORD: Final = ROOT / "tests" / "seconds.txt"
#: Files that take less are not recorded, and count as half of it.
_LEAST_SECONDS: Final = 1.0


def add_option(parser: pytest.Parser) -> None:
    """Add ``--hand`` and ``--record-seconds``."""
    parser.addoption("--hand", default="1/1", metavar="N/COUNT", help="only the files of this hand")
    parser.addoption("--record-seconds", action="store_true", help=f"write {_RECORD.name} from this run")


def hands(files: Iterable[str], seconds: Mapping[str, float], count: int) -> list[set[str]]:
    """Return *files* as *count* sets that take about as long as each other."""
    dealt: list[set[str]] = [set() for _ in range(count)]
    loads = [0.0] * count
    for file in sorted(files, key=lambda name: (-seconds.get(name, _LEAST_SECONDS / 2), name)):
        lightest = loads.index(min(loads))
        dealt[lightest].add(file)
        loads[lightest] += seconds.get(file, _LEAST_SECONDS / 2)
    return dealt


class Dealing:
    """The hand of one process, and the seconds of each of its files."""

    def __init__(self, config: pytest.Config) -> None:
        self._seconds: dict[str, float] = defaultdict(float)
        self._records = config.getoption("--record-seconds")
        self._lane = config.getoption("--lane") or "test"
        hand = config.getoption("--hand")
        number, _, count = (int(part) if part.isdecimal() else 0 for part in hand.partition("/"))
        if not 1 <= number <= count:
            raise pytest.UsageError(f"--hand {hand}: write 2/3 for the second of three")
        with _RECORD.open() as record:
            known = _read(record)
        dealt = hands(_files(), {name: taken for (lane, name), taken in known.items() if lane == self._lane}, count)
        del dealt[number - 1]
        self._others: frozenset[str] = frozenset().union(*dealt)

    def is_anothers(self, path: Path) -> bool:
        """Return whether another process runs the file *path*."""
        return bool(self._others) and path.is_relative_to(ROOT) and str(path.relative_to(ROOT)) in self._others

    def keep_own(self, items: list[pytest.Item]) -> None:
        """Leave out what was collected all the same: files that are named on the command line."""
        items[:] = [item for item in items if not self.is_anothers(item.path)]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add up the seconds of a file."""
        self._seconds[report.nodeid.partition("::")[0]] += report.duration

    def pytest_sessionfinish(self) -> None:
        """Write the record, if the run was asked for it."""
        if not self._records:
            return
        with _RECORD.open("r+") as record:
            fcntl.flock(record, fcntl.LOCK_EX)  # The other hands write theirs.
            known = _read(record) | {(self._lane, name): taken for name, taken in self._seconds.items()}
            kept = {
                each: taken for each, taken in known.items() if taken >= _LEAST_SECONDS and (ROOT / each[1]).exists()
            }
            record.seek(0)
            record.truncate()
            record.writelines(f"{lane} {taken:.0f} {name}\n" for (lane, name), taken in sorted(kept.items()))


def _files() -> list[str]:
    folders = (ROOT / "tests", ROOT / "testkit" / "tests")
    tests = [file for folder in folders for file in folder.rglob("test_*.py")]
    tests += [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md"]
    return [str(file.relative_to(ROOT)) for file in tests]


def _read(record: IO[str]) -> dict[tuple[str, str], float]:
    rows = (line.split(" ", 2) for line in record.read().splitlines())
    return {(lane, name): float(taken) for lane, taken, name in rows}
