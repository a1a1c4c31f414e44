"""Webhooks signed and posted as the service does it, to a real receiver and to servers that misbehave (spec §4.1)."""

import asyncio
import gzip
import pickle
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import aclosing
from decimal import Decimal
from typing import Any

import pytest
import trustme
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey

from game_operator import (
    BalanceCall,
    DepositCall,
    RequestNotSentError,
    RollbackCall,
    WithdrawCall,
)
from game_operator.ledger import MemoryLedger
from game_operator.protocol.webhook import encode_call
from game_operator.wallet import Wallet
from game_operator.webhooks import HandledCall, RsaSignature, WebhookCall, WebhookReceiver, asgi_app
from game_operator_testkit.provider.caller import Delivery, DeliveryInDoubtError, WebhookCaller
from game_operator_testkit.provider.delivery import Carried, delivered
from game_operator_testkit.provider.http import HttpCarrier
from game_operator_testkit.provider.keys import ServiceKeys
from game_operator_testkit.provider.requests import AS_THE_SERVICE, UNSIGNED, Request
from tests.support.hostile_server import Connection, HostileServer, Script, answer, response_bytes
from tests.support.servers import asgi_server

pytestmark = pytest.mark.outside

SUCCESS = b'{"type":"SUCCESS","balance":95.00,"timestamp":1700000000000}'
WITHDRAW = WithdrawCall(player_id="p1", bet_id="b1", amount_cents=500, instance_id="i1", game="aviator")
_TIMEOUT = 0.2
_PATIENT = 10.0
# Two cores may be busy with anything: what is measured is that nothing hangs.
_LATE = 5.0

#: Posts as a caller or a carrier does: (url, key, options, then what to post).
Post = Callable[..., Delivery]


def _by_caller(url: str, key: Any, *what: Any, options: dict[str, Any] | None = None, **how: Any) -> Delivery:
    with WebhookCaller(url, key, **(options or {})) as caller:
        return caller.send(*what) if isinstance(what[0], WebhookCall) else caller.post(*what, **how)


async def _carried_once(carrier: HttpCarrier, request: Request) -> Carried:
    async with aclosing(carrier):
        return await carrier.carry_request(request)


def _by_carrier(
    url: str, key: Any, what: Any, body: bytes = b"", headers: Any = (), *, signed: bool = True, options: Any = None
) -> Delivery:
    path, body = (f"/{what.operation}", encode_call(what)) if isinstance(what, WebhookCall) else (what, body)
    pairs = tuple(headers.items() if isinstance(headers, dict) else headers)
    request = Request("", path, body, AS_THE_SERVICE if signed else UNSIGNED, headers=pairs)
    carried = asyncio.run(_carried_once(HttpCarrier(url, ServiceKeys(key), **(options or {})), request))
    if carried.answer is None:
        raise DeliveryInDoubtError(carried.problem, attempts=1 + carried.sent_again, timed_out=carried.timed_out)
    return delivered(carried)


@pytest.fixture(params=[_by_caller, _by_carrier], ids=["caller", "carrier"])
def post(request: pytest.FixtureRequest) -> Post:
    """What a user posts with, and what the sandbox and the certifier do."""
    posting: Post = request.param
    return posting


class Served:
    """A wallet with 100.00 for p1 behind a real server, and what its receiver said of each call."""

    def __init__(self, url: str, public_key: RSAPublicKey) -> None:
        self.url = url
        self.ledger = MemoryLedger({"p1": 10_000})
        self.handled: list[HandledCall] = []
        receiver = WebhookReceiver(
            authenticator=RsaSignature(public_key), on_call=self.handled.append, budget_seconds=60
        )
        self.application = asgi_app(receiver, Wallet(self.ledger), prefix="/wallet")


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[str, list[Served]]]:
    """One server for all tests, for it takes its time to stop; the last wallet of the list is behind it."""
    wallets: list[Served] = []

    async def front(scope: Any, receive: Any, send: Any) -> None:  # Any: as ASGI has it.
        await wallets[-1].application(scope, receive, send)

    with asgi_server(front, lifespan="off") as port:
        yield f"http://127.0.0.1:{port}/wallet", wallets


