"""fetch-round-bets, from the operator's viewpoint (spec §2.8, §4.2, §7.3, §8)."""

import pytest

from game_operator import ClosedBet, OpenBet, OperatorClient, RolledBackBet, RoundFound
from game_operator_testkit.sandbox import Sandbox
from testkit.tests.sandbox.support import DAY_MILLIS
from tests.support.signed_http import SignedHttp
from tests.support.times import StoppedClock

pytestmark = pytest.mark.outside


def test_all_bets_of_a_round_come_in_their_states(client: OperatorClient, sandbox: Sandbox) -> None:
    """The field bets has every bet of the round, with the structure of its state (spec §2.4, §2.8)."""
    found = client.fetch_round_bets(instance_id=sandbox.instance_id, round_id=sandbox.round_id)
    assert isinstance(found, RoundFound)
    assert {type(bet) for bet in found.bets} == {OpenBet, ClosedBet, RolledBackBet}
    assert {bet.reference_id for bet in found.bets} >= {sandbox.bet_ids[state] for state in ("OPEN", "LOST", "CLOSED")}
    assert all(bet == client.fetch_bet(bet.reference_id) for bet in found.bets[:4])
    assert len(found.bets) == 12


@pytest.mark.parametrize(
    ("age_millis", "status"),
    [
        pytest.param(90 * DAY_MILLIS, "OK", id="90 days to the millisecond"),
        pytest.param(90 * DAY_MILLIS + 1, "NOT_FOUND", id="a millisecond older"),
    ],
)
@pytest.mark.parametrize("key", [{"round_id": "ageing"}, {"round_no": 1}], ids=["by id", "by number"])
def test_a_round_is_kept_for_90_days(
    own_sandbox: Sandbox,
    own_http: SignedHttp,
    clock: StoppedClock,
    age_millis: int,
    status: str,
    key: dict[str, object],
) -> None:
    """Rounds older than 90 days yield NOT_FOUND (spec §4.2, §8)."""
    instance_id = own_sandbox.instance_id
    own_sandbox.world.add_round(
        round_id="ageing", round_no=1, instance_id=instance_id, game="comet-crash", started_at_millis=clock()
    )
    clock.now_millis += age_millis
    assert own_http.fetch_round_bets({"instance_id": instance_id} | key).json()["status"] == status
