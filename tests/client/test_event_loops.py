"""One async client on several event loops, one after the other and at once (docs/decisions/0004)."""

import asyncio
import gc
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import anyio
import httpx
import pytest
import trio
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

from game_operator import AsyncOperatorClient
from game_operator.errors import ConfigurationError
from game_operator.models import OpenBet
from tests.support.hostile_server import HostileServer, knows_every_bet

pytestmark = pytest.mark.outside

Runner = Callable[[Callable[[], Coroutine[Any, Any, Any]]], Any]


def _asyncio(main: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    return asyncio.run(main())


def _asyncio_by_hand(main: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(main())
    finally:
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


@pytest.mark.parametrize(
    "runners",
    [
        pytest.param([_asyncio] * 3, id="asyncio.run, three times"),
        pytest.param([trio.run] * 3, id="trio.run, three times"),
        pytest.param([_asyncio, trio.run, _asyncio], id="both in turn"),
        pytest.param([_asyncio_by_hand] * 2, id="loops made by hand"),
    ],
)
@pytest.mark.filterwarnings("error")
@pytest.mark.drawn(2)
def test_each_loop_opens_connections_and_closes_them(runners: list[Runner], private_key: RSAPrivateKey) -> None:
    """A client that nobody closes leaves nothing open on a loop that ended (docs/decisions/0004)."""
    with HostileServer(knows_every_bet) as server:
        client = AsyncOperatorClient(server.base_url, "acme", private_key, trust_env=False)

        async def look_up_twice() -> list[Any]:
            return [await client.fetch_bet("bet-1"), await client.fetch_bet("bet-2")]

        for count, run in enumerate(runners, start=1):
            assert [type(found) for found in run(look_up_twice)] == [OpenBet, OpenBet]
            assert server.wait_until_closed()
            assert len(server.connections) == count
    gc.collect()


def test_loops_in_several_threads_share_a_client(private_key: RSAPrivateKey) -> None:
    """Each has its own connections, at the same time (docs/decisions/0004)."""
    everybody = threading.Barrier(4, timeout=10)
    found: list[Any] = []
    with HostileServer(knows_every_bet) as server:
        client = AsyncOperatorClient(server.base_url, "acme", private_key, trust_env=False)

        async def look_up() -> None:
            for number in range(5):
                everybody.wait()
                found.append(await client.fetch_bet(f"bet-{number}"))

        def work(backend: str) -> None:
            anyio.run(look_up, backend=backend)

        threads = [threading.Thread(target=work, args=(backend,)) for backend in ("asyncio", "trio") * 2]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        assert server.wait_until_closed()
        assert len(server.connections) == 4
    assert len(found) == 20
    gc.collect()


@pytest.mark.parametrize("runner", [_asyncio, trio.run], ids=["asyncio", "trio"])
def test_your_http_client_stays_on_its_loop(runner: Runner, private_key: RSAPrivateKey) -> None:
    """Used on a second loop, it says what to do (docs/decisions/0004)."""
    with HostileServer(knows_every_bet) as server:
        http_client = httpx.AsyncClient(trust_env=False)
        client = AsyncOperatorClient(server.base_url, "acme", private_key, http_client=http_client)

        async def look_up_and_leave() -> None:
            await client.fetch_bet("bet-1")
            await client.fetch_bet("bet-2")
            # Closed by hand, for the client itself must still be open on the second loop.
            await http_client._transport.aclose()

        async def look_up() -> None:
            with pytest.raises(ConfigurationError, match="first used on another event loop"):
                await client.fetch_bet("bet-3")

        runner(look_up_and_leave)
        runner(look_up)
        assert len(server.requests) == 2


@pytest.mark.parametrize("runner", [_asyncio, trio.run], ids=["asyncio", "trio"])
def test_a_closed_client_is_closed_on_every_loop(runner: Runner, private_key: RSAPrivateKey) -> None:
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


def test_a_dropped_client_is_closed_by_its_loop(private_key: RSAPrivateKey) -> None:
    """On asyncio, a client that goes out of scope leaves nothing open (docs/decisions/0004)."""

    async def drop() -> None:
        client = AsyncOperatorClient(server.base_url, "acme", private_key, trust_env=False)
        await client.fetch_bet("bet-1")
        del client
        gc.collect()
        for _ in range(5):
            await asyncio.sleep(0)
        assert server.wait_until_closed()

    with HostileServer(knows_every_bet) as server:
        asyncio.run(drop())


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_the_first_calls_at_once_share_one_pool(backend: str, private_key: RSAPrivateKey) -> None:
    """Many tasks that begin together open one set of connections (docs/decisions/0004)."""

    async def many() -> None:
        async with AsyncOperatorClient(server.base_url, "acme", private_key, trust_env=False) as client:
            async with anyio.create_task_group() as tasks:
                for number in range(20):
                    tasks.start_soon(client.fetch_bet, f"bet-{number}")
            assert len(client._wire._ours) == 1

    with HostileServer(knows_every_bet) as server:
        anyio.run(many, backend=backend)
        assert server.wait_until_closed()
        assert len(server.requests) == 20
