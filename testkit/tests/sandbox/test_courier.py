"""The courier over real HTTP: what arrives at a real server, what is heard of it, and servers that are hostile."""

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

from game_operator.errors import ConfigurationError, RequestNotSentError
from game_operator.ledger import MemoryLedger
from game_operator.profile import Profile
from game_operator.wallet import Wallet
from game_operator.webhooks import HandledCall, RsaSignature, WebhookReceiver, asgi_app
from game_operator_testkit.provider.delivery import Answer, Carried, Post, answer_to, delivered
from game_operator_testkit.provider.faults import Fault
from game_operator_testkit.provider.http import HttpCarrier
from game_operator_testkit.provider.keys import ServiceKeys, new_key
from tests.support.calls import withdraw
from tests.support.hostile_server import Connection, HostileServer, Script, answer, response_bytes
from tests.support.servers import asgi_server

pytestmark = pytest.mark.outside

PATIENCE_SECONDS = 20.0


class RealWallet:
    """A wallet behind uvicorn, and the calls that reached it."""

    def __init__(self, keys: ServiceKeys, profile: Profile) -> None:
        self.handled: list[HandledCall] = []
        self.ledger = MemoryLedger({"p1": 100_000})
        receiver = WebhookReceiver(
            authenticator=RsaSignature(keys.current.public_key_pem()), profile=profile, on_call=self.handled.append
        )
        self._wallet = Wallet(self.ledger, profile=profile)
        self.app = asgi_app(receiver, self._wallet)
        self.url = ""

    def begin_anew(self) -> None:
        self.handled.clear()
        self._wallet.ledger = self.ledger = MemoryLedger({"p1": 100_000})

    def codes(self) -> list[str | None]:
        return [handled.code for handled in self.handled]

    def wait_for(self, calls: int) -> None:
        give_up = time.monotonic() + PATIENCE_SECONDS
        while len(self.handled) < calls and time.monotonic() < give_up:
            time.sleep(0.005)


@pytest.fixture(scope="module")
def keys(private_key: RSAPrivateKey) -> ServiceKeys:
    return ServiceKeys(private_key, new_key())


@pytest.fixture(scope="module")
def served(keys: ServiceKeys) -> Iterator[RealWallet]:
    wallet = RealWallet(keys, Profile(signature_header="x-service"))
    with asgi_server(wallet.app) as port:
        wallet.url = f"http://127.0.0.1:{port}"
        yield wallet


@pytest.fixture
def wallet(served: RealWallet) -> RealWallet:
    """The same server with a new ledger."""
    served.begin_anew()
    return served


def carry(url: str, keys: ServiceKeys, *posts: Post, seen: list[Carried] | None = None, **options: Any) -> list[Answer]:
    """Carry *posts* one after the other; *seen* is filled with what came of them."""

    async def all_of_them() -> list[Answer]:
        answers: list[Answer] = []
        courier = HttpCarrier(url, keys, profile=Profile(signature_header="x-service"), **options)
        try:
            for post in posts:
                carried = await courier.carry_post(post)
                answers.append(answer_to(post, carried))
                if seen is not None:
                    seen.append(carried)
            return answers
        finally:
            await courier.aclose()

    return asyncio.run(all_of_them())


@pytest.mark.parametrize("manner", [None, Fault.SLOW])
def test_a_signature_that_the_wallet_quotes_is_not_heard(keys: ServiceKeys, manner: Fault | None) -> None:
    """What is heard stands in traces and reports; the witness, who shows the exchange itself, has the answer whole."""
    seen: list[Carried] = []

    def script(connection: Connection) -> None:
        head = connection.read_request().partition(b"\r\n\r\n")[0].split(b"\r\n")
        (signature,) = [line.partition(b": ")[2] for line in head if line.lower().startswith(b"x-service:")]
        body = b'{"type":"ERROR","code":"%s","timestamp":1}' % signature
        connection.send(response_bytes(200, body, b"Content-Type: application/json"))

    with HostileServer(script) as server:
        (told,) = carry(server.base_url, keys, Post(withdraw(), manner=manner), seen=seen)
    (signature,) = [value for name, value in seen[0].headers if name == b"x-service"]
    assert len(signature) > 300
    assert str(told) == "[signature removed]"
    assert seen[0].answer is not None
    assert signature in seen[0].answer.body


