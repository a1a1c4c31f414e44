"""CSV for spreadsheets: what is written is read back, and nothing in it is a formula."""

import csv
import io
import re
import string
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from itertools import chain
from unicodedata import category

import pytest
from hypothesis import given
from hypothesis import strategies as st

from game_operator.backoffice.exports import csv_lines

FORMULA = tuple("=+-@＝＋－＠\t\r\n")


def text_of(rows: Iterable[Sequence[object]]) -> str:
    """Return *rows* as CSV."""
    return "".join(csv_lines(rows))


class Sum(int):
    """An int that writes itself as a formula."""

    def __str__(self) -> str:
        return "=SUM(A1:A9)"


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        ("=1+1", "'=1+1"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("\t=1", "\\t=1"),
        ("a; @SUM(A1);＝1;b;1", "a;' @SUM(A1);'＝1;b;1"),
        ("a;\u3000=1", "a;'\u3000=1"),
        ("a\r\n+1", "a\\n+1"),
        ("\x1b[2Ja\0\x7f\x85", "\\x1b[2Ja\\x00\\x7f\\x85"),
        ("a\u202egpj\u2066b\u200e", "a\\u202egpj\\u2066b\\u200e"),
        ("a\u2028\u2029\u200bb", "a\\u2028\\u2029\\u200bb"),
        ("Zoë שלום 東京", "Zoë שלום 東京"),
        ("  =1+1", "'  =1+1"),
        ("\u00a0=1+1", "'\u00a0=1+1"),
        (Sum(1), "'=SUM(A1:A9)"),
        (Decimal("-Infinity"), "'-Infinity"),
        (-1, "-1"),
        (Decimal("-1.50"), "-1.50"),
        (Decimal("1E+3"), "1000"),
        (None, ""),
        ("'=1", "'=1"),
        ('a "quoted", text', 'a "quoted", text'),
    ],
)
def test_a_cell(value: object, cell: str) -> None:
    """A text that a spreadsheet would run gets an apostrophe, and what would hide is written as an escape."""
    text = text_of([["before", value, "after"]])
    assert list(csv.reader(io.StringIO(text, newline=""))) == [["before", cell, "after"]]


@given(st.lists(st.lists(st.text() | st.integers() | st.decimals(), min_size=2), min_size=1))
def test_no_text_begins_as_a_formula(rows: list[list[object]]) -> None:
    """Whatever the values are, as many cells are read back, and only numbers begin with a sign."""
    read = list(csv.reader(io.StringIO(text_of(rows), newline="")))
    assert [len(row) for row in read] == [len(row) for row in rows]
    for cell, value in zip(chain(*read), chain(*rows), strict=True):
        is_number = type(value) is int or (isinstance(value, Decimal) and value.is_finite())
        assert is_number or not cell.startswith(FORMULA)
        assert not {category(letter) for letter in cell} & {"Cc", "Cf", "Cs", "Zl", "Zp"}
        if isinstance(value, str) and all(letter in string.printable[:-5] for letter in value):
            assert cell.replace("'", "") == value.replace("'", "")


@given(st.lists(st.text(st.sampled_from("=+-@;\r\n\t \"',a1")), min_size=2).filter(any))
def test_no_text_begins_as_a_formula_where_a_semicolon_ends_a_cell(row: list[str]) -> None:
    """A spreadsheet that reads semicolons finds no formula in any of its cells."""
    cells = re.split(r"[;\r\n]", text_of([row]))
    assert not [cell for cell in cells if cell.lstrip(" \t").startswith(FORMULA[:8])]


def test_rows_are_written_one_by_one() -> None:
    """A line is there before the next row is asked for, so a long report is never in memory."""
    asked: list[int] = []

    def rows() -> Iterator[tuple[int, str]]:
        for number in range(3):
            asked.append(number)
            yield number, "text"

    lines = csv_lines(rows())
    assert next(lines) == "0,text\r\n"
    assert asked == [0]
    assert list(lines) == ["1,text\r\n", "2,text\r\n"]


def test_one_empty_cell_is_not_an_empty_line() -> None:
    """A row of one empty cell is quoted, so that no reader leaves it out."""
    assert text_of([[None]]) == '""\r\n'
