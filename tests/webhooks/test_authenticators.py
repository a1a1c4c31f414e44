"""Who may call (assumed: spec §5 does not show how webhooks are authenticated)."""

import hmac
import json
import pickle
import time
import warnings
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.padding import MGF1, PSS, PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey, generate_private_key
from cryptography.hazmat.primitives.hashes import SHA1, SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from game_operator import Profile
from game_operator.errors import ConfigurationError, SigningKeyError, WebhookSignatureError, shown
from game_operator.signers.keys import fingerprint
from game_operator.webhooks import (
    AcceptUnsigned,
    AllOf,
    Authenticator,
    HmacSignature,
    IpAllowList,
    RsaSignature,
    WebhookReceiver,
    WebhookRequest,
)
from game_operator.webhooks.authenticators import other_forms
from tests.support.leaks import everything_told
from tests.support.webhooks import DEPOSIT, WITHDRAW, Handler, encoded, signature_of

_BODY = encoded(WITHDRAW)


def _asked(
    authenticator: Authenticator,
    *headers: tuple[str, str],
    body: bytes = _BODY,
    peer: str | None = None,
    profile: Profile | None = None,
) -> str:
    """Return why the call is refused, "" when it is not."""
    pairs = tuple((name.lower().encode(), value.encode("latin-1")) for name, value in headers)
    try:
        authenticator.authenticate(WebhookRequest("POST", "/withdraw", pairs, body, peer), profile or Profile())
    except WebhookSignatureError as refused:
        return str(refused)
    return ""


def _raw(private_key: RSAPrivateKey, body: bytes = _BODY) -> bytes:
    return private_key.sign(body, PKCS1v15(), SHA256())


@pytest.mark.parametrize(
    "written",
    [
        pytest.param(lambda raw: urlsafe_b64encode(raw).rstrip(b"="), id="E04 url-safe, unpadded"),
        pytest.param(urlsafe_b64encode, id="E04 url-safe, padded"),
        pytest.param(b64encode, id="E04 standard, padded"),
        pytest.param(lambda raw: b64encode(raw).rstrip(b"="), id="E04 standard, unpadded"),
    ],
)
def test_a_signature_in_either_alphabet_is_accepted(
    written: Callable[[bytes], bytes], public_key: RSAPublicKey, private_key: RSAPrivateKey
) -> None:
    """E04: and another key's, written so, is not."""
    raw = _raw(private_key)
    assert _asked(RsaSignature(public_key), ("signature", written(raw).decode())) == ""
    assert "not made by any of the keys" in _asked(RsaSignature(public_key), ("signature", written(raw[::-1]).decode()))


@pytest.mark.parametrize("blanks", [(" ", ""), ("", "\t"), (" \t ", "\t  ")])
def test_blanks_around_a_signature_are_not_part_of_it(
    blanks: tuple[str, str], public_key: RSAPublicKey, private_key: RSAPrivateKey
) -> None:
    """E04: spaces and tabs (RFC 9110 §5.5), which some servers leave; those within still count."""
    before, behind = blanks
    good = signature_of(private_key, _BODY)
    assert _asked(RsaSignature(public_key), ("signature", before + good + behind)) == ""
    assert _asked(RsaSignature(public_key), ("signature", good[:9] + before + behind + good[9:]))
    secret = b"0123456789abcdef"
    for text in (hmac.digest(secret, _BODY, "sha256").hex(), b64encode(hmac.digest(secret, _BODY, "sha256")).decode()):
        assert _asked(HmacSignature(secret), ("signature", before + text + behind)) == ""
        assert _asked(HmacSignature(secret), ("signature", text[:9] + before + behind + text[9:]))


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda text: "", id="E04 empty"),
        pytest.param(lambda text: text + "AAAA", id="E04 too long"),
        pytest.param(lambda text: text[:-3] + "!" + text[-2:], id="E04 another character"),
        pytest.param(lambda text: text[:100] + "\n" + text[100:], id="E04 a line break"),
        pytest.param(lambda text: text[:100] + "=" + text[100:], id="E04 padding inside"),
        pytest.param(lambda text: "A" * 1_000_000, id="E04 a million characters"),
    ],
)
def test_garbage_is_refused(change: Callable[[str], str], public_key: RSAPublicKey, private_key: RSAPrivateKey) -> None:
    """E04: with a reason, and without the signature in it."""
    text = signature_of(private_key, _BODY)
    reason = _asked(RsaSignature(public_key), ("signature", change(text)))
    assert reason
    assert text[:40] not in reason
    assert _asked(RsaSignature(public_key), ("signature", text)) == ""


