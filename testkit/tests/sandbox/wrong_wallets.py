"""
Wallets with a bug planted in each, and the right one beside them.

Each is what somebody in a hurry might write; most wrap the right wallet over a ledger of ours, so that they can be
audited both ways. ``slips`` are the bets and claims that the bug has done something to.
"""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal
from itertools import count

from game_operator.codes import BetState, WebhookErrorCode
from game_operator.errors import AdjustmentRefusedError
from game_operator.ledger import MemoryLedger, SqlLedger
from game_operator.models.webhooks import BalanceCall, DepositCall, MovingCall, Reply, RollbackCall, WithdrawCall
from game_operator.money import Cents, amount_from_cents
from game_operator.wallet import Wallet

__all__ = [
    "AnswersWithoutCrediting",
    "ChecksNoFunds",
    "CreditsWhatIsChanged",
    "ForgetsUnderLoad",
    "KeyedOnTxIdAlone",
    "NoTombstone",
    "PaysRepeatsTwice",
    "RefundsTwice",
    "RefusesEverything",
    "RefusesJackpots",
    "RefusesWithMoney",
    "RightWallet",
    "SlipsInTheBackground",
    "TellsWhatWasBefore",
    "WrongWallet",
]


_REFERENCES = count(1)


class RightWallet(Wallet):
    """The twin of all: nothing is wrong with it."""

    ledger: MemoryLedger | SqlLedger

    def __init__(self, ledger: MemoryLedger | SqlLedger) -> None:
        super().__init__(ledger)
        self.slips: list[str] = []


class WrongWallet(RightWallet):
    """What the wrong ones share."""

    def _slip(self, call: MovingCall, cents: int = 0) -> None:
        """Move *cents* that nobody asked for, or none, and remember it."""
        if cents:
            reference = f"slip-{next(_REFERENCES)}"
            with suppress(AdjustmentRefusedError):
                self.ledger.adjust(call.player_id, Decimal(amount_from_cents(cents)), reference=reference)
        self.slips.append(call.bet_id or "")

    def _balance(self, call: MovingCall | BalanceCall, code: str | None = None) -> Reply:
        return replace(self.player_balance(BalanceCall(player_id=call.player_id)), code=code)


class PaysRepeatsTwice(WrongWallet):
    """A deposit that comes again is credited again."""

    def deposit(self, call: DepositCall) -> Reply:
        outcome = self.ledger.apply(call, terms=self.terms)
        if not outcome.replayed or outcome.refused or not call.amount_cents:
            return outcome.reply()
        self._slip(call, call.amount_cents)
        return self._balance(call)


class NoTombstone(WrongWallet):
    """A rollback of a bet that was never seen is forgotten, and so its late withdraw debits."""

    def __init__(self, ledger: MemoryLedger | SqlLedger) -> None:
        super().__init__(ledger)
        self._forgotten: set[str] = set()

    def rollback(self, call: RollbackCall) -> Reply:
        if self.ledger.bet(call.bet_id) is not None:
            return super().rollback(call)
        self._forgotten.add(call.bet_id)
        return self._balance(call, WebhookErrorCode.BET_NOT_FOUND)

    def withdraw(self, call: WithdrawCall) -> Reply:
        outcome = self.ledger.apply(call, terms=self.terms)
        if outcome.applied and call.bet_id in self._forgotten:
            self._slip(call)
        return outcome.reply()


class KeyedOnTxIdAlone(WrongWallet):
    """A rollback has its withdraw's tx_id, and so it is taken for a repeat: SUCCESS, and no refund."""

    def rollback(self, call: RollbackCall) -> Reply:
        record = self.ledger.bet(call.bet_id)
        if record is None or record.state is not BetState.OPEN:
            return super().rollback(call)
        self._slip(call)
        return self._balance(call)


class AnswersWithoutCrediting(WrongWallet):
    """Each seventh deposit is answered SUCCESS and forgotten."""

    _seen = 0

    def deposit(self, call: DepositCall) -> Reply:
        self._seen += 1
        if self._seen % 7 or call.is_claim or self.ledger.bet(call.bet_id or "") is None:
            return super().deposit(call)
        self._slip(call)
        return self._balance(call)


class RefundsTwice(WrongWallet):
    """A rollback refunds the wager that was kept with the bet, and the amount it carries as well."""

    def rollback(self, call: RollbackCall) -> Reply:
        outcome = self.ledger.apply(call, terms=self.terms)
        if not outcome.applied:
            return outcome.reply()
        self._slip(call, call.amount_cents or 0)
        return self._balance(call)


class RefusesJackpots(WrongWallet):
    """A jackpot is taken for a second settlement of its bet, which is closed."""

    def deposit(self, call: DepositCall) -> Reply:
        if call.action != "JACKPOT":
            return super().deposit(call)
        self._slip(call)
        return self._balance(call, WebhookErrorCode.BET_ALREADY_CLOSED)


