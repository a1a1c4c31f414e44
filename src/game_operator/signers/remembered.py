"""
Signatures remembered: PKCS#1 v1.5 is deterministic, so the same message has the same signature for the key's life.

fetch-games signs the operator id, which is kept for ever; the rest goes through a bounded LRU. What a signer fails to
sign is not remembered. Callers that want the same new signature at the same moment each ask the signer: they get the
same bytes, and none has to wait for, or fail with, another one's call.
"""

from functools import lru_cache

from game_operator.protocol.signing import Signature
from game_operator.signers.api import AsyncSigner, Signer
from game_operator.signers.keys import checked_signature

__all__ = ["RememberedAsyncSignatures", "RememberedSignatures"]

_REMEMBERED = 1024


class RememberedSignatures:
    """A ``Signer`` with a memory; safe to share between threads."""

    def __init__(self, signer: Signer, forever: bytes) -> None:
        self._signer = signer
        self._forever = forever
        self._first: Signature | None = None
        self._recent = lru_cache(_REMEMBERED)(self._fresh)

    def sign(self, message: bytes) -> Signature:
        """
        Return the X-Signature header for *message*.

        Raises:
            SigningKeyError: The signer's key is too short, or not RSA; or whatever the signer raises.
        """
        if message != self._forever:
            return self._recent(message)
        if self._first is None:
            self._first = self._fresh(message)
        return self._first

    def _fresh(self, message: bytes) -> Signature:
        return Signature.of(checked_signature(self._signer.sign(message)))


class RememberedAsyncSignatures:
    """The same as ``RememberedSignatures`` for an ``AsyncSigner``; event loops in several threads may share one."""

    def __init__(self, signer: AsyncSigner, forever: bytes) -> None:
        self._signer = signer
        self._forever = forever
        self._first: list[Signature] = []
        # Each message has a slot, empty until it is signed: lru_cache cannot await, but it keeps slots well.
        self._recent = lru_cache(_REMEMBERED)(_empty_slot)

    async def sign(self, message: bytes) -> Signature:
        """
        Return the X-Signature header for *message*.

        Raises:
            SigningKeyError: The signer's key is too short, or not RSA; or whatever the signer raises.
        """
        slot = self._first if message == self._forever else self._recent(message)
        if not slot:
            slot.append(Signature.of(checked_signature(await self._signer.sign(message))))
        return slot[0]


def _empty_slot(message: bytes) -> list[Signature]:  # noqa: ARG001 - lru_cache keys on it
    return []
