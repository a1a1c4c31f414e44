"""
The receiver: whatever comes in on a webhook, a well-formed reply goes out (spec §2.1, §4.1).

``open`` and ``close`` are the pure half, in ``gate``. Here a handler is put between them, within a time budget, and
somebody is told what came of it.
"""

import asyncio
import contextvars
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from game_operator.codes import WebhookErrorCode
from game_operator.errors import one_line, shown
from game_operator.models.webhooks import Reply, WebhookCall
from game_operator.profile import Profile
from game_operator.webhooks.authenticators import Authenticator, WebhookRequest
from game_operator.webhooks.gate import DepositBatch, Gate, HttpReply, Instances, Refusal
from game_operator.webhooks.handlers import METHODS, AsyncWebhookHandler, WebhookHandler, is_async

__all__ = ["HandledCall", "HeadersLike", "HttpReply", "Refusal", "WebhookReceiver", "WebhookRequest"]

_LOG = logging.getLogger("game_operator.webhooks")
_BATCH_BUDGETS = 6
_BATCH_STRIDE = 64

#: Headers as frameworks hand them over: a mapping, or pairs, which can show a header that is there twice.
HeadersLike: TypeAlias = Mapping[Any, Any] | Iterable[tuple[Any, Any]]
_Opened: TypeAlias = WebhookCall | DepositBatch | Refusal


@dataclass(frozen=True, slots=True)
class HandledCall:
    """
    A call and what became of it, for ``on_call``.

    Attributes:
        path: The path it was posted to, as it came in.
        peer: Who connected, or None.
        call: The call, or None when it was refused before there was one.
        code: The reply's code before folding; None for SUCCESS and for a batch.
        reason: Why it was refused or failed; "" when the handler answered.
        status: The HTTP status.
        elapsed_seconds: From the body's arrival to the reply.
    """

    path: str
    peer: str | None
    call: WebhookCall | None
    code: str | None
    reason: str
    status: int
    elapsed_seconds: float


class _OverBudgetError(Exception):
    """The handler took longer than its time budget; whether it did its work is unknown."""