def test_a_signature_is_of_one_body_and_one_key(
    public_key: RSAPublicKey, private_key: RSAPrivateKey, other_key: RSAPrivateKey
) -> None:
    """E02: another key, one byte changed, another request's signature, another padding, another hash."""
    authenticator = RsaSignature(public_key)
    for number in range(0, len(_BODY), 17):
        changed = _BODY[:number] + bytes([_BODY[number] ^ 1]) + _BODY[number + 1 :]
        assert _asked(authenticator, ("signature", signature_of(private_key, _BODY)), body=changed)
    assert _asked(authenticator, ("signature", signature_of(other_key, _BODY)))
    assert _asked(authenticator, ("signature", signature_of(private_key, encoded(DEPOSIT))))
    pss = private_key.sign(_BODY, PSS(MGF1(SHA256()), PSS.MAX_LENGTH), SHA256())
    sha1 = private_key.sign(_BODY, PKCS1v15(), SHA1())
    for raw in (pss, sha1):
        assert _asked(authenticator, ("signature", urlsafe_b64encode(raw).decode()))


def test_a_header_is_there_once_or_not_at_all(public_key: RSAPublicKey, private_key: RSAPrivateKey) -> None:
    """E01, E05: two readers would take two different ones, so twice is refused even when both are good."""
    good = ("Signature", signature_of(private_key, _BODY))
    authenticator = RsaSignature(public_key)
    assert "no header signature" in _asked(authenticator)
    assert "no header signature" in _asked(authenticator, ("x-signature", good[1]))
    assert "2 times" in _asked(authenticator, good, good)
    assert "2 times" in _asked(authenticator, good, ("SIGNATURE", "x"))
    assert _asked(authenticator, ("x-signature", "y"), good) == ""


def test_the_header_can_have_another_name(public_key: RSAPublicKey, private_key: RSAPrivateKey) -> None:
    """The profile's; the usual one is not looked at then."""
    profile, authenticator = Profile(signature_header="X-Sig"), RsaSignature(public_key)
    text = signature_of(private_key, _BODY)
    assert _asked(authenticator, ("x-sig", text), profile=profile) == ""
    assert "no header X-Sig" in _asked(authenticator, ("signature", text), profile=profile)


def test_keys_rotate(public_key: RSAPublicKey, private_key: RSAPrivateKey, other_key: RSAPrivateKey) -> None:
    """E06: old and new are accepted during the overlap, only the new one after it."""
    old, new = ("signature", signature_of(private_key, _BODY)), ("signature", signature_of(other_key, _BODY))
    overlap = RsaSignature([public_key, other_key.public_key()])
    assert (_asked(overlap, old), _asked(overlap, new)) == ("", "")
    after = RsaSignature([other_key.public_key()])
    assert (bool(_asked(after, old)), _asked(after, new)) == (True, "")


