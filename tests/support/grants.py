"""A service that grants free bets as a test tells it to, without a socket; and campaigns of its players."""

import json
import threading
from collections.abc import Callable, Sequence
from typing import Any

import httpx
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

from game_operator import OperatorClient
from game_operator.backoffice import Campaign
from game_operator.ledger import SqlLedger
from tests.support.catalogues import BASE_URL, OPERATOR, named
from tests.support.wire import JsonObject, wire

DAY_MILLIS = 86_400_000

#: What becomes of a grant's request: given the number of the request, from 1, and what it asks for.
Plot = Callable[[int, JsonObject], "httpx.Response | str | None"]


def refusal(code: str, status: int = 400) -> httpx.Response:
    """Return the service's refusal of a grant."""
    return httpx.Response(status, json={"success": False, "message": f"no: {code}", "error_code": code})


class GrantingService:
    """
    Grants each reference id of an instance once (spec §2.2).

    Attributes:
        plot: Answers a request in place of the service: a response, or None for the service's own answer, or "lost" for
            the service's own answer that never arrives, "unsent" for a request that never arrives, "hung" for an answer
            that does not come in time before the grant was made.
        granted: What was granted, by instance and reference id.
        asked: The requests for grants, in their order.
    """

    def __init__(self, private_key: RSAPrivateKey, *games: JsonObject) -> None:
        self.games: Sequence[JsonObject] = games or (named("g1", "i1", "i2"), named("g2", "i9", currency="SEK"))
        self.plot: Plot = lambda number, asked: None
        self.granted: dict[tuple[str, str], JsonObject] = {}
        self.asked: list[JsonObject] = []
        self._lock = threading.Lock()
        http_client = httpx.Client(transport=httpx.MockTransport(self._answer))
        self.client = OperatorClient(BASE_URL, OPERATOR, private_key, http_client=http_client)

    def client_of(self, operator_id: str, private_key: RSAPrivateKey, *, base_url: str = BASE_URL) -> OperatorClient:
        """Return a client of another operator, or with another spelling of the address."""
        http_client = httpx.Client(transport=httpx.MockTransport(self._answer))
        return OperatorClient(base_url, operator_id, private_key, http_client=http_client)

    def players(self) -> list[str]:
        """Return the players who were granted something, sorted; a player twice if it was granted twice."""
        return sorted(each["player_id"] for each in self.granted.values())

    def _answer(self, request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("fetch-games"):
            return httpx.Response(
                200, headers={"content-type": "application/json"}, content=wire({"games": self.games})
            )
        asked = json.loads(request.content)
        with self._lock:
            self.asked.append(asked)
            plot = self.plot(len(self.asked), asked)
            if isinstance(plot, httpx.Response):
                return plot
            if plot == "unsent":
                raise httpx.ConnectError("refused", request=request)
            if plot == "hung":
                raise httpx.ReadTimeout("no answer", request=request)
            answer = self._granted(asked)
        if plot == "lost":
            raise httpx.ReadError("the connection was reset", request=request)
        return answer

    def _granted(self, asked: JsonObject) -> httpx.Response:
        key = (asked["instance_id"], asked["reference_id"])
        if key in self.granted:
            return refusal("DUPLICATE_REFERENCE_ID")
        self.granted[key] = asked
        free_bet_id = f"fb-{len(self.granted)}"
        return httpx.Response(200, json={"success": True, "free_bet_id": free_bet_id, "message": "granted"})


def players(number: int) -> list[str]:
    """Return the ids of so many players."""
    return [f"p{each}" for each in range(1, number + 1)]


# Any: what Campaign takes.
def campaign(service: GrantingService, ledger: SqlLedger, name: str = "summer", **options: Any) -> Campaign:
    """Return a campaign of 5 free bets of 1.00 on i1 for a day."""
    terms: dict[str, Any] = {
        "instance_id": "i1",
        "count": 5,
        "wager_amount_cents": 100,
        "expire_duration_millis": DAY_MILLIS,
    }
    return Campaign(service.client, ledger, name, **terms | options)
