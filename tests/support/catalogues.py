"""A service that lists the games a test gives it, and catalogues that ask it; without a socket."""

import threading
from typing import Any

import httpx
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from hypothesis import strategies
from hypothesis.strategies import SearchStrategy
from pydantic import TypeAdapter

from game_operator import GameInfo, OperatorClient
from game_operator.backoffice import Catalogue
from game_operator.ledger import SqlLedger
from tests.support.wire import JsonObject, bet_config, game, game_instance, wire

BASE_URL, OPERATOR = "https://api.example.com", "acme"


def games_of(*games: JsonObject) -> tuple[GameInfo, ...]:
    """Return games as the client reads them."""
    return TypeAdapter(tuple[GameInfo, ...]).validate_json(wire(list(games)))


def named(game_id: str, *instance_ids: str, active: bool = True, currency: str = "EUR", **changes: Any) -> JsonObject:
    """Return a game on the wire, with instances of these ids."""
    limits = bet_config(currency=currency)
    instances = [game_instance(id=each, active=active, bet_config=limits) for each in instance_ids]
    return game(**{"id": game_id, "name": game_id.title(), "instances": instances} | changes)


def _maybe(**values: Any) -> SearchStrategy[JsonObject]:
    return strategies.fixed_dictionaries({}, optional={name: strategies.just(each) for name, each in values.items()})


_LIMITS = _maybe(max_win=5, min_wager=0.25, currency="JPY", default_wager=3, tax=1).map(lambda it: bet_config(**it))
_INSTANCES = strategies.fixed_dictionaries(
    {"bet_config": _LIMITS, "active": strategies.booleans()}, optional={"name": strategies.just("Other")}
)


@strategies.composite
def listed(draw: strategies.DrawFn) -> list[JsonObject]:
    """A list of up to four games with their own instances, few enough that two lists have much in common."""
    games = []
    for game_id in draw(strategies.lists(strategies.sampled_from("abcd"), unique=True)):
        names = draw(strategies.lists(strategies.sampled_from("12"), unique=True))
        instances = [game_instance(**draw(_INSTANCES) | {"id": game_id + name}) for name in names]
        changes = draw(_maybe(status="ASLEEP", rtp=None, name="Other", genre="Slots", tags=["new"]))
        games.append(game(**changes | {"id": game_id, "instances": instances}))
    return games


class ListedGames:
    """
    The service's list of games.

    Attributes:
        games: What it answers: games, or bytes, or the status of a refusal.
        fetches: How often it was asked.
    """

    def __init__(self, private_key: RSAPrivateKey | bytes, *games: JsonObject) -> None:
        self.games: Any = list(games)  # Any: a test changes the list in place, or puts something else there.
        self.fetches = 0
        self._lock = threading.Lock()
        http_client = httpx.Client(transport=httpx.MockTransport(self._answer))
        self.client = OperatorClient(BASE_URL, OPERATOR, private_key, http_client=http_client, retries=0)

    def catalogue(self, store: "SqlLedger | None" = None) -> Catalogue:
        """Return a catalogue that asks here."""
        return Catalogue(self.client, store)

    def _answer(self, request: httpx.Request) -> httpx.Response:
        with self._lock:
            self.fetches += 1
        games = self.games
        if isinstance(games, int):
            return httpx.Response(games, json={"error": "no"})
        body = games if isinstance(games, bytes) else wire({"games": games})
        return httpx.Response(200, headers={"content-type": "application/json"}, content=body)
