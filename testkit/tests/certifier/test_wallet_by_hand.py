"""The wallet by hand (examples/wallet_by_hand.py) keeps the rules, and answers histories as the ready wallet does."""

import json
import re
import socket
import sys
from base64 import b64encode, urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from decimal import Decimal
from functools import cache, partial
from http.client import HTTPConnection
from pathlib import Path
from signal import SIGINT
from sqlite3 import IntegrityError, connect
from subprocess import PIPE, Popen, run
from typing import NamedTuple

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey, generate_private_key
from hypothesis import event, given, settings
from hypothesis import strategies as st
from wallet_by_hand import SCHEMA, PlainWallet, serve

from game_operator.ledger import MemoryLedger
from game_operator.wallet import Wallet
from game_operator.webhooks import RsaSignature, WebhookReceiver
from game_operator_testkit.certifier import certify, scenarios
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

    def post(self, path: str, body: Body | bytes) -> Answer:
        raw = body if isinstance(body, bytes) else encoded(body)
        return self.post_with(self.headers(raw), raw, path)

    def post_with(self, headers: Headers, raw: bytes, path: str = "/withdraw") -> Answer:
        status, sent, reply = self.wallet.handle("POST", path, headers, raw)
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


def withdraw(bet_id: str = "b1", amount: object = 500, player_id: str = "ann", **more: object) -> Body:
    return {"player_id": player_id, "amount": amount, "action": "BET", "action_id": bet_id} | more


def deposit(bet_id: str = "b1", amount: object = 1250, player_id: str = "ann", **more: object) -> Body:
    return {"player_id": player_id, "amount": amount, "action": {"type": "BET"}, "action_id": bet_id} | more


def claim(bet_id: str = "b1", amount: object = 300, player_id: str = "ann", **more: object) -> Body:
    return deposit(bet_id, amount, player_id, action={"type": "JACKPOT"}) | more


def rollback(bet_id: str = "b1", player_id: str = "ann", **more: object) -> Body:
    return {"player_id": player_id, "action": "BET", "action_id": bet_id, "round_id": "r1"} | more


BALANCE: Body = {"player_id": "ann"}
Post = tuple[str, Body]
W: Post = ("/withdraw", withdraw())
D: Post = ("/deposit", deposit())
R: Post = ("/rollback", rollback())
RAIN: Post = ("/withdraw", withdraw(action="RAIN"))
TOO_MUCH: Post = ("/withdraw", withdraw(amount=10_001))

# --- The table (decision 0014) -------------------------------------------------------------------------------------

