"""
The receiver: every request to a webhook gets a well-formed reply (spec §2.1, §4.1).

``open`` and ``close`` are the pure half, in ``gate``. Here a handler is put between them, within a time budget, and
the outcome is logged and passed to ``on_call``.
"""

import asyncio
import inspect
import logging
import math
import os
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from game_operator.codes import WebhookErrorCode
from game_operator.errors import ConfigurationError, one_line, shown
from game_operator.models.webhooks import Reply, WebhookCall
from game_operator.profile import Profile
from game_operator.protocol.http import HttpReply
from game_operator.webhooks.authenticators import Authenticator, WebhookRequest
from game_operator.webhooks.budget import AsyncRunner, Budget, OverBudget, Runner, log_failure
from game_operator.webhooks.gate import DepositBatch, Gate, Instances, Refusal
from game_operator.webhooks.handlers import AsyncWebhookHandler, WebhookHandler, is_async

if TYPE_CHECKING:
    from game_operator.telemetry import Telemetry
else:
    Telemetry = object  # Who reads hints at run time loads no OpenTelemetry.

_LOG = logging.getLogger("game_operator.webhooks")
#: A line for each reply by which a handler refused a call, and nothing else.
_REFUSALS = logging.getLogger("game_operator.webhooks.refusals")
_BATCH_BUDGETS: Final = 6
_LONGEST_REASON: Final = 1_000
#: How many deposits of a batch are handled together: as many as a ledger puts into one commit, but in threads a few.
_AWAITED_TOGETHER: Final = 64
_IN_THREADS_TOGETHER: Final = 8

#: Headers as frameworks hand them over: a mapping, or pairs, which can show a header that is there twice.
HeadersLike: TypeAlias = Mapping[Any, Any] | Iterable[tuple[Any, Any]]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class HandledCall:
    """
    A call and what became of it, for ``on_call``.

    Attributes:
        path: The path it was posted to, as it came in.
        peer: Who connected, or None.
        call: The call, or None when it was refused before there was one.
        code: The reply's code before folding; None for SUCCESS.
        reason: Why it was refused or failed, on one line; "" when the handler answered.
        status: The HTTP status.
        elapsed_seconds: From the body's arrival to the reply.
        operation: What the path asked for: ``withdraw``, ``deposit``, ``rollback`` or ``player-balance``; "" for an
            unknown path.
        correlation_id: 16 hexadecimal digits that name the request in log records and spans, too. The deposits of a
            batch share them.
    """

    path: str
    peer: str | None
    call: WebhookCall | None
    code: str | None
    reason: str
    status: int
    elapsed_seconds: float
    operation: str = ""
    correlation_id: str = ""


class _Arrival:
    """A request, when it came, and what its log records and its span share."""

    __slots__ = ("_correlation_id", "request", "span", "started")

    def __init__(self, request: WebhookRequest, telemetry: "Telemetry | None", operation: str) -> None:
        self.started: Final = time.perf_counter()
        self.request: Final = request
        self._correlation_id = ""
        self.span: Final = None if telemetry is None else telemetry.webhook(operation, self.correlation_id)

    @property
    def correlation_id(self) -> str:
        """Names it in log records, spans and ``on_call``; made when the first of them asks."""
        self._correlation_id = self._correlation_id or os.urandom(8).hex()
        return self._correlation_id

    def elapsed(self) -> float:
        """Return for how many seconds the request is here."""
        return time.perf_counter() - self.started

    def note(self, operation: str, reply: Reply, result: object, call: WebhookCall | None) -> None:
        """Let its span, if it has one, take note of how a call ended."""
        if self.span is not None:
            anomaly = result.anomaly if isinstance(result, Refusal) else ""
            self.span.note(operation, _outcome(reply.code, result), reply.code, call, anomaly)

    def end(self) -> None:
        """End its span; once, in the thread or task in which it arrived."""
        if self.span is not None:
            self.span.end()


