"""
The wallet by hand (examples/wallet_by_hand.py) keeps the rules, and answers histories as the ready wallet does.

What it makes of bodies, signatures, repeats and failures is tried by the scenarios, which it passes in full.
"""

import json
import re
import socket
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from decimal import Decimal
from functools import cache, partial
from http.client import HTTPConnection
from itertools import product
from pathlib import Path
from signal import SIGINT
from sqlite3 import connect
from subprocess import PIPE, Popen, run
from typing import Any, NamedTuple

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey
from hypothesis import given, settings
from hypothesis import strategies as st
from wallet_by_hand import SCHEMA, PlainWallet

from game_operator.ledger import MemoryLedger
from game_operator.wallet import Wallet
from game_operator.webhooks import RsaSignature, WebhookReceiver
from game_operator_testkit.certifier import certify, scenarios
from testkit.tests.certifier.serving import served
from tests.support.documents import ROOT
from tests.support.webhooks import encoded, signature_of

Body = dict[str, object]
Sign = Callable[[bytes], str]
Headers = list[tuple[str, str]]

OPENING = {"ann": 10_000, "ben": 10_000}
NOON_MILLIS = 1_800_000_000_000


class Answer(NamedTuple):
    """What was told, without the time."""

    code: str | None
    balance: str | None


class Service:
    """Signs bodies and posts them to one wallet."""

    def __init__(self, sign: Sign, wallet: PlainWallet) -> None:
        self.sign, self.wallet = sign, wallet

    def headers(self, body: bytes) -> Headers:
        return [("Content-Type", "application/json"), ("Signature", self.sign(body))]

    def post(self, path: str, body: bytes) -> Answer:
        status, sent, reply = self.wallet.handle("POST", path, self.headers(body), body)
        assert (status, sent) == (200, {"Content-Type": "application/json"})
        return told(reply)

    def time_of(self, path: str, body: Body) -> int:
        raw = encoded(body)
        return int(json.loads(self.wallet.handle("POST", path, self.headers(raw), raw)[2])["timestamp"])

    def cents(self, player_id: str = "ann") -> int:
        return self.wallet.balance_cents(player_id)


def told(reply: bytes) -> Answer:
    """Read a reply; the balance digit for digit."""
    said = json.loads(reply, parse_float=str)
    assert said["type"] == ("ERROR" if "code" in said else "SUCCESS")
    assert "balance" not in said or "timestamp" in said
    return Answer(said.get("code"), said.get("balance"))


@pytest.fixture(scope="module")
def sign(private_key: RSAPrivateKey) -> Sign:
    """What signs a body, and each body once."""
    return cache(partial(signature_of, private_key))


@contextmanager
def opened(wallet: PlainWallet) -> Iterator[PlainWallet]:
    """Give the wallet its players, and close it."""
    with closing(wallet):
        for player_id, cents in OPENING.items():
            wallet.open_account(player_id, cents)
        yield wallet


@pytest.fixture
def service(public_key: RSAPublicKey, sign: Sign) -> Iterator[Service]:
    """The service, and a wallet in memory."""
    with opened(PlainWallet([public_key])) as wallet:
        yield Service(sign, wallet)


def withdraw(bet_id: str = "b1", amount: int = 500, **more: object) -> Body:
    return {"player_id": "ann", "amount": amount, "action": "BET", "action_id": bet_id} | more


BALANCE: Body = {"player_id": "ann"}
W = ("/withdraw", withdraw())
D = ("/deposit", {"player_id": "ann", "amount": 1250, "action": {"type": "BET"}, "action_id": "b1"})

# --- Replies (decision 0012) and failures --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cents", "written"),
    [
        pytest.param(0, b"0.00", id="nothing"),
        pytest.param(5, b"0.05", id="five cents"),
        pytest.param(-5, b"-0.05", id="below zero"),
        pytest.param(123_456_789_012, b"1234567890.12", id="much"),
        pytest.param(2**63 - 1, b"92233720368547758.07", id="more than a float can hold"),
    ],
)
def test_balances_are_written_digit_for_digit(service: Service, cents: int, written: bytes) -> None:
    """Two decimals, exactly; a float would have lost the last."""
    service.wallet.open_account("eve", cents)
    service.wallet.clock_millis = lambda: NOON_MILLIS
    body = encoded({"player_id": "eve"})
    reply = service.wallet.handle("POST", "/player-balance", service.headers(body), body)[2]
    assert reply == b'{"type":"SUCCESS","balance":%b,"timestamp":1800000000000}' % written


