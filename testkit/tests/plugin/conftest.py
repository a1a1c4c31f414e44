"""What tests of the plugin share: a ledger with money in it, a wallet that is wrong, and an event loop."""

import pytest

from game_operator import BalanceCall, DepositCall, Reply, RollbackCall, WithdrawCall
from game_operator.ledger import MemoryLedger
from game_operator.webhooks import RsaSignature, WebhookReceiver, success
from game_operator_testkit import WebhookSigner


@pytest.fixture
def anyio_backend() -> str:
    """Async handlers run under asyncio."""
    return "asyncio"


@pytest.fixture
def ledger() -> MemoryLedger:
    """A ledger in which p1 and p2 own 100.00 each."""
    return MemoryLedger({"p1": 10_000, "p2": 10_000})


@pytest.fixture
def receiver(signed_webhook: WebhookSigner) -> WebhookReceiver:
    """A receiver with the service's key."""
    return WebhookReceiver(authenticator=RsaSignature(signed_webhook.public_key_pem))


class Careless:
    """Balances and nothing else: it carries out each call, also the same one twice."""

    def __init__(self) -> None:
        self.cents = {"p1": 10_000, "p2": 10_000}

    def _moved(self, player_id: str, cents: int) -> Reply:
        self.cents[player_id] += cents
        return success(balance_cents=self.cents[player_id])

    def withdraw(self, call: WithdrawCall) -> Reply:
        return self._moved(call.player_id, -call.amount_cents)

    def deposit(self, call: DepositCall) -> Reply:
        return self._moved(call.player_id, call.amount_cents)

    def rollback(self, call: RollbackCall) -> Reply:
        return self._moved(call.player_id, call.amount_cents or 0)

    def player_balance(self, call: BalanceCall) -> Reply:
        return self._moved(call.player_id, 0)
