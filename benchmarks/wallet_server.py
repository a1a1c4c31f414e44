"""
A wallet with a database under uvicorn (uvloop, httptools, one worker), in a process of its own.

Run as a program with a name and a database it reads the service's public key from its standard input up to a blank
line, prints its port, and serves until the input ends.
"""

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import uvicorn
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_public_key

from benchmarks.peers.raw_asgi import raw_app
from benchmarks.webhook_server import telling_its_cost
from game_operator.ledger import AsyncSqlLedger
from game_operator.wallet import AsyncWallet
from game_operator.webhooks import RsaSignature, WebhookReceiver, asgi_app

__all__ = ["running_wallet"]


# Any: an application of ASGI, which has no type that all frameworks share.
def _ours(key: RSAPublicKey, url: str, telemetry: Any = None) -> Any:
    receiver = WebhookReceiver(authenticator=RsaSignature(key), telemetry=telemetry)
    return asgi_app(receiver, AsyncWallet(AsyncSqlLedger(url, telemetry=telemetry)))


def _observed(sampled: float | None, key: RSAPublicKey, url: str) -> Any:
    """Return our wallet, whose metrics go to an exporter of the SDK, and the share *sampled* of its traces, if any."""
    from opentelemetry import trace
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import ConsoleMetricExporter, PeriodicExportingMetricReader
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
    from opentelemetry.sdk.trace.sampling import ParentBasedTraceIdRatio

    from game_operator.telemetry import Telemetry

    traces: trace.TracerProvider = trace.NoOpTracerProvider()
    if sampled is not None:
        traces = sdk = TracerProvider(ParentBasedTraceIdRatio(sampled))
        sdk.add_span_processor(BatchSpanProcessor(InMemorySpanExporter()))
    out = Path(os.devnull).open("w")  # noqa: SIM115 - until the process ends
    reader = PeriodicExportingMetricReader(ConsoleMetricExporter(out=out), 5_000)
    return _ours(key, url, Telemetry(traces, MeterProvider([reader])))


def _by_hand(key: RSAPublicKey, url: str) -> Any:
    from benchmarks.peers.fastapi_sqlalchemy import fastapi_app  # Half a second, and nothing the others need.

    return fastapi_app(key, url)


_APPLICATIONS: dict[str, Callable[[RSAPublicKey, str], Any]] = {
    "ours": _ours,
    "all traces": partial(_observed, 1.0),
    "a tenth of traces": partial(_observed, 0.1),
    "metrics": partial(_observed, None),
    "by hand": _by_hand,
    "raw": lambda key, _url: raw_app(key),
}


@contextmanager
def running_wallet(name: str, public_key: RSAPublicKey, url: str = "") -> Iterator[Callable[[], int]]:
    """Start the application called *name* on the database *url* and yield what waits for its port and returns it."""
    command = [sys.executable, "-m", "benchmarks.wallet_server", name, url]
    pem = public_key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        standard_input, standard_output = process.stdin, process.stdout
        assert standard_input
        assert standard_output
        try:
            standard_input.write(pem + b"\n")
            standard_input.flush()
            yield lambda: int(standard_output.readline())
        finally:
            standard_input.close()


def main() -> None:
    """Serve until the standard input ends."""
    name, url = sys.argv[1:]
    key = load_pem_public_key(b"".join(iter(sys.stdin.buffer.readline, b"\n")))
    assert isinstance(key, RSAPublicKey)
    app = telling_its_cost(_APPLICATIONS[name](key, url))
    config = uvicorn.Config(
        app, loop="uvloop", http="httptools", access_log=False, log_level="warning", proxy_headers=False
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
