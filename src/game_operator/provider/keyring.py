"""The keys of a run, and the headers that they put on a request (assumed, docs/decisions/0011)."""

from base64 import b64encode, urlsafe_b64encode
from functools import cache, lru_cache
from typing import Final

from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key

from game_operator.protocol.http import HeaderPairs
from game_operator.provider.caller import SigningKey
from game_operator.provider.requests import Form, Request
from game_operator.signers.keys import LocalSigner, load_signer

__all__ = ["Keyring", "loaded"]

_REMEMBERED: Final = 1_024
_JSON: Final = (b"Content-Type", b"application/json")


@cache
def _stranger() -> LocalSigner:
    # One for all runs of this process: making a key takes longer than many a scenario.
    return loaded(generate_private_key(65537, 2048))


def loaded(key: SigningKey) -> LocalSigner:
    """
    Return the signer that holds *key*.

    Raises:
        SigningKeyError: It cannot be used.
        TypeError: It is no key.
    """
    try:
        signer = load_signer(key)
    finally:
        # Error trackers show the locals of every frame that an error passes.
        del key
    if not isinstance(signer, LocalSigner):
        raise TypeError("signing keys must be a Path, a PEM as str or bytes, or an RSAPrivateKey")
    return signer


class Keyring:
    """
    Seals requests.

    Raises:
        SigningKeyError: A key cannot be used.
    """

    def __init__(
        self,
        header: str,
        service: SigningKey,
        *,
        old: SigningKey | None = None,
        retired: SigningKey | None = None,
    ) -> None:
        self._header = header
        self._signers = {"service": loaded(service)}
        self._signers |= {name: loaded(key) for name, key in (("old", old), ("retired", retired)) if key is not None}
        # Each balance is asked for many times, and the signature of the same bytes is the same.
        self._sign = lru_cache(_REMEMBERED)(self._signed)

    def headers(self, request: Request) -> HeaderPairs:
        """Return the headers of *request*, its signature among them."""
        given = tuple((name.encode("latin-1"), value.encode("latin-1")) for name, value in request.headers)
        named = any(name.lower() == b"content-type" for name, _ in given)
        return (*(() if named else (_JSON,)), *given, *self._signatures(request))

    def _signatures(self, request: Request) -> HeaderPairs:
        seal = request.seal
        if seal.literal is not None:
            written = seal.literal.encode("latin-1")
        elif seal.key is None:
            return ()
        else:
            written = _written(self._sign(seal.key, request.body if seal.over is None else seal.over), seal.form)
        name = (self._header.upper() if seal.upper else self._header).encode()
        return ((name, written),) * seal.times

    def _signed(self, key: str, message: bytes) -> bytes:
        signer = _stranger() if key == "stranger" else self._signers[key]
        return signer.sign(message)

    def __repr__(self) -> str:
        return "Keyring(…)"

    def __reduce__(self) -> str:
        raise TypeError("a Keyring holds private keys and is not pickled")


def _written(signature: bytes, form: Form) -> bytes:
    encoded = (urlsafe_b64encode if form.startswith("url-safe") else b64encode)(signature)
    return encoded if form.endswith("padded") else encoded.rstrip(b"=")
