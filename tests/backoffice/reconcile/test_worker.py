"""Workers of a reconciliation beside services that are slow, refuse, or answer with ids that no database takes."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from datetime import timedelta
from decimal import Decimal
from typing import Any

import httpx
import psycopg
import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

from game_operator import OperatorClient
from game_operator.backoffice.reconcile.reconciler import Reconciler
from game_operator.ledger import SqlLedger
from game_operator.wallet import JoinedWallet, Wallet
from tests.support.calls import withdraw
from tests.support.hostile_server import Connection, HostileServer, found, response_bytes
from tests.support.wire import bet, game, wire

pytestmark = [pytest.mark.outside, pytest.mark.timeout(60), pytest.mark.drawn(4)]

#: Without waits.
QUICK: dict[str, Any] = {
    "second_look": timedelta(0),
    "rate_per_second": 5_000.0,
    "min_age": timedelta(0),
    "sample": 0.0,
}
REPAIR: dict[str, Any] = {"repair": True, "max_bets": 100, "max_total_cents": 100_000, "actor": "ann", "reason": "lost"}


def client_of(key: RSAPrivateKey, answer: Callable[[httpx.Request], httpx.Response]) -> OperatorClient:
    """Return a client of a service that answers so."""
    transport = httpx.MockTransport(answer)
    return OperatorClient(
        "https://api.example.com", operator_id="acme", private_key=key, http_client=httpx.Client(transport=transport)
    )


def id_of(request: httpx.Request) -> str:
    """Return the id of the bet that is asked for."""
    return request.url.path.rpartition("/")[2]


def test_a_service_that_asks_to_wait(ledger: SqlLedger, private_key: RSAPrivateKey) -> None:
    """``run_some`` is over in its own time, and gives back what it has begun; the wait goes on."""

    def refuse(_: httpx.Request) -> httpx.Response:
        return httpx.Response(429, headers={"retry-after": "86400"})

    ledger.apply(withdraw("b1"))
    reconciler = Reconciler(client_of(private_key, refuse), Wallet(ledger), **QUICK)
    for _ in range(2):
        report = reconciler.run_some(0.5)
        assert report.run.state == "running"
        assert report.run.failures == 1, "it was asked once"
        assert report.run.next_call_micros - report.run.touched_at_millis * 1_000 > 86_000_000_000


def test_turns_that_are_farther_apart_than_a_lease(ledger: SqlLedger, private_key: RSAPrivateKey) -> None:
    """A worker keeps its chunk while it waits, or several would take it from each other for ever."""
    asked: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(id_of(request))
        return httpx.Response(200, content=wire({"status": "NOT_FOUND"}))

    bets = ["b1", "b2", "b3"]
    for bet_id in bets:
        ledger.apply(withdraw(bet_id))
    slow = QUICK | {"rate_per_second": 2.0, "lease": timedelta(milliseconds=200)}
    reconcilers = [Reconciler(client_of(private_key, answer), Wallet(ledger), **slow) for _ in range(2)]
    with ThreadPoolExecutor(2) as pool:
        reports = list(pool.map(Reconciler.run, reconcilers))
    assert {(report.run.id, report.run.state) for report in reports} == {(1, "finished")}
    assert sorted(asked) == bets, "each was asked for once"


def test_a_look_up_that_is_asked_again_takes_two_turns(ledger: SqlLedger, private_key: RSAPrivateKey) -> None:
    """NOT_FOUND over a reused connection is asked again, and the rate counts both requests (docs/decisions/0028)."""
    asked: list[float] = []

    def script(connection: Connection) -> None:
        while request := connection.read_request():
            asked.append(time.monotonic())
            is_first = request.split(b" ")[1].endswith(b"/b0")
            connection.send(found(request) if is_first else response_bytes(200, b'{"status":"NOT_FOUND"}'))

    for number in range(10):
        ledger.apply(withdraw(f"b{number}"))
    with (
        HostileServer(script) as server,
        OperatorClient(server.base_url, "acme", private_key, trust_env=False) as client,
    ):
        reconciler = Reconciler(client, Wallet(ledger), **QUICK | {"rate_per_second": 25.0})
        assert reconciler.run().run.state == "finished"
    assert len(asked) == 1 + 2 * 9
    assert asked[-2] - asked[0] >= 15 / 25


@pytest.mark.parametrize(("status", "verdict", "cents"), [("CLOSED", "settled", 700), ("ROLLED_BACK", "refunded", 500)])
@pytest.mark.parametrize("is_lost", [True, False], ids=["rolled back", "committed"])
def test_a_transaction_that_raises_at_its_end(
    postgres_url: str, private_key: RSAPrivateKey, is_lost: bool, status: str, verdict: str, cents: int
) -> None:
    """What is reported is what became of the bet, on whichever side of the commit it has failed."""

    def answer(request: httpx.Request) -> httpx.Response:
        if "game" in request.url.path:
            return httpx.Response(200, content=wire({"games": [game()]}))
        won = {"won": cents} if status == "CLOSED" else {}
        told = bet(status, reference_id=id_of(request), player_id="p1", wager=500, **won)
        return httpx.Response(200, content=wire(told))

    @contextmanager
    def transaction() -> Iterator[Any]:
        with closing(psycopg.connect(postgres_url)) as connection:
            yield connection
            if not is_lost:
                connection.commit()
            raise ConnectionResetError("the line is dead")

    with SqlLedger(postgres_url) as ledger:
        ledger.open_account("p1", Decimal(100))
        ledger.apply(withdraw("b1"))
        reconciler = Reconciler(client_of(private_key, answer), JoinedWallet(ledger, transaction), **QUICK)
        report = reconciler.run(**REPAIR)
        assert [row["verdict"] for row in report.rows()] == ["failed" if is_lost else verdict]
        assert [found.kind for found in reconciler.findings()] == ["failed"] * is_lost
        assert report.run.moved_count == (0 if is_lost else 1)
        assert ledger.balance("p1") == (9_500 if is_lost else 9_500 + cents)
