"""
Signatures remembered: PKCS#1 v1.5 is deterministic, so the same message has the same signature for the key's life.

fetch-games signs the operator id, which is kept for ever; the rest goes through a bounded LRU.
"""

from collections import OrderedDict
from functools import lru_cache

from game_operator.protocol.signing import Signature
from game_operator.signers.api import AsyncSigner, Signer

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
        """Return the X-Signature header for *message*."""
        if message != self._forever:
            return self._recent(message)
        if self._first is None:
            self._first = self._fresh(message)
        return self._first

    def _fresh(self, message: bytes) -> Signature:
        return Signature.of(self._signer.sign(message))


class RememberedAsyncSignatures:
    """The same as ``RememberedSignatures`` for an ``AsyncSigner``."""

    def __init__(self, signer: AsyncSigner, forever: bytes) -> None:
        self._signer = signer
        self._forever = forever
        self._known: OrderedDict[bytes, Signature] = OrderedDict()

    async def sign(self, message: bytes) -> Signature:
        """Return the X-Signature header for *message*."""
        known = self._known.get(message)
        if known is None:
            known = self._known[message] = Signature.of(await self._signer.sign(message))
            self._forget()
        elif message != self._forever:
            self._known.move_to_end(message)
        return known

    def _forget(self) -> None:
        if len(self._known) > _REMEMBERED:
            oldest = next(message for message in self._known if message != self._forever)
            del self._known[oldest]
