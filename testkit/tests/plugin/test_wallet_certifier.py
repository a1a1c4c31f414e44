"""The fixture ``wallet_certifier``: whatever a wallet is, a failed test says what is wrong and what costs most."""

import asyncio
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from decimal import Decimal
from typing import Any

import pytest
from fastapi import FastAPI

from game_operator import BalanceCall, Reply
from game_operator.errors import ConfigurationError
from game_operator.ledger import AsyncSqlLedger, MemoryLedger
from game_operator.wallet import AsyncWallet, Wallet
from game_operator.webhooks import WebhookCall, WebhookReceiver, asgi_app
from game_operator_testkit import WalletCertifier, asgi_wallet
from game_operator_testkit.certifier import Outcome, Supplies, scenarios
from game_operator_testkit.plugin.failures import ErrorRecorder
from game_operator_testkit.provider.keys import ThrowAwayKeys
from testkit.tests.plugin.conftest import Careless
from tests.support.documents import ROOT

PLAYERS: dict[str, Any] = {"player_id": "p1", "other_player_id": "p2"}


class AsyncFace:
    """An async handler over a sync one, which lets others in between."""

    def __init__(self, wallet: Wallet) -> None:
        self._wallet = wallet
        self.loops: set[asyncio.AbstractEventLoop] = set()

    async def _answer(self, call: WebhookCall) -> Reply:
        self.loops.add(asyncio.get_running_loop())
        await asyncio.sleep(0)
        reply: Reply = getattr(self._wallet, call.operation.replace("-", "_"))(call)
        return reply

    withdraw = deposit = rollback = player_balance = _answer


# --- What a wallet may be ------------------------------------------------------------------------------------------


def _handler(_: WebhookReceiver, wallet: Wallet) -> Any:
    return wallet


def _asgi(receiver: WebhookReceiver, wallet: Wallet) -> Any:
    app = FastAPI()
    app.mount("/wallet", asgi_app(receiver, wallet))
    return asgi_wallet(app, prefix="/wallet")


def _async_function(receiver: WebhookReceiver, wallet: Wallet) -> Any:
    async def deliver(path: str, headers: Mapping[str, str], body: bytes) -> tuple[int, Mapping[str, str], bytes]:
        reply = await receiver.handle_async(path, headers, body, AsyncFace(wallet))
        return reply.status, reply.headers, reply.body

    return deliver


KINDS = [_handler, _asgi, _async_function]


@pytest.mark.slow
@pytest.mark.parametrize("make", KINDS)
@pytest.mark.drawn(3)
def test_whatever_a_wallet_is_it_is_certified(
    wallet_certifier: WalletCertifier, receiver: WebhookReceiver, ledger: MemoryLedger, make: Callable[..., Any]
) -> None:
    """The ready wallet passes, calls at once included, and money is where it was."""
    report = wallet_certifier(make(receiver, Wallet(ledger)), **PLAYERS, only=["A", "C01", "D02", "E02"])
    assert report.passed
    assert report.advice == ()
    assert {"A02", "C01", "D02", "E02"} <= {each.id for each in report.verdicts if each.outcome is Outcome.PASSED}
    assert [ledger.balance(player_id) for player_id in ("p1", "p2")] == [10_000, 10_000]


@pytest.mark.slow
def test_a_whole_certification(wallet_certifier: WalletCertifier, ledger: MemoryLedger) -> None:
    """All scenarios are played; what is skipped says what it needs."""
    report = wallet_certifier(Wallet(ledger), **PLAYERS)
    assert len(report.verdicts) == len(scenarios())
    assert all(each.reason.startswith("needs ") for each in report.skipped)


@pytest.mark.parametrize("make", KINDS)
def test_a_wrong_wallet_is_found_out(
    wallet_certifier: WalletCertifier, receiver: WebhookReceiver, make: Callable[..., Any]
) -> None:
    """However it is reached; with check=False the test that asks does not fail."""
    report = wallet_certifier(make(receiver, Careless()), **PLAYERS, only=["A02", "B01"], check=False)
    assert not report.passed
    assert report.verdict("B01").failed


