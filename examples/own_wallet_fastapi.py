"""
A complete back end: your own table of balances, your own transaction for each call, your own routes, in FastAPI.

Calls run in several threads, so each opens its own connection. A pool works too. A shared connection does not.
In addition to game-operator[serve] it needs the package fastapi, and game-operator-testkit to call itself.
"""

import socket
import sqlite3
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, closing, contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx
import uvicorn
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey, generate_private_key
from fastapi import FastAPI

from game_operator import BalanceCall, DepositCall, MovingCall, RollbackCall, WithdrawCall
from game_operator.ledger import Outcome, SqlLedger, TableAccounts
from game_operator.wallet import JoinedWallet
from game_operator.webhooks import RsaSignature, WebhookCall, WebhookReceiver, asgi_app
from game_operator_testkit import WebhookCaller

PLAYERS = TableAccounts(table="players", key="id", balance="cents", unit="cents")


def connect(file: Path) -> sqlite3.Connection:
    """Return a new connection, without transactions that Python begins."""
    return sqlite3.connect(file, isolation_level=None)


@contextmanager
def transaction(file: Path) -> Iterator[sqlite3.Connection]:
    """Open a transaction. It is committed on exit, and rolled back after an exception."""
    with closing(connect(file)) as connection, connection:
        connection.execute("BEGIN IMMEDIATE")
        yield connection


def count_bets(call: MovingCall, outcome: Outcome, connection: sqlite3.Connection) -> None:
    """Run in the transaction of each call. An exception is answered SYSTEM_ERROR, and the call comes again."""
    if outcome.applied and isinstance(call, WithdrawCall):
        connection.execute("UPDATE players SET bets = bets + 1 WHERE id = ?", (call.player_id,))


def application(file: Path, service_key: RSAPublicKey) -> FastAPI:
    """Return the back end over the database in *file*."""
    ledger = SqlLedger(f"sqlite:///{file}", accounts=PLAYERS)
    wallet = JoinedWallet(ledger, partial(transaction, file), count_bets)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        with ledger:
            yield

    app = FastAPI(lifespan=lifespan)
    # SQLite has one writer, so sixteen bets at once wait for one another: warn later than after half a second.
    receiver = WebhookReceiver(authenticator=RsaSignature(service_key), instances={"i1"}, warn_seconds=3.0)
    app.mount("/wallet", asgi_app(receiver, wallet))

    @app.get("/players/{player_id}")
    def player(player_id: str) -> dict[str, int]:
        with closing(connect(file)) as connection:
            query = "SELECT cents, bets FROM players WHERE id = ?"
            cents, bets = connection.execute(query, (player_id,)).fetchone()
        return {"cents": cents, "bets": bets}

    return app


CALLS: list[WebhookCall] = [
    WithdrawCall(player_id="ann", bet_id="b1", amount_cents=500, instance_id="i1"),
    WithdrawCall(player_id="ann", bet_id="b1", amount_cents=500, instance_id="i1"),  # Sent again: one debit.
    DepositCall(player_id="ann", bet_id="b1", amount_cents=1250, round_id="r1"),
    RollbackCall(player_id="ann", bet_id="b2"),  # Before its withdraw: the late withdraw takes nothing.
    WithdrawCall(player_id="ann", bet_id="b2", amount_cents=700, instance_id="i1"),
    BalanceCall(player_id="ann"),
]
BETS = [WithdrawCall(player_id="ann", bet_id=f"c{n}", amount_cents=100, instance_id="i1") for n in range(16)]


def serve_and_play(app: FastAPI, service_key: RSAPrivateKey) -> None:
    """Play the service against a real server: one call after the other, then sixteen bets at once."""
    http = "game_operator.serve:SafeProtocol"  # A must: see docs/how-to/go-live.md.
    server = uvicorn.Server(uvicorn.Config(app, http=http, log_level="warning", proxy_headers=False))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        serving = threading.Thread(target=server.run, args=([listener],))
        serving.start()
        with WebhookCaller(f"{url}/wallet", service_key) as service, ThreadPoolExecutor(16) as at_once:
            for delivery in map(service.send, CALLS):
                assert delivery.reply is not None, delivery.problem
                print(delivery.path, delivery.code or "SUCCESS", delivery.reply.balance)
            codes = {delivery.code or "SUCCESS" for delivery in at_once.map(service.send, BETS)}
            print("sixteen bets of 1.00 at once:", codes)
        print("/players/ann", httpx.get(f"{url}/players/ann", trust_env=False).json())
        server.should_exit = True
        serving.join()


with TemporaryDirectory() as folder:
    database = Path(folder, "casino.db")
    with closing(sqlite3.connect(database, isolation_level=None)) as casino:
        casino.execute("CREATE TABLE players (id TEXT PRIMARY KEY, cents INTEGER NOT NULL, bets INTEGER DEFAULT 0)")
        casino.execute("INSERT INTO players (id, cents) VALUES ('ann', 10000)")
    key = generate_private_key(65537, 2048)  # The service keeps this key and gives you its public half.
    serve_and_play(application(database, key.public_key()), key)

# Prints:
# /withdraw SUCCESS 95.00
# /withdraw SUCCESS 95.00
# /deposit SUCCESS 107.50
# /rollback BET_NOT_FOUND 107.50
# /withdraw BET_ROLLED_BACK 107.50
# /player-balance SUCCESS 107.50
# sixteen bets of 1.00 at once: {'SUCCESS'}
# /players/ann {'cents': 9150, 'bets': 17}
