"""A ready wallet: answers the four webhooks from a ledger."""

import inspect
from collections.abc import Awaitable
from typing import Any, Protocol

from game_operator.errors import shown
from game_operator.ledger.api import AccountOf, Ledger, MayBet, Outcome, Terms, Within
from game_operator.models.webhooks import BalanceCall, DepositCall, Reply, RollbackCall, WebhookCall, WithdrawCall
from game_operator.profile import Profile

__all__ = ["AsyncWallet", "Wallet"]


class _AsyncLedger(Protocol):
    """What an AsyncWallet needs of its ledger."""

    def apply(self, call: WebhookCall, *, terms: Terms) -> Awaitable[Outcome]: ...


class Wallet:
    """
    A WebhookHandler over a Ledger.

    Args:
        ledger: The ledger.
        profile: What is assumed about repeats, late and early calls (docs/decisions/0014).
        source: A name for service and environment; calls and bets of different sources never meet.
        may_bet: ``may_bet(call, account)`` is asked about a withdraw that is about to debit, while the account is
            locked: it answers a code that refuses it for good (PLAYER_BLOCKED, LIMIT_EXCEEDED, your own) or None.
        account_of: Maps a withdraw, claim or player-balance to the key of an account; the player's id by default. A bet
            keeps its account: its deposit and refund go there.
        within: ``within(call, outcome, connection)`` runs your own statements in the transaction of the call; what it
            raises undoes the call, which is answered SYSTEM_ERROR.

    Raises:
        TypeError: The ledger is awaited: an AsyncWallet is for it.
    """

    def __init__(
        self,
        ledger: Ledger,
        *,
        profile: Profile | None = None,
        source: str = "",
        may_bet: MayBet | None = None,
        account_of: AccountOf | None = None,
        within: Within | None = None,
    ) -> None:
        _check_kind(ledger, awaited=False)
        self.ledger = ledger
        self.terms = Terms(
            rules=profile or Profile(), source=source, may_bet=may_bet, account_of=account_of, within=within
        )

    def withdraw(self, call: WithdrawCall) -> Reply:
        """Debit the wager (spec §4.1)."""
        return self.ledger.apply(call, terms=self.terms).reply()

    def deposit(self, call: DepositCall) -> Reply:
        """Credit the winnings, or close the bet with a loss (spec §4.1)."""
        return self.ledger.apply(call, terms=self.terms).reply()

    def rollback(self, call: RollbackCall) -> Reply:
        """Refund the wager that was taken (spec §4.1)."""
        return self.ledger.apply(call, terms=self.terms).reply()

    def player_balance(self, call: BalanceCall) -> Reply:
        """Tell the balance (spec §4.1)."""
        return self.ledger.apply(call, terms=self.terms).reply()

    def keep_anomaly(self, operation: str, kind: str, body: bytes) -> None:
        """Keep a genuine call that the receiver refused, for somebody to look at."""
        keep: Any = getattr(self.ledger, "keep_anomaly", None)
        if keep is not None:
            keep(operation, kind, body, source=self.terms.source)


class AsyncWallet:
    """
    An AsyncWebhookHandler over an AsyncSqlLedger, made as a Wallet is; ``may_bet`` and ``within`` may be async.

    Raises:
        TypeError: The ledger is not awaited: a Wallet is for it.
    """

    def __init__(
        self,
        ledger: _AsyncLedger,
        *,
        profile: Profile | None = None,
        source: str = "",
        may_bet: MayBet | None = None,
        account_of: AccountOf | None = None,
        within: Within | None = None,
    ) -> None:
        _check_kind(ledger, awaited=True)
        self.ledger = ledger
        self.terms = Terms(
            rules=profile or Profile(), source=source, may_bet=may_bet, account_of=account_of, within=within
        )

    async def withdraw(self, call: WithdrawCall) -> Reply:
        """Debit the wager (spec §4.1)."""
        return (await self.ledger.apply(call, terms=self.terms)).reply()

    async def deposit(self, call: DepositCall) -> Reply:
        """Credit the winnings, or close the bet with a loss (spec §4.1)."""
        return (await self.ledger.apply(call, terms=self.terms)).reply()

    async def rollback(self, call: RollbackCall) -> Reply:
        """Refund the wager that was taken (spec §4.1)."""
        return (await self.ledger.apply(call, terms=self.terms)).reply()

    async def player_balance(self, call: BalanceCall) -> Reply:
        """Tell the balance (spec §4.1)."""
        return (await self.ledger.apply(call, terms=self.terms)).reply()

    async def keep_anomaly(self, operation: str, kind: str, body: bytes) -> None:
        """Keep a genuine call that the receiver refused, for somebody to look at."""
        keep: Any = getattr(self.ledger, "keep_anomaly", None)
        if keep is not None:
            await keep(operation, kind, body, source=self.terms.source)


def _check_kind(ledger: Any, *, awaited: bool) -> None:
    if not callable(getattr(ledger, "apply", None)):
        raise TypeError(
            f"ledger must be a ledger, such as {'an Async' if awaited else 'a '}SqlLedger, not {shown(ledger)}"
        )
    # Found out with the first call, it would be too late: the money would have moved, and nobody could say so.
    if inspect.iscoroutinefunction(ledger.apply) is not awaited:
        kind, other = ("is not awaited", "Wallet") if awaited else ("is awaited", "AsyncWallet")
        raise TypeError(f"the ledger {type(ledger).__name__} {kind}: give it to {other}")