class WebhookReceiver(Gate):
    """
    Turns requests into calls, calls into outcomes through a handler, and outcomes into replies.

    Args:
        authenticator: Says who may call. There is no default, for a default would accept everybody.
        profile: What is assumed about bodies, signatures and replies.
        instances: The game instances that are yours, as a collection or as a callable that returns one. With it a
            withdraw or claim for another instance, or for none, is refused: the provider may sign for other operators
            with the same key (assumed, docs/decisions/0011).
        on_call: Called with a HandledCall after each call; what it raises is logged.
        budget_seconds: A call that takes longer is answered SYSTEM_ERROR; a batch has six times as long.
        warn_seconds: A call that takes longer is logged as slow.
        max_threads: How many calls of a sync handler run at a time under ASGI and WSGI.
    """

    def __init__(
        self,
        *,
        authenticator: Authenticator,
        profile: Profile | None = None,
        instances: Instances | None = None,
        on_call: Callable[[HandledCall], object] | None = None,
        budget_seconds: float = 10.0,
        warn_seconds: float = 0.5,
        max_threads: int = 40,
    ) -> None:
        super().__init__(authenticator, profile or Profile(), instances)
        self.budget_seconds: Final = budget_seconds
        self.max_threads: Final = max_threads
        self._on_call = on_call
        self._warn_seconds = warn_seconds
        self._threads: ThreadPoolExecutor | None = None

    def handle(
        self,
        path: str,
        headers: HeadersLike,
        body: bytes,
        handler: WebhookHandler,
        *,
        method: str = "POST",
        peer: str | None = None,
    ) -> HttpReply:
        """
        Answer one request with *handler*, in this thread and without a framework.

        A call over its time budget is answered SYSTEM_ERROR, but not interrupted.

        Args:
            path: The path below your own prefix, such as ``/withdraw``.
            headers: A mapping, or pairs of name and value, which can show a header that is there twice.
            body: The raw bytes of the body.
            handler: A WebhookHandler.
            method: The HTTP method.
            peer: The address of whoever opened the connection, for IpAllowList.
        """
        return self._answer(_request(path, headers, body, method, peer), handler, self._call_here)

    def handle_in_thread(
        self,
        path: str,
        headers: HeadersLike,
        body: bytes,
        handler: WebhookHandler,
        *,
        method: str = "POST",
        peer: str | None = None,
    ) -> HttpReply:
        """
        Answer one request as ``handle`` does, the handler in one of ``max_threads`` threads.

        Over its budget the call is answered SYSTEM_ERROR at once, and runs on in its thread.
        """
        return self._answer(_request(path, headers, body, method, peer), handler, self._call_in_thread)

    async def handle_async(
        self,
        path: str,
        headers: HeadersLike,
        body: bytes,
        handler: WebhookHandler | AsyncWebhookHandler,
        *,
        method: str = "POST",
        peer: str | None = None,
    ) -> HttpReply:
        """
        Answer one request as ``handle`` does, under asyncio.

        An async handler is cancelled at its time budget. A sync handler runs in one of ``max_threads`` threads and,
        over its budget, runs on there: it is logged, and holds its thread until it ends.
        """
        started = time.perf_counter()
        request = _request(path, headers, body, method, peer)
        opened = self.open(request)
        invoke = self._call_awaited if is_async(handler) else self._call_from_loop
        if isinstance(opened, Refusal):
            if opened.anomaly:
                await self._keep_async(handler, opened, invoke)
            return self._closed(request, None, opened, started)
        if isinstance(opened, DepositBatch):
            answers = await self._batch_async(handler, opened, invoke, started)
            return self._closed_batch(request, answers, started)
        try:
            result: object = await invoke(handler, opened)
        except Exception as failed:  # Whatever it is, the caller gets a reply.
            result = failed
        return self._closed(request, opened, result, started)

    def _call_here(self, handler: Any, call: WebhookCall) -> object:
        started = time.perf_counter()
        result = getattr(handler, METHODS[call.operation])(call)
        if time.perf_counter() - started > self.budget_seconds:
            raise _OverBudgetError
        return result

    def _call_in_thread(self, handler: Any, call: WebhookCall) -> object:
        future = self._submitted(handler, call)
        try:
            return future.result(self.budget_seconds)
        except FutureTimeoutError:
            if not future.done():  # Else the handler itself raised it.
                _abandon(future, call)
                raise _OverBudgetError from None
            raise

    async def _call_from_loop(self, handler: Any, call: WebhookCall) -> object:
        future = self._submitted(handler, call)
        waiting = asyncio.wrap_future(future)
        done, _ = await asyncio.wait({waiting}, timeout=self.budget_seconds)
        if not done:
            _abandon(future, call)
            raise _OverBudgetError
        return waiting.result()

    async def _call_awaited(self, handler: Any, call: WebhookCall) -> object:
        budget = asyncio.timeout(self.budget_seconds)
        try:
            async with budget:
                return await getattr(handler, METHODS[call.operation])(call)
        except TimeoutError:
            if budget.expired():
                raise _OverBudgetError from None
            raise

    def _submitted(self, handler: Any, call: WebhookCall) -> "Future[object]":
        if self._threads is None:
            self._threads = ThreadPoolExecutor(self.max_threads, thread_name_prefix="game-operator-webhook")
        method = getattr(handler, METHODS[call.operation])
        return self._threads.submit(contextvars.copy_context().run, method, call)

    def _answer(
        self, request: WebhookRequest, handler: WebhookHandler, invoke: Callable[[Any, WebhookCall], object]
    ) -> HttpReply:
        started = time.perf_counter()
        opened = self.open(request)
        if isinstance(opened, Refusal):
            if opened.anomaly:
                self._keep(handler, opened)
            return self._closed(request, None, opened, started)
        if isinstance(opened, DepositBatch):
            return self._closed_batch(request, self._batch(handler, opened, invoke, started), started)
        return self._closed(request, opened, _outcome(invoke, handler, opened), started)

    def _batch(
        self,
        handler: WebhookHandler,
        batch: DepositBatch,
        invoke: Callable[[Any, WebhookCall], object],
        started: float,
    ) -> list[tuple[str | None, Reply]]:
        answers: list[tuple[str | None, Reply]] = []
        for item in batch.items:
            if time.perf_counter() - started > self.budget_seconds * _BATCH_BUDGETS:
                break
            if item.call is None:
                self._keep(handler, _item_refusal(item.problem, item.body))
            result = _outcome(invoke, handler, item.call) if item.call else _item_refusal(item.problem, item.body)
            self._collect(answers, item.tx_id, item.call, result)
        return answers

    async def _batch_async(
        self,
        handler: Any,
        batch: DepositBatch,
        invoke: Callable[[Any, WebhookCall], Awaitable[object]],
        started: float,
    ) -> list[tuple[str | None, Reply]]:
        answers: list[tuple[str | None, Reply]] = []
        for first in range(0, len(batch.items), _BATCH_STRIDE):
            if time.perf_counter() - started > self.budget_seconds * _BATCH_BUDGETS:
                break
            # Together, so that a ledger can put them into one commit.
            items = batch.items[first : first + _BATCH_STRIDE]
            calls = [item.call for item in items if item.call]
            results = iter(await asyncio.gather(*(invoke(handler, call) for call in calls), return_exceptions=True))
            for item in items:
                refusal = None if item.call else _item_refusal(item.problem, item.body)
                if refusal:
                    await self._keep_async(handler, refusal, invoke)
                self._collect(answers, item.tx_id, item.call, refusal or next(results))
        return answers

    def _collect(
        self, answers: list[tuple[str | None, Reply]], tx_id: str | None, call: WebhookCall | None, result: object
    ) -> None:
        reply, _, reason = self.judged(result, call)
        if reason:
            self._log_refusal("a deposit of a batch", reason, result)
        # Our own failures are left out: a missing item is sent again.
        if reply.code != WebhookErrorCode.SYSTEM_ERROR:
            answers.append((tx_id, reply))

    def _closed(self, request: WebhookRequest, call: WebhookCall | None, result: object, started: float) -> HttpReply:
        reply, status, reason = self.judged(result, call)
        if reason:
            reason = self._log_refusal(f"{shown(request.path)} from {shown(request.peer)}", reason, result)
        written = self.written(reply, status, _now_millis())
        self._observe(request, call, reply.code, reason, status, started)
        return written

    def _closed_batch(
        self, request: WebhookRequest, answers: list[tuple[str | None, Reply]], started: float
    ) -> HttpReply:
        written = self.written_batch(answers, _now_millis())
        self._observe(request, None, None, "", 200, started)
        return written

    def _log_refusal(self, what: str, reason: str, result: object) -> str:
        if isinstance(result, _OverBudgetError):
            reason = f"the handler took longer than its budget of {self.budget_seconds} s"
            _LOG.error("%s answered SYSTEM_ERROR: %s", what, reason)
        elif isinstance(result, Refusal):
            _LOG.warning("%s refused with %s: %s", what, result.code, one_line(reason))
        elif isinstance(result, Exception):
            _LOG.error("%s answered SYSTEM_ERROR: %s", what, reason, exc_info=result)
        else:
            _LOG.error("%s answered SYSTEM_ERROR: %s", what, one_line(reason))
        return reason

    def _observe(
        self,
        request: WebhookRequest,
        call: WebhookCall | None,
        code: str | None,
        reason: str,
        status: int,
        started: float,
    ) -> None:
        elapsed = time.perf_counter() - started
        if elapsed > self._warn_seconds:
            _LOG.warning("%s took %.0f ms; the service gives up sooner or later", shown(request.path), elapsed * 1000)
        if self._on_call is None:
            return
        try:
            self._on_call(HandledCall(request.path, request.peer, call, code, reason, status, elapsed))
        except Exception:  # A look on must not change what is answered.
            _LOG.exception("on_call raised")

    def _keep(self, handler: Any, refusal: Refusal) -> None:
        keep = getattr(handler, "keep_anomaly", None)
        if keep is not None:
            try:
                keep(refusal.operation, refusal.anomaly, refusal.body)
            except Exception:  # The refusal stands, whether or not it could be kept.
                _LOG.exception("an anomaly could not be kept")

    async def _keep_async(self, handler: Any, refusal: Refusal, invoke: object) -> None:
        if invoke != self._call_awaited:
            await asyncio.get_running_loop().run_in_executor(self._threads, self._keep, handler, refusal)
            return
        keep = getattr(handler, "keep_anomaly", None)
        if keep is not None:
            try:
                await keep(refusal.operation, refusal.anomaly, refusal.body)
            except Exception:  # The refusal stands, whether or not it could be kept.
                _LOG.exception("an anomaly could not be kept")


