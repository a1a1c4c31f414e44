"""
Deals test files out to the processes of one run, so that each file is collected once, by who runs it.

``pytest -n 3 --dist each`` starts three processes that would each run everything. Here each takes the files of its hand
alone. ``tests/seconds.txt`` has the files that take long, by the seconds of an earlier run; ``--record-seconds`` writes
it. The longest file is dealt first, and always to who has the least.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from xdist.workermanage import WorkerController  # type: ignore[import-untyped]

__all__ = ["Dealing", "add_option", "hands"]

ROOT: Final = Path(__file__).resolve().parents[2]
_RECORD: Final = ROOT / "tests" / "seconds.txt"
#: Files that take less are not recorded, and count as half of it.
_LEAST_SECONDS: Final = 1.0


def add_option(parser: pytest.Parser) -> None:
    """Add ``--record-seconds``."""
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
    """The hand of one process, and in the process that collects the reports the seconds of each file."""

    def __init__(self, config: pytest.Config) -> None:
        self._seconds: dict[str, float] = defaultdict(float)
        self._records = config.getoption("--record-seconds")
        worker = getattr(config, "workerinput", None)  # Of xdist; None where one process runs everything.
        self._others: frozenset[str] = frozenset()
        if worker is not None and worker["is_dealt"]:
            dealt = hands(_files(), _recorded(), worker["workercount"])
            del dealt[int(worker["workerid"].removeprefix("gw"))]
            self._others = frozenset().union(*dealt)

    def is_anothers(self, path: Path) -> bool:
        """Return whether another process runs the file *path*."""
        return bool(self._others) and path.is_relative_to(ROOT) and str(path.relative_to(ROOT)) in self._others

    def keep_own(self, items: list[pytest.Item]) -> None:
        """Leave out what was collected all the same: files that are named on the command line."""
        items[:] = [item for item in items if not self.is_anothers(item.path)]

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: "WorkerController") -> None:
        """Tell a process of xdist whether files are dealt out."""
        node.workerinput["is_dealt"] = node.config.getoption("dist") == "each"

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add up the seconds of a file."""
        self._seconds[report.nodeid.partition("::")[0]] += report.duration

    def pytest_sessionfinish(self) -> None:
        """Write the record, if the run was asked for it."""
        if self._records:
            known = _recorded() | self._seconds
            kept = (
                (name, taken) for name, taken in known.items() if taken >= _LEAST_SECONDS and (ROOT / name).exists()
            )
            _RECORD.write_text("".join(f"{taken:.0f} {name}\n" for name, taken in sorted(kept)))


def _files() -> list[str]:
    tests = (*(ROOT / "tests").rglob("test_*.py"), *(ROOT / "docs").rglob("*.md"), ROOT / "README.md")
    return [str(file.relative_to(ROOT)) for file in tests]


def _recorded() -> dict[str, float]:
    if not _RECORD.exists():
        return {}
    rows = (line.split(" ", 1) for line in _RECORD.read_text().splitlines())
    return {name: float(taken) for taken, name in rows}
