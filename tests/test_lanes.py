"""Which cases of a long table a run draws."""

from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.lanes import draw


class _Case:
    """Stands for a test with one mark."""

    def __init__(self, nodeid: str, mark: pytest.MarkDecorator, **parameters: object) -> None:
        self.nodeid = nodeid
        self.callspec = SimpleNamespace(params=parameters)
        self.added: list[str] = []
        self._mark = mark

    def iter_markers(self, name: str) -> list[pytest.Mark]:
        return [self._mark.mark] if self._mark.name == name else []

    def get_closest_marker(self, name: str) -> pytest.Mark | None:
        return next(iter(self.iter_markers(name)), None)

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
    kept = _kept(_cases(pytest.mark.drawn(2, flavour=("trio", "aiohttp"))))
    assert len(kept) == 7
    assert kept[:5] == [f"t.py::test[{n}]" for n in range(5)]


def test_a_test_without_the_mark_keeps_its_cases() -> None:
    """Whatever other marks it has."""
    assert len(_kept(_cases(pytest.mark.outside))) == 20
