"""What strangers do to the connections of `game-operator serve`: trailers, half requests, and hundreds of them."""

import asyncio
import contextlib
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import product
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from game_operator import BalanceCall, WithdrawCall
from game_operator.cli.keys import KeyFiles
from game_operator.cli.serving import Connections, ServeProtocol
from game_operator.webhooks import Reply, RsaSignature, WebhookCall, WebhookReceiver, asgi_app, success
from game_operator.webhooks.adapters import AsgiApp
from game_operator_testkit.provider.caller import WebhookCaller
from game_operator_testkit.provider.delivery import Delivery
from game_operator_testkit.provider.replies import read_reply
from testkit.tests.integration.cli.conftest import BODY
from tests.support.command_line import serving, stopped
from tests.support.proxies import WEBSOCKETS, behind, leave_a_request, needs
from tests.support.servers import PATIENCE_SECONDS, RawClient, asgi_server, reply_to, request_bytes
from tests.support.webhooks import AsyncHandler

pytestmark = pytest.mark.outside

HALF_HEADERS = b"POST /withdraw HTTP/1.1\r\nHost: x\r\n"
PROBE = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
HALF_BODY = HALF_HEADERS + b"Content-Length: 100\r\n\r\n{"


def port_of(url: str) -> int:
    return int(url.rpartition(":")[2])


def chunked(headers: dict[str, str], trailers: dict[str, str]) -> bytes:
    """Return a balance check in chunks, with *trailers* behind it."""
    head = request_bytes("/player-balance", b"", {**headers, "Transfer-Encoding": "chunked"}, length=None)
    behind = "".join(f"{name}: {value}\r\n" for name, value in trailers.items())
    return head + b"%x\r\n%s\r\n0\r\n%s\r\n" % (len(BODY), BODY, behind.encode())


def code(port: int, data: bytes) -> str | None:
    return read_reply(reply_to(port, data)[2]).code


def trickled(port: int, data: bytes) -> float:
    """Send *data* byte by byte; return after how many seconds the server has had enough."""
    with RawClient(port) as client:
        began = time.monotonic()
        with contextlib.suppress(ConnectionError):
            for byte in data:
                client.send(bytes([byte]))
                time.sleep(0.1)
            raise AssertionError("the server takes it all")
        return time.monotonic() - began


def balance_of(answered: Delivery) -> int:
    assert answered.reply is not None
    assert answered.reply.balance_cents is not None
    return answered.reply.balance_cents


def answers(keys: KeyFiles, does: Callable[[WebhookCall], Any] | None = None) -> AsgiApp:
    """Return an application that knows the service's key, and does so with a call."""
    receiver = WebhookReceiver(authenticator=RsaSignature(keys.public), budget_seconds=PATIENCE_SECONDS)
    return asgi_app(receiver, AsyncHandler(does))


def protocol_with(connections: Connections, head_seconds: float = 10.0) -> type[ServeProtocol]:
    """Return the class of connections that are counted there."""
    return type("Protocol", (ServeProtocol,), {"open_connections": connections, "head_seconds": head_seconds})


