"""fetch-bet, from the operator's viewpoint (spec §2.4, §4.2, §8)."""

import pytest

from game_operator import ClosedBet, OpenBet, OperatorClient
from game_operator_testkit.sandbox import Sandbox
from testkit.tests.sandbox.support import DAY_MILLIS
from tests.support.signed_http import SignedHttp
from tests.support.times import StoppedClock

pytestmark = pytest.mark.outside


def open_bet(bet_id: str, *, at_millis: int) -> OpenBet:
    """Return a bet to put into a world."""
    return OpenBet(
        reference_id=bet_id,
        player_id="player-1",
        round_id="round-1",
        instance_id="0" * 24,
        game="comet-crash",
        wager=1250,
        timestamp=at_millis,
    )


def test_a_win_and_a_loss_are_both_closed(client: OperatorClient, sandbox: Sandbox) -> None:
    """The field won is the payout in cents, and 0 for a loss, which is a settled bet all the same (spec §2.4, §3)."""
    won, lost = client.fetch_bet(sandbox.bet_ids["CLOSED"]), client.fetch_bet(sandbox.bet_ids["LOST"])
    assert isinstance(won, ClosedBet)
    assert isinstance(lost, ClosedBet)
    assert (won.won > 0, lost.won) == (True, 0)


@pytest.mark.parametrize(
    ("age_millis", "status"),
    [
        pytest.param(0, "OPEN", id="just placed"),
        pytest.param(90 * DAY_MILLIS, "OPEN", id="90 days to the millisecond"),
        pytest.param(90 * DAY_MILLIS + 1, "NOT_FOUND", id="a millisecond older"),
    ],
)
def test_a_bet_is_kept_for_90_days(
    own_sandbox: Sandbox, own_http: SignedHttp, clock: StoppedClock, age_millis: int, status: str
) -> None:
    """Bets older than 90 days are removed and yield NOT_FOUND (spec §4.2, §8)."""
    own_sandbox.world.add_bet(open_bet("ageing", at_millis=clock()))
    clock.now_millis += age_millis
    assert own_http.fetch_bet("ageing").json()["status"] == status


ODD_IDS = ["a/b", "50%", "..%2f", "日本", "a b", "a?b", "a#b", "a+b", "%2F", "a\nb", "a;b=c", "...", "é", "a\x00b"]


@pytest.mark.parametrize("bet_id", ODD_IDS)
def test_an_id_arrives_as_one_segment(client: OperatorClient, sandbox: Sandbox, bet_id: str) -> None:
    """bet_id is one path parameter, whatever characters it has, and the signature over it verifies (spec §4.2, §5)."""
    bet = open_bet(bet_id, at_millis=1_900_000_000_000)
    sandbox.world.add_bet(bet)
    assert client.fetch_bet(bet_id) == bet
