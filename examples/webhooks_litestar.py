"""Mount the webhooks in a Litestar application. It needs the package litestar."""

import atexit
import logging
import sys
from base64 import urlsafe_b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from decimal import Decimal
from tempfile import TemporaryDirectory

from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from cryptography.hazmat.primitives.hashes import SHA256
from litestar import Litestar, asgi
from litestar.testing import TestClient

from game_operator.ledger import AsyncSqlLedger
from game_operator.wallet import AsyncWallet
from game_operator.webhooks import RsaSignature, WebhookReceiver, asgi_app

# The log says why a call is refused. The reply never does.
logging.basicConfig(stream=sys.stdout, format="    log: %(message)s")

service_key = generate_private_key(65537, 2048)  # The service keeps this key and gives you its public half.
receiver = WebhookReceiver(authenticator=RsaSignature(service_key.public_key()))
folder = TemporaryDirectory()  # In production: a permanent address, such as postgresql://…
atexit.register(folder.cleanup)
ledger = AsyncSqlLedger(f"sqlite:///{folder.name}/wallet.db")


@asynccontextmanager
async def lifespan(_: Litestar) -> AsyncIterator[None]:
    """Open the ledger with the server, and close it after the last call."""
    async with ledger:
        await ledger.open_account("p1", Decimal("100.00"))  # Once, when a player joins.
        yield


webhooks = asgi("/wallet", is_mount=True, copy_scope=True)(asgi_app(receiver, AsyncWallet(ledger)))
app = Litestar([webhooks], lifespan=[lifespan], logging_config=None)


def signed(body: bytes) -> dict[str, str]:
    """Play the service: its signature is over the raw body."""
    signature = urlsafe_b64encode(service_key.sign(body, PKCS1v15(), SHA256())).rstrip(b"=").decode()
    return {"Content-Type": "application/json", "Signature": signature}


CALLS = {
    "/wallet/withdraw": b'{"player_id":"p1","amount":4000,"action":"BET","action_id":"b1","instance_id":"i1"}',
    "/wallet/deposit": b'{"player_id":"p1","amount":1250,"action":{"type":"BET","round_id":"r1"},"action_id":"b1"}',
    "/wallet/rollback": b'{"player_id":"p1","action":"BET","action_id":"b1","round_id":"r1"}',
    "/wallet/player-balance": b'{"player_id":"p1"}',
}

with TestClient(app) as client:
    for path, body in CALLS.items():
        reply = client.post(path, content=body, headers=signed(body))
        print(path, reply.status_code, reply.text.partition(',"timestamp"')[0])
    reply = client.post("/wallet/withdraw", content=CALLS["/wallet/withdraw"])
    print("/wallet/withdraw", reply.status_code, reply.text.partition(',"timestamp"')[0])

# Prints:
# /wallet/withdraw 200 {"type":"SUCCESS","balance":60.00
# /wallet/deposit 200 {"type":"SUCCESS","balance":72.50
# /wallet/rollback 200 {"type":"ERROR","code":"BET_ALREADY_CLOSED","balance":72.50
# /wallet/player-balance 200 {"type":"SUCCESS","balance":72.50
#     log: '/withdraw' from 'testclient' refused with INVALID_SIGNATURE: there is no header signature
# /wallet/withdraw 200 {"type":"ERROR","code":"INVALID_SIGNATURE"