STATES: Mapping[str, Sequence[Post]] = {
    "unseen": [],
    "OPEN": [W],
    "SPENT": [RAIN],
    "CLOSED": [W, D],
    "ROLLED_BACK": [W, R],
    "TOMBSTONE": [R],
    "DECLINED": [TOO_MUCH],
}
#: For each call: what it is answered in each state, in the order above, and what it moves: + or - its amount, or 0.
TABLE: Mapping[str, tuple[Post, str]] = {
    "a withdraw": (W, "- = DUP = ROLLED ROLLED DUP"),
    "a withdraw of another amount": (("/withdraw", withdraw(amount=600)), "- DUP DUP DUP DUP ROLLED DUP"),
    "a withdraw of another tx_id": (("/withdraw", withdraw(tx_id="w2")), "- DUP DUP DUP ROLLED ROLLED DUP"),
    "a withdraw by another": (("/withdraw", withdraw(player_id="ben")), "- DUP DUP DUP DUP ROLLED DUP"),
    "a withdraw's tx_id by nobody": (
        ("/withdraw", withdraw(player_id="nobody")),
        "NOBODY DUP NOBODY DUP DUP NOBODY DUP",
    ),
    "a withdraw by nobody": (("/withdraw", withdraw(player_id="nobody", tx_id="w2")), "NOBODY " * 7),
    "the same declined withdraw": (TOO_MUCH, "FUNDS DUP DUP DUP DUP ROLLED FUNDS"),
    "a deposit": (D, "NOBET + CLOSED = ROLLED ROLLED NOBET"),
    "a loss": (("/deposit", deposit(amount=0)), "NOBET = CLOSED DUP ROLLED ROLLED NOBET"),
    "a deposit of another tx_id": (("/deposit", deposit(tx_id="d2")), "NOBET + CLOSED CLOSED ROLLED ROLLED NOBET"),
    "a deposit to another": (
        ("/deposit", deposit(player_id="ben", tx_id="d2")),
        "NOBET NOBET CLOSED NOBET NOBET ROLLED NOBET",
    ),
    "a deposit to nobody": (("/deposit", deposit(player_id="nobody", tx_id="d2")), "NOBODY " * 7),
    "a claim that names the bet": (("/deposit", claim()), "+ " * 7),
    "a claim of nothing": (("/deposit", claim(amount=0)), "= " * 7),
    "a rollback": (R, "NOBET + + CLOSED = NOBET NOBET"),
    "a rollback of another tx_id": (("/rollback", rollback(tx_id="w2")), "NOBET NOBET NOBET NOBET NOBET NOBET NOBET"),
    "a rollback by another": (("/rollback", rollback(player_id="ben")), "NOBET NOBET NOBET NOBET DUP DUP NOBET"),
    "a rollback by nobody": (("/rollback", rollback(player_id="nobody", tx_id="w2")), "NOBODY " * 7),
    "a player-balance": (("/player-balance", BALANCE), "= " * 7),
}
CODES = {
    "DUP": "DUPLICATE_TRANSACTION",
    "ROLLED": "BET_ROLLED_BACK",
    "CLOSED": "BET_ALREADY_CLOSED",
    "NOBET": "BET_NOT_FOUND",
    "NOBODY": "PLAYER_NOT_FOUND",
    "FUNDS": "INSUFFICIENT_BALANCE",
}


CELLS = [
    pytest.param(before, call, cell, id=f"{name}, {state}")
    for name, (call, row) in TABLE.items()
    for (state, before), cell in zip(STATES.items(), row.split(), strict=True)
]


@pytest.mark.parametrize(("before", "call", "cell"), CELLS)
def test_the_table(service: Service, before: Sequence[Post], call: Post, cell: str) -> None:
    """Each state of a bet, each call: code, balance, movement; and the same again, which never moves anything."""
    for post in before:
        service.post(*post)
    path, body = call
    player_id, had = str(body["player_id"]), sum(map(service.cents, OPENING))
    first = service.post(path, body)
    sign = {"+": 1, "-": -1}.get(cell, 0)
    # A rollback has no amount: it refunds what was taken.
    assert sum(map(service.cents, OPENING)) - had == sign * int(str(body.get("amount", 500)))
    assert first.code == CODES.get(cell)
    known = player_id in OPENING
    assert first.balance == (f"{Decimal(service.cents(player_id)) / 100:.2f}" if known else None)
    assert service.post(path, body) == first


def test_a_decline_is_final(service: Service) -> None:
    """After a top-up or unblocking the same withdraw is refused alike, and another bet is not."""
    service.wallet.block("ann")
    assert service.post(*W) == Answer("PLAYER_BLOCKED", "100.00")
    service.wallet.unblock("ann")
    assert service.post(*TOO_MUCH).code == "DUPLICATE_TRANSACTION"
    assert service.post("/withdraw", withdraw("b2", 10_001)).code == "INSUFFICIENT_BALANCE"
    assert service.post("/deposit", claim("b9")).balance == "103.00"
    assert service.post("/withdraw", withdraw("b2", 10_001)) == Answer("INSUFFICIENT_BALANCE", "103.00")
    assert service.post(*W) == Answer("PLAYER_BLOCKED", "103.00")
    assert service.post("/withdraw", withdraw("b3", 10_001)) == Answer(None, "2.99")


