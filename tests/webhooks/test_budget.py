"""A call has a time budget: over it the reply is SYSTEM_ERROR, and what became of the work is said."""

import asyncio
import contextvars
import gc
import json
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey

from game_operator import Profile
from game_operator.webhooks import Reply, RsaSignature, WebhookCall, WebhookReceiver, success
from tests.support.times import wait_until
from tests.support.webhooks import DEPOSIT, WITHDRAW, AsyncHandler, Handler, code_of, encoded, signed
from tests.webhooks.conftest import handled

pytestmark = pytest.mark.slow

#: Builds a receiver with some settings.
Build = Callable[..., WebhookReceiver]
Headers = dict[str, str]

_BUDGET = 0.2
_PATIENCE = 20.0


class _Gate:
    """Holds handlers back until it is opened."""

    def __init__(self) -> None:
        self.opened = threading.Event()
        self.began = threading.Semaphore(0)
        self.ended = threading.Semaphore(0)

    def wait(self, call: object) -> Reply:
        self.began.release()
        assert self.opened.wait(_PATIENCE)
        self.ended.release()
        return success(balance_cents=1)


@pytest.fixture
def gate() -> Iterator[_Gate]:
    """Opened at the end, so that no thread is left behind."""
    gate = _Gate()
    yield gate
    gate.opened.set()


@pytest.fixture
def build(public_key: RSAPublicKey) -> Build:
    """Build a receiver with a short budget."""

    def receiver(**settings: Any) -> WebhookReceiver:
        return WebhookReceiver(authenticator=RsaSignature(public_key), **{"budget_seconds": _BUDGET, **settings})

    return receiver


@pytest.fixture
def headers(private_key: RSAPrivateKey) -> Headers:
    """Those of a genuine withdraw."""
    return signed(private_key, _BODY)


_BODY = encoded(WITHDRAW)


def _taking(seconds: float) -> Callable[[WebhookCall], Reply]:
    def does(call: WebhookCall) -> Reply:
        time.sleep(seconds)
        return success(balance_cents=1)

    return does


def test_a_sync_handler_runs_on_in_its_thread(
    build: Build, headers: Headers, gate: _Gate, caplog: pytest.LogCaptureFixture
) -> None:
    """H01: SYSTEM_ERROR at the budget; the work goes on, is counted against the threads, and its end is logged."""
    receiver = build(max_threads=1)
    began = time.perf_counter()
    reply = receiver.handle("/withdraw", headers, _BODY, Handler(gate.wait), in_thread=True)
    assert code_of(reply) == "SYSTEM_ERROR"
    assert _BUDGET <= time.perf_counter() - began < _PATIENCE
    assert "it runs on in its thread" in caplog.text
    waiting = Handler()
    assert code_of(receiver.handle("/withdraw", headers, _BODY, waiting, in_thread=True)) == "SYSTEM_ERROR"
    assert "it never began: all 1 threads were busy" in caplog.text
    gate.opened.set()
    assert gate.ended.acquire(timeout=_PATIENCE)
    wait_until(lambda: "after that" in caplog.text)
    assert code_of(receiver.handle("/withdraw", headers, _BODY, Handler(), in_thread=True)) is None
    assert waiting.calls == []  # What was answered before it began never begins.


async def test_a_sync_handler_runs_on_under_asyncio(
    build: Build, headers: Headers, gate: _Gate, caplog: pytest.LogCaptureFixture
) -> None:
    """H01: the same; with the queue full, calls are answered at the budget and never run. The loop is never blocked."""
    receiver = build(max_threads=2)
    handlers = [Handler(gate.wait) for _ in range(5)]
    ticks = asyncio.create_task(_ticking())
    replies = await asyncio.gather(*(receiver.handle_async("/withdraw", headers, _BODY, each) for each in handlers))
    ticks.cancel()
    assert [code_of(reply) for reply in replies] == ["SYSTEM_ERROR"] * 5
    assert sorted(len(each.calls) for each in handlers) == [0, 0, 0, 1, 1]
    gate.opened.set()
    await asyncio.to_thread(wait_until, lambda: caplog.text.count("after that") == 2)
    assert sorted(len(each.calls) for each in handlers) == [0, 0, 0, 1, 1]
    assert code_of(await receiver.handle_async("/withdraw", headers, _BODY, Handler())) is None


async def _ticking() -> None:
    while True:
        began = time.perf_counter()
        await asyncio.sleep(0.01)
        assert time.perf_counter() - began < _PATIENCE / 2