class WebhookReceiver(Gate):
    """
    Turns requests into calls, calls into outcomes through a handler, and outcomes into replies.

    One receiver serves any number of threads, event loops and handlers.

    Args:
        authenticator: Says who may call. There is no default, because a default would accept everybody.
        profile: What is assumed about bodies, signatures and replies.
        instances: The game instances that are yours, as anything that ``in`` looks into at once, such as a set or a
            ``backoffice.Catalogue``. With it a withdraw or claim for another instance, or for none, is refused: the
            provider may sign for other operators with the same key (assumed, docs/decisions/0011). Where it raises
            ``InstancesUnavailableError`` the answer is SYSTEM_ERROR, and the service sends the call again.
        on_call: Called with a HandledCall after each call, and after each deposit of a batch, before the reply is
            sent; what it raises is logged. It must return at once.
        budget_seconds: A call that takes longer is answered SYSTEM_ERROR; a batch has six times as long.
        warn_seconds: A call that takes so long or longer is logged as slow.
        max_threads: How many calls of a sync handler run at a time under ASGI and WSGI.
        telemetry: A ``game_operator.telemetry.Telemetry``, for spans and metrics of the calls (extra ``otel``).

    Attributes:
        calls_by_key: How many genuine requests each key has signed since this receiver was made, by the name that the
            authenticator gives a key: for the end of a rotation.

    Raises:
        TypeError: An argument is of another kind.
        ConfigurationError: A budget is not above 0, or there is not one thread.
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
        telemetry: "Telemetry | None" = None,
    ) -> None:
        super().__init__(authenticator, Profile() if profile is None else profile, instances)
        returns_at_once = callable(on_call) and not inspect.iscoroutinefunction(on_call)
        if on_call is not None and not returns_at_once:
            raise TypeError("on_call must be a function that returns at once, and not an async one")
        self.budget_seconds: Final = _seconds("budget_seconds", budget_seconds)
        self._warn_seconds = _seconds("warn_seconds", warn_seconds)
        if type(max_threads) is not int or max_threads < 1:
            problem = f"max_threads must be a whole number above 0, not {shown(max_threads)}."
            raise ConfigurationError(problem, setting="max_threads")
        self.max_threads: Final = max_threads
        self._on_call, self._telemetry = on_call, telemetry
        self.calls_by_key: Counter[str] = Counter()
        self._counting = Lock()
        self._budget = Budget(max_threads)
        self._last_handler: tuple[object, bool] = (self, False)  # No handler.

    def handle(
        self,
        path: str,
        headers: HeadersLike,
        body: bytes,
        handler: WebhookHandler,
        *,
        method: str = "POST",
        peer: str | None = None,
        in_thread: bool = False,
    ) -> HttpReply:
        """
        Answer one request with *handler*, without a framework.

        A call over its time budget is answered SYSTEM_ERROR. In this thread it is not interrupted, so the answer waits
        for it. With *in_thread* it is answered at once, and runs on in its thread.

        Args:
            path: The path below your own prefix, such as ``/withdraw``.
            headers: A mapping, or pairs of name and value, which can show a header that is there twice.
            body: The raw bytes of the body.
            handler: A WebhookHandler.
            method: The HTTP method.
            peer: The address that opened the connection, for IpAllowList.
            in_thread: Whether the handler runs in one of ``max_threads`` threads, instead of in this one.

        Raises:
            TypeError: The handler is async, or lacks a method. Nothing that a stranger sends makes anything raise.
        """
        if self._is_awaited(handler):
            raise TypeError(f"the handler {type(handler).__name__} is async: await handle_async, or use asgi_app")
        arrival = self._arrived(_request(path, headers, body, method, peer))
        run: Runner = self._budget.in_thread if in_thread else self._budget.here
        try:
            opened = self.open(arrival.request)
            if isinstance(opened, Refusal | DepositBatch):
                return _run_in_turn(self._without_a_call(arrival, handler, opened, 1), run)
            return self._closed(arrival, opened, run(self.budget_seconds, _method(handler, opened), opened))
        finally:
            arrival.end()

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

        When the task that awaits this is cancelled, so is an async handler; a sync one that has begun is not
        interrupted, and one that waits for a thread never begins.

        Raises:
            TypeError: The handler lacks a method, or is half async. Nothing that a stranger sends raises.
        """
        return await self.answer(_request(path, headers, body, method, peer), handler)

    async def answer(self, request: WebhookRequest, handler: WebhookHandler | AsyncWebhookHandler) -> HttpReply:
        """Return the answer of *handler*, as ``handle_async`` does; header names in *request* are in lower case."""
        arrival = self._arrived(request)
        try:
            awaited = self._is_awaited(handler)
            run: AsyncRunner = self._budget.awaited if awaited else self._budget.from_loop
            opened = self.open(request)
            if isinstance(opened, Refusal | DepositBatch):
                together = _AWAITED_TOGETHER if awaited else _IN_THREADS_TOGETHER
                return await _run_together(self._without_a_call(arrival, handler, opened, together), run)
            return self._closed(arrival, opened, await run(self.budget_seconds, _method(handler, opened), opened))
        finally:
            arrival.end()

    def refuse(self, path: str, reason: str, *, method: str = "POST", peer: str | None = None) -> HttpReply:
        """
        Answer a request whose body was not read to its end.

        It is SYSTEM_ERROR, because nobody knows what the call said; 404 and 405 are as for any other request.

        Args:
            path: The path below your own prefix.
            reason: Why, for the log and ``on_call``.
            method: The HTTP method.
            peer: The address that opened the connection.
        """
        request = WebhookRequest(method, path, (), b"", peer, 0)
        arrival = self._arrived(request)
        try:
            operation = self._operation_at(path)
            unread = Refusal(WebhookErrorCode.SYSTEM_ERROR, reason, operation=operation, is_unread=True)
            return self._closed(arrival, None, self._unrouted(request, operation) or unread)
        finally:
            arrival.end()

    def _count_key(self, key: object) -> None:
        if isinstance(key, str) and key:  # An authenticator of the user's may return anything.
            with self._counting:
                self.calls_by_key[key] += 1
            if self._telemetry is not None:
                self._telemetry.instruments.calls_by_key.add(1, key)

    def _arrived(self, request: WebhookRequest) -> _Arrival:
        telemetry = self._telemetry
        return _Arrival(request, telemetry, "" if telemetry is None else self._operation_at(request.path))

    def _is_awaited(self, handler: WebhookHandler | AsyncWebhookHandler) -> bool:
        # Remembered for the last handler: looking takes as long as reading a call.
        known, awaited = self._last_handler  # One read, because threads may change it.
        if known is not handler:
            awaited = is_async(handler)
            self._last_handler = (handler, awaited)
        return awaited

    def _without_a_call(
        self,
        arrival: _Arrival,
        handler: WebhookHandler | AsyncWebhookHandler,
        opened: Refusal | DepositBatch,
        together: int,
    ) -> "_Steps[HttpReply]":
        """Answer what is not one call; of a batch, *together* deposits are handled at a time."""
        if isinstance(opened, Refusal):
            kept = yield from self._kept(self.budget_seconds, handler, opened)
            return self._closed(arrival, None, kept, opened.operation)
        answers: list[tuple[str | None, Reply]] = []
        for first in range(0, len(opened.items), together):
            left = self._left_of_batch(arrival)
            if left <= 0:
                break
            # Together, so that a ledger can put them into one commit.
            items = opened.items[first : first + together]
            results = iter((yield left, [(_method(handler, item.call), item.call) for item in items if item.call]))
            for item, refusal in zip(items, opened.refusals[first : first + together], strict=True):
                result: object = None
                if not refusal:
                    result = next(results)
                elif (left := self._left_of_batch(arrival)) > 0:
                    result = yield from self._kept(left, handler, refusal)
                else:
                    continue
                reply, status, reason = self.judged(result, item.call)
                arrival.note("deposit", reply, result, item.call)
                self._report(arrival, item.call, result, reply, status, reason, "deposit")
                # Our own failures are left out: a missing item is sent again.
                if reply.code != WebhookErrorCode.SYSTEM_ERROR:
                    answers.append((item.tx_id, reply))
        return self.written_batch(answers, _now_millis())

    def _left_of_batch(self, arrival: _Arrival) -> float:
        """Return how many seconds the next deposit of a batch may take."""
        return min(self.budget_seconds, self.budget_seconds * _BATCH_BUDGETS - arrival.elapsed())

    def _closed(
        self, arrival: _Arrival, call: WebhookCall | None, result: object, operation: str | None = None
    ) -> HttpReply:
        reply, status, reason = self.judged(result, call)
        if operation is None:
            operation = getattr(call or result, "operation", "")
        arrival.note(operation, reply, result, call)
        is_shown = reason or reply.code is not None or self._on_call is not None
        if is_shown or arrival.elapsed() >= self._warn_seconds:
            self._report(arrival, call, result, reply, status, reason, operation)
        return self.written(reply, status, _now_millis())

    def _report(
        self,
        arrival: _Arrival,
        call: WebhookCall | None,
        result: object,
        reply: Reply,
        status: int,
        reason: str,
        operation: str,
    ) -> None:
        elapsed, path, peer = arrival.elapsed(), arrival.request.path, arrival.request.peer
        extra: dict[str, object] = {
            "operation": operation,
            "code": reply.code,
            "correlation_id": arrival.correlation_id,
            "elapsed_seconds": elapsed,
        }
        if reason:
            reason = one_line(reason, _LONGEST_REASON)
            _log_refusal(arrival.request, reply, reason, result, extra)
        if reply.code is not None and not reason and call is not None:
            # No ids: a reader of the log need not know who plays.
            declined = extra | {"event": "webhook.declined"}
            _REFUSALS.info("%s answered %s after %.1f ms", operation, reply.code, elapsed * 1000, extra=declined)
        if elapsed >= self._warn_seconds:
            slow = extra | {"event": "webhook.slow"}
            _LOG.warning(
                "%s took %.0f ms; the service may give up before that", shown(path), elapsed * 1000, extra=slow
            )
        if self._on_call is not None:
            handled = HandledCall(
                path, peer, call, reply.code, reason, status, elapsed, operation, arrival.correlation_id
            )
            try:
                self._on_call(handled)
            except Exception as failed:  # on_call must not change what is answered.
                log_failure(_LOG, "on_call raised", failed, extra | {"event": "webhook.on_call_raised"})

    def _kept(
        self, seconds: float, handler: WebhookHandler | AsyncWebhookHandler, refusal: Refusal
    ) -> "_Steps[Refusal | OverBudget]":
        """Keep an anomaly; return what is answered: the refusal, unless the batch's time cut the keeping off."""
        keep = getattr(handler, "keep_anomaly", None) if refusal.anomaly else None
        if keep is None:
            return refusal
        (result,) = yield seconds, [(keep, refusal.operation, refusal.anomaly, refusal.body)]
        lost = {"event": "webhook.anomaly_lost", "operation": refusal.operation}
        if isinstance(result, BaseException):
            log_failure(_LOG, "an anomaly could not be kept", result, lost)
        elif isinstance(result, OverBudget):
            _LOG.error("an anomaly was not kept within %g s: %s", result.seconds, result.how, extra=lost)
            if result.seconds < self.budget_seconds:  # As any item that is not reached, it is sent again.
                return result
        return refusal


