"""Two runs compared by id: each scenario in its group, and a file of the run before that may hold anything."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from game_operator.errors import ConfigurationError
from game_operator_testkit.certifier import Report, Weight
from game_operator_testkit.certifier.report.as_html import html
from game_operator_testkit.certifier.report.as_json import written
from game_operator_testkit.certifier.report.comparison import Baseline, Comparison, compared, read_baseline
from game_operator_testkit.certifier.report.verdicts import Verdict
from testkit.tests.certifier.reports import EVIL, advised, failed, passed, report, skipped


def wrong(scenario_id: str, weight: Weight = Weight.CONTRACT_BROKEN) -> Verdict:
    return failed(scenario_id, "a title", weight, "It is wrong.", means="Loss.", fix="Fix it.")


def _before(report: Report) -> Baseline:
    """Return what is compared of the file that was written of *report*."""
    return Baseline.model_validate_json(written(report))


_LOST, _BROKEN, _DOUBLED = Weight.MONEY_LOST, Weight.CONTRACT_BROKEN, Weight.MONEY_DOUBLED
_ADVICE = replace(advised(), id="A01")
_CASES: list[Any] = [
    pytest.param(passed("A01"), passed("A01"), "", id="passed twice"),
    pytest.param(wrong("A01"), passed("A01"), "better", id="fixed"),
    pytest.param(wrong("A01"), _ADVICE, "better", id="advice is left"),
    pytest.param(passed("A01"), _ADVICE, "", id="advice is not worse"),
    pytest.param(passed("A01"), wrong("A01"), "worse", id="new"),
    pytest.param(skipped("A01"), wrong("A01"), "worse", id="was not tried"),
    pytest.param(None, wrong("A01"), "worse", id="was not there"),
    pytest.param(wrong("A01"), wrong("A01"), "remains", id="fails twice"),
    pytest.param(wrong("A01", _BROKEN), wrong("A01", _LOST), "worse", id="costs more"),
    pytest.param(wrong("A01", _LOST), wrong("A01", _BROKEN), "better", id="costs less"),
    pytest.param(wrong("A01", _LOST), wrong("A01", _DOUBLED), "remains", id="lost and doubled weigh alike"),
    pytest.param(wrong("A01"), skipped("A01"), "remains", id="failed, and is not tried any more"),
    pytest.param(wrong("A01"), None, "remains", id="failed, and is not played any more"),
    pytest.param(skipped("A01"), skipped("A01"), "", id="never tried"),
]


@pytest.mark.parametrize(("was", "now", "group"), _CASES)
def test_each_scenario_is_in_one_group(was: Verdict | None, now: Verdict | None, group: str) -> None:
    """By how it ended in both runs."""
    before, after = (report(passed("H04"), *([each] if each else [])) for each in (was, now))
    found = compared(_before(before), after)
    assert [(each.kind, each.id) for each in found.changes] == ([(group, "A01")] if group else [])
    assert found.passed is (group != "worse")


def _both(before: list[Verdict], after: list[Verdict]) -> Comparison:
    return compared(_before(report(*before)), report(*after))


_OLD, _GONE = wrong("B01"), wrong("C01")


def test_a_change_says_how_it_ended_in_both_runs() -> None:
    """With the title, which a scenario that is not played any more does not have."""
    found = _both([passed("A05"), _OLD, _GONE], [wrong("A05", _LOST), skipped("B01")])
    assert found.summary_line == "1 worse, 0 better, 2 remaining"
    assert [(each.id, each.title, each.before, each.now) for each in found.changes] == [
        ("A05", "a title", "passed", "money lost"),
        ("B01", "a blocked player has an open bet", "contract broken", "not tried"),
        ("C01", "", "contract broken", "not tried"),
    ]


@pytest.mark.parametrize(
    ("before", "remark"),
    [
        pytest.param(report(passed("A01")), "", id="alike"),
        pytest.param(
            replace(report(passed("A01")), profile={"deposit_batch": "True"}),
            "The runs have different profiles, so they expect different answers.",
            id="another profile",
        ),
    ],
)
def test_why_two_runs_may_not_be_comparable(before: Report, remark: str) -> None:
    """A sentence each."""
    assert compared(_before(before), report(passed("A01"))).remarks == ((remark,) if remark else ())


# --- the file ---------------------------------------------------------------------------------------------------------


def _changed(**changes: object) -> bytes:
    return json.dumps(json.loads(written(report(passed("A01")))) | changes).encode()


def _verdict(**changes: object) -> bytes:
    return _changed(verdicts=[{"id": "A01", "outcome": "passed", "weight": "money lost"} | changes])


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        pytest.param(b"", ": Invalid JSON", id="empty"),
        pytest.param(b"{}", "format: Field required", id="an empty object"),
        pytest.param(_changed(verdicts=[]), "verdicts: Tuple should have at least 1 item", id="nothing to compare"),
        pytest.param(_verdict(id="B<script>"), "verdicts.0.id: String should match pattern", id="an id"),
        pytest.param(_verdict(weight=3), "verdicts.0.weight: Input should be 'money lost'", id="weight"),
    ],
)
def test_a_file_that_is_no_report_is_refused(content: bytes, problem: str, tmp_path: Path) -> None:
    """By name, with the first thing that is wrong with it, in a message of one line."""
    file = tmp_path / "before.json"
    file.write_bytes(content)
    with pytest.raises(ConfigurationError) as raised:
        read_baseline(file)
    message = str(raised.value)
    assert message.startswith(f"The baseline '{file}' cannot be used: ")
    assert problem in message
    assert ": :" not in message
    assert message.endswith("Pass a file that `game-operator certify --json-file` wrote.")
    assert len(message) < 600
    assert message.isprintable()


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    """Or is a folder."""
    for place, problem in ((tmp_path / "no", "No such file"), (tmp_path, "Is a directory")):
        with pytest.raises(ConfigurationError, match=problem):
            read_baseline(place)


# --- in each form -----------------------------------------------------------------------------------------------------


def test_each_form_has_the_comparison() -> None:
    """And none of them without one."""
    after = report(_OLD, wrong("B02"), passed("C01"), skipped("A09"))
    found = compared(_before(report(_OLD, _GONE, passed("A09"), wrong("Z99"))), after)
    read = json.loads(written(after, found))["comparison"]
    assert (read["passed"], read["summary_line"]) == (False, found.summary_line)
    kinds = [(each.pop("kind"), each["id"]) for each in read["changes"]]
    assert kinds == [("worse", "B02"), ("better", "C01"), ("remains", "B01"), ("remains", "Z99")]
    assert read["changes"][1] == {"id": "C01", "title": "all is well", "before": "contract broken", "now": "passed"}
    assert found.summary_line in html(after, found)
    assert "the baseline" not in html(after)
    assert json.loads(written(after))["comparison"] is None


def test_what_stands_in_a_baseline_is_data() -> None:
    """A version is shown, and is no markup."""
    after = report(passed("A01"))
    page = html(after, compared(_before(replace(report(passed("A01")), version=EVIL)), after))
    assert "<script>window.ran" not in page
    assert "&lt;script&gt;window.ran = 1&lt;/script&gt;" in page
