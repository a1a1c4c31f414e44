"""Wallets that are wrong about what is a repeat: group B."""

import json
import sqlite3
from contextlib import suppress
from dataclasses import replace
from hashlib import sha256
from typing import Any

from wallet_by_hand import SUCCESS, Account, Bet, Call, Case, PlainWallet

from testkit.tests.certifier.wrong_wallets.registry import wrong


class _MovesAgain(PlainWallet):
    """A posting that is there already does not keep it from moving the money."""

    def _post(self, call: Call, player_id: str, cents: int, at_millis: int) -> None:
        with suppress(sqlite3.IntegrityError):
            super()._post(call, player_id, cents, at_millis)


@wrong(
    "debits the wager each time that the withdraw is sent",
    must="B01",
    may="B03 B05 B08 B11 B14 B15 C09 D02 D06 D09 E07 E09 F07 F08 F13 G04 H05 H06",
)
class DebitsEachTime(_MovesAgain):
    def _withdraw(self, case: Case) -> str:
        outcome = super()._withdraw(case)
        if outcome == SUCCESS and case.is_repeat:
            self._move(case, case.call.player_id, -case.call.cents)
        return outcome


@wrong(
    "credits the win each time that the deposit is sent",
    must="B02",
    may="B05 B08 B11 B15 C09 D02 D06 D09 E07 G03 G04 H05 H06",
)
class PaysEachTime(_MovesAgain):
    def _deposit(self, case: Case) -> str:
        outcome = super()._deposit(case)
        if outcome == SUCCESS and case.is_repeat:
            self._move(case, case.call.player_id, case.call.cents)
        return outcome


@wrong("gives the wager back each time that the rollback is sent", must="B02",
       may="B05 C09 D01 D02 D06 D08 G04 H05 H06")  # fmt: skip
class RefundsEachTime(_MovesAgain):
    def _rollback(self, case: Case) -> str:
        outcome = super()._rollback(case)
        if outcome == SUCCESS and case.bet is not None and case.bet.state == "ROLLED_BACK":
            self._move(case, case.bet.player_id, self._refund_cents(case.call, case.bet))
        return outcome


@wrong(
    "answers a repeat with the balance of the first answer and the current time",
    must="B03",
    may="B01 B02 B06 B08 B11 B16 C06 C15 C09 E07 G04 H06",
)
class OldBalanceAsOfNow(PlainWallet):
    def __init__(self, *arguments: Any, **settings: Any) -> None:  # Any: those of every wallet.
        super().__init__(*arguments, **settings)
        self._told: dict[tuple[str, str | None], int] = {}

    def _told_cents(self, case: Case, account: Account) -> int:
        identity = self._identity(case.call)
        if case.is_repeat and case.known is not None and self._is_same(case.call, case.known):
            return self._told.get(identity, account.cents)
        self._told[identity] = account.cents
        return account.cents


@wrong("checks the funds before it checks whether the withdraw is known", must="B03")
class FundsBeforeTheRepeat(PlainWallet):
    def _withdraw(self, case: Case) -> str:
        outcome = super()._withdraw(case)
        # A repeat that would be a SUCCESS; what is new has been asked already.
        return outcome if case.bet is None or outcome != SUCCESS or self._has_funds(case) else "INSUFFICIENT_BALANCE"


@wrong("treats a known tx_id with another amount as a repeat", must="B04")
class AmountNotCompared(PlainWallet):
    def _content(self, call: Call) -> str:
        return (
            super()._content(call)
            if call.operation == "rollback"
            else json.dumps([call.player_id, call.bet_id, call.action])
        )


@wrong("treats a known tx_id with another player as a repeat", must="B04")
class PlayerNotCompared(PlainWallet):
    def _content(self, call: Call) -> str:
        return (
            super()._content(call)
            if call.operation == "rollback"
            else json.dumps([call.bet_id, call.action, call.cents])
        )


@wrong(
    "uses the tx_id alone as key, so that a rollback looks like its withdraw again",
    must="B05",
    may="*",
)
class KeyedOnTxIdAlone(PlainWallet):
    def _identity(self, call: Call) -> tuple[str, str | None]:
        return "call", call.tx_id


@wrong("does not keep refusals, and debits the same withdraw when there is money", must="B06", may="B12 C13 G04 H06")
class RefusalsForgotten(PlainWallet):
    def _decline(self, case: Case, code: str) -> None:
        pass


@wrong("stores its own failures, and repeats them forever", must="B07", may="H02")
class FailuresRemembered(PlainWallet):
    def __init__(self, *arguments: Any, **settings: Any) -> None:  # Any: those of every wallet.
        super().__init__(*arguments, **settings)
        self._failed: set[tuple[str, bytes]] = set()

    def _answer(self, path: str, headers: list[tuple[str, str]], body: bytes) -> tuple[int, str]:
        call = path, sha256(body).digest()
        if self.broken and path != "/player-balance" and self._is_authentic(headers, body):
            self._failed.add(call)
        return self._refuse("SYSTEM_ERROR") if call in self._failed else super()._answer(path, headers, body)


