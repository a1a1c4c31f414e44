"""A receiver that follows a catalogue: what is accepted, repeated and refused, and that nobody waits for long."""

import asyncio
import itertools
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey

from game_operator import Profile
from game_operator.backoffice import Catalogue
from game_operator.ledger import SqlLedger
from game_operator.wallet import Wallet
from game_operator.webhooks import InstancesUnavailableError, RsaSignature, WebhookReceiver
from game_operator_testkit.sandbox import Sandbox
from tests.support.catalogues import ListedGames, named
from tests.support.webhooks import DEPOSIT, WITHDRAW, Handler, code_of, encoded, signed
from tests.support.wire import game, wire

CLAIM = {**DEPOSIT, "action": {"type": "JACKPOT", "jackpot_id": "j1"}}
#: Asks a receiver that follows the catalogue: posts a withdraw for an instance and returns the code of the answer.
Post = Callable[..., str | None]


@pytest.fixture
def handler() -> Handler:
    """Accepts every call."""
    return Handler()


@pytest.fixture
def post(handler: Handler, private_key: RSAPrivateKey, public_key: RSAPublicKey) -> Post:
    """Post a call, a withdraw if nothing else is said, for an instance to a receiver that follows a catalogue."""

    def send(catalogue: Catalogue, instance_id: str, body: dict[str, Any] | None = None) -> str | None:
        receiver = WebhookReceiver(authenticator=RsaSignature(public_key), instances=catalogue)
        raw = encoded({**(body or WITHDRAW), "instance_id": instance_id})
        path = "/deposit" if body else "/withdraw"
        return code_of(receiver.handle(path, signed(private_key, raw), raw, handler))

    return send


@pytest.fixture
def catalogue(service: ListedGames) -> Catalogue:
    """A catalogue that has fetched nothing yet, and in which threads wait until a refresh has ended."""
    return service.catalogue(wait_seconds=20)


@pytest.mark.parametrize("body", [WITHDRAW, CLAIM], ids=["withdraw", "claim"])
def test_the_first_call_fetches_and_is_accepted(
    service: ListedGames, catalogue: Catalogue, post: Post, body: dict[str, Any]
) -> None:
    """Known instances ask nothing more."""
    claim = None if body is WITHDRAW else body
    assert [post(catalogue, f"i{number}", claim) for number in (0, 1, 2)] == [None] * 3
    assert service.fetches == 1


def test_an_unknown_instance_is_looked_for_once_and_refused(
    service: ListedGames, catalogue: Catalogue, post: Post, handler: Handler
) -> None:
    """By a fresh list the answer is final, with its anomaly; for a minute nobody asks again."""
    catalogue.refresh()
    assert [post(catalogue, "theirs") for _ in range(3)] == ["INVALID_REQUEST"] * 3
    assert service.fetches == 2
    assert [anomaly for _, anomaly, _ in handler.anomalies] == ["foreign_instance"] * 3
    service.clock.seconds += 59.9
    assert post(catalogue, "theirs") == "INVALID_REQUEST"
    assert service.fetches == 2


def test_a_new_instance_is_accepted_at_its_first_call(service: ListedGames, catalogue: Catalogue, post: Post) -> None:
    """The list is fetched while the call waits."""
    catalogue.refresh()
    service.games = [*service.games, named("new", "n1")]  # type: ignore[misc]  # It is a list.
    assert post(catalogue, "n1") is None
    assert service.fetches == 2


def test_what_was_refused_is_looked_for_again_later(service: ListedGames, catalogue: Catalogue, post: Post) -> None:
    """After a minute the list is old: the instance may be new."""
    catalogue.refresh()
    assert post(catalogue, "n1") == "INVALID_REQUEST"
    service.games = [*service.games, named("new", "n1")]  # type: ignore[misc]  # It is a list.
    service.clock.seconds += 60
    assert post(catalogue, "n1") is None
    assert service.fetches == 3


def test_another_unknown_instance_within_the_minute_is_not_refused_for_good(
    service: ListedGames, catalogue: Catalogue, post: Post, handler: Handler
) -> None:
    """The list is from before it was asked for; it is repeated until there is a later one, and no fetch is made."""
    catalogue.refresh()
    assert post(catalogue, "first") == "INVALID_REQUEST"
    service.clock.seconds += 1
    assert post(catalogue, "second") == "SYSTEM_ERROR"
    assert service.fetches == 2
    assert len(handler.anomalies) == 1
    service.clock.seconds += 59
    assert [post(catalogue, each) for each in ("second", "first")] == ["INVALID_REQUEST"] * 2
    assert service.fetches == 3


