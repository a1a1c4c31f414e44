"""
httpx without its client, for the connections that are ours.

Around its connections an ``httpx.Client`` keeps cookies, merges headers, follows redirects, runs hooks and writes a
log. Ours would do nothing of the kind and still cost a third of a call, its signature aside. These two have the face of
a client and hand each request to httpx's transport.
"""

import weakref
from typing import Any

import httpx

from game_operator.client._deadline import hold_deadlines

__all__ = ["AsyncDirectClient", "DirectClient", "ProxiedClient"]


class DirectClient:
    """Sends as ``httpx.Client`` does, without a proxy; the arguments are those of ``httpx.HTTPTransport``."""

    def __init__(self, **options: Any) -> None:
        self._transport = httpx.HTTPTransport(**options)
        hold_deadlines(self._transport)

    def send(self, request: httpx.Request, **_: Any) -> httpx.Response:
        """Send *request* and return the response, its body unread; a redirect is never followed."""
        return self._transport.handle_request(request)

    def close(self) -> None:
        """Close the connections."""
        self._transport.close()


class ProxiedClient:
    """An ``httpx.Client``, which knows proxies, that closes itself when nobody holds it any more."""

    def __init__(self, **options: Any) -> None:
        self._client = httpx.Client(**options)
        hold_deadlines(self._client)
        self._closing = weakref.finalize(self, self._client.close)
        # A forked child that ends has no business with its parent's connections.
        self._closing.atexit = False

    def send(self, request: httpx.Request, **options: Any) -> httpx.Response:
        """Send *request* as ``httpx.Client.send`` does."""
        return self._client.send(request, **options)

    def close(self) -> None:
        """Close the connections."""
        self._closing()


class AsyncDirectClient:
    """The same as ``DirectClient`` for ``httpx.AsyncClient``."""

    def __init__(self, **options: Any) -> None:
        self._transport = httpx.AsyncHTTPTransport(**options)

    async def send(self, request: httpx.Request, **_: Any) -> Any:
        """Send *request* and return the ``httpx.Response``, its body unread; a redirect is never followed."""
        # Any, for httpx's types leave it open whether the stream of a response is the async one.
        return await self._transport.handle_async_request(request)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._transport.aclose()
