"""A sandbox starts, serves and ends, and leaves nothing behind."""

import gc
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import anyio
import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from game_operator import BetNotFound, ConfigurationError, OpenBet, OperatorClient, SigningKeyError
from game_operator.signers.keys import PublicKeySource
from game_operator_testkit.sandbox import Sandbox, SandboxWorld
from game_operator_testkit.sandbox import serving as serving_module
from testkit.tests.sandbox.support import terms
from tests.support.signed_http import GRANT

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


@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
async def test_a_sandbox_serves_an_event_loop() -> None:
    """The sandbox has a loop of its own, so the caller's is free to ask (spec §4.2)."""
    with Sandbox() as sandbox:
        async with sandbox.async_client() as client, anyio.create_task_group() as tasks:
            for bet_id in sandbox.bet_ids.values():
                tasks.start_soon(client.fetch_bet, bet_id)
            tasks.start_soon(client.fetch_games)


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
        pytest.param(b"GET / HTTP/1.1\r\nHost: sandbox\r\n\r\n", id="idle after an answer"),
        pytest.param(b"GET / HT", id="in the middle of a request"),
        pytest.param(
            b"POST %s HTTP/1.1\r\nHost: s\r\nContent-Length: 99\r\n\r\n{" % GRANT.encode(), id="in the middle of a body"
        ),
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


def test_an_error_in_the_block_ends_it_too(public_key: RSAPublicKey) -> None:
    """Whatever leaves the block, the port is closed and the error comes through."""
    sandbox = Sandbox(operator_public_key=public_key)
    ports: list[int] = []

    def fail() -> None:
        with sandbox:
            ports.append(port_of(sandbox))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", ports[0]), timeout=5)


def test_two_serve_at_once_and_know_nothing_of_each_other() -> None:
    """Each has its port, its keys and its world (spec §5)."""
    with Sandbox() as one, Sandbox() as two, one.client() as client, two.client() as other:
        assert one.base_url != two.base_url
        assert one.private_key_pem != two.private_key_pem
        same = terms(one.instance_id)
        assert client.grant_free_bet(**same).success
        assert other.grant_free_bet(**same).success
        assert (len(one.world.grants()), len(two.world.grants())) == (1, 1)


def test_it_starts_in_any_thread(public_key: RSAPublicKey) -> None:
    """Several threads, each with a sandbox of its own, at once."""

    def status() -> int:
        with Sandbox(operator_public_key=public_key) as sandbox:
            return httpx.get(sandbox.base_url, trust_env=False, verify=False).status_code

    with ThreadPoolExecutor(4) as threads:
        assert [job.result(30) for job in [threads.submit(status) for _ in range(4)]] == [404] * 4


def test_its_state_lasts_beyond_the_block() -> None:
    """The world is there before, between and after; entered again, it serves again."""
    sandbox = Sandbox()
    asked = terms(sandbox.instance_id)
    with sandbox, sandbox.client() as client:
        assert client.grant_free_bet(**asked).success
    assert len(sandbox.world.grants()) == 1
    with sandbox, sandbox.client() as client:
        assert client.fetch_bet("b") == BetNotFound()


def test_it_is_entered_once_at_a_time(public_key: RSAPublicKey) -> None:
    """A second entry says what to do, and leaves the first alone."""
    with Sandbox(operator_public_key=public_key) as sandbox:
        with pytest.raises(ConfigurationError, match="second one"):
            sandbox.__enter__()
        assert httpx.get(sandbox.base_url, trust_env=False, verify=False).status_code == 404


def test_it_has_an_address_only_while_it_runs(public_key: RSAPublicKey) -> None:
    """An address without a server would only time out somewhere else."""
    sandbox = Sandbox(operator_public_key=public_key)
    for _ in range(2):
        assert repr(sandbox) == "Sandbox('acme', not running)"
        with pytest.raises(ConfigurationError, match="while it runs"):
            _ = sandbox.base_url
        with sandbox:
            assert sandbox.base_url in repr(sandbox)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "localhost", "::1"])
def test_it_serves_this_machine(public_key: RSAPublicKey, host: str) -> None:
    """Any loopback address will do, and base_url leads there."""
    try:
        with Sandbox(operator_public_key=public_key, host=host) as sandbox:
            assert httpx.get(sandbox.base_url, trust_env=False, verify=False).status_code == 404
    except ConfigurationError:
        if host != "::1":
            raise
        pytest.skip("this machine has no IPv6")


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


@pytest.mark.parametrize("port", [-1, 65_536])
def test_a_port_that_is_none_is_an_error(public_key: RSAPublicKey, port: int) -> None:
    """Ports go from 0 to 65535."""
    with pytest.raises(ConfigurationError, match="0 to take a free one"):
        Sandbox(operator_public_key=public_key, port=port)


