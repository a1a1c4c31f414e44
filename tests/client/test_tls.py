"""TLS to a real server with a certificate authority of our own: who is trusted, and what a failure tells (spec §5)."""

import socket
import ssl
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import httpx
import pytest
import trustme
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

from game_operator import AsyncOperatorClient, OperatorClient
from game_operator.errors import ConfigurationError, GameOperatorError, RequestNotSentError
from game_operator.models import OpenBet
from game_operator.transport import wire as _http
from tests.client.conftest import Authority
from tests.support.flavours import Perform, Scenario, look_up, make_grant, run
from tests.support.hostile_server import Connection, HostileServer, answer, response_bytes
from tests.support.wire import bet, wire

pytestmark = [pytest.mark.outside, pytest.mark.drawn(8, flavour=("trio",))]

_FOUND = answer(response_bytes(200, wire(bet())))


_CALLS = pytest.mark.parametrize("scenario", [look_up, make_grant], ids=["look-up", "grant"])


def test_a_private_authority_is_trusted_when_named(perform: Perform, authority: Authority) -> None:
    """ssl_context= names whom to trust (docs/decisions/0004)."""
    with HostileServer(_FOUND, tls=authority.server("127.0.0.1")) as server:
        found = perform(look_up, server.base_url, ssl_context=authority.client())
        assert server.wait_until_closed()
    assert isinstance(found, OpenBet)
    assert server.requests[0].startswith(b"GET /api/v0.2/fetch-bet/bet-1 HTTP/1.1\r\n")


@pytest.mark.parametrize(
    ("variable", "trust_env"), [("SSL_CERT_FILE", True), ("SSL_CERT_FILE", False), ("UNRELATED", True)]
)
@pytest.mark.parametrize("flavour", ["sync"])
def test_the_environment_names_whom_to_trust(
    perform: Perform,
    variable: str,
    trust_env: bool,
    authority: Authority,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """SSL_CERT_FILE counts, unless trust_env=False (docs/decisions/0004)."""
    authority.ca.cert_pem.write_to_path(tmp_path / "roots.pem")
    monkeypatch.setenv(variable, str(tmp_path / "roots.pem"))
    _http.default_ssl_context.cache_clear()
    is_trusted = variable == "SSL_CERT_FILE" and trust_env
    ending = nullcontext() if is_trusted else pytest.raises(RequestNotSentError)
    with HostileServer(_FOUND, tls=authority.server("127.0.0.1")) as server, ending:
        assert isinstance(perform(look_up, server.base_url, trust_env=trust_env, retries=0), OpenBet)
    _http.default_ssl_context.cache_clear()


@pytest.mark.parametrize("flavour", ["sync", "asyncio"])
def test_roots_that_cannot_be_read_are_a_setting_to_mend(
    perform: Perform, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The error names the variable instead of a file that nobody mentioned (docs/decisions/0004)."""
    _http.default_ssl_context.cache_clear()
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "nowhere.pem"))
    with pytest.raises(ConfigurationError, match="SSL_CERT_FILE"):
        perform(look_up, "https://127.0.0.1:9", trust_env=True)


@_CALLS
def test_an_authority_nobody_named_is_not_trusted(
    perform: Perform, scenario: Scenario[Any], authority: Authority
) -> None:
    """Nothing is sent, and the error says why (docs/decisions/0004)."""
    with HostileServer(_FOUND, tls=authority.server("127.0.0.1")) as server:
        with pytest.raises(
            RequestNotSentError, match="certificate verify failed: unable to get local issuer"
        ) as raised:
            perform(scenario, server.base_url, ssl_context=Authority(trustme.CA()).client(), retries=0)
        assert server.requests == []
    assert "SSL_CERT_FILE" in raised.value.remedy


@_CALLS
def test_another_hosts_certificate_is_not_taken(
    perform: Perform, scenario: Scenario[Any], authority: Authority
) -> None:
    """Nothing is sent, and the error says why (docs/decisions/0004)."""
    with HostileServer(_FOUND, tls=authority.server("localhost", "10.0.0.1")) as server:
        with pytest.raises(RequestNotSentError, match="IP address mismatch"):
            perform(scenario, server.base_url, ssl_context=authority.client(), retries=0)
        assert server.requests == []


@_CALLS
@pytest.mark.parametrize(
    ("greeting", "timed_out"),
    [
        pytest.param(b"HTTP/1.1 400 Bad Request\r\n\r\n", False, id="plain http"),
        pytest.param(b"", True, id="silence"),
    ],
)
@pytest.mark.drawn(2, flavour=("trio",))
def test_a_server_without_tls_gets_nothing(
    perform: Perform, scenario: Scenario[Any], greeting: bytes, timed_out: bool
) -> None:
    """No handshake, no request; a silent one ends in time, too (docs/decisions/0004)."""

    def script(connection: Connection) -> None:
        connection.sock.recv(5)
        connection.send(greeting)

    with HostileServer(script) as server:
        base_url = server.base_url.replace("http:", "https:")
        no_roots = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        began = time.monotonic()
        with pytest.raises(RequestNotSentError) as raised:
            perform(scenario, base_url, ssl_context=no_roots, timeout=0.3, retries=0)
        assert time.monotonic() - began < 2.0
        assert server.wait_until_closed()
    assert raised.value.timed_out is timed_out


async def _fail(client: AsyncOperatorClient) -> None:
    with pytest.raises(GameOperatorError):
        await client.fetch_bet("bet-1")


def test_roots_are_read_once_and_only_for_https(private_key: RSAPrivateKey, monkeypatch: pytest.MonkeyPatch) -> None:
    """One default context serves the process; plain http needs none (docs/decisions/0004)."""
    built: list[bool] = []
    build = httpx.create_ssl_context

    def counted(*, trust_env: bool) -> ssl.SSLContext:
        built.append(trust_env)
        return build(trust_env=trust_env)

    _http.default_ssl_context.cache_clear()
    monkeypatch.setattr(httpx, "create_ssl_context", counted)
    monkeypatch.setattr(ssl, "create_default_context", _refused_to_build)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
    with OperatorClient(f"https://{address}", "acme", private_key):
        pass
    for flavour in ("sync", "asyncio", "trio"):
        run(flavour, _fail, f"http://{address}", private_key, retries=0)
    assert built == []
    monkeypatch.undo()
    _http.default_ssl_context.cache_clear()
    monkeypatch.setattr(httpx, "create_ssl_context", counted)
    for flavour in ("sync", "asyncio", "trio", "sync"):
        run(flavour, _fail, f"https://{address}", private_key, retries=0)
    assert built == [False]
    run("sync", _fail, f"https://{address}", private_key, retries=0, trust_env=True)
    run("sync", _fail, f"HTTPS://{address}", private_key, retries=0, trust_env=True)
    assert built == [False, True]


def _refused_to_build(*arguments: object, **options: object) -> ssl.SSLContext:
    raise AssertionError("roots were read for plain http")
