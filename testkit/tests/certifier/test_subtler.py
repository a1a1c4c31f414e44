"""Mistakes that only a part of a scenario shows: each is caught by that scenario, for what it costs."""

import pytest
from wallet_by_hand import PlainWallet

from game_operator_testkit.certifier import Weight
from game_operator_testkit.certifier.report.verdicts import KnownCause
from testkit.tests.certifier.findings import only
from testkit.tests.certifier.first_causes import hold_first_cause
from testkit.tests.certifier.harness import certified
from testkit.tests.certifier.wrong_wallets import subtler
from testkit.tests.certifier.wrong_wallets.overlooked import SharesTheAnswerOfEachCall

LOST, DOUBLED = Weight.MONEY_LOST, Weight.MONEY_DOUBLED


@pytest.mark.parametrize(
    ("wrong", "scenario", "weight", "told"),
    [
        pytest.param(
            subtler.RefundsTheLastWager, "A05", LOST, "the second bet's rollback, ", id="the last wager is refunded"
        ),
        pytest.param(subtler.PaysTheLastWinForALoss, "A08", LOST, "after the other's loss, ", id="a win for a loss"),
        pytest.param(
            subtler.BlockedWinNoJackpot, "A09", LOST, "a jackpot of a blocked player: ", id="a blocked player's jackpot"
        ),
        pytest.param(
            subtler.BatchesLeaveBetsOpen, "A11", LOST, "that a batch has settled: ", id="a batch leaves bets open"
        ),
        pytest.param(subtler.DebitsWhatIsSettled, "B01", DOUBLED, "once its bet is settled", id="debited once settled"),
        pytest.param(
            subtler.EntombsTheTxIdAlone, "C02", LOST, "under another tx_id: ", id="a cancelled bet under another tx_id"
        ),
        pytest.param(subtler.RefundsTheRefused, "C02", LOST, "the same rollback again: ", id="what was refused"),
        pytest.param(subtler.PaysDeclined, "C06", DOUBLED, "refused withdraw's bet: ", id="a declined bet is paid"),
        pytest.param(
            subtler.RefundsTheLesser, "C07", LOST, "a rollback of a single cent, ", id="the lesser amount is refunded"
        ),
        pytest.param(
            subtler.PaysAnotherOnceClosed,
            "C10",
            LOST,
            "once the bet is paid: ",
            id="another player is paid once it is closed",
        ),
        pytest.param(subtler.DebitsWhatItRefuses, "C14", LOST, "-newcomer", id="a refused withdraw is debited"),
        pytest.param(subtler.RefundsTwins, "D02", DOUBLED, "identical rollbacks at once", id="twins of rollbacks"),
        pytest.param(subtler.PaysTwinsOfJackpots, "D02", DOUBLED, "identical jackpots at once", id="twins of jackpots"),
        pytest.param(subtler.GivesWayToBoth, "D04", LOST, "neither was accepted", id="both give way"),
        pytest.param(subtler.PaysRivals, "D09", DOUBLED, "one of another tx_id, ", id="rivals under two tx_ids"),
    ],
)
def test_a_close_look_shows_it(wrong: type[PlainWallet], scenario: str, weight: Weight, told: str) -> None:
    """And the reason names that part. The right wallet passes the same, as ``test_wrong_wallets`` shows."""
    report = certified(wrong, only=[scenario])
    hold_first_cause(wrong.__name__, report)
    verdict = only(report)
    assert (verdict.failed, verdict.weight) == (True, weight), verdict
    assert told in verdict.reason


def test_one_answer_to_a_deposit_and_a_rollback_at_once() -> None:
    """One was carried out, as the balance shows, and its caller got the other's refusal."""
    verdict = only(certified(SharesTheAnswerOfEachCall, only=["D04"]))
    assert verdict.notes[0].cause == KnownCause.SAME_REPLY
    assert "neither was accepted" in verdict.reason
