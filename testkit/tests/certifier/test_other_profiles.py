"""A wallet that is right under another profile than is assumed: one line says which field of the profile differs."""

from typing import Any

import pytest

from game_operator.profile import Profile
from game_operator_testkit.certifier import Report
from testkit.tests.certifier.ours import certified_ours
from tests.support.ledgers import InMemory

pytestmark = pytest.mark.slow

#: Hundreds of calls each, which no profile changes.
_LONG = ("D01", "D05", "D09", "G01", "G04")


def certified(of_wallet: dict[str, Any], assumed: dict[str, Any]) -> Report:  # Any: fields of a profile.
    wallets, others = (Profile(**{"deposit_batch": True} | settings) for settings in (of_wallet, assumed))
    return certified_ours(InMemory(), wallets, assumed=others, skip=_LONG)


@pytest.mark.parametrize(
    ("field", "value", "is_harmless"),
    [
        pytest.param("unknown_rollback", "success", (True, True), id="a rollback of nothing succeeds"),
        pytest.param("codes", "core", (True, True), id="core codes"),
        pytest.param("unauthenticated_status", 401, (False, True), id="forgeries are answered 401"),
        pytest.param("early_deposit_code", "SYSTEM_ERROR", (True, False), id="an early deposit is a failure"),
    ],
)
def test_a_difference_is_one_line_that_names_its_field(field: str, value: Any, is_harmless: tuple[bool, bool]) -> None:
    """Whether the wallet or the certifier has the unusual value, nothing else is found (docs/decisions/0010)."""
    reports = certified({field: value}, {}), certified({}, {field: value})
    for report, passes in zip(reports, is_harmless, strict=True):
        (cause,) = report.causes
        assert cause.title.startswith(f"the profile's {field}")
        assert field in cause.fix
        assert report.passed is passes


@pytest.mark.parametrize(
    ("field", "names", "told"),
    [
        pytest.param("bet_id", ("reference_id",), "with reference_id in place of action_id", id="the bet's id"),
        pytest.param("amount_cents.withdraw", ("wager",), "with wager in place of amount", id="the amount"),
    ],
)
def test_another_name_of_a_field_is_found(field: str, names: tuple[str, ...], told: str) -> None:
    """Each accepted name is tried once; nothing else is judged then, and few calls are sent."""
    report = certified({"fields": {field: names}}, {})
    first = report.causes[0]
    assert told in first.verdict.reason
    assert first.title == "the wallet reads another field name than the profile has"
    assert {each.id for each in report.failures} == set(first.ids)
    assert report.calls < 100
    assert [each.difference_cents for each in report.moved] == [0, 0]
