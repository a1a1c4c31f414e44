"""Both clients against a real socket that misbehaves in every way we could think of (docs/decisions/0004)."""

import gzip
import socket
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import httpcore
import httpx
import httpx2
import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

from game_operator import AsyncOperatorClient
from game_operator.client.settings import ReadLimits
from game_operator.errors import (
    GameOperatorError,
    NoAnswerError,
    OutcomeUnknownError,
    RequestNotSentError,
    UnexpectedResponseError,
)
from game_operator.models import GrantAccepted, OpenBet
from tests.support.flavours import FLAVOURS, Perform, Scenario, look_up, make_grant, run
from tests.support.hostile_server import (
    Connection,
    HostileServer,
    Script,
    answer,
    found,
    knows_every_bet,
    response_bytes,
)
from tests.support.wire import bet, grant_request, granted, wire

pytestmark = pytest.mark.outside

_FOUND = response_bytes(200, wire(bet()))
_GRANTED = response_bytes(200, wire(granted()))
_TIMEOUT = 0.2
_PATIENT = 5.0
# Two cores may be busy with anything: what is measured is that nothing hangs.
_LATE = 2.0


def _after_request(act: Callable[[Connection], object]) -> Script:
    def script(connection: Connection) -> None:
        if connection.read_request():
            act(connection)

    return script


def _said(data: bytes, *, closing: bool = True) -> Script:
    """Return a script that says *data* once, and then hangs up unless told to stay."""

    def act(connection: Connection) -> None:
        connection.send(data)
        if closing:
            connection.close()

    return _after_request(act)


def _flood(connection: Connection) -> None:
    """Send 1xx answers for longer than any attempt may last, then hang up."""
    give_up = time.monotonic() + 3 * _TIMEOUT
    while time.monotonic() < give_up and connection.send(b"HTTP/1.1 103 Early Hints\r\nLink: </>\r\n\r\n"):
        time.sleep(0.005)
    connection.close()


def _drip_header(connection: Connection) -> None:
    connection.send(b"HTTP/1.1 200 OK\r\nX-Slow: ")
    connection.drip(b"x" * 90_000)


def _drip_body(connection: Connection) -> None:
    connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
    connection.drip(b" " * 100_000)


def _reset_unread(connection: Connection) -> None:
    # Reset before the first byte, the connection may not even come about for the client.
    connection.sock.recv(1, socket.MSG_PEEK)
    connection.reset()


def _ending(
    perform: Perform, scenario: Scenario[Any], base_url: str, **options: Any
) -> tuple[GameOperatorError, float]:
    """Return the error in which one call ends, and its seconds."""
    options = {"timeout": _TIMEOUT, "retries": 0, "read_limits": ReadLimits(other=50_000)} | options
    began = time.monotonic()
    with pytest.raises(GameOperatorError) as raised:
        perform(scenario, base_url, **options)
    return raised.value, time.monotonic() - began


@pytest.fixture
def in_sync(private_key: RSAPrivateKey) -> Perform:
    """Run a scenario with the sync client."""
    return partial(run, "sync", private_key=private_key)


