"""Right wallets pass each group of scenarios: the wallet by hand in few calls, and ours under many a profile."""

from typing import Any

import pytest

from game_operator.profile import Profile
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
