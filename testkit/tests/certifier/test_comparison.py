"""Two runs compared: each scenario in its group, and a file of the run before that may hold anything."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from game_operator.errors import ConfigurationError
from game_operator_testkit.certifier import Report, Weight
from game_operator_testkit.certifier.report.as_html import html
from game_operator_testkit.certifier.report.as_json import document, written
from game_operator_testkit.certifier.report.as_junit import junit
from game_operator_testkit.certifier.report.as_markdown import markdown
from game_operator_testkit.certifier.report.comparison import Comparison, compared, read_baseline
from game_operator_testkit.certifier.report.report import Cause
from game_operator_testkit.certifier.report.verdicts import Note, Verdict
from testkit.tests.certifier.reports import EVIL, advised, failed, passed, report, skipped

Before = Callable[[Report, Path], Any]


def wrong(scenario_id: str, weight: Weight = Weight.CONTRACT_BROKEN) -> Verdict:
    return failed(scenario_id, "a title", weight, "It is wrong.", means="Loss.", fix="Fix it.")


def _as_report(before: Report, _folder: Path) -> Report:
    return before


def _as_document(before: Report, _folder: Path) -> object:
    return json.loads(json.dumps(document(before)))


def _as_file(before: Report, folder: Path) -> object:
    file = folder / "before.json"
    file.write_text(written(before))
    return read_baseline(file)


_LOST, _BROKEN, _DOUBLED = Weight.MONEY_LOST, Weight.CONTRACT_BROKEN, Weight.MONEY_DOUBLED
_CASES: list[Any] = [
    pytest.param(passed("A01"), passed("A01"), "", id="passed twice"),
    pytest.param(wrong("A01"), passed("A01"), "fixed", id="fixed"),
    pytest.param(wrong("A01"), replace(advised(), id="A01"), "fixed", id="advice is left"),
    pytest.param(passed("A01"), wrong("A01"), "new", id="new"),
    pytest.param(replace(advised(), id="A01"), wrong("A01"), "new", id="was advice"),
    pytest.param(skipped("A01"), wrong("A01"), "new", id="was not tried"),
    pytest.param(None, wrong("A01"), "new", id="was not there"),
    pytest.param(wrong("A01"), wrong("A01"), "still failing", id="fails twice"),
    pytest.param(wrong("A01", _BROKEN), wrong("A01", _LOST), "costs more", id="costs more"),
    pytest.param(wrong("A01", _LOST), wrong("A01", _BROKEN), "still failing", id="costs less"),
    pytest.param(wrong("A01", _LOST), wrong("A01", _DOUBLED), "still failing", id="lost and doubled weigh alike"),
    pytest.param(wrong("A01"), skipped("A01"), "not compared", id="failed, and is not tried any more"),
    pytest.param(passed("A01"), skipped("A01"), "not compared", id="passed, and is not tried any more"),
    pytest.param(wrong("A01"), None, "not compared", id="failed, and is not played any more"),
    pytest.param(skipped("A01"), skipped("A01"), "", id="never tried"),
    pytest.param(skipped("A01"), None, "", id="never tried, and is not played any more"),
    pytest.param(None, passed("A01"), "", id="passes from the beginning"),
]


@pytest.mark.parametrize("given", [_as_report, _as_document, _as_file])
@pytest.mark.parametrize(("was", "now", "group"), _CASES)
def test_each_scenario_is_in_one_group(
    was: Verdict | None, now: Verdict | None, group: str, given: Before, tmp_path: Path
) -> None:
    """By how it ended in both runs, whichever form the run before has."""
    before, after = (report(passed("H04"), *([each] if each else [])) for each in (was, now))
    found = compared(given(before, tmp_path), after)
    assert {kind: [each.id for each in changes] for kind, changes in found.groups.items() if changes} == (
        {group: ["A01"]} if group else {}
    )
    assert found.passed is (group not in {"new", "costs more"})
    assert bool(found.remaining) is (was is not None and was.failed and group in {"still failing", "not compared"})


def _both(before: list[Verdict], after: list[Verdict]) -> Comparison:
    return compared(report(*before), report(*after))


_NEW, _OLD, _GONE = wrong("B02"), wrong("B01"), wrong("C01")


@pytest.mark.parametrize(
    ("found", "headline", "line"),
    [
        pytest.param(
            _both([passed("A01")], [passed("A01")]),
            "No worse than the baseline, and none of its failures remains.",
            "0 fixed, 0 new, 0 cost more, 0 still failing, 0 not compared",
            id="nothing",
        ),
        pytest.param(
            _both([_OLD, _GONE], [_OLD, passed("C01")]),
            "No worse than the baseline, but 1 of its failures remains.",
            "1 fixed, 0 new, 0 cost more, 1 still failing, 0 not compared",
            id="old failures remain",
        ),
        pytest.param(
            _both([_OLD, _GONE], [_OLD]),
            "No worse than the baseline, but 2 of its failures remain.",
            "0 fixed, 0 new, 0 cost more, 1 still failing, 1 not compared",
            id="what was not tried is not fixed",
        ),
        pytest.param(
            _both([_OLD], [replace(_OLD, weight=_LOST), _NEW, wrong("B03")]),
            "Worse than the baseline: 2 scenarios fail that did not fail before and 1 scenario costs more than before.",
            "0 fixed, 2 new, 1 cost more, 0 still failing, 0 not compared",
            id="new, and costs more",
        ),
    ],
)
def test_what_it_comes_to(found: Comparison, headline: str, line: str) -> None:
    """In a sentence, and in a line of numbers that keeps its form."""
    assert (found.headline, found.summary_line) == (headline, line)


def test_the_worst_stands_first() -> None:
    """By weight, then by id; of what is not compared, what failed before."""
    found = _both([passed("D01"), _GONE], [wrong("A05"), wrong("B05", _LOST), wrong("A06", _LOST), skipped("D01")])
    assert [each.id for each in found.new] == ["A06", "B05", "A05"]
    assert [(each.id, each.was, each.now) for each in found.not_compared] == [
        ("C01", "failed", ""),
        ("D01", "passed", "not tried"),
    ]
    assert found.not_compared[1].reason.startswith("It needs a way to block a player")


def _other_profile(given: Report) -> Report:
    return replace(given, profile={"deposit_batch": "True"})


@pytest.mark.parametrize(
    ("before", "after", "remark"),
    [
        pytest.param(report(passed("A01")), report(passed("A01")), "", id="alike"),
        pytest.param(
            replace(report(passed("A01")), version="0.9"),
            report(passed("A01")),
            "The baseline is of game-operator 0.9, and this run of 1.0.0: scenarios may judge otherwise.",
            id="another version",
        ),
        pytest.param(
            report(passed("A01")),
            _other_profile(report(passed("A01"))),
            "The runs have different profiles (deposit_batch), so they expect different answers.",
            id="another profile",
        ),
        pytest.param(
            report(replace(skipped("A01"), is_stopped=True)),
            report(passed("A01")),
            "The baseline's run was stopped, so it judged only a part.",
            id="stopped",
        ),
    ],
)
@pytest.mark.parametrize("given", [_as_report, _as_file])
def test_why_two_runs_may_not_be_comparable(
    before: Report, after: Report, remark: str, given: Before, tmp_path: Path
) -> None:
    """A sentence each."""
    assert compared(given(before, tmp_path), after).remarks == ((remark,) if remark else ())


def test_a_report_of_an_older_version_has_no_profile() -> None:
    """And nothing is said about it."""
    older = {name: each for name, each in document(report(passed("A01"))).items() if name != "profile"}
    assert compared(older, _other_profile(report(passed("A01")))).remarks == ()


# --- the file ---------------------------------------------------------------------------------------------------------


def _changed(**changes: object) -> bytes:
    return json.dumps(json.loads(written(report(passed("A01")))) | changes).encode()


def _verdict(**changes: object) -> bytes:
    return _changed(verdicts=[{"id": "A01", "title": "t", "outcome": "passed", "weight": "money lost"} | changes])


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        pytest.param(b"", "it is empty", id="empty"),
        pytest.param(b" \n", "it is empty", id="blank"),
        pytest.param(_changed(verdicts=[]), "it has no verdict of any scenario", id="nothing to compare with"),
        pytest.param(b"{", "it is not JSON", id="half"),
        pytest.param(b"\xff\xfe{}", "it is not JSON", id="not UTF-8"),
        pytest.param(b"[" * 100_000, "it is not JSON", id="nested"),
        pytest.param(b"[]", "it is not a JSON object", id="a list"),
        pytest.param(b"null", "it is not a JSON object", id="null"),
        pytest.param(b"{}", "format: field required", id="an empty object"),
        pytest.param(_changed(format=2), "it is a report of format 2, and this version reads format 1", id="format"),
        pytest.param(_changed(format="x" * 900), "it is a report of format 'xxx", id="a format of text"),
        pytest.param(_changed(verdicts={}), "verdicts: input should be a valid array", id="verdicts of another kind"),
        pytest.param(_changed(version=1), "version: input should be a valid string", id="version of another kind"),
        pytest.param(_changed(was_stopped="no"), "was_stopped: input should be a valid boolean", id="no boolean"),
        pytest.param(_changed(profile=[]), "profile: input should be an object", id="profile of another kind"),
        pytest.param(_verdict(id="B<script>"), "verdicts.0.id: string should match pattern", id="an id"),
        pytest.param(_verdict(id="A01\n"), "verdicts.0.id: string should match pattern", id="an id with a line end"),
        pytest.param(
            _verdict(outcome="great"), "verdicts.0.outcome: input should be 'passed', 'failed' or", id="outcome"
        ),
        pytest.param(_verdict(weight=3), "verdicts.0.weight: input should be 'money lost'", id="weight"),
        pytest.param(_verdict(title="t" * 201), "verdicts.0.title: string should have at most 200", id="a long title"),
        pytest.param(
            _changed(verdicts=json.loads(_verdict())["verdicts"] * 2), "it has the scenario A01 twice", id="twice"
        ),
        pytest.param(
            _changed(verdicts=json.loads(_verdict())["verdicts"] * 201),
            "verdicts: tuple should have at most",
            id="many",
        ),
    ],
)
def test_a_file_that_is_no_report_is_refused(content: bytes, problem: str, tmp_path: Path) -> None:
    """By name, with the first thing that is wrong with it, in a message of one line."""
    file = tmp_path / "before.json"
    file.write_bytes(content)
    with pytest.raises(ConfigurationError) as raised:
        read_baseline(file)
    message = str(raised.value)
    assert message.startswith(f"The baseline '{file}' cannot be used: {problem}")
    assert message.endswith("Pass a file that `game-operator certify --json-file` wrote.")
    assert len(message) < 600
    assert message.isprintable()


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    """Or is a folder, or has no end."""
    for place, problem in ((tmp_path / "no", "No such file"), (tmp_path, "Is a directory")):
        with pytest.raises(ConfigurationError, match=problem):
            read_baseline(place)


def test_a_file_without_an_end_is_not_read_to_its_end(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """On both sides of the limit."""
    file = tmp_path / "before.json"
    file.write_text(written(report(passed("A01"))))
    size = file.stat().st_size
    monkeypatch.setattr("game_operator_testkit.certifier.report.comparison._LARGEST", size)
    assert read_baseline(file).verdicts[0].id == "A01"
    monkeypatch.setattr("game_operator_testkit.certifier.report.comparison._LARGEST", size - 1)
    with pytest.raises(ConfigurationError, match=f"it has more than {size - 1:,} bytes"):
        read_baseline(file)


@pytest.mark.parametrize("value", [{"format": 2}, {"format": {1}}, {}])
def test_a_dictionary_that_is_no_report_is_refused(value: Any) -> None:  # Any: whatever it is.
    """As a file is."""
    with pytest.raises(ConfigurationError, match="The report to compare with cannot be used: "):
        compared(value, report(passed("A01")))


# --- in each form -----------------------------------------------------------------------------------------------------


def test_each_form_has_the_comparison() -> None:
    """And none of them without one."""
    after = report(_OLD, _NEW, passed("C01"), skipped("A09"))
    found = compared(report(_OLD, _GONE, passed("A09"), wrong("Z99")), after)
    read = json.loads(written(after, found))["comparison"]
    assert (read["passed"], read["summary_line"]) == (False, found.summary_line)
    assert {
        name: [each["id"] for each in read[name]] for name in ("fixed", "new", "still_failing", "not_compared")
    } == {
        "fixed": ["C01"],
        "new": ["B02"],
        "still_failing": ["B01"],
        "not_compared": ["Z99", "A09"],
    }
    assert read["costs_more"] == []
    assert read["fixed"][0]["weight_before"] == read["fixed"][0]["weight"] == "contract broken"
    for form in (html, markdown):
        assert found.headline in form(after, found)
        assert "Z99 a title" in form(after, found).replace("</a>", "")
        assert "the baseline" not in form(after)
    assert f'name="comparison" value="{found.summary_line}"' in junit(after, found)
    assert "comparison" not in junit(after)
    assert json.loads(written(after))["comparison"] is None


def test_what_stands_in_a_baseline_is_data() -> None:
    """Its titles are shown, and are no markup."""
    before = json.loads(written(report(wrong("Z99"))))
    before["verdicts"][0]["title"] = EVIL.encode(errors="replace").decode()
    after = report(passed("A01"))
    found = compared(before, after)
    page = html(after, found)
    assert "<script>window.ran" not in page
    assert "&lt;script&gt;window.ran = 1&lt;/script&gt;" in page
    assert "<script" not in markdown(after, found)
    assert "\\|" not in EVIL  # The next line would prove nothing.
    assert r"\{\{ 7 \* 7 \}\}" in markdown(after, found)


def test_markdown_has_the_first_cause_and_what_failed() -> None:
    """With a row for each failure; without one there is no table."""
    made = replace(report(_OLD, passed("A01"), advised()), causes=())
    text = markdown(made)
    assert text.startswith("### Certification of a wallet: failed\n\nFailed: this wallet")
    assert text.endswith("\n\nFAILED: 1 passed, 1 failed, 1 advice, 0 not tried\n\n")
    assert "| A failure costs |" not in markdown(report(passed("A01")))


@pytest.mark.parametrize(
    ("reason", "shown"),
    [
        pytest.param("a\n\n# b", r"a \# b", id="a heading"),
        pytest.param("<img src=x>", "&#60;img src=x&#62;", id="an element"),
        pytest.param("[x](http://y)", r"\[x\](http&#58;//y)", id="a link"),
        pytest.param("a | b", r"a \| b", id="a cell"),
        pytest.param("@all", "&#64;all", id="a mention"),
        pytest.param("&lt;", "&#38;lt;", id="an entity"),
        pytest.param("\x1b[0m", r"\\x1b\[0m", id="a control character"),
    ],
)
def test_nothing_is_markup(reason: str, shown: str) -> None:
    """A wallet's answer may be quoted in a reason."""
    verdict = replace(_OLD, reason=reason, notes=(Note(reason, _BROKEN),))
    text = markdown(report(verdict, causes=(Cause(verdict),)))
    assert f"Seen in B01 a title: {shown}\n" in text