def test_a_later_time_never_tells_an_older_balance(service: Service) -> None:
    """A movement is told after all that was moved, a read not before it, though the clock is set back."""
    service.wallet.clock_millis = lambda: NOON_MILLIS
    assert service.time_of(*W) == NOON_MILLIS
    service.wallet.clock_millis = lambda: NOON_MILLIS - 60_000
    assert service.time_of("/player-balance", BALANCE) == NOON_MILLIS
    assert service.time_of(*D) == NOON_MILLIS + 1
    assert service.time_of(*D) == NOON_MILLIS + 1
    service.wallet.clock_millis = lambda: NOON_MILLIS + 50
    assert service.time_of("/player-balance", BALANCE) == NOON_MILLIS + 50


def _block(language: str) -> str:
    """Return the one block of docs/tutorials/another-language.md in *language*."""
    page = (ROOT / "docs/tutorials/another-language.md").read_text()
    (block,) = re.findall(rf"^```{language}\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    return str(block)


def test_the_documents_tables_are_the_wallets() -> None:
    """docs/tutorials/another-language.md and the example have the same tables, columns and keys, but for `blocked`."""

    def columns(script: str) -> set[tuple[str, str, int]]:
        query = "SELECT t.name, c.name, c.pk FROM sqlite_schema t, pragma_table_info(t.name) c WHERE t.type = 'table'"
        with closing(connect(":memory:")) as database:
            database.executescript(script)
            return set(database.execute(query))

    assert columns(SCHEMA) - columns(_block("sql")) == {("accounts", "blocked", 0)}
    assert columns(_block("sql")) < columns(SCHEMA)


@pytest.mark.outside
def test_the_documents_commands_verify(tmp_path: Path, public_pem: bytes, sign: Sign) -> None:
    """As pasted into a shell: the call's own bytes are verified, and others are not."""
    (tmp_path / "service.pub.pem").write_bytes(public_pem)
    (tmp_path / "header.txt").write_text(sign(encoded(BALANCE)) + "\n")
    codes = []
    for body in (encoded(BALANCE), encoded(BALANCE) + b"\n"):
        (tmp_path / "body.json").write_bytes(body)
        codes.append(
            run(["sh", "-c", _block("sh")], cwd=tmp_path, check=False, capture_output=True, timeout=50).returncode
        )
    assert codes == [0, 1]


# --- Many at once, and over HTTP -----------------------------------------------------------------------------------


def _raw_exchange(port: int, request: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port), 30) as connection:
        connection.sendall(request)
        connection.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: connection.recv(65_536), b""))


def _asked(connection: HTTPConnection, service: Service, body: bytes) -> Answer:
    connection.request("POST", "/withdraw", body, dict(service.headers(body)))
    return told(connection.getresponse().read())


@pytest.mark.outside
def test_over_http(service: Service, capfd: pytest.CaptureFixture[str]) -> None:
    """A hang-up within a body moves nothing, garbage is refused, and of twenty bets at once all are counted."""
    body = encoded(withdraw())
    signature = service.headers(body)[1][1]
    start = f"POST /withdraw HTTP/1.1\r\nHost: x\r\nSignature: {signature}\r\n".encode()
    with served(service.wallet) as url:
        port = int(url.rpartition(":")[2])
        assert _raw_exchange(port, start + b"Content-Length: 500\r\n\r\n" + body) == b""
        assert service.cents() == 10_000
        for garbage in (b"\x16\x03\x01\0garbage\r\n\r\n", start + b"Content-Length: 9_9\r\n\r\n", start + b"\r\n" * 2):
            assert b'{"type":"ERROR"' in _raw_exchange(port, garbage)
        both = start + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
        assert b" 400 " in _raw_exchange(port, both).partition(b"\r\n")[0]
        chunks = b"".join(b"%x;a=b\r\n%b\r\n" % (len(part), part) for part in (body[:7], body[7:]))
        chunked = start + b"Transfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\nTrailer: x\r\n\r\n"
        assert b'"balance":95.00' in _raw_exchange(port, chunked)
        with ThreadPoolExecutor(20) as threads:
            answers = list(threads.map(lambda n: _post(port, service, withdraw(f"p{n}", 600)), range(20)))
        assert sorted(answer.code or "" for answer in answers) == [""] * 15 + ["INSUFFICIENT_BALANCE"] * 5
        assert service.cents() == 9_500 - 15 * 600
    assert capfd.readouterr() == ("", "")


