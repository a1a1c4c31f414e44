"""Which cases of a long table a run draws, and which files a process gets."""

import runpy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.dealing import hands
from tests.support.lanes import draw

RUN = runpy.run_path(str(Path(__file__).parent.parent / "tools" / "run_tests.py"))


class _Case:
    """Stands for a test with one mark, of its own or of its module."""

    def __init__(self, nodeid: str, mark: pytest.MarkDecorator, module: object = None, **parameters: object) -> None:
        self.nodeid = nodeid
        self.callspec = SimpleNamespace(params=parameters)
        self.added: list[str] = []
        self._mark, self._module = mark, module

    def iter_markers_with_node(self, name: str) -> list[tuple[object, pytest.Mark]]:
        return [(self._module or self, self._mark.mark)] if self._mark.name == name else []

    def get_closest_marker(self, name: str) -> str | None:
        return name if name in self.added else None

    def add_marker(self, name: str) -> None:
        self.added.append(name)


def _kept(cases: list[Any], seed: int = 0) -> list[str]:  # Any: they stand for items.
    draw(cases, seed)
    return [case.nodeid for case in cases if not case.added]


def _cases(mark: pytest.MarkDecorator) -> list[_Case]:
    return [_Case(f"t.py::test[{n}]", mark, flavour="sync" if n < 5 else "trio") for n in range(20)]


def test_as_many_cases_are_kept_as_the_mark_says() -> None:
    """The same ones for the same seed; a table that is shorter is kept as a whole."""
    mark = pytest.mark.drawn(3)
    assert len(_kept(_cases(mark))) == 3
    assert _kept(_cases(mark)) == _kept(_cases(mark))
    assert len({name for seed in range(100) for name in _kept(_cases(mark), seed)}) == 20
    assert len(_kept(_cases(pytest.mark.drawn(21)))) == 20


def test_only_cases_with_the_named_parameter_are_left_out() -> None:
    """All the others stay."""
    kept = _kept(_cases(pytest.mark.drawn(2, flavour=("trio", "asyncio"))))
    assert len(kept) == 7
    assert kept[:5] == [f"t.py::test[{n}]" for n in range(5)]


def test_the_mark_of_a_module_counts_the_cases_of_all_its_tests() -> None:
    """A test without the named parameter stays."""
    module = SimpleNamespace(nodeid="t.py")
    mark = pytest.mark.drawn(2, database=("postgres",))
    cases = [_Case(f"t.py::test_{n}[postgres]", mark, module, database="postgres") for n in range(9)]
    cases.append(_Case("t.py::test_of_none", mark, module))
    assert len(_kept(cases)) == 3


def test_each_file_is_in_one_hand() -> None:
    """The long ones first, each to who has the least."""
    seconds = {"a": 9.0, "b": 5.0, "c": 4.0}
    dealt = hands(["a", "b", "c", *"defghi"], seconds, 3)
    assert sorted(file for hand in dealt for file in hand) == list("abcdefghi")
    assert {"a"} in dealt
    assert [min(hand) for hand in dealt] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("codes", "expected"),
    [
        pytest.param([0, 0], 0, id="all passed"),
        pytest.param([0, 5], 0, id="all files of a hand in another lane"),
        pytest.param([5, 5], 5, id="no test ran"),
        pytest.param([0, 1], 1, id="one failed"),
        pytest.param([5, -9], -9, id="one was killed"),
    ],
)
def test_hands_pass_together(codes: list[int], expected: int) -> None:
    """A run passes if tests ran and none failed."""
    assert RUN["worst"](codes) == expected
