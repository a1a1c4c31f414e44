"""A call cancelled or interrupted in any phase leaves nothing open, and the client in order (docs/decisions/0004)."""

import asyncio
import os
import signal
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

import anyio
import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

from game_operator import AsyncOperatorClient, OperatorClient
from game_operator.models import OpenBet
from game_operator.protocol.signing import sign
from tests.client.conftest import Authority
from tests.support.flavours import Perform, look_up, run
from tests.support.hostile_server import Connection, HostileServer, Script, knows_every_bet, response_bytes
from tests.support.proxy import forward
from tests.support.wire import grant_request

pytestmark = pytest.mark.outside

Call = Callable[[], Coroutine[Any, Any, Any]]


async def _cancelled_scope(call: Call, reached: threading.Event) -> None:
    """Cancel *call* by its scope once *reached* is set."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(call)
        await _until(reached)
        tasks.cancel_scope.cancel()


async def _cancelled_task(call: Call, reached: threading.Event) -> None:
    """Cancel *call* as a task of asyncio once *reached* is set."""
    task = asyncio.ensure_future(call())
    await _until(reached)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def _until(reached: threading.Event) -> None:
    give_up = time.monotonic() + 5.0
    while not reached.is_set():
        assert time.monotonic() < give_up
        await anyio.sleep(0.01)


_OURS = [("asyncio", _cancelled_scope), ("asyncio", _cancelled_task), ("trio", _cancelled_scope)]
WAYS = pytest.mark.parametrize(("flavour", "cancelled"), _OURS)


def _reaching(phase: str, reached: threading.Event) -> Script:
    """Return a script that comes to *phase* of an answer, says so, and goes no further."""
    said = {
        "headers": b"",
        "inside the headers": b"HTTP/1.1 200 OK\r\nContent-",
        "body": b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n",
        "inside the body": b'HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{"status": ',
        "inside a chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n400\r\n{",
        "wait": response_bytes(503, b"", b"Retry-After: 50"),
    }

    def script(connection: Connection) -> None:
        connection.read_request()
        connection.send(said[phase])
        connection.stopping.wait(0.05)
        reached.set()

    return script


@WAYS
@pytest.mark.parametrize(
    "phase", ["headers", "inside the headers", "body", "inside the body", "inside a chunk", "wait"]
)
@pytest.mark.drawn(4, flavour=("trio",))
def test_a_cancelled_call_leaves_nothing_open(
    perform: Perform, cancelled: Callable[[Call, threading.Event], Awaitable[None]], phase: str
) -> None:
    """The connection under way is closed, and the next call works (docs/decisions/0004)."""
    reached = threading.Event()

    async def cancel_and_go_on(client: AsyncOperatorClient) -> Any:
        await cancelled(lambda: client.fetch_bet("bet-1"), reached)
        if phase != "wait":  # By then the answer has been read, and its connection is free for the next call.
            assert server.wait_until_closed()
        return await client.fetch_bet("bet-2")

    followed = knows_every_bet if phase != "wait" else _reaching("headers", threading.Event())
    first = _reaching(phase, reached)

    def script(connection: Connection) -> None:
        first(connection)
        if phase == "wait":
            knows_every_bet(connection)

    with HostileServer(script, followed) as server:
        options: dict[str, Any] = {"timeout": 20.0, "deadline": 60.0}
        assert isinstance(perform(cancel_and_go_on, server.base_url, **options), OpenBet)
        assert len(server.connections) == (1 if phase == "wait" else 2)
        assert server.wait_until_closed()


@WAYS
def test_cancelled_while_connecting(
    perform: Perform, cancelled: Callable[[Call, threading.Event], Awaitable[None]]
) -> None:
    """No half-open connection stays behind (docs/decisions/0004)."""
    reached = threading.Event()

    async def cancel(client: AsyncOperatorClient) -> None:
        threading.Timer(0.1, reached.set).start()
        await cancelled(lambda: client.fetch_bet("bet-1"), reached)

    with socket.create_server(("127.0.0.1", 0), backlog=0) as listener:
        waiting = [socket.socket() for _ in range(4)]
        for sock in waiting:
            sock.setblocking(False)
            sock.connect_ex(listener.getsockname())  # They fill the queue of connections that nobody accepts.
        perform(cancel, f"http://127.0.0.1:{listener.getsockname()[1]}", timeout=20.0)
        for sock in waiting:
            sock.close()


@pytest.mark.parametrize(
    ("flavour", "cancelled", "proxied"),
    [(*way, proxied) for way in _OURS for proxied in (False, True)],
)
@pytest.mark.drawn(2, flavour=("trio",))
def test_cancelled_during_the_tls_handshake(
    perform: Perform,
    cancelled: Callable[[Call, threading.Event], Awaitable[None]],
    proxied: bool,
    authority: Authority,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The connection is closed although TLS never stood, and the next call works (docs/decisions/0004)."""
    reached = threading.Event()
    tls, trusting = authority.server("127.0.0.1"), authority.client()

    def silent(connection: Connection) -> None:
        connection.sock.recv(5)
        reached.set()

    def secure(connection: Connection) -> None:
        connection.sock = tls.wrap_socket(connection.sock, server_side=True)
        knows_every_bet(connection)

    async def cancel_and_go_on(client: AsyncOperatorClient) -> Any:
        await cancelled(lambda: client.fetch_bet("bet-1"), reached)
        assert server.wait_until_closed()
        return await client.fetch_bet("bet-2")

    with HostileServer(silent, secure) as server, HostileServer(forward) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy.base_url)
        base_url = server.base_url.replace("http:", "https:")
        options: dict[str, Any] = {"timeout": 20.0, "ssl_context": trusting, "trust_env": proxied}
        assert isinstance(perform(cancel_and_go_on, base_url, **options), OpenBet)
        assert len(proxy.connections) == (2 if proxied else 0)


