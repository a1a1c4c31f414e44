"""The catalogue: fetched, compared, kept, held, and read without waiting (spec §2.5 to §2.7, §4.2)."""

import threading
import time
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

import pytest

from game_operator import (
    ApiError,
    AsyncOperatorClient,
    ConfigurationError,
    DepositCall,
    MovingCall,
    NoAnswerError,
    RollbackCall,
    ServiceError,
    UnexpectedResponseError,
    WithdrawCall,
)
from game_operator.backoffice import Catalogue
from game_operator.backoffice.catalogue import CatalogueChange
from tests.support.catalogues import ListedGames, games_of, named
from tests.support.wire import JsonObject, game


def kinds(changes: Iterable[CatalogueChange]) -> list[tuple[str, str]]:
    """Return the kind and the game of each change."""
    return [(str(change.kind), change.game_id) for change in changes]


def listed(service: ListedGames) -> list[JsonObject]:
    """Return the games that *service* lists, to change them."""
    assert isinstance(service.games, list)
    return service.games


def numbered(numbers: Iterable[int]) -> list[JsonObject]:
    return [named(f"g{number}", f"i{number}") for number in numbers]


def test_before_the_first_fetch_it_knows_nothing(service: ListedGames) -> None:
    """To make one asks nothing."""
    catalogue = service.catalogue()
    assert (catalogue.games, catalogue.instances, catalogue.changes, list(catalogue)) == ((), frozenset(), (), [])
    assert (catalogue.held, catalogue.error, catalogue.fetched_at_millis, service.fetches) == (None, None, None, 0)
    assert catalogue.instance("i0") is None


def test_the_first_list_is_nothing_to_compare_with(service: ListedGames) -> None:
    """It is there, game for game as the client reads it, and reports no change."""
    catalogue = service.catalogue()
    assert catalogue.refresh() == []
    assert catalogue.games == tuple(catalogue) == games_of(*listed(service))
    assert catalogue.instances == {f"i{number}" for number in range(10)}
    assert catalogue.fetched_at_millis is not None
    assert catalogue.changes == ()


def test_changes_are_returned_and_kept(service: ListedGames) -> None:
    """By a refresh, and in ``changes`` with the latest first."""
    catalogue = service.catalogue()
    catalogue.refresh()
    listed(service)[0]["status"] = "MAINTENANCE"
    listed(service)[1]["instances"][0]["active"] = False
    first = catalogue.refresh()
    assert kinds(first) == [("game_status_changed", "g0"), ("instance_switched", "g1")]
    listed(service).append(named("new", "i-new"))
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
        for each in listed(service):
            each["status"] = status
        catalogue.refresh()
    assert len(catalogue.changes) == 1_000
    assert {change.after for change in catalogue.changes[:10]} == {"INACTIVE"}


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        pytest.param(500, ServiceError, id="an error"),
        pytest.param(None, NoAnswerError, id="no answer"),
        pytest.param(b"<html>", UnexpectedResponseError, id="no JSON"),
        pytest.param(b'{"games": null}', UnexpectedResponseError, id="no list"),
        pytest.param([game(rtp="96")], UnexpectedResponseError, id="an RTP as text"),
        pytest.param([named("a", "i"), named("a", "j")], ApiError, id="a game twice"),
        pytest.param([named("a", "i"), named("a", "i")], ApiError, id="the very same game twice"),
        pytest.param([named("a", "i", "i")], ApiError, id="an instance twice in a game"),
        pytest.param([named("a", "i"), named("b", "i")], ApiError, id="an instance in two games"),
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
    assert (catalogue.held, catalogue.changes) == (None, ())
    service.games = good
    assert catalogue.refresh() == []
    assert catalogue.error is None


def test_an_id_that_stands_twice_is_named(service: ListedGames) -> None:
    """With what to do: nobody can say which of the two counts."""
    service.games = [named("a", "i\n1"), named("b", "i\n1")]
    with pytest.raises(ApiError, match=r"two entries for the instance i\\n1'.*Report it to the provider"):
        service.catalogue().refresh()


