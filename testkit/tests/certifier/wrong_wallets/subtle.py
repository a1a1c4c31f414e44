"""Wallets that are right in all that is usual, and wrong where few look: at other ids, later days and second paths."""

import json
import re
import sqlite3
from contextlib import suppress
from dataclasses import replace

from wallet_by_hand import BATCH_PATHS, SUCCESS, Call, Case, InvalidRequestError, Number, PlainWallet

# Repeats, callers and odd bodies: groups B, E and F.


class _PlacesAnew(PlainWallet):
    """Places a bet of the state *reopens* anew if the withdraw has another tx_id."""

    reopens = ""

    def _withdraw(self, case: Case) -> str:
        bet = case.bet
        if bet is None or bet.state != self.reopens or case.is_repeat:
            return super()._withdraw(case)
        self._database.execute("DELETE FROM bets WHERE bet_id = ?", (bet.bet_id,))
        return self._place(replace(case, bet=None))


class PlacesTheClosedAnew(_PlacesAnew):
    """Debits a settled bet by another tx_id."""

    reopens = "CLOSED"


class PlacesTheCancelledAnew(_PlacesAnew):
    """Debits a cancelled bet by another tx_id."""

    reopens = "ROLLED_BACK"


class PlacesTheDeclinedAnew(_PlacesAnew):
    """Debits a refused bet by another tx_id."""

    reopens = "DECLINED"


class RefundsTheNamelessEachTime(PlainWallet):
    """Gives the wager back as often as a rollback without tx_id comes."""

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


class DemandsTxIdsOfRollbacks(PlainWallet):
    """Refuses a rollback that has no tx_id, though its bet is open."""

    def _read(self, operation: str, document: object, body: bytes) -> Call:
        call = super()._read(operation, document, body)
        if operation == "rollback" and call.tx_id is None:
            raise InvalidRequestError("a rollback without a tx_id")
        return call


class ClaimsKnownByPlayer(PlainWallet):
    """Pays a claim's tx_id once to each player."""

    def _identity(self, call: Call) -> tuple[str, str | None]:
        return (call.operation, f"{call.player_id}|{call.tx_id}") if call.is_claim else super()._identity(call)


class ClaimsKnownByAmount(PlainWallet):
    """Pays a claim's tx_id once in each amount."""

    def _identity(self, call: Call) -> tuple[str, str | None]:
        return (call.operation, f"{call.cents}|{call.tx_id}") if call.is_claim else super()._identity(call)


class PrunesTombstones(PlainWallet):
    """Drops all bets that were never played once they are old, and their calls."""

    def days_passed(self, _days: int) -> None:
        """Prune."""
        over = "SELECT {} FROM bets WHERE state IN ('TOMBSTONE', 'DECLINED', 'ROLLED_BACK')"
        with self._transaction():
            self._database.execute(f"DELETE FROM calls WHERE tx_id IN ({over.format('tx_id')})")
            self._database.execute(f"DELETE FROM bets WHERE bet_id IN ({over.format('bet_id')})")


class ForgetsWhatWasSettled(PlainWallet):
    """Keeps the calls, and drops after some days that a bet was settled: it is open again."""

    def days_passed(self, _days: int) -> None:
        """Prune."""
        with self._transaction():
            self._database.execute("UPDATE bets SET state = 'OPEN' WHERE state = 'CLOSED'")


class DepositOfAnyBetIsARepeat(PlainWallet):
    """Does not compare the bet of a deposit: another bet's tx_id is a repeat, answered SUCCESS."""

    def _content(self, call: Call) -> str:
        is_settling = call.operation == "deposit" and not call.is_claim
        return json.dumps([call.player_id, call.action, call.cents]) if is_settling else super()._content(call)

    def _deposit(self, case: Case) -> str:
        return SUCCESS if case.is_repeat else super()._deposit(case)


class BatchesKeepNoIds(PlainWallet):
    """Pays what a batch has brought again when it comes alone."""

    def _answer_batch(self, document: object) -> str:
        answered = super()._answer_batch(document)
        items = document if isinstance(document, list) else []
        with self._transaction():
            for tx_id, bet_id in ((item.get("tx_id"), item.get("action_id")) for item in items):
                for table in ("calls", "postings"):
                    self._database.execute(f"DELETE FROM {table} WHERE (operation, tx_id) = ('deposit', ?)", (tx_id,))
                self._database.execute("UPDATE bets SET state = 'OPEN' WHERE bet_id = ?", (bet_id,))
        return answered


class _BelievesBatches(PlainWallet):
    """Verifies no signatures at the paths *unsigned*."""

    unsigned: tuple[str, ...] = ()

    def _answer(self, path: str, headers: list[tuple[str, str]], body: bytes) -> tuple[int, str]:
        if path in self.unsigned:
            return 200, self._answer_batch(self._parse(body))
        return super()._answer(path, headers, body)


class BelievesAnyBatch(_BelievesBatches):
    """Verifies no signature of a batch."""

    unsigned = BATCH_PATHS


class BelievesTheSecondPath(_BelievesBatches):
    """Verifies no signature at the other path of batches."""

    unsigned = BATCH_PATHS[1:]


class MindsNoInstanceInBatches(PlainWallet):
    """Compares the instance of single calls alone."""

    _is_batched = False

    def _answer_batch(self, document: object) -> str:
        self._is_batched = True
        try:
            return super()._answer_batch(document)
        finally:
            self._is_batched = False

    def _is_foreign(self, call: Call) -> bool:
        return not self._is_batched and super()._is_foreign(call)


class PointsAreUnits(PlainWallet):
    """Takes a number with a point for units: 5.0 for 5.00, and 5.5 for 5.50."""

    def _read_amount(self, operation: str, action: str, document: dict[str, object]) -> int:
        written = self._first(document, "amount", "wager" if operation == "withdraw" else "won", "action.won")
        if isinstance(written, Number) and re.fullmatch(r"[0-9]+\.[0-9]{1,2}", written):
            return round(float(written) * 100)
        return super()._read_amount(operation, action, document)


class PaysWhatWasWon(PlainWallet):
    """Credits action.won in place of the amount."""

    def _read_amount(self, operation: str, action: str, document: dict[str, object]) -> int:
        won = self._first(document, "action.won") if operation == "deposit" else ...
        return int(won) if isinstance(won, Number) else super()._read_amount(operation, action, document)


class PaysTheSumOfFreeBets(PlainWallet):
    """Credits what the free bets of a claim won together in place of the amount."""

    def _read_amount(self, operation: str, action: str, document: dict[str, object]) -> int:
        bets = self._first(document, "action.bets") if action == "FREE_BET_CLAIM" else ...
        return (
            sum(int(bet["won"]) for bet in bets)
            if isinstance(bets, list)
            else super()._read_amount(operation, action, document)
        )
