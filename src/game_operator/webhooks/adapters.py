"""The receiver as an ASGI or a WSGI application (PEP 3333), without any dependency."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from functools import lru_cache
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from game_operator.protocol.http import HttpReply
from game_operator.webhooks.authenticators import LOST, WebhookRequest
from game_operator.webhooks.budget import Begun
from game_operator.webhooks.gate import READ_AWAY, UnreadBodyError, headers_of, normal_prefix, path_below
from game_operator.webhooks.handlers import AsyncWebhookHandler, WebhookHandler, is_async
from game_operator.webhooks.receiver import WebhookReceiver

if TYPE_CHECKING:
    from wsgiref.types import InputStream, StartResponse, WSGIApplication, WSGIEnvironment

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
#: An ASGI 3 application.
AsgiApp: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

#: How much of a body WSGI reads at once.
_PIECE: Final = 65_536


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
            body = await _asgi_body(receive, receiver, path)
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


async def _asgi_body(receive: Receive, receiver: WebhookReceiver, path: str) -> bytes:
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


def wsgi_app(
    receiver: WebhookReceiver, handler: WebhookHandler, *, prefix: str = "", threads: bool = True
) -> "WSGIApplication":
    """
    Return a WSGI application that answers the webhooks below *prefix* with *handler*.

    It runs under gunicorn, waitress, uWSGI or mod_wsgi, alone or mounted beside Flask or Django. It keeps no more of a
    body than the profile allows. How long a body may take is the server's: WSGI cannot give up on a read.

    Args:
        receiver: The receiver.
        handler: A WebhookHandler.
        prefix: Where the four paths stand, such as ``/wallet``.
        threads: Whether *handler* runs in one of the receiver's threads, so that the reply leaves at the time budget.
            With False it runs in the server's own thread, which nothing can interrupt: for a handler whose connection
            belongs to the thread that the server opened it in, as that of Django's ORM does. (In a thread of ours the
            ORM would open a second connection, outside the request's transaction, which nobody closes.)

    Raises:
        TypeError: The handler is async, or lacks a method.
    """
    if is_async(handler):
        raise TypeError(f"the handler {type(handler).__name__} is async, and WSGI cannot await it: use asgi_app")
    prefix = normal_prefix(prefix)

    def application(environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        mounted_at = environ.get("SCRIPT_NAME", "").rstrip("/")
        path = path_below(mounted_at + environ.get("PATH_INFO", ""), mounted_at, prefix)
        method, peer = environ["REQUEST_METHOD"], environ.get("REMOTE_ADDR")
        try:
            body = _wsgi_body(environ, receiver, path)
        except UnreadBodyError as unread:
            reply = receiver.refuse(path, str(unread), method=method, peer=peer)
        else:
            # A header that is there twice comes as one, joined by a comma, which no signature has.
            headers = [(key[5:].replace("_", "-"), value) for key, value in environ.items() if key.startswith("HTTP_")]
            if length := environ.get("CONTENT_LENGTH"):
                headers.append(("Content-Length", length))
            reply = receiver.handle(path, headers, body, handler, method=method, peer=peer, in_thread=threads)
        start_response(f"{reply.status} {HTTPStatus(reply.status).phrase}", list(reply.headers.items()))
        return [] if method == "HEAD" else [reply.body]

    return application


def _wsgi_body(environ: "WSGIEnvironment", receiver: WebhookReceiver, path: str) -> bytes:
    """Return the body; of one that is too long the adapter keeps no more than the limit."""
    limit = receiver.max_bytes_at(path)
    stream: InputStream = environ["wsgi.input"]
    length = None if environ.get("wsgi.input_terminated") else _length_of(environ)
    kept, seen = bytearray(), 0
    while length is None or seen < length:
        try:
            piece = stream.read(_PIECE if length is None else min(_PIECE, length - seen))
        except Exception as broken:  # Every server has its own errors for a client that is gone or sends nonsense.
            raise UnreadBodyError(f"its body cannot be read: {type(broken).__name__}. {LOST}") from None
        if not piece:
            break
        seen += len(piece)
        if seen <= limit:
            kept += piece
        elif seen > limit + READ_AWAY:
            raise UnreadBodyError(receiver.too_long_at(path, f"more than {seen}"))
    if length is not None and seen < length:
        raise UnreadBodyError(f"its body ended after {seen} of {length} bytes. {LOST}")
    if seen > limit:
        raise UnreadBodyError(receiver.too_long_at(path, seen))
    return bytes(kept)


def _length_of(environ: "WSGIEnvironment") -> int:
    text = environ.get("CONTENT_LENGTH") or ""
    # Not int() alone, which takes -5, +5, 1_0 and digits of other scripts.
    if text and not (text.isascii() and text.isdigit() and len(text) < 20):
        raise UnreadBodyError("its Content-Length is not a number")
    if not text and environ.get("HTTP_TRANSFER_ENCODING"):
        # Where the body ends is unknown, and a read too many would wait for ever.
        raise UnreadBodyError("it came in chunks, which this server does not hand on; let the proxy give it a length")
    return int(text or 0)
