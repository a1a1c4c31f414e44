"""Webhooks signed beforehand, and what posts them: the load must not wait for its own signing."""

import asyncio
import json
import os
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import chain, islice
from typing import Any
from urllib.request import urlopen

import uvloop
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key

from benchmarks.peers.by_hand import signature_of

__all__ = ["HttpLoad", "signed_withdraws"]

#: So many are signed at a time.
_SOME = 100


def signed_withdraws(private_key: RSAPrivateKey, count: int, players: int) -> list[bytes]:
    """Return whole requests of HTTP, each another bet of one of the players p1, p2 and so on."""
    pem = private_key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        some = pool.map(partial(_signed, pem, players), range(0, count, _SOME))
        return list(islice(chain.from_iterable(some), count))


def _signed(pem: bytes, players: int, first: int) -> list[bytes]:
    key = load_pem_private_key(pem, None, unsafe_skip_rsa_key_validation=True)
    assert isinstance(key, RSAPrivateKey)
    return [_request(key, number, players) for number in range(first, first + _SOME)]


def _request(key: RSAPrivateKey, number: int, players: int) -> bytes:
    # Ids as a service writes them: no order in them.
    bet_id = f"{number * 2654435761 % 2**32:08x}{number:016x}"
    call = {
        "player_id": f"p{number * 7919 % players + 1}",
        "amount": 100,
        "game": "aviator",
        "instance_id": "instance-1",
        "action": "BET",
        "action_id": bet_id,
        "tx_id": f"withdraw:bet:{bet_id}",
    }
    body = json.dumps(call, separators=(",", ":")).encode()
    head = (
        b"POST /withdraw HTTP/1.1\r\nHost: wallet.example\r\nUser-Agent: game-service/1.0\r\nAccept: */*\r\n"
        b"Content-Type: application/json\r\nSignature: %b\r\nContent-Length: %d\r\n\r\n"
    )
    return head % (signature_of(key, body).encode(), len(body)) + body


class HttpLoad:
    """
    Posts *requests* to the server on *port* over *width* connections at once.

    Attributes:
        answered: How many were answered with SUCCESS so far.
    """

    def __init__(self, port: int, requests: Iterator[bytes], width: int) -> None:
        self._port, self._requests, self._width = port, requests, width
        self.answered = 0

    def cpu(self, calls: float) -> float:
        """Return the seconds of the processor that a call takes the server."""
        before = self._cpu_seconds()
        self._post(islice(self._requests, int(calls)), min(self._width, int(calls)))
        return (self._cpu_seconds() - before) / calls

    def rate(self, seconds: float) -> float:
        """Return how many calls a second are answered."""
        began = time.perf_counter()
        answered = self._post(_until(began + seconds, self._requests), self._width)
        return answered / (time.perf_counter() - began)

    def _post(self, requests: Iterator[bytes], width: int) -> int:
        answered = uvloop.run(_post_all(self._port, requests, width))
        self.answered += answered
        return answered

    def _cpu_seconds(self) -> float:
        with urlopen(f"http://127.0.0.1:{self._port}/cpu") as answer:
            return int(answer.read()) / 1e9


def _until(end: float, requests: Iterator[bytes]) -> Iterator[bytes]:
    while time.perf_counter() < end:
        yield next(requests)


async def _post_all(port: int, requests: Iterator[bytes], width: int) -> int:
    loop = asyncio.get_running_loop()
    opened = [await loop.create_connection(lambda: _Caller(requests), "127.0.0.1", port) for _ in range(width)]
    await asyncio.gather(*(caller.ended for _, caller in opened))
    return sum(caller.answered for _, caller in opened)


class _Caller(asyncio.Protocol):
    """Sends a request as soon as the one before is answered, until there are no more."""

    def __init__(self, requests: Iterator[bytes]) -> None:
        self._requests = requests
        self._received = b""
        self.answered = 0
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: Any = transport  # uvloop's is not one of asyncio's.
        self._next()

    def data_received(self, data: bytes) -> None:
        self._received += data
        if not self._received.endswith(b"}"):
            return
        answered, self._received = self._received, b""
        if b'"SUCCESS"' in answered:
            self.answered += 1
            self._next()
        else:
            self._end(RuntimeError(f"answered {answered!r}"))

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(ConnectionError(f"the server hung up: {exc}"))

    def _next(self) -> None:
        request = next(self._requests, None)
        if request is None:
            self._end(None)
        else:
            self._transport.write(request)

    def _end(self, failed: Exception | None) -> None:
        if self.ended.done():
            return
        if failed:
            self.ended.set_exception(failed)
        else:
            self.ended.set_result(None)
        self._transport.close()