def test_keys_come_as_files_and_pem(
    public_key: RSAPublicKey, public_pem: bytes, private_pem: bytes, private_key: RSAPrivateKey, tmp_path: Path
) -> None:
    """One or several; a private key and an empty list are refused."""
    path = tmp_path / "service.pub.pem"
    path.write_bytes(public_pem)
    good = ("signature", signature_of(private_key, _BODY))
    sources: tuple[Any, ...] = (path, public_pem.decode(), [path, public_pem], iter([public_key]))
    for keys in sources:
        assert _asked(RsaSignature(keys), good) == ""
    with pytest.raises(SigningKeyError):
        RsaSignature(private_pem)
    with pytest.raises(ConfigurationError, match="Ask the provider"):
        RsaSignature([])
    path.write_bytes(public_pem * 2)  # Loading would take the first key of the file, and no other one.
    with pytest.raises(SigningKeyError, match="2 public keys"):
        RsaSignature(path)


def test_calls_are_counted_by_key(public_key: RSAPublicKey, private_key: RSAPrivateKey) -> None:
    """Genuine ones alone: an old key whose count stands still can be removed."""
    other = generate_private_key(65537, 2048)
    both = AllOf(IpAllowList(["127.0.0.1"]), RsaSignature([other.public_key(), public_key]))
    old, new = (fingerprint(key)[:16] for key in (other.public_key(), public_key))
    receiver = WebhookReceiver(authenticator=both)
    for signer, body, peer in (
        (private_key, _BODY, "127.0.0.1"),
        (private_key, _BODY, "127.0.0.1"),
        (other, _BODY, "127.0.0.1"),
        (other, _BODY, "203.0.113.7"),
        (private_key, b"other", "127.0.0.1"),
    ):
        receiver.handle("/withdraw", {"signature": signature_of(signer, body)}, _BODY, Handler(), peer=peer)
    assert receiver.calls_by_key == {old: 1, new: 2}


def test_no_secret_travels_to_other_processes(public_key: RSAPublicKey) -> None:
    """A shared secret may not, and no repr shows one."""
    assert repr(RsaSignature([public_key])) == "RsaSignature(1 key)"
    assert repr(RsaSignature([public_key, public_key])) == "RsaSignature(1 key)"  # The same one twice.
    secret = HmacSignature([b"0123456789abcdef", b"fedcba9876543210"])
    assert repr(secret) == "HmacSignature(2 secrets)"
    with pytest.raises(TypeError, match="does not pickle"):
        pickle.dumps(secret)


_NESTED = {**WITHDRAW, "a": [], "b": {}, "c": [1, [2]]}
_COMPACT = encoded(_NESTED)


@pytest.mark.parametrize(
    ("signed_form", "received"),
    [
        pytest.param(json.dumps(_NESTED).encode(), _COMPACT, id="E03 was spaced"),
        pytest.param(json.dumps(_NESTED, indent=2).encode(), _COMPACT, id="E03 was indented by 2"),
        pytest.param(_COMPACT, json.dumps(_NESTED, indent=2).encode(), id="E03 was compact"),
        pytest.param(_COMPACT + b"\n", _COMPACT, id="E03 a line end was cut off"),
        pytest.param(b"\xef\xbb\xbf" + _COMPACT, _COMPACT, id="E03 a BOM was cut off"),
        pytest.param(rb'{"p": "\u00e9"}', '{"p":"é"}'.encode(), id="E03 was escaped to ASCII"),
        pytest.param(rb'{"p":"a\/b\u00e9"}', '{"p":"a/bé"}'.encode(), id="E03 PHP's way"),
        pytest.param(_COMPACT, _COMPACT + b"\n", id="E03 a line break added"),
        pytest.param(_COMPACT, b"\xef\xbb\xbf" + _COMPACT, id="E03 a BOM added"),
        pytest.param('{"p":"é"}'.encode(), rb'{"p":"\u00e9"}', id="E03 escaped to ASCII"),
        pytest.param(b'{"p":"a/b"}', rb'{"p":"a\/b"}', id="E03 slashes escaped"),
        pytest.param(b'{"a": 500.0}', b'{"a":500.0}', id="E03 a number with a point"),
        pytest.param(b'{ "a":1}', b'{"a": 1}', id="E03 not that of an odd space"),
    ],
)
def test_the_common_forms_are_tried(
    signed_form: bytes, received: bytes, public_key: RSAPublicKey, private_key: RSAPrivateKey
) -> None:
    """E03: the log names the cause, for the forms that gateways write; one that no writer writes is not found."""
    signature = ("signature", signature_of(private_key, signed_form))
    reason = _asked(RsaSignature(public_key), signature, body=received)
    assert ("re-serialised" in reason) is (b"{ " not in signed_form)


