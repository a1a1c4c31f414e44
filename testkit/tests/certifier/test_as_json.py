"""The report as JSON: every field, whatever a wallet may answer."""

import json
from base64 import b64decode
from dataclasses import fields, replace
from typing import Any

import pytest

from game_operator_testkit.certifier.report.as_json import document, written
from game_operator_testkit.certifier.report.report import Report
from game_operator_testkit.certifier.report.verdicts import Verdict
from testkit.tests.certifier.reports import (
    EVIL_BYTES,
    URL,
    advised,
    broken,
    exchange,
    failing_report,
    hostile_report,
    passed,
    passing_report,
    report,
    skipped,
    undone,
    unjudged,
)
from tests.support.documents import ROOT


def told(given: Report) -> Any:  # Any: what the JSON parser made.
    """Return what a program reads."""
    return json.loads(json.dumps(document(given), allow_nan=False).encode())


def test_the_report_as_a_whole() -> None:
    """What was certified, when, how long it took and how it ended."""
    read = told(failing_report())
    assert {name: read[name] for name in ("format", "passed", "url", "run_id", "version", "seconds", "calls")} == {
        "format": 1,
        "passed": False,
        "url": URL,
        "run_id": "c7k2m9",
        "version": "1.0.0",
        "seconds": 19.75,
        "calls": 1_483,
    }
    assert read["began"] == "2026-11-21T14:03:59.120Z"
    assert read["moved"][0] == {
        "player_id": "p1",
        "before_cents": 10_000,
        "after_cents": 9_500,
        "difference_cents": -500,
    }
    assert read["moved"][2]["difference_cents"] is None


def test_advice_does_not_fail_a_wallet() -> None:
    """It counts as a failed outcome, of its own weight; one failure of another weight beside it fails the wallet."""
    read = told(passing_report())
    assert read["passed"] is True
    assert read["counts"] == {"passed": 2, "failed": 0, "advice": 1, "not_tried": 1, "unjudged": 0, "undone": 0}
    assert read["latency"] is None
    counts = told(failing_report())["counts"]
    assert counts == {"passed": 3, "failed": 4, "advice": 1, "not_tried": 1, "unjudged": 0, "undone": 0}


def test_what_says_nothing_about_money_is_counted() -> None:
    """What could not be judged, and what could not be tried though it was supplied for; other failures are neither."""
    read = told(report(unjudged(), broken(), undone(), skipped("A11"), advised()))
    assert read["counts"] == {"passed": 0, "failed": 2, "advice": 1, "not_tried": 2, "unjudged": 1, "undone": 1}
    assert [each["id"] for each in read["verdicts"] if each["is_unjudged"]] == ["B03"]
    assert [each["id"] for each in read["verdicts"] if each["is_undone"]] == ["A09"]


def test_causes_stand_in_the_order_of_the_report() -> None:
    """What to change first is first, with all scenarios that show it."""
    read = told(failing_report())
    assert [cause["ids"] for cause in read["causes"]] == [["B01", "B02"], ["C06"], ["E11"], ["F06"]]
    first = read["causes"][0]
    assert (first["id"], first["weight"]) == ("B01", "money doubled")
    verdict = next(verdict for verdict in read["verdicts"] if verdict["id"] == "B01")
    for name in ("reason", "means", "fix"):
        assert first[name] == verdict[name] != ""


def test_a_verdict_has_all_that_is_known_of_it() -> None:
    """Each attribute under its own name, and what follows from them."""
    given = failing_report()
    read = told(given)["verdicts"]
    assert [verdict["id"] for verdict in read] == [verdict.id for verdict in given.verdicts]
    for verdict in read:
        assert {each.name for each in fields(Verdict)} <= verdict.keys()
    by_id = {verdict["id"]: verdict for verdict in read}
    b01 = by_id["B01"]
    assert (b01["group"], b01["outcome"], b01["failed"], b01["is_assumed"]) == ("B", "failed", True, True)
    assert (b01["decisive"], b01["exchanges"][2]["title"]) == (2, "the same withdraw again")
    assert b01["notes"] == [{"reason": b01["reason"], "weight": "money doubled", "cause": "", "exchange": 2}]
    assert (by_id["F06"]["outcome"], by_id["F06"]["failed"], by_id["F06"]["is_advice"]) == ("failed", False, True)
    assert (by_id["A09"]["outcome"], by_id["A09"]["reason"] != "") == ("skipped", True)
    assert (by_id["A01"]["decisive"], by_id["A01"]["is_assumed"], by_id["A01"]["duration_ms"]) == (None, False, 12.5)


