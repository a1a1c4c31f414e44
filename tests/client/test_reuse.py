"""What is left on a connection answers no other call: who reuses one, and what is asked again (docs/decisions/0028)."""

import ssl
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import anyio
import httpx
import httpx2
import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

from game_operator import AsyncOperatorClient, FreeBetRejectedError, OperatorClient, UnexpectedResponseError
from game_operator.models import BetNotFound, OpenBet, RoundFound
from game_operator.protocol.exchange import Departure
from game_operator.transport.wire import Progress
from tests.client.conftest import Authority
from tests.support.flavours import FLAVOURS, Scenario, run, run_over
from tests.support.hostile_server import Connection, HostileServer, answer, found, response_bytes
from tests.support.wire import bet, grant_request, granted, round_of, wire

_GRANTED = response_bytes(200, wire(granted()))
_REFUSED = response_bytes(400, wire({"success": False, "message": "None such", "error_code": "INSTANCE_NOT_FOUND"}))
_NOT_FOUND = response_bytes(200, b'{"status":"NOT_FOUND"}')

_refuses, _finds_nothing = answer(_REFUSED), answer(_NOT_FOUND)

#: What a call goes over: the library of the user's own client, or None for ours; and the event loop, or "sync".
WAYS: dict[str, tuple[Any, str]] = {
    f"{name} on {flavour}": (library, flavour)
    for name, library in (("ours", None), ("httpx", httpx), ("httpx2", httpx2))
    for flavour in FLAVOURS
}
_YOURS = [way for way in WAYS if not way.startswith("ours")]
pytestmark = [pytest.mark.outside, pytest.mark.drawn(24, way=_YOURS)]

EACH_WAY = pytest.mark.parametrize("way", WAYS)
OURS = pytest.mark.parametrize("way", [way for way in WAYS if way.startswith("ours")])
YOURS = pytest.mark.parametrize("way", _YOURS)


def _run(
    way: str,
    scenario: Scenario[Any],
    server: HostileServer,
    key: RSAPrivateKey,
    trusts: Authority | None = None,
    **options: Any,
) -> Any:
    library, flavour = WAYS[way]
    # None of the system's authorities, which take long to read.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if trusts is not None:
        trusts.ca.configure_trust(context)
    if library is None:
        return run(flavour, scenario, server.base_url, key, retries=0, ssl_context=context, **options)
    options |= {"trust_env": False, "verify": context}
    return run_over(library, flavour, None, scenario, server.base_url, key, **options)


def _knows(connection: Connection) -> None:
    while request := connection.read_request():
        connection.send(response_bytes(200, wire(round_of(bet()))) if b"fetch-round" in request else found(request))


def _leaving(left: bytes, when: str, has_sent: threading.Event) -> Callable[[Connection], None]:
    """Return a script whose connection holds something more, behind the answer to the first call or after it."""

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
            pass  # What was left is the answer.

    return script


def _until_it_arrived(has_sent: threading.Event) -> None:
    assert has_sent.wait(5)
    time.sleep(0.02)


WHENEVER = pytest.mark.parametrize("when", ["behind the answer", "between the calls"])


@OURS
@WHENEVER
@pytest.mark.parametrize("tls", [False, True], ids=["plain", "over TLS"])
@pytest.mark.parametrize("what", ["bet", "round"])
def test_a_left_over_not_found_refunds_no_bet(
    way: str, when: str, tls: bool, what: str, private_key: RSAPrivateKey, authority: Authority
) -> None:
    """NOT_FOUND names nothing: over a reused connection it is asked again over a new one (spec §2.4, §2.8)."""
    has_sent = threading.Event()

    async def scenario(client: AsyncOperatorClient) -> Any:
        await client.fetch_bet("bet-1")
        _until_it_arrived(has_sent)
        if what == "bet":
            return await client.fetch_bet("bet-2")
        return await client.fetch_round_bets(instance_id="instance-1", round_id="round-1")

    script = _leaving(_NOT_FOUND, when, has_sent)
    with HostileServer(script, _knows, tls=authority.server("127.0.0.1") if tls else None) as server:
        answered = _run(way, scenario, server, private_key, authority)
        assert len(server.connections) == 2
    assert isinstance(answered, OpenBet | RoundFound)


