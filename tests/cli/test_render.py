"""One renderer shows the documents of all commands: units by the names of fields, and no amount that is not exact."""

import json
from decimal import Decimal

import pytest

from game_operator.cli.output import answer, answer_list, answering, cell, label, show_kinds
from tests.support.command_line import rows


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        pytest.param("won_cents", 1250, "12.50", id="cents"),
        pytest.param("won_cents", 10**30 + 1, f"{10**28}.01", id="more than any double"),
        pytest.param("won_cents", -5, "-0.05", id="below zero"),
        pytest.param("won_cents", 0, "0.00", id="nothing won"),
        pytest.param("won_cents", None, "–", id="unknown"),
        pytest.param("exposure_cents", {"EUR": 1250, "JPY": 100}, "EUR 12.50, JPY 1.00", id="by currency"),
        pytest.param("open", {"bets": 2, "total_cents": 1250}, "bets 2, total 12.50", id="a record in a field"),
        pytest.param("bets", {"ROLLED_BACK": 2}, "ROLLED_BACK 2", id="names as they are"),
        pytest.param("at_millis", 1_700_000_000_123, "2023-11-14 22:13:20.123", id="a time"),
        pytest.param("balance", Decimal("1234567890123456.70"), "1234567890123456.70", id="a decimal, digit for digit"),
        pytest.param("seen", 3, "3", id="a number"),
        pytest.param("applied", False, "no", id="no"),
        pytest.param("ids", ("a", 1), "a, 1", id="a list"),
        pytest.param("ids", (), "–", id="an empty list"),
        pytest.param("code", "", "–", id="an empty text"),
    ],
)
def test_a_value_is_shown_by_its_unit(name: str, value: object, expected: str) -> None:
    assert cell(name, value) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [("won_cents", "won"), ("opened_at_millis", "opened at (UTC)"), ("tx_id", "tx id"), ("state", "state")],
)
def test_a_name_without_its_unit(name: str, expected: str) -> None:
    assert label(name) == expected


def test_a_record_and_its_lists(capsys: pytest.CaptureFixture[str]) -> None:
    """The view has the order; what is empty is left out, and what is not in the view, too."""
    calls = [{"tx_id": "t1", "amount_cents": 500, "code": None}, {"tx_id": "t2", "amount_cents": 0, "code": None}]
    document = {"bet": {"won_cents": 0, "state": "OPEN", "note": ""}, "calls": calls, "tags": ["a", "b"], "more": 1}
    parts = {"bet": "state won_cents note", "calls": "tx_id code amount_cents", "none": "state", "none.calls": "tx_id"}
    answer(document | {"none": None}, "A headline.", view=parts | {"": "tags"})
    out = capsys.readouterr().out
    assert out.splitlines()[:3] == ["A headline.", "state  OPEN", "won    0.00"]
    assert rows(out) == [["t1", "5.00"], ["t2", "0.00"]]
    assert out.splitlines()[-2:] == ["tags  a", "tags  b"]


def test_records_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    """Their name is the first column."""
    verdicts = {"settle": {"bets": 2, "total_cents": 1}, "same": {"bets": 0, "total_cents": 0}}
    answer({"verdicts": verdicts}, view={"verdicts": "verdict bets total_cents"})
    assert rows(capsys.readouterr().out) == [["settle", "2", "0.01"], ["same", "0", "0.00"]]


@pytest.mark.parametrize(("number", "more"), [(2, False), (3, True)])
def test_a_list_says_whether_there_is_more(capsys: pytest.CaptureFixture[str], number: int, more: bool) -> None:
    found = [{"id": each} for each in range(number)]
    answer_list("bets", found, 2, "id")
    out = capsys.readouterr().out
    assert (len(rows(out)), out.endswith("more than these 2: pass a greater --limit.\n")) == (2, more)
    with answering(as_json=True):
        answer_list("bets", found, 2, "id")
    assert json.loads(capsys.readouterr().out) == {"bets": [{"id": 0}, {"id": 1}], "more": more}


def test_findings_by_kind(capsys: pytest.CaptureFixture[str]) -> None:
    """How many, the first ids, each once, and what the first one says."""
    of_bets = [{"kind": "a", "bet_id": f"b{each // 2}", "detail": f"d{each}"} for each in range(20)]
    show_kinds([*of_bets, {"kind": "b", "bet_id": None, "account": "p1", "detail": "other"}], "bet_id", "account")
    assert rows(capsys.readouterr().out) == [["a", "20", "b0, b1, b2, b3, b4, …", "d0"], ["b", "1", "p1", "other"]]
    show_kinds([], "bet_id")
    assert capsys.readouterr().out == ""
