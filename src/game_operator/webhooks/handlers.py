"""What answers a call once it is known to be genuine and readable."""

import inspect
from typing import Protocol, TypeGuard, runtime_checkable

from game_operator.models.webhooks import BalanceCall, DepositCall, Reply, RollbackCall, WithdrawCall
from game_operator.profile import CALLS


@runtime_checkable
class WebhookHandler(Protocol):
    """
    The operator's side of the four webhooks (spec §4.1).

    Each method returns ``success(...)`` or ``error(...)``. Whatever it raises is answered SYSTEM_ERROR, which says that
    the outcome is unknown: undo what was begun before raising. (Ctrl-C and ``sys.exit`` in the caller's own thread, and
    a task's cancellation, pass through.)

    A handler should also have ``keep_anomaly`` (KeepsAnomalies): otherwise a genuine deposit that cannot be read leaves
    a log line without its body.
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
    """
    The same as WebhookHandler, awaited.

    At its time budget a call is cancelled: let CancelledError through, and roll back on the way. Its reply is sent when
    it has ended, so a method that takes its time over being cancelled delays it. ``keep_anomaly`` is awaited too.
    """

    async def withdraw(self, call: WithdrawCall) -> Reply:
        """Take the wager from the balance (spec §3)."""

    async def deposit(self, call: DepositCall) -> Reply:
        """Credit the winnings, 0 for a loss (spec §3)."""

    async def rollback(self, call: RollbackCall) -> Reply:
        """Reverse the withdraw (spec §3)."""

    async def player_balance(self, call: BalanceCall) -> Reply:
        """Return the current balance (spec §4.1)."""


@runtime_checkable
class KeepsAnomalies(Protocol):
    """
    A handler that keeps what is genuine but reaches no method; the receiver uses it where it is there.

    Every wallet of this package has it. A handler of your own passes it on: ``ledger.keep_anomaly(operation, anomaly,
    body)``, or with ``connection=`` into a transaction of yours. What it raises is logged.
    """

    def keep_anomaly(self, operation: str, anomaly: str, body: bytes, /) -> object:
        """
        Keep the body of a call that was refused before it was one; an AsyncWebhookHandler's is awaited.

        What it returns is not used.

        Args:
            operation: The path it was posted to: ``withdraw``, ``deposit``, ``rollback`` or ``deposit-batch``.
            anomaly: ``unreadable``, behind which money may be owed, or ``foreign_instance``.
            body: The bytes as they came in.
        """


def is_async(handler: WebhookHandler | AsyncWebhookHandler) -> TypeGuard[AsyncWebhookHandler]:
    """
    Return whether *handler* is to be awaited.

    Raises:
        TypeError: It is a class, lacks a method, or some of its methods are async and some are not.
    """
    if isinstance(handler, type):
        raise TypeError(f"the handler is the class {handler.__name__}; pass an object of it")
    names = [call.replace("-", "_") for call in CALLS]
    methods = {name: getattr(handler, name, None) for name in names}
    missing = [name for name, method in methods.items() if not callable(method)]
    if missing:
        raise TypeError(f"the handler {type(handler).__name__} has no method {missing[0]}")
    kinds = set(map(inspect.iscoroutinefunction, methods.values()))
    if len(kinds) > 1:
        raise TypeError(f"the handler {type(handler).__name__} has sync and async methods: make all four alike")
    return kinds == {True}