@pytest.mark.parametrize(
    ("left", "share", "reason"),
    [
        pytest.param(numbered(range(7)), "0.30", "", id="three of ten are thirty percent"),
        pytest.param(numbered(range(6)), "0.30", "4 of 10 games would be gone", id="four of ten are more"),
        pytest.param(
            [*numbered(range(6)), *numbered(range(20, 40))], "0.30", "4 of 10 games", id="others do not count"
        ),
        pytest.param(
            [named(f"g{n}", f"j{n}" if n < 4 else f"i{n}") for n in range(10)],
            "0.30",
            "4 of 10 instances would be gone",
            id="instances of games that stay",
        ),
        pytest.param(numbered(range(9)), "0", "1 of 10 games", id="none may go"),
        pytest.param(numbered(range(1)), "1", "", id="all but one may go"),
        pytest.param([], "0.30", "no instance at all", id="an empty list"),
        pytest.param([], "0.99", "no instance at all", id="an empty list, where nearly all may go"),
        pytest.param([named("g0")], "0.99", "no instance at all", id="no instances"),
        pytest.param([], "1", "", id="an empty list, where all may go"),
    ],
)
def test_a_list_in_which_too_much_would_be_gone_waits_for_a_person(
    service: ListedGames, left: list[JsonObject], share: str, reason: str
) -> None:
    """Of the games or of the instances, compared exactly; nothing of it counts until it is accepted."""
    catalogue = service.catalogue(most_gone=Decimal(share))
    catalogue.refresh()
    service.games = left
    changes = catalogue.refresh()
    if not reason:
        assert (catalogue.held, catalogue.games) == (None, games_of(*left))
        assert changes
        return
    assert (changes, catalogue.changes, catalogue.error) == ([], (), None)
    assert len(catalogue.games) == 10
    assert catalogue.held is not None
    assert reason in catalogue.held.reason
    assert catalogue.held.changes


def test_a_held_list_is_applied_by_a_person(service: ListedGames) -> None:
    """Who allows what would be gone, this time; the instances that are gone stay accepted."""
    catalogue = service.catalogue()
    catalogue.refresh()
    service.games = numbered(range(5))
    catalogue.refresh()
    held = catalogue.held
    assert held is not None
    assert kinds(held.changes) == [("game_gone", f"g{number}") for number in range(5, 10)]
    assert catalogue.refresh(most_gone=Decimal("0.49")) == []
    changes = catalogue.refresh(most_gone=Decimal("0.5"))
    assert kinds(changes) == kinds(held.changes)
    assert changes == list(catalogue.changes[::-1])
    assert (catalogue.held, len(catalogue.games), len(catalogue.instances)) == (None, 5, 10)
    assert catalogue.refresh() == []
    service.games = numbered(range(2))
    catalogue.refresh()
    assert catalogue.held is not None, "what was allowed once is not allowed for good"
    with pytest.raises(ConfigurationError, match="most_gone"):
        catalogue.refresh(most_gone=Decimal(2))


def test_a_good_list_takes_the_place_of_a_held_one(service: ListedGames) -> None:
    """The service was wrong for a while, and nobody had to do anything."""
    catalogue = service.catalogue()
    catalogue.refresh()
    good, service.games = service.games, []
    catalogue.refresh()
    assert catalogue.held is not None
    service.games = good
    assert catalogue.refresh() == []
    assert catalogue.held is None


@pytest.mark.parametrize("answer", [[], [named("g0")]], ids=["no games", "no instances"])
def test_an_empty_first_list_is_held(service: ListedGames, answer: list[JsonObject]) -> None:
    """On its word every call would be refused for good; accepted, it counts."""
    service.games = answer
    catalogue = service.catalogue()
    assert catalogue.refresh() == []
    assert catalogue.held is not None
    assert (catalogue.games, catalogue.fetched_at_millis) == ((), None)
    catalogue.refresh(most_gone=Decimal(1))
    assert catalogue.games == games_of(*answer)
    assert catalogue.refresh() == []
    assert catalogue.held is None


