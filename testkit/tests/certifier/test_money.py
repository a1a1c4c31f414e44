"""The scenarios of money: right wallets pass to the cent, wrong ones are told which cent, limits are no mistake."""

from typing import Any

import pytest
from wallet_by_hand import Account, Case, PlainWallet

from game_operator.profile import Profile
from game_operator_testkit.certifier import Outcome, Report, Supplies, Weight
from testkit.tests.certifier.findings import ids_of
from testkit.tests.certifier.harness import certified, hold_told
from testkit.tests.certifier.ours import certified_ours
from testkit.tests.certifier.wrong_wallets import money
from tests.support.ledgers import InMemory

pytestmark = pytest.mark.slow

LOST, BROKEN, ADVICE = Weight.MONEY_LOST, Weight.CONTRACT_BROKEN, Weight.ADVICE


def outcomes(report: Report) -> dict[str, str]:
    """Return how each scenario ended."""
    return {each.id: each.outcome.value for each in report.verdicts}


def reasons(report: Report) -> dict[str, str]:
    return {each.id: each.reason for each in report.verdicts if each.outcome is not Outcome.PASSED}


def test_the_wallet_by_hand_passes() -> None:
    """Nothing is found, nothing skipped, and both players have what they had (spec §2.1)."""
    report = certified(only=["G"])
    assert reasons(report) == {}
    assert {each.id for each in report.verdicts} == ids_of("G")
    assert report.calls < 500
    assert [moved.difference_cents for moved in report.moved] == [0, 0]


@pytest.mark.parametrize("settings", [{"claim_types": ()}, {"codes": "core", "duplicate_reply": "verbatim"}])
def test_a_right_wallet_passes_under_its_profile(settings: dict[str, Any]) -> None:
    """Without jackpots a large balance is won; with few codes and repeats word for word nothing is found either."""
    report = certified_ours(InMemory(), Profile(**settings), only=["G"])
    assert reasons(report) == {}


@pytest.mark.parametrize(
    ("wrong", "scenario", "weight", "told"),
    [
        pytest.param(money.CountsInFloats, "G01", LOST, "0.01 too little", id="G01"),
        pytest.param(money.CutsAmounts, "G02", LOST, "after a withdraw of 1.15, player-1 has 998.86", id="G02"),
        pytest.param(money.TellsSevenDigits, "G03", BROKEN, "returned a balance of 1234567936.00", id="G03, told"),
        pytest.param(money.KeepsThirtyTwoBits, "G03", LOST, "refused with SYSTEM_ERROR instead of SUCCESS", id="G03"),
        pytest.param(money.ReadsThirtyTwoBits, "G03", LOST, "INVALID_REQUEST instead of BET_NOT", id="G03, read"),
        pytest.param(money.ClampsAmounts, "G03", LOST, "too little", id="G03, a credit"),
        pytest.param(
            money.WinsFitThirtyTwoBits,
            "G03",
            LOST,
            "a win of 91000000.00: refused with SYSTEM_ERROR instead of SUCCESS",
            id="G03, a win",
        ),
        pytest.param(money.CreditsThirtyTwoBits, "G03", LOST, "moved the balance by", id="G03, a win that is cut"),
        pytest.param(
            money.RemembersThirtyTwoBits,
            "G03",
            BROKEN,
            "a win of 91000000.00, again: returned DUPLICATE_TRANSACTION",
            id="G03, a win again",
        ),
        pytest.param(money.CachesFiftyCalls, "G04", BROKEN, "the first time it returned SUCCESS", id="G04"),
        pytest.param(
            money.BooksInFloats,
            "G05",
            LOST,
            "the operator's own books have 998.86, and the wallet returned 998.85",
            id="G05",
        ),
        pytest.param(money.CountsInFloats, "G03", LOST, "player-1 has 999.99", id="G03, a cent"),
    ],
)
def test_a_wrong_wallet_is_told_what_it_does(
    wrong: type[PlainWallet], scenario: str, weight: Weight, told: str
) -> None:
    """What is told wrongly breaks the contract, what is kept wrongly loses money; the reason names both balances."""
    hold_told(wrong, scenario, weight, told)


class WritesNoise(PlainWallet):
    """As a float is printed: 1234567890.1199999."""

    def _render_balance(self, cents: int) -> str:
        return super()._render_balance(cents) if cents < 10**9 else f"{cents / 100:.7f}"


def test_a_large_balance_that_has_noise_is_no_reply() -> None:
    """What does not read back exactly breaks the contract (spec §2.1)."""
    report = certified(WritesNoise, only=["G03"])
    (verdict,) = report.verdicts
    assert (verdict.outcome, verdict.weight) == (Outcome.FAILED, BROKEN)
    assert "1234567890.1199999 is finer than a cent" in verdict.reason
    assert [moved.difference_cents for moved in report.moved] == [0, 0]


class LimitsWagers(PlainWallet):
    """A house rule: no bet above 50.00."""

    refused = "LIMIT_EXCEEDED"

    def _refusal(self, case: Case) -> str | None:
        return self.refused if case.call.cents > 5_000 else super()._refusal(case)


class LimitsWagersWithFewCodes(LimitsWagers):
    """The same, as a wallet with five codes says it."""

    refused = "INVALID_REQUEST"


