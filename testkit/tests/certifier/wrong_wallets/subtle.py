"""Wallets that are right in all that is usual, and wrong where few look: in one part of one scenario."""

import json
import re
import sqlite3
import threading
from contextlib import suppress
from dataclasses import replace
from typing import Any

from wallet_by_hand import BATCH_PATHS, SUCCESS, Bet, Call, Case, InvalidRequestError, Number, PlainWallet, Reply

from testkit.tests.certifier.wrong_wallets.order import ReadsTheAmountOfRollbacks
from testkit.tests.certifier.wrong_wallets.registry import wrong


class _PlacesAnew(PlainWallet):
    """Places a bet of the state *reopens* anew if the withdraw has another tx_id."""

    reopens = ""

    def _withdraw(self, case: Case) -> str:
        bet = case.bet
        if bet is None or bet.state != self.reopens or case.is_repeat:
            return super()._withdraw(case)
        self._database.execute("DELETE FROM bets WHERE bet_id = ?", (bet.bet_id,))
        return self._place(replace(case, bet=None))


@wrong("debits a settled bet by another tx_id", must="B12", may="*")
class PlacesTheClosedAnew(_PlacesAnew):
    reopens = "CLOSED"


@wrong("debits a cancelled bet by another tx_id", must="B12", may="*")
class PlacesTheCancelledAnew(_PlacesAnew):
    reopens = "ROLLED_BACK"


@wrong("debits a refused bet by another tx_id", must="B12", may="*")
class PlacesTheDeclinedAnew(_PlacesAnew):
    reopens = "DECLINED"


@wrong("gives the wager back as often as a rollback without tx_id comes", must="B02", may="*")
class RefundsTheNamelessEachTime(PlainWallet):
    def _case(self, call: Call) -> Case:
        case = super()._case(call)
        bet = case.bet
        if call.operation == "rollback" and call.tx_id is None and bet is not None and bet.state == "ROLLED_BACK":
            return replace(case, bet=replace(bet, state="OPEN"), known=None)
        return case

    def _remember(self, call: Call) -> None:
        with suppress(sqlite3.IntegrityError):
            super()._remember(call)

    def _post(self, call: Call, player_id: str, cents: int, at_millis: int) -> None:
        with suppress(sqlite3.IntegrityError):
            super()._post(call, player_id, cents, at_millis)


@wrong("refuses a rollback that has no tx_id, though its bet is open", must="B05", may="*")
class DemandsTxIdsOfRollbacks(PlainWallet):
    def _read(self, operation: str, document: object, body: bytes) -> Call:
        call = super()._read(operation, document, body)
        if operation == "rollback" and call.tx_id is None:
            raise InvalidRequestError("a rollback without a tx_id")
        return call


@wrong("pays a claim's tx_id once to each player", must="B04", may="*")
class ClaimsKnownByPlayer(PlainWallet):
    def _identity(self, call: Call) -> tuple[str, str | None]:
        return (call.operation, f"{call.player_id}|{call.tx_id}") if call.is_claim else super()._identity(call)


@wrong("pays a claim's tx_id once in each amount", must="B04", may="*")
class ClaimsKnownByAmount(PlainWallet):
    def _identity(self, call: Call) -> tuple[str, str | None]:
        return (call.operation, f"{call.cents}|{call.tx_id}") if call.is_claim else super()._identity(call)


@wrong("drops all bets that were never played once they are old, and their calls", must="B11", may="*")
class PrunesTombstones(PlainWallet):
    def days_passed(self, _days: int) -> None:
        """Prune."""
        over = "SELECT {} FROM bets WHERE state IN ('TOMBSTONE', 'DECLINED', 'ROLLED_BACK')"
        with self._transaction():
            self._database.execute(f"DELETE FROM calls WHERE tx_id IN ({over.format('tx_id')})")
            self._database.execute(f"DELETE FROM bets WHERE bet_id IN ({over.format('bet_id')})")


@wrong("keeps the calls, and drops after some days that a bet was settled: it is open again", must="B11", may="*")
class ForgetsWhatWasSettled(PlainWallet):
    def days_passed(self, _days: int) -> None:
        """Prune."""
        with self._transaction():
            self._database.execute("UPDATE bets SET state = 'OPEN' WHERE state = 'CLOSED'")


@wrong("does not compare the bet of a deposit: another bet's tx_id is a repeat, answered SUCCESS", must="B13", may="*")
class DepositOfAnyBetIsARepeat(PlainWallet):
    def _content(self, call: Call) -> str:
        is_settling = call.operation == "deposit" and not call.is_claim
        return json.dumps([call.player_id, call.action, call.cents]) if is_settling else super()._content(call)

    def _deposit(self, case: Case) -> str:
        return SUCCESS if case.is_repeat else super()._deposit(case)


@wrong("pays what a batch has brought again when it comes alone", must="B15", may="*")
class BatchesKeepNoIds(PlainWallet):
    def _answer_batch(self, document: object) -> str:
        answered = super()._answer_batch(document)
        items = document if isinstance(document, list) else []
        with self._transaction():
            for tx_id, bet_id in ((item.get("tx_id"), item.get("action_id")) for item in items):
                for table in ("calls", "postings"):
                    self._database.execute(f"DELETE FROM {table} WHERE (operation, tx_id) = ('deposit', ?)", (tx_id,))
                self._database.execute("UPDATE bets SET state = 'OPEN' WHERE bet_id = ?", (bet_id,))
        return answered


@wrong("verifies no signature at the other path of batches", must="E01", may="*")
class BelievesTheSecondPath(PlainWallet):
    def _answer(self, path: str, headers: list[tuple[str, str]], body: bytes) -> tuple[int, str]:
        if path in BATCH_PATHS[1:]:
            return 200, self._answer_batch(self._parse(body))
        return super()._answer(path, headers, body)


@wrong("compares the instance of single calls alone", must="E13", may="*")
class MindsNoInstanceInBatches(PlainWallet):
    _is_batched = False

    def _answer_batch(self, document: object) -> str:
        self._is_batched = True
        try:
            return super()._answer_batch(document)
        finally:
            self._is_batched = False

    def _is_foreign(self, call: Call) -> bool:
        return not self._is_batched and super()._is_foreign(call)


@wrong("takes a number with a point for units: 5.0 for 5.00, and 5.5 for 5.50", must="F03", may="*")
class PointsAreUnits(PlainWallet):
    def _read_amount(self, operation: str, action: str, document: dict[str, object]) -> int:
        written = self._first(document, "amount", "wager" if operation == "withdraw" else "won", "action.won")
        if isinstance(written, Number) and re.fullmatch(r"[0-9]+\.[0-9]{1,2}", written):
            return round(float(written) * 100)
        return super()._read_amount(operation, action, document)


@wrong("credits action.won in place of the amount", must="F11", may="*")
class PaysWhatWasWon(PlainWallet):
    def _read_amount(self, operation: str, action: str, document: dict[str, object]) -> int:
        won = self._first(document, "action.won") if operation == "deposit" else ...
        return int(won) if isinstance(won, Number) else super()._read_amount(operation, action, document)


@wrong("credits what the free bets of a claim won together in place of the amount", must="F11", may="*")
class PaysTheSumOfFreeBets(PlainWallet):
    def _read_amount(self, operation: str, action: str, document: dict[str, object]) -> int:
        bets = self._first(document, "action.bets") if action == "FREE_BET_CLAIM" else ...
        return (
            sum(int(bet["won"]) for bet in bets)
            if isinstance(bets, list)
            else super()._read_amount(operation, action, document)
        )


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
