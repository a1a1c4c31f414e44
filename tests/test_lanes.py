"""Which files a process gets, and whether a run of several passes: no test is left out, and no failure lost."""

import runpy
from pathlib import Path

import pytest

from tests.support.dealing import hands

RUN = runpy.run_path(str(Path(__file__).parent.parent / "tools" / "run_tests.py"))


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
