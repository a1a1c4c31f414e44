"""A receiver, and each way to bring it a request: by ASGI, by WSGI and by its methods."""

import asyncio
import io
from collections.abc import Callable
from typing import Any
from wsgiref.util import setup_testing_defaults

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey

from game_operator.webhooks import HttpReply, RsaSignature, WebhookReceiver, asgi_app, wsgi_app
from tests.support.webhooks import Handler, encoded, signed

Headers = dict[str, str]
#: Posts a signed body to a path and returns the reply.
Post = Callable[[str, object], HttpReply]
#: Sends a body to a receiver and its handler by a method, to a path, under headers; returns the status and the body.
Sender = Callable[[WebhookReceiver, Any, str, str, Headers], tuple[int, bytes]]


def asgi_scope(**change: Any) -> dict[str, Any]:
    """Return the scope of a POST to /withdraw, with a *change*."""
    scope: dict[str, Any] = {"type": "http", "path": "/withdraw", "method": "POST", "headers": [], "client": None}
    return scope | change


async def asgi_messages(app: Any, scope: dict[str, Any], *messages: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what *app* sends when it is given *messages*, and then nothing any more."""
    sent: list[dict[str, Any]] = []
    waiting = list(messages)

    async def receive() -> Any:
        return waiting.pop(0) if waiting else await asyncio.sleep(60)

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    await app(scope, receive, send)
    return sent


def wsgi_environ(body: bytes, **change: Any) -> dict[str, Any]:
    """Return the environment of a POST of *body* to /withdraw, with a *change*, in which None leaves out."""
    environ: dict[str, Any] = {
        "REQUEST_METHOD": "POST",
        "PATH_INFO": "/withdraw",
        "SCRIPT_NAME": "",
        "CONTENT_LENGTH": str(len(body)),
        "wsgi.input": io.BytesIO(body),
        "REMOTE_ADDR": "127.0.0.1",
        **change,
    }
    setup_testing_defaults(environ)
    return {name: value for name, value in environ.items() if value is not None}


def wsgi_reply(app: Any, environ: dict[str, Any]) -> tuple[str, dict[str, str], bytes]:
    """Return the status line, the headers and the body that *app* answers."""
    started: list[Any] = []
    body = b"".join(app(environ, lambda status, headers: started.extend((status, dict(headers)))))
    return started[0], started[1], body


def over_asgi(*pieces: bytes, ends: bool = True) -> Sender:
    """Send *pieces*, of which the last ends the body, unless nothing comes any more behind it."""

    def send(receiver: WebhookReceiver, handler: Any, method: str, path: str, headers: Headers) -> tuple[int, bytes]:
        messages = [{"type": "http.request", "body": piece, "more_body": True} for piece in pieces]
        messages[-1]["more_body"] = not ends
        pairs = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
        scope = asgi_scope(method=method, path=path, headers=pairs, client=("192.0.2.7", 1))
        start, body = asyncio.run(asgi_messages(asgi_app(receiver, handler), scope, *messages))
        return start["status"], body["body"]

    return send


def over_wsgi(body: bytes, **environ: Any) -> Sender:
    """Send *body* in an environment with some changes."""

    def send(receiver: WebhookReceiver, handler: Any, method: str, path: str, headers: Headers) -> tuple[int, bytes]:
        given = {f"HTTP_{name.upper().replace('-', '_')}": value for name, value in headers.items()}
        usual = {"REQUEST_METHOD": method, "PATH_INFO": path, "REMOTE_ADDR": "192.0.2.7"}
        status, _, reply = wsgi_reply(wsgi_app(receiver, handler), wsgi_environ(body, **usual, **given | environ))
        return int(status[:3]), reply

    return send


def handled(
    way: str, receiver: WebhookReceiver, path: str, headers: Headers, body: bytes, handler: Any, **request: Any
) -> HttpReply:
    """Return the reply of ``handle``, of ``handle`` "in a thread", or else of ``handle_async``."""
    if way in ("handle", "in a thread"):
        return receiver.handle(path, headers, body, handler, in_thread=way == "in a thread", **request)
    return asyncio.run(receiver.handle_async(path, headers, body, handler, **request))


def by_method(body: bytes, way: str = "handle", **more: str) -> Sender:
    """Hand *body* to the receiver, with *more* headers."""

    def send(receiver: WebhookReceiver, handler: Any, method: str, path: str, headers: Headers) -> tuple[int, bytes]:
        reply = handled(way, receiver, path, headers | more, body, handler, method=method, peer="192.0.2.7")
        return reply.status, reply.body

    return send


@pytest.fixture
def handler() -> Handler:
    """A handler that answers 100.00."""
    return Handler()


@pytest.fixture
def receiver(public_key: RSAPublicKey) -> WebhookReceiver:
    """A receiver with the defaults."""
    return WebhookReceiver(authenticator=RsaSignature(public_key))


@pytest.fixture
def post(receiver: WebhookReceiver, handler: Handler, private_key: RSAPrivateKey) -> Post:
    """Post to the receiver, signed; a body that is no bytes is written as JSON first."""

    def send(path: str, body: object) -> HttpReply:
        raw = body if isinstance(body, bytes) else encoded(body)
        return receiver.handle(path, signed(private_key, raw), raw, handler)

    return send


@pytest.fixture
def anyio_backend() -> str:
    """The receiver runs under asyncio alone."""
    return "asyncio"
