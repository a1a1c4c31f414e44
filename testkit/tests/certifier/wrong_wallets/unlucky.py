"""Wallets that go wrong now and then, or in a way that another mistake seems to explain."""

import contextlib
import threading
from collections.abc import Iterable
from dataclasses import replace

from wallet_by_hand import PATHS, SUCCESS, Bet, Case, InvalidRequestError, PlainWallet, Reply

from testkit.tests.certifier.wrong_wallets.registry import wrong

_LEAST_CENTS = 100


class _Counting(PlainWallet):
    """Finds every so manieth."""

    _count = 0

    def _is_unlucky(self, every: int) -> bool:
        self._count += 1
        return self._count % every == every // 2

    def _is_alone(self) -> bool:
        return threading.current_thread() is threading.main_thread()


@wrong(
    "credits nothing for every ninth deposit, and says SUCCESS",
    must="G04",
    may="*",
    operations=300,
    first="now and then",
)
class CreditsNothingNowAndThen(_Counting):
    def _settle(self, case: Case, bet: Bet) -> None:
        if case.call.cents and self._is_unlucky(9):
            case = replace(case, call=replace(case.call, cents=0))
        super()._settle(case, bet)


@wrong("answers SUCCESS to every fifteenth movement, and rolls it back", must="G01", may="*",
       first="now and then it is not committed")  # fmt: skip
class RollsBackNowAndThen(_Counting):
    def _reply(self, case: Case, outcome: str) -> Reply:
        reply = super()._reply(case, outcome)
        if outcome == SUCCESS and case.call.operation != "player-balance" and self._is_unlucky(15):
            self._database.execute("ROLLBACK")
            self._database.execute("BEGIN IMMEDIATE")
        return reply


@wrong("refuses every twelfth bet as unreadable", must="G01", may="*", first="now and then")
class RefusesNowAndThen(_Counting):
    def _place(self, case: Case) -> str:
        return "INVALID_REQUEST" if self._is_unlucky(12) else super()._place(case)


@wrong(
    "carries a call out, and verifies its signature then",
    must="E01",
    may="E02 E03 E04 E06 E12",
    first="refused, and moves",
)
class VerifiesTooLate(PlainWallet):
    def _answer(self, path: str, headers: list[tuple[str, str]], body: bytes) -> tuple[int, str]:
        if path in PATHS and not self._is_authentic(headers, body):
            with contextlib.suppress(InvalidRequestError):
                self._carry_out(self._read(PATHS[path], self._parse(body), body))
        return super()._answer(path, headers, body)


@wrong("refuses bets of less than 1.00 as unreadable", must="G01", may="B04 F03 F13 G04", first="because of its amount")
class RefusesSmallBets(PlainWallet):
    def _place(self, case: Case) -> str:
        return "INVALID_REQUEST" if case.call.cents < _LEAST_CENTS else super()._place(case)


@wrong(
    "declines every seventh bet among others, for lack of money",
    must="D05",
    may="*",
    first="lack of money that is there",
)
class DeclinesTheOvertaken(_Counting):
    def _has_funds(self, case: Case) -> bool:
        return super()._has_funds(case) and (self._is_alone() or not self._is_unlucky(7))


@wrong("does not find every eleventh bet that is settled among others", must="D05", may="*", first="accepted alone")
class FindsNoBetMeanwhile(_Counting):
    def _deposit(self, case: Case) -> str:
        is_missed = not self._is_alone() and not case.is_repeat and self._is_unlucky(11)
        return "BET_NOT_FOUND" if is_missed else super()._deposit(case)


@wrong(
    "commits every tenth credit without its record, and fails",
    must="G04",
    may="*",
    operations=300,
    first="failed has moved its money",
)
class CreditsAndFails(_Counting):
    def _settle(self, case: Case, bet: Bet) -> None:
        if not case.call.cents or not self._is_unlucky(10):
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


@wrong("keeps the tx_ids of forged deposits, and refuses them for good", must="E01", may="E02 E06 E12",
       first="refusal of a forged call is stored")  # fmt: skip
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


@wrong(
    "answers each repeat of a bet with a page of an error", must="B01", may="*", first="refused when it is sent again"
)
class FailsAtRepeats(PlainWallet):
    def _withdraw(self, case: Case) -> str:
        if case.is_repeat:
            raise RuntimeError("a unique constraint is violated")
        return super()._withdraw(case)

    def handle(
        self, method: str, path: str, headers: Iterable[tuple[str, str]], body: bytes
    ) -> tuple[int, dict[str, str], bytes]:
        status, sent, answer = super().handle(method, path, headers, body)
        return (
            (500, {"Content-Type": "text/html"}, b"<h1>500</h1>")
            if b"SYSTEM_ERROR" in answer
            else (status, sent, answer)
        )


@wrong("returns a repeat's balance of now with the time of its first answer", must="B03", may="*",
       first="with the time of its first answer")  # fmt: skip
class MixesBalanceAndTime(PlainWallet):
    def _reply(self, case: Case, outcome: str) -> Reply:
        reply = super()._reply(case, outcome)
        if outcome != SUCCESS or case.call.operation == "player-balance":
            return reply
        first: dict[object, int | None] = self.__dict__.setdefault("_first_times", {})
        return replace(reply, at_millis=first.setdefault(self._identity(case.call), reply.at_millis))