_NO_ANSWER = [
    pytest.param(_reset_unread, False, id="reset before the request is read"),
    pytest.param(_after_request(Connection.reset), False, id="reset after the request was read"),
    pytest.param(_after_request(Connection.close), False, id="closed without an answer"),
    pytest.param(_after_request(lambda connection: connection.wait_for_peer()), True, id="silence"),
    pytest.param(_after_request(_drip_header), True, id="headers that drip in"),
    pytest.param(_after_request(_drip_body), True, id="a body that drips in"),
    pytest.param(_after_request(_flood), None, id="a flood of 103"),
    pytest.param(_said(response_bytes(200, b"{", length=1000)), False, id="a truncated body"),
    pytest.param(_said(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nx\r\n"), False, id="no chunk"),
    pytest.param(_said(b"\x16\x03\x01 garbage \x00\xff\r\n\r\n"), False, id="garbage instead of HTTP"),
    pytest.param(_said(b"HTTP/1.1 200 OK\r\nX: " + b"x" * 300_000 + b"\r\n\r\n"), False, id="a huge header"),
]


@pytest.mark.parametrize(("script", "timed_out"), _NO_ANSWER)
@pytest.mark.drawn(6, flavour=("trio",))
def test_no_answer_leaves_a_lookup_unanswered_and_a_grant_in_doubt(
    perform: Perform, script: Script, timed_out: bool | None
) -> None:
    """A request that left and was not answered properly ends so, in time (docs/decisions/0004)."""
    # What ends by itself may take its time on a busy machine; only what hangs has to be timed out.
    timeout = _PATIENT if timed_out is False else _TIMEOUT
    with HostileServer(script) as server:
        lookup, seconds = _ending(perform, look_up, server.base_url, timeout=timeout)
        grant, grant_seconds = _ending(perform, make_grant, server.base_url, timeout=timeout)
        assert server.wait_until_closed()
    assert type(lookup) is NoAnswerError
    assert type(grant) is OutcomeUnknownError
    assert (grant.reference_id, grant.instance_id) == ("welcome-7", "instance-1")
    if timed_out is not None:
        assert lookup.timed_out is grant.timed_out is timed_out
    assert max(seconds, grant_seconds) < timeout + _LATE
    assert lookup.elapsed_seconds <= seconds
    for request in server.requests:
        signature = next(line for line in request.split(b"\r\n") if line.lower().startswith(b"x-signature"))
        assert signature[13:].decode().strip() not in f"{lookup} {grant} {grant.__cause__}"
    assert len(str(grant)) < 2000


def _continue(connection: Connection) -> None:
    """Say 100 Continue for as long as the other side listens."""
    while connection.send(b"HTTP/1.1 100 Continue\r\n\r\n") and not connection.stopping.wait(0.005):
        pass


_SLOW = [
    pytest.param(_after_request(lambda connection: connection.wait_for_peer()), id="silence"),
    pytest.param(_after_request(_drip_header), id="headers that drip in"),
    pytest.param(_after_request(_continue), id="100 Continue without end"),
    pytest.param(_after_request(_drip_body), id="a body that drips in"),
]


_BETWEEN_READS = [_SLOW[0], _SLOW[3]]


@pytest.mark.parametrize(
    ("flavour", "over", "script"),
    [
        *(pytest.param(each, None, *slow.values, id=f"{each}, {slow.id}") for each in FLAVOURS for slow in _SLOW),
        *(pytest.param("sync", httpx.Client, *slow.values, id=f"your httpx, {slow.id}") for slow in _BETWEEN_READS),
        *(pytest.param("sync", httpx2.Client, *slow.values, id=f"your httpx2, {slow.id}") for slow in _BETWEEN_READS),
    ],
)
@pytest.mark.drawn(8, flavour=("trio",))
def test_the_deadline_is_exact(over: Any, script: Script, perform: Perform) -> None:
    """
    It ends an attempt wherever that is, long before its timeout (docs/decisions/0028).

    With your own client it is checked between two reads of a body.
    """
    http_client = None if over is None else over(trust_env=False)
    with HostileServer(script) as server:
        options = {"deadline": 0.3, "timeout": 30.0, "http_client": http_client}
        error, seconds = _ending(perform, make_grant, server.base_url, **options)
        assert server.wait_until_closed()
    if http_client is not None:
        http_client.close()
    assert isinstance(error, OutcomeUnknownError)
    assert error.timed_out
    assert 0.29 <= seconds < 0.3 + _LATE


def test_in_sync_the_deadline_bounds_a_resolver(in_sync: Perform, monkeypatch: pytest.MonkeyPatch) -> None:
    """A silent resolver blocks for half a minute; the call ends in time, and nothing was sent (decision 0028)."""
    released = threading.Event()

    def silent(*arguments: object, **named: object) -> Any:
        released.wait(10)
        raise socket.gaierror(-3, "Temporary failure in name resolution")

    monkeypatch.setattr(socket, "getaddrinfo", silent)
    error, seconds = _ending(in_sync, make_grant, "https://api.example.com", deadline=0.3, timeout=30.0)
    released.set()
    assert type(error) is RequestNotSentError
    assert error.timed_out
    assert seconds < 0.3 + _LATE


def test_an_address_that_is_silent_leaves_time_for_the_next(in_sync: Perform, monkeypatch: pytest.MonkeyPatch) -> None:
    """A host may have two addresses, of which one is gone (docs/decisions/0028)."""
    with HostileServer(answer(_GRANTED)) as server, socket.create_server(("127.0.0.1", 0)) as listener:
        gone = listener.getsockname()[1]
        entries = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, server.port)) for host in ("gone", "127.0.0.1")]
        monkeypatch.setattr(socket, "getaddrinfo", lambda host, *_, **__: entries)
        connect = httpcore.SyncBackend.connect_tcp

        def silent_when_gone(self: Any, host: str, port: int, timeout: float, **rest: Any) -> Any:
            if host == "gone":
                assert timeout < 5.0
                raise httpcore.ConnectTimeout(f"port {gone} is silent")
            return connect(self, host, port, timeout, **rest)

        monkeypatch.setattr(httpcore.SyncBackend, "connect_tcp", silent_when_gone)
        base_url = f"http://two.localhost:{server.port}"
        assert isinstance(in_sync(make_grant, base_url, timeout=9.0), GrantAccepted)


