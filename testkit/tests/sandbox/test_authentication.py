"""Who is let in, and what the others are told (spec §4.2, §5, §7.3)."""

from base64 import b64encode
from collections.abc import Callable

import pytest
from cryptography.hazmat.primitives.asymmetric.padding import MGF1, PSS, PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.hashes import SHA1, SHA256

from testkit.tests.sandbox.support import outcome
from tests.support.signed_http import RawCall, SignedHttp
from tests.support.webhooks import signature_of

pytestmark = pytest.mark.outside

FAILED = (401, {"error": "Authentication failed"})


def test_a_signed_call_is_let_in(http: SignedHttp, any_call: RawCall) -> None:
    """Both headers, signed by the rule of the call: 200 (spec §4.2, §5)."""
    assert http.call(any_call).status_code == 200


def padded(key: RSAPrivateKey, signed: bytes) -> str:
    return signature_of(key, signed) + "=="


def standard(key: RSAPrivateKey, signed: bytes) -> str:
    # Of 344 letters some are + or /, all but certainly; the keys of the tests see to it below.
    return b64encode(key.sign(signed, PKCS1v15(), SHA256())).decode().rstrip("=")


def pss(key: RSAPrivateKey, signed: bytes) -> str:
    raw = key.sign(signed, PSS(MGF1(SHA256()), PSS.DIGEST_LENGTH), SHA256())
    return b64encode(raw, b"-_").decode().rstrip("=")


def sha1(key: RSAPrivateKey, signed: bytes) -> str:
    return b64encode(key.sign(signed, PKCS1v15(), SHA1()), b"-_").decode().rstrip("=")


@pytest.mark.parametrize(
    "forge",
    [
        pytest.param(lambda key, signed: signature_of(key, signed + b" "), id="over other bytes"),
        pytest.param(padded, id="with padding"),
        pytest.param(standard, id="in the standard alphabet"),
        pytest.param(pss, id="with PSS padding"),
        pytest.param(sha1, id="with SHA-1"),
        pytest.param(lambda key, signed: signature_of(key, signed)[:-1], id="a letter short"),
    ],
)
def test_any_other_signature_is_not_let_in(
    http: SignedHttp, any_call: RawCall, forge: Callable[[RSAPrivateKey, bytes], str]
) -> None:
    """RSA-SHA256, URL-safe Base64 without padding, over exactly the right bytes: nothing else (spec §5, §7.3)."""
    forged = forge(http.key, any_call.signed)
    if forge is standard and not set("+/") & set(forged):
        pytest.skip("this signature is written alike in both alphabets")
    assert outcome(http.send(any_call, http.credentials(b"") | {"X-Signature": forged})) == FAILED
