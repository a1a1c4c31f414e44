"""The wallet written by hand (examples/wallet_by_hand.py) keeps the rules, and agrees with the ready wallet on histories."""

import json
import socket
import threading
import urllib.request
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from decimal import Decimal
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key
from hypothesis import event, example, given, settings
from hypothesis import strategies as st
from wallet_by_hand import PlainWallet, serve

from game_operator.ledger import MemoryLedger
from game_operator.wallet import Wallet
from game_operator.webhooks import RsaSignature, WebhookReceiver
from tests.support.webhooks import encoded, signature_of

Body = Mapping[str, object]

OPENING = {"ann": 10_000, "ben": 10_000}
NOON_MILLIS = 1_800_000_000_000


class Answer(NamedTuple):
    """What was told, without the time."""

    code: str | None
    balance: str | None


class Service:
    """Signs bodies, each once, and posts them to one wallet."""

    def __init__(self, key: RSAPrivateKey, wallet: PlainWallet, signatures: dict[bytes, str]) -> None:
        self.key, self.wallet, self._signatures = key, wallet, signatures

    def headers(self, body: bytes) -> list[tuple[str, str]]:
        if body not in self._signatures:
            self._signatures[body] = signature_of(self.key, body)
        return [("Content-Type", "application/json"), ("Signature", self._signatures[body])]

    def post(self, path: str, body: Body | bytes) -> Answer:
        raw = body if isinstance(body, bytes) else encoded(body)
        return told(self.wallet.handle("POST", path, self.headers(raw), raw)[2])

    def balance(self, player_id: str = "ann") -> int:
        return self.wallet.balance_cents(player_id)


def told(reply: bytes) -> Answer:
    """Read a reply; the balance digit for digit."""
    said = json.loads(reply, parse_float=str)
    assert said["type"] == ("ERROR" if "code" in said else "SUCCESS")
    assert "balance" not in said or "timestamp" in said
    return Answer(said.get("code"), said.get("balance"))


@pytest.fixture(scope="module")
def signatures() -> dict[bytes, str]:
    return {}


@pytest.fixture
def service(private_key: RSAPrivateKey, signatures: dict[bytes, str]) -> Iterator[Service]:
    with closing(PlainWallet([private_key.public_key()])) as wallet:
        for player_id, cents in OPENING.items():
            wallet.open_account(player_id, cents)
        yield Service(private_key, wallet, signatures)


def withdraw(bet_id: str = "b1", amount: object = 500, player_id: str = "ann", **more: object) -> Body:
    return {"player_id": player_id, "amount": amount, "action": "BET", "action_id": bet_id} | more


def deposit(bet_id: str = "b1", amount: object = 1250, player_id: str = "ann", **more: object) -> Body:
    return {"player_id": player_id, "amount": amount, "action": {"type": "BET"}, "action_id": bet_id} | more


def rollback(bet_id: str = "b1", player_id: str = "ann", **more: object) -> Body:
    return {"player_id": player_id, "action": "BET", "action_id": bet_id, "round_id": "r1"} | more


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

    def __init__(self, key: RSAPrivateKey) -> None:
        self.blocked: set[str] = set()
        self.ledger = MemoryLedger(opening=OPENING)
        self._receiver = WebhookReceiver(authenticator=RsaSignature(key.public_key()), instances=None)
        self._wallet = Wallet(
            self.ledger, may_bet=lambda call, _: "PLAYER_BLOCKED" if call.player_id in self.blocked else None
        )

    def post(self, path: str, headers: list[tuple[str, str]], body: bytes) -> Answer:
        return told(self._receiver.handle(path, headers, body, self._wallet).body)


class Pair:
    """Both wallets, which are told the same."""

    def __init__(self, plain: Service) -> None:
        self.plain, self.ready, self._open = plain, Ready(plain.key), set(OPENING)

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
            assert self.plain.balance(player_id) == self.ready.ledger.balance(player_id)


@settings(max_examples=60, deadline=None)
@given(history=histories())
def test_both_wallets_give_the_same_answers(
    private_key: RSAPrivateKey, signatures: dict[bytes, str], history: list[Step]
) -> None:
    """Type, code and balance of each call of any history, and what players have at its end."""
    with closing(PlainWallet([private_key.public_key()])) as wallet:
        for player_id, cents in OPENING.items():
            wallet.open_account(player_id, cents)
        pair = Pair(Service(private_key, wallet, signatures))
        for step in history:
            pair.take(step)
        pair.agree()