def test_what_is_supplied_is_tried(wallet_certifier: WalletCertifier) -> None:
    """A blocked player, an account that is opened, another wallet on the same ledger, the key of before a rotation."""
    blocked: set[str] = set()
    ledger = MemoryLedger({"p1": 10_000, "p2": 10_000})
    wallet = Wallet(ledger, may_bet=lambda call, *_: "PLAYER_BLOCKED" if call.player_id in blocked else None)
    only = ["A09", "C14", "D06", "E06"]
    supplies = Supplies(
        block=blocked.add,
        unblock=blocked.discard,
        open_account=lambda player_id, cents: ledger.open_account(player_id, Decimal(cents).scaleb(-2)),
        second_url=Wallet(ledger),
        old_key=ThrowAwayKeys().operator,
        retired_key=ThrowAwayKeys().operator,
    )
    assert [each.id for each in wallet_certifier(wallet, **PLAYERS, only=only).skipped] == only
    report = wallet_certifier(wallet, **PLAYERS, only=only, supplies=supplies)
    assert {each.id: each.reason for each in report.skipped} == {}
    assert report.passed


# --- Mistakes of a test --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wallet", "error", "told"),
    [
        pytest.param("http://127.0.0.1/wallet", TypeError, "not str", id="an address"),
        pytest.param(FastAPI(), TypeError, r"asgi_wallet\(app", id="an application"),
        pytest.param(Wallet(MemoryLedger({"p1": 10_000})), ConfigurationError, "know the player 'p2'", id="one player"),
        pytest.param(lambda *_: (200, {}, b"<p>shop"), ConfigurationError, "a web page", id="a page"),
    ],
)
def test_a_mistake_of_the_test_is_no_finding(
    wallet_certifier: WalletCertifier, wallet: Any, error: type[Exception], told: str
) -> None:
    """It is raised, and no scenario fails."""
    with pytest.raises(error, match=told):
        wallet_certifier(wallet, **PLAYERS)


# --- Async tests ---------------------------------------------------------------------------------------------------


async def test_an_async_wallet_is_awaited_on_the_tests_loop(wallet_certifier: WalletCertifier, tmp_path: Any) -> None:
    """Where its connections belong; and so is what async levers return."""
    async with AsyncSqlLedger(f"sqlite:///{tmp_path}/wallet.db") as ledger:
        for player_id in ("p1", "p2"):
            await ledger.open_account(player_id, Decimal("100.00"))
        opened = []

        async def open_account(player_id: str, cents: int) -> None:
            await ledger.open_account(player_id, Decimal(cents).scaleb(-2))
            opened.append(player_id)

        report = await wallet_certifier.certify_async(
            AsyncWallet(ledger), **PLAYERS, only=["A02", "C14", "D02"], supplies=Supplies(open_account=open_account)
        )
        assert [each.outcome for each in report.verdicts] == [Outcome.PASSED] * 3
        assert len(opened) == 1


async def test_each_kind_of_wallet_is_certified_in_an_async_test(
    wallet_certifier: WalletCertifier, ledger: MemoryLedger
) -> None:
    """A sync one in a thread of its own, an async one on this loop."""
    threads, wallet = set(), Wallet(ledger)

    class Watched(Careless):
        def player_balance(self, call: BalanceCall) -> Reply:
            threads.add(threading.current_thread())
            return super().player_balance(call)

    await wallet_certifier.certify_async(Watched(), **PLAYERS, only=["A01"])
    assert threads
    assert threading.current_thread() not in threads
    face = AsyncFace(wallet)
    assert (await wallet_certifier.certify_async(face, **PLAYERS, only=["A02", "D02"])).passed
    assert face.loops == {asyncio.get_running_loop()}


@pytest.mark.parametrize("number", [1, 30], ids=["the first call", "one of the calls at once"])
def test_what_ends_an_async_test_ends_it_inside_a_wallet_too(
    wallet_certifier: WalletCertifier, ledger: MemoryLedger, number: int
) -> None:
    """It is raised as it is, and not inside a group of exceptions."""
    raised = pytest.fail.Exception("stop here")

    class Ending(AsyncFace):
        calls = 0

        async def _ending(self, call: WebhookCall) -> Reply:
            self.calls += 1
            if self.calls == number:
                raise raised
            return await self._answer(call)

        withdraw = deposit = rollback = player_balance = _ending

    with pytest.raises(pytest.fail.Exception, match="stop here") as caught:
        asyncio.run(wallet_certifier.certify_async(Ending(Wallet(ledger)), **PLAYERS, only=["D02"]))
    assert caught.value is raised


def test_a_certification_that_is_cancelled_ends(wallet_certifier: WalletCertifier) -> None:
    """No thread waits for an answer that nobody will give: the loop's own are joined when it ends."""

    async def cancelled() -> None:
        asked = asyncio.Event()

        async def never(*_: object) -> Any:
            asked.set()
            await asyncio.Event().wait()

        task = asyncio.create_task(wallet_certifier.certify_async(never, **PLAYERS))
        await asked.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())