#: Methods with their arguments, to be run within so many seconds; what came of each is sent back.
_Steps: TypeAlias = Generator[tuple[float, list[tuple[Any, ...]]], Sequence[object], T]


def _run_in_turn(steps: _Steps[T], run: Runner) -> T:
    try:
        seconds, methods = next(steps)
        while True:
            seconds, methods = steps.send([run(seconds, *method) for method in methods])
    except StopIteration as end:
        result: T = end.value
        return result


async def _run_together(steps: _Steps[T], run: AsyncRunner) -> T:
    try:
        seconds, methods = next(steps)
        while True:
            begun = [run(seconds, *method) for method in methods]
            # A single one needs no task.
            seconds, methods = steps.send([await begun[0]] if len(begun) == 1 else await asyncio.gather(*begun))
    except StopIteration as end:
        result: T = end.value
        return result


def _method(handler: object, call: WebhookCall) -> Any:  # A method of the user's.
    return getattr(handler, call.operation.replace("-", "_"))


def _outcome(code: str | None, result: object) -> str:
    """Return how a call ended, as telemetry counts it."""
    if code is None:
        return "success"
    if code == WebhookErrorCode.SYSTEM_ERROR:
        return "failed"
    return "refused" if isinstance(result, Refusal) else "declined"


def _log_refusal(
    request: WebhookRequest, reply: Reply, reason: str, result: object, extra: Mapping[str, object]
) -> None:
    what = f"{shown(request.path)} from {shown(request.peer)}"
    extra = {**extra, "event": "webhook.failed", "peer": request.peer, "reason": reason}
    # What any stranger can cause wakes nobody at night.
    if isinstance(result, Refusal) and (result.is_unread or reply.code != WebhookErrorCode.SYSTEM_ERROR):
        extra["event"] = "webhook.refused"
        _LOG.warning("%s refused with %s: %s", what, reply.code, reason, extra=extra)
    elif isinstance(result, BaseException):
        log_failure(_LOG, f"{what} answered SYSTEM_ERROR: {reason}", result, extra)
    else:
        _LOG.error("%s answered SYSTEM_ERROR: %s", what, reason, extra=extra)


def _seconds(name: str, value: Any) -> float:  # Anything the user passes.
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value > 0:
        return value
    raise ConfigurationError(f"{name} must be a number of seconds above 0, not {shown(value)}.", setting=name)


def _request(path: str, headers: HeadersLike, body: Any, method: str, peer: str | None) -> WebhookRequest:
    if isinstance(body, bytearray | memoryview):
        with suppress(ValueError):  # A view whose buffer is gone: the gate refuses what is not bytes.
            body = bytes(body)
    return WebhookRequest(_text(method), _text(path), _fields(headers), body, peer, _now_millis())


def _fields(headers: Any) -> tuple[tuple[bytes, bytes], ...]:
    # Message objects of the standard library are not mappings, and iterating over them gives names alone.
    items = getattr(headers, "items", None)
    pairs = items() if callable(items) else headers
    return tuple([(_bytes(name).lower(), _bytes(value)) for name, value in pairs])


def _bytes(value: object) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode("latin-1", "replace")  # As servers decode them.


def _text(value: object) -> str:
    return value if isinstance(value, str) else shown(value)


def _now_millis() -> int:
    return time.time_ns() // 1_000_000
