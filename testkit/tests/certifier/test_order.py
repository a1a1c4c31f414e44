"""The scenarios of order and state: right wallets pass, wrong ones are told what they do, none causes a stumble."""

from typing import Any, Final

import pytest
from wallet_by_hand import Case, PlainWallet, Reply

from game_operator.profile import Profile
from game_operator_testkit.certifier import Weight
from testkit.tests.certifier.harness import certified, found, only
from testkit.tests.certifier.wrong_wallets import order

LOST, ADVICE = Weight.MONEY_LOST, Weight.ADVICE


class SaysYesToEmptyRollbacks(PlainWallet):
    """Sound, but not as assumed: a rollback of what was never debited is a SUCCESS that moves nothing."""

    def _rollback(self, case: Case) -> str:
        outcome = super()._rollback(case)
        nothing = case.bet is None or case.bet.state in ("TOMBSTONE", "DECLINED")
        return "SUCCESS" if nothing and outcome == "BET_NOT_FOUND" else outcome


class KnowsOneWordForOver(PlainWallet):
    """Sound, but not as assumed: a bet that was refunded is told like one that was paid."""

    def _render(self, reply: Reply) -> str:
        return super()._render(reply).replace("BET_ROLLED_BACK", "BET_ALREADY_CLOSED")


class RefusesStrangersLater(PlainWallet):
    """A failure for ever: whoever the wallet does not know is told that the wallet is out of order."""

    def _ask_player(self, case: Case) -> str | None:
        outcome = super()._ask_player(case)
        return None if outcome is None else "SYSTEM_ERROR"


#: The scenarios in which a rollback has nothing to give back.
_EMPTY: Final = {"C01", "C02", "C06", "C11", "C12"}


@pytest.mark.parametrize(
    ("wallet", "settings", "advised"),
    [
        pytest.param(SaysYesToEmptyRollbacks, {}, _EMPTY, id="SUCCESS, and an error is assumed"),
        pytest.param(SaysYesToEmptyRollbacks, {"unknown_rollback": "success"}, set(), id="SUCCESS, as assumed"),
        pytest.param(PlainWallet, {"unknown_rollback": "success"}, _EMPTY, id="error, SUCCESS is assumed"),
        pytest.param(KnowsOneWordForOver, {}, {"C02", "C04", "C12", "C14", "C15"}, id="other codes of the same kind"),
        pytest.param(RefusesStrangersLater, {}, {"C14"}, id="sent again for nothing"),
    ],
)
def test_sound_wallets_may_differ(wallet: type[PlainWallet], settings: dict[str, Any], advised: set[str]) -> None:
    """Where no money moves wrongly, another answer is advice (docs/decisions/0018)."""
    report = certified(wallet, only=["C"], profile=Profile(**settings))
    assert report.passed
    assert found(report).keys() == advised
    assert {each.weight for each in report.verdicts if each.id in advised} <= {ADVICE}


class GivesUpEarlyDeposits(PlainWallet):
    """Refuses an early deposit with a code after which nobody sends it again."""

    def _deposit(self, case: Case) -> str:
        return "INVALID_REQUEST" if case.bet is None else super()._deposit(case)


@pytest.mark.parametrize(
    ("wallet", "profile"),
    [
        pytest.param(GivesUpEarlyDeposits, Profile(), id="a final code"),
        pytest.param(
            PlainWallet, Profile(early_deposit_code="SYSTEM_ERROR"), id="a code that this service gives up at"
        ),
    ],
)
def test_an_early_deposit_must_be_sent_again(wallet: type[PlainWallet], profile: Profile) -> None:
    """A final refusal loses the win, though the wallet would pay if the deposit came again (docs/decisions/0013)."""
    verdict = only(certified(wallet, only=["C05"], profile=profile))
    assert verdict.weight is LOST
    assert "takes this for final and never sends it again" in verdict.reason


def test_a_tx_id_that_was_sent_for_another_player_is_no_collision() -> None:
    """The wallet keeps the tx_id of a deposit that it refused, and no key of its is too short."""
    (cause,) = certified(order.RemembersRefusedDeposits, only=["C10"]).causes
    assert cause.mistake is None
    assert "neither the refusal nor its tx_id" in cause.fix