@pytest.fixture
def wallet(served: tuple[str, list[Served]], public_key: RSAPublicKey) -> Served:
    """A wallet that knows the key of ``private_key``."""
    url, wallets = served
    wallets.append(Served(url, public_key))
    return wallets[-1]


def test_the_four_calls_reach_a_wallet(post: Post, wallet: Served, private_key: RSAPrivateKey) -> None:
    """Each goes to its path, signed, and its reply is read (spec §2.1, §4.1)."""
    told = []
    for call, balance in (
        (WITHDRAW, "95.00"),
        (DepositCall(player_id="p1", bet_id="b1", amount_cents=1250, round_id="r1"), "107.50"),
        (WithdrawCall(player_id="p1", bet_id="b2", amount_cents=750), "100.00"),
        (RollbackCall(player_id="p1", bet_id="b2", round_id="r1"), "107.50"),
        (BalanceCall(player_id="p1"), "107.50"),
    ):
        delivery = post(wallet.url, private_key, call)
        assert (delivery.status, delivery.problem, delivery.code) == (200, "", None)
        assert delivery.reply is not None
        assert delivery.reply.balance == Decimal(balance)
        assert delivery.posted == encode_call(call)
        assert 0 < delivery.elapsed_seconds < 30
        assert delivery.headers["content-type"] == "application/json"
        told.append(delivery.path)
    assert told == ["/withdraw", "/deposit", "/withdraw", "/rollback", "/player-balance"]
    assert [handled.call.operation for handled in wallet.handled if handled.call] == [path[1:] for path in told]


def test_a_key_that_the_wallet_does_not_know_is_refused(post: Post, wallet: Served, other_key: RSAPrivateKey) -> None:
    """The signature is the key's own: another one's is refused, and nothing moves (docs/decisions/0011)."""
    assert post(wallet.url, other_key, WITHDRAW).code == "INVALID_SIGNATURE"
    assert post(wallet.url, other_key, "/withdraw", encode_call(WITHDRAW), signed=False).code == "INVALID_SIGNATURE"
    assert wallet.ledger.balance("p1") == 10_000


@pytest.mark.parametrize("headers", [{"X-Trace": "7"}, [("X-Trace", "7")]], ids=["mapping", "pairs"])
def test_headers_beside_ours_travel(post: Post, private_key: RSAPrivateKey, headers: Any) -> None:
    """Once each, and beside what every call has: no cookie, no encoding but identity."""
    with HostileServer(answer(response_bytes(200, SUCCESS))) as server:
        assert post(server.base_url, private_key, "/withdraw", b"{}", headers).problem == ""
        lines = server.requests[0].split(b"\r\n\r\n")[0].split(b"\r\n")
    assert lines[0] == b"POST /withdraw HTTP/1.1"
    names = [line.partition(b":")[0].lower() for line in lines[1:]]
    assert sorted(names) == sorted(set(names))
    assert b"X-Trace: 7" in lines
    assert b"Accept-Encoding: identity" in lines
    assert b"Content-Type: application/json" in lines
    assert b"cookie" not in names


def _script(act: Callable[[Connection], object]) -> Script:
    def script(connection: Connection) -> None:
        if connection.read_request():
            act(connection)

    return script


