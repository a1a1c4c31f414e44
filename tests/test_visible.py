"""Bytes as text in which nothing hides."""

import pytest

from game_operator.text import visible


@pytest.mark.parametrize(
    ("data", "text"),
    [
        pytest.param(b"{}", "{}", id="ASCII"),
        pytest.param(b"a\r\nb\tc", "a\nb\tc", id="line ends and tabs"),
        pytest.param(b"\xff\xfe", r"\xff\xfe", id="not UTF-8"),
        pytest.param(b"\x00\x1b[31m", r"\x00\x1b[31m", id="control characters"),
        pytest.param("\u202eevil".encode(), r"\u202eevil", id="text turned around"),
        pytest.param("a\u200bb\ufeff".encode(), r"a\u200bb\ufeff", id="characters without a width"),
        pytest.param(b"\xed\xa0\x80", r"\xed\xa0\x80", id="a lone surrogate"),
    ],
)
def test_nothing_hides_in_a_body(data: bytes, text: str) -> None:
    """Whatever was sent can be seen, and turns nothing around."""
    assert visible(data) == text