def test_a_blocked_player_is_still_paid(service: Service) -> None:
    """Only a withdraw that is about to debit is asked (decision 0014): a repeat is not, and credits go on."""
    service.post(*W)
    service.wallet.block("ann")
    assert service.post(*W) == Answer(None, "95.00")
    assert service.post(*D) == Answer(None, "107.50")
    assert service.post("/withdraw", withdraw("b2")).code == "PLAYER_BLOCKED"


def test_an_unknown_players_calls_are_answered_for_good(service: Service) -> None:
    """Its account is opened later: the withdraw stays declined, and the cancelled bet cancelled."""
    for path, body in (("/withdraw", withdraw(player_id="eve")), ("/rollback", rollback("b2", "eve"))):
        assert service.post(path, body) == Answer("PLAYER_NOT_FOUND", None)
    assert service.post("/withdraw", withdraw("b2", player_id="eve")) == Answer("PLAYER_NOT_FOUND", None)
    service.wallet.open_account("eve", 2_000)
    assert service.post("/withdraw", withdraw(player_id="eve")).code == "PLAYER_NOT_FOUND"
    assert service.post("/withdraw", withdraw("b2", player_id="eve")) == Answer("BET_ROLLED_BACK", "20.00")
    assert service.post("/withdraw", withdraw("b3", player_id="eve")) == Answer(None, "15.00")


def test_a_tombstone_holds_its_withdraws_tx_id(service: Service) -> None:
    """For its own bet it is rolled back, for another's it is not free."""
    assert service.post("/rollback", rollback(tx_id="w1")).code == "BET_NOT_FOUND"
    assert service.post("/withdraw", withdraw("b2", tx_id="w1")).code == "DUPLICATE_TRANSACTION"
    assert service.post("/withdraw", withdraw(tx_id="w1")).code == "BET_ROLLED_BACK"
    assert service.post("/withdraw", withdraw("b2", tx_id="w2")) == Answer(None, "95.00")


def test_a_rollback_takes_no_other_bets_tx_id(service: Service) -> None:
    """Were a tombstone stored for it, the other bet could not be refunded."""
    service.post("/withdraw", withdraw(tx_id="w1"))
    assert service.post("/rollback", rollback("b2", tx_id="w1")) == Answer("BET_NOT_FOUND", "95.00")
    assert service.post("/withdraw", withdraw("b2", tx_id="w2")) == Answer(None, "90.00")
    assert service.post("/rollback", rollback(tx_id="w1")) == Answer(None, "95.00")


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(dict(reversed(list(withdraw().items()))), id="order of keys"),
        pytest.param(withdraw(round_id="r9", game="g", new={"a": 1}), id="other fields"),
        pytest.param(
            {"player_id": "ann", "bet_id": "b1", "wager": 500, "transaction_id": "withdraw:bet:b1"}, id="names"
        ),
    ],
)
def test_the_content_makes_two_calls_the_same(service: Service, other: Body) -> None:
    """Bytes, order and other fields do not (decision 0014)."""
    service.post(*W)
    assert service.post("/withdraw", other) == Answer(None, "95.00")


def test_an_early_deposit_is_paid_after_its_withdraw(service: Service) -> None:
    """The refusal leaves nothing behind."""
    assert service.post(*D) == Answer("BET_NOT_FOUND", "100.00")
    service.post(*W)
    assert service.post(*D) == Answer(None, "107.50")


# --- Reading (decision 0010) ---------------------------------------------------------------------------------------


def _raw(template: str) -> bytes:
    return template.encode("utf-8", "surrogatepass")


def _of_length(length: int) -> bytes:
    body = encoded(withdraw(filler=""))
    return body.replace(b'"filler":""', b'"filler":"' + b"x" * (length - len(body)) + b'"')