@pytest.mark.parametrize(
    ("manner", "arrivals", "heard"),
    [
        pytest.param(None, 1, "SUCCESS, balance 995.00", id="without a fault"),
        pytest.param(Fault.SLOW, 1, "SUCCESS, balance 995.00", id="slow"),
        pytest.param(Fault.REPLY_LOST, 1, "reply lost", id="reply-lost"),
        pytest.param(Fault.REQUEST_LOST, 0, "request lost", id="request-lost"),
    ],
)
def test_what_arrives_and_what_is_heard(
    wallet: RealWallet, keys: ServiceKeys, manner: Fault | None, arrivals: int, heard: str
) -> None:
    """A lost reply was really given, and nobody hears a call that was hung up; the call itself is in the wallet."""
    (told,) = carry(wallet.url, keys, Post(withdraw(), manner=manner))
    wallet.wait_for(arrivals)
    assert str(told) == heard
    assert (told.reply is None) is (manner not in {None, Fault.SLOW})
    assert wallet.codes() == [None] * arrivals
    assert wallet.ledger.balance("p1") == 100_000 - 500 * arrivals


@pytest.mark.parametrize(
    ("manner", "heard"),
    [
        (Fault.TIMEOUT, "timeout: the service hung up before the answer"),
        (Fault.RESET, "the connection was reset before the answer, on purpose"),
    ],
    ids=["timeout", "reset"],
)
def test_who_hangs_up_hears_nothing_and_the_repeat_tells(
    wallet: RealWallet, keys: ServiceKeys, manner: Fault, heard: str
) -> None:
    """Whether a server goes on after that is its own affair; the repeat finds out, and nothing moves twice."""
    answers = carry(wallet.url, keys, Post(withdraw(), manner=manner), Post(withdraw(), attempt=2))
    assert [str(told) for told in answers] == [heard, "SUCCESS, balance 995.00"]
    assert wallet.ledger.balance("p1") == 99_500


@pytest.mark.parametrize("extra", [Fault.FORGED, Fault.OLD_KEY, Fault.RESERIALISED], ids=str)
def test_extras_are_refused_by_a_right_wallet(wallet: RealWallet, keys: ServiceKeys, extra: Fault) -> None:
    """A stranger's key, an old one, and other bytes than were signed (docs/decisions/0011)."""
    (told,) = carry(wallet.url, keys, Post(withdraw(), extra=extra))
    assert told.code == "INVALID_SIGNATURE"
    assert wallet.ledger.balance("p1") == 100_000


def test_extras_with_the_right_signature_are_judged_by_the_wallet(wallet: RealWallet, keys: ServiceKeys) -> None:
    """A duplicate is the same call; other content is another, under the same name."""
    posts = Post(withdraw()), Post(withdraw(), extra=Fault.DUPLICATE)
    other = Post(withdraw(amount_cents=501), extra=Fault.OTHER_CONTENT)
    assert [told.code for told in carry(wallet.url, keys, *posts, other)] == [None, None, "DUPLICATE_TRANSACTION"]
    assert wallet.ledger.balance("p1") == 99_500


def test_the_witness_sees_what_really_happened(wallet: RealWallet, keys: ServiceKeys) -> None:
    """The answer that was lost, too; and the headers that tell a post from others."""
    seen: list[Carried] = []
    manners = None, Fault.REPLY_LOST, Fault.REQUEST_LOST
    carry(
        wallet.url,
        keys,
        *(Post(withdraw(), manner=manner) for manner in manners),
        seen=seen,
    )
    assert [(carried.answer is not None, carried.problem) for carried in seen] == [
        (True, ""), (True, "reply lost"), (False, "request lost"),
    ]  # fmt: skip
    assert {carried.url for carried in seen} == {f"{wallet.url}/withdraw"}
    assert [name for name, _ in seen[0].headers] == [b"Content-Type", b"x-service"]
    assert seen[0].request.body == Post(withdraw()).signed
    heard = [delivered(each) for each in seen if each.answer is not None]
    assert [(delivery.code, delivery.problem) for delivery in heard] == [(None, ""), (None, "")]


