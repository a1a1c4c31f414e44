"""The Operator API by hand: bare httpx, a signature of one's own, and dictionaries; nothing is checked or repeated."""

from base64 import urlsafe_b64encode
from typing import Any

import httpx
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.hashes import SHA256

__all__ = ["ByHand", "ByHandAsync", "signature_of"]

_PADDING = PKCS1v15()
_SHA256 = SHA256()


def signature_of(private_key: RSAPrivateKey, message: bytes) -> str:
    """Return the X-Signature header for *message*."""
    return urlsafe_b64encode(private_key.sign(message, _PADDING, _SHA256)).rstrip(b"=").decode()


class ByHand:
    """One ``httpx.Client``, kept open; the key is loaded once."""

    def __init__(self, base_url: str, operator_id: str, private_key: RSAPrivateKey) -> None:
        self._http = httpx.Client(base_url=base_url)
        self._operator_id = operator_id
        self._private_key = private_key

    def fetch_bet(self, bet_id: str) -> Any:
        signature = signature_of(self._private_key, f"{self._operator_id}:{bet_id}".encode())
        headers = {"X-Operator-Id": self._operator_id, "X-Signature": signature}
        return self._http.get(f"/api/v0.2/fetch-bet/{bet_id}", headers=headers).json()

    def close(self) -> None:
        self._http.close()


class ByHandAsync:
    """One ``httpx.AsyncClient``, which keeps as many connections as calls are in flight: by default it keeps 20."""

    def __init__(self, base_url: str, operator_id: str) -> None:
        limits = httpx.Limits(max_connections=100, max_keepalive_connections=100)
        self._http = httpx.AsyncClient(base_url=base_url, limits=limits)
        self._operator_id = operator_id

    async def fetch_bet(self, bet_id: str, signature: str) -> Any:
        headers = {"X-Operator-Id": self._operator_id, "X-Signature": signature}
        response = await self._http.get(f"/api/v0.2/fetch-bet/{bet_id}", headers=headers)
        return response.json()

    async def aclose(self) -> None:
        await self._http.aclose()