UNREADABLE = {
    "empty": b"",
    "null": b"null",
    "array": b"[]",
    "string": b'"withdraw"',
    "cut off": encoded(withdraw())[:-1],
    "two values": encoded(withdraw()) * 2,
    "BOM": b"\xef\xbb\xbf" + encoded(withdraw()),
    "no UTF-8": encoded(withdraw()).replace(b"ann", b"an\xff"),
    "UTF-16": encoded(withdraw()).decode().encode("utf-16-le"),
    "NaN elsewhere": _raw('{"player_id":"ann","action_id":"b1","amount":500,"game":NaN}'),
    "a member twice": _raw('{"player_id":"ann","action_id":"b1","amount":500,"amount":500}'),
    "twice, deep": _raw('{"player_id":"ann","action_id":"b1","amount":500,"x":[{"a":1,"\\u0061":1}]}'),
    "1,000 levels": _raw('{"player_id":"ann","action_id":"b1","amount":500,"x":' + "[" * 1000 + "]" * 1000 + "}"),
    "30,000 levels": b"[" * 30_000,
    "65 levels": _raw('{"player_id":"ann","action_id":"b1","amount":500,"x":' + "[" * 64 + "]" * 64 + "}"),
    "a deposit's body": encoded(deposit()),
    "won and no action": _raw('{"player_id":"ann","action_id":"b1","amount":500,"won":1}'),
}
# fmt: off
NO_AMOUNTS = [
    '"500"', "5.5", "5e2", "5E2", "500.01", "500.0e0", "0500", "+500", "-1", "0", "-0", "0.0", "1e400", "NaN",
    "Infinity", "true", "null", "[]", "{}", "1000000000000001", "1e30", "1" + "0" * 30, "9" * 5_000,
]
# fmt: on
NO_IDS: list[object] = [None, 5, True, [], {}, "", "  \t", "a\0b"]
UNREADABLE |= {
    f"amount {text[:20]}": _raw(f'{{"player_id":"ann","action_id":"b1","amount":{text}}}') for text in NO_AMOUNTS
}
UNREADABLE |= {
    f"{name} {value!r:.20}": encoded(withdraw() | {name: value})
    for name in ("player_id", "action_id", "tx_id")
    for value in [*NO_IDS, "x" * (321 if name == "tx_id" else 257)]
}
UNREADABLE |= {
    f"without {name}": encoded({key: value for key, value in withdraw().items() if key != name})
    for name in ("player_id", "action_id", "amount")
}
UNREADABLE |= {f"action {action!r}": encoded(withdraw(action=action)) for action in ("bet", "", None, 5, ["BET"])}
UNREADABLE["a lone surrogate"] = _raw('{"player_id":"ann","action_id":"\\ud800","amount":500}')
UNREADABLE["null first"] = encoded(withdraw(action_id=None, bet_id="b1"))

READABLE = {
    "500.0": _raw('{"player_id":"ann","action_id":"b1","amount":500.0}'),
    "500.000": _raw(' {"player_id" : "ann", "action_id":"b1","amount":500.000}\n'),
    "wager": _raw('{"player_id":"ann","reference_id":"b1","wager":500}'),
    "64 levels": _raw('{"player_id":"ann","action_id":"b1","amount":500,"x":' + "[" * 63 + "]" * 63 + "}"),
    "brackets in a string": encoded(withdraw(game='"' + "[{" * 100)),
    "65,536 bytes": _of_length(65_536),
    "256 code points": encoded(withdraw("\U0001f3b2" * 256, tx_id="x" * 320)),
    "junk where it does not matter": encoded(withdraw(instance_id=5, round_id=None, wager={"a": -1}, game=[True])),
    "a surrogate elsewhere": _raw('{"player_id":"ann","action_id":"b1","amount":500,"game":"\\ud800"}'),
    "a great number elsewhere": _raw('{"player_id":"ann","action_id":"b1","amount":500,"game":1e400}'),
}


@pytest.mark.parametrize("body", [pytest.param(body, id=name) for name, body in UNREADABLE.items()])
def test_a_body_that_is_no_withdraw_is_refused(service: Service, body: bytes) -> None:
    """INVALID_REQUEST without a balance, whatever it is; the ready wallet says the same."""
    assert service.post("/withdraw", body) == Answer("INVALID_REQUEST", None)
    assert Ready(service.wallet.public_keys[0]).post("/withdraw", service.headers(body), body) == Answer(
        "INVALID_REQUEST", None
    )
    assert service.cents() == 10_000