@WAYS
def test_cancelled_while_signing(
    flavour: str, cancelled: Callable[[Call, threading.Event], Awaitable[None]], private_key: RSAPrivateKey
) -> None:
    """Nothing is sent, and the signer may be asked again (docs/decisions/0004)."""
    reached = threading.Event()

    class SlowAtFirst:
        async def sign(self, message: bytes) -> bytes:
            if not reached.is_set():
                reached.set()
                await anyio.sleep(30)
            return sign(private_key, message)

    async def cancel_and_go_on(client: AsyncOperatorClient) -> Any:
        await cancelled(lambda: client.grant_free_bet(**grant_request()), reached)
        assert server.connections == []
        return await client.fetch_bet("bet-2")

    with HostileServer(knows_every_bet) as server:
        assert isinstance(run(flavour, cancel_and_go_on, server.base_url, SlowAtFirst()), OpenBet)


class Stopped(BaseException):
    """What Ctrl-C raises, but for pytest's own meaning of that."""


def test_an_interrupt_in_a_watcher_passes_through(private_key: RSAPrivateKey) -> None:
    """on_exchange may end the program; only its bugs are held back (docs/decisions/0004)."""

    def watch(exchange: object) -> None:
        raise Stopped

    with HostileServer(knows_every_bet) as server, pytest.raises(Stopped):
        run("sync", look_up, server.base_url, private_key, on_exchange=watch, retries=1)


class SoftTimeLimitError(Exception):
    """An ordinary exception that a signal handler raises, as Celery's does for its soft time limit."""


@contextmanager
def _soon_interrupted(reached: threading.Event) -> Iterator[None]:
    """Raise ``SoftTimeLimitError`` in the main thread once *reached* is set."""

    def stop(number: int, frame: object) -> None:
        raise SoftTimeLimitError

    def interrupt() -> None:
        if reached.wait(10):
            time.sleep(0.05)
            os.kill(os.getpid(), signal.SIGALRM)

    before = signal.signal(signal.SIGALRM, stop)
    interrupting = threading.Thread(target=interrupt)
    interrupting.start()
    try:
        yield
    finally:
        reached.set()
        interrupting.join(10)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("phase", ["headers", "inside the headers", "inside the body", "inside a chunk", "wait"])
