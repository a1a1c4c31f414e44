"""
A wallet under uvicorn (uvloop, httptools, one worker), in a process of its own.

Run as a program with a name and a database it reads the service's public key from its standard input up to a blank
line, prints its port, and serves until the input ends. ``GET /cpu`` says what processor time it has taken.
"""

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvicorn
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_public_key

from benchmarks.peers.raw_asgi import raw_app
from game_operator.ledger import AsyncSqlLedger
from game_operator.wallet import AsyncWallet
from game_operator.webhooks import Reply, RsaSignature, WebhookCall, WebhookReceiver, asgi_app, success

__all__ = ["running_wallet"]


class _Handler:
    """Answers without doing anything."""

    async def withdraw(self, call: WebhookCall) -> Reply:
        return success(balance_cents=10_000)

    deposit = rollback = player_balance = withdraw


# Any: an application of ASGI, which has no type that all frameworks share.
def _ours(key: RSAPublicKey, url: str, telemetry: Any = None) -> Any:
    receiver = WebhookReceiver(authenticator=RsaSignature(key), telemetry=telemetry)
    return asgi_app(receiver, AsyncWallet(AsyncSqlLedger(url, telemetry=telemetry)))


def _observed(key: RSAPublicKey, url: str, *, traced: bool) -> Any:
    """Return our wallet, whose metrics and, if *traced*, spans go to exporters of the SDK."""
    from opentelemetry import trace
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import ConsoleMetricExporter, PeriodicExportingMetricReader
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    from game_operator.telemetry import Telemetry

    traces: trace.TracerProvider = trace.NoOpTracerProvider()
    if traced:
        traces = sdk = TracerProvider()
        sdk.add_span_processor(BatchSpanProcessor(InMemorySpanExporter()))
    out = Path(os.devnull).open("w")  # noqa: SIM115 - until the process ends
    reader = PeriodicExportingMetricReader(ConsoleMetricExporter(out=out), 5_000)
    return _ours(key, url, Telemetry(traces, MeterProvider([reader])))


def _by_hand(key: RSAPublicKey, url: str) -> Any:
    from benchmarks.peers.fastapi_sqlalchemy import fastapi_app  # Half a second, and nothing the others need.

    return fastapi_app(key, url)


_APPLICATIONS: dict[str, Callable[[RSAPublicKey, str], Any]] = {
    "raw": lambda key, _url: raw_app(key),
    "receiver": lambda key, _url: asgi_app(WebhookReceiver(authenticator=RsaSignature(key)), _Handler()),
    "ours": _ours,
    "metrics": lambda key, url: _observed(key, url, traced=False),
    "traces": lambda key, url: _observed(key, url, traced=True),
    "by hand": _by_hand,
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


def _telling_its_cost(application: Any) -> Any:
    async def outer(scope: Any, receive: Any, send: Any) -> None:
        if scope.get("path") != "/cpu":
            await application(scope, receive, send)
            return
        body = b"%d" % time.process_time_ns()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
        await send({"type": "http.response.body", "body": body})

    return outer


def main() -> None:
    """Serve until the standard input ends."""
    name, url = sys.argv[1:]
    key = load_pem_public_key(b"".join(iter(sys.stdin.buffer.readline, b"\n")))
    assert isinstance(key, RSAPublicKey)
    app = _telling_its_cost(_APPLICATIONS[name](key, url))
    options: dict[str, Any] = {"access_log": False, "log_level": "warning", "proxy_headers": False}
    server = uvicorn.Server(uvicorn.Config(app, loop="uvloop", http="httptools", **options))

    def wait_for_end() -> None:
        sys.stdin.buffer.read()
        server.should_exit = True

    with socket.create_server(("127.0.0.1", 0), backlog=128) as listener:
        threading.Thread(target=wait_for_end, daemon=True).start()
        print(listener.getsockname()[1], flush=True)
        server.run([listener])


if __name__ == "__main__":
    main()
