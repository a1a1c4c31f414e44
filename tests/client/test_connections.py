"""The HTTP clients with one connection each: who gets which, and when they are closed (docs/decisions/0028)."""

import gc
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import anyio
import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

from game_operator import AsyncOperatorClient, OperatorClient
from game_operator.errors import ConfigurationError, RequestNotSentError
from game_operator.transport.own_connections import Connections
from game_operator.transport.wire import BaseWire
from tests.support.hostile_server import Connection, HostileServer, answer, found, response_bytes
from tests.support.wire import bet, grant_request, granted, wire


def _numbered() -> Connections[int]:
    numbers = iter(range(100))
    return Connections(lambda: next(numbers), threading.Semaphore(3))


def test_the_last_one_used_is_used_again() -> None:
    """So that those that are not needed are idle for long, and closed."""
    connections = _numbered()
    first, second = (connections.take(fresh=False) for _ in range(2))
    assert [*connections.give_back(first, is_kept=True), *connections.give_back(second, is_kept=True)] == []
    assert connections.take(fresh=True) == 2
    assert (connections.take(fresh=False), connections.take(fresh=False)) == (second, first)


def test_one_that_is_not_kept_is_closed() -> None:
    """After a failure, and after a call that had one of its own."""
    connections = _numbered()
    assert [*connections.give_back(connections.take(fresh=True), is_kept=False)] == [0]
    assert connections.take(fresh=False) == 1


@pytest.mark.parametrize(("idle_seconds", "closed"), [(5.1, [0]), (4.9, [])])
def test_one_that_is_idle_for_long_is_closed(
    idle_seconds: float, closed: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A service closes it, too, and would leave half a connection here."""
    connections = _numbered()
    old, new = connections.take(fresh=False), connections.take(fresh=False)
    now = time.monotonic()
    assert [*connections.give_back(old, is_kept=True)] == []
    monkeypatch.setattr(time, "monotonic", lambda: now + idle_seconds)
    assert [*connections.give_back(new, is_kept=True)] == closed


def test_closing_closes_those_that_are_idle_and_later_the_others() -> None:
    """A call that is under way goes on."""
    connections = _numbered()
    idle, busy = connections.take(fresh=False), connections.take(fresh=False)
    assert [*connections.give_back(idle, is_kept=True)] == []
    assert [*connections.close()] == [idle]
    assert [*connections.give_back(busy, is_kept=True)] == [busy]


@pytest.mark.outside
def test_no_cookie_is_kept(private_key: RSAPrivateKey) -> None:
    """However many a service sets, none is sent back, and none takes memory."""
    sets_cookies = answer(response_bytes(200, wire(bet()), b"Set-Cookie: a=b; Path=/"))
    with (
        HostileServer(sets_cookies) as server,
        OperatorClient(server.base_url, "acme", private_key, trust_env=False) as client,
    ):
        for _ in range(2):
            client.fetch_bet("bet-1")
        (connections,) = client._wire._ours.values()
        http_client: Any = connections.take(fresh=False)
        assert len(http_client.cookies) == 0
        http_client.close()
    assert b"cookie" not in b"".join(server.requests).lower()


def _slow(connection: Connection) -> None:
    while request := connection.read_request():
        connection.stopping.wait(0.3)
        connection.send(response_bytes(200, wire(granted())) if b"grant" in request else found(request))


@pytest.mark.outside
def test_a_call_that_waits_for_a_place_does_not_leave_once_the_client_is_closed(
    private_key: RSAPrivateKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In sync; the call under way ends as it would have."""
    monkeypatch.setattr(BaseWire, "_most_connections", 1)
    with HostileServer(_slow) as server, ThreadPoolExecutor(2) as threads:
        client = OperatorClient(server.base_url, "acme", private_key, trust_env=False)
        under_way = threads.submit(client.fetch_bet, "bet-1")
        while not server.requests:
            time.sleep(0.005)
        waiting = threads.submit(client.grant_free_bet, **grant_request())
        time.sleep(0.1)
        client.close()
        assert under_way.result().reference_id == "bet-1"  # type: ignore[union-attr]
        with pytest.raises(ConfigurationError, match="is closed"):
            waiting.result()
        assert server.wait_until_closed()
        assert len(server.requests) == 1


@pytest.mark.outside
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("ends", ["closed", "cancelled"])
def test_a_grant_that_waits_for_a_place_has_not_left(
    backend: str, ends: str, private_key: RSAPrivateKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither when the client is closed nor when the call is cancelled; a cancellation carries no note then."""
    monkeypatch.setattr(BaseWire, "_most_connections", 1)
    ended: list[BaseException] = []

    async def main() -> None:
        client = AsyncOperatorClient(server.base_url, "acme", private_key, trust_env=False)

        async def grant() -> None:
            try:
                await client.grant_free_bet(**grant_request())
            except BaseException as error:
                ended.append(error)
                if not isinstance(error, ConfigurationError):
                    raise

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.fetch_bet, "bet-1")
            while not server.requests:
                await anyio.sleep(0.005)
            async with anyio.create_task_group() as waiting:
                waiting.start_soon(grant)
                await anyio.sleep(0.05)
                if ends == "closed":
                    await client.aclose()
                else:
                    waiting.cancel_scope.cancel()
        await client.aclose()

    with HostileServer(_slow) as server:
        anyio.run(main, backend=backend)
        assert server.wait_until_closed()
        assert len(server.requests) == 1
    assert isinstance(ended[0], ConfigurationError) is (ends == "closed")
    assert not hasattr(ended[0], "__notes__")


@pytest.mark.outside
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_grant_that_gets_no_connection_out_of_your_pool_has_not_left(
    backend: str, private_key: RSAPrivateKey
) -> None:
    """Its pool gives up a little before the attempt does, and says why (docs/decisions/0004)."""

    async def main() -> None:
        async with httpx.AsyncClient(trust_env=False, limits=httpx.Limits(max_connections=1)) as http_client:
            patient = AsyncOperatorClient(server.base_url, "acme", private_key, http_client=http_client)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(patient.fetch_bet, "bet-1")
                while not server.requests:
                    await anyio.sleep(0.005)
                with pytest.raises(RequestNotSentError, match="PoolTimeout"):
                    await patient.with_options(timeout=0.15, retries=0).grant_free_bet(**grant_request())

    with HostileServer(_slow) as server:
        anyio.run(main, backend=backend)
        assert len(server.requests) == 1


@pytest.mark.outside
def test_a_client_that_is_dropped_closes_its_connections(private_key: RSAPrivateKey) -> None:
    """Without a warning of a socket that nobody closed."""
    with HostileServer(_slow) as server:
        client = OperatorClient(server.base_url, "acme", private_key, trust_env=False)
        client.fetch_bet("bet-1")
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            del client
            gc.collect()
        assert server.wait_until_closed()
    assert [str(each.message) for each in warned] == []
