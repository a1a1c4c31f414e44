"""One scenario for every way to run a client: sync, and async on two event loop libraries."""

from collections.abc import Awaitable, Callable, Coroutine
from types import ModuleType
from typing import Any, TypeVar, cast

import anyio

from game_operator import AsyncOperatorClient, OperatorClient
from game_operator.models import GrantAccepted
from game_operator.protocol.operations import AnyBet
from tests.support.wire import grant_request

T = TypeVar("T")

Scenario = Callable[[AsyncOperatorClient], Coroutine[Any, Any, T]]

#: Runs a scenario at an address: ``run`` with a flavour and a key.
Perform = Callable[..., Any]

FLAVOURS = ("sync", "asyncio", "trio")


def run(flavour: str, scenario: Scenario[T], base_url: str, private_key: Any, **options: Any) -> T:
    """Run *scenario* with a client of *flavour*, made with *options* and closed at the end."""
    options = {"operator_id": "acme", "private_key": private_key, "trust_env": False} | options
    if flavour == "sync":
        with OperatorClient(base_url, **options) as client:
            return _at_once(scenario(cast("AsyncOperatorClient", _Awaited(client))))  # It has the same methods.
    return anyio.run(_over_httpx, scenario, base_url, options, backend=flavour)


def run_over(
    library: ModuleType,
    flavour: str,
    handler: Callable[[Any], Any] | None,
    scenario: Scenario[T],
    base_url: str,
    private_key: Any,
    *,
    retries: Any = 0,
    on_exchange: Any = None,
    telemetry: Any = None,
    afterwards: Callable[[bool], object] = bool,
    **http_options: Any,
) -> T:
    """
    Run *scenario* over a client of httpx or httpx2, made with *http_options*, whose transport is *handler* if given.

    *afterwards* is told, once our client is closed, whether the one it ran over is closed, too.
    """
    options = {"operator_id": "acme", "private_key": private_key, "retries": retries}
    options |= {"on_exchange": on_exchange, "telemetry": telemetry}
    transport = None if handler is None else library.MockTransport(handler)
    if flavour == "sync":
        with library.Client(transport=transport, **http_options) as http_client:
            try:
                with OperatorClient(base_url, http_client=http_client, **options) as client:
                    return _at_once(scenario(cast("AsyncOperatorClient", _Awaited(client))))
            finally:
                afterwards(http_client.is_closed)

    async def main() -> T:
        async with library.AsyncClient(transport=transport, **http_options) as http_client:
            try:
                async with AsyncOperatorClient(base_url, http_client=http_client, **options) as client:
                    return await scenario(client)
            finally:
                afterwards(http_client.is_closed)

    return anyio.run(main, backend=flavour)


async def look_up(client: AsyncOperatorClient) -> AnyBet:
    """Ask for a bet: a scenario."""
    return await client.fetch_bet("bet-1")


async def make_grant(client: AsyncOperatorClient) -> GrantAccepted:
    """Grant free bets: a scenario."""
    return await client.grant_free_bet(**grant_request())


async def _over_httpx(scenario: Scenario[T], base_url: str, options: dict[str, Any]) -> T:
    async with AsyncOperatorClient(base_url, **options) as client:
        return await scenario(client)


class _Awaited:
    """An ``OperatorClient`` whose methods are awaited, and done before the first step of the event loop."""

    def __init__(self, client: OperatorClient) -> None:
        self._client = client

    def with_options(self, **options: Any) -> "_Awaited":
        return _Awaited(self._client.with_options(**options))

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        method = getattr(self._client, name)

        async def awaited(*arguments: object, **named: object) -> Any:
            return method(*arguments, **named)

        return awaited


def _at_once(coroutine: Coroutine[Any, Any, T]) -> T:
    try:
        coroutine.send(None)
    except StopIteration as finished:
        result: T = finished.value
        return result
    raise AssertionError("a scenario for the sync client may await nothing but the client")
