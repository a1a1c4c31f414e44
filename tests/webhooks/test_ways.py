"""What holds on every way in: HTTP 200 for SUCCESS and ERROR, with the time (spec §2.1, §4.1, §7.1)."""

import json
import time
from collections.abc import Callable
from functools import partial

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey

from game_operator import Profile
from game_operator.webhooks import (
    RsaSignature,
    WebhookReceiver,
    WebhookRequest,
    error,
    success,
)
from tests.support.times import is_now
from tests.support.webhooks import GENUINE, WITHDRAW, Handler, encoded, read_reply, signed
from tests.webhooks.conftest import Sender, by_method, over_asgi, over_wsgi

#: Returns what sends a body to a receiver.
Way = Callable[[bytes], Sender]

every_way = pytest.mark.parametrize(
    "way",
    [
        pytest.param(by_method, id="handle"),
        pytest.param(partial(by_method, way="in a thread"), id="in a thread"),
        pytest.param(partial(by_method, way="handle_async"), id="handle_async"),
        pytest.param(over_asgi, id="ASGI"),
        pytest.param(over_wsgi, id="WSGI"),
    ],
)


#: What the handler answers where it does not fail.
_ANSWERS = {None: success(balance_cents=10_000), "BET_NOT_FOUND": error("BET_NOT_FOUND", balance_cents=7)}


@every_way
@pytest.mark.parametrize(
    ("path", "body", "is_signed", "code"),
    [
        *(pytest.param(path, encoded(body), True, None, id=path) for path, body in GENUINE.items()),
        pytest.param("/withdraw", encoded(WITHDRAW), True, "BET_NOT_FOUND", id="the handler refuses"),
        pytest.param("/withdraw", encoded(WITHDRAW), True, "SYSTEM_ERROR", id="the handler fails"),
        pytest.param("/withdraw", encoded(WITHDRAW), False, "INVALID_SIGNATURE", id="unsigned"),
        pytest.param("/withdraw", b"{", True, "INVALID_REQUEST", id="unreadable"),
    ],
)
def test_a_reply(
    way: Way,
    path: str,
    body: bytes,
    is_signed: bool,
    code: str | None,
    receiver: WebhookReceiver,
    private_key: RSAPrivateKey,
) -> None:
    """HTTP 200, SUCCESS or ERROR with its code, and the time in whole Unix milliseconds (spec §1, §2.1, §4.1, §7.1)."""
    handler = Handler(lambda _: _ANSWERS[code])
    headers, since = signed(private_key, body) if is_signed else {}, time.time()
    status, said = way(body)(receiver, handler, "POST", path, headers)
    told = read_reply(said)
    assert (status, told.code) == (200, code)
    assert told.balance_cents == (None if code not in _ANSWERS else _ANSWERS[code].balance_cents)
    assert is_now(told.timestamp, since)
    assert [call.operation for call in handler.calls] == [path[1:]] * (code in {*_ANSWERS, "SYSTEM_ERROR"})


class _Looks:
    """Lets everybody in, and remembers when they came."""

    def __init__(self) -> None:
        self.times: list[object] = []

    def authenticate(self, request: WebhookRequest, profile: Profile) -> None:
        self.times.append(request.at_millis)


@every_way
def test_an_authenticator_is_told_the_time(way: Way) -> None:
    """One that looks at the age of a signature is given Unix milliseconds."""
    looks, since = _Looks(), time.time()
    way(encoded(WITHDRAW))(WebhookReceiver(authenticator=looks), Handler(), "POST", "/withdraw", {})
    assert [is_now(each, since) for each in looks.times] == [True]


@every_way
def test_a_batch(way: Way, public_key: RSAPublicKey, private_key: RSAPrivateKey) -> None:
    """Each result of a batch has the timestamp too (docs/decisions/0010)."""
    receiver = WebhookReceiver(authenticator=RsaSignature(public_key), profile=Profile(deposit_batch=True))
    body, since = encoded([GENUINE["/deposit"]] * 2), time.time()
    handler = Handler(lambda _: success(balance_cents=1))
    status, said = way(body)(receiver, handler, "POST", "/deposit-batch", signed(private_key, body))
    assert status == 200
    assert [is_now(each["timestamp"], since) for each in json.loads(said)] == [True, True]
