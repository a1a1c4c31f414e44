"""A connection is reused only when nothing is left on it (docs/decisions/0028)."""

import socket
import ssl
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import anyio
import httpx
import httpx2
import pytest
import trustme
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from httpx_aiohttp import HttpxAiohttpClient

from game_operator import AsyncOperatorClient, FreeBetRejectedError, OperatorClient, UnexpectedResponseError
from game_operator.models import OpenBet
from game_operator.transport import connection_reuse as _reuse
from tests.support.hostile_server import Connection, HostileServer, found, response_bytes
from tests.support.wire import grant_request, granted, wire

_GRANTED = response_bytes(200, wire(granted()))
_REFUSED = response_bytes(400, wire({"success": False, "message": "None such", "error_code": "INSTANCE_NOT_FOUND"}))

#: What a call goes over: the library of the user's own client, or None for ours; and the event loop, or "sync".
WAYS: dict[str, tuple[Any, str]] = {
    "ours": (None, "sync"),
    "ours on asyncio": (None, "asyncio"),
    "ours on trio": (None, "trio"),
    "httpx": (httpx.Client, "sync"),
    "httpx on asyncio": (httpx.AsyncClient, "asyncio"),
    "httpx on trio": (httpx.AsyncClient, "trio"),
    "httpx2": (httpx2.Client, "sync"),
    "httpx2 on asyncio": (httpx2.AsyncClient, "asyncio"),
    "httpx2 on trio": (httpx2.AsyncClient, "trio"),
    "aiohttp": (HttpxAiohttpClient, "asyncio"),
}
_YOURS = [way for way in WAYS if not way.startswith("ours")]
pytestmark = [pytest.mark.outside, pytest.mark.drawn(24, way=_YOURS)]

EACH_WAY = pytest.mark.parametrize("way", WAYS)
OVER_HTTPCORE = pytest.mark.parametrize("way", [way for way in WAYS if way != "aiohttp"])


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    """Whom everybody here trusts."""
    return trustme.CA()


class _Caller:
    """The same few calls, whatever they go over."""

    def __init__(self, client: Any, http_client: Any, *, is_async: bool) -> None:
        self._client, self._http_client, self._is_async = client, http_client, is_async

    async def look_up(self, bet_id: str) -> Any:
        return await self._of(self._client.fetch_bet(bet_id))

    async def grant(self) -> Any:
        return await self._of(self._client.grant_free_bet(**grant_request()))

    async def by_somebody_else(self, url: str) -> Any:
        return await self._of(self._http_client.get(url))

    async def wait_for(self, event: threading.Event) -> None:
        if not self._is_async:
            assert event.wait(5)
        while not event.is_set():
            await anyio.sleep(0.005)

    async def _of(self, result: Any) -> Any:
        return await result if self._is_async else result


def _run(
    way: str,
    scenario: Callable[[_Caller], Any],
    server: HostileServer,
    key: RSAPrivateKey,
    trusts: trustme.CA | None = None,
    **http_options: Any,
) -> Any:
    kind, loop = WAYS[way]
    # None of the system's authorities, which take long to read.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if trusts is not None:
        trusts.configure_trust(context)
    http_client = None if kind is None else kind(trust_env=False, verify=context, **http_options)
    options: dict[str, Any] = {"http_client": http_client, "trust_env": False, "retries": 0, "ssl_context": context}
    if loop == "sync":
        with OperatorClient(server.base_url, "acme", key, **options) as client:
            try:
                coroutine = scenario(_Caller(client, http_client, is_async=False))
                with pytest.raises(StopIteration) as finished:
                    coroutine.send(None)
                return finished.value.value
            finally:
                if http_client is not None:
                    http_client.close()

    async def main() -> Any:
        async with AsyncOperatorClient(server.base_url, "acme", key, **options) as client:
            try:
                return await scenario(_Caller(client, http_client, is_async=True))
            finally:
                if http_client is not None:
                    await http_client.aclose()

    return anyio.run(main, backend=loop)


_LEFT = [
    pytest.param(_GRANTED, False, id="a whole answer"),
    pytest.param(_GRANTED, True, id="a whole answer over TLS"),
    pytest.param(b"\r\n", False, id="a line end"),
    pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-Rest: ", False, id="half an answer"),
]


