"""The demo's second part can fail: it notices a wallet that misbehaves at the step concerned (spec §3, §4.1)."""

import sqlite3
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from game_operator.ledger import SqlLedger
from game_operator.profile import Profile
from game_operator.wallet import Wallet
from game_operator.webhooks import (
    AcceptUnsigned,
    Authenticator,
    DepositCall,
    Reply,
    RollbackCall,
    RsaSignature,
    WebhookReceiver,
    WithdrawCall,
    asgi_app,
    error,
    success,
)
from game_operator_testkit.cli.demo import shown_steps
from game_operator_testkit.cli.demo_tour import DemoWallet, wallet_steps
from game_operator_testkit.provider.keys import new_key
from tests.support.servers import asgi_server

pytestmark = pytest.mark.outside

#: Makes the handler for a ledger; the path is that of its file.
Make = Callable[[SqlLedger, Path], Wallet]


def honest(ledger: SqlLedger, file: Path) -> Wallet:
    return Wallet(ledger)


def assuming(**choices: Any) -> Make:
    """Return what makes a wallet by another profile than the story's."""
    return lambda ledger, file: Wallet(ledger, profile=Profile(**choices))


class _Misbehaving(Wallet):
    def __init__(self, ledger: SqlLedger, file: Path) -> None:
        super().__init__(ledger)
        self.file = file

    def change(self, statement: str) -> None:
        """Change the books behind the ledger's back."""
        with closing(sqlite3.connect(self.file)) as connection, connection:
            connection.execute(statement)


class DebitsRepeats(_Misbehaving):
    """Takes a repeated withdraw for a new one."""

    seen = 0

    def withdraw(self, call: WithdrawCall) -> Reply:
        self.seen += 1
        return super().withdraw(replace(call, bet_id=f"{call.bet_id}-{self.seen}", tx_id=f"tx-{self.seen}"))


class ForgetsRollbacks(_Misbehaving):
    """Keeps no tombstone, so that a late withdraw debits."""

    def rollback(self, call: RollbackCall) -> Reply:
        if self.ledger.bet(call.bet_id) is None:
            return error("BET_NOT_FOUND", balance_cents=self.ledger.balance(call.player_id))
        return super().rollback(call)


class KeepsLosses(_Misbehaving):
    """Answers a deposit of 0 without closing the bet."""

    def deposit(self, call: DepositCall) -> Reply:
        if call.amount_cents == 0:
            return success(balance_cents=self.ledger.balance(call.player_id))
        return super().deposit(call)


class PaysTwice(_Misbehaving):
    """Credits a win twice."""

    def deposit(self, call: DepositCall) -> Reply:
        reply = super().deposit(call)
        if call.amount_cents:
            self.change("UPDATE game_operator_accounts SET balance_cents = balance_cents + 1250")
            reply = success(balance_cents=(reply.balance_cents or 0) + 1250)
        return reply


class ForgesBooks(_Misbehaving):
    """Answers well, and changes a bet behind the ledger's back."""

    def withdraw(self, call: WithdrawCall) -> Reply:
        reply = super().withdraw(call)
        if reply.code == "INSUFFICIENT_BALANCE":
            self.change("UPDATE game_operator_bets SET wager_cents = 1 WHERE bet_id = 'bet-1'")
        return reply


class ForgetsBytes(_Misbehaving):
    """Does not know a withdraw's bytes when they come as a rollback."""

    def withdraw(self, call: WithdrawCall) -> Reply:
        return super().withdraw(replace(call, body=b""))


class DropsAnomalies(_Misbehaving):
    """Loses what a person should look at."""

    def rollback(self, call: RollbackCall) -> Reply:
        reply = super().rollback(call)
        self.change("DELETE FROM game_operator_anomalies")
        return reply


