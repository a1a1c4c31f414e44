"""Scripts for a ``HostileServer`` that make it an HTTP proxy: CONNECT for https, the absolute form for http."""

import contextlib
import select
import socket

from tests.support.hostile_server import Connection, Script, response_bytes

__all__ = ["NAMED_BY_PROXY", "forward", "refuse"]

#: A machine that only the proxy knows; it is this one.
NAMED_BY_PROXY = "service.test"


def forward(connection: Connection) -> None:
    """Forward to wherever the request says, until either side hangs up."""
    request = connection.read_request()
    if not request:
        return
    method, target, _ = request.split(b" ", 2)
    host, port = _address(target)
    with socket.create_connection((host, port), timeout=5.0) as upstream:
        if method == b"CONNECT":
            connection.send(b"HTTP/1.1 200 Connection established\r\n\r\n")
        else:
            path = b"/" + target.split(b"/", 3)[3]
            upstream.sendall(request.replace(target, path, 1))
        _pump(connection, upstream)
    connection.close()


def refuse(status: int, *headers: bytes) -> Script:
    """Return a script that refuses to forward anything."""

    def script(connection: Connection) -> None:
        if connection.read_request():
            connection.send(response_bytes(status, b"", *headers))
            connection.close()

    return script


def _address(target: bytes) -> tuple[str, int]:
    authority = target.split(b"/")[2] if b"://" in target else target
    host, _, port = authority.decode().partition(":")
    return "127.0.0.1" if host == NAMED_BY_PROXY else host, int(port)


def _pump(connection: Connection, upstream: socket.socket) -> None:
    sides = {connection.sock: upstream, upstream: connection.sock}
    with contextlib.suppress(OSError):
        while not connection.stopping.is_set():
            for side in select.select(list(sides), [], [], 0.05)[0]:
                data = side.recv(65536)
                if not data:
                    return
                sides[side].sendall(data)
