"""Proxies, with a real one on loopback: which are used, and what their failures mean (docs/decisions/0004)."""

import logging
import ssl
import sys
import time
from base64 import b64encode
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

from game_operator import AsyncOperatorClient, OperatorClient
from game_operator.errors import (
    ConfigurationError,
    GameOperatorError,
    NoAnswerError,
    OutcomeUnknownError,
    RequestNotSentError,
    ServiceError,
)
from game_operator.models import OpenBet
from game_operator.transport import wire as _http
from tests.client.conftest import Authority
from tests.support.flavours import Perform, Scenario, look_up, make_grant
from tests.support.hostile_server import Connection, HostileServer, knows_every_bet
from tests.support.leaks import everything_told
from tests.support.proxy import NAMED_BY_PROXY, forward, forward_socks, refuse, silent_after

pytestmark = [
    pytest.mark.outside,
    pytest.mark.drawn(8, flavour=("trio",)),
    pytest.mark.usefixtures("no_proxy_from_outside"),
]


@pytest.fixture
def secure(authority: Authority) -> Iterator[HostileServer]:
    """A service behind TLS."""
    with HostileServer(knows_every_bet, tls=authority.server("127.0.0.1")) as server:
        yield server


@pytest.fixture
def trusting(authority: Authority) -> ssl.SSLContext:
    """TLS settings that trust that service."""
    return authority.client()


def _with_password(proxy: HostileServer) -> str:
    return proxy.base_url.replace("://", "://casino:pr0xy-s3cret@")


def test_plain_http_goes_through_the_proxy_in_the_absolute_form(
    perform: Perform, monkeypatch: pytest.MonkeyPatch
) -> None:
    """HTTP_PROXY is told the whole address, if another machine is meant (docs/decisions/0004)."""
    with HostileServer(knows_every_bet) as server, HostileServer(forward) as proxy:
        monkeypatch.setenv("http_proxy", proxy.base_url)
        base_url = f"http://{NAMED_BY_PROXY}:{server.port}"
        found = perform(look_up, base_url, trust_env=True, allow_insecure_http=True)
        (asked,) = proxy.requests
        assert len(server.requests) == 1
    assert isinstance(found, OpenBet)
    assert asked.startswith(f"GET {base_url}/api/v0.2/fetch-bet/bet-1 HTTP/1.1\r\n".encode())


