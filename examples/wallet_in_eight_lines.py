"""
Answer the service's webhooks with the ready wallet: eight lines from a database to an ASGI application.

The rest of the program plays the service against a real server. In production you have only the service's public key,
and any ASGI server runs the application. uvicorn must run with `--http game_operator.serve:SafeProtocol`: see
docs/how-to/go-live.md. `game-operator serve` does all of this without a program.
"""

import asyncio
import socket
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory

import uvicorn
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key

from game_operator import BalanceCall, DepositCall, RollbackCall, WithdrawCall
from game_operator.ledger import AsyncSqlLedger
from game_operator.wallet import AsyncWallet
from game_operator.webhooks import RsaSignature, WebhookCall, WebhookReceiver, asgi_app
from game_operator_testkit import WebhookCaller

SERVICE_KEY = generate_private_key(65537, 2048)  # The service keeps this key and gives you its public half.
CALLS: list[WebhookCall] = [
    WithdrawCall(player_id="ann", bet_id="b1", amount_cents=500, instance_id="i1"),
    WithdrawCall(player_id="ann", bet_id="b1", amount_cents=500, instance_id="i1"),  # Sent again: one debit.
    DepositCall(player_id="ann", bet_id="b1", amount_cents=1250, round_id="r1"),
    RollbackCall(player_id="ann", bet_id="b2"),  # Before its withdraw: the late withdraw takes nothing.
    WithdrawCall(player_id="ann", bet_id="b2", amount_cents=700, instance_id="i1"),
    WithdrawCall(player_id="ann", bet_id="b3", amount_cents=99_900, instance_id="i1"),
    BalanceCall(player_id="ann"),
]


async def main(database: str) -> None:
    """Serve the calls above."""
    async with AsyncSqlLedger(database) as ledger:
        await ledger.open_account("ann", Decimal("100.00"))
        wallet = AsyncWallet(ledger)
        signature = RsaSignature(SERVICE_KEY.public_key())
        receiver = WebhookReceiver(authenticator=signature, instances={"i1"})
        app = asgi_app(receiver, wallet, prefix="/wallet")

        http = "game_operator.serve:SafeProtocol"  # A must under uvicorn.
        server = uvicorn.Server(uvicorn.Config(app, http=http, log_level="warning"))
        with socket.create_server(("127.0.0.1", 0)) as listener:
            serving = asyncio.create_task(server.serve([listener]))
            await play(f"http://127.0.0.1:{listener.getsockname()[1]}/wallet")
            server.should_exit = True
            await serving
        report = await ledger.verify()
        print("books in order:", report.sound)


async def play(url: str) -> None:
    """Post the calls as the service does, and print the answers."""
    with WebhookCaller(url, SERVICE_KEY) as service:
        for call in CALLS:
            delivery = await asyncio.to_thread(service.send, call)
            assert delivery.reply is not None, delivery.problem
            print(delivery.path, delivery.reply.code or "SUCCESS", delivery.reply.balance)


with TemporaryDirectory() as folder:
    asyncio.run(main(f"sqlite:///{Path(folder) / 'wallet.db'}"))

# Prints:
# /withdraw SUCCESS 95.00
# /withdraw SUCCESS 95.00
# /deposit SUCCESS 107.50
# /rollback BET_NOT_FOUND 107.50
# /withdraw BET_ROLLED_BACK 107.50
# /withdraw INSUFFICIENT_BALANCE 107.50
# /player-balance SUCCESS 107.50
# books in order: True