@pytest.mark.outside
def test_a_connection_is_kept(service: Service) -> None:
    """Also after a body that is too long, which is read past; a GET and a HEAD are answered in form."""
    with served(service.wallet) as url, closing(HTTPConnection(url.removeprefix("http://"), timeout=30)) as connection:
        for body, answer in (
            (encoded(withdraw()), Answer(None, "95.00")),
            (encoded(withdraw(filler="x" * 1_000_000)), Answer("SYSTEM_ERROR", None)),
            (encoded(BALANCE), Answer("INVALID_REQUEST", None)),
            (encoded(withdraw("b2")), Answer(None, "90.00")),
        ):
            assert _asked(connection, service, body) == answer
        connection.request("HEAD", "/withdraw")
        assert (response := connection.getresponse()).status == 405
        assert response.read() == b""
        connection.request("GET", "/withdraw")
        assert told(connection.getresponse().read()) == Answer("INVALID_REQUEST", None)


def _post(port: int, service: Service, call: Body) -> Answer:
    with closing(HTTPConnection("127.0.0.1", port, timeout=30)) as connection:
        return _asked(connection, service, encoded(call))


# --- The same histories to the ready wallet ------------------------------------------------------------------------


class Step(NamedTuple):
    """Something that happens to both wallets: a post, or "open", "block" or "unblock" with a player."""

    path: str
    body: Body


def _bodies(path: str, draw: st.DrawFn) -> Body:
    body: dict[str, object] = {"player_id": draw(st.sampled_from(["ann"] * 5 + ["ben", "eve"]))}
    if path == "/player-balance":
        return body
    bet_id, tx_id = draw(st.sampled_from(["b1", "b1", "b2"])), draw(st.sampled_from(_TX_IDS[path]))
    body |= {"action_id": bet_id} | ({"tx_id": tx_id} if tx_id else {})
    kind = draw(st.sampled_from(["BET"] * 4 + (["FREE_BET_CLAIM", "JACKPOT"] if path == "/deposit" else ["RAIN"])))
    body["action"] = {"type": kind} if path == "/deposit" else kind
    if path != "/rollback" or draw(st.booleans()):
        body["amount"] = draw(st.sampled_from([500, 500, 500, 0, 700, 10_001]))
    return body


_TX_IDS: Mapping[str, Sequence[str | None]] = {
    "/withdraw": ["w1", "w1", "w2", None, "withdraw:bet:b1"],
    "/deposit": ["d1", "d1", "d2", None],
    "/rollback": ["w1", "w1", "w2", None, "withdraw:bet:b2"],
}
_PATHS = ["/withdraw"] * 3 + ["/deposit"] * 3 + ["/rollback"] * 3 + ["/player-balance"]


@st.composite
def histories(draw: st.DrawFn) -> list[Step]:
    """Few bets, few ids, and each call perhaps again, later, or on another path."""
    steps: list[Step] = []
    for _ in range(draw(st.integers(3, 12))):
        what = draw(st.integers(0, 19))
        if what == 0:
            steps.append(Step(draw(st.sampled_from(["open", "block", "unblock"])), {}))
        elif what < 5 and steps:
            steps.append(draw(st.sampled_from(steps)))
        elif what < 7 and steps:
            steps.append(Step(draw(st.sampled_from(_PATHS)), draw(st.sampled_from(steps)).body))
        else:
            path = draw(st.sampled_from(_PATHS))
            steps.append(Step(path, _bodies(path, draw)))
    return steps


class Ready:
    """The ready wallet behind the ready receiver."""

    def __init__(self, public_key: RSAPublicKey) -> None:
        blocked: set[str] = set()
        self.block, self.unblock = blocked.add, blocked.discard
        self.ledger = MemoryLedger(opening_cents=OPENING)
        self._receiver = WebhookReceiver(authenticator=RsaSignature(public_key), instances=None)
        self._wallet = Wallet(
            self.ledger, may_bet=lambda call, *_: "PLAYER_BLOCKED" if call.player_id in blocked else None
        )

    def post(self, path: str, headers: Headers, body: bytes) -> Answer:
        return told(self._receiver.handle(path, headers, body, self._wallet).body)

    def open_account(self, player_id: str, cents: int) -> None:
        self.ledger.open_account(player_id, Decimal(cents) / 100)

    def stored_cents(self, player_id: str) -> int:
        return self.ledger.balance(player_id)


