"""Signers of every kind under both clients: when they are asked, and what becomes of their failures (spec §5)."""

import threading
import time
from typing import Any

import anyio
import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey

from game_operator import AsyncOperatorClient, OperatorClient
from game_operator.errors import ConfigurationError, RequestNotSentError
from game_operator.models import OpenBet
from game_operator.protocol.signing import sign, verify
from tests.support.flavours import look_up, make_grant, run
from tests.support.hostile_server import HostileServer, answer, response_bytes
from tests.support.wire import bet, wire

pytestmark = pytest.mark.outside

_FOUND = answer(response_bytes(200, wire(bet())))


class Blocking:
    """A signer such as a key management service: each call takes its time, in whatever thread it is made."""

    def __init__(self, key: RSAPrivateKey, seconds: float = 0.0) -> None:
        self._key = key
        self._seconds = seconds
        self.asked: list[bytes] = []
        self.threads: list[threading.Thread] = []

    def sign(self, message: bytes) -> bytes:
        self.asked.append(message)
        self.threads.append(threading.current_thread())
        time.sleep(self._seconds)
        return sign(self._key, message)


class Awaited(Blocking):
    """The same, awaited."""

    async def sign(self, message: bytes) -> bytes:  # type: ignore[override] # it is the other protocol
        self.asked.append(message)
        await anyio.sleep(self._seconds)
        return sign(self._key, message)


def _each(blocking: type, awaited: type) -> pytest.MarkDecorator:
    """Try both kinds of signer with the clients that take them."""
    rows = [("sync", blocking), ("asyncio", blocking), ("trio", blocking), ("asyncio", awaited), ("trio", awaited)]
    return pytest.mark.parametrize(("flavour", "kind"), rows)


@_each(Blocking, Awaited)
def test_a_signer_is_asked_once_for_the_same_message(
    flavour: str, kind: Any, private_key: RSAPrivateKey, public_key: RSAPublicKey
) -> None:
    """It gets the string of spec §5 and signs for X-Signature; repeats need it no more (docs/decisions/0003)."""
    signer = kind(private_key)

    async def twice(client: AsyncOperatorClient) -> Any:
        await client.with_options(retries=0).fetch_bet("bet-1")
        return await client.fetch_bet("bet-1")

    with HostileServer(_FOUND) as server:
        assert isinstance(run(flavour, twice, server.base_url, signer), OpenBet)
        lines = server.requests[0].split(b"\r\n")
    assert signer.asked == [b"acme:bet-1"]
    (signature,) = [line[13:] for line in lines if line.lower().startswith(b"x-signature: ")]
    assert verify(public_key, b"acme:bet-1", signature)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_blocking_signer_holds_up_nobody_else(backend: str, private_key: RSAPrivateKey) -> None:
    """It works in a thread of its own while the event loop goes on (docs/decisions/0004)."""
    signer = Blocking(private_key, seconds=0.3)
    ticks: list[float] = []

    async def main() -> None:
        client = AsyncOperatorClient(server.base_url, "acme", signer, trust_env=False)
        async with client, anyio.create_task_group() as tasks:
            tasks.start_soon(client.fetch_bet, "bet-1")
            for _ in range(5):
                await anyio.sleep(0.02)
                ticks.append(time.monotonic())

    with HostileServer(_FOUND) as server:
        anyio.run(main, backend=backend)
    assert signer.threads[0] is not threading.main_thread()
    assert len(ticks) == 5


class Broken:
    """A signer with a problem of its own."""

    def __init__(self, problem: BaseException) -> None:
        self._problem = problem

    def sign(self, message: bytes) -> bytes:
        raise self._problem


class AwaitedBroken(Broken):
    """The same, awaited."""

    async def sign(self, message: bytes) -> bytes:  # type: ignore[override] # it is the other protocol
        raise self._problem


class UnreachableError(Exception):
    """What a key management service may raise."""


@pytest.mark.parametrize("scenario", [look_up, make_grant], ids=["look-up", "grant"])
@_each(Broken, AwaitedBroken)
def test_a_signers_own_exception_passes_unchanged(flavour: str, kind: Any, scenario: Any) -> None:
    """It is the signer's to explain, and nothing has been sent (docs/decisions/0004)."""
    problem = UnreachableError("no route to the key")
    with HostileServer(_FOUND) as server:
        with pytest.raises(UnreachableError) as raised:
            run(flavour, scenario, server.base_url, kind(problem))
        assert server.connections == []
    assert raised.value is problem
    assert raised.value.__cause__ is None


@pytest.mark.parametrize("scenario", [look_up, make_grant], ids=["look-up", "grant"])
@_each(Blocking, Awaited)
@pytest.mark.drawn(4)
def test_a_signer_slower_than_the_deadline_sends_nothing(
    flavour: str, kind: Any, scenario: Any, private_key: RSAPrivateKey
) -> None:
    """The deadline counts signing: at once in async, afterwards in sync (docs/decisions/0004)."""
    exact = flavour != "sync"
    signing_seconds, deadline = (0.9, 0.2) if exact else (0.3, 0.2)

    async def timed(client: AsyncOperatorClient) -> float:
        began = time.monotonic()
        with pytest.raises(RequestNotSentError, match="signer did not answer" if exact else "while signing") as raised:
            await scenario(client)
        assert (raised.value.timed_out, raised.value.attempts) == (True, 0)
        return time.monotonic() - began

    with HostileServer(_FOUND) as server:
        seconds = run(flavour, timed, server.base_url, kind(private_key, signing_seconds), deadline=deadline)
        assert server.connections == []
    assert deadline <= seconds
    if exact:
        assert seconds < signing_seconds


def test_a_signature_that_came_too_late_is_remembered_all_the_same(private_key: RSAPrivateKey) -> None:
    """The next call in sync has it at hand (docs/decisions/0003)."""
    signer = Blocking(private_key, seconds=0.3)
    with (
        HostileServer(_FOUND) as server,
        OperatorClient(server.base_url, "acme", signer, trust_env=False, deadline=0.25) as client,
    ):
        with pytest.raises(RequestNotSentError):
            client.fetch_bet("bet-1")
        assert isinstance(client.with_options(deadline=10.0).fetch_bet("bet-1"), OpenBet)
    assert signer.asked == [b"acme:bet-1"]


def test_the_sync_client_takes_no_async_signer(private_key: RSAPrivateKey) -> None:
    """It says which client does (spec §5)."""
    with pytest.raises(ConfigurationError, match="Use AsyncOperatorClient with it"):
        OperatorClient("http://localhost", "acme", Awaited(private_key))
    AsyncOperatorClient("http://localhost", "acme", Awaited(private_key))
