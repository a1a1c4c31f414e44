"""What may stand for a wallet in process, and what it may answer."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from flask import Flask

from game_operator.ledger import MemoryLedger
from game_operator.wallet import Wallet
from game_operator.webhooks import HttpReply, WebhookReceiver, asgi_app, wsgi_app
from game_operator_testkit import InProcessSandbox, asgi_wallet, wsgi_wallet
from tests.support.webhooks import AsyncHandler, Handler


def _asgi(receiver: WebhookReceiver, wallet: Wallet) -> Any:
    return asgi_wallet(asgi_app(receiver, wallet))


def _asgi_below_a_prefix(receiver: WebhookReceiver, wallet: Wallet) -> Any:
    return asgi_wallet(asgi_app(receiver, wallet, prefix="/wallet"), prefix="wallet/")


def _fastapi(receiver: WebhookReceiver, wallet: Wallet) -> Any:
    app = FastAPI()
    app.mount("/wallet", asgi_app(receiver, wallet))
    return asgi_wallet(app, prefix="/wallet")


def _fastapi_test_client(receiver: WebhookReceiver, wallet: Wallet) -> Any:
    client = TestClient(asgi_app(receiver, wallet))
    return lambda path, headers, body: client.post(path, content=body, headers=headers)


def _wsgi(receiver: WebhookReceiver, wallet: Wallet) -> Any:
    return wsgi_wallet(wsgi_app(receiver, wallet))


def _flask_test_client(receiver: WebhookReceiver, wallet: Wallet) -> Any:
    app = Flask("casino")
    app.wsgi_app = wsgi_app(receiver, wallet)  # type: ignore[assignment, method-assign]  # As Flask's own documents do it.
    client = app.test_client()
    return lambda path, headers, body: client.post(path, data=body, headers=headers)


def _handle(receiver: WebhookReceiver, wallet: Wallet) -> Any:
    return lambda path, headers, body: receiver.handle(path, headers, body, wallet)


def _tuple(receiver: WebhookReceiver, wallet: Wallet) -> Any:
    def deliver(path: str, headers: Mapping[str, str], body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        reply = receiver.handle(path, headers, body, wallet)
        return reply.status, list(reply.headers.items()), reply.body

    return deliver


def _async_function(receiver: WebhookReceiver, wallet: Wallet) -> Any:
    async def deliver(path: str, headers: Mapping[str, str], body: bytes) -> HttpReply:
        return await receiver.handle_async(path, headers, body, wallet)

    return deliver


@pytest.fixture(
    params=[
        _asgi, _asgi_below_a_prefix, _fastapi, _fastapi_test_client, _wsgi, _flask_test_client, _handle, _tuple,
        _async_function,
    ]
)  # fmt: skip
def connected(
    request: pytest.FixtureRequest,
    operator_sandbox: InProcessSandbox,
    ledger: MemoryLedger,
    receiver: WebhookReceiver,
) -> InProcessSandbox:
    """A sandbox that plays against the ready wallet, connected in one of many ways."""
    operator_sandbox.wallet = request.param(receiver, Wallet(ledger))
    return operator_sandbox


def test_a_round_reaches_the_wallet(connected: InProcessSandbox, ledger: MemoryLedger) -> None:
    """However it is connected, what is signed arrives as it was, and what is forged is refused."""
    connected.faults.set_nth("forged", 1)
    played = connected.play_round(player_id="p1", wager_cents=500, won_cents=1_500)
    assert played.problems == ()
    assert [delivery.code for delivery in played.deliveries] == ["INVALID_SIGNATURE", None, None]
    assert ledger.balance("p1") == 11_000
    assert played.deliveries[0].headers["content-type"] == "application/json"


async def test_a_round_reaches_the_wallet_from_an_async_test(connected: InProcessSandbox, ledger: MemoryLedger) -> None:
    """The same from within an event loop."""
    played = await connected.play_round_async(player_id="p1", wager_cents=500, cancel=True)
    assert [delivery.code for delivery in played.deliveries] == [None, None]
    assert ledger.balance("p1") == 10_000


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda fails: asgi_wallet(fails), id="ASGI"),
        pytest.param(lambda fails: wsgi_wallet(fails), id="WSGI"),
        pytest.param(lambda fails: lambda path, headers, body: fails(path, headers), id="a function"),
    ],
)
def test_what_an_application_raises_fails_the_test(
    operator_sandbox: InProcessSandbox, make: Callable[..., Any]
) -> None:
    """With its own traceback; and the sandbox plays on afterwards."""

    def fails(first: object, second: object, third: object = None) -> Any:
        raise LookupError("no such table")

    operator_sandbox.wallet = make(fails)
    with pytest.raises(LookupError, match="no such table"):
        operator_sandbox.play_round(player_id="p1", wager_cents=500)
    operator_sandbox.wallet = Handler()
    assert operator_sandbox.play_round(player_id="p1", wager_cents=500, won_cents=0).problems == ()


class _Half(Handler):
    """Sync but for its rollback."""

    rollback = AsyncHandler._answer  # type: ignore[assignment]  # That is the mistake.


@pytest.mark.parametrize(
    ("wallet", "told"),
    [
        pytest.param("http://127.0.0.1/wallet", "not str", id="an address"),
        pytest.param(Handler, "the class Handler", id="a class"),
        pytest.param(_Half(), "sync and async", id="half async"),
        pytest.param(FastAPI(), r"asgi_wallet\(app", id="an ASGI application"),
        pytest.param(Flask("casino"), r"wsgi_wallet\(app", id="a WSGI application"),
    ],
)
def test_what_is_no_wallet_is_refused_at_once(operator_sandbox: InProcessSandbox, wallet: Any, told: str) -> None:
    """Where it is set, and not at the first round; what was there before stays."""
    operator_sandbox.wallet = before = Handler()
    with pytest.raises(TypeError, match=told):
        operator_sandbox.wallet = wallet
    assert operator_sandbox.wallet is before


@pytest.mark.parametrize(
    "response",
    [
        pytest.param(None, id="nothing"),
        pytest.param({"type": "SUCCESS"}, id="a dict"),
        pytest.param((200, {}, "{}"), id="text for bytes"),
        pytest.param(("200 OK", {}, b"{}"), id="a status line"),
        pytest.param((200, b"{}"), id="no headers"),
        pytest.param((200, {b"a": b"b"}, b"{}"), id="headers of bytes"),
        pytest.param((200, None, b"{}"), id="headers that are None"),
        pytest.param((True, {}, b"{}"), id="a bool for a status"),
    ],
)
def test_what_is_no_response_is_refused(operator_sandbox: InProcessSandbox, response: object) -> None:
    """A function that forgets its return is found out."""
    operator_sandbox.wallet = lambda path, headers, body: response
    with pytest.raises(TypeError, match="must return its response"):
        operator_sandbox.play_round(player_id="p1", wager_cents=500)


def test_an_async_wallet_keeps_its_loop_between_rounds(operator_sandbox: InProcessSandbox) -> None:
    """In a sync test: connections that belong to a loop live as long as the sandbox does."""
    loops = []

    async def deliver(path: str, headers: Mapping[str, str], body: bytes) -> tuple[int, dict[str, str], bytes]:
        loops.append(asyncio.get_running_loop())
        return 200, {}, b'{"type":"SUCCESS","balance":1.00,"timestamp":1}'

    operator_sandbox.wallet = deliver
    for _ in range(2):
        operator_sandbox.play_round(player_id="p1", wager_cents=500, won_cents=0)
    assert len(loops) == 4
    assert len(set(loops)) == 1
    assert not loops[0].is_closed()
    operator_sandbox.close()
    assert loops[0].is_closed()
    operator_sandbox.close()
