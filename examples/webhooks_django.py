"""
Answer webhooks in a Django view.

The view passes the raw body on and runs in Django's own thread, to which its database connection belongs. It is exempt
from the CSRF check, because the signature identifies the caller. It needs the package django.
"""

import atexit
import logging
import sys
from base64 import urlsafe_b64encode
from decimal import Decimal
from tempfile import TemporaryDirectory

import django
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from cryptography.hazmat.primitives.hashes import SHA256
from django.conf import settings
from django.core.handlers.wsgi import WSGIHandler
from django.http import HttpRequest, HttpResponse
from django.test import Client
from django.urls import path as route
from django.views.decorators.csrf import csrf_exempt

from game_operator.ledger import SqlLedger
from game_operator.wallet import Wallet
from game_operator.webhooks import RsaSignature, WebhookReceiver

# The log says why a call is refused. The reply never does.
logging.basicConfig(stream=sys.stdout, format="    log: %(message)s")

service_key = generate_private_key(65537, 2048)  # The service keeps this key and gives you its public half.
receiver = WebhookReceiver(authenticator=RsaSignature(service_key.public_key()))
folder = TemporaryDirectory()  # In production: a permanent address, such as postgresql://…
atexit.register(folder.cleanup)
ledger = SqlLedger(f"sqlite:///{folder.name}/wallet.db")
atexit.register(ledger.close)
ledger.open_account("p1", Decimal("100.00"))  # Once, when a player joins.
wallet = Wallet(ledger)


@csrf_exempt  # type: ignore[untyped-decorator]  # Django has no types.
def webhook(request: HttpRequest, name: str) -> HttpResponse:
    """Answer one of the four calls."""
    reply = receiver.handle(
        f"/{name}",
        request.headers,
        request.body,
        wallet,
        method=request.method or "",
        peer=request.META.get("REMOTE_ADDR"),
    )
    return HttpResponse(reply.body, status=reply.status, headers=dict(reply.headers))


urlpatterns = [route("wallet/<path:name>", webhook)]

settings.configure(
    ROOT_URLCONF=__name__,
    ALLOWED_HOSTS=["*"],
    SECRET_KEY="for this example alone",
    MIDDLEWARE=["django.middleware.csrf.CsrfViewMiddleware"],
    # Django refuses a longer body before the view runs. A batch of deposits has up to 1 MiB.
    DATA_UPLOAD_MAX_MEMORY_SIZE=1_048_576,
)
django.setup()
application = WSGIHandler()


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

client = Client(enforce_csrf_checks=True)
for path, body in CALLS.items():
    reply = client.post(path, body, content_type="application/json", headers=signed(body))
    print(path, reply.status_code, reply.text.partition(',"timestamp"')[0])
reply = client.post("/wallet/withdraw", CALLS["/wallet/withdraw"], content_type="application/json")
print("/wallet/withdraw", reply.status_code, reply.text.partition(',"timestamp"')[0])

# Prints:
# /wallet/withdraw 200 {"type":"SUCCESS","balance":60.00
# /wallet/deposit 200 {"type":"SUCCESS","balance":72.50
# /wallet/rollback 200 {"type":"ERROR","code":"BET_ALREADY_CLOSED","balance":72.50
# /wallet/player-balance 200 {"type":"SUCCESS","balance":72.50
#     log: '/withdraw' from '127.0.0.1' refused with INVALID_SIGNATURE: there is no header signature
# /wallet/withdraw 200 {"type":"ERROR","code":"INVALID_SIGNATURE"