@EACH_WAY
@pytest.mark.parametrize("when", ["behind the answer", "between the calls"])
@pytest.mark.parametrize(("left", "tls"), _LEFT)
@pytest.mark.drawn(8, way=_YOURS)
def test_what_is_left_on_a_connection_answers_no_grant(
    way: str, when: str, left: bytes, tls: bool, private_key: RSAPrivateKey, authority: trustme.CA
) -> None:
    """The service refuses the grant, and the caller learns that (spec §7.2)."""
    has_sent = threading.Event()

    def script(connection: Connection) -> None:
        answered = found(connection.read_request())
        if when == "behind the answer":
            connection.send(answered + left)
        else:
            connection.send(answered)
            connection.stopping.wait(0.03)
            connection.send(left)
        has_sent.set()
        while connection.read_request():
            connection.send(_REFUSED)

    def refuses(connection: Connection) -> None:
        while connection.read_request():
            connection.send(_REFUSED)

    async def scenario(caller: _Caller) -> Any:
        await caller.look_up("bet-1")
        await caller.wait_for(has_sent)
        if when == "between the calls":
            has_sent.clear()
            threading.Timer(0.02, has_sent.set).start()
            await caller.wait_for(has_sent)  # What was sent has arrived by now.
        await caller.grant()

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    with (
        HostileServer(script, refuses, tls=context if tls else None) as server,
        pytest.raises(FreeBetRejectedError, match="INSTANCE_NOT_FOUND"),
    ):
        _run(way, scenario, server, private_key, authority)
    assert len(server.connections) == 2


@EACH_WAY
def test_a_connection_with_nothing_left_is_reused(way: str, private_key: RSAPrivateKey) -> None:
    """The check costs no connection, in chunks or not (docs/decisions/0028)."""

    def script(connection: Connection) -> None:
        while request := connection.read_request():
            head, _, body = found(request).partition(b"\r\n\r\n")
            chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
            connection.send(chunked if request.split(b" ")[1].endswith(b"2") else head + b"\r\n\r\n" + body)

    async def scenario(caller: _Caller) -> None:
        for number in range(4):
            assert isinstance(await caller.look_up(f"bet-{number}"), OpenBet)

    with HostileServer(script) as server:
        _run(way, scenario, server, private_key)
        assert (len(server.connections), len(server.requests)) == (1, 4)


@EACH_WAY
def test_an_answer_to_another_look_up_is_refused(way: str, private_key: RSAPrivateKey) -> None:
    """The second line: whatever brings it, it is not taken for the bet asked for (spec §2.4)."""

    def confused(connection: Connection) -> None:
        connection.read_request()
        connection.send(found(b"GET /api/v0.2/fetch-bet/bet-7 HTTP/1.1"))

    async def scenario(caller: _Caller) -> None:
        await caller.look_up("bet-1")

    with HostileServer(confused) as server, pytest.raises(UnexpectedResponseError, match="'bet-1' was asked for"):
        _run(way, scenario, server, private_key)


def _left_by_somebody_else(connection: Connection) -> None:
    connection.read_request()
    connection.send(response_bytes(200, b"hello") + _GRANTED)
    while connection.read_request():
        connection.send(_REFUSED)


def _refuses(connection: Connection) -> None:
    while connection.read_request():
        connection.send(_REFUSED)


@pytest.mark.parametrize("way", [way for way, (kind, _) in WAYS.items() if kind is not None])
def test_what_somebody_else_left_answers_no_grant(way: str, private_key: RSAPrivateKey) -> None:
    """Your client may be used for other calls too: it is looked at right before a request (docs/decisions/0028)."""

    async def scenario(caller: _Caller) -> None:
        await caller.by_somebody_else(server.base_url + "/hello")
        await caller.grant()

    with HostileServer(_left_by_somebody_else, _refuses) as server, pytest.raises(FreeBetRejectedError):
        _run(way, scenario, server, private_key)


@pytest.mark.parametrize("way", ["httpx", "httpx on asyncio", "httpx2", "httpx2 on trio"])
def test_a_hook_that_reads_the_answer_leaves_nothing(way: str, private_key: RSAPrivateKey) -> None:
    """It gives the connection back before we can look at it; the next call looks (docs/decisions/0028)."""

    def read(response: Any) -> None:
        response.read()

    async def aread(response: Any) -> None:
        await response.aread()

    def script(connection: Connection) -> None:
        connection.send(found(connection.read_request()) + _GRANTED)
        _refuses(connection)

    async def scenario(caller: _Caller) -> None:
        await caller.look_up("bet-1")
        await caller.grant()

    hooks = {"response": [read if WAYS[way][1] == "sync" else aread]}
    with HostileServer(script, _refuses) as server, pytest.raises(FreeBetRejectedError):
        _run(way, scenario, server, private_key, event_hooks=hooks)