def hold_alike(plain: Service, other: Any, history: Sequence[Step]) -> None:  # Any: Ready, or a process.
    """Hold that the wallet by hand and *other* give each call one answer, and that players have the same in the end."""
    players = set(OPENING)
    for step in history:
        if step.path.startswith("/"):
            body = encoded(step.body)
            answer = other.post(step.path, plain.headers(body), body)
            assert plain.post(step.path, body) == answer, step
        elif step.path != "open":
            for wallet in (plain.wallet, other):
                getattr(wallet, step.path)("ann")
        elif "eve" not in players:
            players.add("eve")
            for wallet in (plain.wallet, other):
                wallet.open_account("eve", 2_000)
    for player_id in players:
        assert other.stored_cents(player_id) == plain.cents(player_id)


R: tuple[str, Body] = ("/rollback", {"player_id": "ann", "action": "BET", "action_id": "b1", "round_id": "r1"})
JACKPOT = ("/deposit", D[1] | {"action": {"type": "JACKPOT"}})
RAIN, TOO_MUCH = ("/withdraw", withdraw(action="RAIN")), ("/withdraw", withdraw(amount=10_001))
STATES: Mapping[str, Sequence[tuple[str, Body]]] = {
    "unseen": [], "OPEN": [W], "SPENT": [RAIN], "CLOSED": [W, D], "ROLLED_BACK": [W, R], "TOMBSTONE": [R],
    "DECLINED": [TOO_MUCH],
}  # fmt: skip
CHANGES: Sequence[Body] = [
    {}, {"amount": 0}, {"amount": 600}, {"tx_id": "w2"}, {"player_id": "ben"}, {"player_id": "ben", "tx_id": "w2"},
    {"player_id": "nobody"}, {"player_id": "nobody", "tx_id": "w2"},
]  # fmt: skip


@pytest.mark.parametrize("state", STATES)
def test_each_call_in_each_state(public_key: RSAPublicKey, sign: Sign, state: str) -> None:
    """A state, each call and the same again: code, balance and movement are the ready wallet's (decision 0014)."""
    for (path, body), change in product((W, D, R, JACKPOT, TOO_MUCH), CHANGES):
        history = [Step(*post) for post in STATES[state]] + [Step(path, {**body, **change})] * 2
        with opened(PlainWallet([public_key])) as wallet:
            hold_alike(Service(sign, wallet), Ready(public_key), history)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(history=histories())
def test_both_wallets_give_the_same_answers(public_key: RSAPublicKey, sign: Sign, history: list[Step]) -> None:
    """Type, code and balance of each call of any history, and what players have at its end."""
    with opened(PlainWallet([public_key])) as wallet:
        hold_alike(Service(sign, wallet), Ready(public_key), history)


@pytest.mark.torture
def test_it_is_served_for_a_certification(private_key: RSAPrivateKey, public_pem: bytes, tmp_path: Path) -> None:
    """By one command, as docs/tutorials/another-language.md has it: it passes with two players, and Ctrl-C ends it."""
    (tmp_path / "service.pub.pem").write_bytes(public_pem)
    program = [sys.executable, str(ROOT / "examples" / "wallet_by_hand.py")]
    with Popen([*program, "service.pub.pem", "0", "p1", "p2"], cwd=tmp_path, stdout=PIPE, text=True) as served:
        assert served.stdout is not None
        url = served.stdout.readline().partition(" ")[0]
        report = certify(url, signing_key=private_key, player_id="p1", other_player_id="p2")
        served.send_signal(SIGINT)
        assert served.wait(timeout=30) == 0
    assert [(each.id, each.reason) for each in report.failures] == []
    assert [each.id for each in report.skipped] == [each.id for each in scenarios() if set(each.needs) - {"wire"}]
    assert [each.after_cents for each in report.moved] == [10_000, 10_000]
    assert [each.before_cents for each in report.moved] == [10_000, 10_000]
