"""Threads that share a sync client (docs/decisions/0004)."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

from game_operator import OperatorClient
from game_operator.errors import RequestNotSentError
from game_operator.models import OpenBet
from game_operator.transport import sync as _wire
from game_operator.transport.own_connections import Connections
from tests.support.hostile_server import Connection, HostileServer, found, response_bytes
from tests.support.wire import bet, wire

pytestmark = pytest.mark.outside

_THREADS = 16
_FOUND = response_bytes(200, wire(bet()))


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

    def named(connection: Connection) -> None:
        while request := connection.read_request():
            bet_id = request.split(b" ")[1].rpartition(b"/")[2].decode()
            connection.send(response_bytes(200, wire(bet(reference_id=bet_id))))

    monkeypatch.setattr(_wire, "Connections", Counted)
    with (
        HostileServer(named) as server,
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


def test_more_threads_than_connections_take_turns(private_key: RSAPrivateKey) -> None:
    """A pool smaller than the number of callers makes them wait, not fail (docs/decisions/0004)."""
    under_way: list[object] = []
    at_once: list[int] = []

    def counted(connection: Connection) -> None:
        # Calls and not connections: the pool may open another in place of one that it dropped.
        while request := connection.read_request():
            under_way.append(connection)
            at_once.append(len(under_way))
            connection.stopping.wait(0.005)
            under_way.remove(connection)
            connection.send(found(request))

    limits = httpx.Limits(max_connections=2)
    with HostileServer(counted) as server, httpx.Client(trust_env=False, limits=limits) as http_client:
        client = OperatorClient(server.base_url, "acme", private_key, http_client=http_client)
        bets = _at_once(lambda number: client.fetch_bet(f"bet-{number}"))
    assert (len(at_once), max(at_once)) == (_THREADS, 2)
    assert [type(one) for one in bets] == [OpenBet] * _THREADS


def test_a_pool_that_stays_full_sends_nothing(private_key: RSAPrivateKey) -> None:
    """Who waits for a connection in vain has sent nothing (docs/decisions/0004)."""

    def slow(connection: Connection) -> None:
        connection.read_request()
        connection.stopping.wait(0.8)
        connection.send(_FOUND)

    limits = httpx.Limits(max_connections=1)
    with HostileServer(slow) as server, httpx.Client(trust_env=False, limits=limits) as http_client:
        patient = OperatorClient(server.base_url, "acme", private_key, http_client=http_client)
        hasty = patient.with_options(timeout=0.2, retries=0)
        with ThreadPoolExecutor(1) as threads:
            busy = threads.submit(patient.fetch_bet, "bet-1")
            while not server.requests:
                time.sleep(0.01)
            with pytest.raises(RequestNotSentError, match="PoolTimeout") as raised:
                hasty.fetch_bet("bet-2")
            assert isinstance(busy.result(), OpenBet)
        assert raised.value.timed_out
        assert len(server.requests) == 1
