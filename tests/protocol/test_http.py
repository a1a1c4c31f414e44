"""Requests and replies as values, and which hosts are this machine (spec §5)."""

import pytest

from game_operator.protocol.http import (
    REMOVED,
    HeaderPairs,
    HttpReply,
    HttpRequest,
    joined_headers,
    without_echoes,
    without_secret,
)

REPLY = HttpReply(401, {"content-type": "a", "x-café": "é"}, b"body")


def test_a_request_does_not_show_its_headers() -> None:
    """The headers carry the signature; a log line of the request does not (spec §5)."""
    request = HttpRequest("GET", "/api/v0.2/fetch-games", ((b"X-Signature", b"secret-signature"),))
    assert "secret" not in repr(request)
    assert "/api/v0.2/fetch-games" in repr(request)
    assert request.body == b""


def test_a_reply_does_not_show_what_it_echoes() -> None:
    """A service may echo a signature in headers or body; a log line of the reply does not (spec §5)."""
    shown = repr(HttpReply(400, {"echo": "secret"}, b"secret", "the body is long"))
    assert "secret" not in shown
    assert "400" in shown


@pytest.mark.parametrize(
    ("pairs", "headers"),
    [
        pytest.param((), {}, id="none"),
        pytest.param(((b"Content-Type", b"a"), (b"B", b"")), {"content-type": "a", "b": ""}, id="names in lower case"),
        pytest.param(((b"A", b"1, 2"), (b"b", b"x"), (b"a", b"3")), {"a": "1, 2, 3", "b": "x"}, id="a repeated name"),
        pytest.param(((b"X-Caf\xe9", b"\xe9"),), {"x-café": "é"}, id="bytes beyond ASCII"),
    ],
)
def test_headers_from_the_wire(pairs: HeaderPairs, headers: dict[str, str]) -> None:
    """Header names have no case, and repeated fields are one list (RFC 9110 §5.1, §5.3)."""
    assert joined_headers(pairs) == headers


def test_an_echoed_secret_is_cut_out() -> None:
    """What a debugging service echoes of our signature reaches no error and no log (spec §5)."""
    echo = HttpReply(400, {"x-echo": "got:abc123!", "other": "x"}, b'{"error":"abc123 abc123"}', "long")
    cut = without_secret(echo, b"abc123")
    removed = b"[signature removed]"
    assert cut.headers == {"x-echo": "got:[signature removed]!", "other": "x"}
    assert cut.body == b'{"error":"' + removed + b" " + removed + b'"}'
    assert (cut.status, cut.defect) == (400, "long")
    assert without_secret(HttpReply(400, {"x-echo": "abc123"}, b""), b"abc123").headers["x-echo"] == removed.decode()
    assert without_secret(HttpReply(400, {}, b"abc123"), b"abc123").body == removed


@pytest.mark.parametrize("secret", [b"absent", b""])
def test_without_an_echo_nothing_changes(secret: bytes) -> None:
    """A reply without the secret is passed on as it is; an empty signature, from a broken signer, hides nothing."""
    assert without_secret(REPLY, secret) is REPLY


@pytest.mark.slow
@pytest.mark.parametrize("run", [b"\\" * 200_000, b"%25" * 50_000, b"&#0" * 50_000, b"A\\" * 50_000])
def test_what_a_wallet_repeats_does_not_hold_up(run: bytes) -> None:
    """A long run of what begins an escape is read once, not from each of its places: it would take hours."""
    secret = b"AbCdEfGhIjKlMnOpQrStUvWxYz0123456789" * 9
    kept = without_echoes(secret[:48] + run + secret[48:96], secret)
    assert REMOVED in kept
    assert secret[:24] not in kept