def _outcome(invoke: Callable[[Any, WebhookCall], object], handler: WebhookHandler, call: WebhookCall) -> object:
    try:
        return invoke(handler, call)
    except Exception as failed:  # Whatever it is, the caller gets a reply.
        return failed


def _item_refusal(problem: str, body: bytes) -> Refusal:
    return Refusal(WebhookErrorCode.INVALID_REQUEST, problem, 200, "deposit", "unreadable", body)


def _abandon(future: "Future[object]", call: WebhookCall) -> None:
    if future.cancel():
        return
    started = time.perf_counter()

    def tell(ended: "Future[object]") -> None:
        failed = ended.exception()
        how = f"raised {type(failed).__name__}" if failed else "ended"
        seconds = time.perf_counter() - started
        _LOG.error("a %s that was answered SYSTEM_ERROR %s %.1f s after that", call.operation, how, seconds)

    future.add_done_callback(tell)


def _request(path: str, headers: HeadersLike, body: bytes, method: str, peer: str | None) -> WebhookRequest:
    pairs: Any = headers.items() if isinstance(headers, Mapping) else headers
    try:
        fields = tuple((_bytes(name).lower(), _bytes(value)) for name, value in pairs)
    except (TypeError, ValueError):  # Headers of no form that we know carry no signature.
        fields = ()
    return WebhookRequest(method, path, fields, bytes(body), peer, _now_millis())


def _bytes(text: object) -> bytes:
    if isinstance(text, bytes):
        return text
    return text.encode("utf-8", "surrogateescape") if isinstance(text, str) else str(text).encode("utf-8", "replace")


def _now_millis() -> int:
    return time.time_ns() // 1_000_000