def test_nobody_makes_us_look_for_long(public_key: RSAPublicKey, other_key: RSAPrivateKey) -> None:
    """E03, E11: at most once in a second, and never at a long body, whatever its shape."""
    authenticator = RsaSignature(public_key)
    for body in (b"[" * 16_000, b'"' * 16_000, b"[" * 16 + b"1," * 8_000, b"\\" * 16_384, b"[[],{}" * 2_700):
        began = time.process_time()
        forms = sum(len(form) for form in other_forms(body))
        assert forms < 50_000_000
        assert time.process_time() - began < 3
    assert len(list(other_forms(b'"' + b"1" * 16_382 + b'"'))) > 5
    assert len(list(other_forms(b'"' + b"1" * 16_383 + b'"'))) == 5
    spaced = json.dumps(WITHDRAW).encode()
    signature = ("signature", signature_of(other_key, spaced))
    known = RsaSignature(other_key.public_key())
    reasons = [_asked(known, signature) for _ in range(50)]
    assert "re-serialised" in reasons[0]
    assert sum("re-serialised" in reason for reason in reasons) < 10
    assert _asked(authenticator, signature)


@pytest.mark.parametrize("piece", [b'"\\', b'"', b"\\", b'{"', b'"\\"', b'\\"', b'"\\\\', b" ", b"1"])
def test_the_work_grows_with_the_body_and_not_with_its_square(piece: bytes) -> None:
    """E11: eight times the body is eight times the work, and not 64 times, also where a string never ends."""

    def work(size: int) -> float:
        body = (piece * size)[:size]
        return min(_seconds_of(lambda: sum(len(form) for form in other_forms(body))) for _ in range(3))

    assert work(16_384) < 8 * 4 * max(work(2_048), 0.001)