def test_a_failure_after_the_reply_is_logged(
    build: Build, headers: Headers, gate: _Gate, caplog: pytest.LogCaptureFixture
) -> None:
    """With its traceback, for nobody else will hear of it."""

    def fail(call: WebhookCall) -> object:
        gate.wait(call)
        raise RuntimeError("the disk is full")

    assert code_of(build().handle("/withdraw", headers, _BODY, Handler(fail), in_thread=True)) == "SYSTEM_ERROR"
    gate.opened.set()
    wait_until(lambda: "the disk is full" in caplog.text)
    assert "failed" in caplog.text


def test_what_runs_in_this_thread_is_not_interrupted(
    build: Build, headers: Headers, caplog: pytest.LogCaptureFixture
) -> None:
    """H01: too long is found out afterwards; its repeat finds the work done."""
    handler = Handler(_taking(0.05))
    assert code_of(build(budget_seconds=0.02).handle("/withdraw", headers, _BODY, handler)) == "SYSTEM_ERROR"
    assert "it ended all the same" in caplog.text
    assert code_of(build(budget_seconds=_PATIENCE).handle("/withdraw", headers, _BODY, handler)) is None


async def test_an_async_handler_is_cancelled(build: Build, headers: Headers, caplog: pytest.LogCaptureFixture) -> None:
    """H01: it is told, and may roll back."""
    rolled_back = []

    async def hang(call: WebhookCall) -> object:
        try:
            await asyncio.sleep(_PATIENCE)
        except asyncio.CancelledError:
            rolled_back.append(call)
            raise
        return success(balance_cents=1)

    began = time.perf_counter()
    reply = await build().handle_async("/withdraw", headers, _BODY, AsyncHandler(hang))
    assert code_of(reply) == "SYSTEM_ERROR"
    assert _BUDGET <= time.perf_counter() - began < _PATIENCE / 2
    assert len(rolled_back) == 1
    assert "it was cancelled" in caplog.text


@pytest.mark.parametrize("after", ["a reply", "an exception"])
async def test_a_handler_that_outlives_its_cancellation_is_over_budget_all_the_same(
    after: str, build: Build, headers: Headers
) -> None:
    """It delays its reply, and no cancellation is left behind in the task."""

    async def stubborn(call: WebhookCall) -> object:
        try:
            await asyncio.sleep(_PATIENCE)
        except asyncio.CancelledError:
            await asyncio.sleep(0.01)
            if after == "an exception":
                raise RuntimeError("rolling back failed") from None
        return success(balance_cents=1)

    assert code_of(await build().handle_async("/withdraw", headers, _BODY, AsyncHandler(stubborn))) == "SYSTEM_ERROR"
    task = asyncio.current_task()
    assert task
    assert task.cancelling() == 0
    await asyncio.sleep(0)


@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_a_timeout_of_the_handlers_own_is_its_failure(
    kind: str, build: Build, headers: Headers, caplog: pytest.LogCaptureFixture
) -> None:
    """Such as its database's: the log says that the handler raised, and not that its time was up."""

    async def late(call: WebhookCall) -> object:
        await asyncio.sleep(0)
        raise TimeoutError("of the database")

    def late_sync(call: WebhookCall) -> object:
        raise TimeoutError("of the database")

    handler: Any = AsyncHandler(late) if kind == "async" else Handler(late_sync)
    assert code_of(await build().handle_async("/withdraw", headers, _BODY, handler)) == "SYSTEM_ERROR"
    assert "raised TimeoutError" in caplog.text
    assert "longer than its budget" not in caplog.text


async def _wrap_the_cancellation(began: asyncio.Event) -> object:
    began.set()
    try:
        await asyncio.sleep(_PATIENCE)
    except asyncio.CancelledError as cancelled:
        raise BaseExceptionGroup("of two kinds", [ValueError("a"), cancelled]) from None
    return success(balance_cents=1)


async def test_a_cancellation_that_comes_back_in_a_group_is_one(build: Build, headers: Headers) -> None:
    """The task's own passes, so that its server sees a task that was cancelled; at the budget it is SYSTEM_ERROR."""
    began = asyncio.Event()
    handler = AsyncHandler(lambda call: _wrap_the_cancellation(began))
    task = asyncio.create_task(build(budget_seconds=_PATIENCE).handle_async("/withdraw", headers, _BODY, handler))
    await began.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert task.cancelled()
    assert code_of(await build().handle_async("/withdraw", headers, _BODY, handler)) == "SYSTEM_ERROR"
    ours = asyncio.current_task()
    assert ours
    assert ours.cancelling() == 0


