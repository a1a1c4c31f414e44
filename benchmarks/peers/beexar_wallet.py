"""The wallet server of beexar 1.1.0, another provider's SDK, on one of its own calls: a bet, signed by HMAC-SHA256."""

import hmac
import json
from collections.abc import Awaitable, Callable
from hashlib import sha256
from importlib import import_module
from importlib.util import find_spec
from typing import Any

__all__ = ["ANSWER_ENDS", "SECRET", "SUCCESS", "beexar_app", "beexar_requests", "has_beexar"]

SECRET = "a secret that both sides of the benchmark know"
#: Of an answer: what a success holds, and how it ends. It has no length, so the server sends it in chunks.
SUCCESS, ANSWER_ENDS = b'"balance":"100.00"', b"0\r\n\r\n"


def has_beexar() -> bool:
    """Return whether beexar is installed here. It is not among our requirements."""
    return find_spec("beexar") is not None


def beexar_app() -> Callable[..., Awaitable[None]]:
    """Return its ASGI application over a wallet that answers without doing anything."""
    beexar, asgi = import_module("beexar"), import_module("beexar.asgi")
    balance = beexar.Money.parse("100.00")

    class Wallet:
        # Any: classes of a package that need not be installed.
        def bet_win(self, request: Any, context: Any) -> Any:
            done = [beexar.BetWinTransactionResult(each.id_provider, each.id_provider) for each in request.transactions]
            return beexar.BetWinResult(request.round_id, balance, done)

    application: Callable[..., Awaitable[None]] = asgi.asgi_app(beexar.WalletServer(Wallet(), SECRET))
    return application


def beexar_requests(count: int) -> list[bytes]:
    """Return whole requests, each another bet, signed beforehand."""
    return [_request(_bet(number)) for number in range(count)]


def _bet(number: int) -> bytes:
    call = {
        "account_id": f"player-{number % 100:03d}",
        "currency": "EUR",
        "game_id": "aviator",
        "round_id": f"round-{number:08d}",
        "finished": False,
        "transactions": [{"type": "bet", "id_provider": f"bet-{number:08d}", "amount": "50.00"}],
    }
    return json.dumps(call, separators=(",", ":")).encode()


def _request(body: bytes) -> bytes:
    head = (
        b"POST /betwin HTTP/1.1\r\nHost: wallet.example\r\nUser-Agent: game-service/1.0\r\nAccept: */*\r\n"
        b"Content-Type: application/json\r\nX-REQUEST-SIGN: %b\r\nContent-Length: %d\r\n\r\n"
    )
    return head % (hmac.new(SECRET.encode(), body, sha256).hexdigest().encode(), len(body)) + body