@pytest.mark.parametrize("limits", [{}, {"deadline": 1.0, "timeout": 1.0}], ids=["default limits", "short limits"])
def test_a_resolver_without_an_answer_is_a_failure_to_connect(
    limits: dict[str, float], in_sync: Perform, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A resolver that stands in for the system's may return nothing; nothing was sent then."""
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [])
    error, _ = _ending(in_sync, make_grant, "https://api.example.com", **limits)
    assert type(error) is RequestNotSentError
    assert "api.example.com has no address" in str(error)


_BOMB = gzip.compress(b" " * 30_000_000)


def _chunked(*chunks: bytes) -> bytes:
    body = b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks)
    return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + body + b"0\r\n\r\n"


@pytest.mark.parametrize(
    ("data", "told"),
    [
        pytest.param(response_bytes(200, b""), "does not fit", id="an empty body"),
        pytest.param(response_bytes(204), "HTTP 204", id="204"),
        pytest.param(response_bytes(200, b" " * 300_000), "longer than 50000 bytes", id="too long, and says so"),
        pytest.param(_chunked(*[b" " * 500] * 600), "longer than 50000 bytes", id="too long, in chunks"),
        pytest.param(b"HTTP/1.1 200 OK\r\n\r\n" + b" " * 300_000, "longer than 50000 bytes", id="too long, to the end"),
        pytest.param(response_bytes(200, _BOMB, b"Content-Encoding: gzip"), "'gzip' encoded", id="a gzip bomb"),
        pytest.param(response_bytes(200, b"x", b"Content-Encoding: rot13"), "'rot13' encoded", id="unknown to all"),
    ],
)
@pytest.mark.drawn(6, flavour=("trio",))
def test_a_success_that_cannot_be_read_is_no_success(perform: Perform, data: bytes, told: str) -> None:
    """Encoded, too long, unfit: unexpected to a look-up, and to a grant a doubt (spec §4.2, docs/decisions/0004)."""
    with HostileServer(_said(data)) as server:
        lookup, _ = _ending(perform, look_up, server.base_url, timeout=_PATIENT)
        grant, _ = _ending(perform, make_grant, server.base_url, timeout=_PATIENT)
        assert server.wait_until_closed()
    assert type(lookup) is UnexpectedResponseError
    assert told in str(lookup)
    assert len(lookup.body) <= 50_000
    assert type(grant) is OutcomeUnknownError
    assert type(grant.__cause__) is UnexpectedResponseError


def test_a_body_may_be_as_long_as_allowed_and_no_longer(perform: Perform) -> None:
    """The limit is a limit on both sides, and counts each endpoint for itself (docs/decisions/0004)."""
    body = wire({"games": []})
    limits = ReadLimits(catalogue=len(body), other=1)

    async def games(client: AsyncOperatorClient) -> int:
        return len(await client.fetch_games())

    with HostileServer(answer(response_bytes(200, body))) as server:
        assert perform(games, server.base_url, read_limits=limits) == 0
    with HostileServer(answer(response_bytes(200, body + b" "))) as server:
        error, _ = _ending(perform, games, server.base_url, read_limits=limits)
    assert f"longer than {len(body)} bytes" in str(error)


