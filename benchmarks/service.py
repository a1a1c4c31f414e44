"""
A service that knows four answers by heart: HTTP/1.1 on loopback, in a process of its own.

It verifies nothing and decides nothing, so that what is measured is the client; it only puts the ids asked for into its
answers. Run as a program it prints its port and serves until its standard input ends; over TLS if it is given the file
of a certificate with its key.
"""

import asyncio
import json
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.bodies import BET_ID, INSTANCE_ID, ROUND_ID, catalogue, grant_accepted, one_bet, round_of

__all__ = ["running_service"]

_BET_ID, _ROUND_ID, _INSTANCE_ID = BET_ID.encode(), ROUND_ID.encode(), INSTANCE_ID.encode()


@contextmanager
def running_service(certificate: str | None = None) -> Iterator[str]:
    """Start the service and yield its base URL; with the file of a *certificate*, it is an https one."""
    command = [sys.executable, "-m", "benchmarks.service", *([certificate] if certificate else [])]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin
        assert process.stdout
        try:
            yield f"{'https' if certificate else 'http'}://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.stdin.close()


def _answer(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)


class _ByHeart(asyncio.Protocol):
    """Answers each request as soon as it is complete, by the word its path holds."""

    bodies: dict[bytes, bytes]
    #: Those that tell nothing of what was asked.
    answers: dict[bytes, bytes]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._received = b""

    def data_received(self, data: bytes) -> None:
        self._received += data
        while (end := self._end_of_request()) is not None:
            request, self._received = self._received[:end], self._received[end:]
            path = request.split(b" ", 2)[1].split(b"/", 4)
            self._transport.write(self.answers.get(path[3]) or self._about(path, request))

    def _about(self, path: list[bytes], request: bytes) -> bytes:
        """Return the answer about the bet in *path*, or about the round in the body of *request*."""
        if path[3] == b"fetch-bet":
            return _answer(self.bodies[path[3]].replace(_BET_ID, path[4], 1))
        asked = json.loads(request.partition(b"\r\n\r\n")[2])
        body = self.bodies[path[3]].replace(_INSTANCE_ID, asked["instance_id"].encode(), 1)
        return _answer(body.replace(_ROUND_ID, asked["round_id"].encode(), 1))

    def _end_of_request(self) -> int | None:
        head, found, _ = self._received.partition(b"\r\n\r\n")
        if not found:
            return None
        _, _, after = head.lower().partition(b"\r\ncontent-length:")
        end = len(head) + 4 + int(after.split(b"\r\n", 1)[0] or 0)
        return end if len(self._received) >= end else None


async def _serve(certificate: str | None) -> None:
    _ByHeart.bodies = {b"fetch-bet": one_bet(), b"fetch-round-bets": round_of(20)}
    _ByHeart.answers = {b"fetch-games": _answer(catalogue()), b"free-bet": _answer(grant_accepted())}
    loop, tls = asyncio.get_running_loop(), None
    if certificate is not None:
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(certificate)
    server = await loop.create_server(_ByHeart, "127.0.0.1", 0, backlog=512, ssl=tls)
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)
    server.close()


if __name__ == "__main__":
    asyncio.run(_serve(sys.argv[1] if len(sys.argv) > 1 else None))
