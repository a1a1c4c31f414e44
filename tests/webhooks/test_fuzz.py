"""Whatever bytes come in, a reply of spec §2.1 goes out: bytes at random, and genuine bodies changed a little."""

import json
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from game_operator import Profile
from game_operator.webhooks import AcceptUnsigned, HttpReply, RsaSignature, WebhookReceiver
from tests.support.webhooks import GENUINE, Handler, encoded, read_reply, reply_of

pytestmark = pytest.mark.slow

_SETTINGS = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
_PATHS = [*GENUINE, "/deposit-batch", "/deposit/batch"]
_PROFILE = Profile(deposit_batch=True)

_TEXT = st.text(max_size=40) | st.sampled_from(["p1", "", " ", "BET", "JACKPOT", "x" * 257, "a\0b", "\u202e"])
_NUMBERS = st.integers() | st.floats(allow_nan=True) | st.sampled_from([0, -1, 10**15, 10**15 + 1, 10**400, 0.5])
_JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | _NUMBERS | _TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_TEXT, inner, max_size=4),
    max_leaves=12,
)
_FIELDS = sorted({name for body in GENUINE.values() for name in body} | {"wager", "won", "bet_id", "transaction_id"})


def _changed(body: dict[str, Any], changes: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    return {**body, **dict(changes)}


_BODIES = st.builds(
    _changed,
    st.sampled_from([dict(body) for body in GENUINE.values()]),
    st.lists(st.tuples(st.sampled_from(_FIELDS), _JSON), max_size=4),
)


def _damaged(body: bytes, at: int, with_: bytes, cut: int) -> bytes:
    at %= len(body) + 1
    return body[:at] + with_ + body[at + cut :]


_GENUINE_BYTES = st.sampled_from([encoded(body) for body in GENUINE.values()])
_BYTES = st.one_of(
    st.binary(max_size=200),
    _BODIES.map(lambda body: json.dumps(body).encode("utf-8", "surrogatepass")),
    st.lists(_BODIES, max_size=4).map(lambda items: json.dumps(items).encode("utf-8", "surrogatepass")),
    st.builds(_damaged, _GENUINE_BYTES, st.integers(0, 300), st.binary(max_size=6), st.integers(0, 9)),
)


def _check(reply: HttpReply, path: str) -> None:
    assert reply.status in (200, 404, 405)
    assert reply.headers["content-length"] == str(len(reply.body))
    if path in GENUINE or not reply.body.startswith(b"["):
        told = read_reply(reply.body)
        assert told.timestamp is not None
        return
    for item in json.loads(reply.body, parse_float=Decimal):
        del item["tx_id"]
        reply_of(item)


@pytest.fixture(scope="module")
def everybody() -> WebhookReceiver:
    """A receiver that takes every call, so that all of it is read."""
    AcceptUnsigned._warned = True
    return WebhookReceiver(authenticator=AcceptUnsigned(), profile=_PROFILE)


@_SETTINGS
@given(path=st.sampled_from(_PATHS), body=_BYTES)
def test_any_body_is_answered(path: str, body: bytes, everybody: WebhookReceiver) -> None:
    """F01 to F11: no exception, and a reply that the service can read."""
    handler = Handler()
    _check(everybody.handle(path, {}, body, handler), path)
    for call in handler.calls:
        assert call.player_id.encode()
        assert getattr(call, "amount_cents", 0) is None or 0 <= getattr(call, "amount_cents", 0) <= 10**15


@_SETTINGS
@given(
    path=st.text(max_size=30) | st.sampled_from(_PATHS),
    method=st.text(max_size=10) | st.just("POST"),
    headers=st.lists(
        st.tuples(st.text(max_size=20) | st.just("signature"), st.text(max_size=400) | st.binary(max_size=400)),
        max_size=6,
    ),
    peer=st.none() | st.text(max_size=40),
    body=st.binary(max_size=60),
)
def test_any_request_is_answered(
    path: str, method: str, headers: list[tuple[str, str]], peer: str | None, body: bytes, public_key: RSAPublicKey
) -> None:
    """No path, method, header or peer makes anything raise."""
    receiver = WebhookReceiver(authenticator=RsaSignature(public_key), profile=_PROFILE)
    handler = Handler()
    reply = receiver.handle(path, headers, body, handler, method=method, peer=peer)
    assert read_reply(reply.body).code in ("INVALID_REQUEST", "INVALID_SIGNATURE")
    assert handler.calls == []