def test_no_proxy_is_used_where_none_is_wanted(
    perform: Perform, secure: HostileServer, trusting: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NO_PROXY and trust_env=False lead past the proxy (docs/decisions/0004)."""
    with HostileServer(forward) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy.base_url)
        assert isinstance(perform(look_up, secure.base_url, trust_env=False, ssl_context=trusting), OpenBet)
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        assert isinstance(perform(look_up, secure.base_url, trust_env=True, ssl_context=trusting), OpenBet)
        assert proxy.connections == []


def test_plain_http_to_this_machine_stays_here(perform: Perform, monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy would carry the signature off this machine in the open (spec §5; docs/decisions/0004)."""
    with HostileServer(knows_every_bet) as server, HostileServer(forward) as proxy:
        monkeypatch.setenv("ALL_PROXY", proxy.base_url)
        assert isinstance(perform(look_up, server.base_url, trust_env=True), OpenBet)
        assert proxy.connections == []


@pytest.mark.parametrize("scenario", [look_up, make_grant], ids=["look-up", "grant"])
@pytest.mark.parametrize("status", [407, 502])
def test_a_proxy_that_refuses_lets_nothing_through(
    perform: Perform,
    scenario: Scenario[Any],
    status: int,
    secure: HostileServer,
    trusting: ssl.SSLContext,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Without a tunnel nothing is sent; the error tells the status, and no password is told (docs/decisions/0004)."""
    with HostileServer(refuse(status)) as proxy, caplog.at_level(logging.DEBUG):
        monkeypatch.setenv("HTTPS_PROXY", _with_password(proxy))
        with pytest.raises(RequestNotSentError, match=f"ProxyError: {status}") as raised:
            perform(scenario, secure.base_url, trust_env=True, ssl_context=trusting, retries=0)
        assert proxy.wait_until_closed()
    assert secure.connections == []
    assert "pr0xy-s3cret" not in f"{raised.value} {raised.value!r} {caplog.text}"


def test_what_is_lost_inside_the_tunnel_is_in_doubt(
    perform: Perform, authority: Authority, trusting: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once TLS stands, a lost connection is a lost connection, behind a proxy too (docs/decisions/0004)."""

    def loses(connection: Connection) -> None:
        connection.read_request()
        connection.reset()

    with HostileServer(loses, tls=authority.server("127.0.0.1")) as server, HostileServer(forward) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy.base_url)
        options: dict[str, Any] = {"trust_env": True, "ssl_context": trusting, "retries": 0}
        with pytest.raises(NoAnswerError):
            perform(look_up, server.base_url, **options)
        with pytest.raises(OutcomeUnknownError):
            perform(make_grant, server.base_url, **options)


def test_a_proxy_in_front_of_plain_http_answers_for_the_service(
    perform: Perform, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its 502 cannot be told from the service's: a grant is in doubt (docs/decisions/0004)."""
    with HostileServer(refuse(502)) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.base_url)
        options: dict[str, Any] = {"trust_env": True, "retries": 0, "allow_insecure_http": True}
        with pytest.raises(ServiceError):
            perform(look_up, f"http://{NAMED_BY_PROXY}:9", **options)
        with pytest.raises(OutcomeUnknownError):
            perform(make_grant, f"http://{NAMED_BY_PROXY}:9", **options)


@pytest.mark.parametrize(
    "address",
    [
        pytest.param("foo://casino:pr0xy-s3cret@localhost:80", id="another scheme"),
        pytest.param("http://casino:pr0xy-s3cret/x@localhost:80", id="a slash in the password"),
        pytest.param("http://127.0.0.1:65536", id="a port beyond the last"),
        pytest.param("http://casino:pr0xy-s3cret@[::1", id="half a bracket"),
        pytest.param("http://pr0xy-s3cret\x01@localhost", id="a control character"),
        pytest.param(f"socks5://{'x' * 64}.example:1", id="a label of 64 letters"),
    ],
)
def test_a_proxy_that_cannot_be_one_is_a_setting_to_fix(
    perform: Perform, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error names the variables, or the argument, and not the password (docs/decisions/0004)."""
    with pytest.raises(ConfigurationError, match=r"^A proxy's address cannot be read\.") as given:
        perform(look_up, "https://127.0.0.1:9", proxy=address)
    assert given.value.setting == "proxy"
    monkeypatch.setenv("HTTPS_PROXY", address)
    with pytest.raises(ConfigurationError, match="HTTPS_PROXY") as named:
        perform(look_up, "https://127.0.0.1:9", trust_env=True)
    for error in (given.value, named.value):
        assert error.__context__ is error.__cause__ is None
        assert "pr0xy-s3cret" not in everything_told(error)


def test_a_password_that_is_taken_for_a_host_is_not_shown(perform: Perform) -> None:
    """As one with a # in it is (docs/decisions/0004)."""
    with pytest.raises(RequestNotSentError) as raised:
        perform(look_up, "https://127.0.0.1:9", proxy="http://pr0xy-s3cret#@localhost", retries=0)
    assert "pr0xy-s3cret" not in everything_told(raised.value)


def test_a_socks_proxy_needs_its_extra(perform: Perform, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names it (docs/decisions/0004)."""
    monkeypatch.setitem(sys.modules, "socksio", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'game-operator\[socks\]'") as refused:
        perform(look_up, "https://127.0.0.1:9", proxy="socks5://casino:pr0xy-s3cret@localhost:80")
    assert "pr0xy" not in everything_told(refused.value)


@pytest.mark.parametrize(
    ("kind", "http_client"), [(OperatorClient, httpx.Client()), (AsyncOperatorClient, httpx.AsyncClient())]
)
def test_a_client_of_yours_has_its_own_proxy(kind: Any, http_client: Any, private_key: RSAPrivateKey) -> None:
    """A proxy that would not be used is refused."""
    with pytest.raises(ConfigurationError, match="Give the proxy to your http_client"):
        kind("https://127.0.0.1:9", "acme", private_key, proxy="http://127.0.0.1:8", http_client=http_client)


#: Each kind of proxy, and how many steps of its handshake come before it is silent.
_SILENT = [
    ("http", "connected"),
    ("http", "tunnel"),
    ("https", "connected"),
    ("https", "TLS"),
    ("https", "tunnel"),
    ("socks5", "connected"),
    ("socks5", "method"),
    ("socks5", "tunnel"),
]


@pytest.fixture
def to_proxies(authority: Authority) -> ssl.SSLContext:
    """TLS settings of an https proxy."""
    return authority.server("127.0.0.1")


@pytest.mark.parametrize(("scheme", "last"), _SILENT, ids=[f"{scheme}, {last}" for scheme, last in _SILENT])
@pytest.mark.parametrize("scenario", [look_up, make_grant], ids=["look-up", "grant"])
@pytest.mark.drawn(8, flavour=("trio",))
def test_a_proxy_that_falls_silent_ends_the_attempt_in_time(
    perform: Perform,
    scenario: Scenario[Any],
    scheme: str,
    last: str,
    trusting: ssl.SSLContext,
    to_proxies: ssl.SSLContext,
) -> None:
    """At whichever step of its handshake that is; nothing has left then (docs/decisions/0028)."""
    tls = to_proxies if scheme == "https" and last != "connected" else None
    with HostileServer(silent_after(scheme, last), tls=tls) as proxy:
        address = proxy.base_url.replace("https://" if tls else "http://", f"{scheme}://")
        began = time.monotonic()
        with pytest.raises(RequestNotSentError) as raised:
            perform(
                scenario, "https://127.0.0.1:9", proxy=address, ssl_context=trusting, retries=0, timeout=9, deadline=0.4
            )
        seconds = time.monotonic() - began
        assert proxy.wait_until_closed()
    assert raised.value.timed_out
    assert "through the proxy (proxy=, HTTPS_PROXY or ALL_PROXY): " in str(raised.value)
    assert 0.1 < seconds < 2.4


def test_tls_that_drips_in_through_an_https_proxy_ends_in_time(
    perform: Perform, trusting: ssl.SSLContext, to_proxies: ssl.SSLContext
) -> None:
    """Each byte comes in time, and the handshake never ends (docs/decisions/0028)."""

    def drips(connection: Connection) -> None:
        connection.read_request()
        connection.send(b"HTTP/1.1 200 Connection established\r\n\r\n")
        connection.drip(b"\x16\x03\x03\x40\x00" + bytes(10_000), every_seconds=0.05)

    with HostileServer(drips, tls=to_proxies) as proxy:
        began = time.monotonic()
        with pytest.raises(RequestNotSentError):
            perform(make_grant, "https://127.0.0.1:9", proxy=proxy.base_url, ssl_context=trusting, deadline=0.5)
        assert time.monotonic() - began < 2.5


@pytest.mark.parametrize("scheme", ["http", "socks5"])
def test_no_log_shows_the_password_of_a_proxy(
    perform: Perform, scheme: str, trusting: ssl.SSLContext, caplog: pytest.LogCaptureFixture
) -> None:
    """Nor an error, if the proxy sends it back (docs/decisions/0004)."""

    def echoes(connection: Connection) -> None:
        said = connection.read_request() if scheme == "http" else connection.sock.recv(9)
        told = b64encode(b"casino:pr0xy-s3cret") + b" for casino:pr0xy-s3cret"
        connection.send(b"HTTP/1.1 407 no %s\r\n\r\n" % told if scheme == "http" else b"\x05\x02")
        if scheme != "http" and said:
            connection.sock.recv(99)
            connection.send(b"\x01\x01")

    with HostileServer(echoes) as proxy, caplog.at_level(logging.DEBUG):
        address = _with_password(proxy).replace("http://", f"{scheme}://")
        with pytest.raises(RequestNotSentError) as raised:
            perform(make_grant, "https://127.0.0.1:9", proxy=address, ssl_context=trusting, retries=0)
    # httpcore logs what a proxy says.
    told = f"{raised.value} {raised.value!r} {caplog.text if scheme == 'socks5' else ''}"
    assert "pr0xy-s3cret" not in told
    assert b64encode(b"casino:pr0xy-s3cret").decode() not in told


@pytest.mark.parametrize("scheme", ["http", "https", "socks5", "socks5h"])
@pytest.mark.parametrize("is_named", [True, False], ids=["by the argument", "by the environment"])
def test_each_kind_of_proxy_carries_a_call(
    perform: Perform,
    scheme: str,
    is_named: bool,
    secure: HostileServer,
    trusting: ssl.SSLContext,
    to_proxies: ssl.SSLContext,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With a user and a password, which the service does not see; nor does it see the call (docs/decisions/0004)."""
    carries = forward_socks if scheme.startswith("socks") else forward
    with HostileServer(carries, tls=to_proxies if scheme == "https" else None) as proxy:
        address = f"{scheme}://casino:pr0xy%2Fs3cret@127.0.0.1:{proxy.port}"
        options: dict[str, Any] = {"ssl_context": trusting}
        if is_named:
            monkeypatch.setenv("NO_PROXY", "*")  # It is about the environment alone.
            options["proxy"] = address
        else:
            monkeypatch.setenv("ALL_PROXY", address)
            options["trust_env"] = True

        async def look_up_twice_and_grant(client: AsyncOperatorClient) -> Any:
            return [await client.fetch_bet("bet-1"), await client.fetch_bet("bet-2")]

        found = perform(look_up_twice_and_grant, secure.base_url, **options)
        assert len(proxy.connections) == 1
        said = proxy.connections[0].requests[0]
        assert b64encode(b"casino:pr0xy/s3cret") in said or b"\x06casino\x0cpr0xy/s3cret" in said
        assert b"x-signature" not in said.lower()
        assert said.startswith(b"CONNECT 127.0.0.1:%d HTTP/1.1\r\n" % secure.port) or scheme.startswith("socks")
    assert [bet.reference_id for bet in found] == ["bet-1", "bet-2"]
    assert b"proxy" not in b"".join(secure.requests).lower()


@pytest.mark.parametrize("scheme", ["http", "https", "socks5"])
@pytest.mark.drawn(2)
def test_handshakes_that_time_out_use_nothing_up(
    perform: Perform,
    scheme: str,
    secure: HostileServer,
    trusting: ssl.SSLContext,
    to_proxies: ssl.SSLContext,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The next call connects, and no socket stays open, however many handshakes were given up (docs/decisions/0004)."""
    monkeypatch.setattr(_http.BaseWire, "_most_connections", 1)

    async def until_it_works(client: AsyncOperatorClient) -> Any:
        for _ in range(2):
            with pytest.raises(RequestNotSentError):
                await client.fetch_bet("bet-1")
        return await client.with_options(timeout=5.0).fetch_bet("bet-1")

    silent = silent_after(scheme, "tunnel")
    carries = forward_socks if scheme.startswith("socks") else forward
    with HostileServer(silent, silent, carries, tls=to_proxies if scheme == "https" else None) as proxy:
        options: dict[str, Any] = {"ssl_context": trusting, "retries": 0, "timeout": 0.3}
        address = f"{scheme}://127.0.0.1:{proxy.port}"
        assert isinstance(perform(until_it_works, secure.base_url, proxy=address, **options), OpenBet)
        assert proxy.wait_until_closed()


def test_no_repr_shows_the_password_of_a_proxy(
    private_key: RSAPrivateKey, monkeypatch: pytest.MonkeyPatch, trusting: ssl.SSLContext
) -> None:
    """Neither a client nor its errors (docs/decisions/0004)."""
    with HostileServer(refuse(407, b'Proxy-Authenticate: Basic realm="casino"')) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", _with_password(proxy))
        with OperatorClient("https://127.0.0.1:9", "acme", private_key, retries=0, ssl_context=trusting) as client:
            with pytest.raises(GameOperatorError) as raised:
                client.fetch_games()
            told = f"{client!r} {vars(client)} {vars(client._wire)} {raised.value!r} {vars(raised.value)}"
    assert "pr0xy-s3cret" not in told
