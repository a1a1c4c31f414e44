"""The catalogue: fetched, compared, kept, held, and read without waiting (spec §2.5 to §2.7, §4.2)."""

import threading
from collections.abc import Iterable
from typing import Any

import pytest

from game_operator import (
    ApiError,
    ConfigurationError,
    DepositCall,
    MovingCall,
    RollbackCall,
    ServiceError,
    UnexpectedResponseError,
    WithdrawCall,
)
from game_operator.backoffice.catalogue import CatalogueChange
from tests.support.catalogues import ListedGames, games_of, named
from tests.support.times import wait_until


def kinds(changes: Iterable[CatalogueChange]) -> list[tuple[str, str]]:
    """Return the kind and the game of each change."""
    return [(str(change.kind), change.game_id) for change in changes]


def test_the_first_list_is_nothing_to_compare_with(service: ListedGames) -> None:
    """It is there, game for game as the client reads it, and reports no change."""
    catalogue = service.catalogue()
    assert catalogue.refresh() == []
    assert catalogue.games == games_of(*service.games)
    assert catalogue.instances == {f"i{number}" for number in range(10)}
    assert catalogue.fetched_at_millis is not None
    assert catalogue.changes == ()


def test_changes_are_returned_and_kept(service: ListedGames) -> None:
    """By a refresh, and in ``changes`` with the latest first."""
    catalogue = service.catalogue()
    catalogue.refresh()
    service.games[0]["status"] = "MAINTENANCE"
    service.games[1]["instances"][0]["active"] = False
    first = catalogue.refresh()
    assert kinds(first) == [("game_changed", "g0"), ("instance_changed", "g1")]
    service.games.append(named("new", "i-new"))
    (added,) = catalogue.refresh()
    assert kinds([added]) == [("game_added", "new")]
    assert added.at_millis == catalogue.fetched_at_millis
    assert catalogue.changes == (added, *first[::-1])
    assert catalogue.refresh() == []


def test_the_changes_that_are_kept_are_bounded(service: ListedGames) -> None:
    """The last thousand: a service may change without end."""
    catalogue = service.catalogue()
    catalogue.refresh()
    for status in ("ACTIVE", "INACTIVE") * 55:
        for each in service.games:
            each["status"] = status
        catalogue.refresh()
    assert len(catalogue.changes) == 1_000
    assert {change.after.status for change in catalogue.changes[:10]} == {"INACTIVE"}


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        pytest.param(500, ServiceError, id="an error"),
        pytest.param(b"<html>", UnexpectedResponseError, id="no JSON"),
        pytest.param([named("a", "i"), named("a", "j")], ApiError, id="a game twice"),
        pytest.param([named("a", "i", "i")], ApiError, id="an instance twice in a game"),
        pytest.param([named("a", "i"), named("b", "i")], ApiError, id="an instance in two games"),
        pytest.param([], ApiError, id="no games"),
        pytest.param([named("g0"), named("g1")], ApiError, id="no instances"),
    ],
)
def test_a_refresh_that_fails_changes_nothing(service: ListedGames, answer: Any, error: type[Exception]) -> None:
    """It raises, the error stays to be looked at until a refresh succeeds, and the last good list stays."""
    catalogue = service.catalogue()
    catalogue.refresh()
    good, service.games = service.games, answer
    before = catalogue.games, catalogue.instances, catalogue.fetched_at_millis
    with pytest.raises(error) as raised:
        catalogue.refresh()
    assert catalogue.error is raised.value
    assert (catalogue.games, catalogue.instances, catalogue.fetched_at_millis) == before
    assert catalogue.changes == ()
    service.games = good
    assert catalogue.refresh() == []
    assert catalogue.error is None


def test_an_instance_that_is_gone_is_still_known(service: ListedGames) -> None:
    """As it was last seen, but switched off; with the currency that its late calls are in; and back as it comes."""
    catalogue = service.catalogue()
    catalogue.refresh()
    whole = service.games
    service.games = [named("g0", "i0", currency="JPY"), *whole[2:]]
    assert kinds(catalogue.refresh()) == [("game_gone", "g1"), ("instance_changed", "g0")]
    (before,) = games_of(named("g1", "i1"))
    assert catalogue.instance("i1") == before.instances[0].model_copy(update={"active": False})
    assert (len(catalogue.games), len(catalogue.instances)) == (9, 10)
    assert catalogue.instance("i2") == games_of(whole[2])[0].instances[0]
    service.games = whole
    catalogue.refresh()
    assert catalogue.instance("i1") == before.instances[0]
    service.games = whole[:1]
    assert len(catalogue.refresh()) == 9, "a list that lacks nearly all is applied, too"
    assert len(catalogue.instances) == 10


@pytest.mark.parametrize(
    ("call", "currency"),
    [
        (WithdrawCall(player_id="p", bet_id="b", amount_cents=1, instance_id="i0"), "EUR"),
        (DepositCall(player_id="p", bet_id="b", amount_cents=1, instance_id="i1"), "JPY"),
        (RollbackCall(player_id="p", bet_id="b", instance_id="i9"), "EUR"),
        (WithdrawCall(player_id="p", bet_id="b", amount_cents=1, instance_id="other"), None),
        (WithdrawCall(player_id="p", bet_id="b", amount_cents=1), None),
    ],
)
def test_the_currency_of_a_call(service: ListedGames, call: MovingCall, currency: str | None) -> None:
    """Of the instance that it names, gone (i9) or not; asking never causes a fetch."""
    service.games[1] = named("g1", "i1", currency="JPY")
    catalogue = service.catalogue()
    catalogue.refresh()
    service.games.pop()
    catalogue.refresh()
    assert catalogue.currency_of(call) == currency
    assert service.fetches == 2


def test_following_refreshes_in_a_thread_until_the_block_ends(service: ListedGames) -> None:
    """Changes are kept; afterwards no thread is left. A wrong pause is an error at once."""
    catalogue = service.catalogue()
    catalogue.refresh()
    service.games = [*service.games, named("new", "n1")]
    before = threading.active_count()
    with catalogue.following(0.01):
        wait_until(lambda: catalogue.changes)
        assert kinds(catalogue.changes) == [("game_added", "new")]
    assert threading.active_count() == before
    with pytest.raises(ConfigurationError, match="every_seconds"), catalogue.following(-1):
        pass


def test_following_goes_on_when_the_service_fails(service: ListedGames) -> None:
    """The error is there to be looked at, and what comes later is applied."""
    catalogue, good = service.catalogue(), service.games
    service.games = 500
    with catalogue.following(0.01):
        wait_until(lambda: catalogue.error)
        assert "500" in str(catalogue.error)
        service.games = good
        wait_until(lambda: catalogue.games)
    assert (len(catalogue.games), catalogue.error) == (10, None)
