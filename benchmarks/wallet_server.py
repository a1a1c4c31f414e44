"""
A wallet with a database under uvicorn (uvloop, httptools, one worker), in a process of its own.

Run as a program with a name and a database it reads the service's public key from its standard input up to a blank
line, prints its port, and serves until the input ends.
"""

import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_public_key

from benchmarks.peers.fastapi_sqlalchemy import fastapi_app
from benchmarks.peers.raw_asgi import raw_app
from game_operator.ledger import AsyncSqlLedger
from game_operator.wallet import AsyncWallet
from game_operator.webhooks import RsaSignature, WebhookReceiver, asgi_app

__all__ = ["running_wallet"]


def _ours(key: RSAPublicKey, url: str) -> Any:
    return asgi_app(WebhookReceiver(authenticator=RsaSignature(key)), AsyncWallet(AsyncSqlLedger(url)))


_APPLICATIONS: dict[str, Callable[[RSAPublicKey, str], Any]] = {
    "ours": _ours,
    "fastapi": fastapi_app,
    "raw": lambda key, _url: raw_app(key),
}


@contextmanager
def running_wallet(name: str, public_key: RSAPublicKey, url: str = "") -> Iterator[int]:
    """Start the application called *name* on the database *url* and yield its port."""
    command = [sys.executable, "-m", "benchmarks.wallet_server", name, url]
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


def main() -> None:
    name, url = sys.argv[1:]
    pem = b"".join(iter(sys.stdin.buffer.readline, b"\n"))
    key = load_pem_public_key(pem)
    assert isinstance(key, RSAPublicKey)
    listener = socket.create_server(("127.0.0.1", 0), backlog=128)
    config = uvicorn.Config(
        _APPLICATIONS[name](key, url), loop="uvloop", http="httptools", access_log=False, log_level="error"
    )
    server = uvicorn.Server(config)
    print(listener.getsockname()[1], flush=True)
    threading.Thread(target=_stop_at_end_of_input, args=(server,), daemon=True).start()
    server.run(sockets=[listener])


def _stop_at_end_of_input(server: uvicorn.Server) -> None:
    sys.stdin.buffer.read()
    server.should_exit = True


if __name__ == "__main__":
    main()
