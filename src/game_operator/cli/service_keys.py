"""The provider's public keys, from the files that a command line names."""

import re
import shlex
from collections.abc import Iterable
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from game_operator.errors import ConfigurationError, one_line, shown
from game_operator.protocol.signing import MIN_KEY_BITS

__all__ = ["service_keys"]

_LARGEST_FILE = 65_536
_LONGEST_PATH = 255
_PUBLIC = re.compile(rb"-----BEGIN (?:RSA )?PUBLIC KEY-----")
_ASK = f"Ask the provider for its public RSA key (PEM, {MIN_KEY_BITS} bits or more)."


def service_keys(files: Iterable[Path]) -> list[RSAPublicKey]:
    """Return the public keys in *files*; raise ConfigurationError if one holds none, or more than one."""
    return [_key(file) for file in files]


def _key(file: Path) -> RSAPublicKey:
    path = str(file)
    if "-----" in path or "\n" in path or len(path) > _LONGEST_PATH:
        raise ConfigurationError("--service-key looks like the key itself. Pass the name of the file that holds it.")
    name = f"--service-key {shown(path)}"
    try:
        with file.open("rb") as opened:
            pem = opened.read(_LARGEST_FILE + 1)
    except (OSError, ValueError) as failed:
        problem = getattr(failed, "strerror", None) or type(failed).__name__
        raise ConfigurationError(f"{name} cannot be read: {problem}. Check the path and its permissions.") from None
    key = _found(pem, path)
    if isinstance(key, str):
        raise ConfigurationError(f"{name} {key}")
    return key


def _found(pem: bytes, path: str) -> RSAPublicKey | str:
    """Return the key in *pem*, or what is wrong."""
    if len(pem) > _LARGEST_FILE:
        return f"is larger than {_LARGEST_FILE} bytes, which no key is. {_ASK}"
    if b"PRIVATE KEY-----" in pem:
        return f"holds a private key, and calls are checked with the public one. {_ASK}"
    number = len(_PUBLIC.findall(pem))
    if number > 1:
        return f"holds {number} public keys. Keep each in a file of its own, and pass --service-key for each."
    if not number:
        return _other(pem, path)
    try:
        key = load_pem_public_key(pem)
    except (ValueError, UnsupportedAlgorithm):
        return f"holds no readable public key. {_ASK}"
    if not isinstance(key, RSAPublicKey):
        kind = type(key).__name__.removeprefix("_").removesuffix("PublicKey")
        return f"holds a key of another kind ({kind}), not RSA. {_ASK}"
    if key.key_size < MIN_KEY_BITS:
        return f"holds a key of {key.key_size} bits; under {MIN_KEY_BITS} it can be broken. {_ASK}"
    return key


def _other(pem: bytes, path: str) -> str:
    file = one_line(shlex.quote(path))
    if b"-----BEGIN CERTIFICATE-----" in pem:
        return f"holds a certificate. Take its key out with `openssl x509 -in {file} -pubkey -noout`. {_ASK}"
    if pem.startswith(b"\x30"):
        return f"is in DER, not PEM. Convert it with `openssl pkey -pubin -inform DER -in {file}`. {_ASK}"
    return f"holds no public key in PEM, which begins with '-----BEGIN PUBLIC KEY-----'. {_ASK}"
