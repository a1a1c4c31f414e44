"""
Wallets in this process: what may stand for one, what its answer may look like, and how requests are carried to one.

However it is written, a wallet is here a function that takes path, headers and body of a webhook, and returns an answer
or something that is awaited for one.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import httpx

from game_operator.errors import ConfigurationError, shown
from game_operator.profile import Profile
from game_operator.protocol.http import HttpReply, joined_headers
from game_operator.webhooks.gate import normal_prefix
from game_operator.webhooks.handlers import AsyncWebhookHandler, WebhookHandler, is_async
from game_operator.webhooks.receiver import WebhookReceiver
from game_operator_testkit.provider.delivery import Begun, Carried
from game_operator_testkit.provider.keys import ServiceKeys
from game_operator_testkit.provider.requests import Manner, Request

if TYPE_CHECKING:
    from wsgiref.types import WSGIApplication

    from game_operator.webhooks.adapters import AsgiApp

#: Takes path, headers and body, and returns the reply.
ReplyingWallet: TypeAlias = Callable[[str, Mapping[str, str], bytes], HttpReply | Awaitable[HttpReply]]
#: As above, with any response. Any: each framework's test client has another type, or an awaitable of one.
Deliver: TypeAlias = Callable[[str, Mapping[str, str], bytes], Any]
#: What a sandbox takes for a wallet.
WalletInProcess: TypeAlias = WebhookHandler | AsyncWebhookHandler | Deliver

_THREADS: Final = 16
_IN_A_THREAD: Final = "Call in another thread: await asyncio.to_thread(certify_in_process, …)."
_HOST: Final = "http://wallet.localhost"
#: Applications by the names of their arguments, which all frameworks agree on, and what makes a wallet of each.
_APPLICATIONS: Final = {("scope", "receive", "send"): "asgi_wallet", ("environ", "start_response"): "wsgi_wallet"}
#: What test clients call the body of their responses: httpx and Django, Flask, and our own receiver.
_BODIES: Final = ("content", "data", "body")


class WrongReplyError(TypeError):
    """The function that stands for a wallet returns no reply: its author's mistake, and no answer of the wallet."""


def asgi_wallet(app: "AsgiApp", *, prefix: str = "") -> ReplyingWallet:
    """
    Return a wallet that is the ASGI application *app*: FastAPI, Starlette, Litestar, Django or ``asgi_app``.

    Its lifespan is not run. What it raises passes through to the caller, so that a test fails with its traceback.

    Args:
        app: The application.
        prefix: Where its four webhooks stand, such as ``/wallet``.
    """
    transport, url = httpx.ASGITransport(app), _HOST + normal_prefix(prefix)

    async def deliver(path: str, headers: Mapping[str, str], body: bytes) -> HttpReply:
        request = httpx.Request("POST", url + path, headers=dict(headers), content=body)
        response = await transport.handle_async_request(request)
        await response.aread()
        return answer_of(response)

    return deliver


def wsgi_wallet(app: "WSGIApplication", *, prefix: str = "") -> ReplyingWallet:
    """
    Return a wallet that is the WSGI application *app*: Flask, Django or ``wsgi_app``.

    It runs in the thread that plays. What it raises passes through to the caller.

    Args:
        app: The application.
        prefix: Where its four webhooks stand, such as ``/wallet``.
    """
    transport, url = httpx.WSGITransport(app), _HOST + normal_prefix(prefix)

    def deliver(path: str, headers: Mapping[str, str], body: bytes) -> HttpReply:
        request = httpx.Request("POST", url + path, headers=dict(headers), content=body)
        response = transport.handle_request(request)
        response.read()
        return answer_of(response)

    return deliver


def delivery_to(wallet: WalletInProcess, receiver: Callable[[], WebhookReceiver]) -> Deliver:
    """
    Return the function that delivers to *wallet*; a handler is put behind what *receiver* returns.

    Raises:
        TypeError: Nothing can be delivered to it.
    """
    if isinstance(wallet, WebhookHandler):
        return _behind(receiver, wallet)
    return checked_function(wallet, "a webhook handler or a function of path, headers and body")