def test_an_exchange_can_be_read_and_sent_again() -> None:
    """Request and answer as they were, and the line that signs and sends it again (spec §2.1)."""
    b01 = next(verdict for verdict in told(failing_report())["verdicts"] if verdict["id"] == "B01")
    read = b01["exchanges"][2]
    assert read["request"]["method"] == "POST"
    assert read["request"]["path"] == "/withdraw"
    assert read["request"]["body"]["encoding"] == "utf-8"
    assert len(read["request"]["body"]["data"]) == read["request"]["bytes"]
    assert read["answer"]["status"] == 200
    assert read["reply"] == {"type": "SUCCESS", "code": None, "balance_cents": 9_000, "timestamp": 1_795_269_839_130}
    assert (read["told"], read["problem"], read["elapsed_ms"]) == ("SUCCESS 90.00", "", 4.25)
    assert read["at"] == "2026-11-21T14:03:59.125Z"
    assert read["call"].startswith(f"game-operator call /withdraw --url {URL} ")


@pytest.mark.parametrize(
    ("sent_bytes", "url", "has_line"),
    [
        pytest.param(3, URL, True, id="kept whole"),
        pytest.param(4, URL, False, id="one byte was not kept"),
        pytest.param(3, "", False, id="in process"),
    ],
)
def test_there_is_no_line_that_would_send_something_else(sent_bytes: int, url: str, has_line: bool) -> None:
    """A signature fits all bytes that were sent, or none (spec §5)."""
    verdict = replace(passed("A01"), exchanges=(exchange(body=b"xyz", request_bytes=sent_bytes),))
    (read,) = told(replace(report(verdict), url=url))["verdicts"][0]["exchanges"]
    assert (read["call"] is not None) is has_line
    assert read["request"]["bytes"] == sent_bytes


def test_hostile_bytes_are_data() -> None:
    """Bodies come back byte for byte, headers too, long ones cut; no string holds what UTF-8 cannot carry."""
    read = told(hostile_report())
    json.dumps(read, ensure_ascii=False).encode()
    evil, long = read["verdicts"][0]["exchanges"]
    for body in (evil["request"]["body"], evil["answer"]["body"]):
        assert body["encoding"] == "base64"
        assert b64decode(body["data"]) == EVIL_BYTES
    ((name, value),) = evil["answer"]["headers"]
    assert (name.encode("latin-1"), value.encode("latin-1")) == (EVIL_BYTES, EVIL_BYTES)
    assert long["answer"]["body"] == {"encoding": "utf-8", "data": "\x00" * 1_000}
    assert long["answer"]["headers"] == [["x-long", "y" * 300]]
    assert read["verdicts"][0]["id"].startswith("B<script>")
    assert "\\ud800" in read["run_id"]


def test_the_latency_in_figures() -> None:
    """Percentiles by nearest rank, and how many were above each mark."""
    latency = told(failing_report())["latency"]
    assert latency["calls"] == 187
    assert latency["percentiles_ms"] == {"50": 12.3, "90": 19.8, "95": 20.7, "99": 501.0}
    assert latency["max_ms"] == 720.0
    assert latency["above"] == {"100": 6, "500": 2}


def test_every_field_is_documented() -> None:
    """Each name of the document stands in docs/how-to/certify.md, in code."""
    page = (ROOT / "docs" / "how-to" / "certify.md").read_text()
    names: set[str] = set()
    json.loads(written(report(advised(), skipped(), load_ms=(1.0,))), object_hook=names.update)
    assert {name for name in names if f"`{name}`" not in page and f'"{name}"' not in page} == set()
