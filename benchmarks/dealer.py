"""The sandbox's dealer against a wallet without a database, beside a loop written by hand and beside signing alone."""

import asyncio
import base64
import itertools
import json
import time
from collections.abc import Iterator
from functools import partial

import httpx
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.hashes import SHA256

from benchmarks.rates import Comparison, RateRace
from benchmarks.stage import Stage
from benchmarks.webhook_server import running_server
from game_operator_testkit.provider.delivery import Answer, Post, answer_to
from game_operator_testkit.provider.http import HttpCarrier
from game_operator_testkit.provider.keys import ServiceKeys
from game_operator_testkit.sandbox.dealing.carrying import play
from game_operator_testkit.sandbox.dealing.dealer import Dealer
from game_operator_testkit.sandbox.dealing.plan import Plan
from game_operator_testkit.sandbox.service.seed import catalogue

__all__ = ["races"]

_AT_ONCE = 16
_GOAL = 250.0
_PADDING, _SHA256 = PKCS1v15(), SHA256()


def races(stage: Stage) -> Iterator[RateRace]:
    """Yield one race, in signed bets a second."""
    key = stage.private_key
    with running_server("async", key.public_key()) as port:
        url = f"http://127.0.0.1:{port}"
        ours, alone = f"dealer, {_AT_ONCE} at once", "dealer, one at a time"
        goal, by_hand, signing = (
            f"the goal of {_GOAL:.0f} a second",
            "httpx.AsyncClient by hand",
            "two signatures alone",
        )
        yield RateRace(
            "dealer",
            {
                ours: partial(_dealt, url, key, _AT_ONCE),
                alone: partial(_dealt, url, key, 1),
                by_hand: partial(_by_hand, url, key),
                signing: partial(_signed, key),
                goal: lambda _seconds: _GOAL,
            },
            (
                Comparison(ours, goal, at_least=1.0),
                Comparison(alone, goal),
                Comparison(ours, by_hand),
                Comparison(ours, signing),
            ),
            rounds=5,
        )


def _dealt(url: str, key: RSAPrivateKey, at_once: int, seconds: float) -> float:
    """Play for *seconds* and return the bets a second; each got two answers, or it does not count."""
    return asyncio.run(_play(url, key, at_once, seconds))


async def _play(url: str, key: RSAPrivateKey, at_once: int, seconds: float) -> float:
    start_millis = time.time_ns() // 1_000_000
    plan = Plan(seed=1, start_millis=start_millis, games=catalogue(1), players=("p1", "p2"), bets=1_000_000)
    carrier = HttpCarrier(url, ServiceKeys(key))

    async def courier(post: Post) -> Answer:
        return answer_to(post, await carrier.carry_post(post))

    began = time.perf_counter()
    end = began + seconds
    dealer = Dealer(itertools.takewhile(lambda _: time.perf_counter() < end, plan))
    try:
        await play(dealer, courier, concurrency=at_once)
    finally:
        await carrier.aclose()
    seconds = time.perf_counter() - began
    return sum(sum(answer.succeeded for _, answer in bet.history) >= 2 for bet in dealer.dealt) / seconds


def _by_hand(url: str, key: RSAPrivateKey, seconds: float) -> float:
    return asyncio.run(_post_by_hand(url, key, seconds))


async def _post_by_hand(url: str, key: RSAPrivateKey, seconds: float) -> float:
    """Place and settle bets the way one would write it in an afternoon; return bets a second."""
    numbers = itertools.count(time.time_ns())
    end = time.perf_counter() + seconds
    began, bets = time.perf_counter(), 0

    async def work(client: httpx.AsyncClient) -> None:
        nonlocal bets
        while True:
            bet_id = f"bet-{next(numbers)}"
            withdraw = {"player_id": "p1", "amount": 100, "action": "BET", "action_id": bet_id}
            deposit = {"player_id": "p1", "amount": 0, "action": {"type": "BET", "round_id": "r1"}, "action_id": bet_id}
            for path, call in (("/withdraw", withdraw), ("/deposit", deposit)):
                body = json.dumps(call).encode()
                signature = base64.urlsafe_b64encode(key.sign(body, _PADDING, _SHA256)).rstrip(b"=").decode()
                answer = await client.post(f"{url}{path}", content=body, headers={"signature": signature})
                assert answer.json()["type"] == "SUCCESS"
            bets += 1
            if time.perf_counter() >= end:
                return

    async with httpx.AsyncClient(trust_env=False) as client:
        await asyncio.gather(*(work(client) for _ in range(_AT_ONCE)))
    return bets / (time.perf_counter() - began)


def _signed(key: RSAPrivateKey, seconds: float) -> float:
    """Sign twice for each bet and do nothing else; return bets a second."""
    began, bets = time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        for path in (b"withdraw", b"deposit"):
            base64.urlsafe_b64encode(key.sign(b"%b %d" % (path, bets), _PADDING, _SHA256))
        bets += 1
    return bets / (time.perf_counter() - began)
