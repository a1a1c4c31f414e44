"""What strangers do to the connections of `game-operator serve`: trailers, half requests, and hundreds of them."""

import asyncio
import contextlib
import json
import resource
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from itertools import product
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from game_operator import BalanceCall, WebhookCall, WithdrawCall
from game_operator.cli.http_connections import Connections, LimitedProtocol, most_connections
from game_operator.cli.keys import KeyFiles
from game_operator.protocol.webhook_reply import read_reply
from game_operator.provider.caller import WebhookCaller
from game_operator.provider.delivery import Delivery
from game_operator.webhooks import Reply, RsaSignature, WebhookReceiver, asgi_app, success
from tests.cli.support import Forked, Run, stopped
from tests.support.proxies import WEBSOCKETS, behind, leave_a_request, needs
from tests.support.servers import PATIENCE_SECONDS, RawClient, asgi_server, reply_to, request_bytes
from tests.support.webhooks import AsyncHandler

pytestmark = pytest.mark.outside

BODY = b'{"player_id":"p1"}'
HALF_HEADERS = b"POST /withdraw HTTP/1.1\r\nHost: x\r\n"
PROBE = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
HALF_BODY = HALF_HEADERS + b"Content-Length: 100\r\n\r\n{"
LISTED, STRANGER = "198.51.100.7", "203.0.113.9"


@contextmanager
def serving(keys: KeyFiles, database: str, *args: object, files: int = 1024) -> Iterator[tuple[str, Forked]]:
    """Start ``game-operator serve`` with a limit of open files, and yield where it answers."""
    options = ["--port", "0", "--json", "--database", database, "--service-key", str(keys.public), *map(str, args)]
    with Forked(["serve", *options], environ={}, open_files=files) as process:
        try:
            assert process.stdout is not None
            yield json.loads(process.stdout.readline())["url"], process
        finally:
            process.kill()


def port_of(url: str) -> int:
    return int(url.rpartition(":")[2])


def chunked(headers: dict[str, str], trailers: dict[str, str]) -> bytes:
    """Return a balance check in chunks, with *trailers* behind it."""
    head = request_bytes("/player-balance", b"", {**headers, "Transfer-Encoding": "chunked"}, length=None)
    behind = "".join(f"{name}: {value}\r\n" for name, value in trailers.items())
    return head + b"%x\r\n%s\r\n0\r\n%s\r\n" % (len(BODY), BODY, behind.encode())


def code(port: int, data: bytes) -> str | None:
    return read_reply(reply_to(port, data)[2]).code


def trickled(port: int, begun: bytes, data: bytes) -> float:
    """Send *data* byte by byte behind what has *begun*; return after how many seconds the server has had enough."""
    with RawClient(port) as client:
        client.send(begun)
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


@needs("haproxy")
def test_trailers_are_dropped(keys: KeyFiles, database: str, tmp_path: Path) -> None:
    """E10: neither an address nor a signature counts in a trailer; in the headers of a chunked request both do."""
    with WebhookCaller("http://127.0.0.1:1", keys.private) as service:
        signed = {"Signature": service.signature(BODY).decode()}
    with serving(keys, database, "--allow-ip", LISTED, "--trusted-proxy", "127.0.0.1") as (url, process):
        port = port_of(url)
        listed = {"X-Forwarded-For": LISTED}
        assert code(port, chunked(signed | listed, {})) is None
        assert code(port, chunked(signed | {"X-Forwarded-For": STRANGER}, listed)) == "INVALID_SIGNATURE"
        assert code(port, chunked(listed, signed)) == "INVALID_SIGNATURE"
        with behind("haproxy", port, tmp_path) as outside:
            # It names 127.0.0.1, which is not listed, and lets the trailer through.
            assert code(outside, chunked(signed, listed)) == "INVALID_SIGNATURE"
        with RawClient(port) as client:  # Nor does a trailer reach the next request of its connection.
            client.send(chunked(signed | listed, signed) * 2)
            assert [read_reply(client.reply()[2]).code for _ in range(2)] == [None, None]
        ended = stopped(process, signal.SIGTERM)
    assert "trust_chunked" not in ended.err


@pytest.mark.parametrize("proxy", [pytest.param(name, marks=needs(name)) for name in ("caddy", "nginx")])
def test_a_stranger_moves_no_call_elsewhere(proxy: str, keys: KeyFiles, database: str, tmp_path: Path) -> None:
    """E10: behind a proxy that lets upgrades through, a request left on the connection takes no withdraw with it."""
    lines = WEBSOCKETS if proxy == "nginx" else ""
    with (
        serving(keys, database) as (url, _),
        behind(proxy, port_of(url), tmp_path, lines) as outside,
        WebhookCaller(f"http://127.0.0.1:{outside}", keys.private) as service,
    ):
        before = balance_of(service.send(BalanceCall(player_id="p1")))
        for number, (path, blank_lines) in enumerate(product(("/player-balance", "/healthz"), (0, 300_000)), 1):
            leave_a_request(outside, path, "/player-balance", blank_lines=blank_lines)
            bet = WithdrawCall(player_id="p1", bet_id=f"b{number}", amount_cents=100)
            assert balance_of(service.send(bet)) == before - 100 * number


