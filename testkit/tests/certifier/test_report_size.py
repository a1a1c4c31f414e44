"""A report stays below 300 kB in every form, and still shows and sends again what is wrong."""

import itertools
import json
import re
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache, partial
from typing import Any
from xml.etree import ElementTree

import pytest

from game_operator.profile import Profile
from game_operator.protocol.http import HttpReply
from game_operator_testkit.certifier import Outcome, Report, certify_in_process, scenarios
from game_operator_testkit.certifier.report.as_html import html
from game_operator_testkit.certifier.report.as_json import document, written
from game_operator_testkit.certifier.report.as_junit import junit
from game_operator_testkit.certifier.report.extent import (
    EXTENTS,
    MOST_BYTES,
    Extent,
    fitting,
    shown_exchanges,
    shown_notes,
)
from game_operator_testkit.certifier.report.report import Cause
from game_operator_testkit.certifier.report.verdicts import Note, Verdict, Weight
from testkit.tests.certifier.harness import INSTANCE, OTHER, PLAYER, delivered_to, opened, service_signer, supplies_of
from testkit.tests.certifier.reports import URL, doubled, exchange, failed, passed, report

LONGEST_RUN_ID = "r" * 64
#: As long as an answer is kept, in bytes that every form has to escape.
_WILD = bytes(range(256)) * 16


def told(given: Report) -> Any:  # Any: what the JSON parser made.
    return json.loads(written(given))


def _wrong(number: int, *, exchanges: int = 60, notes: int = 20, text: str = "why ") -> Verdict:
    """Return a failed scenario as large as one can be."""
    sent = [
        exchange(
            f"call {place}",
            body=b'{"player_id":"' + b"p" * 255 + b'","action_id":"' + f"{LONGEST_RUN_ID}-{place}".encode() + b'"}',
            answer=_WILD,
            answer_headers=((b"x-wild", _WILD),) * 30,
        )
        for place in range(exchanges)
    ]
    reasons = [Note(text * 60 + str(place), Weight.MONEY_LOST, exchange=place * 2 + 1) for place in range(notes)]
    verdict = failed(
        f"{'ABCDEFGH'[number % 8]}{number:02}",
        "title",
        Weight.MONEY_LOST,
        reasons[0].reason,
        means=text * 100,
        fix=text * 100,
        exchanges=tuple(sent),
        decisive=1,
    )
    return replace(verdict, notes=tuple(reasons))


def _all_wrong(count: int = 85, **settings: Any) -> Report:  # Any: of ``_wrong``.
    verdicts = [_wrong(number, **settings) for number in range(count)]
    return report(*verdicts, causes=tuple(map(Cause, verdicts)))


@cache
def _all_passed(exchanges: int = 160) -> Report:
    return report(*(passed(f"{'ABCDEFGH'[n % 8]}{n:02}", exchanges=exchanges) for n in range(85)))


@pytest.mark.slow
@pytest.mark.parametrize(
    "made",
    [
        pytest.param(partial(_all_passed, 3), id="a few calls, all passed"),
        pytest.param(_all_passed, id="many calls, all passed"),
        pytest.param(partial(_all_wrong, 12), id="some wrong"),
        pytest.param(partial(_all_wrong, exchanges=3, notes=1), id="all wrong, a few calls"),
        pytest.param(_all_wrong, id="all wrong"),
        pytest.param(partial(_all_wrong, text="&<\"'ÿ\x00 "), id="all wrong, in words that are escaped"),
    ],
)
@pytest.mark.drawn(1)
def test_no_form_is_longer_than_300_kilobytes(made: Callable[[], Report]) -> None:
    """However many scenarios fail, with long answers of any bytes, long ids and long reasons."""
    given = made()
    for text in (written(given), json.dumps(document(given)), html(given), junit(given)):
        assert len(text.encode()) <= MOST_BYTES
    ElementTree.fromstring(junit(given))
    read = told(given)
    assert [each["id"] for each in read["verdicts"]] == [each.id for each in given.verdicts]
    assert len(read["causes"]) == len(given.causes)


def _answering(change: Callable[[bytes], bytes]) -> Report:
    wallet = opened()
    deliver = delivered_to(wallet)

    def changed(path: str, headers: Mapping[str, str], body: bytes) -> HttpReply:
        response = deliver(path, headers, body)
        return replace(response, body=change(response.body))

    return certify_in_process(
        changed,
        signing_key=service_signer(),
        player_id=PLAYER,
        other_player_id=OTHER,
        profile=Profile(deposit_batch=True),
        supplies=supplies_of(wallet, operations=200),
        instance_id=INSTANCE,
        run_id=LONGEST_RUN_ID,
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "has_passed"),
    [
        pytest.param(lambda body: body, True, id="a wallet that is right"),
        pytest.param(lambda body: body[:-1] + b" " * 200_000 + b"}", False, id="answers of 200 kB"),
        pytest.param(lambda body: _WILD * 50, False, id="200 kB of every byte"),
        pytest.param(lambda body: b"", False, id="empty answers"),
    ],
)
@pytest.mark.drawn(1)
def test_the_report_of_a_run_is_small(change: Callable[[bytes], bytes], has_passed: bool) -> None:
    """Of all scenarios, with more random operations than a report keeps, and ids of the longest length."""
    given = _answering(change)
    assert given.passed is has_passed
    assert len(given.verdicts) == len(scenarios())
    for text in (written(given), html(given), junit(given)):
        assert len(text.encode()) <= MOST_BYTES
    for verdict, read in zip(given.verdicts, told(given)["verdicts"], strict=True):
        if verdict.outcome is Outcome.FAILED and verdict.decisive is not None:
            assert read["exchanges"][read["decisive"]]["title"] == verdict.decisive.title