class LimitsCredits(PlainWallet):
    """A house rule: no win above 10,000,000.00."""

    def _claim(self, case: Case) -> str:
        return "LIMIT_EXCEEDED" if case.call.cents > 10**9 else super()._claim(case)


class LimitsWagersAsInvalid(LimitsWagers):
    """The same in another word that is as final: advice, for each win is paid."""

    refused = "INVALID_REQUEST"

    def _refusal(self, case: Case) -> str | None:
        return self.refused if case.call.cents > 10**9 else PlainWallet._refusal(self, case)


def test_a_limit_in_another_word() -> None:
    """That a large win is read, although a large wager is not, is tried without money."""
    report = certified(LimitsWagersAsInvalid, only=["G03"])
    assert (report.passed, outcomes(report)) == (True, {"G03": "skipped"})
    assert "so much could not be taken back" in reasons(report)["G03"]


@pytest.mark.parametrize(
    ("wallet", "profile", "skipped"),
    [
        pytest.param(LimitsWagers, Profile(), {"G01", "G03"}, id="of wagers"),
        pytest.param(LimitsWagersWithFewCodes, Profile(codes="core"), {"G01", "G03"}, id="of wagers, with few codes"),
        pytest.param(LimitsCredits, Profile(), {"G03"}, id="of wins"),
        pytest.param(PlainWallet, Profile(), set(), id="none"),
    ],
)
def test_limits_of_the_wallets_own(wallet: type[PlainWallet], profile: Profile, skipped: set[str]) -> None:
    """What a limit does not let through is not tried, and no player is left with what cannot be taken back."""
    report = certified(wallet, only=["G01", "G02", "G03", "G05"], profile=profile)
    assert {scenario for scenario, outcome in outcomes(report).items() if outcome == "skipped"} == skipped
    assert report.passed
    assert not report.advice
    assert [moved.difference_cents for moved in report.moved] == [0, 0]


def bodies(run_id: str) -> list[bytes]:
    """Return what random play sends first, without the id of the run."""
    report = certified(only=["G04"], run_id=run_id)
    assert reasons(report) == {}
    return [each.request_body.replace(run_id.encode(), b"run") for each in report.verdicts[0].exchanges[:40]]


def test_random_play_can_be_repeated() -> None:
    """The same run plays the same operations, and another run others."""
    assert bodies("run-1") == bodies("run-1")
    assert bodies("run-1") != bodies("run-2")


def test_random_play_is_as_long_as_was_asked() -> None:
    """Both balances are asked for after each fifty operations, and so at the end."""
    short, long = (certified(only=["G04"], supplies=Supplies(random_operations=count)) for count in (50, 100))
    assert (reasons(short), reasons(long)) == ({}, {})
    assert len(long.verdicts[0].exchanges) - len(short.verdicts[0].exchanges) == 52


def test_no_random_operations_are_no_verdict() -> None:
    """Nothing was tried, so nothing has passed."""
    (verdict,) = certified(only=["G04"], supplies=Supplies(random_operations=0)).verdicts
    assert (verdict.outcome, verdict.reason) == (Outcome.SKIPPED, "no random operations were asked for")


class SaysOtherWords(PlainWallet):
    """Sound, but with a code of its own for want of money."""

    def _render(self, reply: Any) -> str:  # Any: the wallet's own reply.
        return super()._render(reply).replace("INSUFFICIENT_BALANCE", "NO_MONEY")


def test_codes_do_not_end_random_play() -> None:
    """Which code refuses is for other scenarios to say: the play goes on, and passes."""
    report = certified(SaysOtherWords, only=["G04"], operations=300)
    assert reasons(report) == {}
    assert report.calls > 300


def test_books_that_cannot_be_read() -> None:
    """A way to read them that fails is told, and nothing is said of the wallet."""
    report = certified(only=["G05"], supplies=Supplies(stored_cents={}.__getitem__))
    assert outcomes(report) == {"G05": "skipped"}
    assert "stored_cents could not be asked: KeyError" in report.skipped[0].reason


class SaysItInItsOwnWords(PlainWallet):
    """Refuses a withdraw of more than there is with a code of its own."""

    code = "INSUFFICIENT_FUNDS"

    def _refusal(self, case: Case) -> str | None:
        outcome = super()._refusal(case)
        return self.code if outcome == "INSUFFICIENT_BALANCE" else outcome


def test_a_code_of_its_own_for_want_of_money_is_no_limit() -> None:
    """All there is was accepted, and a cent more was not: so the scenarios that bet high are tried too."""
    report = certified(SaysItInItsOwnWords, only=["A06", "D01", "D10", "G03"])
    assert report.passed
    assert [each.id for each in report.skipped] == []
    assert {each.id for each in report.advice} == {"A06", "D01", "D10"}


class AnswersTheOldBalance(PlainWallet):
    """Answers a deposit with the balance of before it."""

    def _told_cents(self, case: Case, account: Account) -> int:
        is_new_win = case.call.operation == "deposit" and not case.is_repeat
        return account.cents - (int(case.call.cents or 0) if is_new_win else 0)


def test_an_old_balance_is_not_another_players() -> None:
    """Although both players may have as much."""
    report = certified(AnswersTheOldBalance, only=["A02", "A08", "B02"])
    assert [cause.title for cause in report.causes] == ["returns another balance than the account has"]
