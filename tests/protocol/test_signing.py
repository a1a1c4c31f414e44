"""RSA-SHA256 in URL-safe Base64, kept out of sight, in requests and replies too (spec §5; docs/decisions/0003)."""

import copy
from base64 import b64encode, urlsafe_b64encode

import pytest
from cryptography.hazmat.primitives.asymmetric import padding
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey
from cryptography.hazmat.primitives.hashes import SHA1, SHA256, SHA512
from hypothesis import given, strategies

from game_operator.protocol.http import (
    REMOVED,
    HeaderPairs,
    HttpReply,
    HttpRequest,
    joined_headers,
    without_echoes,
    without_secret,
)
from game_operator.protocol.signing import Signature, sign, verify
from tests.support.wire import examples

MESSAGE = b"acme:bet-1"
ALPHABET = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"


@pytest.fixture(scope="module")
def signature(private_key: RSAPrivateKey) -> bytes:
    """A good signature of MESSAGE, as it stands in the header."""
    return bytes(Signature.of(sign(private_key, MESSAGE)))


def test_a_good_signature(public_key: RSAPublicKey, signature: bytes) -> None:
    """The server verifies with the registered public key; the form is URL-safe Base64 without padding (spec §5)."""
    assert verify(public_key, MESSAGE, signature)
    assert len(signature) == 342
    assert set(signature) <= set(ALPHABET)


def test_it_is_rsa_sha256(private_key: RSAPrivateKey, public_key: RSAPublicKey) -> None:
    """RSA with SHA-256, and PKCS#1 v1.5 for the padding (spec §5; assumed: docs/decisions/0003)."""
    raw = sign(private_key, MESSAGE)
    public_key.verify(raw, MESSAGE, PKCS1v15(), SHA256())
    assert raw == sign(private_key, MESSAGE)
    pss = padding.PSS(padding.MGF1(SHA256()), padding.PSS.DIGEST_LENGTH)
    others = [
        private_key.sign(MESSAGE, pss, SHA256()),
        private_key.sign(MESSAGE, PKCS1v15(), SHA512()),
        private_key.sign(MESSAGE, PKCS1v15(), SHA1()),
    ]
    for other in others:
        assert not verify(public_key, MESSAGE, bytes(Signature.of(other)))


def test_every_changed_bit_of_the_signature_is_noticed(public_key: RSAPublicKey, signature: bytes) -> None:
    """No bit of the header may differ, not even those the last letter has to spare (spec §5)."""
    for place in range(len(signature)):
        for bit in range(8):
            changed = bytearray(signature)
            changed[place] ^= 1 << bit
            assert not verify(public_key, MESSAGE, bytes(changed)), (place, bit)


def test_only_one_spelling_is_the_signature(public_key: RSAPublicKey, signature: bytes) -> None:
    """The last letter carries four bits that decoding drops; of its 16 spellings one is right (spec §5)."""
    accepted = [letter for letter in ALPHABET if verify(public_key, MESSAGE, signature[:-1] + bytes([letter]))]
    assert accepted == [signature[-1]]


def test_every_changed_bit_of_the_message_is_noticed(public_key: RSAPublicKey, signature: bytes) -> None:
    """The signature covers every bit of what is signed (spec §5)."""
    for place in range(len(MESSAGE)):
        for bit in range(8):
            changed = bytearray(MESSAGE)
            changed[place] ^= 1 << bit
            assert not verify(public_key, bytes(changed), signature)
    for other in (b"", MESSAGE[:-1], MESSAGE + b"\0", b" " + MESSAGE, MESSAGE + b"\n"):
        assert not verify(public_key, other, signature)


def _standard_alphabet(private_key: RSAPrivateKey) -> tuple[bytes, bytes]:
    """Return a message and its signature in the standard alphabet, which differs from the URL-safe one."""
    for number in range(50):
        message = b"%d" % number
        text = b64encode(sign(private_key, message)).rstrip(b"=")
        if b"+" in text or b"/" in text:
            return message, text
    raise AssertionError("50 signatures without + or /")


def test_the_standard_alphabet_is_refused(private_key: RSAPrivateKey, public_key: RSAPublicKey) -> None:
    """Only the URL-safe alphabet is the specification's (spec §5)."""
    message, text = _standard_alphabet(private_key)
    assert not verify(public_key, message, text)
    assert verify(public_key, message, text.replace(b"+", b"-").replace(b"/", b"_"))


