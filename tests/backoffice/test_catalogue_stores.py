"""Where a catalogue keeps what it has seen: over a restart, in several processes, and when the place is damaged."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from hypothesis import given, strategies
from pydantic import TypeAdapter

from game_operator import ConfigurationError, GameInfo, LedgerError, OperatorClient
from game_operator.backoffice import Catalogue
from game_operator.backoffice.catalogue.state import CatalogueState, decode_state
from game_operator.backoffice.journal import Journal
from game_operator.ledger import SqlLedger
from game_operator.models.wire import decode
from tests.support.catalogues import BASE_URL, OPERATOR, ListedGames, named
from tests.support.crowds import worker_context
from tests.support.wire import JSON_VALUES, PLAIN_NUMBER_TEXT, bet_config, game, game_instance, hole, wire

SERVICE = f"{BASE_URL}|{OPERATOR}"
NAME = f"catalogue:{SERVICE}"


#: Makes a store, another one at the same place each time.
Stores = Callable[[], Any]


@pytest.fixture
def stores(database_url: str) -> Iterator[Stores]:
    """Stores at one place, each as another process would have it."""
    with ExitStack() as opened:
        yield lambda: opened.enter_context(SqlLedger(database_url))


def put(store: SqlLedger, content: bytes) -> None:
    """Store *content* in place of the catalogue."""
    assert Journal(store).keep_document(NAME, content, before=Journal(store).document(NAME))


def test_a_restart_goes_on_where_it_was(service: ListedGames, stores: Stores) -> None:
    """Games and gone instances are there at once, and what changed meanwhile is reported."""
    catalogue = service.catalogue(stores())
    catalogue.refresh()
    service.games.pop()
    catalogue.refresh()
    whole = service.games
    again = service.catalogue(stores())
    assert (again.games, again.instances) == (catalogue.games, catalogue.instances)
    assert again.fetched_at_millis == catalogue.fetched_at_millis
    assert again.instance("i9") == catalogue.instance("i9") is not None
    assert service.fetches == 2
    service.games = [*whole, named("new", "n1")]
    assert [change.game_id for change in again.refresh()] == ["new"]


def test_a_list_without_a_change_is_not_stored_again(service: ListedGames, own: SqlLedger) -> None:
    """Each of many workers fetches it several times a minute. The time is known all the same."""
    catalogue = service.catalogue(own)
    catalogue.refresh()
    before, first = Journal(own).document(NAME), catalogue.fetched_at_millis or 0
    time.sleep(0.002)
    assert catalogue.refresh() == []
    assert Journal(own).document(NAME) == before
    assert (catalogue.fetched_at_millis or 0) > first > 0
    service.games.pop()
    catalogue.refresh()
    assert Journal(own).document(NAME) != before


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"\xff\xfe", id="not UTF-8"),
        pytest.param(b'{"service": "x", "format": 2}', id="a later format"),
        pytest.param(
            json.dumps({"service": SERVICE, "games": [named("a", "i"), named("b", "i")], "at_millis": 1}).encode(),
            id="an instance twice",
        ),
    ],
)
def test_a_damaged_document_is_an_error(service: ListedGames, own: SqlLedger, content: bytes) -> None:
    """It is never taken as empty: what was once seen would be forgotten. A running catalogue goes on as it is."""
    running = service.catalogue(own)
    running.refresh()
    put(own, content)
    for attempt in (lambda: service.catalogue(own), running.refresh):
        with pytest.raises(ConfigurationError, match=r"The catalogue of https.*cannot be read.*Restore it"):
            attempt()
    assert Journal(own).document(NAME) == content
    assert len(running.games) == 10
    assert isinstance(running.error, ConfigurationError)


def test_the_document_of_another_service_is_refused(service: ListedGames, own: SqlLedger) -> None:
    """Its instances are not ours."""
    put(own, CatalogueState(service="https://other.example|acme").model_dump_json().encode())
    with pytest.raises(ConfigurationError, match=r"is of 'https://other\.example\|acme', not of"):
        service.catalogue(own)


def test_two_catalogues_share_a_store(service: ListedGames, stores: Stores, private_key: RSAPrivateKey) -> None:
    """Each reports a change once; what one has seen, the other accepts."""
    other = ListedGames(private_key, *service.games)
    one, two = service.catalogue(stores()), other.catalogue(stores())
    one.refresh()
    service.games.append(named("new", "n1"))
    assert len(one.refresh()) == 1
    other.games = service.games
    assert two.refresh() == []  # It had no list before.
    assert "n1" in two.instances
    other.games = service.games[1:]
    assert [change.kind for change in two.refresh()] == ["game_gone"]
    assert (len(one.instances), len(two.instances)) == (11, 11)


def _refresh_often(place: str, number: int, pem: bytes, start: Any) -> None:
    service = ListedGames(pem)
    with SqlLedger(place) as store:
        catalogue = service.catalogue(store)
        start.wait(30)
        for each in range(20):
            service.games = [named("all", "shared"), named(f"p{number}", f"i{number}-{each}")]
            catalogue.refresh()


@pytest.mark.outside
@pytest.mark.parametrize("count", [2, pytest.param(4, marks=pytest.mark.torture)])
@pytest.mark.drawn(1)
def test_processes_share_a_store_and_lose_nothing(
    service: ListedGames, database_url: str, private_pem: bytes, count: int
) -> None:
    """Processes, each with twenty lists: every instance that any has seen is known at the end."""
    context = worker_context()
    start = context.Barrier(count)
    numbers = range(count)
    workers = [
        context.Process(target=_refresh_often, args=(database_url, number, private_pem, start)) for number in numbers
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(120)
    assert [worker.exitcode for worker in workers] == [0] * count
    with SqlLedger(database_url) as store:
        seen = service.catalogue(store).instances
    assert seen == {"shared", *(f"i{number}-{each}" for number in numbers for each in range(20))}


def test_services_share_a_ledger(service: ListedGames, own: SqlLedger, private_key: RSAPrivateKey) -> None:
    """Each has a separate document: an operator may be connected to several."""
    service.catalogue(own).refresh()
    with OperatorClient("https://other.example", OPERATOR, private_key) as client:
        assert Catalogue(client, own).instances == frozenset()
    assert len(service.catalogue(own).instances) == 10


def test_a_database_that_is_down_keeps_the_games(service: ListedGames, own: SqlLedger) -> None:
    """What is read is in memory."""
    catalogue = service.catalogue(own)
    catalogue.refresh()
    own.close()
    with pytest.raises(LedgerError):
        catalogue.refresh()
    assert len(catalogue.games) == 10
    assert isinstance(catalogue.error, LedgerError)


def test_documents_are_replaced_only_as_they_were_read(database_url: str) -> None:
    """So that of two programs at once one begins again."""
    with SqlLedger(database_url) as ledger:
        assert Journal(ledger).document("it") is None
        assert not Journal(ledger).keep_document("it", b"1", before=b"0")
        assert Journal(ledger).keep_document("it", b"\x00\xff", before=None)
        assert not Journal(ledger).keep_document("it", b"2", before=None)
        assert not Journal(ledger).keep_document("it", b"2", before=b"1")
        assert Journal(ledger).keep_document("it", b"", before=b"\x00\xff")
        assert (Journal(ledger).document("it"), Journal(ledger).document("It")) == (b"", None)


def test_a_number_beyond_all_bounds_is_kept() -> None:
    """JSON has no infinity, but a service may write 1e999 into a field that we do not know."""
    body = wire([game(x=hole(), instances=[game_instance(y=hole())])], "1e999")
    games = decode(TypeAdapter(tuple[GameInfo, ...]), body)
    state = CatalogueState(service="s").after(games, 1)
    assert decode_state(state.model_dump_json().encode(), service="s") == state


@given(
    strategies.lists(PLAIN_NUMBER_TEXT, min_size=5, max_size=5),
    strategies.dictionaries(strategies.sampled_from(["x", "tags"]), JSON_VALUES),
)
def test_the_document_keeps_every_digit_and_every_unknown_field(amounts: list[str], unknown: dict[str, Any]) -> None:
    """What comes back is equal, so a restart reports no change that is none."""
    limits = bet_config(**{name: hole() + str(at) for at, name in enumerate(("min_wager", "max_wager", "max_win"))})
    body = wire([game(rtp=hole(), instances=[game_instance(bet_config=limits)], **unknown)], amounts[4]).decode()
    for at, amount in enumerate(amounts[:3]):
        body = body.replace(f'"{hole()}{at}"', amount)
    games = decode(TypeAdapter(tuple[GameInfo, ...]), body.encode())
    state = CatalogueState(service="s").after(games, 1)
    assert decode_state(state.model_dump_json().encode(), service="s") == state
