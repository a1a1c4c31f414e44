"""
Put the webhooks beside a Flask application.

The dispatcher sends /wallet to the receiver and all other paths to Flask. Each call runs in a thread of the receiver,
so that a reply is sent within the time budget. It needs the package flask.
"""

import atexit
import logging
import sys
from base64 import urlsafe_b64encode
from decimal import Decimal
from tempfile import TemporaryDirectory

from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from cryptography.hazmat.primitives.hashes import SHA256
from flask import Flask
from werkzeug.middleware.dispatcher import DispatcherMiddleware

from game_operator.ledger import SqlLedger
from game_operator.wallet import Wallet
from game_operator.webhooks import RsaSignature, WebhookReceiver, wsgi_app

# The log says why a call is refused. The reply never does.
logging.basicConfig(stream=sys.stdout, format="    log: %(message)s")

service_key = generate_private_key(65537, 2048)  # The service keeps this key and gives you its public half.
receiver = WebhookReceiver(authenticator=RsaSignature(service_key.public_key()))
folder = TemporaryDirectory()  # In production: a permanent address, such as postgresql://…
atexit.register(folder.cleanup)
ledger = SqlLedger(f"sqlite:///{folder.name}/wallet.db")
atexit.register(ledger.close)
ledger.open_account("p1", Decimal("100.00"))  # Once, when a player joins.

app = Flask(__name__)
app.wsgi_app = DispatcherMiddleware(app.wsgi_app, {"/wallet": wsgi_app(receiver, Wallet(ledger))})  # type: ignore[method-assign]  # Flask's own advice.


@app.get("/health")
def health() -> str:
    """Your own routes do not change."""
    return "fine"


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

client = app.test_client()
print("/health", client.get("/health").text)
for path, body in CALLS.items():
    reply = client.post(path, data=body, headers=signed(body))
    print(path, reply.status_code, reply.text.partition(',"timestamp"')[0])
reply = client.post("/wallet/withdraw", data=CALLS["/wallet/withdraw"])
print("/wallet/withdraw", reply.status_code, reply.text.partition(',"timestamp"')[0])

# Prints:
# /health fine
# /wallet/withdraw 200 {"type":"SUCCESS","balance":60.00
# /wallet/deposit 200 {"type":"SUCCESS","balance":72.50
# /wallet/rollback 200 {"type":"ERROR","code":"BET_ALREADY_CLOSED","balance":72.50
# /wallet/player-balance 200 {"type":"SUCCESS","balance":72.50
#     log: '/withdraw' from '127.0.0.1' refused with INVALID_SIGNATURE: there is no header signature
# /wallet/withdraw 200 {"type":"ERROR","code":"INVALID_SIGNATURE"
