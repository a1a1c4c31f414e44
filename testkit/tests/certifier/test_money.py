"""The scenarios of money: right wallets pass to the cent, wrong ones are told which cent, limits are no mistake."""

import pytest
from wallet_by_hand import Case, PlainWallet

from game_operator.profile import Profile
from game_operator_testkit.certifier import Outcome, Supplies, Weight
from testkit.tests.certifier.harness import certified, found, only, skipped
from testkit.tests.certifier.test_sound_wallets import LimitsWagers
from testkit.tests.certifier.wrong_wallets import money

pytestmark = pytest.mark.slow


def test_a_large_balance_is_not_a_cent_off() -> None:
    """Each balance on the way is looked at (spec §2.1)."""
    verdict = only(certified(money.CountsInFloats, only=["G03"]))
    assert (verdict.outcome, verdict.weight) == (Outcome.FAILED, Weight.MONEY_LOST)
    assert "player-1 has 999.99" in verdict.reason


class Limits(LimitsWagers):
    """A house rule: no bet above 50.00."""

    most = 5_000


class LimitsCredits(PlainWallet):
    """A house rule: no win above 10,000,000.00."""

    def _claim(self, case: Case) -> str:
        return "LIMIT_EXCEEDED" if case.call.cents > 10**9 else super()._claim(case)


class LimitsWagersAsInvalid(LimitsWagers):
    """The same in another word that is as final: advice, for each win is paid."""

    most, word = 10**9, "INVALID_REQUEST"


def test_a_limit_in_another_word() -> None:
    """That a large win is read, although a large wager is not, is tried without money."""
    report = certified(LimitsWagersAsInvalid, only=["G03"])
    assert report.passed
    assert "so much could not be taken back" in skipped(report)["G03"]


@pytest.mark.parametrize(
    ("wallet", "not_tried"),
    [
        pytest.param(Limits, {"G01", "G03"}, id="of wagers"),
        pytest.param(LimitsCredits, {"G03"}, id="of wins"),
        pytest.param(PlainWallet, set(), id="none"),
    ],
)
def test_limits_of_the_wallets_own(wallet: type[PlainWallet], not_tried: set[str]) -> None:
    """What a limit does not let through is not tried, and no player is left with what cannot be taken back."""
    report = certified(wallet, only=["G01", "G02", "G03", "G05"], profile=Profile())
    assert skipped(report).keys() == not_tried
    assert found(report) == {}
    assert [moved.difference_cents for moved in report.moved] == [0, 0]


def bodies(run_id: str) -> list[bytes]:
    """Return what random play sends first, without the id of the run."""
    report = certified(only=["G04"], run_id=run_id)
    assert report.verdicts[0].outcome is Outcome.PASSED
    return [each.request_body.replace(run_id.encode(), b"run") for each in report.verdicts[0].exchanges[:40]]


def test_random_play_can_be_repeated() -> None:
    """The same run plays the same operations, and another run others."""
    assert bodies("run-1") == bodies("run-1")
    assert bodies("run-1") != bodies("run-2")


def test_random_play_is_as_long_as_was_asked() -> None:
    """Both balances are asked for after each fifty operations, and so at the end."""
    short, long = (certified(only=["G04"], supplies=Supplies(random_operations=count)) for count in (50, 100))
    assert {each.outcome for report in (short, long) for each in report.verdicts} == {Outcome.PASSED}
    assert len(long.verdicts[0].exchanges) - len(short.verdicts[0].exchanges) == 52


def test_no_random_operations_are_no_verdict() -> None:
    """Nothing was tried, so nothing has passed."""
    report = certified(only=["G04"], supplies=Supplies(random_operations=0))
    assert skipped(report) == {"G04": "no random operations were asked for"}


def test_books_that_cannot_be_read() -> None:
    """A way to read them that fails is told, and nothing is said of the wallet."""
    report = certified(only=["G05"], supplies=Supplies(stored_cents={}.__getitem__))
    assert "stored_cents could not be asked: KeyError" in skipped(report)["G05"]


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
    assert skipped(report) == {}
    assert {each.id for each in report.advice} == {"A06", "D01", "D10"}
