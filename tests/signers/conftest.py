"""Keys of every sort, each made once."""

import datetime
from dataclasses import dataclass

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
)
from cryptography.x509.oid import NameOID

PASSPHRASE = "correct horse battery staple"


@dataclass(frozen=True)
class Keys:
    """Private keys of other sorts than the one the tests sign with."""

    other: RSAPrivateKey
    bits_1024: RSAPrivateKey
    bits_2047: RSAPrivateKey
    elliptic: ec.EllipticCurvePrivateKey
    edwards: ed25519.Ed25519PrivateKey


@pytest.fixture(scope="session")
def keys() -> Keys:
    """Return one key of each sort."""
    return Keys(
        other=generate_private_key(65537, 2048),
        bits_1024=generate_private_key(65537, 1024),
        bits_2047=generate_private_key(65537, 2047),
        elliptic=ec.generate_private_key(ec.SECP256R1()),
        edwards=ed25519.Ed25519PrivateKey.generate(),
    )


@pytest.fixture(scope="session")
def documents(private_key: RSAPrivateKey, private_pem: bytes, public_pem: bytes, keys: Keys) -> dict[str, bytes]:
    """Return files that may stand where the operator's private key should."""
    locked = BestAvailableEncryption(PASSPHRASE.encode())
    pkcs1 = _pem(private_key, PrivateFormat.TraditionalOpenSSL)
    encrypted = _pem(private_key, PrivateFormat.PKCS8, locked)
    pkcs1_encrypted = _pem(private_key, PrivateFormat.TraditionalOpenSSL, locked)
    body = private_pem.splitlines()[5]
    return {
        "pkcs8": private_pem,
        "pkcs1": pkcs1,
        "pkcs8 encrypted": encrypted,
        "pkcs1 encrypted": pkcs1_encrypted,
        "byte order mark": b"\xef\xbb\xbf" + private_pem,
        "one line with \\n": private_pem.replace(b"\n", b"\\n"),
        "one line with \\r\\n": b'"' + private_pem.replace(b"\n", b"\\r\\n") + b'"',
        "with its certificate": _certificate(private_key) + private_pem,
        "public": public_pem,
        "certificate": _certificate(private_key),
        "two keys": private_pem + _pem(keys.other, PrivateFormat.PKCS8),
        "2047 bits": _pem(keys.bits_2047, PrivateFormat.PKCS8),
        "elliptic": _pem(keys.elliptic, PrivateFormat.PKCS8),
        "openssh": _pem(private_key, PrivateFormat.OpenSSH),
        "empty": b"",
        "der": private_key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption()),
        "cut off": private_pem[:900],
        "damaged": private_pem.replace(body, body[:20] + b"AAAA" + body[24:]),
        "encrypted and damaged": encrypted.replace(encrypted.splitlines()[12], encrypted.splitlines()[12][::-1]),
        "another cipher": pkcs1_encrypted.replace(b"AES-256-CBC", b"CAMELLIA-256-CBC"),
        "half a header": pkcs1_encrypted.replace(b"Proc-Type: 4,ENCRYPTED\n", b""),
        "base64 without its frame": b"".join(private_pem.splitlines()[1:-1]),
    }


def _pem(
    key: RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey,
    form: PrivateFormat,
    encryption: KeySerializationEncryption | None = None,
) -> bytes:
    return key.private_bytes(Encoding.PEM, form, encryption or NoEncryption())


def _certificate(key: RSAPrivateKey) -> bytes:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "operator.example")])
    start = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(start + datetime.timedelta(days=1))
    )
    return builder.sign(key, SHA256()).public_bytes(Encoding.PEM)
