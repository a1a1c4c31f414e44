"""JSON laid out for people: only the space between values changes."""

import json
import re

import pytest
from markupsafe import Markup

from game_operator_testkit.control_room.json_view import pretty_json


def text_of(html: Markup | None) -> str:
    assert html is not None
    return Markup(re.sub(r"</?span[^>]*>", "", html)).unescape()


@pytest.mark.parametrize(
    ("body", "laid_out"),
    [
        pytest.param(b'{"a":1.50,"b":[1,{}]}', '{\n  "a": 1.50,\n  "b": [\n    1,\n    {}\n  ]\n}', id="nested"),
        pytest.param(b'{"a":1e400,"b":-0.0,"a":01}'.replace(b"01", b"1"), '{\n  "a": 1e400,\n  "b": -0.0,\n  "a": 1\n}',
                     id="digits and names that stand twice stay"),
        pytest.param(b"[" + b"9" * 5_000 + b"]", "[\n  " + "9" * 5_000 + "\n]", id="a number that int() refuses"),
        pytest.param(b' [ ] ', "[]", id="empty"),
        pytest.param(b'"}]{[,:"', '"}]{[,:"', id="marks in a text"),
        pytest.param(rb'["\u202e\"\\"]', '[\n  "\\u202e\\"\\\\"\n]', id="escapes stay"),
        pytest.param("[\"a\u202eb\"]".encode(), '[\n  "a\\u202eb"\n]', id="nothing hides"),
        pytest.param(b"null", "null", id="a word"),
    ],
)  # fmt: skip
def test_json_is_laid_out(body: bytes, laid_out: str) -> None:
    """Each value stands on its own line, as it was sent."""
    assert text_of(pretty_json(body, longest=10_000)) == laid_out


@pytest.mark.parametrize(
    "body", [b"", b"{", b"<html>", b"[NaN]", b"\xff", b"[1] [2]", b"[" * 9_000, b'"\n"'],
    ids=["nothing", "half", "HTML", "NaN", "not UTF-8", "two values", "deep", "a bare line end in a text"],
)  # fmt: skip
def test_what_is_not_json_is_left_alone(body: bytes) -> None:
    """The raw bytes are shown instead."""
    assert pretty_json(body, longest=10_000) is None


def test_a_page_is_not_flooded() -> None:
    """A short body may become long: many small values, or a deep nest."""
    body = json.dumps([1] * 2_000).encode()
    html = pretty_json(body, longest=80_000)
    assert html is not None
    assert pretty_json(body, longest=len(html) - 1) is None
    assert pretty_json(body, longest=len(html)) == html
    assert pretty_json(b"[" * 500 + b"]" * 500, longest=10_000) is None


def test_values_are_coloured_and_escaped() -> None:
    """By their kinds; a text that is a script is only a text."""
    html = pretty_json(b'{"<a>": ["<script>", 1, true]}', longest=10_000)
    assert html is not None
    kinds = re.findall(r'<span class="(.*?)">(.*?)</span>', html)
    assert kinds == [
        ("json-name", "&#34;&lt;a&gt;&#34;"),
        ("json-text", "&#34;&lt;script&gt;&#34;"),
        ("json-number", "1"),
        ("json-word", "true"),
    ]