_LEFT = [
    pytest.param(_GRANTED, False, id="a whole answer"),
    pytest.param(_GRANTED, True, id="a whole answer over TLS"),
    pytest.param(b"\r\n", False, id="a line end"),
    pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-Rest: ", False, id="half an answer"),
]


@EACH_WAY
@WHENEVER
@pytest.mark.parametrize(("left", "tls"), _LEFT)
@pytest.mark.drawn(8, way=_YOURS)
def test_what_is_left_on_a_connection_answers_no_grant(
    way: str, when: str, left: bytes, tls: bool, private_key: RSAPrivateKey, authority: Authority
) -> None:
    """The service refuses the grant, and the caller learns that (spec §7.2)."""
    has_sent = threading.Event()

    async def scenario(client: AsyncOperatorClient) -> Any:
        await client.fetch_bet("bet-1")
        _until_it_arrived(has_sent)
        await client.grant_free_bet(**grant_request())

    with (
        HostileServer(
            _leaving(left, when, has_sent), _refuses, tls=authority.server("127.0.0.1") if tls else None
        ) as server,
        pytest.raises(FreeBetRejectedError, match="INSTANCE_NOT_FOUND"),
    ):
        _run(way, scenario, server, private_key, authority)
    assert len(server.connections) == 2


@EACH_WAY
def test_look_ups_alone_share_a_connection(way: str, private_key: RSAPrivateKey) -> None:
    """Grants and catalogues have one each, and every call of your own client says that it closes it."""

    def script(connection: Connection) -> None:
        while request := connection.read_request():
            path = request.split(b" ")[1]
            games = response_bytes(200, wire({"games": []}))
            connection.send(_GRANTED if b"grant" in path else games if path.endswith(b"games") else found(request))
            if b"\r\nconnection: close\r\n" in request.lower():
                return connection.close()
        return None

    async def scenario(client: AsyncOperatorClient) -> None:
        for number in range(3):
            assert isinstance(await client.fetch_bet(f"bet-{number}"), OpenBet)
        await client.fetch_games()
        await client.grant_free_bet(**grant_request())
        await client.grant_free_bet(**grant_request())
        assert isinstance(await client.fetch_bet("bet-3"), OpenBet)

    with HostileServer(script) as server:
        _run(way, scenario, server, private_key)
        each = [[request.split(b" ")[1].split(b"/")[3] for request in one.requests] for one in server.connections]
    if WAYS[way][0] is None:
        assert each == [[b"fetch-bet"] * 4, [b"fetch-games"], [b"free-bet"], [b"free-bet"]]
    else:
        assert [len(requests) for requests in each] == [1] * 7


@EACH_WAY
def test_an_answer_to_another_look_up_is_refused(way: str, private_key: RSAPrivateKey) -> None:
    """Whatever brings it, it is not taken for the bet asked for (spec §2.4)."""

    def confused(connection: Connection) -> None:
        connection.read_request()
        connection.send(found(b"GET /api/v0.2/fetch-bet/bet-7 HTTP/1.1"))

    async def scenario(client: AsyncOperatorClient) -> None:
        await client.fetch_bet("bet-1")

    with HostileServer(confused) as server, pytest.raises(UnexpectedResponseError, match="'bet-1' was asked for"):
        _run(way, scenario, server, private_key)


def _not_found_after_a_bet(connection: Connection) -> None:
    connection.send(found(connection.read_request()))
    _finds_nothing(connection)


async def _two_look_ups(client: AsyncOperatorClient) -> Any:
    await client.fetch_bet("bet-1")
    return await client.fetch_bet("bet-2")


@OURS
def test_a_not_found_that_is_confirmed_is_believed(way: str, private_key: RSAPrivateKey) -> None:
    """It is no repeat: it is asked with retries=0, too, and a watcher sees both questions (docs/decisions/0028)."""
    seen: list[tuple[str, int]] = []

    def watch(exchange: Any) -> None:
        seen.append((exchange.url.rpartition("/")[2], exchange.attempt))

    with HostileServer(_not_found_after_a_bet, _finds_nothing) as server:
        assert isinstance(_run(way, _two_look_ups, server, private_key, on_exchange=watch), BetNotFound)
        assert [len(connection.requests) for connection in server.connections] == [2, 1]
        assert server.connections[1].requests[0].count(b"Connection: close") == 1
    assert seen == [("bet-1", 1), ("bet-2", 1), ("bet-2", 2)]