def _seconds_of(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


@pytest.mark.parametrize("body", [b'{"a":1,"b":[]}', b'{"a":"/"}', '{"a":"é/"}'.encode(), b"7"])
def test_no_form_is_tried_twice(body: bytes) -> None:
    """Each costs a signature's check, which strangers must not make us do."""
    written = list(other_forms(body))[5:]
    assert len(written) == len(set(written)) <= 6 * 2 * 2 * 2


@pytest.mark.parametrize(("depth", "found"), [(64, True), (65, False)])
def test_how_deep_an_indented_body_is_looked_into(depth: int, found: bool) -> None:
    """E11: each level makes each line longer; genuine calls have two or three."""
    value: Any = []
    for _ in range(depth - 1):
        value = [value, 1]
    assert (json.dumps(value, indent=4).encode() in other_forms(encoded(value))) is found


def test_a_body_that_somebody_read_before_us_is_told(public_key: RSAPublicKey, private_key: RSAPrivateKey) -> None:
    """A framework's body can be read once."""
    for authenticator in (RsaSignature(public_key), HmacSignature(_SECRET)):
        reason = _asked(authenticator, ("signature", signature_of(private_key, _BODY)), body=b"")
        assert "the body is empty. Either the network lost it, or a middleware read it before us" in reason


def test_a_signature_has_a_longest_length(public_key: RSAPublicKey) -> None:
    """E04: what no key has made is not decoded."""
    assert "does not fit any of the keys" in _asked(RsaSignature(public_key), ("signature", "A" * 2048))
    assert "is not Base64; it has 2052 characters" in _asked(RsaSignature(public_key), ("signature", "A" * 2052))


_SECRET, _OTHER_SECRET = b"0123456789abcdef", b"another secret, long enough"


def _mac(secret: bytes, body: bytes = _BODY) -> bytes:
    return hmac.digest(secret, body, "sha256")


@pytest.mark.parametrize(
    "written",
    [
        pytest.param(lambda raw: raw.hex(), id="hex"),
        pytest.param(lambda raw: b64encode(raw).decode(), id="Base64"),
        pytest.param(lambda raw: urlsafe_b64encode(raw).rstrip(b"=").decode(), id="url-safe, unpadded"),
    ],
)
def test_a_shared_secret(written: Callable[[bytes], str]) -> None:
    """Accepted for each secret during a rotation, refused for others, other bodies and garbage."""
    rotating = HmacSignature([_SECRET, _OTHER_SECRET])
    for secret in (_SECRET, _OTHER_SECRET):
        assert _asked(rotating, ("signature", written(_mac(secret)))) == ""
    alone = HmacSignature(_SECRET)
    assert _asked(alone, ("signature", written(_mac(_SECRET)))) == ""
    assert _asked(alone, ("signature", written(_mac(_OTHER_SECRET))))
    assert _asked(alone, ("signature", written(_mac(_SECRET, b"other"))))
    assert _asked(alone, ("signature", written(_mac(_SECRET))[:-2]))
    assert _asked(alone)
    assert "2 times" in _asked(alone, *[("signature", written(_mac(_SECRET)))] * 2)


@pytest.mark.parametrize(
    "secrets", [[], b"", b"x" * 15, [b"x" * 16, b"short"], "0123456789abcdef", ["0123456789abcdef"]]
)
def test_a_secret_must_be_one(secrets: Any) -> None:
    """At least 16 bytes, as bytes; 16 are enough."""
    with pytest.raises(ConfigurationError, match="16 bytes"):
        HmacSignature(secrets)
    HmacSignature(b"x" * 16)


@pytest.mark.parametrize(
    ("peer", "forwarded", "accepted"),
    [
        pytest.param("192.0.2.7", None, True, id="E10 on the list"),
        pytest.param("198.51.100.200", None, True, id="E10 in a network of the list"),
        pytest.param("198.51.101.1", None, False, id="E10 beside it"),
        pytest.param("::ffff:192.0.2.7", None, True, id="E10 the same, seen by a server of both families"),
        pytest.param("203.0.113.9", "192.0.2.7", False, id="E10 a stranger who claims to be forwarded"),
        pytest.param("10.0.0.1", "192.0.2.7", True, id="E10 by our proxy"),
        pytest.param("10.0.0.1", "203.0.113.9", False, id="E10 a stranger by our proxy"),
        pytest.param("10.0.0.1", "192.0.2.7, 203.0.113.9", False, id="E10 a stranger who wrote a header himself"),
        pytest.param("10.0.0.1", "203.0.113.9, 192.0.2.7", True, id="what stands to the left is hearsay"),
        pytest.param("10.0.0.1", "192.0.2.7" + ",10.0.0.2" * 32, True, id="as many hops as are looked at"),
        pytest.param("10.0.0.1", None, False, id="our proxy, which tells nothing"),
        pytest.param("10.0.0.1", "192.0.2.7" + ",10.0.0.2" * 5_000, False, id="thousands of hops"),
    ],
)
def test_an_allow_list_looks_at_who_connected(peer: Any, forwarded: str | None, accepted: bool) -> None:
    """E10: X-Forwarded-For counts from our own proxies alone, read from the right."""
    authenticator = IpAllowList(
        ["192.0.2.7", "198.51.100.0/24", "2001:db8::/32"], trusted_proxies=["10.0.0.0/8", "10.0.0.1"]
    )
    headers = [("X-Forwarded-For", forwarded)] if forwarded else []
    assert (_asked(authenticator, *headers, peer=peer) == "") is accepted
    assert _asked(IpAllowList(["192.0.2.7"]), *headers, peer="10.0.0.1")


@pytest.mark.parametrize(
    ("written", "accepted"),
    [
        *((form, True) for form in (
            "192.0.2.7", "192.0.2.7:52311", "192.0.2.7:0", "192.0.2.7:65535", '"192.0.2.7"', '"192.0.2.7:80"',
            "::ffff:192.0.2.7", "[::ffff:192.0.2.7]", "[::FFFF:c000:207]:4711", "2001:db8::1", "2001:DB8:0:0::1",
            "[2001:db8::1]", "[2001:db8::1]:4711", '"[2001:db8::1]"', '"[2001:db8::1]:4711"',
            " \t192.0.2.7:1 ",
        )),
        *((form, False) for form in (
            "192.0.2.7:123456",
            "192.0.2.7:", "192.0.2.7:x", "192.0.2.7:-1", "192.0.2.7: 80", "192.0.2.7 :80",
            "192.0.2.7:80:80", "192.0.2.7:\xb2", "[192.0.2.7]", "[192.0.2.7]:80", "192.0.2", "192.0.2.07", "3221225991",
            '"192.0.2.7', '192.0.2.7"', '""192.0.2.7""', "'192.0.2.7'", '"', '""', "[2001:db8::1", "2001:db8::1]",
            "[2001:db8::1]4711", "[2001:db8::1]:", "[[2001:db8::1]]", "[]", "[:]", ":", "2001:db8::1%eth0",
            "[2001:db8::1%25eth0]:1", "fe80::1%1", "for=192.0.2.7", 'for="[2001:db8::1]:4711"', "http://192.0.2.7",
            "for=192.0.2.7;proto=https", "192.0.2.7/32", "unknown", "_hidden", "wallet.example", "x" * 5_000, "",
        )),
    ],
)  # fmt: skip
def test_an_address_as_proxies_write_it(written: str, accepted: bool) -> None:
    """E10: with a port, brackets, quotes and blanks; what is refused is shown as it is written."""
    authenticator = IpAllowList(["192.0.2.7", "2001:db8::/32", "fe80::/10"], trusted_proxies=["10.0.0.0/8"])
    reason = _asked(authenticator, ("X-Forwarded-For", f"203.0.113.9, {written}"), peer="10.0.0.1")
    assert (reason == "") is accepted
    if not accepted:
        assert "X-Forwarded-For" in reason
        assert "'10.0.0.1'" in reason
        assert (shown(written.strip()) if written else "of nobody") in reason
        assert reason.endswith("is not on the allow-list")


def test_a_proxy_with_a_port() -> None:
    """E10: the next one to the left counts, and of nobody the reason says so."""
    authenticator = IpAllowList(["192.0.2.7"], trusted_proxies=["10.0.0.0/8"])
    assert _asked(authenticator, ("X-Forwarded-For", "192.0.2.7:1, [::ffff:10.0.0.2]:2"), peer="10.0.0.1") == ""
    assert "'192.0.2.8:1'" in _asked(authenticator, ("X-Forwarded-For", "192.0.2.8:1, 10.0.0.2:2"), peer="10.0.0.1")
    assert "of nobody, which the proxy '10.0.0.1' names" in _asked(authenticator, peer="10.0.0.1")


def test_forwarded_headers_may_repeat() -> None:
    """E10: each proxy may add its own; the last one counts first."""
    authenticator = IpAllowList(["192.0.2.7"], trusted_proxies=["10.0.0.0/8"])
    spoofed, real = ("X-Forwarded-For", "192.0.2.7"), ("X-Forwarded-For", "203.0.113.9")
    assert _asked(authenticator, spoofed, real, peer="10.0.0.1")
    assert _asked(authenticator, real, spoofed, peer="10.0.0.1") == ""
    ours = IpAllowList(["10.0.0.0/8"], trusted_proxies=["10.0.0.0/8"])
    assert _asked(ours, ("X-Forwarded-For", "10.0.0.2"), peer="10.0.0.1")  # Nobody but proxies is named.


@pytest.mark.parametrize(
    ("headers", "trusts", "accepted", "explained"),
    [
        pytest.param(["Content-Length: 2", "X-Forwarded-For: 192.0.2.7"], False, True, False, id="a length"),
        pytest.param(["Transfer-Encoding: chunked", "X-Forwarded-For: 192.0.2.7"], False, False, True, id="chunks"),
        pytest.param(
            ["Transfer-Encoding: chunked", "X-Forwarded-For: 192.0.2.7"], True, True, False, id="trusted chunks"
        ),
        pytest.param(
            ["Transfer-Encoding: chunked", "X-Forwarded-For: 192.0.2.8"], True, False, False, id="of a stranger"
        ),
        pytest.param(["Transfer-Encoding: chunked"], False, False, False, id="chunks that name nobody"),
    ],
)
def test_a_chunked_request_names_nobody(headers: list[str], trusts: bool, accepted: bool, explained: bool) -> None:
    """E10: what looks like a header may be a trailer, which anybody can write."""
    proxied = IpAllowList(["192.0.2.7"], trusted_proxies=["10.0.0.0/8"], trust_chunked=trusts)
    pairs = [(name, value) for name, _, value in (each.partition(": ") for each in headers)]
    reason = _asked(proxied, *pairs, peer="10.0.0.1")
    assert (reason == "") is accepted
    assert ("IpAllowList(trust_chunked=True)" in reason) is explained
    # Who connects without a proxy needs no header.
    assert _asked(IpAllowList(["192.0.2.7"]), *pairs, peer="192.0.2.7") == ""


@pytest.mark.parametrize("networks", [[], "192.0.2.7", ["nonsense"], ["192.0.2.7/24"], [5], [b"10.0.0.1"], [None]])
def test_an_allow_list_must_be_one(networks: Any) -> None:
    """Told when it is built; for proxies an empty one is fine; a text such as "no" is not taken for True."""
    odd: Any = "no"
    with pytest.raises(TypeError, match="trust_chunked must be True or False, not 'no'"):
        IpAllowList(["192.0.2.7"], trust_chunked=odd)
    with pytest.raises(ConfigurationError):
        IpAllowList(networks)
    assert repr(IpAllowList(["192.0.2.7"], trusted_proxies=[])) == "IpAllowList([192.0.2.7/32])"


def test_all_of_means_all(public_key: RSAPublicKey, private_key: RSAPrivateKey) -> None:
    """Each must accept; none at all would accept everybody."""
    both = AllOf(IpAllowList(["192.0.2.7"]), RsaSignature(public_key))
    good = ("signature", signature_of(private_key, _BODY))
    assert _asked(both, good, peer="192.0.2.7") == ""
    assert "allow-list" in _asked(both, good, peer="192.0.2.8")
    assert "no header" in _asked(both, peer="192.0.2.7")
    assert repr(both) == "AllOf(IpAllowList([192.0.2.7/32]), RsaSignature(1 key))"
    with pytest.raises(ConfigurationError):
        AllOf()
    odd: Any = [RsaSignature, None, "x"]
    for each in odd:
        with pytest.raises(TypeError, match="made of authenticators"):
            AllOf(both, each)


def test_accepting_everybody_warns_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a process, however many are built."""
    monkeypatch.setattr(AcceptUnsigned, "_warned", False)
    with pytest.warns(UserWarning, match="lets anybody move"):
        everybody = AcceptUnsigned()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert repr(AcceptUnsigned()) == "AcceptUnsigned()"
    assert _asked(everybody) == ""


def test_a_private_key_in_a_wrong_place_is_not_shown(private_key: RSAPrivateKey) -> None:
    """Not by an error tracker either, which shows the locals of every frame and what was half built."""
    pem = private_key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    builds: list[Callable[[], object]] = [
        lambda: RsaSignature(pem),
        lambda: RsaSignature([pem]),
        lambda: RsaSignature({"a": pem}),
    ]
    for build in builds:
        with pytest.raises((ConfigurationError, TypeError)) as info:
            build()
        assert pem.splitlines()[3] not in everything_told(info.value)
