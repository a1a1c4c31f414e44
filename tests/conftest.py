"""Keys that all tests share: made once, for a key costs a good part of a second."""

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey, generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from hypothesis import settings

# For `make torture`; tests that set their own number of examples keep it.
settings.register_profile("torture", max_examples=2_000, deadline=None)


@pytest.fixture(scope="session")
def private_key() -> RSAPrivateKey:
    """The operator's key in the tests."""
    return generate_private_key(65537, 2048)


@pytest.fixture(scope="session")
def public_key(private_key: RSAPrivateKey) -> RSAPublicKey:
    """What the operator has registered with the service."""
    return private_key.public_key()


@pytest.fixture(scope="session")
def private_pem(private_key: RSAPrivateKey) -> bytes:
    """The operator's key as PKCS#8 PEM."""
    return private_key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


@pytest.fixture(scope="session")
def public_pem(public_key: RSAPublicKey) -> bytes:
    """The registered key as PEM."""
    return public_key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