async def test_a_caller_that_is_cancelled_leaves_no_thread_behind(build: Build, headers: Headers, gate: _Gate) -> None:
    """What has begun is carried through; what waits for a thread never begins."""
    receiver = build(max_threads=1, budget_seconds=_PATIENCE)
    begun, waiting = Handler(gate.wait), Handler()
    tasks = [asyncio.create_task(receiver.handle_async("/withdraw", headers, _BODY, begun))]
    assert await asyncio.to_thread(gate.began.acquire, timeout=_PATIENCE)
    tasks.append(asyncio.create_task(receiver.handle_async("/withdraw", headers, _BODY, waiting)))
    await asyncio.sleep(0.05)
    for task in tasks:
        task.cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(result) for result in results] == [asyncio.CancelledError] * 2
    gate.opened.set()
    assert await asyncio.to_thread(gate.ended.acquire, timeout=_PATIENCE)
    assert code_of(await receiver.handle_async("/withdraw", headers, _BODY, Handler())) is None
    assert waiting.calls == []


def test_a_loop_that_is_gone_is_not_woken(
    build: Build, headers: Headers, gate: _Gate, caplog: pytest.LogCaptureFixture
) -> None:
    """A thread that ends after its event loop logs its end, and no error of asyncio's."""
    reply = asyncio.run(build().handle_async("/withdraw", headers, _BODY, Handler(gate.wait)))
    assert code_of(reply) == "SYSTEM_ERROR"
    gate.opened.set()
    wait_until(lambda: "after that" in caplog.text)
    gc.collect()
    alarmed = {record.name for record in caplog.records if record.levelno >= logging.WARNING}
    assert alarmed == {"game_operator.webhooks"}


def test_the_defaults(public_key: RSAPublicKey, headers: Headers, caplog: pytest.LogCaptureFixture) -> None:
    """H01: 10 s, a warning from 500 ms, 40 threads."""
    receiver = WebhookReceiver(authenticator=RsaSignature(public_key))
    assert (receiver.budget_seconds, receiver.max_threads) == (10.0, 40)
    for seconds, records in ((0.0, 0), (0.5, 1)):
        handler = Handler(_taking(seconds))
        receiver.handle("/withdraw", headers, _BODY, handler)
        assert len([each for each in caplog.records if each.levelno == logging.WARNING]) == records


_WHO: contextvars.ContextVar[str] = contextvars.ContextVar("_WHO", default="nobody")