def checked_function(wallet: Any, expected: str = "a function of path, headers and body") -> Deliver:
    """
    Return *wallet*, which can be called with path, headers and body.

    Raises:
        TypeError: It is not *expected*.
    """
    if not callable(wallet):
        raise TypeError(
            f"a wallet must be {expected}, not {type(wallet).__name__}: pass a function that returns "
            "receiver.handle(path, headers, body, handler)"
        )
    function: Deliver = wallet
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # Some callables written in C have no signature.
        return function
    maker = _APPLICATIONS.get(tuple(signature.parameters))
    if maker is not None:
        raise TypeError(f"{type(wallet).__name__} is an application: pass {maker}(app, prefix=…) instead")
    try:
        signature.bind("/withdraw", {}, b"")
    except TypeError:
        raise TypeError(f"a wallet must be {expected}, and this one takes {signature}") from None
    return function


def answer_of(response: Any) -> HttpReply:
    """
    Return what a wallet answered; *response* is a test client's, an ``HttpReply``, or (status, headers, body).

    Raises:
        WrongReplyError: It is something else.
    """
    if isinstance(response, tuple) and len(response) == 3:
        status, headers, body = response
    else:
        status = getattr(response, "status_code", getattr(response, "status", None))
        headers = getattr(response, "headers", ())
        body = next((getattr(response, name) for name in _BODIES if hasattr(response, name)), None)
    try:
        pairs = headers.items() if hasattr(headers, "items") else headers
        fields = joined_headers((name.encode("latin-1"), value.encode("latin-1")) for name, value in pairs)
    except Exception:  # A mapping of the wallet's own can raise anything.
        fields = None
    if _is_status(status) and fields is not None and isinstance(body, bytes):
        return HttpReply(status, fields, body)
    wrong = ("body" if fields is not None else "headers") if _is_status(status) else "status"
    raise WrongReplyError(
        "a wallet must return its response, or (status, headers, body) with an int, str in str and bytes. "
        f"The {wrong} of {shown(response)} cannot be used."
    )


def _is_status(status: object) -> bool:
    return isinstance(status, int) and not isinstance(status, bool) and 100 <= status <= 999


class OwnLoop:
    """An event loop for async wallets, kept for all calls: a wallet's connections belong to the loop that made them."""

    def __init__(self) -> None:
        self._runner: asyncio.Runner | None = None
        #: An event loop runs in one thread at a time.
        self._lock = Lock()

    def result_of(self, awaitable: Awaitable[Any]) -> Any:
        """Return what comes of *awaitable*."""
        with self._lock:
            self._runner = self._runner or asyncio.Runner(loop_factory=asyncio.new_event_loop)
            return self._runner.run(_awaited(awaitable))

    def close(self) -> None:
        """Close the loop, if there is one."""
        with self._lock:
            if self._runner is not None:
                self._runner.close()
            self._runner = None