class Front:
    """A server whose application is each test's own, because a server takes its time to stop."""

    def __init__(self) -> None:
        self.application: Any = None
        self.port = 0
        self.service_key = new_key()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self.application(scope, receive, send)

    def steps(self, ledger: SqlLedger, *, url: str = "") -> list[dict[str, Any]]:
        """Return the steps of the demo's part with the wallet."""
        url = url or f"http://127.0.0.1:{self.port}"
        return shown_steps(wallet_steps(DemoWallet(url, "", ledger, self.service_key)))

    def authenticator(self, anybody: bool) -> Authenticator:
        if not anybody:
            return RsaSignature(self.service_key.public_key())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return AcceptUnsigned()


@pytest.fixture(scope="module")
def front() -> Iterator[Front]:
    front = Front()
    with asgi_server(front, lifespan="off") as front.port:
        yield front


@pytest.mark.parametrize(
    ("make", "anybody", "title", "problem"),
    [
        pytest.param(honest, False, "The books", "", id="all is well"),
        pytest.param(DebitsRepeats, False, "A win", "bet-1 is BET_NOT_FOUND", id="other bets"),
        pytest.param(PaysTwice, False, "A win", "120.00, not SUCCESS, balance 107.50", id="a win is paid twice"),
        pytest.param(KeepsLosses, False, "The books", "'OPEN': 2", id="a loss does not close the bet"),
        pytest.param(
            ForgetsRollbacks,
            False,
            "A rollback that comes",
            "balance 87.50, not BET_ROLLED_BACK",
            id="no tombstone",
        ),
        pytest.param(
            assuming(unknown_rollback="success"),
            False,
            "A rollback that comes",
            "SUCCESS, balance 94.50, not BET_NOT_FOUND",
            id="a refund of nothing",
        ),
        pytest.param(honest, True, "A forged signature", "not INVALID_SIGNATURE", id="anybody may call"),
        pytest.param(
            assuming(rollback_may_equal_withdraw=True),
            False,
            "A withdraw's bytes",
            "not INVALID_REQUEST",
            id="a replayed body refunds",
        ),
        pytest.param(ForgetsBytes, False, "A withdraw's bytes", "not INVALID_REQUEST", id="bytes forgotten"),
        pytest.param(ForgesBooks, False, "The books", "the books do not add up: ", id="books that are forged"),
        pytest.param(DropsAnomalies, False, "The books", "an anomaly in the ledger", id="nothing to look at"),
    ],
)
def test_the_demo_stops_where_the_wallet_goes_wrong(
    tmp_path: Path, front: Front, make: Make, anybody: bool, title: str, problem: str
) -> None:
    """The step with the problem is the last; without one the part ends with the books."""
    file = tmp_path / "wallet.db"
    receiver_profile = Profile(rollback_may_equal_withdraw=True)
    with SqlLedger(f"sqlite:///{file}") as ledger:
        receiver = WebhookReceiver(authenticator=front.authenticator(anybody), profile=receiver_profile)
        front.application = asgi_app(receiver, make(ledger, file))
        steps = front.steps(ledger)
    assert steps[-1]["title"].startswith(title)
    assert problem in steps[-1]["problem"]
    assert bool(steps[-1]["problem"]) == bool(problem)
    assert not any(step["problem"] for step in steps[:-1])


async def _apologising(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 503, "headers": [(b"content-length", b"5")]})
    await send({"type": "http.response.body", "body": b"later"})


async def _chatting(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"5")]})
    await send({"type": "http.response.body", "body": b"hello"})


@pytest.mark.parametrize(
    ("application", "problem"),
    [
        pytest.param(_apologising, "player-1 is HTTP 503", id="another status"),
        pytest.param(_chatting, "player-1 is HTTP 200", id="no reply"),
        pytest.param(None, "The webhook never left", id="nobody there"),
    ],
)
def test_what_is_no_wallet_is_found_out(tmp_path: Path, front: Front, application: Any, problem: str) -> None:
    """At the first call, in words, and not by a traceback."""
    front.application = application
    with SqlLedger(f"sqlite:///{tmp_path / 'wallet.db'}") as ledger:
        steps = front.steps(ledger, url="" if application else "http://127.0.0.1:1")
    assert len(steps) == 2
    assert problem in steps[-1]["problem"]