def _left_behind_a_challenge(connection: Connection) -> None:
    connection.read_request()
    connection.send(response_bytes(401, b"who are you?") + _GRANTED)
    _refuses(connection)


@pytest.mark.parametrize("way", ["httpx", "httpx on asyncio", "httpx2", "httpx2 on trio"])
def test_a_request_that_authentication_repeats_is_looked_at_again(way: str, private_key: RSAPrivateKey) -> None:
    """What is left behind the answer 401 does not answer the request with credentials (docs/decisions/0028)."""
    library = httpx2 if way.startswith("httpx2") else httpx

    class Challenged(library.Auth):  # type: ignore[name-defined,misc] # one of two libraries
        requires_response_body = True

        def auth_flow(self, request: Any) -> Any:
            response = yield request
            if response.status_code == 401:
                yield request

    async def scenario(caller: _Caller) -> None:
        await caller.grant()

    with HostileServer(_left_behind_a_challenge, _refuses) as server, pytest.raises(FreeBetRejectedError):
        _run(way, scenario, server, private_key, auth=Challenged())


@pytest.mark.parametrize("library", [httpx, httpx2], ids=["httpx", "httpx2"])
def test_a_client_that_sends_twice_is_looked_at_twice(library: Any, private_key: RSAPrivateKey) -> None:
    """A subclass that retries, or anything that wraps ``send`` (docs/decisions/0028)."""

    class Retrying(library.Client):  # type: ignore[misc] # one of two libraries
        def send(self, request: Any, **options: Any) -> Any:
            response = super().send(request, **options)
            if response.status_code == 401:
                response.read()
                response = super().send(request, **options)
            return response

    with (
        HostileServer(_left_behind_a_challenge, _refuses) as server,
        Retrying(trust_env=False) as http_client,
        OperatorClient(server.base_url, "acme", private_key, http_client=http_client, retries=0) as client,
        pytest.raises(FreeBetRejectedError),
    ):
        client.grant_free_bet(**grant_request())


@pytest.mark.parametrize("library", [httpx, httpx2], ids=["httpx", "httpx2"])
def test_a_transport_that_takes_another_one_is_followed(library: Any, private_key: RSAPrivateKey) -> None:
    """What it wraps is looked for at each call (docs/decisions/0028)."""

    class Wrapping(library.BaseTransport):  # type: ignore[misc] # one of two libraries
        def __init__(self) -> None:
            self.inner = library.HTTPTransport()

        def handle_request(self, request: Any) -> Any:
            return self.inner.handle_request(request)

        def close(self) -> None:
            self.inner.close()

    def looked_up(connection: Connection) -> None:
        connection.send(found(connection.read_request()))

    transport = Wrapping()
    with (
        HostileServer(looked_up, _left_by_somebody_else, _refuses) as server,
        library.Client(transport=transport) as http_client,
        OperatorClient(server.base_url, "acme", private_key, http_client=http_client, retries=0) as client,
    ):
        client.fetch_bet("bet-1")
        transport.close()
        transport.inner = library.HTTPTransport()
        http_client.get(server.base_url + "/hello")
        with pytest.raises(FreeBetRejectedError):
            client.grant_free_bet(**grant_request())