def test_the_same_post_has_the_same_bytes_and_headers_in_every_manner(keys: ServiceKeys) -> None:
    """The wallet cannot tell by a header that a fault was laid over the way."""
    with HostileServer(answer(response_bytes(200, b'{"type":"ERROR","code":"X"}'))) as server:
        carry(server.base_url, keys, *(Post(withdraw(), manner=each) for each in (None, Fault.SLOW, Fault.RESET)))
        # Each manner has a connection of its own; the last one may be accepted after its caller has hung up.
        assert server.wait_until_closed(connections=3)
    own = {b"accept", b"accept-encoding", b"user-agent", b"connection"}
    told = [
        {
            name.lower(): value
            for name, _, value in (
                line.partition(b": ") for line in request.partition(b"\r\n\r\n")[0].split(b"\r\n")[1:]
            )
            if name.lower() not in own
        }
        | {b"body": request.partition(b"\r\n\r\n")[2]}
        for request in server.requests
    ]
    assert told[0] == told[1] == told[2]
    assert set(told[0]) == {b"host", b"content-type", b"content-length", b"x-service", b"body"}


def read_and(data: bytes, *, hang_up: bool = False) -> Script:
    def script(connection: Connection) -> None:
        connection.read_request()
        connection.send(data)
        if hang_up:
            connection.close()

    return script


def endless(data: bytes, first: bytes) -> Script:
    def script(connection: Connection) -> None:
        connection.read_request()
        connection.send(first)
        while not connection.stopping.is_set() and connection.send(data):
            pass

    return script


HEAD = b"HTTP/1.1 200 OK\r\n"


@pytest.mark.parametrize("manner", [None, Fault.SLOW, Fault.REPLY_LOST], ids=str)
@pytest.mark.parametrize(
    "script",
    [
        pytest.param(read_and(b"garbage\r\n\r\n"), id="garbage"),
        pytest.param(read_and(b"", hang_up=True), id="hung up"),
        pytest.param(read_and(b""), id="no answer"),
        pytest.param(read_and(HEAD, hang_up=True), id="half an answer"),
        pytest.param(endless(b"x-more: and more\r\n", HEAD), id="endless headers"),
        pytest.param(endless(b"x" * 65_536, HEAD + b"Content-Length: 999999999\r\n\r\n"), id="a huge body"),
        pytest.param(
            endless(b"10000\r\n" + b"x" * 65_536 + b"\r\n", HEAD + b"Transfer-Encoding: chunked\r\n\r\n"),
            id="endless chunks",
        ),
        pytest.param(read_and(response_bytes(500, b"<html>no</html>")), id="an error page"),
        pytest.param(read_and(response_bytes(302, b"", b"Location: /elsewhere")), id="a redirect"),
        pytest.param(read_and(response_bytes(204)), id="nothing"),
        pytest.param(lambda connection: connection.close(), id="closed at once"),
    ],
)
def test_a_hostile_wallet_is_not_heard(keys: ServiceKeys, script: Script, manner: Fault | None) -> None:
    """There is always an Answer, and soon: it says why there is no reply."""
    with HostileServer(script) as server:
        began = time.monotonic()
        (told,) = carry(server.base_url, keys, Post(withdraw(), manner=manner), timeout=0.3)
        assert time.monotonic() - began < PATIENCE_SECONDS
    assert told.reply is None
    assert told.problem
    assert len(told.problem) < 1_000
    assert not told.settles(withdraw())


SUCCESS = b'{"type":"SUCCESS","timestamp":1,"balance":1.00}'
MOST_BYTES = 1_048_576
TOO_LONG = "the body is longer than 1048576 bytes"
ENCODED = "the body is 'gzip' encoded, although identity was asked for"


