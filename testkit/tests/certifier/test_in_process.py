"""A wallet that is a function in this process returns an ``HttpReply``; anything else is its author's mistake."""

import asyncio
import gc
import threading
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from game_operator import ConfigurationError
from game_operator.ledger import MemoryLedger
from game_operator.wallet import Wallet
from game_operator.webhooks import HttpReply, RsaSignature, WebhookReceiver, asgi_app, wsgi_app
from game_operator_testkit import asgi_wallet, wsgi_wallet
from game_operator_testkit.certifier import Report
from testkit.tests.certifier.harness import OTHER, PLAYER, certified_by, service_key

#: A call alone, and calls at once.
_SCENARIOS = ("B01", "D01")

Making = Callable[[WebhookReceiver, Wallet], Any]  # Any: a wallet, sync or async.


def certified(wallet: Any, **options: Any) -> Report:  # Any: also what is no wallet.
    return certified_by(wallet, **{"only": _SCENARIOS} | options)


def correct(make: Making) -> Any:
    """Return a correct wallet, as *make* puts it together."""
    receiver = WebhookReceiver(authenticator=RsaSignature(service_key().public_key()))
    return make(receiver, Wallet(MemoryLedger({PLAYER: 100_000, OTHER: 100_000})))


def _handle(receiver: WebhookReceiver, handler: Wallet) -> Any:
    return lambda path, headers, body: receiver.handle(path, headers, body, handler)


def _handle_async(receiver: WebhookReceiver, handler: Wallet) -> Any:
    return lambda path, headers, body: receiver.handle_async(path, headers, body, handler)


def _now_and_then_async(receiver: WebhookReceiver, handler: Wallet) -> Any:
    """Await the balances alone."""

    def deliver(path: str, headers: Mapping[str, str], body: bytes) -> Any:
        handle: Any = receiver.handle_async if path == "/player-balance" else receiver.handle
        return handle(path, headers, body, handler)

    return deliver


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(_handle, id="handle"),
        pytest.param(_handle_async, id="handle_async"),
        pytest.param(_now_and_then_async, id="both"),
        pytest.param(lambda receiver, handler: asgi_wallet(asgi_app(receiver, handler)), id="asgi_wallet"),
        pytest.param(lambda receiver, handler: wsgi_wallet(wsgi_app(receiver, handler)), id="wsgi_wallet"),
    ],
)
def test_a_correct_wallet_passes(make: Making) -> None:
    """What ``WebhookReceiver.handle`` returns is what a certification takes."""
    report = certified(correct(make))
    assert [(each.id, each.reason) for each in report.failures] == []
    assert {each.id for each in report.verdicts} == set(_SCENARIOS)


def reply(status: Any = 200, headers: Any = None, body: Any = b"") -> HttpReply:  # Any: that is the point.
    return HttpReply(status, {} if headers is None else headers, body)


class _Raising(dict[str, str]):
    def items(self) -> Any:
        raise ZeroDivisionError


_WRONG = [
    pytest.param(None, r"returned NoneType .* return receiver\.handle", id="nothing"),
    pytest.param("{}", "returned str", id="a body of text"),
    pytest.param(reply(status="200"), "The status of", id="a status of text"),
    pytest.param(reply(headers={"a": 1}), "The headers of", id="a number in the headers"),
    pytest.param(reply(headers={b"a": "b"}), "The headers of", id="a name of bytes"),
    pytest.param(reply(status=99), "The status of", id="a status below all"),
    pytest.param(reply(headers=_Raising()), "The headers of", id="headers that raise"),
]


def test_names_of_headers_are_written_as_the_wallet_likes() -> None:
    """As in HTTP, where their case means nothing."""
    report = certified(lambda *_: reply(headers={"Content-Encoding": "gzip"}, body=b"\x1f\x8b"), only=["A01"])
    assert "compressed (gzip)" in report.failures[0].reason


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize(("answer", "told"), _WRONG)
def test_anything_but_a_reply_is_a_type_error(answer: Any, told: str, is_async: bool) -> None:
    """At the first answer: the function is wrong, and nothing is known of the wallet behind it."""
    calls = []

    def deliver(path: str, headers: Mapping[str, str], body: bytes) -> Any:
        calls.append(path)
        return answer

    async def deliver_async(path: str, headers: Mapping[str, str], body: bytes) -> Any:
        return deliver(path, headers, body)

    with pytest.raises(TypeError, match=told):
        certified(deliver_async if is_async else deliver)
    assert calls == ["/player-balance"]


def _odd_after(wallet: Any, count: int, odd: Callable[[], Any]) -> Any:
    """Return *wallet*, whose answers are *odd* after the first *count*."""
    calls: list[str] = []

    def deliver(path: str, headers: Mapping[str, str], body: bytes) -> Any:
        calls.append(path)
        return wallet(path, headers, body) if len(calls) <= count else odd()

    return deliver


@pytest.mark.parametrize("make", [_handle, _handle_async], ids=["sync", "async"])
@pytest.mark.parametrize("only", _SCENARIOS, ids=["one call", "calls at once"])
def test_a_wrong_answer_later_ends_the_run(make: Making, only: str) -> None:
    """No scenario makes a verdict of it; threads and event loop are closed all the same."""
    verdicts: list[str] = []
    loops: list[asyncio.AbstractEventLoop] = []

    async def awaited() -> None:
        loops.append(asyncio.get_running_loop())

    odd: Callable[[], Any] = (lambda: None) if make is _handle else awaited
    calls = certified(correct(make), only=[only]).calls
    for count in (4, calls // 2):
        with pytest.raises(TypeError, match="returned NoneType"):
            certified(
                _odd_after(correct(make), count, odd),
                only=[only],
                on_verdict=lambda verdict, _: verdicts.append(verdict.id),
            )
    gc.collect()
    assert verdicts == []
    assert [each.name for each in threading.enumerate() if each.name.startswith("certify")] == []
    assert all(loop.is_closed() for loop in loops)
    assert bool(loops) is (make is _handle_async)


@pytest.mark.parametrize(
    ("wallet", "told"),
    [
        pytest.param(42, "a wallet must be a function of path, headers and body, not int", id="no function"),
        pytest.param(lambda scope, receive, send: None, "pass asgi_wallet", id="an application"),
    ],
)
def test_what_is_no_function_of_a_call_is_the_authors_mistake(wallet: Any, told: str) -> None:
    """Before the first call, and in no report."""
    with pytest.raises(TypeError, match=told):
        certified(wallet)


def test_an_async_wallet_is_not_awaited_in_a_loop_that_runs() -> None:
    """The thread is the caller's: a sync wallet is certified in it, and for another one the error says what to do."""

    async def within_a_loop() -> None:
        assert certified(correct(_handle)).passed
        with pytest.raises(ConfigurationError, match=r"asyncio\.to_thread"):
            certified(correct(_handle_async))

    asyncio.run(within_a_loop())
