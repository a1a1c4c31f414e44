"""What strangers do to the connections of `game-operator serve`: trailers, half requests, and hundreds of them."""

import asyncio
import contextlib
import json
import resource
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from decimal import Decimal
from pathlib import Path

import pytest

from game_operator import WebhookCall, WithdrawCall
from game_operator.caller import WebhookCaller
from game_operator.cli._http_connections import Connections, most_connections
from game_operator.cli._keys import KeyFiles, write_pair
from game_operator.ledger import SqlLedger
from game_operator.protocol.webhook import read_reply
from game_operator.webhooks import Reply, RsaSignature, WebhookReceiver, asgi_app, success
from tests.cli.support import COMMAND, Run, clean_environment, stopped
from tests.support.haproxy import haproxy, needs_haproxy
from tests.support.servers import PATIENCE_SECONDS, RawClient, asgi_server, reply_to, request_bytes
from tests.support.webhooks import AsyncHandler

BODY = b'{"player_id":"p1"}'
HALF_HEADERS = b"POST /withdraw HTTP/1.1\r\nHost: x\r\n"
HALF_BODY = HALF_HEADERS + b"Content-Length: 100\r\n\r\n{"
LISTED, STRANGER = "198.51.100.7", "203.0.113.9"


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> KeyFiles:
    """The service's key pair."""
    return write_pair(tmp_path_factory.mktemp("service") / "service.pem", bits=2048)


@pytest.fixture
def database(tmp_path: Path) -> str:
    """A wallet with 100.00 for p1."""
    url = f"sqlite:///{tmp_path / 'wallet.db'}"
    with SqlLedger(url) as ledger:
        ledger.open_account("p1", Decimal("100.00"))
    return url


@contextmanager
def serving(
    keys: KeyFiles, database: str, *args: object, files: int = 1024
) -> "Iterator[tuple[str, subprocess.Popen[str]]]":
    """Start ``game-operator serve`` with a limit of open files, and yield where it answers."""
    options = ["--port", "0", "--json", "--database", database, "--service-key", str(keys.public), *map(str, args)]
    with subprocess.Popen(
        ["sh", "-c", f'ulimit -n {files}; exec "$@"', "sh", *COMMAND, "serve", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=clean_environment({}),
    ) as process:
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


@needs_haproxy
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
        with haproxy(port, tmp_path) as outside:
            # It names 127.0.0.1, which is not listed, and lets the trailer through.
            assert code(outside, chunked(signed, listed)) == "INVALID_SIGNATURE"
        with RawClient(port) as client:  # Nor does a trailer reach the next request of its connection.
            client.send(chunked(signed | listed, signed) * 2)
            assert [read_reply(client.reply()[2]).code for _ in range(2)] == [None, None]
        ended = stopped(process, signal.SIGTERM)
    assert "trust_chunked" not in ended.err


def test_half_requests_do_not_shut_honest_callers_out(keys: KeyFiles, database: str) -> None:
    """400 of them at a limit of 256 files: each call is answered at once, and the log names the limit."""
    with serving(keys, database, files=256) as (url, process):
        with ExitStack() as held:
            for number in range(400):
                each = held.enter_context(RawClient(port_of(url)))
                with contextlib.suppress(ConnectionError):
                    each.send(HALF_BODY if number % 2 else HALF_HEADERS)
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
    with serving(keys, database, "--request-timeout", 1.5) as (url, process), ExitStack() as opened:
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
        ended = stopped(process, signal.SIGTERM)
    lines = [line for line in ended.err.splitlines() if "game_operator.serve" in line]
    assert len(lines) == 1, ended.err
    assert "A request did not arrive within 1.5 s, so its connection was closed: 1 since" in lines[0]


def test_a_call_under_way_is_never_closed_to_make_room(keys: KeyFiles) -> None:
    """At the limit half requests go first, then a connection between two requests; else the newcomer goes."""
    begun, may_end = threading.Semaphore(0), threading.Event()

    async def waits(call: WebhookCall) -> Reply:
        begun.release()
        await asyncio.to_thread(may_end.wait, PATIENCE_SECONDS)
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
        for closed in (half, idle):
            calls.append(connected(whole + HALF_HEADERS))
            assert closed.is_closed()
            assert begun.acquire(timeout=PATIENCE_SECONDS)
        with RawClient(port) as newcomer:
            assert newcomer.is_closed()
        may_end.set()
        assert [read_reply(call.reply()[2]).code for call in calls] == [None] * 3
        assert read_reply(connected(whole).reply()[2]).code is None  # Now it counts.
        assert calls[0].is_closed()


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