class _Outpouring:
    """Sends a body as fast as it goes, in pieces of 64 KiB, and counts it; only *most* bytes, lest a test never end."""

    def __init__(self, head: bytes, piece: bytes, most: int) -> None:
        self.sent = 0  # Bytes.
        self._head, self._piece, self._most = head, piece, most

    def __call__(self, connection: Connection) -> None:
        connection.read_request()
        connection.send(b"HTTP/1.1 200 OK\r\n" + self._head + b"\r\n\r\n")
        while self.sent < self._most and connection.send(self._piece):
            self.sent += len(self._piece)
        connection.close()


_POURED = [
    pytest.param(b"Transfer-Encoding: chunked", b"10000\r\n" + b" " * 65_536 + b"\r\n", id="in chunks"),
    pytest.param(b"Content-Length: 999999999999", b" " * 65_536, id="of a length"),
]


@pytest.mark.parametrize(("head", "piece"), _POURED)
def test_a_body_that_pours_is_not_read_beyond_its_limit(perform: Perform, head: bytes, piece: bytes) -> None:
    """Reading stops soon after the limit even if the next piece is always there (docs/decisions/0004)."""
    pouring = _Outpouring(head, piece, 256_000_000)
    with HostileServer(pouring) as server:
        error, seconds = _ending(perform, look_up, server.base_url, timeout=8.0)
        assert server.wait_until_closed()
    assert "longer than 50000 bytes" in str(error)
    assert seconds < 4.0
    # Up to 10 MB wait in the buffers of the two sockets.
    assert pouring.sent < 32_000_000


@pytest.mark.parametrize(("head", "piece"), _POURED)
@pytest.mark.drawn(1, flavour=("trio",))
def test_a_body_that_pours_ends_with_its_time(perform: Perform, head: bytes, piece: bytes) -> None:
    """An attempt that is not at its limit yet ends in time all the same (docs/decisions/0004)."""
    pouring = _Outpouring(head, piece, 3_000_000_000)
    with HostileServer(pouring) as server:
        error, seconds = _ending(perform, look_up, server.base_url, timeout=0.1, read_limits=ReadLimits(other=2**32))
        assert server.wait_until_closed()
    assert isinstance(error, NoAnswerError)
    assert error.timed_out
    assert seconds < 0.1 + _LATE


@pytest.mark.parametrize(
    ("status", "location"),
    [
        *((status, b"") for status in (301, 302, 303, 307, 308)),
        pytest.param(302, "http://xn--é/".encode(), id="a host that is none"),
        pytest.param(302, b"https://x.example/" + b"y" * 70_000, id="endless"),
    ],
)
@pytest.mark.drawn(3, flavour=("trio",))
def test_a_redirect_is_never_followed(perform: Perform, status: int, location: bytes) -> None:
    """A signature is not sent to another address, and the address is not read (spec §5, docs/decisions/0004)."""
    with HostileServer(answer(_GRANTED)) as elsewhere:
        location = location or f"{elsewhere.base_url}/api/v0.2/free-bet/grant".encode()
        with HostileServer(answer(response_bytes(status, b"", b"Location: " + location))) as server:
            for scenario in (look_up, make_grant):
                error, _ = _ending(perform, scenario, server.base_url, timeout=_PATIENT)
                assert type(error) is UnexpectedResponseError
                assert "redirects to" in str(error)
            assert len(server.requests) == 2
        assert elsewhere.connections == []


