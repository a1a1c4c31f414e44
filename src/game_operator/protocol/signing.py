"""
The X-Signature header: RSA-SHA256 in URL-safe Base64 without padding (spec §5).

The padding of the RSA signature is not in the specification; PKCS#1 v1.5 is assumed (docs/decisions/0003).
"""

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey
from cryptography.hazmat.primitives.hashes import SHA256

#: Shorter keys are refused (assumed: the specification names no size).
MIN_KEY_BITS: Final = 2048

_PADDING = PKCS1v15()
_SHA256 = SHA256()
_URLSAFE_BASE64 = re.compile(rb"[A-Za-z0-9_-]+\Z")


class Signature(bytes):
    """The value of an X-Signature header; its ``repr`` and ``str`` do not show it."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "Signature(…)"

    __str__ = __repr__

    @classmethod
    def of(cls, raw: bytes) -> "Signature":
        """Return the header value for the *raw* signature (spec §5)."""
        return cls(urlsafe_b64encode(raw).rstrip(b"="))


def sign(private_key: RSAPrivateKey, to_sign: bytes) -> bytes:
    """Return the raw RSA-SHA256 signature of *to_sign* (spec §5)."""
    return private_key.sign(to_sign, _PADDING, _SHA256)


def verifies(public_key: RSAPublicKey, raw: bytes, signed: bytes) -> bool:
    """Return whether *raw* is the key owner's RSA-SHA256 signature over *signed*."""
    try:
        public_key.verify(raw, signed, _PADDING, _SHA256)
    except InvalidSignature:
        return False
    return True


def verify(public_key: RSAPublicKey, signed: bytes, signature: bytes) -> bool:
    """Return whether *signature*, as it stands in X-Signature, is the key owner's over *signed* (spec §5)."""
    if not _URLSAFE_BASE64.match(signature):
        return False
    try:
        # §5 drops the "=" padding, and Python's decoder refuses input without it.
        raw = urlsafe_b64decode(signature + b"=" * (-len(signature) % 4))
    except ValueError:
        return False
    # The last character carries bits that the decoder drops: only one of its sixteen spellings is the signature.
    return verifies(public_key, raw, signed) and Signature.of(raw) == signature