@pytest.mark.slow
def test_the_call_that_decided_is_in_every_report_and_can_be_sent_again() -> None:
    """Of 85 failures with 60 calls each, the line of each has the whole body."""
    read = told(_all_wrong(notes=1))
    for verdict in read["verdicts"]:
        decided = verdict["exchanges"][verdict["decisive"]]
        assert (decided["number"], decided["title"]) == (2, "call 1")
        assert f"{LONGEST_RUN_ID}-1" in decided["curl"]
        assert f"{URL}/withdraw" in decided["curl"]


@pytest.mark.outside
def test_a_long_body_that_decided_can_be_sent_again() -> None:
    """Its body is cut, and its line is not."""
    long = exchange(body=b'{"id":"' + b"i" * 50_000 + b'"}')
    verdict = replace(doubled(), id="Z01", exchanges=(long,), notes=(replace(doubled().notes[0], exchange=0),))
    (read,) = told(report(*_all_passed(60).verdicts, verdict, causes=(Cause(verdict),)))["verdicts"][-1]["exchanges"]
    assert len(read["request"]["body"]["data"]) < 50_000 <= read["request"]["bytes"]
    assert "i" * 50_000 in read["curl"]
    printed = subprocess.run(
        ["bash", "-c", f'curl() {{ printf %s "${{@: -1}}"; }}; {read["curl"]}'], capture_output=True, check=True
    )
    assert long.request_body in printed.stdout


@pytest.mark.slow
def test_what_is_left_out_is_counted() -> None:
    """By scenario, and nothing of a short run is."""
    small, large = told(report(passed("A01", exchanges=12))), told(_all_passed(60))
    assert small["verdicts"][0]["exchanges_left_out"] == 0
    for verdict in large["verdicts"]:
        assert verdict["exchanges_left_out"] == 60 - len(verdict["exchanges"]) > 0
    wrong = _all_wrong(12, exchanges=40)
    first = told(wrong)["verdicts"][0]
    assert first["notes_left_out"] == 20 - len(first["notes"]) > 0
    assert re.search(r"… and \d+ more\.", html(wrong))


def test_a_repeat_is_one_entry() -> None:
    """With how often the same was sent and answered in succession; another answer is another entry."""
    same, other = exchange("the withdraw"), exchange("the withdraw", answer=b'{"type":"SUCCESS","balance":1.00}')
    given = replace(passed("D02"), exchanges=(same, same, same, other, same))
    read = told(report(given))["verdicts"][0]
    assert [(each["number"], each["times"]) for each in read["exchanges"]] == [(1, 3), (4, 1), (5, 1)]
    assert read["exchanges_left_out"] == 0
    assert "× 3" in html(report(given))
    assert "not on this page" not in html(report(given))


def test_what_shows_that_something_is_wrong_is_no_repeat() -> None:
    """The second of two equal calls decided, so it has an entry."""
    same = exchange("the withdraw")
    note = replace(doubled().notes[0], exchange=1)
    read = told(report(replace(doubled(), exchanges=(same, same, same), notes=(note,))))["verdicts"][0]
    assert [(each["number"], each["times"]) for each in read["exchanges"]] == [(1, 1), (2, 1), (3, 1)]
    assert read["decisive"] == read["notes"][0]["exchange"] == 1


def test_each_extent_shows_no_more_than_the_one_before() -> None:
    """A report is searched for the fullest that fits, which needs this order."""
    verdict = _wrong(1)
    for fuller, briefer in itertools.pairwise(EXTENTS):
        names = Extent.__slots__
        assert all(getattr(fuller, name) >= getattr(briefer, name) for name in names)
        assert {each.number for each in shown_exchanges(verdict, briefer) if each.shows_what_is_wrong} <= {
            each.number for each in shown_exchanges(verdict, fuller)
        }
        assert len(shown_notes(verdict, briefer)) >= 1


@pytest.mark.parametrize(
    ("lengths", "place"),
    [
        pytest.param([MOST_BYTES] * len(EXTENTS), 0, id="the fullest fits"),
        pytest.param([MOST_BYTES + 1, *[MOST_BYTES] * (len(EXTENTS) - 1)], 1, id="a byte too many"),
        pytest.param([MOST_BYTES + 1] * (len(EXTENTS) - 1) + [1], -1, id="only the briefest fits"),
        pytest.param([MOST_BYTES + 1] * len(EXTENTS), -1, id="none fits"),
    ],
)
def test_the_fullest_that_fits_is_taken(lengths: list[int], place: int) -> None:
    """On both sides of the limit."""
    extent, text = fitting(lambda extent: "x" * lengths[EXTENTS.index(extent)])
    assert extent is EXTENTS[place]
    assert len(text) == lengths[place]


def test_the_length_is_that_in_bytes() -> None:
    """A character may take four of them."""
    extent, _ = fitting(lambda extent: "€" * (100_001 if extent is EXTENTS[0] else 100_000))
    assert extent is EXTENTS[1]
