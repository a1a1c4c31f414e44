"""The ASGI application under real servers and in real frameworks, with clients of every kind (spec §4.1)."""

import asyncio
import gzip
import json
import logging
import re
import time
from collections.abc import Iterator
from typing import Any

import fastapi
import httpx
import litestar
import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.routing import Mount

from game_operator import Profile
from game_operator.webhooks import (
    IpAllowList,
    Reply,
    RsaSignature,
    WebhookCall,
    WebhookReceiver,
    asgi_app,
    success,
)
from tests.support.servers import PATIENCE_SECONDS, RawClient, asgi_server, reply_to, request_bytes
from tests.support.times import wait_until
from tests.support.webhooks import DEPOSIT, GENUINE, WITHDRAW, AsyncHandler, Handler, encoded, read_reply, signed, told
from tests.webhooks.conftest import asgi_messages, asgi_scope, over_asgi

_BODY = encoded(WITHDRAW)
_SERVERS = [
    pytest.param({"loop": "uvloop", "http": "httptools"}, id="uvloop and httptools"),
    pytest.param({"loop": "asyncio", "http": "h11"}, id="asyncio and h11"),
]


@pytest.fixture(scope="module", params=_SERVERS)
def served(request: pytest.FixtureRequest, public_key: RSAPublicKey) -> Iterator[tuple[int, AsyncHandler]]:
    """A running server and its handler; bodies must arrive within 0.3 s."""
    receiver = WebhookReceiver(authenticator=RsaSignature(public_key), budget_seconds=0.3)
    handler = AsyncHandler(_waiting_if_told)
    with asgi_server(asgi_app(receiver, handler, prefix="wallet/"), **request.param) as port:
        yield port, handler


async def _waiting_if_told(call: WebhookCall) -> Reply:
    if call.player_id == "slow":
        await asyncio.sleep(0.1)
    return success(balance_cents=10_000)


@pytest.mark.parametrize("path", GENUINE)
def test_a_genuine_call_is_answered(path: str, served: tuple[int, AsyncHandler], private_key: RSAPrivateKey) -> None:
    """HTTP 200 with the reply of spec §2.1, below the prefix."""
    body = encoded(GENUINE[path])
    reply = reply_to(served[0], request_bytes(f"/wallet{path}", body, signed(private_key, body)))
    assert told(reply) == (200, None)
    assert reply[1]["cache-control"] == "no-store"


@pytest.mark.parametrize(
    ("path", "method", "status"),
    [
        pytest.param("/wallet/withdraw?x=1", "POST", 200, id="with a query"),
        pytest.param("/withdraw", "POST", 404, id="without the prefix"),
        pytest.param("/wallet/withdraw", "GET", 405, id="F10 GET"),
    ],
)
def test_paths_and_methods(
    path: str, method: str, status: int, served: tuple[int, AsyncHandler], private_key: RSAPrivateKey
) -> None:
    """F10: 404 and 405 carry a JSON ERROR body too."""
    data = request_bytes(path, _BODY, signed(private_key, _BODY), method=method)
    reply = reply_to(served[0], data)
    assert told(reply) == (status, None if status == 200 else "INVALID_REQUEST")
    assert reply[1].get("allow") == ("POST" if status == 405 else None)


def test_head_has_no_body(served: tuple[int, AsyncHandler]) -> None:
    """F10: HEAD is answered as any other method, without the body."""
    reply = reply_to(served[0], request_bytes("/wallet/withdraw", b"", {}, method="HEAD"), has_body=False)
    assert (reply[0], reply[2]) == (405, b"")


@pytest.mark.parametrize("content_type", ["text/plain", "application/json;q=\xff"])
def test_the_content_type_is_not_looked_at(
    content_type: str, served: tuple[int, AsyncHandler], private_key: RSAPrivateKey
) -> None:
    """F10: what is signed is the body; a wrong label does not lose a bet."""
    headers = {**signed(private_key, _BODY), "Content-Type": content_type}
    assert told(reply_to(served[0], request_bytes("/wallet/withdraw", _BODY, headers))) == (200, None)


