"""INVALID_REQUEST, which is final, is for bodies that were read to their end (assumed, docs/decisions/0013)."""

import gzip
import hmac
import logging
from collections.abc import Callable
from typing import NamedTuple

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey

from game_operator import Profile
from game_operator.ledger import MemoryLedger
from game_operator.models.webhooks import WithdrawCall
from game_operator.wallet import Wallet
from game_operator.webhooks import (
    AcceptUnsigned,
    AllOf,
    Authenticator,
    HandledCall,
    HmacSignature,
    IpAllowList,
    RsaSignature,
    WebhookReceiver,
    WebhookRequest,
)
from tests.support.webhooks import code_of, encoded, read_reply, signed
from tests.webhooks.conftest import Sender, by_method, over_asgi, over_wsgi

_DEPOSIT = encoded({"player_id": "p1", "amount": 700, "action": {"type": "BET"}, "action_id": "b1"})
_LIMIT = 4_096
_LONG = b" " * (_LIMIT + 1)
_NETWORK_OR_MIDDLEWARE = ("network", "middleware")


class _House(NamedTuple):
    """A wallet with an open bet, its receiver, and what the receiver reports."""

    receiver: WebhookReceiver
    ledger: MemoryLedger
    wallet: Wallet
    handled: list[HandledCall]

    def post(self, send: Sender, path: str, headers: dict[str, str], method: str = "POST") -> tuple[int, bytes]:
        return send(self.receiver, self.wallet, method, path, headers)


def _house(authenticator: Authenticator, budget_seconds: float = 10.0) -> _House:
    ledger, handled = MemoryLedger({"p1": 10_000}), list[HandledCall]()
    profile = Profile(max_body_bytes=_LIMIT, max_batch_bytes=_LIMIT, deposit_batch=True)
    receiver = WebhookReceiver(
        authenticator=authenticator, profile=profile, on_call=handled.append, budget_seconds=budget_seconds
    )
    wallet = Wallet(ledger, profile=profile)
    wallet.withdraw(WithdrawCall(player_id="p1", bet_id="b1", amount_cents=100))
    return _House(receiver, ledger, wallet, handled)


class _Broken:
    def read(self, size: int) -> bytes:
        raise OSError("the client is gone")


_WITHOUT_LENGTH = {"CONTENT_LENGTH": "", "HTTP_TRANSFER_ENCODING": "chunked"}
_UNREAD = [
    pytest.param(over_asgi(_DEPOSIT[:-20], ends=False), _NETWORK_OR_MIDDLEWARE, id="ASGI, it stalls"),
    pytest.param(over_asgi(_DEPOSIT, ends=False), _NETWORK_OR_MIDDLEWARE, id="ASGI, all but its end"),
    pytest.param(over_asgi(_LONG), (f"{_LIMIT + 1} bytes",), id="ASGI, long"),
    pytest.param(over_asgi(_LONG, _LONG), (f"{2 * _LIMIT + 2} bytes",), id="ASGI, long, in pieces"),
    pytest.param(over_asgi(*[b" " * 1_000_000] * 10, ends=False), ("more than 9000000 bytes",), id="ASGI, without end"),
    pytest.param(over_wsgi(_DEPOSIT[:-20], CONTENT_LENGTH=str(len(_DEPOSIT))), _NETWORK_OR_MIDDLEWARE, id="WSGI, cut"),
    pytest.param(over_wsgi(b"", CONTENT_LENGTH="9"), _NETWORK_OR_MIDDLEWARE, id="WSGI, a middleware took it"),
    pytest.param(over_wsgi(_DEPOSIT, **_WITHOUT_LENGTH), ("chunks", "proxy"), id="WSGI, in chunks"),
    pytest.param(over_wsgi(_DEPOSIT, CONTENT_LENGTH="x"), ("Content-Length",), id="WSGI, an odd length"),
    pytest.param(
        over_wsgi(b"123", **{"wsgi.input": _Broken()}), ("OSError", *_NETWORK_OR_MIDDLEWARE), id="WSGI, broken"
    ),
    pytest.param(over_wsgi(_LONG), (f"{_LIMIT + 1} bytes",), id="WSGI, long"),
    pytest.param(by_method(_LONG), (f"{_LIMIT + 1} bytes",), id="handle, long"),
]