@pytest.fixture
def no_error(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """The server logs no error."""
    yield
    found = [each for each in caplog.get_records("call") if each.name == "uvicorn.error" and each.levelname == "ERROR"]
    assert not found


@needs("haproxy")
def test_trailers_are_dropped(keys: KeyFiles, database: str, tmp_path: Path, signed_head: dict[str, str]) -> None:
    """E10: no signature counts in a trailer; in the headers of a chunked request it does."""
    signed = signed_head
    with serving("--database", database, "--service-key", keys.public) as (url, _):
        port = port_of(url)
        assert code(port, chunked(signed, {})) is None
        assert code(port, chunked({}, signed)) == "INVALID_SIGNATURE"
        with behind("haproxy", port, tmp_path) as outside:  # It lets the trailer through.
            assert code(outside, chunked({}, signed)) == "INVALID_SIGNATURE"
        with RawClient(port) as client:  # Nor does a trailer reach the next request of its connection.
            client.send(chunked(signed, signed) * 2)
            assert [read_reply(client.reply()[2]).code for _ in range(2)] == [None, None]


@pytest.mark.parametrize("proxy", [pytest.param(name, marks=needs(name)) for name in ("caddy", "nginx")])
def test_a_stranger_moves_no_call_elsewhere(proxy: str, keys: KeyFiles, database: str, tmp_path: Path) -> None:
    """E10: behind a proxy that lets upgrades through, a request left on the connection takes no withdraw with it."""
    lines = WEBSOCKETS if proxy == "nginx" else ""
    with (
        serving("--database", database, "--service-key", keys.public) as (url, _),
        behind(proxy, port_of(url), tmp_path, lines) as outside,
        WebhookCaller(f"http://127.0.0.1:{outside}", keys.private) as service,
    ):
        before = balance_of(service.send(BalanceCall(player_id="p1")))
        for number, (path, blank_lines) in enumerate(product(("/player-balance", "/healthz"), (0, 300_000)), 1):
            leave_a_request(outside, path, "/player-balance", blank_lines=blank_lines)
            bet = WithdrawCall(player_id="p1", bet_id=f"b{number}", amount_cents=100)
            assert balance_of(service.send(bet)) == before - 100 * number


@pytest.mark.parametrize(
    "begun",
    [
        pytest.param(b"", id="silent"),
        pytest.param(PROBE, id="idle"),
        pytest.param(HALF_HEADERS, id="half a head"),
        pytest.param(HALF_BODY, id="half a body"),
    ],
)
@pytest.mark.drawn(2)
def test_held_connections_do_not_shut_honest_callers_out(keys: KeyFiles, database: str, begun: bytes) -> None:
    """As many as there may be: 100 calls on new connections and a probe are answered; the log says why."""
    with serving("--database", database, "--service-key", keys.public, open_files=256) as (url, process):
        with ExitStack() as opened:
            for _ in range(192):
                held = opened.enter_context(RawClient(port_of(url)))
                held.send(begun)
                if begun == PROBE:
                    assert held.reply()[0] == 200
            for number in range(100):
                with WebhookCaller(url, keys.private, timeout=5) as service:
                    bet = WithdrawCall(player_id="p1", bet_id=f"b{number}", amount_cents=1)
                    assert service.send(bet).code is None
            assert reply_to(port_of(url), PROBE.replace(b"/healthz", b"/readyz"))[0] == 200
        ended = stopped(process, signal.SIGTERM)
    lines = [line for line in ended.err.splitlines() if "game_operator.serve" in line]
    assert len(lines) == 1, ended.err
    assert "game_operator.serve: All 192 connections are in use, so one is closed for each new one" in lines[0]
    assert "Too many open files" not in ended.err


def test_a_head_has_to_arrive_in_time(keys: KeyFiles, balance_check: bytes) -> None:
    """Half heads, line breaks and silence are closed; a slow request and a kept connection are not."""
    whole = balance_check
    protocol = protocol_with(Connections(9), head_seconds=1.0)
    with asgi_server(answers(keys), http=protocol, loop="uvloop") as port, ExitStack() as opened:
        kept, slow, silent, headers, breaks = (opened.enter_context(RawClient(port)) for _ in range(5))
        for client in (kept, breaks):
            client.send(whole)
            assert read_reply(client.reply()[2]).code is None
        headers.send(HALF_HEADERS)
        breaks.send(b"\r\n")
        for piece in (whole[:20], whole[20:-3], whole[-3:]):
            slow.send(piece)
            time.sleep(0.1)
        assert read_reply(slow.reply()[2]).code is None
        assert [client.is_closed() for client in (silent, headers, breaks)] == [True] * 3
        kept.send(whole)
        assert read_reply(kept.reply()[2]).code is None
        kept.send(whole[:30])  # The clock runs for the second request of a connection too.
        assert kept.is_closed()
        # A byte now and then is no progress: what counts is the time since the first.
        assert 1 <= trickled(port, HALF_HEADERS) < 5


def test_a_call_under_way_is_never_closed_to_make_room(keys: KeyFiles, balance_check: bytes) -> None:
    """At the limit a connection between two requests goes, then one that has just begun; else the newcomer goes."""
    begun, may_end = threading.Semaphore(0), threading.Semaphore(0)

    async def waits(call: WebhookCall) -> Reply:
        begun.release()
        await asyncio.to_thread(may_end.acquire, timeout=PATIENCE_SECONDS)
        return success(balance_cents=100)

    whole, app = balance_check, answers(keys, waits)
    with asgi_server(app, http=protocol_with(Connections(3)), loop="uvloop") as port, ExitStack() as opened:

        def connected(data: bytes) -> RawClient:
            client = opened.enter_context(RawClient(port))
            client.send(data)
            return client

        idle = connected(request_bytes("/player-balance", b"", {}, method="GET"))
        assert idle.reply()[0] == 405
        half = connected(HALF_HEADERS)
        # A second request that is not there as a whole does not count while the first is under way.
        calls = [connected(whole + HALF_HEADERS)]
        assert begun.acquire(timeout=PATIENCE_SECONDS)
        for closed in (idle, half):
            calls.append(connected(whole + HALF_HEADERS))
            assert closed.is_closed()
            assert begun.acquire(timeout=PATIENCE_SECONDS)
        with RawClient(port) as newcomer:
            assert newcomer.is_closed()
        for call in calls:  # One after another: the oldest goes first.
            may_end.release()
            assert read_reply(call.reply()[2]).code is None
        may_end.release()
        assert read_reply(connected(whole).reply()[2]).code is None  # Now it counts.
        assert calls[0].is_closed()


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
@pytest.mark.usefixtures("no_error")
def test_a_peer_that_does_not_read_makes_room(loop: str, keys: KeyFiles, balance_check: bytes) -> None:
    """One that sends requests one after another and never reads: its call is done, though no answer can be sent."""

    class Narrow(protocol_with(Connections(1))):  # type: ignore[misc]  # It is made at run time.
        def connection_made(self, transport: asyncio.Transport) -> None:
            transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
            super().connection_made(transport)

        def pause_writing(self) -> None:
            super().pause_writing()
            paused.release()

    paused = threading.Semaphore(0)
    with asgi_server(answers(keys), http=Narrow, loop=loop) as port, socket.socket() as peer:
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
        peer.connect(("127.0.0.1", port))
        while not paused.acquire(blocking=False):
            peer.sendall(request_bytes("/", b"", {}, method="GET") * 10)
            time.sleep(0.02)
        with RawClient(port) as honest:
            honest.send(balance_check * 3)  # Those who read may pipeline.
            assert [read_reply(honest.reply()[2]).code for _ in range(3)] == [None] * 3


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
@pytest.mark.usefixtures("no_error")
def test_who_sends_without_waiting_is_closed(loop: str, keys: KeyFiles) -> None:
    """A hundred requests may wait for their turn on a connection, which uvicorn keeps in memory; no more."""
    request = request_bytes("/", b"", {}, method="GET")
    with asgi_server(answers(keys), http=protocol_with(Connections(9)), loop=loop) as port:
        with RawClient(port) as client:
            client.send(request * 100)
            assert [client.reply()[0] for _ in range(100)] == [404] * 100
        with RawClient(port) as client:
            client.send(request * 3000)
            assert client.is_closed()


def test_the_one_that_is_idle_for_longest_goes(caplog: pytest.LogCaptureFixture) -> None:
    """Half a request makes it no younger, an answer does; the log has one line in a minute."""
    now = 0.0
    connections = Connections(3, lambda: now)
    closed: list[str] = []

    def opened(name: str) -> Any:
        each = Mock(client=(name, 1), **{"transport.abort": lambda: closed.append(name), "flow.write_paused": False})
        connections.opened(each)
        return each

    def answered(each: Any) -> None:
        connections.note(each, is_idle=False)
        connections.note(each, is_idle=True)

    first, second = opened("first"), opened("second")
    opened("third")
    answered(first)
    connections.note(second, is_idle=True)
    fourth = opened("fourth")
    assert closed == ["second"]
    opened("fifth")
    assert closed[1:] == ["third"]
    connections.note(first, is_idle=False)
    now = 60.0
    opened("sixth")
    assert closed[2:] == ["fourth"]
    connections.closed(fourth)  # As the server reports later.
    lines = [record.getMessage().partition(". Find")[0] for record in caplog.records]
    beginning = "All 3 connections are in use, so one is closed for each new one; now one from"
    assert lines == [f"{beginning} 'second'", f"{beginning} 'fourth'"]
