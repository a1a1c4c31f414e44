"""fetch-games, from the operator's viewpoint (spec §2.5, §2.6, §2.7, §4.2)."""

from decimal import Decimal

import pytest

from game_operator import GameInfo, GameStatus, OperatorClient
from game_operator_testkit.sandbox import Sandbox
from testkit.tests.sandbox.support import outcome
from tests.support.signed_http import SignedHttp

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