@pytest.mark.parametrize(("send", "words"), _UNREAD)
def test_a_body_that_was_not_read_is_not_refused_for_good(
    send: Sender,
    words: tuple[str, ...],
    public_key: RSAPublicKey,
    private_key: RSAPrivateKey,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """SYSTEM_ERROR, in a batch too; the log says why, nothing is kept, and the repeat is paid."""
    house = _house(RsaSignature(public_key), budget_seconds=0.02)
    headers = signed(private_key, _DEPOSIT)
    for path, setting in (("/deposit", "max_body_bytes"), ("/deposit-batch", "max_batch_bytes")):
        caplog.clear()
        status, body = house.post(send, path, headers)
        assert (status, read_reply(body).code) == (200, "SYSTEM_ERROR")
        assert all(word in house.handled[-1].reason for word in words)
        assert f"'{path}'" in caplog.text
        if words[0].endswith(" bytes"):
            assert f"{setting} is {_LIMIT}" in caplog.text
    assert house.post(send, "/deposit", headers, "GET")[0] == 405
    assert house.post(send, "/elsewhere", headers)[0] == 404
    assert not list(house.ledger.anomalies())
    patient = WebhookReceiver(authenticator=RsaSignature(public_key))
    assert code_of(patient.handle("/deposit", headers, _DEPOSIT, house.wallet)) is None


def test_a_body_at_the_limit_is_read(public_key: RSAPublicKey, private_key: RSAPrivateKey) -> None:
    """F09: it is long enough by every way, and one byte more is not (above)."""
    body = _DEPOSIT + b" " * (_LIMIT - len(_DEPOSIT))
    headers = signed(private_key, body)
    for send in (over_asgi(body[:9], body[9:]), over_wsgi(body), by_method(body)):
        status, reply = _house(RsaSignature(public_key)).post(send, "/deposit", headers)
        assert (status, read_reply(reply).code) == (200, None)


class _Custom:
    """An authenticator of the operator's, which looks at something else than the body."""

    def authenticate(self, request: WebhookRequest, profile: Profile) -> None: ...


class _Promising(_Custom):
    covers_body = True


class _Mistaken(_Custom):
    def covers_body(self) -> bool:
        return True


_SECRET = b"a secret of 16 b"
_ANYBODY = IpAllowList(["0.0.0.0/0"])


#: Makes an authenticator of the service's key, and whether it covers the body.
_COVERING: dict[str, tuple[Callable[[RSAPublicKey], Authenticator], bool]] = {
    "RSA": (RsaSignature, True),
    "HMAC": (lambda _: HmacSignature(_SECRET), True),
    "a custom one that says so": (lambda _: _Promising(), True),
    "all of an allow-list and RSA": (lambda key: AllOf(_ANYBODY, RsaSignature(key)), True),
    "all of all of them": (lambda key: AllOf(_ANYBODY, AllOf(RsaSignature(key))), True),
    "an allow-list": (lambda _: _ANYBODY, False),
    "all of an allow-list": (lambda _: AllOf(_ANYBODY), False),
    "none": (lambda _: AcceptUnsigned(), False),
    "a custom one": (lambda _: _Custom(), False),
    "a custom one with a method of that name": (lambda _: _Mistaken(), False),
}


@pytest.mark.filterwarnings("ignore:AcceptUnsigned")
@pytest.mark.parametrize(("made", "covers"), _COVERING.values(), ids=_COVERING)
def test_an_empty_body_is_final_only_if_it_is_covered(
    made: Callable[[RSAPublicKey], Authenticator], covers: bool, public_key: RSAPublicKey, private_key: RSAPrivateKey
) -> None:
    """F01: rightly signed, empty is what the service said; else a middleware may have read it."""
    house = _house(authenticator := made(public_key))
    headers = signed(private_key, b"")
    if isinstance(authenticator, HmacSignature):
        headers["Signature"] = hmac.digest(_SECRET, b"", "sha256").hex()
    for path in ("/deposit", "/withdraw", "/deposit-batch"):
        for send in (over_asgi(b""), over_wsgi(b""), by_method(b"")):
            code = read_reply(house.post(send, path, headers)[1]).code
            assert code == ("INVALID_REQUEST" if covers else "SYSTEM_ERROR")
            assert covers or all(word in house.handled[-1].reason for word in _NETWORK_OR_MIDDLEWARE)
    # As of any body that an accepted caller sent and nobody can read.
    assert {(each.operation, each.kind) for each in house.ledger.anomalies()} == {
        ("deposit", "unreadable"),
        ("deposit-batch", "unreadable"),
    }


@pytest.mark.parametrize(
    ("length", "code"),
    [
        pytest.param(10, "SYSTEM_ERROR", id="more than came"),
        pytest.param(9, "INVALID_REQUEST", id="as many as came"),
        pytest.param(8, "INVALID_REQUEST", id="fewer, as of an unpacked body"),
        pytest.param("9" * 5_000, "INVALID_REQUEST", id="5,000 digits"),
        pytest.param("", "INVALID_REQUEST", id="empty"),
    ],
)
def test_a_body_shorter_than_its_length_is_cut(length: object, code: str, private_key: RSAPrivateKey) -> None:
    """Where nothing covers the body, its length says whether all of it came; a signature that fits says it better."""
    cut = b'{"player_'[:9]
    send = by_method(cut, **{"Content-Length": str(length)})
    assert read_reply(_house(_ANYBODY).post(send, "/deposit", {})[1]).code == code
    signed_so = _house(RsaSignature(private_key.public_key()))
    assert read_reply(signed_so.post(send, "/deposit", signed(private_key, cut))[1]).code == "INVALID_REQUEST"
    ended = over_wsgi(cut, CONTENT_LENGTH="10", **{"wsgi.input_terminated": True})
    assert read_reply(_house(_ANYBODY).post(ended, "/deposit", {})[1]).code == "SYSTEM_ERROR"


@pytest.mark.parametrize(
    ("encoding", "is_named"),
    [("gzip", True), ("GZIP", True), ("br", True), ("deflate, zstd", True), ("x" * 300, True), ("aws-chunked", True),
     ("identity", False), ("Identity", False), ("", False)],
)  # fmt: skip
@pytest.mark.parametrize("covered", ["the JSON", "the packed bytes"])
def test_a_compressed_body_is_named(
    covered: str, encoding: str, is_named: bool, private_key: RSAPrivateKey, caplog: pytest.LogCaptureFixture
) -> None:
    """F10: whatever the signature covers, the reason says that the body is compressed."""
    caplog.set_level(logging.CRITICAL)
    packed = gzip.compress(_DEPOSIT)
    headers = signed(private_key, _DEPOSIT if covered == "the JSON" else packed) | {"Content-Encoding": encoding}
    code = "INVALID_SIGNATURE" if covered == "the JSON" else "INVALID_REQUEST"
    for send in (over_asgi(packed), over_wsgi(packed), by_method(packed)):
        house = _house(RsaSignature(private_key.public_key()))
        assert read_reply(house.post(send, "/deposit", headers)[1]).code == code
        assert ("Content-Encoding" in house.handled[-1].reason) is is_named
        assert len(house.handled[-1].reason) < 500
    plain = _house(RsaSignature(private_key.public_key()))
    body = signed(private_key, _DEPOSIT) | {"Content-Encoding": encoding}
    assert read_reply(plain.post(by_method(_DEPOSIT), "/deposit", body)[1]).code is None
