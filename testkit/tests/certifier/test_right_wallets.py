"""Right wallets pass each group of scenarios; under another profile than is assumed, one line names the field."""

from typing import Any

import pytest

from game_operator.profile import Profile
from game_operator_testkit.certifier import Report
from testkit.tests.certifier.harness import certified, found, ids_of, skipped
from testkit.tests.certifier.ours import certified_ours
from tests.support.ledgers import InMemory

_NO_TYPES: dict[str, tuple[str, ...]] = {"action.deposit": (), "amount_cents.deposit": ("won",), "won_cents": ()}
_NESTED: dict[str, tuple[str, ...]] = {
    "player_id": ("who.id",),
    "bet_id": ("bet.reference",),
    "tx_id": (),
    "amount_cents": ("money.cents",),
    "amount_cents.withdraw": ("money.cents",),
    "amount_cents.deposit": ("money.cents",),
    "amount_cents.rollback": (),
    "wager_cents": (),
}
#: What needs a network.
_UNTRIED = {"E": {"E10"}, "F": {"F10"}}


@pytest.mark.parametrize(
    ("group", "most_calls"),
    [("A", 145), ("B", 270), ("C", 150), ("D", 4_000), ("E", 140), ("F", 330), ("G", 500), ("H", 130)],
)
def test_the_wallet_by_hand_passes(group: str, most_calls: int) -> None:
    """Nothing is found, only what needs a network is skipped, and few calls are needed (spec §3 to §6)."""
    report = certified(only=[group])
    assert (found(report), set(skipped(report))) == ({}, _UNTRIED.get(group, set()))
    assert {each.id for each in report.verdicts} == ids_of(group)
    assert report.calls < most_calls
    assert [each.difference_cents for each in report.moved] == [0, 0]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("groups", "settings", "not_tried"),
    [
        pytest.param("AB", {"deposit_batch": False}, {"A11"}, id="no batches"),
        pytest.param("ABEF", {"claim_types": ()}, {"A10", "B16"}, id="no claims"),
        pytest.param("A", {"claim_types": ("BONUS",)}, set(), id="another claim"),
        pytest.param("AB", {"early_deposit_code": "SYSTEM_ERROR"}, set(), id="an early deposit is a failure"),
        pytest.param("AB", {"fields": {"tx_id": ()}}, {"B10", "B12", "B13", "B17"}, id="calls without tx_ids"),
        pytest.param("BEF", {"duplicate_reply": "verbatim"}, set(), id="repeats word for word"),
        pytest.param("C", {"spent_actions": ()}, {"C12"}, id="every bet is settled"),
        pytest.param("C", {"withdraw_actions": ("BET", "TIP"), "spent_actions": ("TIP",)}, set(), id="another action"),
        pytest.param("C", {"fields": {"amount_cents.rollback": ()}}, {"C07"}, id="rollbacks without an amount"),
        pytest.param(
            "ABCEF",
            {"codes": "core", "rollback_tx_id": "own", "unknown_rollback": "success"},
            {"B05", "C11"},
            id="core codes, and rollbacks name no withdraw",
        ),
        pytest.param("E", {"unauthenticated_status": 401}, set(), id="forgeries are answered 401"),
        pytest.param("E", {"rollback_may_equal_withdraw": True}, set(), id="a rollback may be its withdraw"),
        pytest.param("E", {"fields": _NO_TYPES}, set(), id="deposits without a type"),
        pytest.param("E", {"signature_header": "X-Provider-Signature"}, set(), id="another header"),
        pytest.param("F", {"allow_zero_withdraw": True}, set(), id="a withdraw of 0 is a bet"),
        pytest.param("F", {"max_body_bytes": 2_000}, set(), id="short bodies"),
        pytest.param("F", {"fields": _NESTED}, set(), id="fields in other places, and some nowhere"),
    ],
)
def test_a_right_wallet_passes_under_its_profile(groups: str, settings: dict[str, Any], not_tried: set[str]) -> None:
    """What the profile leaves no room for is skipped, and says so; all else passes without advice."""
    report = certified_ours(InMemory(), Profile(**{"deposit_batch": True} | settings), only=[*groups])
    assert found(report) == {}
    of_profile = {each: reason for each, reason in skipped(report).items() if each not in ("E10", "F10")}
    assert of_profile.keys() == not_tried
    assert all("profile" in reason for reason in of_profile.values())


#: Hundreds of calls each, which no profile changes.
_LONG = ("D01", "D05", "D09", "G01", "G04")


def _assuming(of_wallet: dict[str, Any], assumed: dict[str, Any]) -> Report:  # Any: fields of a profile.
    wallets, others = (Profile(**{"deposit_batch": True} | settings) for settings in (of_wallet, assumed))
    return certified_ours(InMemory(), wallets, assumed=others, skip=_LONG)


@pytest.mark.slow
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
    reports = _assuming({field: value}, {}), _assuming({}, {field: value})
    for report, passes in zip(reports, is_harmless, strict=True):
        (cause,) = report.causes
        assert cause.title.startswith(f"the profile's {field}")
        assert field in cause.fix
        assert report.passed is passes


@pytest.mark.slow
@pytest.mark.parametrize(
    ("field", "names", "told"),
    [
        pytest.param("bet_id", ("reference_id",), "with reference_id in place of action_id", id="the bet's id"),
        pytest.param("amount_cents.withdraw", ("wager",), "with wager in place of amount", id="the amount"),
    ],
)
def test_another_name_of_a_field_is_found(field: str, names: tuple[str, ...], told: str) -> None:
    """Each accepted name is tried once; nothing else is judged then, and few calls are sent."""
    report = _assuming({"fields": {field: names}}, {})
    first = report.causes[0]
    assert told in first.verdict.reason
    assert first.title == "the wallet reads another field name than the profile has"
    assert {each.id for each in report.failures} == set(first.ids)
    assert report.calls < 100
    assert [each.difference_cents for each in report.moved] == [0, 0]