def test_a_list_that_another_call_asked_for_earlier_is_not_the_last_word(service: ListedGames, post: Post) -> None:
    """An instance that was refused a minute ago may have been added while that list was on its way."""
    catalogue = service.catalogue(wait_seconds=0)
    assert _soon(lambda: post(catalogue, "x") == "INVALID_REQUEST")
    service.clock.seconds += 60
    service.waits.clear()
    service.began.clear()
    assert post(catalogue, "y") == "SYSTEM_ERROR"
    assert service.began.wait(20)
    service.clock.seconds += 1
    assert post(catalogue, "x") == "SYSTEM_ERROR"
    service.waits.set()
    assert _soon(lambda: post(catalogue, "y") == "INVALID_REQUEST")
    assert post(catalogue, "x") == "SYSTEM_ERROR"


@pytest.mark.parametrize("answer", [500, None, b"{}", [named("a", "i", "i")]], ids=["500", "none", "bad", "ambiguous"])
def test_until_a_fetch_succeeds_nothing_is_refused_for_good(
    service: ListedGames, catalogue: Catalogue, post: Post, handler: Handler, answer: Any
) -> None:
    """SYSTEM_ERROR; the service is asked again after a second."""
    good, service.games = service.games, answer
    assert post(catalogue, "i0") == "SYSTEM_ERROR"
    for pause in (1, 1, 1):
        fetches = service.fetches
        service.clock.seconds += pause - 0.1
        assert post(catalogue, "i0") == "SYSTEM_ERROR"
        assert service.fetches == fetches
        service.clock.seconds += 0.1
        assert post(catalogue, "i0") == "SYSTEM_ERROR"
        assert service.fetches == fetches + 1
    assert (handler.calls, handler.anomalies) == ([], [])
    service.games = good
    service.clock.seconds += 60
    assert [post(catalogue, each) for each in ("i0", "theirs")] == [None, "SYSTEM_ERROR"]


def test_when_the_fetch_for_it_fails_an_unknown_instance_is_repeated(
    service: ListedGames, catalogue: Catalogue, post: Post
) -> None:
    """Though an earlier fetch succeeded; known instances are served as ever."""
    catalogue.refresh()
    service.games = 500
    assert [post(catalogue, each) for each in ("n1", "i0")] == ["SYSTEM_ERROR", None]


def test_a_held_list_refuses_nobody(service: ListedGames, catalogue: Catalogue, post: Post, handler: Handler) -> None:
    """On the word of a list that is not applied no call is refused for good, and none is accepted."""
    catalogue.refresh()
    service.games = [named("new", "n1")]
    assert [post(catalogue, each) for each in ("n1", "theirs", "i0")] == ["SYSTEM_ERROR", "SYSTEM_ERROR", None]
    assert handler.anomalies == []
    catalogue.refresh(most_gone=Decimal(1))
    assert [post(catalogue, each) for each in ("n1", "i0")] == [None, None]


@pytest.mark.parametrize("body", [WITHDRAW, CLAIM], ids=["withdraw", "claim"])
def test_an_instance_once_seen_stays_accepted(
    service: ListedGames, post: Post, tmp_path: Any, body: dict[str, Any]
) -> None:
    """Over a restart too, whatever the service lists by then, and while it is down."""
    claim = None if body is WITHDRAW else body
    with SqlLedger(f"sqlite:///{tmp_path / 'games.db'}") as store:
        before = service.catalogue(store, wait_seconds=20)
        before.refresh()
        service.games = service.games[:9]  # type: ignore[index]  # It is a list.
        before.refresh()
        service.games = 500
        for catalogue in (before, service.catalogue(store)):
            assert "i9" not in {each.id for game in catalogue for each in game.instances}
            assert post(catalogue, "i9", claim) is None
    assert service.fetches == 2