def test_a_compressed_body_is_no_json(served: tuple[int, AsyncHandler], private_key: RSAPrivateKey) -> None:
    """F10: gzip is never unpacked (a bomb would be), signed or not."""
    body = gzip.compress(_BODY)
    headers = {**signed(private_key, body), "Content-Encoding": "gzip"}
    assert told(reply_to(served[0], request_bytes("/wallet/withdraw", body, headers))) == (200, "INVALID_REQUEST")
    unpacked = {**signed(private_key, _BODY), "Content-Encoding": "gzip"}
    assert told(reply_to(served[0], request_bytes("/wallet/withdraw", body, unpacked))) == (200, "INVALID_SIGNATURE")


def test_an_upgrade_is_the_last_request_of_its_connection(
    request: pytest.FixtureRequest,
    served: tuple[int, AsyncHandler],
    private_key: RSAPrivateKey,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """RFC 9110 §7.8: httptools takes its body for another request, so the log says why it is empty; h11 reads it."""
    caplog.set_level(logging.INFO)
    headers = {**signed(private_key, _BODY), "Connection": "Upgrade", "Upgrade": "h2c"}
    with RawClient(served[0]) as client:
        client.send(request_bytes("/wallet/withdraw", b"", headers, length=len(_BODY)))
        if not (loses_it := "httptools" in request.node.name):
            client.send(_BODY)
        reply = client.reply()
        assert told(reply) == (200, "INVALID_SIGNATURE" if loses_it else None)
        assert reply[1]["connection"] == "close"
        assert client.is_closed()
    if loses_it:
        reason = "is empty. .* us. The request asks for an upgrade to 'h2c', .* --http game_operator.serve:SafeProtocol"
        assert re.search(reason, caplog.text)


@pytest.mark.parametrize(("name", "is_last"), [("upgrade", True), ("connection", False)])
async def test_who_hears_that_the_connection_ends(name: str, is_last: bool, receiver: WebhookReceiver) -> None:
    """An unknown path and a body that is not signed, too; a header that only speaks of an upgrade is none."""
    app, body = asgi_app(receiver, AsyncHandler()), {"type": "http.request", "body": b"{}"}
    for path, method in (("/withdraw", "POST"), ("/withdraw", "GET"), ("/unknown", "POST")):
        scope = {"type": "http", "method": method, "path": path, "headers": [(name.encode(), b"upgrade")]}
        assert ((b"connection", b"close") in (await asgi_messages(app, scope, body))[0]["headers"]) is is_last
    scope["http_version"] = "2"  # Which has no such header.
    assert (b"connection", b"close") not in (await asgi_messages(app, scope, body))[0]["headers"]


def _chunked(body: bytes, size: int) -> bytes:
    pieces = [body[start : start + size] for start in range(0, len(body), size)]
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


@pytest.mark.parametrize("size", [1, 7, 1_000])
def test_a_body_may_come_in_chunks(size: int, served: tuple[int, AsyncHandler], private_key: RSAPrivateKey) -> None:
    """F10: chunked, and byte by byte over the wire."""
    headers = {**signed(private_key, _BODY), "Transfer-Encoding": "chunked"}
    data = request_bytes("/wallet/withdraw", _chunked(_BODY, size), headers, length=None)
    assert told(reply_to(served[0], data)) == (200, None)


@pytest.mark.parametrize("sent", [0, 1, 50])
@pytest.mark.drawn(2)
def test_a_body_that_does_not_arrive_is_answered_all_the_same(
    sent: int, served: tuple[int, AsyncHandler], private_key: RSAPrivateKey, caplog: pytest.LogCaptureFixture
) -> None:
    """F10: slow-loris: a well-formed reply at the budget, the connection closed, and no worker lost."""
    data = request_bytes("/wallet/withdraw", _BODY, signed(private_key, _BODY))
    with RawClient(served[0]) as client:
        began = time.perf_counter()
        client.send(data[: len(data) - len(_BODY) + sent])
        reply = client.reply()
        assert 0.2 < time.perf_counter() - began < PATIENCE_SECONDS / 2
        assert told(reply) == (200, "SYSTEM_ERROR")
        assert reply[1]["connection"] == "close"
        assert client.is_closed()
    assert "did not arrive within 0.3 s" in caplog.text


def test_calls_follow_each_other_on_one_connection(
    served: tuple[int, AsyncHandler], private_key: RSAPrivateKey
) -> None:
    """F10: kept alive and pipelined, refusals in between, each answered in order."""
    good = request_bytes("/wallet/withdraw", _BODY, signed(private_key, _BODY))
    bad = request_bytes("/wallet/withdraw", _BODY, {})
    lost = request_bytes("/nowhere", _BODY, {})
    long = request_bytes("/wallet/withdraw", b"x" * 100_000, {})
    with RawClient(served[0]) as client:
        for _ in range(3):
            client.send(good)
            assert told(client.reply()) == (200, None)
        client.send(good + bad + lost + long + good)
        assert [told(client.reply()) for _ in range(5)] == [
            (200, None),
            (200, "INVALID_SIGNATURE"),
            (404, "INVALID_REQUEST"),
            (200, "SYSTEM_ERROR"),
            (200, None),
        ]


@pytest.mark.parametrize("chunked", [False, True], ids=["E11 with a length", "E11 in chunks"])
def test_five_megabytes_from_a_stranger_are_answered(chunked: bool, served: tuple[int, AsyncHandler]) -> None:
    """E11: read away, so that who is still sending sees the reply; nothing of it is parsed or kept."""
    body = b"[" * 5_000_000
    data = (
        request_bytes("/wallet/withdraw", _chunked(body, 65_536), {"Transfer-Encoding": "chunked"}, length=None)
        if chunked
        else request_bytes("/wallet/withdraw", body, {})
    )
    assert told(reply_to(served[0], data)) == (200, "SYSTEM_ERROR")


def test_an_endless_body_is_cut_off(served: tuple[int, AsyncHandler]) -> None:
    """E11: beyond what is read away the reply is sent, and the connection closed."""
    with RawClient(served[0]) as client:
        client.send(request_bytes("/wallet/withdraw", b"", {}, length=10**12))
        with pytest.raises(ConnectionError):
            client.send_for_ever()


@pytest.mark.parametrize("way", ["reset", "close"])
@pytest.mark.parametrize("when", ["in the headers", "in the body", "during the call", "before the reply"])
def test_a_client_may_hang_up_at_any_time(
    when: str, way: str, served: tuple[int, AsyncHandler], private_key: RSAPrivateKey, caplog: pytest.LogCaptureFixture
) -> None:
    """F10: no error, and a call that has begun is carried through, once."""
    port, handler = served
    body = encoded({**WITHDRAW, "player_id": "slow", "tx_id": f"{when} {way}"})
    data = request_bytes("/wallet/withdraw", body, signed(private_key, body))
    cut = {"in the headers": 30, "in the body": len(data) - 5}.get(when, len(data))
    client = RawClient(port)
    client.send(data[:cut])
    if when == "during the call":
        wait_until(lambda: any(getattr(call, "tx_id", "") == f"{when} {way}" for call in handler.calls))
    (client.reset if way == "reset" else client.__exit__)()
    good = request_bytes("/wallet/withdraw", _BODY, signed(private_key, _BODY))
    assert told(reply_to(port, good)) == (200, None)
    if cut == len(data):
        wait_until(lambda: any(getattr(call, "tx_id", "") == f"{when} {way}" for call in handler.calls))
    assert sum(getattr(call, "tx_id", "") == f"{when} {way}" for call in handler.calls) == (cut == len(data))
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


@pytest.mark.outside
def test_a_forged_forwarded_header_changes_no_address(public_key: RSAPublicKey, private_key: RSAPrivateKey) -> None:
    """E10: as served here (``--no-proxy-headers``), the peer is who connected."""
    receiver = WebhookReceiver(authenticator=IpAllowList(["192.0.2.7"]))
    headers = {**signed(private_key, _BODY), "X-Forwarded-For": "192.0.2.7", "Forwarded": "for=192.0.2.7"}
    with asgi_server(asgi_app(receiver, Handler())) as port:
        assert told(reply_to(port, request_bytes("/withdraw", _BODY, headers))) == (200, "INVALID_SIGNATURE")
    receiver = WebhookReceiver(authenticator=IpAllowList(["127.0.0.1"]))
    with asgi_server(asgi_app(receiver, Handler())) as port:
        assert told(reply_to(port, request_bytes("/withdraw", _BODY, headers))) == (200, None)


async def _posted(app: Any, path: str, private_key: RSAPrivateKey, root_path: str = "") -> tuple[int, str | None]:
    transport = httpx.ASGITransport(app, root_path=root_path)
    async with httpx.AsyncClient(transport=transport, base_url="http://wallet.example") as client:
        reply = await client.post(path, content=_BODY, headers=signed(private_key, _BODY))
    try:
        return reply.status_code, json.loads(reply.content).get("code")
    except ValueError:
        return reply.status_code, None  # The framework's own page.


async def _passed_on(request: Any, call_next: Any) -> Any:
    return await call_next(request)


@pytest.mark.parametrize(
    ("framework", "prefix"), [("FastAPI", ""), ("Litestar", ""), ("middleware", ""), ("FastAPI", "/wallet")]
)
async def test_mounted_in_a_framework(
    framework: str, prefix: str, receiver: WebhookReceiver, private_key: RSAPrivateKey
) -> None:
    """Below /wallet, and nowhere else; a trailing slash is another path."""
    handler = AsyncHandler()
    app: Any = asgi_app(receiver, handler, prefix=prefix)
    outer: Any
    if framework == "FastAPI":
        outer = fastapi.FastAPI()
        outer.mount("/wallet", app)
    elif framework == "Litestar":
        outer = litestar.Litestar([litestar.asgi("/wallet", is_mount=True, copy_scope=True)(app)])
    else:
        wrapped = [Middleware(BaseHTTPMiddleware, dispatch=_passed_on)]
        outer = Starlette(routes=[Mount("/wallet", app)], middleware=wrapped)
    assert await _posted(outer, "/wallet/withdraw", private_key) == (200, None)
    assert (await _posted(outer, "/withdraw", private_key))[0] == 404
    assert (await _posted(outer, "/wallet/nowhere", private_key))[0] == 404
    assert (await _posted(outer, "/wallet/withdraw/", private_key))[0] == 404
    assert len(handler.calls) == 1


@pytest.mark.parametrize(
    ("path", "root_path", "prefix", "status"),
    [
        pytest.param("/api/withdraw", "/api", "", 200, id="a server that puts the root path before the path"),
        pytest.param("/withdraw", "/api", "", 200, id="a server that does not"),
        pytest.param("/wallet/wallet/withdraw", "/wallet", "wallet", 200, id="the same name twice"),
        pytest.param("/walletx/withdraw", "", "wallet", 404, id="a prefix of the name alone"),
        pytest.param("/withdraw", "", "wallet", 404, id="the prefix is missing"),
        pytest.param("/other/wallet/withdraw", "", "wallet", 404, id="the prefix below another folder"),
        pytest.param("/x/wallet/withdraw", "/api", "wallet", 404, id="below another folder, with a mount"),
    ],
)
async def test_where_it_is_mounted(
    path: str, root_path: str, prefix: str, status: int, receiver: WebhookReceiver, private_key: RSAPrivateKey
) -> None:
    """Servers and frameworks disagree on what the path is."""
    app: Any = asgi_app(receiver, AsyncHandler(), prefix=prefix)
    assert (await _posted(app, path, private_key, root_path))[0] == status


@pytest.mark.parametrize("root", ["", "/api", "/wallet"])
async def test_litestar_below_a_root_path(root: str, receiver: WebhookReceiver, private_key: RSAPrivateKey) -> None:
    """Its mounts say nothing of where they are."""
    app: Any = asgi_app(receiver, AsyncHandler())
    outer = litestar.Litestar([litestar.asgi("/hooks", is_mount=True, copy_scope=True)(app)])
    for path in ("/hooks/withdraw", f"{root}/hooks/withdraw"):
        assert await _posted(outer, path, private_key, root) == (200, None)


async def test_other_kinds_of_connections(receiver: WebhookReceiver) -> None:
    """Start and end of the server are confirmed, a WebSocket is refused, and what ASGI may become is an error."""
    app = asgi_app(receiver, AsyncHandler())
    startup, shutdown = {"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}
    assert [each["type"] for each in await asgi_messages(app, {"type": "lifespan"}, startup, shutdown)] == [
        "lifespan.startup.complete",
        "lifespan.shutdown.complete",
    ]
    closed = await asgi_messages(app, {"type": "websocket"}, {"type": "websocket.connect"})
    assert closed == [{"type": "websocket.close", "code": 1000}]
    with pytest.raises(ValueError, match="not telepathy"):
        await asgi_messages(app, {"type": "telepathy"})


@pytest.mark.parametrize("client", [None, (), ("", 0), ["192.0.2.7", 5]])
async def test_scopes_may_leave_things_out(client: Any, receiver: WebhookReceiver) -> None:
    """No client (a Unix socket), no root path, a message without a body."""
    app = asgi_app(receiver, AsyncHandler())
    for message in ({"type": "http.request"}, {"type": "http.request", "body": None}):
        start, body = await asgi_messages(app, asgi_scope(client=client, root_path=None), message)
        assert start["status"] == 200
        assert read_reply(body["body"]).code == "INVALID_SIGNATURE"


async def test_http_2_knows_no_connection_header(receiver: WebhookReceiver) -> None:
    """An endless body over HTTP/2 is answered without one, over HTTP/1.1 with."""
    app = asgi_app(receiver, AsyncHandler())
    for version, closes in (("2", False), ("1.1", True)):
        pieces = [{"type": "http.request", "body": b"x" * 4_000_000, "more_body": True}] * 5
        start, _ = await asgi_messages(app, asgi_scope(http_version=version), *pieces)
        assert ((b"connection", b"close") in start["headers"]) is closes


async def test_a_client_that_is_gone_when_the_reply_is_sent(receiver: WebhookReceiver) -> None:
    """Servers may say so with an OSError, which is nobody's business here; other errors are told."""
    app = asgi_app(receiver, AsyncHandler())

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"{}"}

    def failing(error: Exception) -> Any:
        async def send(message: dict[str, Any]) -> None:
            raise error

        return send

    await app(asgi_scope(), receive, failing(BrokenPipeError()))
    with pytest.raises(RuntimeError):
        await app(asgi_scope(), receive, failing(RuntimeError("x")))


async def test_a_client_that_hangs_up_first(receiver: WebhookReceiver) -> None:
    """Nothing is sent, and nothing is asked."""
    handler = AsyncHandler()
    app = asgi_app(receiver, handler)
    gone, piece = {"type": "http.disconnect"}, {"type": "http.request", "body": b"{", "more_body": True}
    assert await asgi_messages(app, asgi_scope(), gone) == []
    assert await asgi_messages(app, asgi_scope(), piece, piece, gone) == []
    assert handler.calls == []


@pytest.mark.slow
def test_a_batch_over_http(public_key: RSAPublicKey, private_key: RSAPrivateKey) -> None:
    """A11, F09: up to 1 MiB in pieces."""
    receiver = WebhookReceiver(authenticator=RsaSignature(public_key), profile=Profile(deposit_batch=True))
    items = [{**DEPOSIT, "action_id": f"b{number}", "tx_id": f"t{number}", "x": "y" * 800} for number in range(999)]
    body = encoded(items)
    assert 900_000 < len(body) <= 1_048_576
    send = over_asgi(*(body[start : start + 65_536] for start in range(0, len(body), 65_536)))
    for path in ("/deposit-batch", "/deposit/batch"):
        _, reply = send(receiver, AsyncHandler(), "POST", path, signed(private_key, body))
        assert [item["tx_id"] for item in json.loads(reply)] == [item["tx_id"] for item in items]
