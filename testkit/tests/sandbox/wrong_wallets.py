"""
Wallets with a bug planted in each, and the right one beside them.

Each is what somebody in a hurry might write; most wrap the right wallet over a ledger of ours, so that they can be
audited both ways. ``slips`` are the bets and claims that the bug has done something to.
"""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import nullcontext, suppress
from dataclasses import replace
from decimal import Decimal
from itertools import count
from typing import Any

from game_operator.codes import BetState, WebhookErrorCode
from game_operator.errors import AdjustmentRefusedError
from game_operator.ledger import MemoryLedger, SqlLedger
from game_operator.models.webhooks import BalanceCall, DepositCall, MovingCall, Reply, RollbackCall, WithdrawCall
from game_operator.money import amount_from_cents
from game_operator.wallet import Wallet

_REFERENCES = count(1)


class RightWallet(Wallet):
    """The twin of all: nothing is wrong with it."""

    ledger: MemoryLedger | SqlLedger

    def __init__(self, ledger: MemoryLedger | SqlLedger) -> None:
        super().__init__(ledger)
        self.slips: list[str] = []


class WrongWallet(RightWallet):
    """What the wrong ones share."""

    def slip(self, call: MovingCall, cents: int = 0) -> None:
        """Move *cents* that nobody asked for, or none, and remember it."""
        if cents:
            reference = f"slip-{next(_REFERENCES)}"
            with suppress(AdjustmentRefusedError):
                self.ledger.adjust(call.player_id, Decimal(amount_from_cents(cents)), reference=reference)
        self.slips.append(call.bet_id or "")

    def answer(self, call: MovingCall, code: str | None = None) -> Reply:
        return replace(self.player_balance(BalanceCall(player_id=call.player_id)), code=code)


class PaysRepeatsTwice(WrongWallet):
    """A deposit that comes again is credited again."""

    def deposit(self, call: DepositCall) -> Reply:
        outcome = self.ledger.apply(call, terms=self.terms)
        if not outcome.replayed or outcome.refused or not call.amount_cents:
            return outcome.reply()
        self.slip(call, call.amount_cents)
        return self.answer(call)


class NoTombstone(WrongWallet):
    """A rollback of a bet that was never seen is forgotten, and so its late withdraw debits."""

    def __init__(self, ledger: MemoryLedger | SqlLedger) -> None:
        super().__init__(ledger)
        self._forgotten: set[str] = set()

    def rollback(self, call: RollbackCall) -> Reply:
        if self.ledger.bet(call.bet_id) is not None:
            return super().rollback(call)
        self._forgotten.add(call.bet_id)
        return self.answer(call, WebhookErrorCode.BET_NOT_FOUND)

    def withdraw(self, call: WithdrawCall) -> Reply:
        outcome = self.ledger.apply(call, terms=self.terms)
        if outcome.applied and call.bet_id in self._forgotten:
            self.slip(call)
        return outcome.reply()


class KeyedOnTxIdAlone(WrongWallet):
    """A rollback has its withdraw's tx_id, and so it is taken for a repeat: SUCCESS, and no refund."""

    def rollback(self, call: RollbackCall) -> Reply:
        record = self.ledger.bet(call.bet_id)
        if record is None or record.state is not BetState.OPEN:
            return super().rollback(call)
        self.slip(call)
        return self.answer(call)


class AnswersWithoutCrediting(WrongWallet):
    """Each seventh deposit is answered SUCCESS and forgotten."""

    _seen = 0

    def deposit(self, call: DepositCall) -> Reply:
        self._seen += 1
        if self._seen % 7 or call.is_claim or self.ledger.bet(call.bet_id or "") is None:
            return super().deposit(call)
        self.slip(call)
        return self.answer(call)


class RefundsTwice(WrongWallet):
    """A rollback refunds the wager that was kept with the bet, and the amount it carries as well."""

    def rollback(self, call: RollbackCall) -> Reply:
        outcome = self.ledger.apply(call, terms=self.terms)
        if not outcome.applied:
            return outcome.reply()
        self.slip(call, call.amount_cents or 0)
        return self.answer(call)


class RefusesJackpots(WrongWallet):
    """A jackpot is taken for a second settlement of its bet, which is closed."""

    def deposit(self, call: DepositCall) -> Reply:
        if call.action != "JACKPOT":
            return super().deposit(call)
        self.slip(call)
        return self.answer(call, WebhookErrorCode.BET_ALREADY_CLOSED)


class CreditsWhatIsChanged(WrongWallet):
    """A deposit whose identity is known and whose amount is another is credited all the same."""

    def deposit(self, call: DepositCall) -> Reply:
        outcome = self.ledger.apply(call, terms=self.terms)
        if outcome.code != WebhookErrorCode.DUPLICATE_TRANSACTION:
            return outcome.reply()
        self.slip(call, call.amount_cents)
        return self.answer(call)


class TellsWhatWasBefore(WrongWallet):
    """Books a deposit rightly, and tells the balance from before it."""

    def deposit(self, call: DepositCall) -> Reply:
        before = self.answer(call).balance_cents
        outcome = self.ledger.apply(call, terms=self.terms)
        if not outcome.applied or not call.amount_cents:
            return outcome.reply()
        self.slip(call)
        return replace(outcome.reply(), balance_cents=before)


class RefusesEverything(WrongWallet):
    """Lets nobody bet."""

    def withdraw(self, call: WithdrawCall) -> Reply:
        self.slip(call)
        return self.answer(call, WebhookErrorCode.PLAYER_BLOCKED)


class SlipsInTheBackground(WrongWallet):
    """Takes a cent more with every tenth withdraw, without a word in its answer: what it tells is right for once."""

    _seen = 0

    def withdraw(self, call: WithdrawCall) -> Reply:
        outcome = self.ledger.apply(call, terms=self.terms)
        self._seen += 1
        if outcome.applied and self._seen % 10 == 0:
            self.slip(call, -1)
        return outcome.reply()


class ForgetsUnderLoad:
    """
    Reads a balance, waits for its database, and writes what it makes of the balance it read: one of two is forgotten.

    Args:
        opening: Balances in cents.
        guarded: Whether a lock makes it right.
    """

    def __init__(self, opening: Mapping[str, int], *, guarded: bool) -> None:
        self._wallet = WrongWallet(MemoryLedger(opening))
        self._lock = asyncio.Lock() if guarded else nullcontext()

    async def withdraw(self, call: WithdrawCall) -> Reply:
        return await self._carried_out(call, self._wallet.withdraw)

    async def deposit(self, call: DepositCall) -> Reply:
        return await self._carried_out(call, self._wallet.deposit)

    async def rollback(self, call: RollbackCall) -> Reply:
        return await self._carried_out(call, self._wallet.rollback)

    async def player_balance(self, call: BalanceCall) -> Reply:
        return self._wallet.player_balance(call)

    async def _carried_out(self, call: Any, right: Callable[[Any], Reply]) -> Reply:  # Any: each operation has a call.
        async with self._lock:
            read = self._wallet.ledger.balance(call.player_id)
            await asyncio.sleep(0.002)
            forgotten = self._wallet.ledger.balance(call.player_id) - read
            code = right(call).code
            if forgotten:
                self._wallet.slip(call, -forgotten)
            return self._wallet.answer(call, code)
