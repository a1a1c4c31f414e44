"""
A connection that behaves badly on purpose: it hangs up, is reset, or brings the request in pieces.

An HTTP client would never do so, so this one is made of a socket and the parser that httpx uses.
"""

import asyncio
import socket
import ssl
import struct
from dataclasses import replace
from typing import Final
from urllib.parse import urlsplit

import h11

from game_operator.protocol.http import HeaderPairs, HttpReply, defect_of, joined_headers
from game_operator_testkit.provider.requests import Manner, Request

_PIECES: Final = 4
_PAUSE_SECONDS: Final = 0.005
_PATIENCE_SECONDS: Final = 0.002
_MOST_BYTES: Final = 1_048_576
#: Close at once, by a reset.
_LINGER: Final = struct.pack("ii", 1, 0)


async def post_roughly(
    url: str,
    request: Request,
    headers: HeaderPairs,
    timeout: float,
    *,
    ssl_context: ssl.SSLContext | None = None,
    local_address: str | None = None,
) -> HttpReply | None:
    """
    Send *request* with *headers* to *url*, over its own connection; None if nobody waited for the answer.

    Raises:
        OSError: The connection failed or broke; TimeoutError is one.
        ValueError: The answer is not HTTP.
    """
    parts = urlsplit(url)
    context = (ssl_context or ssl.create_default_context()) if parts.scheme == "https" else None
    async with asyncio.timeout(timeout):
        reader, writer = await asyncio.open_connection(
            parts.hostname,
            parts.port or (443 if context else 80),
            ssl=context,
            local_addr=None if local_address is None else (local_address, 0),
        )
        try:
            length = (b"Content-Length", b"%d" % len(request.body))
            if request.manner is Manner.CHUNKED:
                length = (b"Transfer-Encoding", b"chunked")
            own = ((b"Host", parts.netloc.encode()), (b"Accept-Encoding", b"identity"), length)
            head = h11.Request(method=request.method, target=parts.path or "/", headers=[*own, *headers])
            return await _posted(reader, writer, head, request.body, request.manner)
        finally:
            writer.transport.abort()


async def _posted(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    begin: h11.Request,
    body: bytes,
    manner: Manner,
) -> HttpReply | None:
    wire = h11.Connection(h11.CLIENT)
    head = wire.send(begin) or b""
    if manner is Manner.HALF:
        writer.write(head + body[: len(body) // 2])
        return await _answer(reader, wire)
    size = max(1, -(-len(body) // _PIECES) if manner is Manner.CHUNKED else len(body))
    chunks = [h11.Data(data=body[start : start + size]) for start in range(0, len(body), size)]
    octets = head + b"".join(filter(None, map(wire.send, (*chunks, h11.EndOfMessage()))))
    if manner is Manner.SLOW:
        size = -(-len(octets) // _PIECES)
        for start in range(0, len(octets), size):
            writer.write(octets[start : start + size])
            await asyncio.sleep(_PAUSE_SECONDS)
        return await _answer(reader, wire)
    writer.write(octets)
    if manner in (Manner.CHUNKED, Manner.WHOLE):
        return await _answer(reader, wire)
    if manner is Manner.FOLLOWED:
        first = await _answer(reader, wire)
        return await _following(reader, writer, wire, begin, body) or first
    await writer.drain()
    if manner is Manner.HANG_UP:
        await asyncio.sleep(_PATIENCE_SECONDS)
    else:
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER)
    return None


async def _following(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, wire: h11.Connection, request: h11.Request, body: bytes
) -> HttpReply | None:
    """Post *body* on a connection that had an answer, and return the next one; None if it is closed by then."""
    if wire.our_state is not h11.DONE or wire.their_state is not h11.DONE:
        return None
    wire.start_next_cycle()
    following = h11.Request(method="POST", target=request.target, headers=request.headers)
    writer.write(b"".join(filter(None, map(wire.send, (following, h11.Data(data=body), h11.EndOfMessage())))))
    try:
        return replace(await _answer(reader, wire), reused=True)
    except OSError:
        return None


async def _answer(reader: asyncio.StreamReader, wire: h11.Connection) -> HttpReply:
    status, body = 0, bytearray()
    headers: HeaderPairs = ()
    while len(body) <= _MOST_BYTES:
        try:
            event = wire.next_event()
        except h11.RemoteProtocolError as broken:
            raise ValueError(f"the answer is not HTTP: {broken}") from None
        match event:
            case h11.NEED_DATA:
                data = await reader.read(65_536)
                if not (data or status):
                    raise ConnectionResetError("the connection was closed before the answer")
                wire.receive_data(data)
            case h11.Response():
                status, headers = event.status_code, tuple(event.headers.raw_items())
            case h11.Data():
                body += event.data
            case h11.EndOfMessage():
                break
    defect = defect_of(headers, len(body), _MOST_BYTES)
    return HttpReply(status, joined_headers(headers), bytes(body[:_MOST_BYTES]), defect)
