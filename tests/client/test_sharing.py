"""Threads that share a sync client, and the event loop that an async one belongs to (docs/decisions/0004)."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
import trio
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

from game_operator import AsyncOperatorClient, OperatorClient
from game_operator.errors import ConfigurationError
from game_operator.transport import sync as _wire
from game_operator.transport.own_connections import Connections
from tests.support.hostile_server import HostileServer, knows_every_bet

pytestmark = pytest.mark.outside

_THREADS = 16


def _at_once(work: Callable[[int], Any]) -> list[Any]:
    """Return what *work* returns in each of 16 threads that begin together."""
    everybody = threading.Barrier(_THREADS, timeout=10)

    def begin(number: int) -> Any:
        everybody.wait()
        return work(number)

    with ThreadPoolExecutor(_THREADS) as threads:
        return list(threads.map(begin, range(_THREADS)))


def test_sixteen_threads_share_a_client(private_key: RSAPrivateKey, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every call gets its own answer, and the connections are opened once (docs/decisions/0004)."""
    opened: list[object] = []

    class Counted(Connections[Any]):
        def __init__(self, *arguments: Any) -> None:
            opened.append(arguments)
            super().__init__(*arguments)

    monkeypatch.setattr(_wire, "Connections", Counted)
    with (
        HostileServer(knows_every_bet) as server,
        OperatorClient(server.base_url, "acme", private_key, trust_env=False) as client,
    ):

        def work(number: int) -> list[str]:
            mine = client if number % 2 else client.with_options(timeout=5.0 + number)
            return [mine.fetch_bet(f"bet-{number}-{turn}").reference_id for turn in range(5)]  # type: ignore[union-attr] # they are all found

        found = _at_once(work)
        assert len(server.connections) <= _THREADS
        client.close()
        assert server.wait_until_closed()
    assert found == [[f"bet-{number}-{turn}" for turn in range(5)] for number in range(_THREADS)]
    assert len(opened) == 1


Runner = Callable[[Callable[[], Coroutine[Any, Any, Any]]], Any]


def _asyncio(main: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    return asyncio.run(main())


@pytest.mark.parametrize("is_yours", [False, True], ids=["ours", "yours"])
@pytest.mark.parametrize("runner", [_asyncio, trio.run], ids=["asyncio", "trio"])
def test_a_client_stays_on_its_loop(runner: Runner, is_yours: bool, private_key: RSAPrivateKey) -> None:
    """Used on a second loop, it says what to do (docs/decisions/0004)."""
    with HostileServer(knows_every_bet) as server:
        http_client = httpx.AsyncClient(trust_env=False) if is_yours else None
        client = AsyncOperatorClient(server.base_url, "acme", private_key, trust_env=False, http_client=http_client)

        async def look_up_and_leave() -> None:
            await client.fetch_bet("bet-1")
            await client.fetch_bet("bet-2")
            # Closed by hand, for the client itself must still be open on the second loop.
            if http_client is not None:
                await http_client._transport.aclose()
            else:
                assert client._wire._ours is not None
                await client._wire._ours.take(fresh=False).aclose()

        async def look_up() -> None:
            with pytest.raises(ConfigurationError, match="first used on another event loop"):
                await client.fetch_bet("bet-3")

        runner(look_up_and_leave)
        runner(look_up)
        assert len(server.requests) == 2


@pytest.mark.parametrize("runner", [_asyncio, trio.run], ids=["asyncio", "trio"])
def test_a_closed_client_stays_closed(runner: Runner, private_key: RSAPrivateKey) -> None:
    """Closing is final, and closes this loop's connections at once (docs/decisions/0004)."""
    with HostileServer(knows_every_bet) as server:
        client = AsyncOperatorClient(server.base_url, "acme", private_key, trust_env=False)

        async def use_and_close() -> None:
            async with client:
                await client.fetch_bet("bet-1")
            assert server.wait_until_closed()
            await client.aclose()

        async def look_up() -> None:
            with pytest.raises(ConfigurationError, match="This AsyncOperatorClient is closed"):
                await client.fetch_bet("bet-2")

        runner(use_and_close)
        runner(look_up)
