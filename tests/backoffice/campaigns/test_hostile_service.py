"""A service on a real socket that answers in every wrong way: nobody is granted twice, and nobody is left out."""

import json
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from random import Random
from threading import Lock, Thread
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

from game_operator import OperatorClient
from game_operator.backoffice import Campaign, journal
from game_operator.ledger import SqlLedger
from tests.support.catalogues import named
from tests.support.grants import players
from tests.support.seeds import random_of
from tests.support.wire import wire

pytestmark = pytest.mark.outside

#: What may happen to a request; most of it both before and after the grant was made.
FAULTS = ("hangs up", "html", "500", "502 html", "empty 200", "half a body", "another shape", "429")


class HostileService:
    """Grants each reference id once, and strikes half of the calls with a fault, before or after the grant."""

    def __init__(self, random: Random) -> None:
        self._random, self._lock = random, Lock()
        self.granted: list[str] = []
        self.asked, self.faults = Counter[str](), Counter[str]()
        self._known: set[tuple[str, str]] = set()
        service = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                service.send(self, 200, wire({"games": [named("g1", "i1")]}))

            def do_POST(self) -> None:
                service.answer(self, json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

            def log_message(self, *_: object) -> None: ...

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_: object) -> None: ...

        self._server = Server(("127.0.0.1", 0), Handler)
        self.base_url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def close(self) -> None:
        """Stop."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def send(self, handler: BaseHTTPRequestHandler, status: int, body: bytes, length: int | None = None) -> None:
        """Send an answer."""
        handler.send_response_only(status)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Content-Length", str(len(body) if length is None else length))
        handler.end_headers()
        handler.wfile.write(body)

    def answer(self, handler: BaseHTTPRequestHandler, asked: dict[str, Any]) -> None:
        """Grant, or not, and answer in some way."""
        with self._lock:
            self.asked[asked["reference_id"]] += 1
            fault = self._random.choice(FAULTS) if self._random.random() < 0.5 else ""
            # A 429 says that nothing was done.
            is_granted = not fault or (fault != "429" and self._random.random() < 0.5)
            self.faults[fault] += 1
            known = (asked["instance_id"], asked["reference_id"])
            is_duplicate = known in self._known
            if is_granted and not is_duplicate:
                self._known.add(known)
                self.granted.append(asked["player_id"])
        self._strike(handler, fault, is_duplicate=is_duplicate)

    def _strike(self, handler: BaseHTTPRequestHandler, fault: str, *, is_duplicate: bool) -> None:
        accepted = wire({"success": True, "free_bet_id": "f", "message": "granted"})
        duplicate = wire({"success": False, "message": "there", "error_code": "DUPLICATE_REFERENCE_ID"})
        match fault:
            case "hangs up":
                handler.close_connection = True
            case "html":
                self.send(handler, 200, b"<html>")
            case "500":
                self.send(handler, 500, wire({"error": "oops"}))
            case "502 html":
                self.send(handler, 502, b"<html>")
            case "empty 200":
                self.send(handler, 200, b"")
            case "half a body":
                self.send(handler, 200, accepted[:10], len(accepted))
                handler.close_connection = True
            case "another shape":
                self.send(handler, 200, wire({"success": False, "message": "no"}))
            case "429":
                self.send(handler, 429, wire({"error": "later"}))
            case _:
                self.send(handler, 400 if is_duplicate else 200, duplicate if is_duplicate else accepted)


@pytest.fixture
def hostile() -> Iterator[HostileService]:
    """A service that fails in half of the calls."""
    service = HostileService(random_of(11))
    yield service
    service.close()


def test_everybody_is_granted_once_by_a_service_that_fails_half_the_time(
    hostile: HostileService, memory: SqlLedger, private_key: RSAPrivateKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is repeated has the same reference id; a duplicate of our own is a grant, and nothing is a finding."""
    monkeypatch.setattr(journal, "_SLOWEST_MICROS", 2_000)
    with OperatorClient(hostile.base_url, "acme", private_key) as client:
        made = Campaign(
            client, memory, "summer", instance_id="i1", count=5, wager_amount_cents=100, expire_duration_millis=1_000
        )
        made.plan(players(40))
        report = made.run(rate_per_second=2_000.0)
        while report.state == "paused":  # Twenty failures in a row may happen.
            report = made.resume(rate_per_second=2_000.0)
    assert (report.state, report.granted, report.findings) == ("finished", 40, ())
    assert sorted(hostile.granted) == sorted(players(40))
    assert hostile.asked.keys() == {f"summer/{player}" for player in players(40)}
    assert len(hostile.faults) > 5
