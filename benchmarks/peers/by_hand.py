"""The Operator API by hand: bare httpx, a signature of one's own, and dictionaries; nothing is checked or repeated."""

import json
import ssl
from base64 import urlsafe_b64encode
from typing import Any

import httpx
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.hashes import SHA256

__all__ = ["ByHand", "signature_of"]

_PADDING = PKCS1v15()
_SHA256 = SHA256()


def signature_of(private_key: RSAPrivateKey, message: bytes) -> str:
    """Return the X-Signature header for *message*."""
    return urlsafe_b64encode(private_key.sign(message, _PADDING, _SHA256)).rstrip(b"=").decode()


class ByHand:
    """One ``httpx.Client``, kept open; the key is loaded once."""

    def __init__(
        self, base_url: str, operator_id: str, private_key: RSAPrivateKey, verify: ssl.SSLContext | bool = True
    ) -> None:
        self._http = httpx.Client(base_url=base_url, verify=verify)
        self._operator_id = operator_id
        self._private_key = private_key

    def fetch_games_unsigned(self) -> Any:
        return self._http.get("/api/v0.2/fetch-games").json()

    def fetch_bet(self, bet_id: str) -> Any:
        headers = self._headers(f"{self._operator_id}:{bet_id}".encode())
        return self._http.get(f"/api/v0.2/fetch-bet/{bet_id}", headers=headers).json()

    def fetch_round_bets(self, instance_id: str, round_id: str) -> Any:
        return self._post("/api/v0.2/fetch-round-bets", {"instance_id": instance_id, "round_id": round_id})

    def grant_free_bet(self, **grant: str | int) -> Any:
        return self._post("/api/v0.2/free-bet/grant", grant)

    def close(self) -> None:
        self._http.close()

    def _post(self, path: str, values: dict[str, Any]) -> Any:
        body = json.dumps(values, separators=(",", ":")).encode()
        headers = self._headers(body) | {"Content-Type": "application/json"}
        return self._http.post(path, content=body, headers=headers).json()

    def _headers(self, message: bytes) -> dict[str, str]:
        return {"X-Operator-Id": self._operator_id, "X-Signature": signature_of(self._private_key, message)}