# --- What a test run shows -----------------------------------------------------------------------------------------

_SUITE = """
from game_operator.ledger import MemoryLedger
from game_operator.wallet import Wallet
from testkit.tests.plugin.conftest import Careless

PLAYERS = {"player_id": "p1", "other_player_id": "p2"}

class Failing(Careless):
    def rollback(self, call):
        raise LookupError("no table of bets")

def test_right(wallet_certifier):
    wallet = Wallet(MemoryLedger({"p1": 10_000, "p2": 10_000}))
    report = wallet_certifier(wallet, **PLAYERS, only=["A01", "A02", "A09", "B01"])
    assert report.passed

def test_wrong(wallet_certifier):
    report = wallet_certifier(Failing(), **PLAYERS, only=["A01", "A02", "A04", "A09", "B01"])
    assert report.verdict("B01").failed

def test_unchecked(wallet_certifier):
    assert not wallet_certifier(Failing(), **PLAYERS, only=["B01"], check=False).passed
"""


_OPTIONS = ("--disable-plugin-autoload", "-W", "error", "-p", "no:cacheprovider", "-p", "game_operator_testkit")


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What pytest prints of a right wallet, a wrong one, and one that is looked at by the test itself."""
    folder = tmp_path_factory.mktemp("suite")
    (folder / "test_suite.py").write_text(_SUITE)
    command = [sys.executable, "-m", "pytest", *_OPTIONS, "-rA", "-v", "test_suite.py"]
    environ = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "COLUMNS": "200", "PYTHONPATH": str(ROOT)}
    ran = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environ, timeout=50, check=False)
    assert ran.returncode == 1, ran.stdout + ran.stderr
    return ran.stdout


def _section(shown: str) -> str:
    """Return what is told of the test that failed."""
    (found,) = re.findall(r"^_+ test_wrong _+\n(.*?)^==", shown, re.MULTILINE | re.DOTALL)
    return str(found)


def test_a_wallet_fails_a_test_once(shown: str) -> None:
    """With how the whole run ended: what money is at risk, and where to begin; what is skipped is in the report."""
    assert re.search(r"^=+ 1 failed, 2 passed in", shown, re.MULTILINE)
    sentence, urgency, empty, first = _section(shown).splitlines()[:4]
    assert re.fullmatch(r"Failed: this wallet (loses|doubles) money.*\.", sentence)
    assert re.fullmatch(
        r"\d mistakes?: .*\. Fix the first one first, and run this again(: the others may follow from it)?\.", urgency
    )
    assert (empty, first[:7]) == ("", "1. A04:")
    assert "A09" not in shown


def test_a_failure_says_what_to_do(shown: str) -> None:
    """What it costs, what it means, how it is mended, what was sent and answered; and no traceback of ours."""
    (b01,) = [each for each in scenarios() if each.id == "B01"]
    told = _section(shown)
    assert f"B01 {b01.title} ({b01.weight})" in told
    for line in (f"What it means: {b01.means}", f"How to fix it: {b01.fix}", "It rests on: "):
        assert line in told
    assert '\n> POST /withdraw\n\n{"player_id":"p1","amount":500' in told
    assert '\n< 200\n\n{"type":"SUCCESS","balance":' in told
    assert "certifier.py" not in shown
    assert "pytest.fail" not in shown


def test_a_wallets_traceback_has_its_causes() -> None:
    """As Python prints them."""

    def fails() -> None:
        try:
            raise OSError("no disk")
        except OSError as failed:
            raise LookupError("no table") from failed

    recorder = ErrorRecorder()
    with recorder, suppress(LookupError), recorder.keeping():
        fails()
    (text,) = recorder.taken()
    assert "LookupError: no table" in text
    assert "OSError: no disk" in text


def test_what_is_supplied_and_fails_is_no_pass(wallet_certifier: WalletCertifier, ledger: MemoryLedger) -> None:
    """The scenario that somebody wanted to be tried was not."""

    def block(_player_id: str) -> None:
        raise OSError("no such table")

    supplies = Supplies(block=block, unblock=block)
    with pytest.raises(pytest.fail.Exception, match=r"(?s)^Not finished: .*block could not be done: OSError: no such"):
        wallet_certifier(Wallet(ledger), **PLAYERS, only=["A01", "A09"], supplies=supplies)


def test_nothing_secret_and_no_noise_is_shown(shown: str) -> None:
    """No signature, no key, no headers; and no log of a hundred refusals."""
    assert "signature" not in shown.lower()
    assert "PRIVATE KEY" not in shown
    assert "content-type" not in shown.lower()
    assert "Captured log" not in shown
