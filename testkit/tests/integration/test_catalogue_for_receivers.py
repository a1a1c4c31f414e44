"""A receiver that follows a catalogue: what is accepted, repeated and refused."""

import itertools
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIServer

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey

from game_operator import ApiError, ServiceError
from game_operator.backoffice import Catalogue
from game_operator.ledger import SqlLedger
from game_operator.webhooks import RsaSignature, WebhookReceiver
from tests.support.catalogues import ListedGames, named
from tests.support.servers import wsgi_server
from tests.support.webhooks import DEPOSIT, WITHDRAW, Handler, code_of, encoded, signed
from tests.support.wire import game, wire

CLAIM = {**DEPOSIT, "action": {"type": "JACKPOT", "jackpot_id": "j1"}}
#: Asks a receiver that follows the catalogue: posts a call for an instance and returns the code of the answer.
Post = Callable[..., str | None]


@pytest.fixture
def handler() -> Handler:
    """Accepts every call."""
    return Handler()


@pytest.fixture
def post(handler: Handler, private_key: RSAPrivateKey, public_key: RSAPublicKey) -> Post:
    """Post a call for an instance to a receiver that follows a catalogue."""

    def send(catalogue: Catalogue, instance_id: str, body: dict[str, Any]) -> str | None:
        receiver = WebhookReceiver(authenticator=RsaSignature(public_key), instances=catalogue)
        raw = encoded({**body, "instance_id": instance_id})
        path = "/withdraw" if body is WITHDRAW else "/deposit"
        return code_of(receiver.handle(path, signed(private_key, raw), raw, handler))

    return send


@pytest.fixture
def catalogue(service: ListedGames) -> Catalogue:
    """A catalogue that has fetched nothing yet."""
    return service.catalogue()


@pytest.mark.parametrize("body", [WITHDRAW, CLAIM], ids=["withdraw", "claim"])
def test_until_the_first_list_nothing_is_refused_for_good(
    service: ListedGames, catalogue: Catalogue, post: Post, handler: Handler, body: dict[str, Any]
) -> None:
    """SYSTEM_ERROR, also after a refresh that failed: the service sends the call again. No call asks the service."""
    assert post(catalogue, "i0", body) == "SYSTEM_ERROR"
    good, service.games = service.games, []
    with pytest.raises(ApiError):
        catalogue.refresh()
    assert [post(catalogue, each, body) for each in ("i0", "theirs")] == ["SYSTEM_ERROR"] * 2
    assert (handler.calls, handler.anomalies) == ([], [])
    service.games = good
    catalogue.refresh()
    assert post(catalogue, "i0", body) is None
    assert service.fetches == 2


@pytest.mark.parametrize("body", [WITHDRAW, CLAIM], ids=["withdraw", "claim"])
def test_an_unknown_instance_is_refused_once_a_list_has_come(
    service: ListedGames, catalogue: Catalogue, post: Post, handler: Handler, body: dict[str, Any]
) -> None:
    """For good and with an anomaly; until then the service sends the call again. A call asks nothing of the service."""
    catalogue.refresh()
    assert [post(catalogue, each, body) for each in ("n1", "theirs", "n1")] == ["SYSTEM_ERROR"] * 3
    good, service.games = service.games, 500
    with pytest.raises(ServiceError):
        catalogue.refresh()
    assert post(catalogue, "theirs", body) == "SYSTEM_ERROR"
    assert (handler.anomalies, service.fetches) == ([], 2)
    service.games = [*good, named("new", "n1")]
    catalogue.refresh()
    assert post(catalogue, "n1", body) is None
    assert post(catalogue, "theirs", body) == "INVALID_REQUEST"
    catalogue.refresh()
    assert post(catalogue, "theirs", body) == "INVALID_REQUEST"
    assert [anomaly for _, anomaly, _ in handler.anomalies] == ["foreign_instance"] * 2


@pytest.mark.parametrize("body", [WITHDRAW, CLAIM], ids=["withdraw", "claim"])
def test_an_instance_once_seen_stays_accepted(
    service: ListedGames, post: Post, tmp_path: Any, body: dict[str, Any]
) -> None:
    """Over a restart too, whatever the service lists by then, and while it is down."""
    with SqlLedger(f"sqlite:///{tmp_path / 'games.db'}") as store:
        before = service.catalogue(store)
        before.refresh()
        service.games = service.games[:9]
        before.refresh()
        service.games = 500
        for catalogue in (before, service.catalogue(store)):
            assert "i9" not in {each.id for game in catalogue.games for each in game.instances}
            assert post(catalogue, "i9", body) is None
    assert service.fetches == 2


#: Forks in the middle of a refresh, as soon as it may: the first question is answered after the second.
_FORK = """
import os, sys, threading
from game_operator import OperatorClient
from game_operator.backoffice import Catalogue

class AnySigner:
    def sign(self, message):
        return b"s" * 256

client = OperatorClient(sys.argv[1], "acme", AnySigner(), trust_env=False, retries=0)
catalogue = Catalogue(client)
in_parent = threading.Thread(target=catalogue.refresh)
in_parent.start()
sys.stdin.readline()
child = os.fork()
if not child:
    os._exit(0 if catalogue.refresh() == [] and "instance-1" in catalogue else 1)
_, status = os.waitpid(child, 0)
in_parent.join(20)
print(os.waitstatus_to_exitcode(status), "instance-1" in catalogue)
"""


@pytest.mark.outside
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_child_asks_for_itself() -> None:
    """The thread and the locks of its parent's refresh are not its own."""
    body, first, second = wire({"games": [game()]}), threading.Event(), threading.Event()
    questions = itertools.count()

    def listed(_environ: Any, start: Any) -> list[bytes]:
        if next(questions):
            second.set()
        first.set()
        assert second.wait(20)
        start("200 OK", [("Content-Type", "application/json")])
        return [body]

    class Threaded(ThreadingMixIn, WSGIServer):
        """Answers the second question while the first waits."""

    with wsgi_server(listed, Threaded) as port:
        address = f"http://127.0.0.1:{port}"
        program = [sys.executable, "-c", _FORK, address]
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        with subprocess.Popen(program, text=True, **pipes) as forking:
            assert first.wait(20)
            out, err = forking.communicate("fork\n", timeout=50)
    assert (forking.returncode, out) == (0, "0 True\n"), err
