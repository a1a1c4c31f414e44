"""
A server on loopback that misbehaves as told: one script per connection, in a thread of its own.

The last script serves all further connections. A script that returns leaves its connection open: the server then
reads on until the other side closes it, so that a test can tell what was closed from what was left behind.
"""

import contextlib
import select
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Sequence
from typing import Self
from urllib.parse import unquote

from tests.support.wire import bet, wire

_PATIENCE_SECONDS = 10.0


class Connection:
    """One accepted connection, in the hands of a script."""

    def __init__(self, sock: socket.socket, stopping: threading.Event) -> None:
        self.sock = sock
        self.stopping = stopping
        self.requests: list[bytes] = []
        self._read = b""

    def read_request(self) -> bytes:
        """Return the next whole request, head and body; ``b""`` when the other side is gone."""
        while b"\r\n\r\n" not in self._read:
            if not self._receive():
                return b""
        head, _, rest = self._read.partition(b"\r\n\r\n")
        length = next((int(line[15:]) for line in head.lower().split(b"\r\n") if line[:15] == b"content-length:"), 0)
        while len(rest) < length:
            if not self._receive():
                return b""
            rest = self._read.partition(b"\r\n\r\n")[2]
        request, self._read = head + b"\r\n\r\n" + rest[:length], rest[length:]
        self.requests.append(request)
        return request

    def send(self, data: bytes) -> bool:
        """Send *data*; False when the other side is gone."""
        try:
            self.sock.sendall(data)
        except OSError:
            return False
        return True

    def drip(self, data: bytes, every_seconds: float = 0.02) -> None:
        """Send *data* byte by byte until the other side is gone."""
        for position in range(len(data)):
            if not self.send(data[position : position + 1]) or self.stopping.wait(every_seconds):
                return

    def close(self) -> None:
        """Close in good order."""
        self.sock.close()

    def reset(self) -> None:
        """Close so that the other side is told of a reset."""
        with contextlib.suppress(OSError):
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()

    def wait_for_peer(self) -> None:
        """Read on until the other side closes, or the server stops."""
        with contextlib.suppress(OSError):
            while self._receive():
                pass

    def _receive(self) -> bool:
        try:
            data = self.sock.recv(65536)
        except OSError:
            return False
        self._read += data
        return bool(data)


Script = Callable[[Connection], None]


class HostileServer:
    """
    Listens on a free port of 127.0.0.1 while the ``with`` block runs.

    Attributes:
        port: Where it listens.
        base_url: The same, as a base URL.
        connections: Every connection accepted so far, in order.
    """

    def __init__(self, *scripts: Script, tls: ssl.SSLContext | None = None) -> None:
        self._scripts: Sequence[Script] = scripts
        self._tls = tls
        self._stopping = threading.Event()
        self._refuses = False
        self._threads: list[threading.Thread] = []
        self.connections: list[Connection] = []

    @property
    def requests(self) -> list[bytes]:
        """Every whole request read so far, in the order of the connections."""
        return [request for connection in self.connections for request in connection.requests]

    def wait_until_closed(self, seconds: float = 3.0, *, connections: int = 0) -> bool:
        """Return whether the other side closes every connection, and at least so many, within *seconds*."""
        give_up = time.monotonic() + seconds
        while len(self._threads) <= connections and time.monotonic() < give_up:
            time.sleep(0.001)
        for thread in self._threads[1:]:
            thread.join(max(0.0, give_up - time.monotonic()))
        return not any(thread.is_alive() for thread in self._threads[1:])

    def accept_no_more(self) -> None:
        """Refuse new connections, as a process that is gone does; those that are open stay so."""
        self._refuses = True
        self._wake.close()
        self._threads[0].join(_PATIENCE_SECONDS)

    def __enter__(self) -> Self:
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self._wake, self._woken = socket.socketpair()
        self.port: int = self._listener.getsockname()[1]
        self.base_url = f"{'https' if self._tls else 'http'}://127.0.0.1:{self.port}"
        self._start(self._accept)
        return self

    def __exit__(self, *_exc: object) -> None:
        self._stopping.set()
        self._wake.close()
        for connection in self.connections:
            with contextlib.suppress(OSError):
                connection.sock.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(_PATIENCE_SECONDS)
        self._woken.close()
        self._listener.close()

    def _start(self, target: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=target, args=arguments, daemon=True)
        thread.start()
        self._threads.append(thread)

    def _accept(self) -> None:
        while self._listener in select.select([self._listener, self._woken], [], [])[0]:
            if self._stopping.is_set():
                return
            sock, _ = self._listener.accept()
            # A blocked thread would outlive its test.
            sock.settimeout(_PATIENCE_SECONDS)
            connection = Connection(sock, self._stopping)
            script = self._scripts[min(len(self.connections), len(self._scripts) - 1)]
            self.connections.append(connection)
            self._start(self._serve, connection, script)
        if self._refuses:
            self._listener.close()

    def _serve(self, connection: Connection, script: Script) -> None:
        try:
            if self._tls is not None:
                connection.sock = self._tls.wrap_socket(connection.sock, server_side=True)
            script(connection)
            connection.wait_for_peer()
        except OSError:
            pass  # The other side hung up, or its handshake failed: that is what the test is about.
        finally:
            connection.sock.close()


def response_bytes(status: int, body: bytes = b"", *headers: bytes, length: int | None = None) -> bytes:
    """Return a response as it travels; *length* is the content-length it claims."""
    lines = (b"HTTP/1.1 %d Said" % status, b"Content-Length: %d" % (len(body) if length is None else length), *headers)
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def answer(data: bytes) -> Script:
    """Return a script that answers every request with *data*."""

    def script(connection: Connection) -> None:
        while connection.read_request():
            if not connection.send(data):
                return

    return script


def found(request: bytes) -> bytes:
    """Return the answer to a fetch-bet *request*: the bet asked for, open."""
    bet_id = unquote(request.split(b" ")[1].rpartition(b"/")[2].decode())
    return response_bytes(200, wire(bet(reference_id=bet_id)))


def knows_every_bet(connection: Connection) -> None:
    """Answer every request with the bet asked for."""
    while (request := connection.read_request()) and connection.send(found(request)):
        pass
