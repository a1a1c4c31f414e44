"""The service's side of a webhook: genuine bodies and signatures; and handlers that remember what they were asked."""

import json
from base64 import urlsafe_b64encode
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.hashes import SHA256

from game_operator.money import cents_from_amount
from game_operator.webhooks import HttpReply, Reply, WebhookCall, success

WITHDRAW: dict[str, Any] = {
    "player_id": "p1",
    "amount": 5000,
    "game": "aviator",
    "instance_id": "i1",
    "action": "BET",
    "action_id": "b1",
    "tx_id": "withdraw:bet:b1",
}
DEPOSIT: dict[str, Any] = {
    "player_id": "p1",
    "amount": 15000,
    "game": "aviator",
    "instance_id": "i1",
    "action": {"type": "BET", "round_id": "r1", "wager": 5000, "won": 15000},
    "action_id": "b1",
    "tx_id": "deposit:bet:b1",
}
ROLLBACK: dict[str, Any] = {
    "player_id": "p1",
    "game": "aviator",
    "instance_id": "i1",
    "action": "BET",
    "action_id": "b1",
    "tx_id": "withdraw:bet:b1",
    "round_id": "r1",
    "amount": 5000,
}
BALANCE: dict[str, Any] = {"player_id": "p1"}
#: A genuine body for each path.
GENUINE: dict[str, dict[str, Any]] = {
    "/withdraw": WITHDRAW,
    "/deposit": DEPOSIT,
    "/rollback": ROLLBACK,
    "/player-balance": BALANCE,
}


def encoded(body: object) -> bytes:
    """Return *body* as the service writes it: compact, in UTF-8."""
    return json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode()


def signature_of(private_key: RSAPrivateKey, body: bytes) -> str:
    """Return the signature header: base64url without padding."""
    return urlsafe_b64encode(private_key.sign(body, PKCS1v15(), SHA256())).rstrip(b"=").decode()


def signed(private_key: RSAPrivateKey, body: bytes) -> dict[str, str]:
    """Return the headers of a genuine call."""
    return {"Content-Type": "application/json", "Signature": signature_of(private_key, body)}


def read_reply(body: bytes) -> Reply:
    """Return the reply in *body*; fail unless it has the exact form in which we write it (spec §2.1)."""
    return reply_of(json.loads(body, parse_float=Decimal))


def reply_of(value: dict[str, Any]) -> Reply:
    """Return the reply that is the JSON object *value*, with its numbers as Decimals, as ``read_reply`` does."""
    code, balance = value.get("code"), value.get("balance")
    names = ["type", *["code"] * (code is not None), *["balance"] * (balance is not None), "timestamp"]
    assert list(value) == names
    assert value["type"] == ("SUCCESS" if code is None else "ERROR")
    assert balance is None or balance.as_tuple().exponent == -2
    return Reply(
        code=code, balance_cents=None if balance is None else cents_from_amount(balance), timestamp=value["timestamp"]
    )


def code_of(reply: HttpReply) -> str | None:
    """Return the code of a reply that the service would accept; None for a SUCCESS."""
    assert reply.headers["content-type"] == "application/json"
    assert reply.headers["content-length"] == str(len(reply.body))
    return read_reply(reply.body).code


def told(reply: tuple[int, dict[str, str], bytes]) -> tuple[int, str | None]:
    """Return the status and the code of a reply read off the wire."""
    status, headers, body = reply
    assert headers["content-type"] == "application/json"
    return status, read_reply(body).code


class Handler:
    """Remembers its calls, answers 100.00, or does what *does* says."""

    def __init__(self, does: Callable[[WebhookCall], Any] | None = None) -> None:
        self.calls: list[WebhookCall] = []
        self.anomalies: list[tuple[str, str, bytes]] = []
        self._does = does

    def _answer(self, call: WebhookCall) -> Reply:
        self.calls.append(call)
        result: Any = self._does(call) if self._does else success(balance_cents=10_000)  # Junk is wanted too.
        return result  # type: ignore[no-any-return]

    withdraw = deposit = rollback = player_balance = _answer

    def keep_anomaly(self, operation: str, anomaly: str, body: bytes) -> None:
        self.anomalies.append((operation, anomaly, body))


class AsyncHandler:
    """The same, awaited; *does* may be async."""

    def __init__(self, does: Callable[[WebhookCall], Any] | None = None) -> None:
        self._handler = Handler(does)
        self.calls, self.anomalies = self._handler.calls, self._handler.anomalies

    async def _answer(self, call: WebhookCall) -> Reply:
        result: Any = self._handler.withdraw(call)
        return await result if hasattr(result, "__await__") else result  # type: ignore[no-any-return]

    withdraw = deposit = rollback = player_balance = _answer

    async def keep_anomaly(self, operation: str, anomaly: str, body: bytes) -> None:
        self._handler.keep_anomaly(operation, anomaly, body)
