"""The scenarios of order and state: right wallets pass, wrong ones are told what they do, none causes a stumble."""

from typing import Any, Final

import pytest
from wallet_by_hand import Call, Case, PlainWallet, Reply

from game_operator.profile import Profile
from game_operator_testkit.certifier import Outcome, Report, Supplies, Verdict, Weight
from testkit.tests.certifier.findings import ids_of
from testkit.tests.certifier.harness import certified, hold_told
from testkit.tests.certifier.ours import certified_ours
from testkit.tests.certifier.wrong_wallets import order, overlooked
from tests.support.ledgers import InMemory

DOUBLED, LOST, BROKEN, ADVICE = Weight.MONEY_DOUBLED, Weight.MONEY_LOST, Weight.CONTRACT_BROKEN, Weight.ADVICE


def found(report: Report) -> dict[str, str]:
    """Return why each scenario failed, advice too."""
    return {each.id: each.reason for each in report.verdicts if each.outcome is Outcome.FAILED}


def skipped(report: Report) -> dict[str, str]:
    return {each.id: each.reason for each in report.skipped}


def only(report: Report) -> Verdict:
    """Return the one verdict that there is."""
    (verdict,) = report.verdicts
    return verdict


def test_the_wallet_by_hand_passes() -> None:
    """Nothing is found, nothing skipped, and few calls are needed (spec §3, §6)."""
    report = certified(only=["C"])
    assert (found(report), skipped(report)) == ({}, {})
    assert {each.id for each in report.verdicts} == ids_of("C")
    assert report.calls < 150


@pytest.mark.parametrize(
    ("settings", "not_tried"),
    [
        pytest.param({"spent_actions": ()}, {"C12"}, id="every bet is settled"),
        pytest.param({"withdraw_actions": ("BET", "TIP"), "spent_actions": ("TIP",)}, set(), id="another spent action"),
        pytest.param({"fields": {"amount_cents.rollback": ()}}, {"C07"}, id="rollbacks without an amount"),
        pytest.param(
            {"rollback_tx_id": "own", "unknown_rollback": "success"}, {"C11"}, id="rollbacks name no withdraw"
        ),
    ],
)
def test_a_right_wallet_passes_under_its_profile(settings: dict[str, Any], not_tried: set[str]) -> None:
    """What the profile leaves no room for is skipped, and says so; all else passes without advice."""
    report = certified_ours(InMemory(), Profile(**settings), only=["C"])
    assert found(report) == {}
    assert skipped(report).keys() == not_tried
    assert all("profile" in reason for reason in skipped(report).values())


@pytest.mark.parametrize(
    ("wrong", "scenario", "weight", "told"),
    [
        pytest.param(order.RefundsTheUnseen, "C01", DOUBLED, "the balance moved by +5.00", id="C01"),
        pytest.param(
            order.ForgetsEarlyRollbacks, "C02", LOST, "the withdraw that arrives after its rollback", id="C02"
        ),
        pytest.param(
            overlooked.RefusesALateWithdrawOnce,
            "C02",
            LOST,
            "same late withdraw again: returned SUCCESS",
            id="C02, once",
        ),
        pytest.param(
            order.RefundsTheSettled, "C03", DOUBLED, "a rollback after the deposit: returned SUCCESS", id="C03"
        ),
        pytest.param(order.PaysTheRefunded, "C04", DOUBLED, "a deposit after the rollback: returned SUCCESS", id="C04"),
        pytest.param(order.RemembersEarlyDeposits, "C05", LOST, "10.00 too little", id="C05, refused for ever"),
        pytest.param(order.PaysTheUnseen, "C05", LOST, "the balance moved by +10.00", id="C05, paid at once"),
        pytest.param(order.RefundsTheDeclined, "C06", DOUBLED, "the balance moved by +1000.01", id="C06"),
        pytest.param(order.RefundsTheRequestedAmount, "C07", LOST, "a rollback of twice the wager, player-1", id="C07"),
        pytest.param(order.RefundsWhoeverAsks, "C08", LOST, "player-2 has 1005.00", id="C08, to the wrong player"),
        pytest.param(order.LetsAnybodyCancel, "C08", LOST, "player-1 has 1000.00", id="C08, to the right player"),
        pytest.param(
            order.PlacesTheRefundedAgain, "C09", DOUBLED, "the second withdraw in the order", id="C09, debited"
        ),
        pytest.param(order.RefundsTheSettled, "C09", DOUBLED, "both paid and refunded", id="C09, resolved twice"),
        pytest.param(order.PaysTheUnseen, "C09", DOUBLED, "nothing was wagered", id="C09, paid for nothing"),
        pytest.param(order.PaysWhoeverIsNamed, "C10", LOST, "player-2 has 1010.00", id="C10"),
        pytest.param(order.RefundsForAnyWithdraw, "C11", LOST, "a rollback of another withdraw", id="C11"),
        pytest.param(order.SettlesTheSpent, "C12", LOST, "a deposit for the RAIN: returned SUCCESS", id="C12, settled"),
        pytest.param(
            order.KnowsBetsAlone, "C12", LOST, "the action RAIN: refused with INVALID_REQUEST", id="C12, refused"
        ),
        pytest.param(
            order.ForgetsRefusalsToTheBlocked, "C13", LOST, "the first time it returned PLAYER_BLOCKED", id="C13"
        ),
        pytest.param(order.KeepsNoTombstoneOfStrangers, "C14", LOST, "after the account is opened", id="C14"),
    ],
)
def test_a_wrong_wallet_is_told_what_it_does(
    wrong: type[PlainWallet], scenario: str, weight: Weight, told: str
) -> None:
    """The verdict weighs what is at risk, and its reason names the call and the money."""
    hold_told(wrong, scenario, weight, told)


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


def test_the_player_is_unblocked_whatever_was_found() -> None:
    """A scenario that fails leaves a player that can bet."""
    report = certified(order.ForgetsRefusalsToTheBlocked, only=["C13", "G02"])
    assert found(report).keys() == {"C13"}


def test_what_is_not_supplied_is_skipped() -> None:
    """Without a way to block players and to open accounts, and with the ways told."""
    report = certified(only=["C13", "C14"], supplies=Supplies())
    assert skipped(report) == {"C13": "needs block and unblock (--hook)", "C14": "needs open_account (--hook)"}


class SaysYesToAll(PlainWallet):
    """Moves nothing, and says that it did."""

    def _carry_out(self, call: Call) -> Reply:
        return Reply("SUCCESS", 100_000, self.clock_millis())


class SaysNoToAll(PlainWallet):
    """Knows the balance, and refuses all else without telling it."""

    def _carry_out(self, call: Call) -> Reply:
        return super()._carry_out(call) if call.operation == "player-balance" else Reply("NO")


class SaysNothing(PlainWallet):
    """Knows the balance, and answers all else with something that is no reply."""

    def _render(self, reply: Reply) -> str:
        return super()._render(reply) if reply.at_millis is not None else '{"type":"SUCCESS","balance":null}'

    def _carry_out(self, call: Call) -> Reply:
        return super()._carry_out(call) if call.operation == "player-balance" else Reply("SUCCESS")


@pytest.mark.parametrize("wallet", [SaysYesToAll, SaysNoToAll, SaysNothing])
def test_no_answer_makes_a_scenario_stumble(wallet: type[PlainWallet]) -> None:
    """Whatever is answered, there is a verdict about the wallet and none about the certifier."""
    report = certified(wallet, only=["C", "G"])
    assert not report.passed
    assert {each.id: each.reason for each in report.verdicts if "stumbled" in each.reason} == {}
    assert len(found(report)) > 10
