"""What strangers send to an operator's own program under uvicorn, and what SafeProtocol makes of it (RFC 9110 §7.8)."""

import asyncio
from typing import Any, TypeAlias
from unittest.mock import Mock

import pytest
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from game_operator.serve import SafeProtocol

H2C = "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAEAAEAAAAIAAAAB\r\n"
NEXT = b"GET /next HTTP/1.1\r\nHost: x\r\n\r\n"
#: What a stranger leaves: the next request on the connection would become the rest of it.
LEFT = b"\r\nPOST /left HTTP/1.1\r\nHost: x\r\nX: "
#: Each way to ask for an upgrade, and whether the connection ends with the answer.
FORMS = {
    "Upgrade: foo\r\n": False,
    "Connection: upgrade\r\n": False,
    "Connection: Upgrade\r\nUpgrade: foo\r\n": False,
    "CONNECTION: UPGRADE\r\nUPGRADE: TLS/1.2, HTTP/2.0\r\n": False,
    "Connection: keep-alive, upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n": False,
    "Connection: keep-alive\r\nX-Empty:\r\nConnection: Upgrade\r\nUpgrade: a\r\nUpgrade: b\r\n": False,
    H2C: False,
    "Connection: close, Upgrade\r\nUpgrade: foo\r\n": True,
    "Connection: Upgrade\r\nUpgrade: foo\r\nConnection: close\r\n": True,
    "Upgrade: foo\r\nConnection: close\r\nConnection: Upgrade\r\n": True,
}

Seen: TypeAlias = tuple[list[tuple[str, bytes]], list[int], bool]


class Wire:
    """A connection without a socket: what the application got, and what was sent and closed."""

    def __init__(self, protocol: type[HttpToolsProtocol] = SafeProtocol) -> None:
        self.got: list[tuple[str, bytes]] = []
        self.headers: list[list[tuple[bytes, bytes]]] = []
        self.sent = b""
        self.closing = False
        self.transport = Mock(**{"is_closing": lambda: self.closing, "get_extra_info.return_value": None})
        self.transport.write = self._write
        self.transport.close = self.transport.abort = self._close
        config = uvicorn.Config(self._application, ws="none", interface="asgi3", log_config=None, access_log=False)
        self.protocol = protocol(config, ServerState(), {}, asyncio.get_running_loop())
        self.protocol.connection_made(self.transport)

    def _write(self, data: bytes) -> None:
        self.sent += data

    def _close(self) -> None:
        self.closing = True

    async def _application(self, scope: Any, receive: Any, send: Any) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        self.got.append((f"{scope['method']} {scope['path']}", body))
        self.headers.append(scope["headers"])
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body"})

    async def receive(self, *pieces: bytes) -> None:
        """Let *pieces* arrive one after another, each answered as far as it can be, until the connection closes."""
        for piece in pieces:
            if not self.closing:
                self.protocol.data_received(piece)
                for _ in range(40):
                    if self.protocol.tasks:
                        await asyncio.sleep(0)


def seen(*pieces: bytes, protocol: type[HttpToolsProtocol] = SafeProtocol) -> Seen:
    """Return what the application got, the status codes that were sent, and whether the connection was closed."""

    async def run() -> Seen:
        wire = Wire(protocol)
        await wire.receive(*pieces)
        codes = [int(line.split()[1]) for line in wire.sent.splitlines() if line.startswith(b"HTTP/1.1 ")]
        closed = wire.closing
        wire.protocol.connection_lost(None)
        return wire.got, codes, closed

    return asyncio.run(run())


def post(body: bytes, form: str, *, chunked: bool = False, trailers: str = "", version: str = "1.1") -> bytes:
    """Return a request with *body* that asks for an upgrade."""
    framing = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {len(body)}"
    framed = b"%x;e=1\r\n%s\r\n0\r\n%s\r\n" % (len(body), body, trailers.encode()) if chunked else body
    return f"POST /call HTTP/{version}\r\nHost: x\r\n{form}{framing}\r\n\r\n".encode() + framed


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("form", FORMS)
def test_an_upgrade_is_ignored_wherever_the_packets_end(form: str, chunked: bool) -> None:
    """Its body is read and answered once, requests before and behind it too; a close beside it is kept."""
    call = post(LEFT, form, chunked=chunked, trailers="X-Forwarded-For: 1.1.1.1\r\n")
    data = NEXT + call + NEXT
    expected = [("GET /next", b""), ("POST /call", LEFT), ("GET /next", b"")][: 2 if FORMS[form] else 3]
    outcome = (expected, [200] * len(expected), FORMS[form])
    assert seen(data) == outcome
    for cut in range(1, len(data)):
        assert seen(data[:cut], data[cut:]) == outcome, data[:cut]
    assert seen(*(data[each : each + 1] for each in range(len(data)))) == outcome