@OVER_HTTPCORE
@pytest.mark.parametrize("missing", ["_INWARD", "_DOWNWARD", "_transport_for_url"])
def test_what_cannot_be_looked_at_is_not_reused(
    way: str, missing: str, private_key: RSAPrivateKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a version of a library has no such private attribute, each call has a connection of its own."""
    if missing == "_transport_for_url":
        monkeypatch.setattr(_reuse, "_pools_in", lambda transport: iter(()))
    else:
        monkeypatch.setattr(_reuse, missing, ("_of_another_version",))
        monkeypatch.setattr(_reuse, "_ANYIO", "_of_another_version")

    async def scenario(caller: _Caller) -> None:
        for number in range(3):
            await caller.look_up(f"bet-{number}")

    with HostileServer(_closing_when_asked) as server:
        _run(way, scenario, server, private_key)
        # Nobody else uses our own connections, so that these need no pool to look into.
        is_known = missing == "_transport_for_url" and WAYS[way][0] is None
        # A blocking socket without TLS needs no look at the layers above it.
        is_known = is_known or (missing == "_DOWNWARD" and WAYS[way][1] == "sync")
        assert len(server.connections) == (1 if is_known else 3)


@pytest.mark.parametrize(
    ("refuses", "is_left_to_the_caller"),
    [
        pytest.param(None, False, id="it is shut down"),
        pytest.param(OSError("not connected"), False, id="it is gone already"),
        pytest.param(TypeError("transport sockets do not support shutdown()"), True, id="uvloop's"),
        pytest.param("no socket", True, id="there is none"),
    ],
)
def test_a_connection_that_cannot_be_looked_into_is_closed_by_its_socket(
    refuses: object, *, is_left_to_the_caller: bool
) -> None:
    """Or, where the socket is out of reach, by the caller."""
    shut_down: list[int] = []

    def shutdown(how: int) -> None:
        shut_down.append(how)
        if isinstance(refuses, Exception):
            raise refuses

    sock = None if refuses == "no socket" else SimpleNamespace(shutdown=shutdown)
    stream = SimpleNamespace(get_extra_info={"socket": sock}.get)
    response = SimpleNamespace(extensions={"network_stream": stream}, stream=object())
    assert _reuse.spoil(response) is (stream if is_left_to_the_caller else None)
    assert shut_down == ([] if sock is None else [socket.SHUT_RDWR])


def _closing_when_asked(connection: Connection) -> None:
    while request := connection.read_request():
        connection.send(found(request))
        if b"\r\nconnection: close\r\n" in request.lower():
            connection.close()
            return


@pytest.mark.parametrize("is_read", [True, False], ids=["read", "in the socket"])
def test_over_aiohttp_what_is_left_answers_no_look_up(is_read: bool, private_key: RSAPrivateKey) -> None:
    """NOT_FOUND names no id: one that arrives between two calls is dropped, whether the loop has read it or not."""
    has_asked, has_sent = threading.Event(), threading.Event()

    def script(connection: Connection) -> None:
        connection.send(found(connection.read_request()))
        has_asked.wait(5)
        connection.send(response_bytes(200, b'{"status":"NOT_FOUND"}'))
        has_sent.set()

    async def scenario(caller: _Caller) -> Any:
        await caller.look_up("bet-1")
        has_asked.set()
        assert has_sent.wait(5)  # It blocks the loop, which reads nothing meanwhile.
        if is_read:
            await anyio.sleep(0.02)
        return await caller.look_up("bet-2"), await caller.look_up("bet-3")

    def knows(connection: Connection) -> None:
        while request := connection.read_request():
            connection.send(found(request))

    with HostileServer(script, knows) as server:
        looked_up = _run("aiohttp", scenario, server, private_key)
        assert [bet.reference_id for bet in looked_up] == ["bet-2", "bet-3"]
        assert [len(connection.requests) for connection in server.connections] == [1, 2]  # A clean one is kept.


@pytest.mark.parametrize("bare", [SimpleNamespace(), SimpleNamespace(client=SimpleNamespace(connector=object()))])
def test_an_aiohttp_that_hides_its_connections_gets_a_new_one_for_each_call(bare: Any) -> None:
    """Without its private attribute a grant asks for its connection to be closed, too (docs/decisions/0028)."""
    transport = type("AiohttpTransport", (SimpleNamespace,), {})(**vars(bare))
    http_client = SimpleNamespace(_transport_for_url=lambda url: transport)
    request = httpx.Request("POST", "http://localhost/")
    _reuse.YourTransport(http_client, _reuse.AsyncReuseGuard).prepare(request, is_grant=True)
    # Before its first call it has no connections at all.
    assert request.headers.get("connection") == ("close" if hasattr(bare, "client") else None)


def test_a_wrapped_transport_is_looked_into(private_key: RSAPrivateKey) -> None:
    """Yours may sit in another that retries or measures; one of a kind of its own gets a connection for each call."""

    class Wrapping(httpx.BaseTransport):
        def __init__(self, inner: httpx.BaseTransport) -> None:
            self.inner = inner

        def handle_request(self, request: httpx.Request) -> httpx.Response:
            return self.inner.handle_request(request)

    class Closed(httpx.BaseTransport):
        __slots__ = ("_handle",)

        def __init__(self, inner: httpx.BaseTransport) -> None:
            self._handle = inner.handle_request

        def handle_request(self, request: httpx.Request) -> httpx.Response:
            return self._handle(request)

    for kind, connections in ((Wrapping, 1), (Closed, 2)):
        with (
            HostileServer(_closing_when_asked) as server,
            httpx.HTTPTransport() as inner,
            httpx.Client(transport=kind(inner)) as http_client,
        ):
            client = OperatorClient(server.base_url, "acme", private_key, http_client=http_client)
            for bet_id in ("bet-1", "bet-2"):
                client.fetch_bet(bet_id)
            assert len(server.connections) == connections