def test_a_server_that_fails_to_start_is_an_error(public_key: RSAPublicKey, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever goes wrong in the thread is told where the sandbox was entered, and the port is free again."""

    async def broken(self: object, sockets: object = None) -> None:
        raise SystemExit(3)

    monkeypatch.setattr(serving_module._Server, "startup", broken)
    sandbox = Sandbox(operator_public_key=public_key)
    before = Held.now()
    with pytest.raises(ConfigurationError, match="did not start"), sandbox:
        pass
    assert Held.now().since(before) == NOTHING
    monkeypatch.undo()
    with sandbox:
        assert sandbox.base_url


def test_the_key_is_made_when_none_is_given() -> None:
    """The private half is handed out as PEM, and signs what the sandbox accepts (spec §5)."""
    with Sandbox() as sandbox:
        key = load_pem_private_key(sandbox.private_key_pem, None)
        assert isinstance(key, RSAPrivateKey)
        assert key.key_size == 2048
        with OperatorClient(sandbox.base_url, "acme", sandbox.private_key_pem, trust_env=False) as client:
            assert len(client.fetch_games()) >= 12


def test_with_a_key_of_yours_clients_are_yours_to_build(private_key: RSAPrivateKey, public_pem: bytes) -> None:
    """The sandbox then knows the public half alone, and says so (spec §5)."""
    with Sandbox("my-casino", public_pem) as sandbox:
        for build in (sandbox.client, sandbox.async_client, lambda: sandbox.private_key_pem):
            with pytest.raises(ConfigurationError, match="private key is yours"):
                build()
        with OperatorClient(sandbox.base_url, sandbox.operator_id, private_key, trust_env=False) as client:
            assert sandbox.operator_id == "my-casino"
            assert client.fetch_games()


@pytest.mark.parametrize("source", ["path", "text", "bytes", "object"])
def test_a_public_key_may_come_in_any_form(
    tmp_path: Path, public_key: RSAPublicKey, public_pem: bytes, source: str
) -> None:
    """A path, a PEM or a key object (spec §5)."""
    file = tmp_path / "operator.pub.pem"
    file.write_bytes(public_pem)
    forms: dict[str, PublicKeySource] = {
        "path": file,
        "text": public_pem.decode(),
        "bytes": public_pem,
        "object": public_key,
    }
    assert Sandbox(operator_public_key=forms[source]).world.public_key == public_key


def test_a_private_key_is_no_public_one(private_pem: bytes) -> None:
    """The mistake is named."""
    with pytest.raises(SigningKeyError, match="private key"):
        Sandbox(operator_public_key=private_pem)


def test_proxies_of_the_environment_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine behind a proxy reaches its own loopback directly."""
    with socket.create_server(("127.0.0.1", 0)) as unused:
        closed = f"http://127.0.0.1:{unused.getsockname()[1]}"
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, closed)
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    with Sandbox() as sandbox, sandbox.client(retries=0) as client:
        assert client.fetch_bet("b") == BetNotFound()

        async def ask() -> None:
            async with sandbox.async_client(retries=0) as async_client:
                assert await async_client.fetch_bet("b") == BetNotFound()

        anyio.run(ask)


def test_options_reach_the_client() -> None:
    """What OperatorClient takes, client() takes."""
    seen: list[object] = []
    with Sandbox() as sandbox, sandbox.client(on_exchange=seen.append, timeout=5.0) as client:
        client.fetch_bet("b")
    assert len(seen) == 1


def test_no_key_is_shown() -> None:
    """Neither repr shows a key."""
    sandbox = Sandbox()
    secret = sandbox.private_key_pem.decode().splitlines()[1]
    assert secret not in repr(sandbox) + repr(vars(sandbox)) + repr(vars(sandbox.world))


PROBE = """
import sys
{before}
try:
    from game_operator_testkit.sandbox import Sandbox
except ImportError as missing:
    print(type(missing).__name__, missing)
print(sorted(name for name in sys.modules if name.startswith(("game_operator.client", "game_operator.cli"))))
"""


def probe(before: str = "") -> list[str]:
    """Return what a fresh interpreter prints that imports the sandbox."""
    program = PROBE.format(before=before)
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    return run.stdout.splitlines()


def test_the_sandbox_does_not_load_the_client() -> None:
    """A process that only serves pays for no client."""
    assert probe() == ["[]"]


def test_a_world_stands_without_a_server(public_key: RSAPublicKey) -> None:
    """The state is an object of its own."""
    world = SandboxWorld("acme", public_key)
    assert (world.games(), world.grants()) == ((), ())
