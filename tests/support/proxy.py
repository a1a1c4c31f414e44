"""Scripts for a ``HostileServer`` that make it a proxy: CONNECT for https, the absolute form for http, and SOCKS5."""

import contextlib
import select
import socket

from tests.support.hostile_server import Connection, Script, response_bytes

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
        pump(connection, upstream)
    connection.close()


def forward_socks(connection: Connection) -> None:
    """Forward to wherever a SOCKS5 client says (RFC 1928, RFC 1929); the first of its ``requests`` is who it is."""
    upstream = _agree_on_socks(connection)
    if upstream is not None:
        with upstream:
            connection.send(b"\5\0\0\1" + bytes(6))
            pump(connection, upstream)
    connection.close()


def _agree_on_socks(connection: Connection) -> socket.socket | None:
    """Return a connection to where the client wants to go."""
    sock = connection.sock
    methods = sock.recv(262)
    if b"\2" in methods[2:]:
        connection.send(b"\5\2")
        connection.requests.append(sock.recv(513))
        connection.send(b"\1\0")
    else:
        connection.send(b"\5\0")
    wanted = sock.recv(262)
    if len(wanted) < 7:
        return None
    host = socket.inet_ntoa(wanted[4:8]) if wanted[3] == 1 else wanted[5:-2].decode()
    return socket.create_connection((host, int.from_bytes(wanted[-2:], "big")), timeout=5.0)


def silent_after(scheme: str, last: str) -> Script:
    """Return a script that goes on to the step *last* of a handshake, and no further."""

    def script(connection: Connection) -> None:
        if scheme == "socks5" and last != "connected":
            connection.sock.recv(262)
            connection.send(b"\5\0")
            if last == "tunnel":
                connection.sock.recv(262)
                connection.send(b"\5\0\0\1" + bytes(6))
        elif last == "tunnel" and connection.read_request():
            connection.send(b"HTTP/1.1 200 Connection established\r\n\r\n")
        connection.wait_for_peer()

    return script


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


def pump(connection: Connection, upstream: socket.socket) -> None:
    """Pass on what either side sends, until one hangs up."""
    sides = {connection.sock: upstream, upstream: connection.sock}
    with contextlib.suppress(OSError):
        while not connection.stopping.is_set():
            for side in select.select(list(sides), [], [], 0.05)[0]:
                data = side.recv(65536)
                if not data:
                    return
                sides[side].sendall(data)
