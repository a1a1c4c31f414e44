"""What holds on every way in: HTTP 200 for SUCCESS and ERROR, with the time (spec §2.1, §4.1, §7.1)."""

import json
import time
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey
from werkzeug.test import Client

from game_operator import Profile
from game_operator.codes import WebhookErrorCode
from game_operator.webhooks import (
    HttpReply,
    RsaSignature,
    WebhookReceiver,
    WebhookRequest,
    asgi_app,
    error,
    success,
    wsgi_app,
)
from tests.support.times import is_now
from tests.support.webhooks import GENUINE, WITHDRAW, Handler, encoded, signed

Headers = dict[str, str]
#: Posts a body to a path of a receiver with a handler: the status and the body of what comes back.
Way = Callable[[WebhookReceiver, Handler, str, Headers, bytes], Awaitable[tuple[int, bytes]]]


def _of(reply: HttpReply) -> tuple[int, bytes]:
    return reply.status, reply.body


async def _handle(receiver: WebhookReceiver, handler: Handler, path: str, headers: Headers, body: bytes) -> Any:
    return _of(receiver.handle(path, headers, body, handler))


async def _in_thread(receiver: WebhookReceiver, handler: Handler, path: str, headers: Headers, body: bytes) -> Any:
    return _of(receiver.handle(path, headers, body, handler, in_thread=True))


async def _awaited(receiver: WebhookReceiver, handler: Handler, path: str, headers: Headers, body: bytes) -> Any:
    return _of(await receiver.handle_async(path, headers, body, handler))


async def _asgi(receiver: WebhookReceiver, handler: Handler, path: str, headers: Headers, body: bytes) -> Any:
    transport = httpx.ASGITransport(asgi_app(receiver, handler))
    async with httpx.AsyncClient(transport=transport, base_url="http://wallet.example") as client:
        reply = await client.post(path, content=body, headers=headers)
    return reply.status_code, reply.content


async def _wsgi(receiver: WebhookReceiver, handler: Handler, path: str, headers: Headers, body: bytes) -> Any:
    reply = Client(wsgi_app(receiver, handler)).post(path, data=body, headers=headers)
    return reply.status_code, reply.data


every_way = pytest.mark.parametrize(
    "way",
    [
        pytest.param(_handle, id="handle"),
        pytest.param(_in_thread, id="in a thread"),
        pytest.param(_awaited, id="handle_async"),
        pytest.param(_asgi, id="ASGI"),
        pytest.param(_wsgi, id="WSGI"),
    ],
)


@every_way
@pytest.mark.parametrize("path", GENUINE)
async def test_success(way: Way, path: str, receiver: WebhookReceiver, private_key: RSAPrivateKey) -> None:
    """HTTP 200, SUCCESS, and the timestamp is now in whole Unix milliseconds (spec §1, §2.1, §4.1)."""
    body, since = encoded(GENUINE[path]), time.time()
    status, said = await way(receiver, Handler(), path, signed(private_key, body), body)
    told = json.loads(said)
    assert (status, told["type"], told["balance"]) == (200, "SUCCESS", 100.0)
    assert is_now(told["timestamp"], since)


@every_way
@pytest.mark.parametrize(
    ("body", "is_signed", "code"),
    [
        pytest.param(encoded(WITHDRAW), True, "INSUFFICIENT_BALANCE", id="the handler refuses"),
        pytest.param(encoded(WITHDRAW), True, "SYSTEM_ERROR", id="the handler fails"),
        pytest.param(encoded(WITHDRAW), False, "INVALID_SIGNATURE", id="unsigned"),
        pytest.param(b"{", True, "INVALID_REQUEST", id="unreadable"),
    ],
)
async def test_error(
    way: Way, body: bytes, is_signed: bool, code: str, receiver: WebhookReceiver, private_key: RSAPrivateKey
) -> None:
    """HTTP 200, ERROR with its code, and the same timestamp, for whatever reason (spec §2.1, §4.1, §7.1)."""
    fails = code == "SYSTEM_ERROR"
    handler = Handler(lambda _: 1 / 0 if fails else error(WebhookErrorCode.INSUFFICIENT_BALANCE, balance_cents=7))
    headers, since = signed(private_key, body) if is_signed else {}, time.time()
    status, said = await way(receiver, handler, "/withdraw", headers, body)
    told = json.loads(said)
    assert (status, told["type"], told["code"]) == (200, "ERROR", code)
    assert is_now(told["timestamp"], since)


class _Looks:
    """Lets everybody in, and remembers when they came."""

    def __init__(self) -> None:
        self.times: list[object] = []

    def authenticate(self, request: WebhookRequest, profile: Profile) -> None:
        self.times.append(request.at_millis)


@every_way
async def test_an_authenticator_is_told_the_time(way: Way) -> None:
    """One that looks at the age of a signature is given Unix milliseconds."""
    looks, since = _Looks(), time.time()
    await way(WebhookReceiver(authenticator=looks), Handler(), "/withdraw", {}, encoded(WITHDRAW))
    assert [is_now(each, since) for each in looks.times] == [True]


@every_way
async def test_a_batch(way: Way, public_key: RSAPublicKey, private_key: RSAPrivateKey) -> None:
    """Each result of a batch has the timestamp too (docs/decisions/0010)."""
    receiver = WebhookReceiver(authenticator=RsaSignature(public_key), profile=Profile(deposit_batch=True))
    body, since = encoded([GENUINE["/deposit"]] * 2), time.time()
    handler = Handler(lambda _: success(balance_cents=1))
    status, said = await way(receiver, handler, "/deposit-batch", signed(private_key, body), body)
    assert status == 200
    assert [is_now(each["timestamp"], since) for each in json.loads(said)] == [True, True]
