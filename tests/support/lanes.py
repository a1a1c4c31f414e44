"""
Lanes: which tests a command runs, by ``--lane``.

- ``test`` (`make test`): behaviour, and smoke tests of artefacts. Neither the mark ``artefact`` nor ``torture``.
  Properties are tried with fewer examples than ``pytest`` alone tries.
- ``fast`` (`make test-fast`): of these, tests that neither start a process, a server or a browser nor take long. A test
  is outside that lane by its mark, ``outside`` or ``slow``, by a fixture of ``_OUTSIDE``, or by a parameter that names
  PostgreSQL. In the lane an audit hook refuses what the marks have missed.
- ``artefacts`` (`make test-artefacts`): the mark ``artefact``, and the blocks of the docs: what users read and install.

Of a long table, the lanes run the cases that the seed draws, by the mark ``drawn``; `make torture` runs them all.
"""

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest
from hypothesis import settings

#: The marks that leave a test out of a lane.
_LEFT_OUT: Final = {
    "test": ("artefact", "torture"),
    "fast": ("artefact", "torture", "outside", "slow"),
    "artefacts": ("torture",),
}

#: Fixtures that start something.
_OUTSIDE: Final = frozenset(
    {"postgres", "postgres_url", "sandbox", "one_sandbox", "served", "wallet", "wallet_url", "front", "right"}
    | {"credulous", "durable", "lonely", "pytester", "shown"}
)
#: Words in the ids of parameters that need PostgreSQL.
_SERVERS: Final = ("postgres", "psycopg", "asyncpg")
#: One mark, or a list of them.
_MARKS_OF_MODULE: Final = re.compile(r"^pytestmark = (\[\n.*?^\]|.*?$)", re.MULTILINE | re.DOTALL)
#: Audit events of the standard library (https://docs.python.org/3/library/audit_events.html).
_REFUSED: Final = frozenset({"os.fork", "os.forkpty", "os.posix_spawn", "socket.bind", "subprocess.Popen"})


_is_running = [False]


def add_option(parser: pytest.Parser) -> None:
    """Add ``--lane``."""
    parser.addoption("--lane", choices=[*_LEFT_OUT], help="only the tests of this lane; without it, all")


def configure(config: pytest.Config) -> None:
    """Refuse processes and servers in the fast lane; in any lane, try fewer examples."""
    if config.getoption("--lane") is not None:
        settings.register_profile("lane", max_examples=25, deadline=None)
        settings.load_profile("lane")
    if config.getoption("--lane") == "fast":
        sys.addaudithook(_refuse)


def is_left_out(path: Path, lane: str | None) -> bool:
    """Return whether the lane leaves a file out as a whole, which saves importing it."""
    if lane is None:
        return False
    if path.suffix == ".md":
        return _lane_of_page(path) != lane
    if path.suffix != ".py" or not path.name.startswith("test_"):
        return False
    text = path.read_text()
    if lane == "artefacts" and "mark.artefact" not in text:
        return True
    marks = _MARKS_OF_MODULE.search(text)
    named = re.split(r"[\[\](,\s]", marks[1]) if marks else []
    return any(f"pytest.mark.{mark}" in named for mark in _LEFT_OUT[lane])


def draw(items: Sequence[pytest.Item], seed: int) -> None:
    """
    Mark as torture the cases that the seed does not draw.

    ``drawn(3)`` keeps three cases of a test; as the mark of a module, three of all its cases. ``drawn(3,
    flavour=("trio", "asyncio"))`` keeps three of those in which the parameter *flavour* is one of these, or is written
    as one of these, and all the others.
    """
    groups: dict[str, tuple[pytest.Mark, list[pytest.Item]]] = {}
    for item in items:
        for node, mark in item.iter_markers_with_node("drawn"):
            whole = item.nodeid.partition("[")[0] if node is item else node.nodeid
            groups.setdefault(f"{whole} {mark.kwargs}", (mark, []))[1].append(item)
    # First the draws of each test, which names its own parameters after ``::``; then those of whole modules.
    for name, (mark, cases) in sorted(groups.items(), key=lambda group: "::" not in group[0].partition(" ")[0]):
        candidates = [case for case in cases if not case.get_closest_marker("torture") and _has(case, mark.kwargs)]
        random = Random(f"{seed} {name}")
        for case in random.sample(candidates, max(0, len(candidates) - mark.args[0])):
            case.add_marker("torture")


def _has(case: pytest.Item, wanted: Mapping[str, Sequence[object]]) -> bool:
    given = case.callspec.params if hasattr(case, "callspec") else {}
    return all(
        name in given and (given[name] in values or str(given[name]) in values) for name, values in wanted.items()
    )


def keep_the_lane(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect what is not in the lane."""
    lane = config.getoption("--lane")
    if lane is None:
        return
    left_out = [item for item in items if not _is_in(lane, item)]
    items[:] = [item for item in items if _is_in(lane, item)]
    config.hook.pytest_deselected(items=left_out)


@contextmanager
def watched() -> Iterator[None]:
    """Refuse processes and servers meanwhile, in the lane."""
    _is_running[0] = True
    try:
        yield
    finally:
        _is_running[0] = False


def _is_in(lane: str, item: pytest.Item) -> bool:
    if item.path.suffix == ".md":
        return lane == _lane_of_page(item.path)
    if any(item.get_closest_marker(mark) for mark in _LEFT_OUT[lane]):
        return False
    if lane == "artefacts":
        return item.get_closest_marker("artefact") is not None
    return lane == "test" or _is_alone(item)


def _lane_of_page(path: Path) -> str:
    """Return the lane that runs the blocks of a page: those of the README are the smoke test of the others."""
    return "test" if path.name == "README.md" else "artefacts"


def _is_alone(item: pytest.Item) -> bool:
    named = any(word in item.name for word in _SERVERS)
    return not named and _OUTSIDE.isdisjoint(getattr(item, "fixturenames", ()))


def _refuse(event: str, arguments: tuple[Any, ...]) -> None:
    if _is_running[0] and event in _REFUSED:
        raise RuntimeError(f"{event} in a test that is not marked: add @pytest.mark.outside")
