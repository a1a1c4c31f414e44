"""Wallets that are right in all that is usual, and wrong where few look: at other ids, later days and second paths."""

import json
import re
import sqlite3
from contextlib import suppress
from dataclasses import replace

from wallet_by_hand import BATCH_PATHS, SUCCESS, Call, Case, InvalidRequestError, Number, PlainWallet

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
