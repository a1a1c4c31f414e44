"""The one thing a signer has to do."""

from typing import Protocol, runtime_checkable

__all__ = ["AsyncSigner", "Signer"]


@runtime_checkable
class Signer(Protocol):
    """
    Signs with the operator's RSA private key, wherever that is kept.

    It may also have a method ``public_key_pem() -> bytes``, which spares ``SessionTokenBuilder`` its ``public_key``.
    """

    def sign(self, message: bytes) -> bytes:
        """Return the raw RSA-SHA256 signature, PKCS#1 v1.5, of *message* (spec §5)."""
        ...


@runtime_checkable
class AsyncSigner(Protocol):
    """The same as ``Signer``, awaited."""

    async def sign(self, message: bytes) -> bytes:
        """Return the raw RSA-SHA256 signature, PKCS#1 v1.5, of *message* (spec §5)."""
        ...
