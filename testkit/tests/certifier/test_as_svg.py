"""The badge: what it says in which colour, and that it needs nothing else."""

from xml.etree import ElementTree

import pytest

from game_operator_testkit.certifier import Report
from game_operator_testkit.certifier.report.as_svg import badge
from testkit.tests.certifier.reports import advised, failing_report, hostile_report, passed, report, skipped, undone

_SVG = "{http://www.w3.org/2000/svg}"
_GREEN, _RED, _GREY = "#1a7f37", "#b3261e", "#57606a"


@pytest.mark.parametrize(
    ("given", "message", "colour"),
    [
        pytest.param(report(passed("A01"), passed("A02")), "certified · 2 passed", _GREEN, id="passed"),
        pytest.param(report(passed("A01"), advised(), skipped()), "certified · 1 passed", _GREEN, id="advice"),
        pytest.param(failing_report(), "4 failed", _RED, id="failed"),
        pytest.param(report(skipped()), "not finished", _GREY, id="nothing was tried"),
        pytest.param(report(passed("A01"), undone()), "not finished", _GREY, id="not all was tried"),
    ],
)
def test_what_it_says(given: Report, message: str, colour: str) -> None:
    """As text, and to a screen reader."""
    root = ElementTree.fromstring(badge(given))
    assert [text.text for text in root.iter(f"{_SVG}text")] == ["wallet", message]
    assert root.findtext(f"{_SVG}title") == root.get("aria-label") == f"wallet {message}"
    assert root.get("role") == "img"
    assert root.find(f"{_SVG}rect").get("fill") == colour  # type: ignore[union-attr]


def test_its_text_is_within_it() -> None:
    """Whichever font draws it."""
    root = ElementTree.fromstring(badge(report(passed("A01"))))
    right = max(int(text.get("x", 0)) + int(text.get("textLength", 0)) for text in root.iter(f"{_SVG}text"))
    assert right < int(root.get("width", 0))


def test_it_needs_nothing_else_and_holds_nothing_of_the_wallet() -> None:
    """No address but the name of its language, no script, and no word of an answer."""
    text = badge(hostile_report())
    assert text.count("http") == text.count("http://www.w3.org/2000/svg") == 1
    assert "script" not in text
    assert text == badge(report(failing_report().failures[0]))
    assert len(text) < 1_500