@pytest.mark.parametrize("is_grant", [False, True], ids=["look-up", "grant"])
@pytest.mark.parametrize("yours", [False, True], ids=["our connections", "your client"])
@pytest.mark.drawn(4, yours=(True,))
def test_a_time_limit_passes_through_at_once(
    phase: str, is_grant: bool, yours: bool, private_key: RSAPrivateKey
) -> None:
    """It is no failure of the network, even as an ordinary exception; a grant may have been made (decision 0028)."""
    reached = threading.Event()
    http_client = httpx.Client(trust_env=False) if yours else None
    with (
        HostileServer(_reaching(phase, reached), knows_every_bet) as server,
        OperatorClient(
            server.base_url, "acme", private_key, trust_env=False, deadline=60.0, timeout=20.0, http_client=http_client
        ) as client,
    ):
        with pytest.raises(SoftTimeLimitError) as raised, _soon_interrupted(reached):
            client.grant_free_bet(**grant_request()) if is_grant else client.fetch_bet("bet-1")
        if phase != "wait":
            assert server.wait_until_closed()
            assert isinstance(client.fetch_bet("bet-2"), OpenBet)
            assert len(server.connections) == 2
        assert len(server.connections[0].requests) == 1
        if http_client is not None:
            http_client.close()
    told = "".join(getattr(raised.value, "__notes__", []))
    assert (
        "reference_id 'welcome-7' on instance 'instance-1' was under way: it may have been made" in told
    ) is is_grant


async def _noted_grant(client: AsyncOperatorClient, told: list[str]) -> None:
    """Grant free bets, and take note of what a cancellation says."""
    try:
        await client.grant_free_bet(**grant_request())
    except BaseException as cancelled:
        told.extend(getattr(cancelled, "__notes__", []))
        raise


def _silent(reached: threading.Event, *, reads: bool = True) -> Script:
    """Return a script that waits for a request, unless told otherwise, says so, and goes no further."""

    def script(connection: Connection) -> None:
        if reads:
            connection.read_request()
        reached.set()
        connection.wait_for_peer()

    return script


@pytest.mark.parametrize("way", ["it left", "direct", "behind a proxy"])
@pytest.mark.parametrize("flavour", ["asyncio", "trio"])
def test_a_cancelled_grant_says_whether_it_may_have_been_made(perform: Perform, way: str) -> None:
    """Until its first byte is on the way to the service, nobody has to wonder (docs/decisions/0028)."""
    reached = threading.Event()
    told: list[str] = []

    async def scenario(client: AsyncOperatorClient) -> None:
        await _cancelled_scope(lambda: _noted_grant(client, told), reached)

    with HostileServer(_silent(reached, reads=way != "direct")) as server:
        proxy = server.base_url if way == "behind a proxy" else None
        base_url = server.base_url if way == "it left" else server.base_url.replace("http:", "https:")
        perform(scenario, base_url, timeout=20.0, proxy=proxy)
        assert server.wait_until_closed()
    assert ["'welcome-7'" in note for note in told] == [True] * (way == "it left")


def test_a_grant_that_a_signal_stops_before_it_left_was_not_made(private_key: RSAPrivateKey) -> None:
    """In sync, too (docs/decisions/0028)."""
    reached = threading.Event()
    with (
        HostileServer(_silent(reached)) as proxy,
        OperatorClient("https://127.0.0.1:9", "acme", private_key, proxy=proxy.base_url, timeout=20.0) as client,
        pytest.raises(SoftTimeLimitError) as raised,
        _soon_interrupted(reached),
    ):
        client.grant_free_bet(**grant_request())
    assert not hasattr(raised.value, "__notes__")
