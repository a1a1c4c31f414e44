"""
A wallet without a database under uvicorn (uvloop, httptools), in a process of its own.

Run as a program with the name of an application it reads the service's public key from its standard input up to a
blank line, prints its port, and serves until the input ends. ``GET /cpu`` says what processor time it has taken.
"""

import socket
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_public_key

from benchmarks.peers.beexar_wallet import SECRET, beexar_app
from benchmarks.peers.raw_asgi import raw_app
from game_operator.webhooks import (
    BalanceCall,
    DepositCall,
    HmacSignature,
    Reply,
    RollbackCall,
    RsaSignature,
    WebhookReceiver,
    WithdrawCall,
    asgi_app,
    success,
)

__all__ = ["PlainHandler", "running_server", "telling_its_cost"]

App = Callable[..., Awaitable[None]]


class PlainHandler:
    """Answers without doing anything."""

    def withdraw(self, call: WithdrawCall) -> Reply:
        return success(balance_cents=10_000)

    def deposit(self, call: DepositCall) -> Reply:
        return success(balance_cents=10_000)

    def rollback(self, call: RollbackCall) -> Reply:
        return success(balance_cents=10_000)

    def player_balance(self, call: BalanceCall) -> Reply:
        return success(balance_cents=10_000)


class AsyncHandler:
    """The same, awaited."""

    async def withdraw(self, call: WithdrawCall) -> Reply:
        return success(balance_cents=10_000)

    async def deposit(self, call: DepositCall) -> Reply:
        return success(balance_cents=10_000)

    async def rollback(self, call: RollbackCall) -> Reply:
        return success(balance_cents=10_000)

    async def player_balance(self, call: BalanceCall) -> Reply:
        return success(balance_cents=10_000)


APPLICATIONS: dict[str, Callable[[RSAPublicKey], App]] = {
    "raw": raw_app,
    "async": lambda key: asgi_app(WebhookReceiver(authenticator=RsaSignature(key)), AsyncHandler()),
    "threads": lambda key: asgi_app(WebhookReceiver(authenticator=RsaSignature(key)), PlainHandler()),
    "hmac": lambda _: asgi_app(WebhookReceiver(authenticator=HmacSignature(SECRET.encode())), AsyncHandler()),
    "beexar": lambda _: beexar_app(),
}


@contextmanager
def running_server(name: str, public_key: RSAPublicKey) -> Iterator[int]:
    """Start the application called *name* and yield its port."""
    command = [sys.executable, "-m", "benchmarks.webhook_server", name]
    pem = public_key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin
        assert process.stdout
        try:
            process.stdin.write(pem + b"\n")
            process.stdin.flush()
            yield int(process.stdout.readline())
        finally:
            process.stdin.close()


def telling_its_cost(application: App) -> App:
    async def outer(scope: Any, receive: Any, send: Any) -> None:
        if scope["path"] != "/cpu":
            await application(scope, receive, send)
            return
        body = b"%d" % time.process_time_ns()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
        await send({"type": "http.response.body", "body": body})

    return outer


def main() -> None:
    """Serve until the standard input ends."""
    pem = b"".join(iter(sys.stdin.buffer.readline, b"\n"))
    public_key = load_pem_public_key(pem)
    assert isinstance(public_key, RSAPublicKey)
    app = telling_its_cost(APPLICATIONS[sys.argv[1]](public_key))
    config = uvicorn.Config(
        app, loop="uvloop", http="httptools", lifespan="off", access_log=False, log_level="warning", proxy_headers=False
    )
    server = uvicorn.Server(config)

    def wait_for_end() -> None:
        sys.stdin.buffer.read()
        server.should_exit = True

    with socket.create_server(("127.0.0.1", 0), backlog=128) as listener:
        threading.Thread(target=wait_for_end, daemon=True).start()
        print(listener.getsockname()[1], flush=True)
        server.run([listener])


if __name__ == "__main__":
    main()
