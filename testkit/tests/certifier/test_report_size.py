"""No answer makes a report large: a few calls of each scenario, the beginning of each text, and what decided."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from xml.etree import ElementTree

import pytest

from game_operator_testkit.certifier import Report
from game_operator_testkit.certifier.report.as_html import html
from game_operator_testkit.certifier.report.as_json import document, written
from game_operator_testkit.certifier.report.as_junit import junit
from game_operator_testkit.certifier.report.report import Cause
from game_operator_testkit.certifier.report.shown import FAILED, LINE, NOTES, PASSED, TEXT, cut, shown_exchanges
from game_operator_testkit.certifier.report.verdicts import Note, Verdict, Weight
from testkit.tests.certifier.reports import doubled, exchange, failed, passed, report

#: In bytes: of a run in which all fails by the longest answers that are kept, and of a usual one.
_MOST, _USUAL = 20_000_000, 600_000
#: As long as an answer is kept, in bytes that every form has to escape.
_WILD = bytes(range(256)) * 16


def _wrong(number: int, *, text: str = "why ") -> Verdict:
    """Return a failed scenario as large as one can be."""
    sent = tuple(
        exchange(f"call {place}", body=_WILD * 16, answer=_WILD, answer_headers=((b"x-wild", _WILD),) * 30)
        for place in range(160)
    )
    reasons = [Note(text * 60 + str(place), Weight.MONEY_LOST, exchange=place * 2 + 1) for place in range(20)]
    verdict = failed(
        f"{'ABCDEFGH'[number % 8]}{number:02}",
        "title",
        Weight.MONEY_LOST,
        reasons[0].reason,
        means=text * 100,
        fix=text * 100,
        exchanges=sent,
        decisive=1,
    )
    return replace(verdict, notes=tuple(reasons))


def _all_passed() -> Report:
    verdicts = [passed(f"{'ABCDEFGH'[number % 8]}{number:02}", exchanges=160) for number in range(89)]
    return report(*verdicts, load_ms=tuple(map(float, range(1, 700))))


def _all_wrong(text: str) -> Report:
    verdicts = [_wrong(number, text=text) for number in range(89)]
    return report(*verdicts, causes=tuple(map(Cause, verdicts)))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("made", "most"),
    [
        pytest.param(_all_passed, _USUAL, id="many calls, all passed"),
        pytest.param(partial(_all_wrong, "why "), _MOST, id="all wrong"),
        pytest.param(partial(_all_wrong, "&<\"'ÿ\x00 "), _MOST, id="all wrong, in words that are escaped"),
    ],
)
@pytest.mark.drawn(1)
def test_no_form_is_large(made: Callable[[], Report], most: int) -> None:
    """However many scenarios fail, with long answers of any bytes and long reasons; none is left out."""
    given = made()
    for text in (written(given), html(given), junit(given)):
        assert len(text.encode()) <= most
    ElementTree.fromstring(junit(given))
    read = document(given)
    assert [each["id"] for each in read["verdicts"]] == [each.id for each in given.verdicts]  # type: ignore[attr-defined]


def _noted(*places: int) -> Verdict:
    """Return a failed scenario of 60 calls, in which those at *places* are wrong."""
    calls = tuple(exchange(f"call {number}") for number in range(60))
    notes = tuple(Note(f"wrong {place}", Weight.MONEY_LOST, exchange=place) for place in places)
    return replace(doubled(), exchanges=calls, notes=notes or (Note("wrong", Weight.MONEY_LOST),))


@pytest.mark.parametrize(
    ("verdict", "places"),
    [
        pytest.param(passed("A01", exchanges=1), [0], id="passed: all"),
        pytest.param(passed("A01", exchanges=60), range(PASSED), id="passed: the first"),
        pytest.param(_noted(3), range(FAILED), id="failed: what led there, and what followed"),
        pytest.param(_noted(50), range(51 - FAILED, 51), id="failed: the nearest"),
        pytest.param(_noted(50, 10, 20), [*range(45, 51), 10, 20], id="failed: others that are wrong"),
        pytest.param(_noted(), range(60 - FAILED, 60), id="failed: no single one, the last"),
        pytest.param(_noted(*range(20, 40)), [*range(16, 24)], id="failed: twenty are wrong"),
    ],
)
def test_which_calls_are_shown(verdict: Verdict, places: Sequence[int]) -> None:
    """The one that decided, the others that are wrong, and the calls before it, in their order."""
    shown = shown_exchanges(verdict)
    assert [each.number - 1 for each in shown] == sorted(places)
    decided = [each.number - 1 for each in shown if each.decided]
    assert decided == [note.exchange for note in verdict.notes[:1] if note.exchange is not None]


def test_what_is_left_out_is_counted() -> None:
    """By scenario, in each form; and nothing of a short one is."""
    wrong, short = _wrong(1), passed("A02", exchanges=PASSED)
    given = report(wrong, short)
    first, second = sorted(document(given)["verdicts"], key=lambda each: not each["failed"])  # type: ignore[call-overload]
    assert (first["exchanges_left_out"], first["notes_left_out"]) == (160 - FAILED, 20 - NOTES)
    assert (second["exchanges_left_out"], second["notes_left_out"]) == (0, 0)
    page = html(given)
    assert f"{160 - FAILED} more calls are not on this page" in page
    assert f"… and {20 - NOTES} more." in page
    assert "not on this page" not in html(report(short))


@pytest.mark.parametrize(("length", "has_line"), [(LINE - 1_000, True), (LINE + 1_000, False)])
def test_a_line_that_is_too_long_is_left_out(length: int, has_line: bool) -> None:
    """On the page too."""
    given = report(replace(passed("A01"), exchanges=(exchange(body=b"i" * length),)))
    (read,) = document(given)["verdicts"][0]["exchanges"]  # type: ignore[index]
    assert (read["call"] is not None) is has_line
    assert ("game-operator call /withdraw" in html(given)) is has_line


@pytest.mark.parametrize(("length", "shown"), [(TEXT, "x" * TEXT), (TEXT + 1, "x" * TEXT + "…")])
def test_a_sentence_is_cut(length: int, shown: str) -> None:
    """On both sides of the limit."""
    assert cut("x" * length) == shown
