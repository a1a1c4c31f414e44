"""
A service that knows two answers by heart: HTTP/1.1 on loopback, in a process of its own.

It verifies nothing and decides nothing, so that what is measured is the client; it only puts the bet asked for into its
answer. Run as a program it prints its port and serves until its standard input ends.
"""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.bodies import BET_ID, catalogue, one_bet

__all__ = ["running_service"]


@contextmanager
def running_service() -> Iterator[str]:
    """Start the service and yield its base URL."""
    command = [sys.executable, "-m", "benchmarks.service"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin
        assert process.stdout
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.stdin.close()


class _ByHeart(asyncio.Protocol):
    """Answers each request, none of which has a body, as soon as its head is there."""

    bet, games = one_bet(), catalogue()
    received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        *requests, self.received = (self.received + data).split(b"\r\n\r\n")
        for request in requests:
            name = request.split(b" ", 2)[1].rpartition(b"/")[2]
            body = self.games if name == b"fetch-games" else self.bet.replace(BET_ID.encode(), name, 1)
            head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
            self._transport.write(head + body)


async def _serve() -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(_ByHeart, "127.0.0.1", 0, backlog=512)
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)
    server.close()


if __name__ == "__main__":
    asyncio.run(_serve())
