"""What stands behind a chunked body, which strangers write and some servers append to the headers (scenario E10)."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey

from game_operator.webhooks import AllOf, IpAllowList, RsaSignature, WebhookReceiver, asgi_app
from tests.support.proxies import behind, needs
from tests.support.servers import asgi_server, reply_to, request_bytes
from tests.support.webhooks import BALANCE, AsyncHandler, encoded, read_reply, signature_of

pytestmark = pytest.mark.outside

_BODY = encoded(BALANCE)
_LISTED, _STRANGER = "198.51.100.7", "203.0.113.9"


def chunked(headers: dict[str, str], trailers: dict[str, str]) -> bytes:
    """Return a balance check in chunks, with *trailers* behind it."""
    head = {"Host": "wallet.example", "Transfer-Encoding": "chunked", **headers}
    lines = ["POST /player-balance HTTP/1.1", *(f"{name}: {value}" for name, value in head.items()), "", ""]
    behind = "".join(f"{name}: {value}\r\n" for name, value in trailers.items())
    return "\r\n".join(lines).encode() + b"%x\r\n%s\r\n0\r\n" % (len(_BODY), _BODY) + behind.encode() + b"\r\n"


@pytest.fixture(scope="module", params=[False, True], ids=["by default", "trust_chunked"])
def served(request: pytest.FixtureRequest, public_key: RSAPublicKey) -> Iterator[tuple[int, bool]]:
    """A server that appends trailers to headers, and whether its allow-list reads X-Forwarded-For all the same."""
    trusts: bool = request.param
    listed = IpAllowList([_LISTED], trusted_proxies=["127.0.0.1"], trust_chunked=trusts)
    receiver = WebhookReceiver(authenticator=AllOf(listed, RsaSignature(public_key)))
    with asgi_server(asgi_app(receiver, AsyncHandler()), http="httptools") as port:
        yield port, trusts


def _code(port: int, data: bytes) -> str | None:
    return read_reply(reply_to(port, data)[2]).code


def test_a_trailer_names_nobody(
    served: tuple[int, bool], private_key: RSAPrivateKey, caplog: pytest.LogCaptureFixture
) -> None:
    """E10: uvicorn's httptools appends it, so on a chunked request only a caller who asks for it reads the header."""
    port, trusts = served
    signed = {"Signature": signature_of(private_key, _BODY)}
    forged = chunked({**signed, "X-Forwarded-For": _STRANGER}, {"X-Forwarded-For": _LISTED})
    assert _code(port, forged) == (None if trusts else "INVALID_SIGNATURE")
    genuine = chunked({**signed, "X-Forwarded-For": _LISTED}, {})
    assert _code(port, genuine) == (None if trusts else "INVALID_SIGNATURE")
    for address, code in ((_LISTED, None), (_STRANGER, "INVALID_SIGNATURE")):
        headers = {**signed, "X-Forwarded-For": address}
        assert _code(port, request_bytes("/player-balance", _BODY, headers)) == code
    assert ("IpAllowList(trust_chunked=True)" in caplog.text) is not trusts


@needs("haproxy")
@pytest.mark.parametrize("served", [False], indirect=True)
def test_a_stranger_behind_haproxy_is_not_let_in(
    served: tuple[int, bool], private_key: RSAPrivateKey, tmp_path: Path
) -> None:
    """E10: HAProxy names the real caller, and lets the stranger's trailer through behind it."""
    signed = {"Signature": signature_of(private_key, _BODY)}
    with behind("haproxy", served[0], tmp_path) as outside:
        assert _code(outside, chunked(signed, {"X-Forwarded-For": _LISTED})) == "INVALID_SIGNATURE"
