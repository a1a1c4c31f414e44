"""
Wallets in this process: what may stand for one, and what its answer may look like.

However it is written, a wallet is here a function that takes path, headers and body of a webhook, and returns an answer
or something that is awaited for one.
"""

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import httpx

from game_operator.errors import shown
from game_operator.protocol.http import HttpResponse
from game_operator.webhooks.gate import normal_prefix
from game_operator.webhooks.handlers import AsyncWebhookHandler, WebhookHandler, is_async
from game_operator.webhooks.receiver import WebhookReceiver

if TYPE_CHECKING:
    from wsgiref.types import WSGIApplication

    from game_operator.webhooks.asgi import AsgiApp

__all__ = ["Deliver", "WalletInProcess", "answer_of", "asgi_wallet", "delivery_to", "wsgi_wallet"]

#: Takes path, headers and body. Any: each framework's test client returns a response of its own, or an awaitable of it.
Deliver: TypeAlias = Callable[[str, Mapping[str, str], bytes], Any]
#: What a sandbox takes for a wallet.
WalletInProcess: TypeAlias = WebhookHandler | AsyncWebhookHandler | Deliver

_HOST: Final = "http://wallet.localhost"
#: Applications by the names of their arguments, which all frameworks agree on, and what makes a wallet of each.
_APPLICATIONS: Final = {("scope", "receive", "send"): "asgi_wallet", ("environ", "start_response"): "wsgi_wallet"}
#: What test clients call the body of their responses: httpx and Django, Flask, and our own receiver.
_BODIES: Final = ("content", "data", "body")


def asgi_wallet(app: "AsgiApp", *, prefix: str = "") -> Deliver:
    """
    Return a wallet that is the ASGI application *app*: FastAPI, Starlette, Litestar, Django or ``asgi_app``.

    Its lifespan is not run. What it raises passes through to whoever plays, so that a test fails with its traceback.

    Args:
        app: The application.
        prefix: Where its four webhooks stand, such as ``/wallet``.
    """
    transport, url = httpx.ASGITransport(app), _HOST + normal_prefix(prefix)

    async def deliver(path: str, headers: Mapping[str, str], body: bytes) -> httpx.Response:
        request = httpx.Request("POST", url + path, headers=dict(headers), content=body)
        response = await transport.handle_async_request(request)
        await response.aread()
        return response

    return deliver


def wsgi_wallet(app: "WSGIApplication", *, prefix: str = "") -> Deliver:
    """
    Return a wallet that is the WSGI application *app*: Flask, Django or ``wsgi_app``.

    It runs in the thread that plays. What it raises passes through to whoever plays.

    Args:
        app: The application.
        prefix: Where its four webhooks stand, such as ``/wallet``.
    """
    transport, url = httpx.WSGITransport(app), _HOST + normal_prefix(prefix)

    def deliver(path: str, headers: Mapping[str, str], body: bytes) -> httpx.Response:
        request = httpx.Request("POST", url + path, headers=dict(headers), content=body)
        response = transport.handle_request(request)
        response.read()
        return response

    return deliver


def delivery_to(wallet: WalletInProcess, receiver: Callable[[], WebhookReceiver]) -> Deliver:
    """
    Return the function that delivers to *wallet*; a handler is put behind what *receiver* returns.

    Raises:
        TypeError: It is nothing that can be delivered to.
    """
    if isinstance(wallet, WebhookHandler):
        return _behind(receiver, wallet)
    if not callable(wallet):
        raise TypeError(
            f"a wallet must be a webhook handler or a function of path, headers and body, not {type(wallet).__name__}"
        )
    maker = _APPLICATIONS.get(_arguments_of(wallet))
    if maker is not None:
        raise TypeError(f"{type(wallet).__name__} is an application: pass {maker}(app, prefix=…) instead")
    return wallet


def answer_of(response: Any) -> HttpResponse:
    """
    Return what a wallet answered; *response* is a test client's, an ``HttpReply``, or (status, headers, body).

    Raises:
        TypeError: It is none of these.
    """
    if isinstance(response, tuple) and len(response) == 3:
        status, headers, body = response
    else:
        status = getattr(response, "status_code", getattr(response, "status", None))
        headers = getattr(response, "headers", ())
        body = next((getattr(response, name) for name in _BODIES if hasattr(response, name)), None)
    if type(status) is int and isinstance(body, bytes):
        return HttpResponse(status, _raw(headers), body)
    raise TypeError(
        f"a wallet must return its response, or (status, headers, body) with an int and bytes, not {shown(response)}"
    )


def _behind(receiver: Callable[[], WebhookReceiver], handler: WebhookHandler | AsyncWebhookHandler) -> Deliver:
    # Here and not at the first call, for a handler that lacks a method is a mistake of whoever passes it.
    awaited = is_async(handler)

    def deliver(path: str, headers: Mapping[str, str], body: bytes) -> Any:
        handle = receiver().handle_async if awaited else receiver().handle
        # A sync handler runs in the thread that plays, where a test's own connections are.
        return handle(path, headers, body, handler)  # type: ignore[arg-type]  # It is the kind that *awaited* says.

    return deliver


def _arguments_of(wallet: Callable[..., object]) -> tuple[str, ...]:
    try:
        return tuple(inspect.signature(wallet).parameters)
    except (TypeError, ValueError):  # Some callables written in C tell nothing of themselves.
        return ()


def _raw(headers: Mapping[str, str] | Iterable[tuple[str, str]]) -> tuple[tuple[bytes, bytes], ...]:
    pairs = headers.items() if hasattr(headers, "items") else headers
    return tuple((name.encode("latin-1"), value.encode("latin-1")) for name, value in pairs)