class CreditsWhatIsChanged(WrongWallet):
    """A deposit whose identity is known and whose amount is another is credited all the same."""

    def deposit(self, call: DepositCall) -> Reply:
        outcome = self.ledger.apply(call, terms=self.terms)
        if outcome.code != WebhookErrorCode.DUPLICATE_TRANSACTION:
            return outcome.reply()
        self._slip(call, call.amount_cents)
        return self._balance(call)


class TellsWhatWasBefore(WrongWallet):
    """Books a deposit rightly, and tells the balance from before it."""

    def deposit(self, call: DepositCall) -> Reply:
        before = self._balance(call).balance_cents
        outcome = self.ledger.apply(call, terms=self.terms)
        if not outcome.applied or not call.amount_cents:
            return outcome.reply()
        self._slip(call)
        return replace(outcome.reply(), balance_cents=before)


class RefusesEverything(WrongWallet):
    """Lets nobody bet."""

    def withdraw(self, call: WithdrawCall) -> Reply:
        self._slip(call)
        return self._balance(call, WebhookErrorCode.PLAYER_BLOCKED)


class SlipsInTheBackground(WrongWallet):
    """Takes a cent more with every tenth withdraw, without a word in its answer: what it tells is right for once."""

    _seen = 0

    def withdraw(self, call: WithdrawCall) -> Reply:
        outcome = self.ledger.apply(call, terms=self.terms)
        self._seen += 1
        if outcome.applied and self._seen % 10 == 0:
            self._slip(call, -1)
        return outcome.reply()


class ForgetsUnderLoad:
    """
    Reads a balance, waits for its database, and writes what it makes of the balance it read: one of two is forgotten.

    Args:
        opening: Balances in cents.
        guarded: Whether a lock makes it right.
    """

    def __init__(self, opening: Mapping[str, int], *, guarded: bool = False) -> None:
        self.balances = dict(opening)
        self._guarded = guarded
        self._lock = asyncio.Lock()
        self._calls: dict[tuple[str, str], Reply] = {}

    async def withdraw(self, call: WithdrawCall) -> Reply:
        return await self._once(call, -call.amount_cents)

    async def deposit(self, call: DepositCall) -> Reply:
        if not call.is_claim and ("withdraw", f"withdraw:bet:{call.bet_id}") not in self._calls:
            return self._reply(call, WebhookErrorCode.BET_NOT_FOUND)
        return await self._once(call, call.amount_cents)

    async def rollback(self, call: RollbackCall) -> Reply:
        if ("withdraw", f"withdraw:bet:{call.bet_id}") not in self._calls:
            return self._reply(call, WebhookErrorCode.BET_NOT_FOUND)
        return await self._once(call, call.amount_cents or 0)

    async def player_balance(self, call: BalanceCall) -> Reply:
        known = call.player_id in self.balances
        return self._reply(call, None if known else WebhookErrorCode.PLAYER_NOT_FOUND)

    async def _once(self, call: MovingCall, cents: int) -> Reply:
        if self._guarded:
            async with self._lock:
                return await self._carried_out(call, cents)
        return await self._carried_out(call, cents)

    async def _carried_out(self, call: MovingCall, cents: int) -> Reply:
        identity = call.operation, call.tx_id or ""
        if identity in self._calls:
            return self._reply(call, self._calls[identity].code)
        before = self.balances[call.player_id]
        await asyncio.sleep(0.002)
        if self._lacks_money(call, before + cents):
            reply = self._reply(call, WebhookErrorCode.INSUFFICIENT_BALANCE)
        else:
            self.balances[call.player_id] = before + cents
            reply = self._reply(call)
        self._calls[identity] = reply
        return reply

    def _lacks_money(self, call: MovingCall, left_cents: int) -> bool:
        return left_cents < 0

    def _reply(self, call: MovingCall | BalanceCall, code: str | None = None) -> Reply:
        cents = self.balances.get(call.player_id)
        return Reply(code=code, balance_cents=None if cents is None else Cents(cents))


class ChecksNoFunds(ForgetsUnderLoad):
    """Whoever has no money bets all the same."""

    def _lacks_money(self, call: MovingCall, left_cents: int) -> bool:
        return False


class RefusesWithMoney(ForgetsUnderLoad):
    """Every third bet is refused for want of money, whatever there is."""

    _asked = 0

    def _lacks_money(self, call: MovingCall, left_cents: int) -> bool:
        self._asked += call.operation == "withdraw"
        return super()._lacks_money(call, left_cents) or (call.operation == "withdraw" and self._asked % 3 == 0)