def test_fifty_threads_cause_one_fetch(service: ListedGames, catalogue: Catalogue, post: Post) -> None:
    """They wait for the same one, and all are answered by it."""
    service.waits.clear()
    meeting = threading.Barrier(51)

    def call(instance_id: str) -> str | None:
        meeting.wait(20)
        return post(catalogue, instance_id)

    with ThreadPoolExecutor(50) as pool:
        answers = [pool.submit(call, each) for each in ["i0"] * 50]
        meeting.wait(20)
        assert service.began.wait(20)
        service.waits.set()
        assert [answer.result(20) for answer in answers] == [None] * 50
    assert service.fetches == 1


def test_a_call_waits_no_longer_than_it_may(service: ListedGames, post: Post) -> None:
    """A service that does not answer costs a call its part of the budget, and no more; later calls find the list."""
    service.waits.clear()
    catalogue = service.catalogue(wait_seconds=0.05)
    assert [post(catalogue, "i0") for _ in range(3)] == ["SYSTEM_ERROR"] * 3
    assert service.fetches == 1
    service.waits.set()
    assert _soon(lambda: post(catalogue, "i0") is None)
    assert service.fetches == 1


def test_a_batch_waits_once(service: ListedGames, private_key: RSAPrivateKey, public_key: RSAPublicKey) -> None:
    """However many unknown instances its claims name, and though no look for them ends."""
    service.waits.clear()
    catalogue = service.catalogue(wait_seconds=0.2, clock=time.monotonic)
    receiver = WebhookReceiver(
        authenticator=RsaSignature(public_key), profile=Profile(deposit_batch=True), instances=catalogue
    )
    claims = [{**CLAIM, "instance_id": f"x{number}", "tx_id": f"t{number}"} for number in range(500)]
    body, began = encoded(claims), time.monotonic()
    reply = receiver.handle("/deposit-batch", signed(private_key, body), body, Handler())
    assert json.loads(reply.body) == []  # All are sent again.
    assert time.monotonic() - began < 50  # Were each to wait, it would be a hundred seconds.
    assert service.fetches == 1


@pytest.mark.parametrize("seconds", [0, 0.001, 5])
def test_an_answer_lasts_longer_than_the_pause_between_two_calls(
    service: ListedGames, post: Post, seconds: float
) -> None:
    """A service that repeats its call after half a minute gets its final answer, however often looks are allowed."""
    catalogue = service.catalogue(min_refresh_seconds=seconds, wait_seconds=20)
    assert post(catalogue, "theirs") == "INVALID_REQUEST"
    service.clock.seconds += 30
    assert post(catalogue, "theirs") == "INVALID_REQUEST"
    assert service.fetches == 1
    assert post(catalogue, "others") == "INVALID_REQUEST"
    assert service.fetches == 2


def _soon(is_so: Callable[[], bool]) -> bool:
    until = time.monotonic() + 20
    while not is_so() and time.monotonic() < until:
        time.sleep(0.01)
    return is_so()


def test_an_event_loop_never_waits(
    service: ListedGames, catalogue: Catalogue, private_key: RSAPrivateKey, public_key: RSAPublicKey
) -> None:
    """While the list is on its way the loop serves on: SYSTEM_ERROR at once, then the call comes again."""
    service.waits.clear()
    receiver = WebhookReceiver(authenticator=RsaSignature(public_key), instances=catalogue)
    handler, body = Handler(), encoded({**WITHDRAW, "instance_id": "i0"})

    async def call() -> str | None:
        return code_of(await receiver.handle_async("/withdraw", signed(private_key, body), body, handler))

    async def play() -> tuple[list[str | None], str | None]:
        # Were the loop to wait, it would wait for the twenty seconds of the catalogue: nothing lets the service answer.
        first = await asyncio.gather(*(call() for _ in range(20)))
        service.waits.set()
        async with asyncio.timeout(20):
            while (code := await call()) == "SYSTEM_ERROR":
                await asyncio.sleep(0.01)
        return first, code

    assert asyncio.run(play()) == (["SYSTEM_ERROR"] * 20, None)
    assert service.fetches == 1


@pytest.mark.parametrize("ask", [lambda it, each: each in it, lambda it, each: it(each)], ids=["in", "called"])
def test_it_can_be_asked_without_a_receiver(
    service: ListedGames, catalogue: Catalogue, ask: Callable[[Catalogue, Any], bool]
) -> None:
    """Whether an instance is the operator's, or why that cannot be said."""
    service.games = 500
    with pytest.raises(InstancesUnavailableError, match=r"'i0' is unknown.*send the call again") as refused:
        ask(catalogue, "i0")
    assert refused.value.remedy
    service.games = [named("a", "i0")]
    service.clock.seconds += 1
    assert [ask(catalogue, each) for each in ("i0", None, 5, ["i0"])] == [True, False, False, False]


