"""The scenarios of repeats, conflicts and order: right wallets pass, and a wrong one's fault is named."""

from typing import Any, Final

import pytest
from wallet_by_hand import Call, Case, PlainWallet, Reply

from game_operator.profile import Profile
from game_operator_testkit.certifier import Supplies, Weight
from testkit.tests.certifier.harness import certified, found, only, skipped
from testkit.tests.certifier.wrong_wallets import order, overlooked, repeats

LOST, ADVICE = Weight.MONEY_LOST, Weight.ADVICE


def test_the_key_of_a_claim_is_named_before_what_follows_from_it() -> None:
    """Claims that are known by their bet take another deposit's tx_id, too (docs/decisions/0014)."""
    (cause,) = certified(overlooked.ClaimsKnownByTheirBet, only=["B04", "B16"]).causes
    assert cause.ids == ("B16", "B04")
    assert "Know a claim, of a jackpot or of free bets, by its tx_id alone" in cause.fix


def test_balances_that_are_equal_by_chance_are_not_taken_for_another_players() -> None:
    """Both players begin with as much; whose balance an answer has is seen once the two differ."""
    report = certified(repeats.OldBalanceAsOfNow, only=["B02", "B06", "C15"])
    assert [cause.title for cause in report.causes] == ["returns another balance than the account has"]
    report = certified(overlooked.ShowsTheOwnersBalance, only=["B04"])
    assert [cause.title for cause in report.causes] == ["an answer shows another player's balance"]


class TakesWhatIsAlikeForARepeat(PlainWallet):
    """Sound: another tx_id for the same bet and amount is a SUCCESS that moves nothing."""

    def _ask_table(self, case: Case) -> str | None:
        outcome, bet = super()._ask_table(case), case.bet
        if bet is not None and outcome in ("DUPLICATE_TRANSACTION", "BET_ALREADY_CLOSED"):
            due = bet.cents if case.call.operation == "withdraw" else 2 * bet.cents
            return "SUCCESS" if case.call.cents == due else outcome
        return outcome


class FewCodes(PlainWallet):
    """Sound: has no word for a known tx_id."""

    def _render(self, reply: Reply) -> str:
        return super()._render(reply).replace("DUPLICATE_TRANSACTION", "INVALID_REQUEST")


class RepeatsWordForWord(PlainWallet):
    """Sound: answers a repeat by its first answer, whatever has become of the bet since."""

    def _carry_out(self, call: Call) -> Reply:
        answered: dict[tuple[str, ...], Reply] = self.__dict__.setdefault("_answered", {})
        content = (call.operation, str(call.tx_id or call.bet_id), call.digest)
        if content in answered:
            return answered[content]
        reply = super()._carry_out(call)
        if call.operation != "player-balance" and reply.outcome in ("SUCCESS", "INSUFFICIENT_BALANCE"):
            answered[content] = reply
        return reply


def test_repeats_word_for_word_are_advised_to_say_so_in_the_profile() -> None:
    """They pass; the profile's field is named once, and not if it says so."""
    report = certified(RepeatsWordForWord, only=["B", "C"])
    assert report.passed
    assert [(cause.verdict.id, cause.title) for cause in report.causes] == [
        ("C15", "the profile's duplicate_reply is not what the wallet does")
    ]
    profile = Profile(deposit_batch=True, duplicate_reply="verbatim")
    assert found(certified(RepeatsWordForWord, only=["B", "C"], profile=profile)) == {}


@pytest.mark.parametrize(
    ("sound", "advised"),
    [
        pytest.param(TakesWhatIsAlikeForARepeat, {"B10", "B12"}, id="SUCCESS, and nothing moves"),
        pytest.param(FewCodes, {"B04", "B12", "B13"}, id="another code of the same kind"),
    ],
)
def test_sound_wallets_may_differ(sound: type[PlainWallet], advised: set[str]) -> None:
    """Where no money moves wrongly, another answer is advice (docs/decisions/0018)."""
    report = certified(sound, only=["B"])
    assert report.passed
    assert found(report).keys() == advised
    assert {each.weight for each in report.verdicts if each.id in advised} == {ADVICE}


class SaysThatItPaidAnotherAmount(TakesWhatIsAlikeForARepeat):
    """Not sound: says that it paid what it did not."""

    def _ask_table(self, case: Case) -> str | None:
        outcome = super()._ask_table(case)
        return "SUCCESS" if outcome == "BET_ALREADY_CLOSED" and case.call.operation == "deposit" else outcome


def test_a_second_settlement_of_another_amount_is_no_repeat() -> None:
    """The service believes that it was paid (docs/decisions/0018)."""
    verdict = only(certified(SaysThatItPaidAnotherAmount, only=["B10"]))
    assert verdict.weight is LOST
    assert "another tx_id and amount: returned SUCCESS" in verdict.reason


class CannotFail(PlainWallet):
    """Works whatever is done to it."""

    def _answer(self, path: str, headers: list[tuple[str, str]], body: bytes) -> tuple[int, str]:
        self.broken = False
        return super()._answer(path, headers, body)


def test_a_wallet_that_cannot_be_made_to_fail_is_not_tried() -> None:
    """Its answers tell nothing of failures, and its balances are brought back."""
    report = certified(CannotFail, only=["B07", "B01"])
    assert skipped(report) == {"B07": "the wallet returned SUCCESS when it was made to fail"}
    assert found(report) == {}
    assert [each.difference_cents for each in report.moved] == [0, 0]


def test_what_is_not_supplied_is_skipped() -> None:
    """And the reason names what is missing."""
    report = certified(only=["B"], supplies=Supplies())
    assert skipped(report) == {
        "B07": "needs fail and recover (--hook)",
        "B08": "needs restart (--hook)",
        "B11": "needs later (--hook)",
        "B14": "needs block and unblock (--hook)",
    }
    assert found(report) == {}


class SaysYesToEmptyRollbacks(PlainWallet):
    """Sound, but not as assumed: a rollback of what was never debited is a SUCCESS that moves nothing."""

    def _rollback(self, case: Case) -> str:
        outcome = super()._rollback(case)
        nothing = case.bet is None or case.bet.state in ("TOMBSTONE", "DECLINED")
        return "SUCCESS" if nothing and outcome == "BET_NOT_FOUND" else outcome


class KnowsOneWordForOver(PlainWallet):
    """Sound, but not as assumed: a refunded bet has the same code as a paid one."""

    def _render(self, reply: Reply) -> str:
        return super()._render(reply).replace("BET_ROLLED_BACK", "BET_ALREADY_CLOSED")


class RefusesStrangersLater(PlainWallet):
    """A failure for ever: a player whom the wallet does not know is answered as if the wallet were out of order."""

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
def test_sound_wallets_may_differ_in_order(
    wallet: type[PlainWallet], settings: dict[str, Any], advised: set[str]
) -> None:
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