def test_a_body_that_is_too_long_is_not_refused_for_good(service: Service) -> None:
    """Of one byte more than 65,536 nobody has read what it says; the ready wallet says the same (decision 13)."""
    body = _of_length(65_537)
    assert service.post("/withdraw", body) == Answer("SYSTEM_ERROR", None)
    ready = Ready(service.wallet.public_keys[0])
    assert ready.post("/withdraw", service.headers(body), body) == Answer("SYSTEM_ERROR", None)


@pytest.mark.parametrize("body", [pytest.param(body, id=name) for name, body in READABLE.items()])
def test_a_body_that_is_a_withdraw_is_carried_out(service: Service, body: bytes) -> None:
    """Other spellings, and the far side of each limit; the ready wallet says the same."""
    assert service.post("/withdraw", body) == Answer(None, "95.00")
    assert Ready(service.wallet.public_keys[0]).post("/withdraw", service.headers(body), body) == Answer(None, "95.00")


@pytest.mark.parametrize(
    ("path", "body", "code"),
    [
        pytest.param("/deposit", {"player_id": "ann", "bet_id": "b1", "won": 700}, None, id="won, without action"),
        pytest.param("/deposit", deposit(won={"amount": 1}), None, id="won an object beside amount"),
        pytest.param(
            "/deposit", {"player_id": "ann", "bet_id": "b1", "won": {}}, "INVALID_REQUEST", id="won an object"
        ),
        pytest.param(
            "/deposit",
            {"player_id": "ann", "action_id": "b1", "action": {"type": "BET", "won": 700, "wager": {}}},
            None,
            id="action.won",
        ),
        pytest.param("/deposit", withdraw(), "INVALID_REQUEST", id="a withdraw's body on /deposit"),
        pytest.param("/deposit", deposit(action={}), "INVALID_REQUEST", id="an action without type"),
        pytest.param("/deposit", deposit(action={"type": "RAIN"}), "INVALID_REQUEST", id="an unknown type"),
        pytest.param("/deposit", deposit(action=None), "INVALID_REQUEST", id="a null action"),
        pytest.param("/deposit", deposit(amount=10**15 + 1), "INVALID_REQUEST", id="too much"),
        pytest.param("/deposit", deposit(amount=10**15), None, id="the most"),
        pytest.param("/rollback", rollback(amount="500"), None, id="a rollback's amount is not read"),
        pytest.param("/rollback", deposit(), "INVALID_REQUEST", id="a deposit's body on /rollback"),
        pytest.param("/rollback", withdraw(), "INVALID_REQUEST", id="the withdraw's own body on /rollback"),
        pytest.param("/rollback", withdraw(round_id="r1"), None, id="a body like it on /rollback"),
        pytest.param(
            "/deposit", {"player_id": "ann", "amount": 5, "action": {"type": "JACKPOT"}}, "INVALID_REQUEST", id="no id"
        ),
        pytest.param(
            "/deposit",
            {"player_id": "ann", "amount": 5, "action": {"type": "JACKPOT"}, "tx_id": "j"},
            None,
            id="no bet",
        ),
    ],
)
def test_what_a_body_looks_like_must_fit_its_path(service: Service, path: str, body: Body, code: str | None) -> None:
    """The signature covers the body alone (decisions 0010 and 0011); the ready wallet says the same."""
    ready = Ready(service.wallet.public_keys[0])
    for post in (W, (path, body)):
        answer, by_us = service.post(*post), ready.post(post[0], service.headers(encoded(post[1])), encoded(post[1]))
        assert answer == by_us
    assert answer.code == code
    if code is not None:
        assert service.post(*R) == Answer(None, "100.00")


