"""Wallets whose mistake only a close look shows: each passes all but one part of one scenario."""

import threading
from dataclasses import replace
from typing import Any

from wallet_by_hand import SUCCESS, Bet, Call, Case, PlainWallet, Reply

from testkit.tests.certifier.wrong_wallets.order import ReadsTheAmountOfRollbacks
from testkit.tests.certifier.wrong_wallets.registry import wrong

_MOST_SILENT_SECONDS = 1.0


@wrong("pays the deposit of a bet that it declined", must="C06", may="*")
class PaysDeclined(PlainWallet):
    def _deposit(self, case: Case) -> str:
        if case.bet is not None and case.bet.state == "DECLINED" and not case.is_repeat:
            self._settle(case, case.bet)
            return SUCCESS
        return super()._deposit(case)


@wrong("refunds what the rollback says, if that is less than the wager", must="C07", may="*")
class RefundsTheLesser(ReadsTheAmountOfRollbacks):
    def _refund_cents(self, call: Call, bet: Bet) -> int:
        return min(call.cents or bet.cents, bet.cents)


@wrong("lets a cancelled bet be placed under another tx_id", must="C02", may="*")
class EntombsTheTxIdAlone(PlainWallet):
    def _withdraw(self, case: Case) -> str:
        bet = case.bet
        if bet is not None and bet.state == "TOMBSTONE" and case.call.tx_id != bet.tx_id:
            self._database.execute("DELETE FROM bets WHERE bet_id = ?", (bet.bet_id,))
            return self._place(replace(case, bet=None))
        return super()._withdraw(case)


@wrong("credits the deposits of a batch, and leaves their bets open", must="A11", may="*")
class BatchesLeaveBetsOpen(PlainWallet):
    def _answer_batch(self, document: object) -> str:
        answered = super()._answer_batch(document)
        items = document.get("bets") if isinstance(document, dict) else document
        assert isinstance(items, list)
        with self._transaction():
            for item in items:
                update = "UPDATE bets SET state = 'OPEN' WHERE bet_id = ? AND state = 'CLOSED'"
                self._database.execute(update, (item["action_id"],))
        return answered


@wrong("gives back what the player wagered last, whichever bet is cancelled", must="A05", may="*")
class RefundsTheLastWager(PlainWallet):
    def _debit(self, case: Case) -> None:
        super()._debit(case)
        self.__dict__.setdefault("_last", {})[case.call.player_id] = case.call.cents

    def _refund_cents(self, call: Call, bet: Bet) -> int:
        return int(self.__dict__["_last"][bet.player_id])


@wrong("pays a deposit of a settled bet that names another player", must="C10", may="*")
class PaysAnotherOnceClosed(PlainWallet):
    def _deposit(self, case: Case) -> str:
        bet = case.bet
        if bet is not None and bet.state == "CLOSED" and not case.is_repeat and bet.player_id != case.call.player_id:
            self._move(case, case.call.player_id, int(case.call.cents or 0))
            self._remember(case.call)
            return SUCCESS
        return super()._deposit(case)


@wrong("refuses the jackpot of a player who is blocked", must="A09", may="*")
class BlockedWinNoJackpot(PlainWallet):
    def _claim(self, case: Case) -> str:
        return "PLAYER_BLOCKED" if case.account is not None and case.account.blocked else super()._claim(case)


@wrong("keeps the last win where all calls find it, and pays it for a deposit of 0", must="A08", may="*")
class PaysTheLastWinForALoss(PlainWallet):
    _last_won_cents = 0

    def _settle(self, case: Case, bet: Bet) -> None:
        cents = int(case.call.cents or 0) or self._last_won_cents
        self._last_won_cents = int(case.call.cents or 0)
        super()._settle(replace(case, call=replace(case.call, cents=cents)), bet)


@wrong(
    "looks for the withdraw among the open bets alone: a repeat finds none once its bet is settled, and debits",
    must="B01",
    may="*",
)
class DebitsWhatIsSettled(PlainWallet):
    def _withdraw(self, case: Case) -> str:
        outcome = super()._withdraw(case)
        if case.is_repeat and case.bet is not None and case.bet.state == "CLOSED":
            update = "UPDATE accounts SET cents = cents - ?, last_millis = last_millis + 1 WHERE player_id = ?"
            self._database.execute(update, (case.call.cents, case.call.player_id))
        return outcome


@wrong("gives back, at a second rollback, what a withdraw that it refused would have taken", must="C02", may="*")
class RefundsTheRefused(PlainWallet):
    def _rollback(self, case: Case) -> str:
        if case.bet is None or case.bet.state != "TOMBSTONE" or not case.is_repeat:
            return super()._rollback(case)
        update = "UPDATE accounts SET cents = cents + 500, last_millis = last_millis + 1 WHERE player_id = ?"
        self._database.execute(update, (case.call.player_id,))
        return SUCCESS


@wrong("refuses the withdraw of a cancelled bet, and takes the wager all the same", must="C14", may="*")
class DebitsWhatItRefuses(PlainWallet):
    def _withdraw(self, case: Case) -> str:
        outcome = super()._withdraw(case)
        if outcome == "BET_ROLLED_BACK":
            self._move(case, case.call.player_id, -int(case.call.cents or 0))
        return outcome

    def _reply(self, case: Case, outcome: str) -> Reply:
        return Reply(outcome) if outcome == "BET_ROLLED_BACK" else super()._reply(case, outcome)


@wrong(
    "refuses a deposit, or a rollback, while another of the same bet is under way; and that one gives way too",
    must="D04",
    may="*",
)
class GivesWayToBoth(PlainWallet):
    def __init__(self, *arguments: Any, **settings: Any) -> None:  # Any: as for PlainWallet
        super().__init__(*arguments, **settings)
        self._meeting: dict[str | None, threading.Barrier] = {}

    def _carry_out(self, call: Call) -> Reply:
        if call.operation not in ("deposit", "rollback") or threading.current_thread() is threading.main_thread():
            return super()._carry_out(call)
        barrier = self._meeting.setdefault(call.bet_id, threading.Barrier(2))
        try:
            barrier.wait(_MOST_SILENT_SECONDS)
        except threading.BrokenBarrierError:
            return super()._carry_out(call)
        return Reply("BET_ALREADY_CLOSED")