def test_unknown_ids_without_end_are_not_kept(service: ListedGames, catalogue: Catalogue) -> None:
    """What is remembered of them is bounded; the answer stays a correct one."""
    catalogue.refresh()
    assert "x" not in catalogue
    for number in range(10_000):
        with pytest.raises(InstancesUnavailableError):
            assert f"x{number}" in catalogue
        service.clock.seconds += 0.001
    with pytest.raises(InstancesUnavailableError):  # Forgotten, so it is looked for again; refused it is not.
        assert "x" in catalogue


@pytest.fixture
def no_threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A process that can start no thread any more."""

    def start(_self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", start)
        yield


@pytest.mark.usefixtures("no_threads")
def test_without_a_thread_the_call_is_repeated(catalogue: Catalogue) -> None:
    """As while the interpreter ends."""
    with pytest.raises(InstancesUnavailableError):
        assert "i0" in catalogue


#: Forks in the middle of a refresh, as soon as it may: the first question is answered after the second.
_FORK = """
import os, sys, threading
from game_operator import OperatorClient
from game_operator.backoffice import Catalogue

class AnySigner:
    def sign(self, message):
        return b"s" * 256

client = OperatorClient(sys.argv[1], "acme", AnySigner(), trust_env=False, retries=0)
catalogue = Catalogue(client, wait_seconds=20)
in_parent = threading.Thread(target=catalogue.refresh)
in_parent.start()
sys.stdin.readline()
child = os.fork()
if not child:
    os._exit(0 if "instance-1" in catalogue and catalogue.refresh() == [] else 1)
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

    class Service(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if next(questions):
                second.set()
            first.set()
            assert second.wait(20)
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Service) as server:
        serving = threading.Thread(target=server.serve_forever, args=(0.01,))
        serving.start()
        address = f"http://127.0.0.1:{server.server_port}"
        program = [sys.executable, "-c", _FORK, address]
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        with subprocess.Popen(program, text=True, **pipes) as forking:
            assert first.wait(20)
            out, err = forking.communicate("fork\n", timeout=50)
        server.shutdown()
        serving.join()
    assert (forking.returncode, out) == (0, "0 True\n"), err


def test_a_wallet_keeps_the_currency_of_each_bet(
    service: ListedGames, private_key: RSAPrivateKey, public_key: RSAPublicKey, tmp_path: Any
) -> None:
    """Of a game that is gone, too."""
    service.games = [named("a", "yen", currency="JPY"), named("b", "euro"), named("c", "c"), named("d", "d")]
    with SqlLedger(f"sqlite:///{tmp_path / 'wallet.db'}") as ledger:
        catalogue = service.catalogue(ledger)
        catalogue.refresh()
        service.games = service.games[1:]
        catalogue.refresh()
        ledger.open_account("p1", Decimal(1000))
        wallet = Wallet(ledger, currency_of=catalogue.currency_of)
        receiver = WebhookReceiver(authenticator=RsaSignature(public_key), instances=catalogue)
        for instance_id in ("yen", "euro"):
            body = encoded({**WITHDRAW, "instance_id": instance_id, "action_id": instance_id, "tx_id": instance_id})
            assert code_of(receiver.handle("/withdraw", signed(private_key, body), body, wallet)) is None
        bets = [ledger.bet(instance_id) for instance_id in ("yen", "euro")]
        assert [bet and bet.currency for bet in bets] == ["JPY", "EUR"]


@pytest.mark.outside
def test_against_the_sandbox(post: Post) -> None:
    """Signed, over real HTTP: the sandbox's instances are accepted, and no other."""
    with Sandbox() as sandbox, sandbox.client() as client:
        catalogue = Catalogue(client, wait_seconds=20)
        assert [post(catalogue, each) for each in (sandbox.instance_id, "theirs")] == [None, "SYSTEM_ERROR"]
        catalogue = Catalogue(client, wait_seconds=20)
        assert [post(catalogue, each) for each in ("theirs", sandbox.instance_id)] == ["INVALID_REQUEST", None]
        assert len(catalogue.games) >= 12