def test_held_connections_do_not_shut_honest_callers_out(keys: KeyFiles, database: str) -> None:
    """600 half requests and idle ones at a limit of 256 files: each call is answered at once; the log says why."""
    with serving(keys, database, files=256) as (url, process):
        with ExitStack() as held:
            for number in range(600):
                each = held.enter_context(RawClient(port_of(url)))
                with contextlib.suppress(ConnectionError):
                    each.send((HALF_BODY, HALF_HEADERS, PROBE)[number % 3])
            with WebhookCaller(url, keys.private, timeout=5) as service:
                for number in range(3):
                    bet = WithdrawCall(player_id="p1", bet_id=f"b{number}", amount_cents=100)
                    assert service.send(bet).code is None
        ended = stopped(process, signal.SIGTERM)
    lines = [line for line in ended.err.splitlines() if "game_operator.serve" in line]
    assert len(lines) == 1, ended.err
    assert "WARNING game_operator.serve: All 192 connections were in use, so one was closed: 1 since" in lines[0]
    assert "Too many open files" not in ended.err


def test_a_request_has_to_arrive_in_time(keys: KeyFiles, database: str) -> None:
    """Half headers, half a body, line breaks and silence are closed; a slow request and a kept connection are not."""
    with WebhookCaller("http://127.0.0.1:1", keys.private) as service:
        signed = {"Signature": service.signature(BODY).decode()}
    whole = request_bytes("/player-balance", BODY, signed)
    with serving(keys, database, "--request-timeout", 1) as (url, process), ExitStack() as opened:
        port = port_of(url)
        kept, slow, silent, headers, body, breaks = (opened.enter_context(RawClient(port)) for _ in range(6))
        for client in (kept, breaks):
            client.send(whole)
            assert read_reply(client.reply()[2]).code is None
        headers.send(HALF_HEADERS)
        body.send(HALF_BODY)
        breaks.send(b"\r\n")
        for piece in (whole[:20], whole[20:-3], whole[-3:]):
            slow.send(piece)
            time.sleep(0.1)
        assert read_reply(slow.reply()[2]).code is None
        assert [client.is_closed() for client in (silent, headers, body, breaks)] == [True] * 4
        kept.send(whole)
        assert read_reply(kept.reply()[2]).code is None
        kept.send(whole[:30])  # The clock runs for the second request of a connection too.
        assert kept.is_closed()
        # A byte now and then is no progress: what counts is the time since the first.
        with ThreadPoolExecutor(2) as pool:
            cut = [pool.submit(trickled, port, *each) for each in ((b"", HALF_HEADERS), (HALF_BODY, b"x" * 100))]
            assert all(1 <= each.result() < 5 for each in cut)
        ended = stopped(process, signal.SIGTERM)
    lines = [line for line in ended.err.splitlines() if "game_operator.serve" in line]
    assert len(lines) == 1, ended.err
    assert "A request did not arrive within 1 s, so its connection was closed: 1 since" in lines[0]


def test_a_call_under_way_is_never_closed_to_make_room(keys: KeyFiles) -> None:
    """At the limit a connection between two requests goes, then one that has just begun; else the newcomer goes."""
    begun, may_end = threading.Semaphore(0), threading.Semaphore(0)

    async def waits(call: WebhookCall) -> Reply:
        begun.release()
        await asyncio.to_thread(may_end.acquire, timeout=PATIENCE_SECONDS)
        return success(balance_cents=100)

    receiver = WebhookReceiver(authenticator=RsaSignature(keys.public), budget_seconds=PATIENCE_SECONDS)
    with WebhookCaller("http://127.0.0.1:1", keys.private) as service:
        whole = request_bytes("/player-balance", BODY, {"Signature": service.signature(BODY).decode()})
    protocol = Connections(3, 10).protocol_class()
    app = asgi_app(receiver, AsyncHandler(waits))
    with asgi_server(app, http=protocol, loop="uvloop") as port, ExitStack() as opened:

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


class _Watched(Connections):
    """Connections that report each peer that does not read."""

    def __init__(self, most: int, request_seconds: float, now: Callable[[], float]) -> None:
        super().__init__(most, request_seconds, now)
        self.reported = threading.Semaphore(0)
        self.reads_on = False
        self.gone: set[LimitedProtocol] = set()

    def stalled(self, connection: LimitedProtocol) -> None:
        super().stalled(connection)
        self.reads_on = self.reads_on or not connection.flow.read_paused
        self.reported.release()

    def closed(self, connection: LimitedProtocol) -> None:
        super().closed(connection)
        self.gone.add(connection)