async def test_threads_see_the_callers_context(build: Build, headers: Headers) -> None:
    """Tracing and log correlation travel in context variables; what the handler sets does not come back."""
    seen = []

    def look(call: WebhookCall) -> object:
        seen.append((_WHO.get(), threading.current_thread().name.rpartition("_")[0]))
        _WHO.set("the handler")
        return success(balance_cents=1)

    _WHO.set("request 7")
    receiver = build(budget_seconds=_PATIENCE)
    await receiver.handle_async("/withdraw", headers, _BODY, Handler(look))
    receiver.handle("/withdraw", headers, _BODY, Handler(look), in_thread=True)
    assert seen == [("request 7", "game-operator-webhook")] * 2
    assert _WHO.get() == "request 7"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_a_forked_worker_has_threads_of_its_own(build: Build, headers: Headers) -> None:
    """Servers fork after the application was loaded, and perhaps used; threads do not come along."""
    receiver = build(budget_seconds=_PATIENCE)
    assert code_of(receiver.handle("/withdraw", headers, _BODY, Handler(), in_thread=True)) is None
    child = os.fork()
    if child == 0:
        try:
            answered = code_of(receiver.handle("/withdraw", headers, _BODY, Handler(), in_thread=True)) is None
            os._exit(0 if answered else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_an_anomaly_that_hangs_delays_its_reply_to_the_budget_and_no_longer(
    kind: str, build: Build, private_key: RSAPrivateKey, gate: _Gate,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    """keep_anomaly has the same budget."""

    async def hang(*_: object) -> None:
        await asyncio.sleep(_PATIENCE)

    handler: Any = AsyncHandler() if kind == "async" else Handler()
    handler.keep_anomaly = hang if kind == "async" else lambda *_: gate.wait(None)
    reply = await build().handle_async("/deposit", signed(private_key, b"{"), b"{", handler)
    assert code_of(reply) == "INVALID_REQUEST"
    assert "was not kept within 0.2 s" in caplog.text


class _Clock:
    """Stands still until a handler moves it, so that no machine is too slow."""

    def __init__(self) -> None:
        self._at = 0.0
        self._lock = threading.Lock()

    def __call__(self) -> float:
        return self._at

    def move(self, seconds: float) -> None:
        with self._lock:
            self._at += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> _Clock:
    """Time as the receiver sees it; timers and timeouts go on as they are."""
    clock = _Clock()
    monkeypatch.setattr(time, "perf_counter", clock)
    return clock


_LONG = 8.0
_WAYS = ["handle", "in a thread", "sync", "async"]


class _Batches:
    """Posts batches in each of the ways; calls and anomalies are counted, and take the seconds that are said."""

    def __init__(self, build: Build, private_key: RSAPrivateKey, clock: _Clock) -> None:
        profile = Profile(deposit_batch=True)
        self._receiver = build(budget_seconds=_LONG, warn_seconds=1_000.0, profile=profile, max_threads=50)
        self._private_key = private_key
        self._clock = clock
        self.kept = 0

    def post(self, way: str, items: list[Any], *, call: float = 0.0, keep: float = 0.0) -> tuple[int, list[str | None]]:
        """Return how many deposits were asked of the handler, and the codes that were answered."""

        def does(_: object) -> Reply:
            self._clock.move(call)
            return success(balance_cents=1)

        def keeps(*_: object) -> None:
            self.kept += 1
            self._clock.move(keep)

        async def keeps_async(*_: object) -> None:
            keeps()

        handler: Any = (AsyncHandler if way == "async" else Handler)(does)
        handler.keep_anomaly = keeps_async if way == "async" else keeps
        return self.answered(way, items, handler)

    def answered(self, way: str, items: list[Any], handler: Any) -> tuple[int, list[str | None]]:
        body = encoded(items)
        reply = handled(way, self._receiver, "/deposit-batch", signed(self._private_key, body), body, handler)
        return len(handler.calls), [item.get("code") for item in json.loads(reply.body)]


@pytest.fixture
def batches(build: Build, private_key: RSAPrivateKey, clock: _Clock) -> _Batches:
    """A receiver of batches whose time is moved by hand."""
    return _Batches(build, private_key, clock)


@pytest.mark.parametrize(
    ("way", "together"), [("handle", 1), ("in a thread", 1), ("sync", 8), ("async", 64)], ids=_WAYS
)
def test_a_batch_is_over_after_six_budgets_and_not_before(way: str, together: int, batches: _Batches) -> None:
    """Twelve rounds of half a budget each: the last begins before the end, and none after."""
    items = [{**DEPOSIT, "action_id": f"b{number}", "tx_id": f"t{number}"} for number in range(15 * together)]
    assert batches.post(way, items, call=_LONG / 2 / together) == (12 * together, [None] * 12 * together)


@pytest.mark.parametrize("way", _WAYS)
def test_anomalies_of_a_batch_have_its_time_and_no_more(way: str, batches: _Batches) -> None:
    """Each would otherwise have a budget of its own; what is not reached is left out, and sent again."""
    assert batches.post(way, [7] * 64, keep=_LONG / 2) == (0, ["INVALID_REQUEST"] * 12)
    assert batches.kept == 12


def test_deposits_behind_anomalies_that_are_not_reached_are_answered(batches: _Batches) -> None:
    """They are handled together with them, and before."""
    assert batches.post("async", [*[7] * 20, DEPOSIT], keep=_LONG / 2) == (1, [*["INVALID_REQUEST"] * 12, None])


@pytest.mark.parametrize(
    ("seconds", "kept", "answered"),
    [
        pytest.param(_LONG - 1, 7, 6, id="the seventh is cut off by the end of the batch"),
        pytest.param(_LONG + 2, 5, 5, id="over the budget that each has"),
    ],
)
def test_an_anomaly_that_the_end_of_the_batch_cuts_off_is_left_out(
    seconds: float, kept: int, answered: int, batches: _Batches
) -> None:
    """It may not be kept, so it is not refused for good; where it had all its time the refusal stands."""
    assert batches.post("handle", [7] * 20, keep=seconds) == (0, ["INVALID_REQUEST"] * answered)
    assert batches.kept == kept


@pytest.mark.parametrize("way", ["in a thread", "sync", "async"])
def test_an_anomaly_that_hangs_at_the_end_of_a_batch_does_not_hold_it(
    way: str, batches: _Batches, clock: _Clock, gate: _Gate
) -> None:
    """It has what is left of the batch's time, and not its own budget."""

    def keeps(*_: object) -> None:
        clock.move(_LONG * 6 - 0.0625)
        if clock() > _LONG * 6:
            gate.wait(None)

    async def keeps_async(*_: object) -> None:
        clock.move(_LONG * 6 - 0.0625)
        if clock() > _LONG * 6:
            await asyncio.sleep(_PATIENCE)

    handler: Any = AsyncHandler() if way == "async" else Handler()
    handler.keep_anomaly = keeps_async if way == "async" else keeps
    began = time.monotonic()
    assert batches.answered(way, [7] * 3, handler) == (0, ["INVALID_REQUEST"])
    assert time.monotonic() - began < _LONG