def _said(data: bytes) -> Script:
    def act(connection: Connection) -> None:
        connection.send(data)
        connection.close()

    return _script(act)


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        pytest.param(response_bytes(200, SUCCESS), "", id="a reply"),
        pytest.param(response_bytes(401, b'{"type":"ERROR","code":"X"}'), "", id="a reply, whatever the status"),
        pytest.param(response_bytes(500, b"<html>oops"), "JSON", id="HTML"),
        pytest.param(response_bytes(200, b'{"type":"ERROR"}'), "code", id="no code"),
        pytest.param(
            response_bytes(302, b"", b"Location: http://127.0.0.1:1/withdraw"), "JSON", id="a redirect is not followed"
        ),
        pytest.param(
            response_bytes(200, gzip.compress(SUCCESS), b"Content-Encoding: gzip"), "'gzip' encoded", id="compressed"
        ),
        pytest.param(response_bytes(200, SUCCESS + b" " * (1_048_576 - len(SUCCESS))), "", id="just short enough"),
        pytest.param(
            response_bytes(200, SUCCESS + b" " * (1_048_577 - len(SUCCESS))), "longer than 1048576", id="too long"
        ),
    ],
)
def test_what_is_no_reply_is_told(post: Post, private_key: RSAPrivateKey, said: bytes, problem: str) -> None:
    """A delivery has the status, a limited part of the bytes, and the reply or the reason why there is none (§4.1)."""
    with HostileServer(_said(said)) as server:
        delivery = post(server.base_url, private_key, WITHDRAW, options={"timeout": _PATIENT})
    assert delivery.status == int(said[9:12])
    assert (delivery.reply is None) == bool(problem)
    assert problem in delivery.problem
    assert bool(problem) == bool(delivery.problem)
    assert delivery.body == said.partition(b"\r\n\r\n")[2][:1_048_576]
    assert len(server.requests) == 1


def _echo(connection: Connection) -> None:
    """Answer with a broken status line that has the signature in it."""
    signature = next(line for line in connection.requests[0].split(b"\r\n") if line.lower().startswith(b"signature:"))
    connection.send(b"HTTP/1.1 %s\r\n\r\n" % signature)
    connection.close()


@pytest.mark.parametrize(
    ("script", "timed_out"),
    [
        pytest.param(_script(Connection.close), False, id="hung up on"),
        pytest.param(_script(Connection.wait_for_peer), True, id="silence"),
        pytest.param(_said(response_bytes(200, SUCCESS, length=len(SUCCESS) + 1)), False, id="a body cut short"),
        pytest.param(_said(b"hello\r\n\r\n"), False, id="no HTTP"),
        pytest.param(_script(_echo), False, id="an answer that quotes the signature"),
    ],
)
def test_without_a_whole_answer_the_outcome_is_in_doubt(
    post: Post, private_key: RSAPrivateKey, script: Script, timed_out: bool
) -> None:
    """A typed error, in time, which asks for the same bytes again and tells no signature; nothing is repeated."""
    with HostileServer(script) as server:
        began = time.monotonic()
        with pytest.raises(DeliveryInDoubtError, match=r"/withdraw: .*very same bytes again") as raised:
            post(server.base_url, private_key, WITHDRAW, options={"timeout": _TIMEOUT if timed_out else _PATIENT})
        assert time.monotonic() - began < _LATE
        sent = server.requests
    assert len(sent) == 1
    assert raised.value.timed_out is timed_out
    assert raised.value.attempts == 1
    signature = next(line for line in sent[0].split(b"\r\n") if line.lower().startswith(b"signature:")).split()[1]
    assert signature.decode() not in f"{raised.value!s} {raised.value!r} {vars(raised.value)}"