@pytest.mark.parametrize("scenario", [look_up, make_grant], ids=["look-up", "grant"])
def test_a_refused_connection_sends_nothing(perform: Perform, scenario: Scenario[Any]) -> None:
    """Nothing listens there: the request never left (docs/decisions/0004)."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    error, _ = _ending(perform, scenario, f"http://127.0.0.1:{port}")
    assert type(error) is RequestNotSentError
    assert not error.timed_out


@pytest.mark.parametrize("scenario", [look_up, make_grant], ids=["look-up", "grant"])
@pytest.mark.drawn(1, flavour=("trio",))
def test_a_server_that_accepts_no_more_sends_nothing(perform: Perform, scenario: Scenario[Any]) -> None:
    """A connection that does not come about in time: the request never left (docs/decisions/0004)."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listener:
        address = listener.getsockname()
        waiting = [socket.socket() for _ in range(4)]
        for sock in waiting:
            sock.setblocking(False)
            sock.connect_ex(address)  # They fill the queue of connections that nobody accepts.
        time.sleep(0.05)
        error, _ = _ending(perform, scenario, f"http://127.0.0.1:{address[1]}")
        for sock in waiting:
            sock.close()
    assert type(error) is RequestNotSentError
    assert error.timed_out


@pytest.mark.parametrize("hang_up", [Connection.close, Connection.reset], ids=["closed", "reset"])
def test_a_connection_closed_while_idle_is_not_used_again(
    perform: Perform, hang_up: Callable[[Connection], None]
) -> None:
    """The next call opens a new one, without counting an attempt (docs/decisions/0004)."""
    first_is_gone: list[bool] = []

    def once(connection: Connection) -> None:
        connection.send(found(connection.read_request()))
        hang_up(connection)
        first_is_gone.append(True)

    async def twice(client: AsyncOperatorClient) -> Any:
        await client.fetch_bet("bet-1")
        while not first_is_gone:
            time.sleep(0.01)
        return await client.fetch_bet("bet-2")

    with HostileServer(once, knows_every_bet) as server:
        assert isinstance(perform(twice, server.base_url, retries=1), OpenBet)
        assert len(server.connections) == 2


@pytest.mark.parametrize(
    ("bet_id", "segments"),
    [
        pytest.param("a/b", {b"a%2Fb"}, id="a slash"),
        pytest.param("50%", {b"50%25"}, id="a percent sign"),
        pytest.param("..%2f", {b"..%252f"}, id="something already escaped"),
        pytest.param("a?b#c", {b"a%3Fb%23c"}, id="a question mark and a hash"),
        pytest.param("a+b", {b"a%2Bb", b"a+b"}, id="a plus sign, escaped or not"),
    ],
)
@pytest.mark.drawn(4, flavour=("trio",))
def test_a_bet_id_travels_as_one_path_segment(perform: Perform, bet_id: str, segments: set[bytes]) -> None:
    """Whatever a bet id is made of, it is one segment on the wire (spec §4.2, docs/decisions/0002)."""

    async def look_up(client: AsyncOperatorClient) -> Any:
        return await client.fetch_bet(bet_id)

    with HostileServer(knows_every_bet) as server:
        perform(look_up, server.base_url)
        path = server.requests[0].split(b" ")[1]
    assert path.removeprefix(b"/api/v0.2/fetch-bet/") in segments


def test_what_is_sent_is_what_was_meant(perform: Perform) -> None:
    """Each header of ours is sent once, whatever carries it, and nothing is asked to be encoded (spec §5)."""

    async def lookup_and_grant(client: AsyncOperatorClient) -> None:
        await client.fetch_bet("bet-1")
        await client.grant_free_bet(**grant_request())

    with HostileServer(answer(_FOUND), answer(_FOUND)) as server:
        with pytest.raises(OutcomeUnknownError):  # A bet is no answer to a grant.
            perform(lookup_and_grant, server.base_url, retries=0)
        lookup, grant = (request.partition(b"\r\n\r\n")[0].lower().split(b"\r\n")[1:] for request in server.requests)
    for lines, length in ((lookup, None), (grant, len(server.requests[1].partition(b"\r\n\r\n")[2]))):
        headers = dict(line.split(b": ", 1) for line in lines)
        assert len(headers) == len(lines)
        assert headers[b"host"].decode() == server.base_url.removeprefix("http://")
        assert headers[b"x-operator-id"] == b"acme"
        assert headers[b"accept"] == b"application/json"
        assert headers[b"accept-encoding"] == b"identity"
        assert headers[b"user-agent"].startswith(b"game-operator/")
        assert headers.get(b"content-length") == (None if length is None else b"%d" % length)
        assert headers.get(b"content-type") == (None if length is None else b"application/json")
        assert b"transfer-encoding" not in headers