# --- The signature (decision 0011) ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "spelled",
    [
        pytest.param(lambda raw: urlsafe_b64encode(raw).rstrip(b"="), id="url-safe, unpadded"),
        pytest.param(urlsafe_b64encode, id="url-safe, padded"),
        pytest.param(b64encode, id="standard, padded"),
        pytest.param(lambda raw: b64encode(raw).rstrip(b"="), id="standard, unpadded"),
    ],
)
@pytest.mark.parametrize("name", ["signature", "Signature", "SIGNATURE"])
def test_a_signature_may_be_spelled(service: Service, spelled: Callable[[bytes], bytes], name: str) -> None:
    """Either alphabet, padded or not; the header in any case."""
    body = encoded(withdraw())
    raw = urlsafe_b64decode(service.headers(body)[1][1] + "==")
    assert service.post_with([(name, spelled(raw).decode())], body) == Answer(None, "95.00")
    assert service.post_with([(name, spelled(raw[:-1] + bytes([raw[-1] ^ 1])).decode())], body).code is not None


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param(lambda good: [], id="none"),
        pytest.param(lambda good: [("Signature", "")], id="empty"),
        pytest.param(lambda good: [("Signature", "!" + good)], id="garbage"),
        pytest.param(lambda good: [("Signature", "\xe9")], id="no ASCII"),
        pytest.param(lambda good: [("Signature", good[:-4])], id="cut off"),
        pytest.param(lambda good: [("Signature", good), ("Signature", good)], id="twice"),
        pytest.param(lambda good: [("Signature", good), ("signature", "x")], id="twice, in two cases"),
        pytest.param(lambda good: [("X-Signature", good)], id="other name"),
    ],
)
def test_who_did_not_sign_is_refused(service: Service, headers: Callable[[str], Headers]) -> None:
    """INVALID_SIGNATURE with HTTP 200 (spec §4.1), and the genuine call is carried out afterwards."""
    body = encoded(withdraw())
    good = service.headers(body)[1][1]
    assert service.post_with(headers(good), body) == Answer("INVALID_SIGNATURE", None)
    assert service.post_with([("Signature", good)], body + b" ") == Answer("INVALID_SIGNATURE", None)
    assert service.post_with([("Signature", good)], body) == Answer(None, "95.00")


def test_keys_rotate(service: Service) -> None:
    """Old and new for a while, then the new alone."""
    new_key = generate_private_key(65537, 2048)
    new, body = Service(partial(signature_of, new_key), service.wallet), encoded(BALANCE)
    assert new.post("/player-balance", body).code == "INVALID_SIGNATURE"
    service.wallet.public_keys.append(new_key.public_key())
    assert [each.post("/player-balance", body).code for each in (service, new)] == [None, None]
    del service.wallet.public_keys[0]
    assert [each.post("/player-balance", body).code for each in (service, new)] == ["INVALID_SIGNATURE", None]


def test_another_operators_instance_is_refused(public_key: RSAPublicKey, sign: Sign) -> None:
    """Withdraws and claims must name one that is ours; deposits and rollbacks are bound by their bet."""
    with opened(PlainWallet([public_key], instances=frozenset({"i1"}))) as wallet:
        service = Service(sign, wallet)
        for wrong in (withdraw(), withdraw(instance_id="i2"), withdraw(instance_id=5), withdraw(instance_id=[])):
            assert service.post("/withdraw", wrong) == Answer("INVALID_REQUEST", None)
        for wrong in (claim(), claim(instance_id="i2")):
            assert service.post("/deposit", wrong) == Answer("INVALID_REQUEST", None)
        assert service.post("/withdraw", withdraw(instance_id="i1")) == Answer(None, "95.00")
        assert service.post(*D) == Answer(None, "107.50")
        assert service.post("/deposit", claim(instance_id="i1")) == Answer(None, "110.50")


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


def test_our_own_failures_are_not_remembered(service: Service) -> None:
    """SYSTEM_ERROR, and the repeat is processed afresh; who did not sign learns nothing of it."""
    service.wallet.broken = True
    assert service.post(*W) == Answer("SYSTEM_ERROR", None)
    assert service.post_with([], encoded(withdraw())) == Answer("INVALID_SIGNATURE", None)
    service.wallet.broken = False
    assert service.post(*W) == Answer(None, "95.00")