def _never_reads(port: int) -> socket.socket:
    """Return a connection that has sent 3000 small requests, and does not read the answers."""
    peer = socket.socket()
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
    peer.connect(("127.0.0.1", port))
    peer.sendall(request_bytes("/", b"", {}, method="GET") * 3000)
    return peer


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_peers_that_do_not_read_their_answers_are_closed(
    loop: str, keys: KeyFiles, caplog: pytest.LogCaptureFixture
) -> None:
    """One that sends requests and never reads makes room at the limit, and below it is closed in time."""
    now = 0.0
    connections = _Watched(2, 10, lambda: now)

    class Narrow(connections.protocol_class()):  # type: ignore[misc]  # It is made at run time.
        def connection_made(self, transport: asyncio.Transport) -> None:
            transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
            super().connection_made(transport)

    async def sweeps(call: WebhookCall) -> Reply:
        connections.close_late()
        return success(balance_cents=100)

    with WebhookCaller("http://127.0.0.1:1", keys.private) as service:
        whole = request_bytes("/player-balance", BODY, {"Signature": service.signature(BODY).decode()})
    app = asgi_app(WebhookReceiver(authenticator=RsaSignature(keys.public)), AsyncHandler(sweeps))
    with asgi_server(app, http=Narrow, loop=loop) as port, _never_reads(port), _never_reads(port):
        for _ in range(2):
            assert connections.reported.acquire(timeout=PATIENCE_SECONDS)
        assert not connections.reads_on  # More requests wait in the socket, not in our memory.
        with RawClient(port) as honest:
            for moment, gone in ((9.9, 1), (10.0, 2)):
                now = moment
                honest.send(whole * 3)  # Those who read may pipeline.
                assert [read_reply(honest.reply()[2]).code for _ in range(3)] == [None] * 3
                assert len(connections.gone) == gone
    lines = [record.getMessage() for record in caplog.records if record.name == "game_operator.serve"]
    assert [line.partition(",")[0] for line in lines] == [
        "All 2 connections were in use",
        "A peer did not read its answers for 10 s",
    ]
    assert not [record for record in caplog.records if record.name == "uvicorn.error" and record.levelname == "ERROR"]


def test_a_burst_closes_idle_connections_first() -> None:
    """Requests that have just begun stay; one that has waited over a second goes before an idle one."""
    now = 0.0
    connections = Connections(2, 10, lambda: now)
    closed: list[str] = []

    def opened(name: str, *, is_idle: bool = False) -> Any:
        each = Mock(peer=name, **{"transport.abort": lambda: closed.append(name)})
        connections.opened(each)
        if is_idle:
            connections.enters(each, "under way")
            connections.enters(each, "idle")
        return each

    opened("idle", is_idle=True)
    opened("begun")
    opened("newcomer")
    assert closed == ["idle"]
    opened("in the same burst")
    assert closed == ["idle", "begun"]
    opened("idle, too", is_idle=True)
    assert closed == ["idle", "begun", "newcomer"]
    now = 1.1
    opened("later")
    assert closed[3:] == ["in the same burst"]


def test_headers_without_end_are_cut_off(keys: KeyFiles) -> None:
    """They would fill the memory within the time that a request may take; long ones are taken."""
    receiver = WebhookReceiver(authenticator=RsaSignature(keys.public))
    app = asgi_app(receiver, AsyncHandler())
    with asgi_server(app, http=Connections(9, 10).protocol_class(), loop="uvloop") as port:
        with RawClient(port) as client:
            client.send(b"GET / HTTP/1.1\r\n")
            for _ in range(6):
                client.send(b"X: " + b"x" * 10_000 + b"\r\n")
                time.sleep(0.01)
            client.send(b"\r\n")
            assert client.reply()[0] == 404
        with RawClient(port) as client:
            client.send(b"GET / HTTP/1.1\r\nX: ")
            with pytest.raises(ConnectionError):
                client.send_for_ever()


def test_headers_of_many_requests_are_not_added_up(keys: KeyFiles) -> None:
    """Each piece ends within the headers of the next request."""
    app = asgi_app(WebhookReceiver(authenticator=RsaSignature(keys.public)), AsyncHandler())
    request = b"GET / HTTP/1.1\r\nHost: h\r\nX: " + b"x" * 1_000 + b"\r\n\r\n"
    half = len(request) // 2
    with (
        asgi_server(app, http=Connections(9, 10).protocol_class(), loop="uvloop") as port,
        RawClient(port) as client,
    ):
        client.send(request[:half])
        for _ in range(100):
            client.send(request[half:] + request[:half])
            assert client.reply()[0] == 404


def test_how_many_connections_there_may_be(run: Run, keys: KeyFiles, database: str) -> None:
    """By default as many as the limit of open files allows; more are refused with the number that fits."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert most_connections(None) == limit - 64
    assert most_connections(limit - 64) == limit - 64
    options = ("--database", database, "--service-key", keys.public, "--port", 0)
    refused = run("serve", *options, "--max-connections", limit - 63)
    assert (refused.code, refused.out) == (2, "")
    assert f"or pass {limit - 64} or fewer" in refused.err
    assert run("serve", *options, "--max-connections", 0).code == 2
    assert run("serve", *options, "--request-timeout", 0).code == 2
