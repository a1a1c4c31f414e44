"""The receiver as an ASGI application, without any dependency."""

import asyncio
import time
from collections.abc import Awaitable, Callable, MutableMapping
from functools import lru_cache
from typing import Any, TypeAlias

from game_operator.protocol.http import HttpReply
from game_operator.webhooks.authenticators import LOST, WebhookRequest
from game_operator.webhooks.budget import Begun
from game_operator.webhooks.gate import READ_AWAY, UnreadBodyError, headers_of, normal_prefix, path_below
from game_operator.webhooks.handlers import AsyncWebhookHandler, WebhookHandler, is_async
from game_operator.webhooks.receiver import WebhookReceiver

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
#: An ASGI 3 application.
AsgiApp: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]


class _HungUpError(Exception):
    """The client went away before its body was complete."""


def asgi_app(receiver: WebhookReceiver, handler: WebhookHandler | AsyncWebhookHandler, *, prefix: str = "") -> AsgiApp:
    """
    Return an ASGI 3 application that answers the webhooks below *prefix* with *handler*.

    It runs under asyncio (uvicorn, hypercorn, granian), alone or mounted in FastAPI, Starlette or Litestar. It keeps no
    more of a body than the profile allows, gives it the time budget to arrive, and survives a client that hangs up: a
    call that has begun is carried through, unless the server cancels it. A request that asks for an upgrade is the last
    of its connection; under uvicorn that protects this application alone, so use ``game_operator.serve.SafeProtocol``.

    Args:
        receiver: The receiver.
        handler: A WebhookHandler or AsyncWebhookHandler.
        prefix: Where the four paths stand, such as ``/wallet``.

    Raises:
        TypeError: The handler lacks a method, or is half async.
    """
    is_async(handler)  # A handler that lacks a method fails now, and not at the first call.
    prefix = normal_prefix(prefix)

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await _not_http(scope["type"], receive, send)
            return
        path, mounted_at = scope["path"], scope.get("root_path")
        if path.endswith("/") and not (scope.get("raw_path") or b"/").partition(b"?")[0].endswith(b"/"):
            path = path[:-1]  # Litestar's mounts put a slash behind the path, which the client did not send.
        if mounted_at or prefix:
            path = path_below(path, normal_prefix(mounted_at or ""), prefix)
        peer = scope["client"][0] if scope.get("client") else None
        try:
            body = await _body(receive, receiver, path)
        except _HungUpError:
            return
        except UnreadBodyError as unread:
            refused = receiver.refuse(path, str(unread), method=scope["method"], peer=peer)
            await _send(send, refused, scope, keep_alive=unread.ended)
            return
        # ASGI servers hand over header names in lower case.
        request = WebhookRequest(
            scope["method"], path, tuple(scope["headers"]), body, peer, time.time_ns() // 1_000_000
        )
        await _send(send, await receiver.answer(request, handler), scope, keep_alive=True)

    return application


async def _body(receive: Receive, receiver: WebhookReceiver, path: str) -> bytes:
    """Return the body; of one that is too long the adapter keeps no more than the limit."""
    message: Message | None = None
    steps = receive().__await__()
    try:
        waits_for = next(steps)
    except StopIteration as end:
        message = end.value
        if message["type"] == "http.request" and not message.get("more_body"):
            return message.get("body") or b""
    limit, kept, seen = receiver.max_bytes_at(path), bytearray(), 0
    try:
        async with asyncio.timeout(receiver.budget_seconds):
            message = await Begun(steps, waits_for) if message is None else message
            while message["type"] == "http.request":
                piece = message.get("body") or b""
                seen += len(piece)
                if seen <= limit:
                    kept += piece
                if not message.get("more_body"):
                    if seen <= limit:
                        return bytes(kept)
                    raise UnreadBodyError(receiver.too_long_at(path, seen), ended=True)
                if seen > limit + READ_AWAY:
                    raise UnreadBodyError(receiver.too_long_at(path, f"more than {seen}"))
                message = await receive()
    except TimeoutError:
        told = f"its body did not arrive within {receiver.budget_seconds:g} s, only {seen} bytes of it"
        raise UnreadBodyError(f"{told}. {LOST}") from None
    raise _HungUpError


async def _send(send: Send, reply: HttpReply, scope: Scope, *, keep_alive: bool) -> None:
    headers = list(_raw_headers(reply.status, len(reply.body)))
    # Behind Upgrade some servers take the body for another request, which must not be the next caller's.
    keep_alive = keep_alive and not any(name == b"upgrade" for name, _ in scope["headers"])
    if not keep_alive and scope.get("http_version", "1.1").startswith("1"):
        headers.append((b"connection", b"close"))
    try:
        await send({"type": "http.response.start", "status": reply.status, "headers": headers})
        await send({"type": "http.response.body", "body": reply.body})
    except OSError:  # The client is gone: what was done is done, and its repeat finds it.
        return


@lru_cache(maxsize=1024)
def _raw_headers(status: int, length: int) -> tuple[tuple[bytes, bytes], ...]:
    return tuple((name.encode(), value.encode()) for name, value in headers_of(status, length).items())


async def _not_http(kind: str, receive: Receive, send: Send) -> None:
    if kind not in ("lifespan", "websocket"):
        raise ValueError(f"webhooks are plain HTTP, not {kind}")
    await receive()
    if kind == "websocket":
        await send({"type": "websocket.close", "code": 1000})  # Before it was accepted: HTTP 403.
        return
    await send({"type": "lifespan.startup.complete"})
    await receive()
    await send({"type": "lifespan.shutdown.complete"})
