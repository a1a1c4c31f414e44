"""What the tests of the sandbox share: clients of three kinds behind one face, a stopped clock, sound calls."""

import json
from functools import partial
from itertools import count
from typing import Any

import anyio
import httpx
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

from game_operator import AsyncOperatorClient, GameInfo, GrantAccepted, OperatorClient
from game_operator.protocol.operations import AnyBet, AnyRound
from game_operator_testkit.sandbox import Sandbox
from tests.support.signed_http import GRANT, ROUND, RawCall, SignedHttp

#: The client, and the event loop under it.
KINDS = ("sync", "asyncio", "trio")

#: 2026-03-01T00:00:00Z.
NOW_MILLIS = 1_772_323_200_000
DAY_MILLIS = 86_400_000

_references = count(1)


class Asker:
    """An operator that asks through a real client of one kind, under a key and id of choice."""

    def __init__(self, kind: str, sandbox: Sandbox, key: RSAPrivateKey, operator_id: str | None = None) -> None:
        self.kind = kind
        self._settings: dict[str, Any] = {  # Any: the arguments of two constructors.
            "base_url": sandbox.base_url,
            "operator_id": operator_id or sandbox.operator_id,
            "private_key": key,
            "trust_env": False,
        }

    def fetch_games(self) -> list[GameInfo]:
        games: list[GameInfo] = self._ask("fetch_games")
        return games

    def fetch_bet(self, bet_id: str) -> AnyBet:
        bet: AnyBet = self._ask("fetch_bet", bet_id)
        return bet

    def fetch_round_bets(self, **keys: Any) -> AnyRound:
        found: AnyRound = self._ask("fetch_round_bets", **keys)
        return found

    def grant_free_bet(self, **terms: Any) -> GrantAccepted:
        granted: GrantAccepted = self._ask("grant_free_bet", **terms)
        return granted

    def _ask(self, name: str, *args: Any, **kwargs: Any) -> Any:  # Any: the methods' arguments and answers differ.
        if self.kind == "sync":
            with OperatorClient(**self._settings) as client:
                return getattr(client, name)(*args, **kwargs)
        return anyio.run(partial(self._ask_async, name, args, kwargs), backend=self.kind)

    async def _ask_async(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        async with AsyncOperatorClient(**self._settings) as client:
            return await getattr(client, name)(*args, **kwargs)


def fresh_reference() -> str:
    """Return a reference id that no other test uses."""
    return f"reference-{next(_references)}"


def terms(instance_id: str, /, **changes: object) -> dict[str, Any]:  # Any: passed on as keyword arguments.
    """Return a grant that breaks no limit, under a fresh reference id, with *changes*."""
    return {
        "player_id": "player-1",
        "instance_id": instance_id,
        "count": 5,
        "wager_amount_cents": 100,
        "expire_duration_millis": DAY_MILLIS,
        "reference_id": fresh_reference(),
    } | changes


def sound_call(name: str, sandbox: Sandbox, http: SignedHttp) -> RawCall:
    """Return the call *name* such that it succeeds when signed (spec §4.2)."""
    match name:
        case "fetch-games":
            return http.games_call()
        case "fetch-bet":
            return http.bet_call(sandbox.bet_ids["OPEN"])
        case "fetch-round-bets":
            return _post(ROUND, {"instance_id": sandbox.instance_id, "round_id": sandbox.round_id})
        case _:
            return _post(GRANT, terms(sandbox.instance_id))


def outcome(response: httpx.Response) -> tuple[int, Any]:  # Any: a JSON body.
    """Return the status and the JSON body, which must call itself JSON."""
    assert response.headers["content-type"] == "application/json"
    return response.status_code, response.json()


def _post(path: str, body: object) -> RawCall:
    content = json.dumps(body).encode()
    return RawCall("POST", path, content, content)