def test_a_credit_beyond_64_bits_moves_nothing(service: Service) -> None:
    """It fails in the middle of its transaction, of which nothing stays."""
    service.wallet.open_account("eve", 2**63 - 500)
    assert service.post("/deposit", claim(player_id="eve", amount=500)) == Answer("SYSTEM_ERROR", None)
    assert service.cents("eve") == 2**63 - 500
    assert service.post("/deposit", claim(player_id="eve", amount=499)) == Answer(None, "92233720368547758.07")


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        pytest.param("GET", "/withdraw", 405, id="method"),
        pytest.param("POST", "/withdraw/", 404, id="path"),
        pytest.param("POST", "/deposit-batch", 404, id="batches are off"),
    ],
)
def test_another_method_or_path(service: Service, method: str, path: str, status: int) -> None:
    """A well-formed ERROR in the body all the same."""
    body = encoded(withdraw())
    answered, _, reply = service.wallet.handle(method, path, service.headers(body), body)
    assert (answered, told(reply)) == (status, Answer("INVALID_REQUEST", None))


@pytest.mark.parametrize(
    ("path", "wrapped"),
    [
        pytest.param("/deposit-batch", lambda items: items, id="an array"),
        pytest.param("/deposit/batch", lambda items: {"bets": items}, id="an object"),
    ],
)
def test_batches(public_key: RSAPublicKey, sign: Sign, path: str, wrapped: Callable[[object], object]) -> None:
    """Each item is an ordinary deposit: twice in a batch, or alone as well, it is one credit."""
    with opened(PlainWallet([public_key], batches=True)) as wallet:
        service = Service(sign, wallet)
        service.post(*W)
        body = encoded(wrapped([deposit(), {"tx_id": "bad"}, deposit(), deposit("b2")]))
        status, _, reply = wallet.handle("POST", path, service.headers(body), body)
        items = [(item["tx_id"], item.get("code"), item.get("balance")) for item in json.loads(reply, parse_float=str)]
        assert status == 200
        assert items == [
            ("deposit:bet:b1", None, "107.50"),
            ("bad", "INVALID_REQUEST", None),
            ("deposit:bet:b1", None, "107.50"),
            ("deposit:bet:b2", "BET_NOT_FOUND", "107.50"),
        ]
        assert service.post(*D) == Answer(None, "107.50")
        for count, code in ((1_000, None), (1_001, "INVALID_REQUEST")):
            body = encoded(wrapped([BALANCE] * count))
            reply = wallet.handle("POST", path, service.headers(body), body)[2]
            assert reply.startswith(b"[") if code is None else told(reply).code == code


def test_uniqueness_is_the_databases(service: Service) -> None:
    """A second row of the same key is refused, and whatever else its transaction did is undone."""
    with pytest.raises(IntegrityError):
        service.wallet.open_account("ann", 5)
    assert service.cents() == 10_000
    with pytest.raises(KeyError):
        service.cents("nobody")


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


def test_two_wallets_on_one_file_debit_once(public_key: RSAPublicKey, sign: Sign, tmp_path: Path) -> None:
    """As two processes would: the database, and not a lock in memory, makes a call happen once."""
    keys, file = [public_key], str(tmp_path / "wallet.db")
    with opened(PlainWallet(keys, database=file)) as one, closing(PlainWallet(keys, database=file)) as two:
        services = [Service(sign, wallet) for wallet in (one, two)]
        posts = [post for number in range(8) for post in [("/withdraw", withdraw(f"b{number}"))] * 4]
        services[0].post(*posts[0])
        with ThreadPoolExecutor(8) as threads:
            answers = list(threads.map(lambda n: services[n % 2].post(*posts[n]).code, range(len(posts))))
        assert answers == [None] * 32
        assert one.balance_cents("ann") == two.balance_cents("ann") == 10_000 - 8 * 500


