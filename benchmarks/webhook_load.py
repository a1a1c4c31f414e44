"""Signed withdraws over keep-alive connections: the load for the servers of the receiver's benchmark."""

import asyncio
import hmac
import json
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from itertools import cycle, islice
from urllib.request import urlopen

from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.hashes import SHA256

from benchmarks.measure import Cost

__all__ = ["WebhookLoad", "post_all", "requests_with_hmac", "signed_requests"]


#: What the answer to a success holds, and how an answer ends.
_SUCCESS, _ENDS = b'"SUCCESS"', b"}"


def signed_requests(private_key: RSAPrivateKey, count: int) -> list[bytes]:
    """Return whole requests, each another bet, signed beforehand: the load must not wait for its own signing."""

    def sign(body: bytes) -> bytes:
        return urlsafe_b64encode(private_key.sign(body, PKCS1v15(), SHA256())).rstrip(b"=")

    return [_request(sign, _withdraw(number)) for number in range(count)]


def requests_with_hmac(secret: bytes, count: int) -> list[bytes]:
    """Return the same requests, signed with a shared secret."""

    def sign(body: bytes) -> bytes:
        return hmac.new(secret, body, sha256).hexdigest().encode()

    return [_request(sign, _withdraw(number)) for number in range(count)]


def _withdraw(number: int) -> bytes:
    call = {
        "player_id": f"player-{number % 100:03d}",
        "amount": 5000,
        "game": "aviator",
        "instance_id": "instance-1",
        "action": "BET",
        "action_id": f"bet-{number:08d}",
        "tx_id": f"withdraw:bet:bet-{number:08d}",
    }
    return json.dumps(call, separators=(",", ":")).encode()


def _request(sign: Callable[[bytes], bytes], body: bytes) -> bytes:
    head = (
        b"POST /withdraw HTTP/1.1\r\nHost: wallet.example\r\nUser-Agent: game-service/1.0\r\nAccept: */*\r\n"
        b"Content-Type: application/json\r\nSignature: %b\r\nContent-Length: %d\r\n\r\n"
    )
    return head % (sign(body), len(body)) + body


class _Caller(asyncio.Protocol):
    """Sends a request as soon as the one before is answered, until there are no more."""

    def __init__(self, requests: Iterator[bytes], success: bytes, ends: bytes) -> None:
        self._requests, self._success, self._ends = requests, success, ends
        self._received = b""
        self.answered = 0
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._next()

    def data_received(self, data: bytes) -> None:
        self._received += data
        if not self._received.endswith(self._ends):
            return
        answered, self._received = self._received, b""
        if self._success in answered:
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


def post_all(port: int, requests: Iterator[bytes], width: int, success: bytes = _SUCCESS, ends: bytes = _ENDS) -> int:
    """
    Send *requests* to the server on *port* over *width* connections at once; return how many there were.

    Raises:
        RuntimeError: The answer to one does not hold *success*.
    """
    return asyncio.run(_post_all(port, requests, width, success, ends))


async def _post_all(port: int, requests: Iterator[bytes], width: int, success: bytes, ends: bytes) -> int:
    loop = asyncio.get_running_loop()
    callers = []
    for _ in range(width):
        _, caller = await loop.create_connection(lambda: _Caller(requests, success, ends), "127.0.0.1", port)
        callers.append(caller)
    await asyncio.gather(*(caller.ended for caller in callers))
    return sum(caller.answered for caller in callers)


class WebhookLoad:
    """Calls the server on *port* over *width* connections at once; the cost is the server's."""

    def __init__(
        self, port: int, requests: Sequence[bytes], width: int, *, success: bytes = _SUCCESS, ends: bytes = _ENDS
    ) -> None:
        self._success, self._ends = success, ends
        self._port = port
        self._requests: Iterator[bytes] = cycle(requests)
        self._width = width

    def __call__(self, calls: int) -> Cost:
        cpu, wall = self._cpu_seconds(), time.perf_counter()
        post_all(self._port, islice(self._requests, calls), min(self._width, calls), self._success, self._ends)
        ended = time.perf_counter()
        return Cost(self._cpu_seconds() - cpu, ended - wall)

    def _cpu_seconds(self) -> float:
        with urlopen(f"http://127.0.0.1:{self._port}/cpu") as answer:
            return int(answer.read()) / 1e9
