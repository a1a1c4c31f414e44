"""What to change first: failures put together by the mistake behind them."""

from dataclasses import replace

import pytest

from game_operator_testkit.certifier import Note, Outcome, Verdict, Weight
from game_operator_testkit.certifier.report.report import ALL, causes_of
from game_operator_testkit.certifier.report.verdicts import Exchange, KnownCause, Symptom, SymptomKind
from testkit.tests.certifier.reports import exchange

UNREADABLE, SHARED, NO_REPLY = KnownCause.UNREADABLE, KnownCause.SHARED, KnownCause.NO_REPLY
LOST, DOUBLED, BROKEN, ADVICE = Weight.MONEY_LOST, Weight.MONEY_DOUBLED, Weight.CONTRACT_BROKEN, Weight.ADVICE


def failed(scenario_id: str, weight: Weight, cause: str = "", symptom: Symptom | None = None) -> Verdict:
    note = Note("wrong", weight, cause, symptom=symptom)
    return Verdict(scenario_id, "", weight, Outcome.FAILED, "wrong", notes=(note,))


def refusal(code: str) -> Symptom:
    return Symptom("/deposit", SymptomKind.REFUSED, code)


def known(**explains: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    return explains


@pytest.mark.parametrize(
    ("verdicts", "scenarios", "ids"),
    [
        pytest.param(
            [failed("A01", BROKEN), failed("B02", DOUBLED), failed("C03", ADVICE)],
            {},
            [("B02",), ("A01",), ("C03",)],
            id="money first, advice last",
        ),
        pytest.param(
            [failed("A04", LOST), failed("B05", LOST), failed("C07", LOST), failed("C01", LOST)],
            known(B05=("A04", "C07", "D04")),
            [("B05", "A04", "C07"), ("C01",)],
            id="a scenario stands for those that it explains",
        ),
        pytest.param(
            [failed("A04", BROKEN, "HTTP 400"), failed("B05", BROKEN, "HTTP 400"), failed("C07", LOST)],
            {},
            [("C07",), ("A04", "B05")],
            id="one cause in many scenarios is one mistake",
        ),
        pytest.param(
            [failed("A04", LOST), failed("B05", BROKEN)],
            known(B05=("A04",)),
            [("A04",), ("B05",)],
            id="what costs less explains nothing that costs more",
        ),
        pytest.param(
            [failed("A04", LOST, "no answer"), failed("B05", LOST)],
            known(B05=("A04",)),
            [("A04",), ("B05",)],
            id="a cause of its own is not explained by another scenario",
        ),
        pytest.param(
            [failed("A02", LOST), failed("A04", LOST), failed("B05", DOUBLED), failed("B06", BROKEN, "no answer")],
            known(A02=(ALL,), B05=("A04",)),
            [("A02", "A04", "B05"), ("B06",)],
            id="where nothing can be right, the first thing stands for all",
        ),
        pytest.param(
            [failed("A04", LOST), *(failed(f"B0{number}", BROKEN, "no reply of spec §2.1") for number in range(6))],
            {},
            [("B00", "B01", "B02", "B03", "B04", "B05"), ("A04",)],
            id="what hides everything else stands first",
        ),
        pytest.param(
            [
                failed("A02", LOST, UNREADABLE),
                failed("B01", DOUBLED, UNREADABLE),
                failed("C01", LOST),
            ],
            known(A02=(ALL,)),
            [("A02", "C01", "B01")],
            id="no withdraw is understood: one mistake",
        ),
        pytest.param(
            [failed("B09", LOST, UNREADABLE), failed("C01", LOST, UNREADABLE)],
            {},
            [("B09",), ("C01",)],
            id="an odd withdraw that is refused is a mistake of its own",
        ),
        pytest.param(
            [
                *(failed(each, LOST, SHARED) for each in ("A02", "C01")),
                *(failed(each, DOUBLED) for each in ("A08", "B01", "B02", "B03", "D05")),
            ],
            known(A02=(ALL,), A08=("D05",), B01=("B02", "B03")),
            [("A02", "A08", "C01", "D05"), ("B01", "B02", "B03")],
            id="both players have one balance, and a repeat is another mistake",
        ),
        pytest.param(
            [failed("B09", LOST, SHARED), failed("C10", LOST, SHARED)],
            known(A08=("B09",)),
            [("B09",), ("C10",)],
            id="an odd call that moves another's money is a mistake of its own",
        ),
        pytest.param(
            [failed("B01", BROKEN, KnownCause.NOW_AND_THEN), failed("C02", BROKEN, KnownCause.CRASH)],
            {},
            [("B01", "C02")],
            id="an answer that is missing at times, once where it was not tried again",
        ),
        pytest.param(
            [
                failed(each, LOST, KnownCause.ONLY_SAID, refusal(code))
                for each, code in (("C02", "A"), ("C04", "B"), ("H06", "A"))
            ],
            {},
            [("C02", "H06"), ("C04",)],
            id="only said to be done: one mistake for each call",
        ),
        pytest.param(
            [failed("D01", LOST, KnownCause.OVERDRAWN), failed("D04", LOST, KnownCause.ONLY_SAID), failed("D08", LOST)],
            {},
            [("D01", "D04", "D08")],
            id="among calls at once, answers that are wrong follow from a lock that is missing",
        ),
        pytest.param(
            [failed("D01", LOST, KnownCause.OVERDRAWN), failed("C03", LOST, KnownCause.ONLY_SAID)],
            {},
            [("C03",), ("D01",)],
            id="and of calls one after another they do not",
        ),
        pytest.param(
            [failed("F01", ADVICE, KnownCause.UNREAD), failed("F03", ADVICE, KnownCause.OTHER_CODES)],
            {},
            [("F01", "F03")],
            id="too few bodies that are unread say less than other codes",
        ),
    ],
)
def test_causes(verdicts: list[Verdict], scenarios: dict[str, tuple[str, ...]], ids: list[tuple[str, ...]]) -> None:
    """What costs most stands first, then what shows most often; each failure belongs to one cause."""
    assert [cause.ids for cause in causes_of(verdicts, scenarios)] == ids


@pytest.mark.parametrize(
    ("codes", "path", "symptom", "is_its"),
    [
        pytest.param("CLOSED CLOSED", "/deposit", refusal("CLOSED"), True, id="the same refusal"),
        pytest.param("CLOSED DECLINED", "/deposit", refusal("CLOSED"), False, id="another code"),
        pytest.param(
            "CLOSED CLOSED", "/deposit", Symptom("/deposit", SymptomKind.TOO_MUCH), False, id="money that is off"
        ),
        pytest.param("CLOSED CLOSED", "/deposit", None, False, id="no refusal is what is wrong"),
        pytest.param("SYSTEM_ERROR SYSTEM_ERROR", "/deposit", refusal("SYSTEM_ERROR"), False, id="any failure"),
    ],
)
def test_advice_on_a_refusal_belongs_to_the_failure_by_it(
    codes: str, path: str, symptom: Symptom | None, is_its: bool
) -> None:
    """What is wrong with one refusal explains advice on others like it, known mistakes among them."""

    def refused(verdict: Verdict, code: str, path: str = "/deposit") -> Verdict:
        shown = replace(exchange(answer=b'{"type":"ERROR","code":"%s"}' % code.encode()), path=path)
        return replace(verdict, exchanges=(shown,), notes=(replace(verdict.notes[0], exchange=0),))

    code, advised_code = codes.split()
    failure = refused(failed("A03", LOST, symptom=symptom), code)
    advised = refused(failed("A10", ADVICE, KnownCause.OTHER_CODES), advised_code, path)
    found = [cause.ids for cause in causes_of([failure, advised], {})]
    assert found == ([("A03", "A10")] if is_its else [("A03",), ("A10",)])


def test_what_is_blind_first_stands_for_what_follows() -> None:
    """An account that one call has spoilt is read by all later ones: the first in time shows how it came to be so."""

    def blind(scenario_id: str, *at_millis: int) -> Verdict:
        verdict = failed(scenario_id, BROKEN, NO_REPLY)
        if not at_millis:
            return verdict
        exchanges = tuple(replace(exchange(), at_millis=millis) for millis in at_millis)
        notes = tuple(replace(note, exchange=len(exchanges) - 1) for note in verdict.notes)
        return replace(verdict, exchanges=exchanges, notes=notes)

    # What a scenario heard at the run's beginning is not what it is blind by.
    (cause,) = causes_of([blind("D05", 2_000), blind("E01"), blind("F03", 1_000), blind("H06", 500, 3_000)], {})
    assert cause.ids == ("F03", "D05", "H06", "E01")


@pytest.mark.parametrize(
    ("before", "ids"),
    [
        pytest.param(exchange(), [("B01", "D06")], id="a repeat"),
        pytest.param(exchange(body=b"{}"), [("B01",), ("D06",)], id="another call"),
        pytest.param(exchange(status=0, answer=b""), [("B01",), ("D06",)], id="no reply before"),
    ],
)
def test_a_repeat_that_fails_is_refused(before: Exchange, ids: list[tuple[str, ...]]) -> None:
    """Where repeats are refused, an answer that is missing belongs to the same mistake only if its call is a repeat."""
    crashed = failed("D06", BROKEN, KnownCause.CRASH)
    notes = tuple(replace(note, exchange=1) for note in crashed.notes)
    crashed = replace(crashed, notes=notes, exchanges=(before, exchange(status=500, answer=b"<h1>500</h1>")))
    refused = replace(failed("B01", BROKEN, KnownCause.REPEAT_REFUSED), exchanges=(exchange(),))
    causes = causes_of([refused, crashed], {})
    assert [cause.ids for cause in causes] == ids


def test_what_was_found_stands_before_the_time_that_was_used_up() -> None:
    """A wallet may be slow because of what is wrong."""
    late = [failed(f"C{number:02}", BROKEN, KnownCause.OUT_OF_TIME) for number in range(1, 9)]
    assert [cause.ids[0] for cause in causes_of([*late, failed("D05", BROKEN)], {})] == ["D05", "C01"]
