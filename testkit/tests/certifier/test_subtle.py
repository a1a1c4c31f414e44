"""Wallets that are wrong where few look are caught: each by one part of one scenario."""

import pytest
from wallet_by_hand import PlainWallet

from game_operator_testkit.certifier import Outcome, Weight
from testkit.tests.certifier.findings import only
from testkit.tests.certifier.first_causes import hold_first_cause
from testkit.tests.certifier.harness import certified
from testkit.tests.certifier.wrong_wallets import subtle

DOUBLED, LOST, ADVICE = Weight.MONEY_DOUBLED, Weight.MONEY_LOST, Weight.ADVICE

_REPEATS = [
    pytest.param(subtle.RefundsTheNamelessEachTime, "B02", DOUBLED, "without its tx_id, player-1", id="B02, twice"),
    pytest.param(subtle.DemandsTxIdsOfRollbacks, "B05", LOST, "tx_id is missing: refused", id="B05, refused"),
    pytest.param(subtle.ClaimsKnownByPlayer, "B04", LOST, "with another player: returned", id="B04, player"),
    pytest.param(subtle.ClaimsKnownByAmount, "B04", LOST, "jackpot's tx_id with another amount", id="B04, amount"),
    pytest.param(subtle.PrunesTombstones, "B11", DOUBLED, "so long after its rollback", id="B11, tombstones"),
    pytest.param(subtle.ForgetsWhatWasSettled, "B11", DOUBLED, "a bet lost long ago", id="B11, settled"),
    pytest.param(subtle.PlacesTheClosedAnew, "B12", DOUBLED, "of a settled bet with another", id="B12, settled"),
    pytest.param(subtle.PlacesTheCancelledAnew, "B12", DOUBLED, "of the cancelled bet with", id="B12, cancelled"),
    pytest.param(subtle.PlacesTheDeclinedAnew, "B12", DOUBLED, "of the refused bet with", id="B12, refused"),
    pytest.param(subtle.DepositOfAnyBetIsARepeat, "B13", LOST, "nothing moved, although the service", id="B13"),
    pytest.param(subtle.BatchesKeepNoIds, "B15", DOUBLED, "alone, after the batch", id="B15"),
]
_CALLERS = [
    pytest.param(subtle.BelievesAnyBatch, "E01", DOUBLED, "a batch to /deposit-batch without", id="E01, first path"),
    pytest.param(subtle.BelievesTheSecondPath, "E01", DOUBLED, "a batch to /deposit/batch without", id="E01, second"),
    pytest.param(subtle.MindsNoInstanceInBatches, "E13", DOUBLED, "a batch with a claim of another", id="E13"),
]
_BODIES = [
    pytest.param(subtle.PointsAreUnits, "F03", LOST, "whose amount is 5.0, player-1 has", id="F03"),
    pytest.param(subtle.PaysWhatWasWon, "F11", LOST, "it won more than its amount", id="F11, won"),
    pytest.param(subtle.PaysTheSumOfFreeBets, "F11", LOST, "free bets that won more than", id="F11, free bets"),
]


@pytest.mark.parametrize(("kind", "scenario", "weight", "told"), [*_REPEATS, *_CALLERS, *_BODIES])
@pytest.mark.drawn(9)
def test_a_subtle_mistake_is_found(kind: type[PlainWallet], scenario: str, weight: Weight, told: str) -> None:
    """The verdict weighs what is at risk, and its reason names the call (spec §3, §5)."""
    report = certified(kind, only=[scenario])
    hold_first_cause(kind.__name__, report)
    verdict = only(report)
    assert (verdict.outcome, verdict.weight) == (Outcome.FAILED, weight)
    assert told in verdict.reason