@pytest.mark.parametrize("manner", [None, Fault.SLOW], ids=str)
@pytest.mark.parametrize(
    ("size", "more", "defect"),
    [
        pytest.param(MOST_BYTES, (), "", id="just short enough"),
        pytest.param(MOST_BYTES + 1, (), TOO_LONG, id="a byte too long"),
        pytest.param(2 * MOST_BYTES, (), TOO_LONG, id="far too long"),
        pytest.param(200, (b"Content-Encoding: identity",), "", id="plain, and says so"),
        pytest.param(200, (b"Content-Encoding: gzip",), ENCODED, id="said to be encoded"),
    ],
)
def test_an_answer_that_is_not_whole_is_no_reply(
    keys: ServiceKeys, manner: Fault | None, size: int, more: tuple[bytes, ...], defect: str
) -> None:
    """Whatever its beginning says: the rest may say otherwise, or be no JSON at all (spec §2.1)."""
    seen: list[Carried] = []
    with HostileServer(read_and(response_bytes(200, SUCCESS.ljust(size), *more))) as server:
        (told,) = carry(server.base_url, keys, Post(withdraw(), manner=manner), seen=seen)
    assert told.succeeded is not bool(defect)
    assert (told.reply is None and told.status is not None) is bool(defect)
    assert told.problem == (f"HTTP 200, and no reply: {defect}" if defect else "")
    assert [carried.problem for carried in seen] == [defect]
    assert seen[0].answer is not None
    delivery = delivered(seen[0])
    assert defect in {"", delivery.problem}
    assert delivery.reply is None or not defect
    assert len(delivery.body) == min(size, MOST_BYTES)


@pytest.mark.parametrize(
    ("size", "told"), [(MOST_BYTES, ""), (MOST_BYTES + 1, TOO_LONG)], ids=["just short enough", "a byte too long"]
)
def test_what_is_delivered_again_says_what_is_wrong_with_its_answer(keys: ServiceKeys, size: int, told: str) -> None:
    """The stump of an answer is not passed off as the whole of it."""

    async def again(url: str) -> Carried:
        courier = HttpCarrier(url, keys)
        try:
            return await courier.carry_again("/withdraw", b"{}", ())
        finally:
            await courier.aclose()

    with HostileServer(read_and(response_bytes(200, SUCCESS.ljust(size)))) as server:
        carried = asyncio.run(again(server.base_url))
    response = carried.answer
    assert response is not None
    assert (response.defect, carried.problem) == (told, told)
    assert len(response.body) == MOST_BYTES


def test_nobody_there_is_an_error(keys: ServiceKeys) -> None:
    """Only that is: nothing was sent, and nobody can be."""
    with HostileServer() as server:
        url = server.base_url
    began = time.monotonic()
    with pytest.raises(RequestNotSentError, match="wallet's address"):
        carry(url, keys, Post(withdraw()))
    assert time.monotonic() - began < PATIENCE_SECONDS
    (told,) = carry(url, keys, Post(withdraw(), manner=Fault.RESET))
    assert "Connect call failed" in told.problem


@pytest.mark.parametrize(
    "url", ["ftp://127.0.0.1/", "wallet", "http://wallet.example", "", "http://[", "http://u:p@127.0.0.1"]
)
def test_an_address_that_is_none_is_refused(keys: ServiceKeys, url: str) -> None:
    """Before anything is sent; and plain http goes to this machine alone."""
    with pytest.raises(ConfigurationError):
        carry(url, keys, Post(withdraw()))


@pytest.mark.parametrize("manner", [None, Fault.SLOW], ids=str)
def test_a_proxy_of_the_environment_does_not_lead_away_from_this_machine(
    keys: ServiceKeys, manner: Fault | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wallet on this machine is called directly, as the sandbox's own client is (docs/decisions/0004)."""
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    with HostileServer(answer(response_bytes(200, b'{"type":"ERROR","code":"X"}'))) as server:
        (told,) = carry(server.base_url, keys, Post(withdraw(), manner=manner))
    assert told.code == "X"


def test_a_courier_costs_next_to_nothing(keys: ServiceKeys) -> None:
    """One is made for each round: the second and those after it take no tenth of a second together."""
    carry("http://127.0.0.1:9", keys)
    began = time.process_time()
    for _ in range(20):
        carry("http://127.0.0.1:9", keys)
    assert time.process_time() - began < 0.5