@wrong("refuses for good while it fails, though it would process the repeat", must="B07", may="H02")
class MistakesItsFailures(PlainWallet):
    def _refuse(self, code: str) -> tuple[int, str]:
        return super()._refuse("PLAYER_BLOCKED" if self.broken else code)


class _Forgetful(PlainWallet):
    def _forget(self) -> None:
        with self._transaction():
            for table in ("calls", "bets", "postings"):
                self._database.execute(f"DELETE FROM {table}")


@wrong("keeps processed calls in memory, and a restart loses them", must="B08", may="H06")
class ForgetsWhenRestarted(_Forgetful):
    def restarted(self) -> None:
        self._forget()


@wrong("prunes calls and bets after a month", must="B11", may="H06")
class ForgetsAfterAMonth(_Forgetful):
    def days_passed(self, days: int) -> None:
        if days > 30:
            self._forget()


@wrong("compares ids without regard to case", must="B09", may="F07")
class IdsFolded(PlainWallet):
    def _case(self, call: Call) -> Case:
        bet_id, tx_id = (value and value.casefold() for value in (call.bet_id, call.tx_id))
        return super()._case(replace(call, bet_id=bet_id, tx_id=tx_id))


@wrong("trims ids", must="B09")
class IdsTrimmed(PlainWallet):
    def _read_id(self, value: object, longest: int) -> str:
        return super()._read_id(value, longest).strip()


@wrong("credits every deposit of a bet that has a tx_id of its own", must="B10", may="A03 D09")
class PaysEachTxId(PlainWallet):
    def _deposit(self, case: Case) -> str:
        outcome = super()._deposit(case)
        if outcome != "BET_ALREADY_CLOSED" or case.bet is None or case.bet.state != "CLOSED":
            return outcome
        self._move(case, case.bet.player_id, case.call.cents)
        self._remember(case.call)
        return SUCCESS


@wrong("debits every withdraw of a bet that has a tx_id of its own", must="B12", may="D09")
class BetIdNotUnique(PlainWallet):
    def _withdraw(self, case: Case) -> str:
        outcome = super()._withdraw(case)
        if outcome != "DUPLICATE_TRANSACTION" or self._refusal(case) is not None:
            return outcome
        self._move(case, case.call.player_id, -case.call.cents)
        self._remember(case.call)
        return SUCCESS


@wrong("uses the bet alone as key, so that one tx_id debits twice", must="B13", may="C02 C11")
class KeyedOnTheBetAlone(PlainWallet):
    def _identity(self, call: Call) -> tuple[str, str | None]:
        return (call.operation, call.bet_id) if call.operation == "withdraw" else super()._identity(call)


@wrong("checks whether the player may bet before it checks whether the withdraw is known", must="B14")
class BlockedBeforeTheRepeat(PlainWallet):
    def _withdraw(self, case: Case) -> str:
        outcome = super()._withdraw(case)
        # A repeat that would be a SUCCESS; what is new has been asked already.
        return outcome if case.bet is None or outcome != SUCCESS or self._may_bet(case) else "PLAYER_BLOCKED"


@wrong("treats a call with other bytes as another call", must="B15")
class BytesCompared(PlainWallet):
    def _content(self, call: Call) -> str:
        return super()._content(call) if call.operation == "rollback" else call.digest


@wrong("gives deposits in a batch other tx_ids, and so recognises none that came alone", must="B15")
class BatchHasItsOwnIds(PlainWallet):
    def _read(self, operation: str, document: object, body: bytes) -> Call:
        call = super()._read(operation, document, body)
        return call if body else _InABatch(**vars(call))

    def _identity(self, call: Call) -> tuple[str, str | None]:
        return ("batch", call.tx_id) if isinstance(call, _InABatch) else super()._identity(call)


class _InABatch(Call):
    """A deposit that came in a batch."""


@wrong("closes the bet that a jackpot names", must="B16")
class JackpotClosesTheBet(PlainWallet):
    def _claim(self, case: Case) -> str:
        bet = self._find_bet(self._bet_key(case.call))
        if bet is not None and bet.state == "OPEN":
            self._set_state(bet, "CLOSED")
        return super()._claim(case)


@wrong("treats a known tx_id with another bet as a repeat", must="B13")
class WithdrawOfAnyBetIsARepeat(PlainWallet):
    def _content(self, call: Call) -> str:
        if call.operation != "withdraw":
            return super()._content(call)
        return json.dumps([call.player_id, call.action, call.cents])

    def _place(self, case: Case) -> str:
        return SUCCESS if case.is_repeat else super()._place(case)


@wrong("gives a jackpot the same generated tx_id as its bet's deposit", must="B16")
class JackpotTakenForTheDeposit(PlainWallet):
    def _derived_tx_id(self, call: Call, bet: Bet | None) -> str:
        return f"deposit:{call.bet_id}" if call.operation == "deposit" else super()._derived_tx_id(call, bet)
