"""Mistakes that only a part of a scenario shows: each is caught by that scenario, for what it costs."""

import pytest
from wallet_by_hand import PlainWallet

from game_operator.certify import Weight
from tests.certify.findings import only
from tests.certify.harness import certified
from tests.certify.wrong_wallets import subtler

LOST, DOUBLED = Weight.MONEY_LOST, Weight.MONEY_DOUBLED


@pytest.mark.parametrize(
    ("wrong", "scenario", "weight"),
    [
        pytest.param(subtler.RefundsTheLastWager, "A05", LOST, id="the last wager is refunded"),
        pytest.param(subtler.BlockedWinNoJackpot, "A09", LOST, id="a blocked player's jackpot"),
        pytest.param(subtler.BatchesLeaveBetsOpen, "A11", LOST, id="a batch leaves bets open"),
        pytest.param(subtler.EntombsTheTxIdAlone, "C02", LOST, id="a cancelled bet under another tx_id"),
        pytest.param(subtler.PaysDeclined, "C06", DOUBLED, id="a declined bet is paid"),
        pytest.param(subtler.RefundsTheLesser, "C07", LOST, id="the lesser amount is refunded"),
        pytest.param(subtler.PaysAnotherOnceClosed, "C10", LOST, id="another player is paid once it is closed"),
        pytest.param(subtler.RefundsTwins, "D02", DOUBLED, id="twins of rollbacks"),
        pytest.param(subtler.PaysTwinsOfJackpots, "D02", DOUBLED, id="twins of jackpots"),
        pytest.param(subtler.PaysRivals, "D09", DOUBLED, id="rivals under two tx_ids"),
    ],
)
def test_a_close_look_shows_it(wrong: type[PlainWallet], scenario: str, weight: Weight) -> None:
    """The right wallet passes the same scenario, as ``test_wrong_wallets`` shows."""
    verdict = only(certified(wrong, only=[scenario]))
    assert (verdict.failed, verdict.weight) == (True, weight), verdict