@pytest.mark.parametrize(
    "bent",
    [
        pytest.param(lambda good: good + b"==", id="padded"),
        pytest.param(lambda good: b" " + good, id="a space in front"),
        pytest.param(lambda good: good[:100] + b"\n" + good[100:], id="a line break inside"),
        pytest.param(lambda good: good[:100] + b"." + good[100:], id="a letter that decoders skip"),
        pytest.param(lambda good: good[:-1], id="one letter short"),
        pytest.param(lambda good: good + b"A", id="one letter long"),
        pytest.param(lambda good: b"AAAA" + good, id="leading zeros"),
        pytest.param(lambda good: good[::-1], id="backwards"),
        pytest.param(lambda good: b"", id="empty"),
        pytest.param(lambda good: b"\xff" * 342, id="no ASCII"),
        pytest.param(lambda good: b"A" * 10**6, id="a million letters"),
    ],
)
def test_bent_signatures_are_refused(bent: object, public_key: RSAPublicKey, signature: bytes) -> None:
    """Whatever is not exactly the signature is refused, and nothing is raised (spec §5)."""
    assert callable(bent)
    assert verify(public_key, MESSAGE, bent(signature)) is False


@given(signature=strategies.binary(max_size=400) | strategies.text(ALPHABET.decode(), max_size=400).map(str.encode))
@examples(100)
def test_any_bytes_are_a_refusal(public_key: RSAPublicKey, signature: bytes) -> None:
    """No header, however made, raises anything (spec §5)."""
    assert verify(public_key, MESSAGE, signature) is False


@given(raw=strategies.binary(max_size=300))
@examples(60)
def test_the_header_is_url_safe_and_unpadded(raw: bytes) -> None:
    """Any raw signature becomes URL-safe Base64 without padding (spec §5)."""
    header = bytes(Signature.of(raw))
    assert b"=" not in header
    assert header + b"=" * (-len(header) % 4) == urlsafe_b64encode(raw)


SECRET = Signature.of(bytes(range(256)))
LETTERS = bytes(SECRET).decode()
PERCENT: str = "%s %r"


@pytest.mark.parametrize(
    "shown",
    [
        pytest.param(repr(SECRET), id="repr"),
        pytest.param(str(SECRET), id="str"),
        pytest.param(f"{SECRET!r} {SECRET!s} {SECRET!a}", id="an f-string with conversions"),
        pytest.param("{}".format(SECRET), id="format"),  # noqa: UP032  # that is the point
        pytest.param(PERCENT % (SECRET, SECRET), id="percent"),
        pytest.param(repr(ValueError(SECRET)) + str(ValueError(SECRET)), id="inside an exception"),
        pytest.param(str(copy.copy(SECRET)) + str(copy.deepcopy(SECRET)), id="copied"),
    ],
)
def test_a_signature_is_not_shown(shown: str) -> None:
    """A log line, a traceback, a debugger's print or a report never carries a signature (spec §5)."""
    assert "Signature(" in shown
    assert not any(LETTERS[at : at + 8] in shown for at in range(len(LETTERS) - 8))


def test_a_signature_is_bytes_where_it_is_sent() -> None:
    """Asked for its bytes, it gives them: that is what goes into the header (spec §5)."""
    assert bytes(SECRET) == urlsafe_b64encode(bytes(range(256))).rstrip(b"=")
    assert bytes(SECRET) == SECRET
    assert hash(SECRET) == hash(bytes(SECRET))


@pytest.mark.parametrize(
    ("raw", "header"), [(b"\0\0\x17", b"AAAX"), (b"\0\x01\x70", b"AAFw"), (b"\0\x05", b"AAU"), (b"\x17", b"Fw")]
)
def test_only_the_padding_is_dropped(raw: bytes, header: bytes) -> None:
    """Whatever else the value ends with belongs to it (spec §5)."""
    assert Signature.of(raw) == header
    assert repr(Signature.of(raw)) == "Signature(…)"


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
    reply = HttpReply(401, {"content-type": "a", "x-café": "é"}, b"body")
    assert without_secret(reply, secret) is reply


@pytest.mark.parametrize("secret", [b"AbCdEfGhIjKlMnOpQrSt", b"AbCdEfGhIjKlMnOp", b"AbC"])
def test_the_shortest_piece_is_cut_out(secret: bytes) -> None:
    """The first 16 bytes of a signature are found alone; a byte less stays."""
    assert without_echoes(secret[:16], secret) == REMOVED
    assert without_echoes(secret[:16][:-1], secret) == secret[:16][:-1]


def test_the_end_of_a_secret_is_cut_out() -> None:
    """As its beginning is."""
    secret = b"AbCdEfGhIjKlMnOpQrStUvWxYz012345"
    assert without_echoes(secret[16:], secret) == REMOVED


@pytest.mark.slow
@pytest.mark.parametrize("run", [b"\\" * 200_000, b"%25" * 50_000, b"&#0" * 50_000, b"A\\" * 50_000])
def test_what_a_wallet_repeats_does_not_hold_up(run: bytes) -> None:
    """A long run of what begins an escape is read once, not from each of its places: it would take hours."""
    secret = b"AbCdEfGhIjKlMnOpQrStUvWxYz0123456789" * 9
    kept = without_echoes(secret[:48] + run + secret[48:96], secret)
    assert REMOVED in kept
    assert secret[:24] not in kept
