"""Wallets behind real HTTP for the tests of ``game-operator certify``, ``call`` and ``storm``."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

from game_operator.codes import WebhookErrorCode
from game_operator.ledger import SqlLedger
from game_operator.models.webhooks import Reply, RollbackCall
from game_operator.profile import Profile
from game_operator.wallet import Wallet
from game_operator.webhooks import RsaSignature, WebhookReceiver, asgi_app
from tests.support.servers import asgi_server

Make = Callable[[SqlLedger], Wallet]


class GivesBackWhatItNeverTook(Wallet):
    """Pays 1.00 for a rollback of a bet that it does not know."""

    ledger: SqlLedger

    def rollback(self, call: RollbackCall) -> Reply:
        outcome = self.ledger.apply(call)
        if outcome.code == WebhookErrorCode.BET_NOT_FOUND:
            self.ledger.adjust(call.player_id, Decimal("1.00"), reference=f"oops-{call.bet_id}")
        return outcome.reply()


class Served:
    """
    A wallet whose *players* have 100.00 each.

    ``heads`` are the headers of the requests that came in, ``arrived`` the bodies of those that move money.
    """

    def __init__(
        self, database: str, key: RSAPrivateKey, make: Make, players: Iterable[str], profile: Profile | None
    ) -> None:
        self.database = database
        self.url = ""
        self.ledger = SqlLedger(database)
        for player_id in players:
            self.ledger.open_account(player_id, Decimal("100.00"))
        self.heads: list[dict[bytes, bytes]] = []
        self.arrived: list[bytes] = []
        receiver = WebhookReceiver(authenticator=RsaSignature(key.public_key()), profile=profile)
        self._app = asgi_app(receiver, make(self.ledger), prefix="/wallet")

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:  # Any: of ASGI.
        if scope["type"] == "http":
            self.heads.append(dict(scope["headers"]))

        async def heard() -> Any:
            message = await receive()
            if message["type"] == "http.request" and scope["path"] != "/wallet/player-balance":
                self.arrived.append(message["body"])
            return message

        await self._app(scope, heard, send)


@contextmanager
def served(
    folder: Path,
    key: RSAPrivateKey,
    make: Make = Wallet,
    *,
    players: Iterable[str] = ("ann", "bob"),
    name: str = "wallet.db",
    profile: Profile | None = None,
    **options: Any,
) -> Iterator[Served]:
    """Serve what *make* makes over the SQLite file *name* in *folder*; *options* are uvicorn's."""
    app = Served(f"sqlite:///{folder / name}", key, make, players, profile)
    scheme = "https" if "ssl_certfile" in options else "http"
    with closing(app.ledger), asgi_server(app, **options) as port:
        app.url = f"{scheme}://127.0.0.1:{port}/wallet"
        yield app


def answering(*bodies: bytes) -> Any:
    """Return an ASGI application that answers with *bodies* in turn, and with the last one for ever."""
    left = list(bodies)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        while (await receive()).get("more_body"):
            pass
        body = left.pop(0) if len(left) > 1 else left[0]
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/json")]})
        await send({"type": "http.response.body", "body": body})

    return app
