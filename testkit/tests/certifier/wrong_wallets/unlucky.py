"""Wallets that go wrong now and then, or in a way that another mistake seems to explain."""

import contextlib
from dataclasses import replace
from typing import Any

from wallet_by_hand import PATHS, SUCCESS, Bet, Case, InvalidRequestError, PlainWallet, Reply

from testkit.tests.certifier.wrong_wallets.registry import BAD_GATEWAY, Answered, Counting, is_alone, wrong

_LEAST_CENTS = 100


@wrong("credits nothing for every ninth deposit, and says SUCCESS", must="G04", may="*", operations=300)
class CreditsNothingNowAndThen(Counting):
    def _settle(self, case: Case, bet: Bet) -> None:
        if case.call.cents and self.is_unlucky(9):
            case = replace(case, call=replace(case.call, cents=0))
        super()._settle(case, bet)


@wrong("answers SUCCESS to every fifteenth movement, and rolls it back", must="G01", may="*")
class RollsBackNowAndThen(Counting):
    def _reply(self, case: Case, outcome: str) -> Reply:
        reply = super()._reply(case, outcome)
        if outcome == SUCCESS and case.call.operation != "player-balance" and self.is_unlucky(15):
            self._database.execute("ROLLBACK")
            self._database.execute("BEGIN IMMEDIATE")
        return reply


@wrong("refuses every twelfth bet as unreadable", must="G01", may="*")
class RefusesNowAndThen(Counting):
    def _place(self, case: Case) -> str:
        return "INVALID_REQUEST" if self.is_unlucky(12) else super()._place(case)


@wrong("carries a call out, and verifies its signature then", must="E01", may="E02 E03 E04 E06 E12")
class VerifiesTooLate(PlainWallet):
    def _answer(self, path: str, headers: list[tuple[str, str]], body: bytes) -> tuple[int, str]:
        if path in PATHS and not self._is_authentic(headers, body):
            with contextlib.suppress(InvalidRequestError):
                self._carry_out(self._read(PATHS[path], self._parse(body), body))
        return super()._answer(path, headers, body)


@wrong("refuses bets of less than 1.00 as unreadable", must="G01", may="B04 F03 F13 G04")
class RefusesSmallBets(PlainWallet):
    def _place(self, case: Case) -> str:
        return "INVALID_REQUEST" if case.call.cents < _LEAST_CENTS else super()._place(case)


@wrong("declines every seventh bet among others, for lack of money", must="D05", may="*")
class DeclinesTheOvertaken(Counting):
    def _has_funds(self, case: Case) -> bool:
        return super()._has_funds(case) and (is_alone() or not self.is_unlucky(7))


@wrong("commits every tenth credit without its record, and fails", must="G04", may="*", operations=300)
class CreditsAndFails(Counting):
    def _settle(self, case: Case, bet: Bet) -> None:
        if not case.call.cents or not self.is_unlucky(10):
            super()._settle(case, bet)
            return
        self._move(case, bet.player_id, case.call.cents)
        self._database.execute("DELETE FROM postings WHERE operation = 'deposit' AND tx_id = ?", (case.call.tx_id,))
        self._database.execute("COMMIT")
        raise RuntimeError("after the money moved")


@wrong("looks bets up with LIKE", must="F08")
class LooksUpWithLike(PlainWallet):
    def _find_bet(self, bet_id: str) -> Bet | None:
        self._database.execute("PRAGMA case_sensitive_like = ON")
        row = self._database.execute(
            "SELECT * FROM bets WHERE ? LIKE bet_id OR bet_id LIKE ?", (bet_id, bet_id)
        ).fetchone()
        return Bet(*row) if row else None


@wrong("keeps the tx_ids of forged deposits, and refuses them for good", must="E01", may="E02 E06 E12")
class KeepsForgeries(PlainWallet):
    def _answer(self, path: str, headers: list[tuple[str, str]], body: bytes) -> tuple[int, str]:
        forged: set[str] = self.__dict__.setdefault("_forged", set())
        if path != "/deposit":
            return super()._answer(path, headers, body)
        document = self._parse(body) if body.startswith(b"{") and body.endswith(b"}") else {}
        tx_id = str(document.get("tx_id")) if isinstance(document, dict) else ""
        if not self._is_authentic(headers, body):
            forged.add(tx_id)
        return self._refuse("INVALID_SIGNATURE") if tx_id in forged else super()._answer(path, headers, body)


@wrong("answers each repeat of a bet with a page of an error", must="B01", may="*")
class FailsAtRepeats(PlainWallet):
    def _withdraw(self, case: Case) -> str:
        if case.is_repeat:
            raise RuntimeError("a unique constraint is violated")
        return super()._withdraw(case)

    def handle(self, *request: Any) -> Answered:
        answered = super().handle(*request)
        return BAD_GATEWAY if b"SYSTEM_ERROR" in answered[2] else answered


@wrong("returns a repeat's balance of now with the time of its first answer", must="B03", may="*")
class MixesBalanceAndTime(PlainWallet):
    def _reply(self, case: Case, outcome: str) -> Reply:
        reply = super()._reply(case, outcome)
        if outcome != SUCCESS or case.call.operation == "player-balance":
            return reply
        first: dict[object, int | None] = self.__dict__.setdefault("_first_times", {})
        return replace(reply, at_millis=first.setdefault(self._identity(case.call), reply.at_millis))


@wrong("does not find every eleventh bet that is settled among others", must="D05", may="*")
class FindsNoBetMeanwhile(Counting):
    def _deposit(self, case: Case) -> str:
        is_missed = not is_alone() and not case.is_repeat and self.is_unlucky(11)
        return "BET_NOT_FOUND" if is_missed else super()._deposit(case)