@YOURS
def test_what_somebody_else_left_on_your_client_is_asked_again(way: str, private_key: RSAPrivateKey) -> None:
    """Your client may be used for other calls too: each connection that is left of those is used up."""
    both = threading.Barrier(2, timeout=5)

    def left(connection: Connection) -> None:
        connection.read_request()
        both.wait()  # Two connections at once.
        connection.send(response_bytes(200, b"hello"))
        connection.read_request()
        connection.send(_NOT_FOUND)

    library, flavour = WAYS[way]
    options: dict[str, Any] = {"operator_id": "acme", "private_key": private_key, "retries": 0}

    def in_sync() -> Any:
        with library.Client(trust_env=False) as http_client, ThreadPoolExecutor(2) as threads:
            list(threads.map(http_client.get, [server.base_url] * 2))
            return OperatorClient(server.base_url, http_client=http_client, **options).fetch_bet("bet-2")

    async def in_async() -> Any:
        async with library.AsyncClient(trust_env=False) as http_client:
            async with anyio.create_task_group() as tasks:
                for _ in range(2):
                    tasks.start_soon(http_client.get, server.base_url)
            return await AsyncOperatorClient(server.base_url, http_client=http_client, **options).fetch_bet("bet-2")

    with HostileServer(left, left, _knows) as server:
        assert isinstance(in_sync() if flavour == "sync" else anyio.run(in_async, backend=flavour), OpenBet)
        assert [len(connection.requests) for connection in server.connections] == [2, 2, 1]


class _Request:
    def __init__(self, method: bytes) -> None:
        self.method, self.extensions = method, {"trace": "ours"}


_CALL = {"request": _Request(b"GET")}
_TUNNEL = {"request": _Request(b"CONNECT")}
_CONNECTED = [("connection.connect_tcp.started", {}), ("connection.connect_tcp.complete", {"return_value": "stream"})]
_SENT = ("http11.send_request_headers.started", _CALL)


@pytest.mark.parametrize(
    ("events", "is_sent", "reused", "unfinished"),
    [
        pytest.param([], True, False, None, id="nothing is reported"),
        pytest.param(_CONNECTED[:1], False, False, None, id="it connects"),
        pytest.param(_CONNECTED, False, False, "stream", id="it is connected"),
        pytest.param([*_CONNECTED, ("connection.start_tls.started", {})], False, False, "stream", id="TLS begins"),
        pytest.param([*_CONNECTED, _SENT], True, False, None, id="sent over a new connection"),
        pytest.param([_SENT], True, True, None, id="sent over a reused one"),
        pytest.param([("http2.send_request_headers.started", _CALL)], True, False, None, id="HTTP/2 mixes nothing up"),
        pytest.param(
            [*_CONNECTED, ("http11.send_request_headers.started", _TUNNEL), ("http11.response_closed.started", {})],
            *(False, False, "stream"),
            id="a tunnel is asked for",
        ),
        pytest.param(
            [*_CONNECTED, ("http11.send_request_headers.started", _TUNNEL), _SENT], True, False, None, id="through it"
        ),
        pytest.param([*_CONNECTED, ("http11.something_new.started", {})], True, False, None, id="who knows"),
        pytest.param(
            [("socks.connect_tcp.started", {}), ("socks.setup_socks5_connection.started", {})],
            *(False, False, None),
            id="SOCKS",
        ),
    ],
)
def test_what_httpcore_reports_is_understood(
    events: list[tuple[str, Any]], is_sent: bool, reused: bool, unfinished: Any
) -> None:
    """Whatever is unknown counts as sent: no grant is taken for one that never left (docs/decisions/0028)."""
    progress = Progress(Departure())
    for event in events:
        progress(*event)
    assert (progress.departure.may_have_left, progress.reused, progress.unfinished) == (is_sent, reused, unfinished)
