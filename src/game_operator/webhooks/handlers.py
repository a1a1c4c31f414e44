"""What answers a call once it is known to be genuine and readable."""

import inspect
from typing import Protocol, TypeGuard, runtime_checkable

from game_operator.models.webhooks import BalanceCall, DepositCall, Reply, RollbackCall, WithdrawCall

__all__ = ["AsyncWebhookHandler", "WebhookHandler", "is_async"]


@runtime_checkable
class WebhookHandler(Protocol):
    """
    The operator's side of the four webhooks (spec §4.1).

    Each method returns ``success(...)`` or ``error(...)``. Whatever it raises is answered SYSTEM_ERROR, which says that
    the outcome is unknown: undo what was begun before raising.
    """

    def withdraw(self, call: WithdrawCall) -> Reply:
        """Take the wager from the balance (spec §3)."""

    def deposit(self, call: DepositCall) -> Reply:
        """Credit the winnings, 0 for a loss (spec §3)."""

    def rollback(self, call: RollbackCall) -> Reply:
        """Reverse the withdraw (spec §3)."""

    def player_balance(self, call: BalanceCall) -> Reply:
        """Return the current balance (spec §4.1)."""


@runtime_checkable
class AsyncWebhookHandler(Protocol):
    """The same as WebhookHandler, awaited. At its time budget a call is cancelled."""

    async def withdraw(self, call: WithdrawCall) -> Reply:
        """Take the wager from the balance (spec §3)."""

    async def deposit(self, call: DepositCall) -> Reply:
        """Credit the winnings, 0 for a loss (spec §3)."""

    async def rollback(self, call: RollbackCall) -> Reply:
        """Reverse the withdraw (spec §3)."""

    async def player_balance(self, call: BalanceCall) -> Reply:
        """Return the current balance (spec §4.1)."""


METHODS = {
    "withdraw": "withdraw",
    "deposit": "deposit",
    "rollback": "rollback",
    "player-balance": "player_balance",
}


def is_async(handler: WebhookHandler | AsyncWebhookHandler) -> TypeGuard[AsyncWebhookHandler]:
    """
    Return whether *handler* is to be awaited.

    Raises:
        TypeError: It lacks a method, or some of its methods are async and some are not.
    """
    methods = {name: getattr(handler, name, None) for name in METHODS.values()}
    missing = [name for name, method in methods.items() if not callable(method)]
    if missing:
        raise TypeError(f"the handler {type(handler).__name__} has no method {missing[0]}")
    kinds = {inspect.iscoroutinefunction(method) for method in methods.values()}
    if len(kinds) > 1:
        raise TypeError(f"the handler {type(handler).__name__} has sync and async methods: make all four alike")
    return kinds == {True}
