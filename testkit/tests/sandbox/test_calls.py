"""The four calls, from the operator's viewpoint (spec §2.2 to §2.8, §4.2, §7.2, §7.3, §8)."""

from decimal import Decimal

import pytest

from game_operator import (
    ClosedBet,
    FreeBetRejectedError,
    GameInfo,
    GameStatus,
    GrantAccepted,
    GrantErrorCode,
    OpenBet,
    OperatorClient,
    RolledBackBet,
    RoundFound,
)
from game_operator_testkit.sandbox import Sandbox
from testkit.tests.sandbox.support import DAY_MILLIS, outcome, terms
from tests.support.signed_http import SignedHttp
from tests.support.times import StoppedClock
from tests.support.wire import bet
from tests.test_codes import MESSAGES

pytestmark = pytest.mark.outside


@pytest.fixture(scope="module")
def games(client: OperatorClient) -> list[GameInfo]:
    """The catalogue as a client reads it."""
    return client.fetch_games()


def test_all_games_of_the_operator_are_listed(client: OperatorClient, sandbox: Sandbox) -> None:
    """What the client reads is what the service has: every game, every instance, in order (spec §4.2)."""
    assert client.fetch_games() == list(sandbox.world.games())


def test_fields_are_those_of_the_specification(http: SignedHttp) -> None:
    """Game, instance and betting limits carry their fields and no others (spec §2.5, §2.6, §2.7, §4.2)."""
    status, body = outcome(http.fetch_games())
    assert (status, list(body)) == (200, ["games"])
    for game in body["games"]:
        assert list(game) == [
            "id",
            "name",
            "status",
            "thumbnail_url",
            "provider_name",
            "rtp",
            "genre",
            "instances",
        ]
        for instance in game["instances"]:
            assert list(instance) == ["id", "name", "active", "bet_config"]
            assert list(instance["bet_config"]) == ["min_wager", "max_wager", "default_wager", "currency", "max_win"]


def test_every_status_is_there(games: list[GameInfo]) -> None:
    """A game is ACTIVE, INACTIVE, MAINTENANCE or COMING_SOON (spec §2.5, §3)."""
    assert {game.status for game in games} == set(GameStatus)


@pytest.mark.parametrize("field", ["thumbnail_url", "rtp"])
def test_nullable_fields_are_seen_both_ways(games: list[GameInfo], field: str) -> None:
    """thumbnail_url and rtp may be null, and are there otherwise (spec §2.5)."""
    assert {getattr(game, field) is None for game in games} == {True, False}


def test_limits_are_exact_in_their_currency(games: list[GameInfo]) -> None:
    """Amounts are decimal currency units and arrive digit for digit, 18 digits included (spec §2.7)."""
    limits = [instance.bet_config for game in games for instance in game.instances]
    assert {limit.currency for limit in limits} >= {"EUR", "USD", "BRL", "JPY"}
    assert {limit.min_wager for limit in limits} >= {Decimal("0.1"), Decimal("0.025"), Decimal(10)}
    assert Decimal("1234567890123456.78") in {limit.max_win for limit in limits}


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
    own_sandbox.world.add_bet(OpenBet(**bet("OPEN", reference_id="ageing", timestamp=clock())))
    clock.now_millis += age_millis
    assert own_http.fetch_bet("ageing").json()["status"] == status


ODD_IDS = ["a/b", "50%", "..%2f", "日本", "a b", "a?b", "a#b", "a+b", "%2F", "a\nb", "a;b=c", "...", "é", "a\x00b"]


@pytest.mark.parametrize("bet_id", ODD_IDS)
def test_an_id_arrives_as_one_segment(client: OperatorClient, sandbox: Sandbox, bet_id: str) -> None:
    """bet_id is one path parameter, whatever characters it has, and the signature over it verifies (spec §4.2, §5)."""
    placed = OpenBet(**bet("OPEN", reference_id=bet_id, timestamp=1_900_000_000_000))
    sandbox.world.add_bet(placed)
    assert client.fetch_bet(bet_id) == placed


def test_all_bets_of_a_round_come_in_their_states(client: OperatorClient, sandbox: Sandbox) -> None:
    """The field bets has every bet of the round, with the structure of its state (spec §2.4, §2.8)."""
    found = client.fetch_round_bets(instance_id=sandbox.instance_id, round_id=sandbox.round_id)
    assert isinstance(found, RoundFound)
    assert {type(each) for each in found.bets} == {OpenBet, ClosedBet, RolledBackBet}
    assert {each.reference_id for each in found.bets} >= {
        sandbox.bet_ids[state] for state in ("OPEN", "LOST", "CLOSED")
    }
    assert all(each == client.fetch_bet(each.reference_id) for each in found.bets[:4])
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


def test_free_bets_are_granted(client: OperatorClient, sandbox: Sandbox) -> None:
    """The answer says so and names the grant, which the service then has, as asked (spec §2.2, §2.3, §4.2)."""
    asked = terms(sandbox.instance_id)
    granted = client.grant_free_bet(**asked)
    assert isinstance(granted, GrantAccepted)
    (kept,) = [grant for grant in sandbox.world.grants() if grant.request.reference_id == asked["reference_id"]]
    assert (kept.request.model_dump(), kept.free_bet_id) == (asked, granted.free_bet_id)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        pytest.param({"instance_id": "no instance id"}, "INVALID_INSTANCE_ID", id="another format"),
        pytest.param({"instance_id": "0" * 24}, "INSTANCE_NOT_FOUND", id="an unknown instance"),
        pytest.param({}, "DUPLICATE_REFERENCE_ID", id="a reference id used before"),
    ],
)
def test_the_client_tells_what_only_the_service_knows(
    client: OperatorClient, http: SignedHttp, sandbox: Sandbox, change: dict[str, str], code: str
) -> None:
    """Such a grant is sent, and refused in the service's words (spec §2.3, §7.2)."""
    asked = terms(sandbox.instance_id)
    assert http.grant(asked).status_code == 200
    with pytest.raises(FreeBetRejectedError) as rejected:
        client.grant_free_bet(**(asked | change))
    error = rejected.value
    assert (error.error_code, error.message, error.attempts) == (GrantErrorCode(code), MESSAGES[code], 1)
    assert (error.status_code, error.reference_id) == (400, asked["reference_id"])
