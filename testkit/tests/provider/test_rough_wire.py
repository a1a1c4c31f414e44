"""Connections that misbehave on purpose, and servers that do: bounded in time and memory, whatever comes back."""

import asyncio
import contextlib
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator

import pytest

from game_operator.protocol.http import HttpReply
from game_operator_testkit.provider.misbehaving import post_roughly
from game_operator_testkit.provider.requests import Manner, Request
from tests.support.hostile_server import Connection, HostileServer, Script, answer, response_bytes

pytestmark = pytest.mark.outside

BODY = b'{"player_id":"p1"}'
HEADERS = ((b"Content-Type", b"application/json"), (b"signature", b"abc"))
OK = response_bytes(200, b'{"type":"ERROR","code":"X"}')
TIMEOUT_SECONDS = 0.3


def post(url: str, manner: Manner, timeout: float = 10.0, body: bytes = BODY) -> HttpReply | None:
    return asyncio.run(post_roughly(f"{url}/withdraw", Request("", "/withdraw", body, manner=manner), HEADERS, timeout))


class Ends:
    """Reads one request, and notes how the connection ended: by a reset, closed in order, or not at all."""

    def __init__(self, answered: bytes = b"") -> None:
        self.ends: list[str] = []
        self._answered = answered

    def __call__(self, connection: Connection) -> None:
        connection.read_request()
        if self._answered:
            connection.send(self._answered)
        try:
            self.ends.append("closed" if connection.sock.recv(1) == b"" else "more")
        except ConnectionResetError:
            self.ends.append("reset")


@pytest.mark.parametrize("size", [len(BODY), 60_000])
@pytest.mark.parametrize(
    ("manner", "end"),
    [(Manner.HANG_UP, {"closed"}), (Manner.CUT, {"reset"}), (Manner.SLOW, {"closed", "reset"})],
    ids=["timeout", "reset", "slow"],
)
def test_the_whole_call_arrives(manner: Manner, end: set[str], size: int) -> None:
    """Every byte of it is there, head and body, before the connection is hung up or reset."""
    body = BODY.ljust(size)
    ends = Ends(OK if manner is Manner.SLOW else b"")
    with HostileServer(ends) as server:
        answered = post(server.base_url, manner, body=body)
        assert (answered is not None) is (manner is Manner.SLOW)
        assert server.wait_until_closed(connections=1)
    head, _, sent = server.requests[0].partition(b"\r\n\r\n")
    assert sent == body
    lines = head.split(b"\r\n")
    assert lines[0] == b"POST /withdraw HTTP/1.1"
    assert {line.lower() for line in lines[1:]} == {
        b"host: 127.0.0.1:%d" % server.port,
        b"accept-encoding: identity",
        b"content-length: %d" % size,
        b"content-type: application/json",
        b"signature: abc",
    }
    assert set(ends.ends) <= end
    assert len(server.connections) == 1


def test_a_slow_call_comes_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """It pauses after each piece, and is answered as any other."""
    body = BODY.ljust(300)
    pieces: list[bytes] = []
    piece_read = threading.Semaphore(0)

    def script(connection: Connection) -> None:
        while not b"".join(pieces).endswith(body) and (piece := connection.sock.recv(65_536)):
            pieces.append(piece)
            piece_read.release()
        connection.send(OK)

    async def pause(seconds: float) -> None:
        # A busy machine can delay the server for longer than any pause, and it would then read two pieces as one.
        assert seconds > 0
        assert await asyncio.to_thread(piece_read.acquire, timeout=10)

    monkeypatch.setattr("game_operator_testkit.provider.misbehaving.asyncio.sleep", pause)
    with HostileServer(script) as server:
        answered = post(server.base_url, Manner.SLOW, body=body)
    assert answered is not None
    assert (answered.status, answered.body) == (200, b'{"type":"ERROR","code":"X"}')
    assert len(pieces) == 4


@pytest.mark.parametrize("closes", [False, True], ids=["kept", "closed"])
def test_a_call_that_is_followed_by_another(*, closes: bool) -> None:
    """The second answer counts, of a POST on the same connection; if it is closed by then, the first one."""

    def script(connection: Connection) -> None:
        connection.read_request()
        connection.send(response_bytes(405, b"{}"))
        if closes:
            connection.close()
            return
        connection.read_request()
        connection.send(OK)

    with HostileServer(script) as server:
        url = f"{server.base_url}/withdraw"
        answered = asyncio.run(
            post_roughly(url, Request("", "/withdraw", BODY, manner=Manner.FOLLOWED, method="GET"), HEADERS, 10.0)
        )
    assert answered is not None
    assert (answered.status, answered.reused) == ((405, False) if closes else (200, True))
    requests = [b"GET /withdraw HTTP/1.1", *([] if closes else [b"POST /withdraw HTTP/1.1"])]
    assert [each.partition(b"\r\n")[0] for each in server.requests] == requests
    assert len(server.connections) == 1


def forever(data: bytes, first: bytes = b"") -> Script:
    """Return a script that reads a request and sends *data* until the other side has had enough."""

    def script(connection: Connection) -> None:
        connection.read_request()
        connection.send(first)
        while not connection.stopping.is_set() and connection.send(data):
            pass

    return script


def dripping(data: bytes) -> Script:
    def script(connection: Connection) -> None:
        connection.read_request()
        connection.drip(data * 1_000, 0.02)

    return script


def hang_up(connection: Connection) -> None:
    connection.read_request()
    connection.close()


def say_nothing(connection: Connection) -> None:
    connection.read_request()


@pytest.mark.parametrize(
    ("script", "raised"),
    [
        pytest.param(answer(b"SSH-2.0-OpenSSH_9.6\r\n\r\n"), ValueError, id="another protocol"),
        pytest.param(answer(b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n"), ValueError, id="a length that is none"),
        pytest.param(forever(b"x-more: and more\r\n", b"HTTP/1.1 200 OK\r\n"), ValueError, id="endless headers"),
        pytest.param(forever(b"x" * 65_536, b"HTTP/1.1 200 OK\r\nx: "), ValueError, id="an endless header"),
        pytest.param(forever(b"HTTP/1.1 100 Continue\r\n\r\n"), TimeoutError, id="patience asked for without end"),
        pytest.param(dripping(b"HTTP/1.1 100 Continue\r\n\r\n"), TimeoutError, id="an answer that drips"),
        pytest.param(say_nothing, TimeoutError, id="no answer"),
        pytest.param(hang_up, (OSError, ValueError), id="hung up"),
        pytest.param(
            answer(response_bytes(200, b"{}", length=100)), TimeoutError, id="a body shorter than it says"
        ),
    ],
)  # fmt: skip
@pytest.mark.drawn(5)
def test_whatever_a_server_does_it_ends_soon_and_costs_little(
    script: Callable[[Connection], None], raised: type[Exception] | tuple[type[Exception], ...]
) -> None:
    """Nothing but OSError and ValueError comes out, in time, and no more than a few MB are read."""
    with HostileServer(script) as server, _soon_and_cheap(), pytest.raises(raised):
        post(server.base_url, Manner.SLOW, TIMEOUT_SECONDS)


@contextlib.contextmanager
def _soon_and_cheap() -> Iterator[None]:
    tracemalloc.start()
    began = time.monotonic()
    try:
        yield
        assert time.monotonic() - began < 15
        assert tracemalloc.get_traced_memory()[1] < 16_000_000
    finally:
        tracemalloc.stop()
