"""
RSA keys that cost little: making one, and checking one that is read, takes as long as dozens of signatures.

What the tests are about stays: each key was made, or read and checked, by the same function of ``cryptography``.
"""

import sys
from collections import defaultdict, deque
from functools import cache
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key

#: How many keys lie between two uses of one, of which somebody may have kept the PEM alone.
_KEPT = 8
#: What refers to a key that nobody uses, when it is asked: a variable and the argument of the question.
_OURS = 2


def encrypted(path: Path, passphrase: bytes) -> Path:
    """Encrypt the private key in *path*, a new one if there is none, with *passphrase*; return *path*."""
    there = serialization.load_pem_private_key(path.read_bytes(), None) if path.exists() else None
    key = there or generate_private_key(65537, 2048)
    encryption = serialization.BestAvailableEncryption(passphrase)
    path.touch(0o600)
    path.write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption))
    return path


def set_environment(patch: pytest.MonkeyPatch, **variables: str) -> None:
    """Set these *variables* of ``from_env``, named without GAME_OPERATOR_, and none besides."""
    secret = ("PRIVATE_KEY", "PRIVATE_KEY_FILE", "PRIVATE_KEY_PASSPHRASE", "PRIVATE_KEY_PASSPHRASE_FILE")
    for name in ("BASE_URL", "ID", *secret):
        patch.delenv(f"GAME_OPERATOR_{name}", raising=False)
    for name, value in variables.items():
        patch.setenv(f"GAME_OPERATOR_{name}", value)


def make_and_check_once(patch: pytest.MonkeyPatch) -> None:
    """Let what plays the provider get keys that nobody uses any more, and let each PEM be checked once."""
    patch.setattr("game_operator_testkit.provider.keys.generate_private_key", _Keys())
    patch.setattr(serialization, "load_pem_private_key", cache(serialization.load_pem_private_key))


class _Keys:
    """Makes keys, and hands them out again as soon as nobody holds them."""

    def __init__(self) -> None:
        self._rows: defaultdict[tuple[int, int], deque[RSAPrivateKey]] = defaultdict(deque)

    def __call__(self, public_exponent: int, key_size: int) -> RSAPrivateKey:
        """Return a key that nobody else holds."""
        row = self._rows[public_exponent, key_size]
        key = row.popleft() if len(row) >= _KEPT else None
        if key is None or sys.getrefcount(key) > _OURS:
            key = generate_private_key(public_exponent, key_size)
        row.append(key)
        return key
