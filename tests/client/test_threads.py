"""Threads that share a sync client (docs/decisions/0004)."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

from game_operator import OperatorClient
from game_operator.transport import sync as _wire
from game_operator.transport.own_connections import Connections
from tests.support.hostile_server import Connection, HostileServer, response_bytes
from tests.support.wire import bet, wire

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
