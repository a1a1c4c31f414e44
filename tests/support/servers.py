"""Real servers on loopback, each in a thread of its own, and a client that says exactly what it is told to say."""

import asyncio
import contextlib
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

import uvicorn
import uvicorn.server

PATIENCE_SECONDS = 20.0
_LOOK_SECONDS = 0.005


class _Asyncio:
    """asyncio as uvicorn's loops see it: their pauses of 0.1 s are shorter."""

    def __getattr__(self, name: str) -> Any:
        return getattr(asyncio, name)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(min(seconds, _LOOK_SECONDS))


def look_often() -> None:
    """Let each uvicorn in this process see in 5 ms that it is to end: it looks ten times a second otherwise."""
    vars(uvicorn.server)["asyncio"] = _Asyncio()


@contextmanager
def asgi_server(app: Any, *, loop: Any = "asyncio", http: Any = "h11", **options: Any) -> Iterator[int]:
    """Serve *app* with uvicorn and yield the port; what it logs as an error is raised at the end."""
    config = uvicorn.Config(
        app, loop=loop, http=http, log_config=None, ws="none", proxy_headers=False, access_log=False, **options
    )
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:
        # Without it, answers on a connection that is kept wait 40 ms for the client to acknowledge the headers.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
        thread.start()
        _wait_for(server, thread)
        try:
            yield listener.getsockname()[1]
        finally:
            server.should_exit = True
            thread.join(PATIENCE_SECONDS)
            assert not thread.is_alive(), "the server does not end"


def _wait_for(server: uvicorn.Server, thread: threading.Thread) -> None:
    give_up = time.monotonic() + PATIENCE_SECONDS
    while not server.started:
        assert thread.is_alive(), "the server did not start"
        assert time.monotonic() < give_up
        time.sleep(0.005)


def wait_until_it_listens(port: int, process: "subprocess.Popen[bytes]", log: Path | None = None) -> None:
    """Wait until *process*, which writes to *log*, takes connections on *port*."""
    give_up = time.monotonic() + PATIENCE_SECONDS
    while True:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        is_to_come = process.poll() is None and time.monotonic() < give_up
        assert is_to_come, log.read_text() if log else "it does not listen"
        time.sleep(0.02)


class _Quiet(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the standard library's name
        """Say nothing."""


@contextmanager
def wsgi_server(app: Any, server: type[WSGIServer] = WSGIServer) -> Iterator[int]:
    """Serve *app* with wsgiref and yield the port."""
    with make_server("127.0.0.1", 0, app, server_class=server, handler_class=_Quiet) as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield running.server_port
        finally:
            running.shutdown()
            thread.join(PATIENCE_SECONDS)


class RawClient:
    """A connection that sends bytes as they are, and reads replies with a content-length."""

    def __init__(self, port: int) -> None:
        self._sock = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_SECONDS)
        self._read = b""

    def __enter__(self) -> "RawClient":
        return self

    def __exit__(self, *_: object) -> None:
        self._sock.close()

    def send(self, data: bytes) -> None:
        """Send all of *data*."""
        self._sock.sendall(data)

    def send_for_ever(self) -> None:
        """Send until the other side has had enough, which raises."""
        while True:
            self.send(b"x" * 1_000_000)

    def reply(self, *, has_body: bool = True) -> tuple[int, dict[str, str], bytes]:
        """Return the next reply: status, headers with lower-case names, body."""
        while b"\r\n\r\n" not in self._read:
            self._receive()
        head, _, rest = self._read.partition(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines[1:])}
        length = int(headers.get("content-length", 0)) if has_body else 0
        while len(rest) < length:
            self._receive()
            rest = self._read.partition(b"\r\n\r\n")[2]
        self._read = rest[length:]
        return int(lines[0].split()[1]), headers, rest[:length]

    def is_closed(self) -> bool:
        """Return whether the server closes the connection without another word."""
        with contextlib.suppress(ConnectionError):
            return self._sock.recv(1) == b""
        return True

    def reset(self) -> None:
        """Hang up so that the server is told of it at once."""
        self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._sock.close()

    def _receive(self) -> None:
        data = self._sock.recv(65_536)
        if not data:
            raise ConnectionError("the server hung up")
        self._read += data


def request_bytes(
    path: str, body: bytes, headers: dict[str, str], *, method: str = "POST", length: int | str | None = -1
) -> bytes:
    """Return a request as it travels; *length* is what its Content-Length claims, None for none."""
    claimed = len(body) if length == -1 else length
    lines = [f"{method} {path} HTTP/1.1", "Host: wallet.example", *(f"{name}: {headers[name]}" for name in headers)]
    if claimed is not None:
        lines.append(f"Content-Length: {claimed}")
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


def reply_to(port: int, data: bytes, *, has_body: bool = True) -> tuple[int, dict[str, str], bytes]:
    """Send *data* over a connection of its own and return the reply."""
    with RawClient(port) as client:
        client.send(data)
        return client.reply(has_body=has_body)
