"""No clock of Python is held under another name: a test that freezes time could not replace it there."""

import ast
from collections.abc import Iterator

import pytest

from tests.support.sources import sources

_CLOCKS = {
    "time": {"time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns"},
    "datetime": {"now", "utcnow", "today"},
    "date": {"today"},
}


def _held_clocks(source: str) -> Iterator[str]:
    """Yield the clocks in *source* that are not read where they are named, or are read for a default value."""
    nodes = list(ast.walk(ast.parse(source)))
    called = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
    for node in nodes:
        match node:
            case ast.Attribute(value=ast.Name(id=home) | ast.Attribute(attr=home), attr=name):
                if id(node) not in called and name in _CLOCKS.get(home, ()):
                    yield ast.unparse(node)
            case ast.ImportFrom(module="time", names=names):
                yield from (each.name for each in names if each.name in _CLOCKS["time"])
            case ast.arguments(defaults=defaults, kw_defaults=kw_defaults):
                for default in filter(None, defaults + kw_defaults):
                    match default:
                        case ast.Call(func=ast.Attribute(value=ast.Name(id=home), attr=name)):
                            if name in _CLOCKS.get(home, ()):
                                yield ast.unparse(default)


def test_no_clock_is_held() -> None:
    """Each clock is looked up when it is read, so that freezegun and monkeypatch replace it everywhere."""
    found = {name: list(_held_clocks(file.read_text())) for name, file in sources().items()}
    assert {file: clocks for file, clocks in found.items() if clocks} == {}


@pytest.mark.parametrize(
    ("source", "is_seen"),
    [
        ("def f(clock=time.time): ...", True),
        ("def f(*, now=datetime.now(UTC)): ...", True),
        ("self._clock = clock or time.time", True),
        ("f(datetime.datetime.now)", True),
        ("from time import monotonic", True),
        ("def f(clock=None): return (clock or (lambda: time.time()))()", False),
        ("from time import sleep", False),
        ("error.elapsed.time", False),
    ],
)
def test_a_held_clock_is_seen(source: str, is_seen: bool) -> None:
    """The search finds what it is for, and nothing else."""
    assert bool(list(_held_clocks(source))) == is_seen