@contextmanager
def _served(wallet: PlainWallet) -> Iterator[int]:
    server = serve(wallet)
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()


def _raw_exchange(port: int, request: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port), 30) as connection:
        connection.sendall(request)
        connection.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: connection.recv(65_536), b""))


@pytest.mark.outside
def test_over_http(service: Service, capfd: pytest.CaptureFixture[str]) -> None:
    """A hang-up within a body moves nothing, garbage is refused, and of twenty bets at once all are counted."""
    body = encoded(withdraw())
    signature = service.headers(body)[1][1]
    start = f"POST /withdraw HTTP/1.1\r\nHost: x\r\nSignature: {signature}\r\n".encode()
    with _served(service.wallet) as port:
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
    with _served(service.wallet) as port, closing(HTTPConnection("127.0.0.1", port, timeout=30)) as connection:
        for body, answer in (
            (encoded(withdraw()), Answer(None, "95.00")),
            (_of_length(1_000_000), Answer("SYSTEM_ERROR", None)),
            (encoded(BALANCE), Answer("INVALID_REQUEST", None)),
            (encoded(withdraw("b2")), Answer(None, "90.00")),
        ):
            connection.request("POST", "/withdraw", body, dict(service.headers(body)))
            assert told(connection.getresponse().read()) == answer
        connection.request("HEAD", "/withdraw")
        assert (response := connection.getresponse()).status == 405
        assert response.read() == b""
        connection.request("GET", "/withdraw")
        assert told(connection.getresponse().read()) == Answer("INVALID_REQUEST", None)


def _post(port: int, service: Service, call: Body) -> Answer:
    body = encoded(call)
    with closing(HTTPConnection("127.0.0.1", port, timeout=30)) as connection:
        connection.request("POST", "/withdraw", body, dict(service.headers(body)))
        return told(connection.getresponse().read())


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
        self.blocked: set[str] = set()
        self.ledger = MemoryLedger(opening_cents=OPENING)
        self._receiver = WebhookReceiver(authenticator=RsaSignature(public_key), instances=None)
        self._wallet = Wallet(
            self.ledger, may_bet=lambda call, *_: "PLAYER_BLOCKED" if call.player_id in self.blocked else None
        )

    def post(self, path: str, headers: list[tuple[str, str]], body: bytes) -> Answer:
        return told(self._receiver.handle(path, headers, body, self._wallet).body)


class Pair:
    """Both wallets, which are told the same."""

    def __init__(self, plain: Service) -> None:
        self.plain, self.ready, self._open = plain, Ready(plain.wallet.public_keys[0]), set(OPENING)

    def take(self, step: Step) -> None:
        if step.path.startswith("/"):
            self._post(step.path, encoded(step.body))
        elif step.path == "open" and "eve" not in self._open:
            self._open.add("eve")
            self.plain.wallet.open_account("eve", 2_000)
            self.ready.ledger.open_account("eve", Decimal("20.00"))
        elif step.path == "block":
            self.plain.wallet.block("ann")
            self.ready.blocked.add("ann")
        elif step.path == "unblock":
            self.plain.wallet.unblock("ann")
            self.ready.blocked.discard("ann")

    def _post(self, path: str, body: bytes) -> None:
        headers = self.plain.headers(body)
        by_us = self.ready.post(path, headers, body)
        event(f"{path} {by_us.code}")
        assert self.plain.post(path, body) == by_us, (path, body)

    def agree(self) -> None:
        for player_id in self._open:
            assert self.plain.cents(player_id) == self.ready.ledger.balance(player_id)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(history=histories())
def test_both_wallets_give_the_same_answers(public_key: RSAPublicKey, sign: Sign, history: list[Step]) -> None:
    """Type, code and balance of each call of any history, and what players have at its end."""
    with closing(PlainWallet([public_key])) as wallet:
        for player_id, cents in OPENING.items():
            wallet.open_account(player_id, cents)
        pair = Pair(Service(sign, wallet))
        for step in history:
            pair.take(step)
        pair.agree()


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
