"""A sandbox starts, serves and ends, and leaves nothing behind."""

import gc
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey

from game_operator import ConfigurationError, OpenBet, OperatorClient
from game_operator_testkit.sandbox import Sandbox
from testkit.tests.sandbox.support import terms

pytestmark = pytest.mark.outside


def port_of(sandbox: Sandbox) -> int:
    """Return the port that *sandbox* listens on."""
    port = urlsplit(sandbox.base_url).port
    assert port is not None
    return port


@dataclass(frozen=True)
class Held:
    """The threads, files and sockets of this process, each by what it is: one of another test may end meanwhile."""

    threads: frozenset[threading.Thread]
    files: frozenset[str]

    @classmethod
    def now(cls) -> "Held":
        gc.collect()
        return cls(frozenset(threading.enumerate()), frozenset(open_files()))

    def since(self, before: "Held") -> "Held":
        """Return what came after *before* and is still there."""
        return Held(self.threads - before.threads, self.files - before.files)


NOTHING = Held(frozenset(), frozenset())


def open_files() -> Iterator[str]:
    """Yield the number and target of each open file; a socket or pipe has a number of its own in the kernel."""
    for entry in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # The listing itself was one of them.
            yield f"{entry.name} {entry.readlink()}"


def test_a_sandbox_is_ready_when_it_is_entered() -> None:
    """With nothing to set up, a client asks and is answered (spec §4.2)."""
    with Sandbox() as sandbox, sandbox.client() as client:
        assert isinstance(client.fetch_bet(sandbox.bet_ids["OPEN"]), OpenBet)
        assert [type(client.fetch_bet(bet_id)).__name__ for bet_id in sandbox.bet_ids.values()] == [
            "OpenBet",
            "ClosedBet",
            "ClosedBet",
            "RolledBackBet",
            "BetNotFound",
        ]
        assert client.grant_free_bet(**terms(sandbox.instance_id)).success


def test_nothing_is_left_behind(public_key: RSAPublicKey) -> None:
    """No thread, no socket and no open port, however often it was started."""
    with Sandbox(operator_public_key=public_key):  # What is loaded once shall not count.
        pass
    before = Held.now()
    for _ in range(2):
        with Sandbox(operator_public_key=public_key) as sandbox:
            port = port_of(sandbox)
            assert httpx.get(sandbox.base_url, trust_env=False, verify=False).status_code == 404
            assert len(set(threading.enumerate()) - before.threads) == 1
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), timeout=5)
    assert Held.now().since(before) == NOTHING


@pytest.mark.parametrize(
    "start",
    [
        pytest.param(b"", id="silent"),
        pytest.param(b"GET / HT", id="in the middle of a request"),
    ],
)
@pytest.mark.drawn(2)
def test_a_client_that_stays_does_not_hold_it_up(public_key: RSAPublicKey, start: bytes) -> None:
    """The sandbox ends within a moment, and hangs up on whoever is still there."""
    with Sandbox(operator_public_key=public_key) as sandbox:
        stays = socket.create_connection(("127.0.0.1", port_of(sandbox)), timeout=5)
        stays.sendall(start)
        time.sleep(0.1)
        begun = time.monotonic()
    assert time.monotonic() - begun < 3
    with stays:
        stays.settimeout(5)
        try:
            while stays.recv(65_536):
                pass
        except ConnectionResetError:
            pass
    gc.collect()


@pytest.mark.parametrize(
    "host", ["0.0.0.0", "::", "192.0.2.1", "example.com", "", "localhost.example.com", "127.0.0.1 "]
)
def test_it_serves_no_other_machine(public_key: RSAPublicKey, host: str) -> None:
    """Keys made for play must not be reachable from a network."""
    with pytest.raises(ConfigurationError, match="this machine alone"):
        Sandbox(operator_public_key=public_key, host=host)


def test_a_name_that_leads_elsewhere_is_not_served(public_key: RSAPublicKey, monkeypatch: pytest.MonkeyPatch) -> None:
    """What counts is the address behind the name, on a machine whose localhost is odd."""
    elsewhere = (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("0.0.0.0", 0))
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [elsewhere])
    with pytest.raises(ConfigurationError, match="this machine alone"):
        Sandbox(operator_public_key=public_key, host="localhost").__enter__()


def test_a_used_port_is_an_error_that_says_what_to_do(public_key: RSAPublicKey) -> None:
    """The port of one is not to be had by another; a free one is."""
    with Sandbox(operator_public_key=public_key) as first:
        port = port_of(first)
        threads = threading.active_count()
        second = Sandbox(operator_public_key=public_key, port=port)
        with pytest.raises(ConfigurationError, match=rf"port {port} .* port 0"), second:
            pass
        assert threading.active_count() == threads
    with second:
        assert port_of(second) == port


def test_with_a_key_of_yours_clients_are_yours_to_build(private_key: RSAPrivateKey, public_pem: bytes) -> None:
    """The sandbox then knows the public half alone, and says so (spec §5)."""
    with Sandbox("my-casino", public_pem) as sandbox:
        for build in (sandbox.client, sandbox.async_client, lambda: sandbox.private_key_pem):
            with pytest.raises(ConfigurationError, match="private key is yours"):
                build()
        with OperatorClient(sandbox.base_url, sandbox.operator_id, private_key, trust_env=False) as client:
            assert sandbox.operator_id == "my-casino"
            assert client.fetch_games()