def test_an_instance_that_is_gone_is_still_known(service: ListedGames) -> None:
    """As it was last seen, but switched off; with the currency that its late calls are in; and back as it comes."""
    catalogue = service.catalogue()
    catalogue.refresh()
    whole = listed(service)
    service.games = [named("g0", "i0", currency="JPY"), *whole[2:]]
    assert kinds(catalogue.refresh()) == [("game_gone", "g1"), ("limits_changed", "g0")]
    (before,) = games_of(named("g1", "i1"))
    assert catalogue.instance("i1") == before.instances[0].model_copy(update={"active": False})
    assert "i1" in catalogue.instances
    assert catalogue.instance("i2") == games_of(whole[2])[0].instances[0]
    service.games = whole
    catalogue.refresh()
    assert catalogue.instance("i1") == before.instances[0]


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
    listed(service)[1] = named("g1", "i1", currency="JPY")
    catalogue = service.catalogue()
    catalogue.refresh()
    listed(service).pop()
    catalogue.refresh()
    assert catalogue.currency_of(call) == currency
    assert service.fetches == 2


def test_watching_goes_on_when_the_service_fails(service: ListedGames) -> None:
    """Each look yields what it found; a failed one nothing, with the error to look at; *stop* ends it."""
    catalogue, stop, good = service.catalogue(), threading.Event(), listed(service)
    seen: list[tuple[list[tuple[str, str]], bool]] = []
    answers: list[Any] = [500, [*good, named("new", "n1")], good]
    for changes in catalogue.watch(0.0, stop=stop):
        seen.append((kinds(changes), catalogue.error is not None))
        if not answers:
            stop.set()
        else:
            service.games = answers.pop(0)
    assert seen == [([], False), ([], True), ([("game_added", "new")], False), ([("game_gone", "new")], False)]


def test_following_refreshes_in_a_thread_until_the_block_ends(service: ListedGames) -> None:
    """Changes are kept; afterwards no thread is left. A wrong pause is an error at once."""
    catalogue, good = service.catalogue(), listed(service)
    catalogue.refresh()
    service.games = [*good, named("new", "n1")]
    before, until = threading.active_count(), time.monotonic() + 10
    with catalogue.following(0.01):
        while not catalogue.changes and time.monotonic() < until:
            time.sleep(0.01)
        assert kinds(catalogue.changes) == [("game_added", "new")]
    assert threading.active_count() == before
    with pytest.raises(ConfigurationError, match="every_seconds"), catalogue.following(-1):
        pass


@pytest.mark.parametrize(
    ("options", "error", "told"),
    [
        ({"most_gone": Decimal("1.01")}, ConfigurationError, "share from 0 to 1"),
        ({"most_gone": Decimal("-0.01")}, ConfigurationError, "share from 0 to 1"),
        ({"most_gone": Decimal("NaN")}, ConfigurationError, "share from 0 to 1"),
        ({"most_gone": 0.3}, TypeError, "Decimal"),
        ({"min_refresh_seconds": -1}, ConfigurationError, "min_refresh_seconds"),
        ({"wait_seconds": float("inf")}, ConfigurationError, "wait_seconds"),
        ({"store": 5}, TypeError, "a SqlLedger, not int"),
        ({"store": "sqlite:///wallet.db"}, TypeError, "a SqlLedger, not str"),
    ],
)
def test_arguments_that_cannot_work(
    service: ListedGames, options: dict[str, Any], error: type[Exception], told: str
) -> None:
    """Each is refused at once, with what to pass."""
    with pytest.raises(error, match=told):
        service.catalogue(**options)


def test_a_client_that_is_awaited_is_refused(private_key: Any) -> None:
    """A catalogue asks in threads, beside asyncio too; anything else is refused, too."""
    client: Any = AsyncOperatorClient("https://api.example.com", "acme", private_key)
    with pytest.raises(TypeError, match="pass an OperatorClient"):
        Catalogue(client)
    with pytest.raises(TypeError, match="not object"):
        Catalogue(object())  # type: ignore[arg-type]  # That is the point.
