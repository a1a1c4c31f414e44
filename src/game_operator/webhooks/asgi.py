"""The receiver as an ASGI application, without any dependency."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, TypeAlias

from game_operator.webhooks.handlers import AsyncWebhookHandler, WebhookHandler, is_async
from game_operator.webhooks.receiver import HttpReply, WebhookReceiver

__all__ = ["AsgiApp", "asgi_app"]

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
#: An ASGI 3 application.
AsgiApp: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

_LOG = logging.getLogger("game_operator.webhooks")


class _HungUpError(Exception):
    """The client went away before its body was complete."""


def asgi_app(receiver: WebhookReceiver, handler: WebhookHandler | AsyncWebhookHandler, *, prefix: str = "") -> AsgiApp:
    """
    Return an ASGI 3 application that answers the webhooks below *prefix* with *handler*.

    It runs under asyncio (uvicorn, hypercorn, granian), alone or mounted in FastAPI, Starlette or Litestar. It reads no
    more of a body than the profile allows, gives it the time budget to arrive, and survives a client that hangs up.

    Raises:
        TypeError: The handler lacks a method, or is half async.
    """
    is_async(handler)  # A handler with a method missing is told now, and not by the first player.
    prefix = "/" + prefix.strip("/") if prefix.strip("/") else ""

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _lifespan(receive, send)
            return
        if scope["type"] != "http":
            raise ValueError(f"webhooks are plain HTTP, not {scope['type']}")
        try:
            path = _path_below(scope, prefix)
            body, complete = await _body(receive, receiver, path)
        except _HungUpError:
            return
        peer = scope["client"][0] if scope.get("client") else None
        reply = await receiver.handle_async(path, scope["headers"], body, handler, method=scope["method"], peer=peer)
        await _send(send, reply, keep_alive=complete)

    return application


def _path_below(scope: Scope, prefix: str) -> str:
    """Return the path below *prefix*, and below where a framework has mounted us; what lies beside is left whole."""
    path: str = scope["path"]
    for base in (prefix, scope.get("root_path", "") + prefix):
        below = path[len(base) :]
        if base and path.startswith(base) and below.startswith("/"):
            return below
    return path if not prefix else "/" + path


async def _body(receive: Receive, receiver: WebhookReceiver, path: str) -> tuple[bytes, bool]:
    """Return the body, or so much of it that it is too long, and whether that is all of it."""
    message = await receive()
    if message["type"] == "http.request" and not message.get("more_body"):
        return message.get("body", b""), True
    limit = receiver.max_bytes_at(path)
    try:
        async with asyncio.timeout(receiver.budget_seconds):
            return await _rest_of_body(message, receive, limit)
    except TimeoutError:
        _LOG.warning("a body did not arrive within %s s", receiver.budget_seconds)
        raise _HungUpError from None


async def _rest_of_body(message: Message, receive: Receive, limit: int) -> tuple[bytes, bool]:
    chunks = bytearray()
    while True:
        if message["type"] == "http.disconnect":
            raise _HungUpError
        chunks += message.get("body", b"")
        if not message.get("more_body"):
            return bytes(chunks), True
        if len(chunks) > limit:
            return bytes(chunks), False
        message = await receive()


async def _send(send: Send, reply: HttpReply, *, keep_alive: bool) -> None:
    headers = [(name.encode(), value.encode()) for name, value in reply.headers.items()]
    if not keep_alive:
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    await send({"type": "http.response.body", "body": reply.body})


async def _lifespan(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return
