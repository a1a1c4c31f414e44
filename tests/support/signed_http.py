"""An operator's back end written without this package: every byte it sends, and what it signs, is said by the test."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import httpx
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

from tests.support.webhooks import signature_of

GAMES = "/api/v0.2/fetch-games"
BET = "/api/v0.2/fetch-bet/"
ROUND = "/api/v0.2/fetch-round-bets"
GRANT = "/api/v0.2/free-bet/grant"


@dataclass(frozen=True)
class RawCall:
    """A call before it is signed: *path* is sent as it stands here."""

    method: str
    path: str
    signed: bytes
    body: bytes = b""


class SignedHttp:
    """One connection pool, one operator, one key."""

    def __init__(self, base_url: str, operator_id: str, key: RSAPrivateKey) -> None:
        self.operator_id = operator_id
        self.key = key
        # Loopback speaks no TLS, and certificates take 50 ms to load.
        self.http = httpx.Client(base_url=base_url, trust_env=False, verify=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.http.close()

    def fetch_games(self) -> httpx.Response:
        return self.call(self.games_call())

    def fetch_bet(self, bet_id: str, *, segment: str | None = None) -> httpx.Response:
        """Ask for *bet_id*, which stands in the path as *segment*."""
        return self.call(self.bet_call(bet_id, segment=segment))

    def fetch_round_bets(self, body: object) -> httpx.Response:
        """Ask for a round; *body* is JSON, or the bytes themselves."""
        return self.post(ROUND, body)

    def grant(self, body: object) -> httpx.Response:
        """Grant free bets; *body* is JSON, or the bytes themselves."""
        return self.post(GRANT, body)

    def post(self, path: str, body: object) -> httpx.Response:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self.call(RawCall("POST", path, content, content))

    def games_call(self) -> RawCall:
        return RawCall("GET", GAMES, self.operator_id.encode())

    def bet_call(self, bet_id: str, *, segment: str | None = None) -> RawCall:
        return RawCall("GET", BET + (bet_id if segment is None else segment), f"{self.operator_id}:{bet_id}".encode())

    def credentials(self, signed: bytes) -> dict[str, str]:
        """Return the headers of spec §5 over *signed*."""
        return {"X-Operator-Id": self.operator_id, "X-Signature": signature_of(self.key, signed)}

    def call(self, call: RawCall) -> httpx.Response:
        return self.send(call, self.credentials(call.signed))

    def send(self, call: RawCall, headers: Mapping[str, str] | list[tuple[str, str]]) -> httpx.Response:
        """Send *call* under exactly these *headers*, beside those that HTTP itself needs."""
        # The target goes out as it stands: httpx would fold ".." and escape what is not escaped.
        target = {"target": call.path.encode("latin-1")}
        return self.http.request(call.method, "/", headers=headers, content=call.body, extensions=target)
