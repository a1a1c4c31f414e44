"""Let the service play rounds against a wallet: a win, a loss whose answer is lost, and free bets that are claimed."""

from decimal import Decimal
from threading import Thread
from wsgiref.simple_server import WSGIRequestHandler, make_server

from game_operator.ledger import MemoryLedger
from game_operator.wallet import Wallet
from game_operator.webhooks import RsaSignature, WebhookReceiver, wsgi_app
from game_operator_testkit import Sandbox


class Quiet(WSGIRequestHandler):
    """A handler that writes no log."""

    def log_message(self, *_: object) -> None:
        """Write nothing."""


ledger = MemoryLedger()
ledger.open_account("ann", Decimal("100.00"))

with Sandbox() as sandbox, sandbox.client() as client:
    receiver = WebhookReceiver(authenticator=RsaSignature(sandbox.service_public_key_pem))
    wallet = make_server("127.0.0.1", 0, wsgi_app(receiver, Wallet(ledger)), handler_class=Quiet)
    Thread(target=wallet.serve_forever, daemon=True).start()
    sandbox.wallet_url = f"http://127.0.0.1:{wallet.server_port}"

    won = sandbox.play_round(player_id="ann", wager_cents=500, won_cents=1250)
    print([delivery.path for delivery in won.deliveries])
    print(client.fetch_bet(won.bet_ids[0]).status, ledger.balance("ann"))

    sandbox.faults.set_nth("reply-lost", 1)  # the next call is answered, but the answer is lost
    lost = sandbox.play_round(player_id="ann", wager_cents=500, won_cents=0)
    print([delivery.path for delivery in lost.deliveries])
    print(client.fetch_bet(lost.bet_ids[0]).status, ledger.balance("ann"))

    granted = client.grant_free_bet(
        player_id="ann",
        instance_id=sandbox.instance_id,
        count=3,
        wager_amount_cents=100,
        expire_duration_millis=86_400_000,
        reference_id="welcome-ann",
    )
    claim = sandbox.claim_free_bets(granted.free_bet_id)
    print([delivery.path for delivery in claim.deliveries])

    wallet.shutdown()
    wallet.server_close()

# Prints:
# ['/withdraw', '/deposit']
# CLOSED 10750
# ['/withdraw', '/withdraw', '/deposit']
# CLOSED 10250
# ['/deposit']
