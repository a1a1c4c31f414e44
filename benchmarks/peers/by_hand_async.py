"""The same as ``by_hand``, awaited: bare ``httpx.AsyncClient``, a signature made beforehand, and dictionaries."""

from typing import Any

import httpx

__all__ = ["ByHandAsync"]


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
