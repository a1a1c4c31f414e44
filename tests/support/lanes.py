"""
Which tests are quick and alone: ``make test-fast`` runs those that neither start a process, a server or a browser nor
take long.

A test is outside that lane by its mark, ``outside`` or ``slow``, by a fixture of ``_OUTSIDE``, or by a parameter that
names PostgreSQL. In the lane an audit hook refuses what the marks have missed.

Of a long table, ``make test`` runs some cases alone, by the mark ``drawn``: the seed draws them, and `make torture`
runs them all.
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

__all__ = ["add_option", "configure", "draw", "is_left_out", "keep_the_fast", "watched"]

#: Fixtures that start something.
_OUTSIDE: Final = frozenset(
    {"postgres", "postgres_url", "sandbox", "one_sandbox", "served", "wallet", "wallet_url", "front", "right"}
    | {"credulous", "durable", "lonely", "pytester", "shown"}
)
#: Words in the ids of parameters that need PostgreSQL.
_SERVERS: Final = ("postgres", "psycopg", "asyncpg")
_MARKS: Final = ("outside", "slow", "torture")
#: One mark, or a list of them.
_MARKS_OF_MODULE: Final = re.compile(r"^pytestmark = (\[\n.*?^\]|.*?$)", re.MULTILINE | re.DOTALL)
#: Audit events of the standard library (https://docs.python.org/3/library/audit_events.html).
_REFUSED: Final = frozenset({"os.fork", "os.forkpty", "os.posix_spawn", "socket.bind", "subprocess.Popen"})


_is_running = [False]


def add_option(parser: pytest.Parser) -> None:
    """Add ``--fast``."""
    parser.addoption("--fast", action="store_true", help="only tests that start nothing and take no time")


def configure(config: pytest.Config) -> None:
    """Refuse processes and servers in the lane, and try fewer examples."""
    if config.getoption("--fast"):
        sys.addaudithook(_refuse)
        settings.register_profile("fast", max_examples=20, deadline=None)
        settings.load_profile("fast")


def is_left_out(path: Path, config: pytest.Config) -> bool:
    """Return whether a module's marks leave it out as a whole, which saves importing it."""
    if not config.getoption("--fast") or path.suffix != ".py" or not path.name.startswith("test_"):
        return False
    marks = _MARKS_OF_MODULE.search(path.read_text())
    return marks is not None and any(f"pytest.mark.{mark}" in re.split(r"[\[\](,\s]", marks[1]) for mark in _MARKS)


def draw(items: Sequence[pytest.Item], seed: int) -> None:
    """
    Mark as torture the cases that the seed does not draw.

    ``drawn(3)`` keeps three cases of a test; as the mark of a module, three of all its cases. ``drawn(3,
    flavour=("trio", "aiohttp"))`` keeps three of those in which the parameter *flavour* is one of these, or is written
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


def keep_the_fast(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect what is not in the lane."""
    if not config.getoption("--fast"):
        return
    left_out = [item for item in items if not _is_fast(item)]
    items[:] = [item for item in items if _is_fast(item)]
    config.hook.pytest_deselected(items=left_out)


@contextmanager
def watched() -> Iterator[None]:
    """Refuse processes and servers meanwhile, in the lane."""
    _is_running[0] = True
    try:
        yield
    finally:
        _is_running[0] = False


def _is_fast(item: pytest.Item) -> bool:
    fixtures = getattr(item, "fixturenames", ())
    marked = any(item.get_closest_marker(mark) for mark in _MARKS)
    named = any(word in item.name for word in _SERVERS)
    return not marked and not named and _OUTSIDE.isdisjoint(fixtures)


def _refuse(event: str, arguments: tuple[Any, ...]) -> None:
    if _is_running[0] and event in _REFUSED:
        raise RuntimeError(f"{event} in a test that is not marked: add @pytest.mark.outside")