def a_loop_runs_here() -> bool:
    """Return whether an event loop runs in this thread."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


async def _awaited(awaitable: Awaitable[Any]) -> Any:
    return await awaitable


class InProcessCarrier:
    """
    Signs requests and carries them to *wallet*; what it raises is its answer. What it returns must be a reply.

    Calls at once run in as many threads, or in one event loop if the wallet is async. A call that never ends is not
    ended here. A connection that is cut is simulated: the wallet is called, and its answer dropped.

    Args:
        wallet: Takes path, headers and body, and returns an ``HttpReply``, or an awaitable of one. Another type is a
            ``WrongReplyError`` of ``carry``.
        keys: What requests are signed with.
        profile: Names the header of the signature.
        second: Another wallet on the same database.
    """

    on_wire = False

    def __init__(
        self,
        wallet: ReplyingWallet,
        keys: ServiceKeys,
        *,
        profile: Profile | None = None,
        second: ReplyingWallet | None = None,
    ) -> None:
        self._wallets = {"wallet": wallet, "elsewhere": wallet, "second": second or wallet}
        self._keys, self._header = keys, (profile or Profile()).signature_header
        # Known from the first answer on, and the first request of a run is alone.
        self._is_async = False
        self._loop = OwnLoop()
        self._threads: ThreadPoolExecutor | None = None

    def carry(self, requests: Sequence[Request]) -> list[Carried]:
        """
        Carry *requests*, all at once if there are several.

        Raises:
            WrongReplyError: The wallet returned something else than an ``HttpReply``.
        """
        if len(requests) == 1:
            return [self._one(requests[0])]
        if self._is_async:

            async def gathered() -> list[Carried]:
                return await asyncio.gather(*map(self._one_awaited, requests))

            answers: list[Carried] = self._loop.result_of(gathered())
            return answers
        self._threads = self._threads or ThreadPoolExecutor(_THREADS, thread_name_prefix="certify")
        return list(self._threads.map(self._one, requests))

    def close(self) -> None:
        """End the threads and the event loop, if there are any."""
        if self._threads is not None:
            self._threads.shutdown()
        self._loop.close()

    def _one(self, request: Request) -> Carried:
        begun = Begun(request, self._keys.headers(request, self._header))
        try:
            answer = called(self._wallets[request.at], begun)
            if inspect.isawaitable(answer) and not a_loop_runs_here():
                self._is_async = True
                answer = self._loop.result_of(answer)
        except WrongReplyError:  # Of ``answer_of``, within the function.
            raise
        except (Exception, asyncio.CancelledError) as failed:  # What the wallet raises is its answer.
            return begun.carried(None, _problem_of(failed))
        if inspect.isawaitable(answer):
            raise not_awaited(answer, _IN_A_THREAD)
        return _checked(begun, answer)

    async def _one_awaited(self, request: Request) -> Carried:
        begun = Begun(request, self._keys.headers(request, self._header))
        try:
            answer = called(self._wallets[request.at], begun)
            if inspect.isawaitable(answer):
                answer = await answer
        except WrongReplyError:
            raise
        except (Exception, asyncio.CancelledError) as failed:  # See above.
            return begun.carried(None, _problem_of(failed))
        return _checked(begun, answer)


def called(wallet: Deliver, begun: Begun) -> Any:
    """Return what *wallet* returns for a request."""
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in begun.headers}
    return wallet(begun.request.path, headers, begun.request.body)


def not_awaited(answer: Awaitable[Any], instead: str) -> ConfigurationError:
    """Return the error of an async wallet that cannot be awaited here; *instead* says what to do."""
    if inspect.iscoroutine(answer):
        answer.close()
    return ConfigurationError(f"The wallet is async, and an event loop runs in this thread. {instead}")


def _checked(begun: Begun, answer: Any) -> Carried:
    if not isinstance(answer, HttpReply):
        raise WrongReplyError(
            f"The wallet returned {type(answer).__name__} to {begun.request.path}. An HttpReply "
            "(game_operator.webhooks) is expected: return receiver.handle(path, headers, body, handler), or "
            "HttpReply(status, headers, body)."
        )
    reply = replace(answer_of(answer), defect=answer.defect)
    if begun.request.manner is Manner.CUT:
        return begun.carried(None, "the answer was dropped, on purpose")
    return begun.carried(reply, reply.defect)


def _problem_of(failed: BaseException) -> str:
    try:
        text = str(failed)
    except Exception:  # The __str__ of an error of the wallet's can raise.
        text = "…"
    return f"the wallet raised {type(failed).__name__}: {text}"


def _behind(receiver: Callable[[], WebhookReceiver], handler: WebhookHandler | AsyncWebhookHandler) -> Deliver:
    # Here and not at the first call, because a handler that lacks a method is the caller's mistake.
    awaited = is_async(handler)

    def deliver(path: str, headers: Mapping[str, str], body: bytes) -> Any:
        handle = receiver().handle_async if awaited else receiver().handle
        # A sync handler runs in the thread that plays, where a test's own connections are.
        return handle(path, headers, body, handler)  # type: ignore[arg-type]  # It is the kind that *awaited* says.

    return deliver