def test_a_wallet_that_is_not_there_got_nothing(post: Post, private_key: RSAPrivateKey) -> None:
    """Told apart from doubt: nothing happened at the wallet."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(RequestNotSentError, match="check the wallet's address") as raised:
            post(url, private_key, WITHDRAW)
    assert not isinstance(raised.value, DeliveryInDoubtError)
    assert str(pickle.loads(pickle.dumps(raised.value))) == str(raised.value)


def test_each_call_has_a_connection_of_its_own(private_key: RSAPrivateKey) -> None:
    """So none meets a connection that the wallet has closed meanwhile; each is closed at once."""
    with HostileServer(answer(response_bytes(200, SUCCESS))) as server:
        with WebhookCaller(server.base_url, private_key) as caller:
            for _ in range(3):
                assert caller.send(WITHDRAW).problem == ""
            assert server.wait_until_closed()
        assert len(server.connections) == 3


def test_a_carrier_keeps_its_connection(private_key: RSAPrivateKey) -> None:
    """A hundred calls are made over one connection, which is closed with the carrier."""
    with HostileServer(answer(response_bytes(200, SUCCESS))) as server:
        assert [each.problem for each in _carried(server.base_url, private_key, 100)] == [""] * 100
        assert len(server.connections) == 1
        assert server.wait_until_closed()


def _closes_after(answered: int, end: Callable[[Connection], object], *, partly: bytes = b"") -> Script:
    """Return a script that answers so many calls, reads one more, begins an answer with *partly*, and ends."""

    def script(connection: Connection) -> None:
        for _ in range(answered):
            connection.read_request()
            connection.send(response_bytes(200, SUCCESS))
        if connection.read_request():
            connection.send(partly)
            end(connection)

    return script


def _carried(url: str, key: RSAPrivateKey, times: int, ssl_context: ssl.SSLContext | None = None) -> list[Carried]:
    """Carry a call so many times by one carrier."""
    carrier = HttpCarrier(url, ServiceKeys(key), timeout=_PATIENT, ssl_context=ssl_context)
    carried = [carrier.carry([Request("", "/withdraw", encode_call(WITHDRAW))])[0] for _ in range(times)]
    carrier.close()
    return carried


@pytest.mark.parametrize("end", [Connection.close, Connection.reset], ids=["closed", "reset"])
@pytest.mark.parametrize("secure", [False, True], ids=["http", "https"])
def test_a_kept_connection_closed_unanswered(*, secure: bool, end: Any, private_key: RSAPrivateKey) -> None:
    """The same bytes go over a new connection once, and it is reported: the first ones may have arrived."""
    ca, trusting, serving = trustme.CA(), ssl.create_default_context(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ca.configure_trust(trusting)
    ca.issue_cert("127.0.0.1").configure_cert(serving)
    scripts = _closes_after(1, end), answer(response_bytes(200, SUCCESS))
    with HostileServer(*scripts, tls=serving if secure else None) as server:
        first, second = _carried(server.base_url, private_key, 2, trusting)
    assert [first.sent_again, second.sent_again] == [False, True]
    assert (second.code, second.problem) == (None, "")
    bodies = [request.partition(b"\r\n\r\n")[2] for request in server.requests]
    assert bodies == [encode_call(WITHDRAW)] * 3
    assert [len(connection.requests) for connection in server.connections] == [2, 1]


@pytest.mark.parametrize(
    ("scripts", "times", "sent_again", "requests"),
    [
        pytest.param([_closes_after(0, Connection.close)], 1, False, 1, id="the connection is new"),
        pytest.param([_closes_after(1, Connection.close, partly=b"H")], 2, False, 2, id="one byte of an answer came"),
        pytest.param([_closes_after(1, Connection.reset, partly=b"H")], 2, False, 2, id="one byte, and a reset"),
        pytest.param([_closes_after(1, Connection.close), _closes_after(0, Connection.close)], 2, True, 3, id="twice"),
    ],
)
def test_no_other_end_is_sent_again(
    private_key: RSAPrivateKey, scripts: list[Script], times: int, sent_again: bool, requests: int
) -> None:
    """The outcome is in doubt, and whoever sent the call decides; a second try is the last one."""
    with HostileServer(*scripts) as server:
        last = _carried(server.base_url, private_key, times)[-1]
        assert len(server.requests) == requests
    assert (last.answer, last.unreachable, last.sent_again) == (None, False, sent_again)


def test_requests_at_once_share_a_carrier(wallet: Served, private_key: RSAPrivateKey) -> None:
    """Calls under way together are answered each with its own reply."""
    carrier = HttpCarrier(wallet.url, ServiceKeys(private_key))
    calls = [WithdrawCall(player_id="p1", bet_id=f"b{number}", amount_cents=100) for number in range(50)]
    carried = carrier.carry([Request("", "/withdraw", encode_call(call)) for call in calls])
    carrier.close()
    assert sorted(each.balance_cents or 0 for each in carried) == list(range(5_000, 10_000, 100))


def test_a_caller_shows_and_gives_away_no_key(private_key: RSAPrivateKey) -> None:
    """Neither its repr nor its parts' show one; it does not pickle."""
    caller = WebhookCaller("http://127.0.0.1:1/wallet", private_key)
    assert "PRIVATE" not in repr(caller) + repr(vars(caller))
    with pytest.raises(TypeError, match="holds a private key"):
        pickle.dumps(caller)
